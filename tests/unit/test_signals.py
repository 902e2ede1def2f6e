"""Taking signals is bounded, however many wait and however long the kernel takes over each."""

from __future__ import annotations

import subprocess
import sys

_BEFORE = """
import os, signal
from itertools import count
from kleader.system import linux
me, much = os.getpid(), signal.SIGRTMIN
queue = linux.Signals({much, signal.SIGCHLD, signal.SIGTERM}, set())
for _ in range(50):
    os.kill(me, much)
"""


def run(script: str) -> str:
    """What it prints, in a process of its own: the signals must not be pytest's."""
    return subprocess.run(
        [sys.executable, "-c", _BEFORE + script], capture_output=True, text=True, check=True, timeout=30
    ).stdout


def test_a_read_ends_after_five_milliseconds_though_more_signals_wait() -> None:
    script = """
ticks = count()
linux.clock = lambda: next(ticks) / 500
print([len(queue.read()) for _ in range(3)])
"""
    assert run(script) == "[2, 2, 2]\n"


def test_sigchld_is_read_once_however_many_children_die() -> None:
    """Else these would come first, one after the other, and nothing else ever."""
    script = """
def clock():
    os.kill(me, signal.SIGCHLD)
    return 0.0
linux.clock = clock
numbers = [each.number for each in queue.read()]
print(numbers.count(signal.SIGCHLD), numbers.count(much))
"""
    assert run(script) == "1 50\n"
