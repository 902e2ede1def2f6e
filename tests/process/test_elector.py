"""The elector as a process: its session, its priority, its end and its replacement."""

from __future__ import annotations

import os
import re
import signal
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.process.conftest import KLEADER, may_take_priority, words
from tests.support.processes import Process, alive, descendants, wait_gone, wait_until

if TYPE_CHECKING:
    from tests.support.processes import Processes

pytestmark = pytest.mark.slow


@pytest.fixture
def candidate(processes: Processes) -> Process:
    """One that has no API server to reach."""
    return processes.start([*KLEADER, "run", "--name=jobs", "-s", "https://127.0.0.1:1", "--", "true"])


def elector_of(candidate: Process) -> int:
    """The pid of its elector, once that has tried to reach the API server."""
    candidate.wait_err("127.0.0.1:1")
    (elector,) = [pid for pid in descendants(candidate.pid) if "elect" in words(pid)]
    return elector


def test_elector_does_not_outlive_its_supervisor(candidate: Process) -> None:
    elector = elector_of(candidate)
    candidate.kill()
    wait_gone(elector)


def test_elector_has_a_session_of_its_own_and_ignores_signals(candidate: Process) -> None:
    """A TERM to all of a group or a Ctrl-C must not hit both processes; it ends by its link."""
    elector = elector_of(candidate)
    assert os.getsid(elector) == elector
    status = Path(f"/proc/{elector}/status").read_text()
    ignored = int(re.findall(r"^SigIgn:\s+(\w+)", status, re.MULTILINE)[0], 16)
    heard = {number for number in signal.valid_signals() if not ignored & 1 << (number - 1)}
    assert heard <= {signal.SIGKILL, signal.SIGSTOP, signal.SIGCHLD}


def test_the_supervisor_has_priority_over_the_elector_and_that_over_the_command(candidate: Process) -> None:
    """Else a fork bomb keeps the elector from renewing, and from killing the command in the supervisor's place."""
    elector = elector_of(candidate)
    priorities = [os.sched_getparam(pid).sched_priority for pid in (candidate.pid, elector)]
    assert priorities == ([2, 1] if may_take_priority() else [0, 0])


def test_stopped_elector_is_killed_and_replaced(candidate: Process) -> None:
    elector = elector_of(candidate)
    os.kill(elector, signal.SIGSTOP)
    candidate.wait_log("elector_stopped")
    wait_gone(elector)
    wait_until(lambda: [pid for pid in descendants(candidate.pid) if alive(pid)], "another")
