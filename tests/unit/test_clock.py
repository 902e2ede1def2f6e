"""The clock on which everything is decided goes on while the machine sleeps, and so do the timers on it.

A time namespace, whose machine has slept for a day, shows it: there CLOCK_BOOTTIME is that much ahead of the others.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.processes import PATIENCE

DAY = 86_400
HERE = str(Path(__file__).parents[2])
HEAD = f"import sys; sys.path.insert(0, {HERE!r}); import select, time; from kleader import system\n"
ROOT = [] if os.geteuid() == 0 else ["--map-root-user"]
SLEPT = ["unshare", *ROOT, "--time", "--boottime", str(DAY), sys.executable, "-I", "-S", "-c"]


@pytest.mark.parametrize("ahead", [0.0, 0.05])
def test_a_timer_runs_on_the_clock(ahead: float) -> None:
    code = f"timer = system.Timer(); timer.arm(system.clock() * bool({ahead}) + {ahead}); poll = select.poll();"
    code += f"poll.register(timer.fd, select.POLLIN); print(len(poll.poll({int(PATIENCE * 1000)})))"
    assert subprocess.run([*SLEPT, HEAD + code], capture_output=True, check=True).stdout == b"1\n"


@pytest.mark.parametrize("ahead", [0.0, 0.05])
def test_the_kernels_kill_timer_runs_on_the_clock(ahead: float) -> None:
    """At once where its instant is before all others: 0 would disarm it."""
    code = f"system.KillTimer().arm(system.clock() * bool({ahead}) + {ahead}); time.sleep({PATIENCE})"
    assert subprocess.run([*SLEPT, HEAD + code], check=False).returncode == -signal.SIGKILL


def test_a_kill_timer_that_the_kernel_refuses_names_the_limit() -> None:
    """A user's queue of signals is full: kleader does not start without the timer."""
    code = "import resource; resource.setrlimit(resource.RLIMIT_SIGPENDING, (0, 0)); system.KillTimer()"
    done = subprocess.run([sys.executable, "-I", "-S", "-c", HEAD + code], capture_output=True, text=True, check=False)
    assert "see ulimit -i (pending signals)" in done.stderr


def test_the_clock_counts_a_suspend() -> None:
    done = subprocess.run([*SLEPT, HEAD + "print(system.clock() - time.monotonic())"], capture_output=True, check=True)
    assert float(done.stdout) > DAY - 1
