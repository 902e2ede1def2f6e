"""What a newcomer sees first."""

from __future__ import annotations

import contextlib
import os
import pty
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest

from kleader.cli import demo_story
from tests.process.conftest import KLEADER
from tests.process.test_file_lock import stop
from tests.support.processes import wait_until

if TYPE_CHECKING:
    from tests.conftest import Trials
    from tests.support.processes import Processes

pytestmark = pytest.mark.slow

DEMO = [*KLEADER, "demo"]
ROOT = Path(__file__).parents[2]


@pytest.mark.source  # the standalone kleader does not read PYTHONIOENCODING
def test_the_demo_fits_20_s_and_80_columns_in_a_pipe(trials: Trials) -> None:
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
    program = "from kleader.cli.demo_picture import Picture; Picture().event(0, 'ada', '')"
    plain = {name: value for name, value in os.environ.items() if name != "NO_COLOR"}
    subprocess.run([sys.executable, "-c", program], cwd=ROOT, env=plain | environ, stdout=theirs, check=True)
    os.close(theirs)
    assert (b"\033[" in os.read(ours, 1000)) is coloured
    os.close(ours)


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupted_demo_leaves_no_process_and_no_file(tmp_path: Path, number: int, status: int) -> None:
    environ = os.environ | {"TMPDIR": str(tmp_path)}
    demo = subprocess.Popen(DEMO, cwd=ROOT, env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert demo.stdout is not None
    while b"wait" not in demo.stdout.readline():
        pass
    assert len(processes_of(tmp_path)) > 4
    demo.send_signal(number)
    _, err = demo.communicate()
    assert demo.returncode == status
    assert not err
    assert not processes_of(tmp_path)
    assert not list(tmp_path.iterdir())


@pytest.mark.linux  # macOS has no sigtimedwait
def test_a_demo_s_worker_takes_no_stop_for_a_signal(processes: Processes, tmp_path: Path) -> None:
    """After a stop that lasts beyond the time of a wait, CPython's sigtimedwait returns the data of no signal."""
    worker = processes.start([sys.executable, "-I", "-S", demo_story._WORKER, tmp_path, "ada"])
    wait_until(lambda: "job 1" in worker.out, "the first job")
    stop(worker.pid)
    time.sleep(1)  # the worker waits for 0.4 s
    worker.signal(signal.SIGCONT)
    wait_until(lambda: "job 3" in worker.out or "end" in worker.out, "two more jobs")
    assert "end" not in worker.out


def processes_of(directory: Path) -> list[str]:
    """The living processes with this TMPDIR."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.environ().get("TMPDIR") == str(directory) and process.status() != psutil.STATUS_ZOMBIE:
                found.append(" ".join(process.cmdline()))
    return found
