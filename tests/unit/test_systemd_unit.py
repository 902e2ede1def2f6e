"""The unit of systemd in kleader-operations(7), and the lines of it in the README."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from kleader.cli.workload import grace_period
from tests.conftest import untried
from tests.unit.test_cli import invoke, parse  # noqa: F401 - a fixture is known where it is imported

if TYPE_CHECKING:
    from collections.abc import Callable

    from kleader.ipc.plan import Plan

    Parse = Callable[..., Plan]

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "man" / "kleader-operations.7").read_text("utf-8")
UNIT = "[Unit]" + PAGE.partition("\n[Unit]")[2].partition("\n.Ed\n")[0].replace("\\e\n    ", "") + "\n"
LINES = dict(line.split("=", 1) for line in UNIT.splitlines() if "=" in line)
ANALYZE = shutil.which("systemd-analyze")
if not ANALYZE:
    untried.append("the unit, by systemd: apt-get install systemd")


def test_the_unit_of_the_readme_is_that_of_the_page() -> None:
    (readme,) = re.findall(r"```ini\n(\[Service\]\n.*?)```", (ROOT / "README.md").read_text("utf-8"), re.DOTALL)
    assert readme in UNIT


def test_systemd_gives_the_unit_the_time_that_a_stop_and_a_release_need(parse: Parse) -> None:  # noqa: F811 - the fixture
    words = shlex.split(LINES["ExecStart"])[2:]
    command = words.index("--") + 1
    plan = parse(*words[:command], "true")
    assert int(LINES["TimeoutStopSec"]) == grace_period(plan)


def test_the_page_explains_each_line_of_the_unit_that_kleader_depends_on() -> None:
    explained = set(re.findall(r"\b(\w+)=", " ".join(re.findall(r"^\.It Li (.*)$", PAGE, re.MULTILINE))))
    service = UNIT.partition("[Service]\n")[2].partition("[Install]")[0]
    assert set(re.findall(r"^(\w+)=", service, re.MULTILINE)) - {"ExecStart", "WorkingDirectory"} == explained


def test_systemd_finds_no_fault_in_the_unit(tmp_path: Path) -> None:
    """Where it is installed; the summary says where it is not."""
    unit = tmp_path / "feed.service"
    unit.write_text(UNIT.replace("/usr/local/bin/kleader", sys.executable))
    if ANALYZE:
        argv = [ANALYZE, "verify", "--man=no", str(unit)]
        told = subprocess.run(argv, capture_output=True, text=True, check=False).stderr
        assert not [line for line in told.splitlines() if unit.name in line]
