"""What a newcomer sees first."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.conftest import Trials

pytestmark = pytest.mark.slow

DEMO = [sys.executable, "-m", "tests.demo"]
ROOT = Path(__file__).parents[2]


def test_the_demo_tells_its_story_in_a_pipe_within_20_s_and_80_columns(trials: Trials) -> None:
    """No colour, ASCII where nothing else can be said, two handovers with their times, and no overlap."""
    began = time.monotonic()
    environ = {**os.environ, "PYTHONIOENCODING": "ascii"}
    shown = subprocess.run(DEMO, cwd=ROOT, env=environ, capture_output=True, check=False)
    assert shown.returncode == 0, shown.stderr.decode()
    assert time.monotonic() - began < 20
    story = shown.stdout.decode("ascii")
    assert max(map(len, story.splitlines())) < 80
    assert "\033" not in story
    assert re.findall(r"(\w+)  LEADS", story)[0] == "ada"
    assert len(re.findall(r"\w+  LEADS", story)) == 3
    assert len(re.findall(r"-> \w+'s worker runs +[\d.]+ m?s$", story, re.MULTILINE)) == 2
    assert re.search(r"^ada +\.*#+x$", story, re.MULTILINE)
    assert "0 of 2 handovers" in story.splitlines()[-1]
    jobs = [int(number) for line in re.findall(r"jobs ([\d ]+)", story) for number in line.split()]
    assert jobs == sorted(set(jobs)), "one line of work goes on from leader to leader"
    trials.count(2, "handovers in the demo")


@pytest.mark.parametrize(("environ", "coloured"), [({"TERM": "xterm"}, True), ({"NO_COLOR": "1"}, False)])
def test_demo_is_coloured_on_a_terminal_unless_no_color_is_set(environ: dict[str, str], *, coloured: bool) -> None:
    ours, theirs = pty.openpty()
    program = "from tests.demo.picture import Picture; Picture().leads(0, 'ada')"
    plain = {name: value for name, value in os.environ.items() if name != "NO_COLOR"}
    subprocess.run([sys.executable, "-c", program], cwd=ROOT, env=plain | environ, stdout=theirs, check=True)
    os.close(theirs)
    assert (b"\033[" in os.read(ours, 1000)) is coloured
    os.close(ours)


def test_demo_reports_an_unreachable_cluster_in_one_line(tmp_path: Path) -> None:
    environ = os.environ | {"KUBECONFIG": str(tmp_path / "missing")}
    shown = subprocess.run([*DEMO, "--lock", "lease"], cwd=ROOT, env=environ, capture_output=True, check=False)
    assert shown.returncode == 1
    assert re.fullmatch(rb"demo: error: cannot read the kubeconfig: .*\n", shown.stderr)
    assert not shown.stdout


def test_a_command_that_cannot_be_interrupted_is_left_no_candidate(tmp_path: Path) -> None:
    """TERM to the demo ends all that it started."""
    environ = os.environ | {"TMPDIR": str(tmp_path)}
    demo = subprocess.Popen(DEMO, cwd=ROOT, env=environ, stdout=subprocess.PIPE)
    assert demo.stdout is not None
    while b"LEADS" not in demo.stdout.readline():
        pass
    demo.terminate()
    demo.stdout.read()  # ends when the last process that has it does
    demo.stdout.close()
    assert demo.wait() == 143
    assert not list(tmp_path.iterdir())
