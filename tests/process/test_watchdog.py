"""A supervisor that is stopped: its elector kills in its place, before the kernel kills the supervisor."""

from __future__ import annotations

import signal
import sys
from typing import TYPE_CHECKING

import pytest

from tests.process.test_file_lock import stop
from tests.support.processes import alive, descendants, wait_gone, wait_until

if TYPE_CHECKING:
    from tests.support.processes import Processes

# Leaves a daemon with an environment of its own, as sudo's are.
COMMAND = """
import os, signal
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        print(os.getpid(), flush=True)
        os.execve("/bin/sleep", ["sleep", "600"], {})
    os._exit(0)
os.wait()
signal.pause()
"""


@pytest.mark.slow
def test_the_last_daemon_of_a_stopped_supervisor_dies_before_the_supervisor(processes: Processes) -> None:
    """It cannot be found once its parent is init: it has no marker, and is younger than the last scan."""
    command = [sys.executable, "-I", "-S", "-c", COMMAND]
    kleader = processes.start([sys.executable, "-m", "tests.process.unrivalled", *command])
    wait_until(lambda: "\n" in kleader.out, "the daemon")
    below = descendants(kleader.pid)
    stop(kleader.pid)
    assert kleader.wait() == -signal.SIGKILL
    assert not alive(int(kleader.out))
    wait_gone(*below)
