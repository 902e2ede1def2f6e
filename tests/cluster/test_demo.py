"""The demo on a cluster that is there already."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from tests.support.api import path
from tests.support.processes import PATIENCE

if TYPE_CHECKING:
    from tests.conftest import Trials
    from tests.support.plane import Plane


def test_the_demo_deletes_its_objects_from_the_cluster(plane: Plane, namespace: str, trials: Trials) -> None:
    """It uses the context's namespace and a name of its own, waits out the dead leader's Lease, and cleans up."""
    shown = subprocess.run(
        [sys.executable, "-m", "tests.demo"],
        cwd=Path(__file__).parents[2],
        env=os.environ | {"KUBECONFIG": str(plane.kubeconfig("admin", namespace))},
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
    )
    assert shown.returncode == 0, shown.stderr
    assert f"{namespace}/kleader-demo-" in shown.stdout
    assert re.search(r"Lease expired → \w+'s worker runs +[\d.]+ m?s$", shown.stdout, re.MULTILINE)
    assert "0 of 2 handovers" in shown.stdout
    assert max(map(len, shown.stdout.splitlines())) < 81
    assert plane.api.list(path("coordination.k8s.io/v1", "Lease", namespace)) == []
    trials.count(2, "handovers in the demo")
