"""kleader is upgraded on a busy machine while a fleet runs: no overlap, and a run without an elector ends in order."""

from __future__ import annotations

import os
import signal
import sys
from typing import TYPE_CHECKING

import pytest

from tests.cluster.fleet import DEFAULTS, LOST, elector
from tests.support.processes import wait_gone
from tests.support.upgrade import Installed

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cluster.fleet import Fleet
    from tests.conftest import Trials
    from tests.support.processes import Processes


@pytest.mark.parametrize("fate", ["dies", "lives on"])
def test_a_leader_hands_over_to_the_upgraded_version(
    fleet: Fleet, processes: Processes, trials: Trials, tmp_path: Path, fate: str
) -> None:
    """Without an elector it stops its command at once and lets the lease expire; with one it leads on, and releases."""
    installed = Installed(tmp_path / "lib")
    leader = fleet.start("old", timings=DEFAULTS, cwd=installed.place)
    term = fleet.witness.wait_start()
    for _ in range(os.cpu_count() or 1):
        processes.start(["nice", sys.executable, "-c", "while True: pass"])
    installed.upgrade()
    if fate == "dies":
        os.kill(elector(leader), signal.SIGKILL)
        leader.wait_log("version_changed", "cannot start an elector")
    fleet.waiting("new", behind="old", timings=DEFAULTS, cwd=installed.place)
    if fate == "dies":
        assert leader.wait() == LOST
        assert leader.logged("command_stopping", "SIGTERM")
    else:
        fleet.wait_renewals(2)
        leader.signal(signal.SIGTERM)
        assert leader.wait() == 0
        assert leader.logged("released")
    wait_gone(term.pid)
    assert fleet.witness.wait_start(2).identity == "new"
    fleet.witness.check(terms=2)
    trials.count(1, "upgrades under a running leader")
