"""Candidates for the file lock, as somebody would start them."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any, Protocol

import pytest

from tests.support.processes import Process, descendants, wait_until

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.processes import Processes

KLEADER = [sys.executable, "-m", "kleader"]
IN_NAMESPACE = [
    "unshare",
    *([] if os.geteuid() == 0 else ["--map-root-user"]),
    *("--pid", "--fork", "--mount-proc", "--kill-child"),
]


class Start(Protocol):
    """Starts a candidate: `candidate(command, "--restart=always", name="a")`."""

    def __call__(self, command: list[str], *options: str, **more: Any) -> Process: ...  # noqa: ANN401


@pytest.fixture
def lock(tmp_path: Path) -> Path:
    return tmp_path / "the.lock"


@pytest.fixture
def candidate(processes: Processes, lock: Path) -> Start:
    def start(command: list[str], *options: str, **more: Any) -> Process:  # noqa: ANN401
        before = more.pop("before", [])
        identity = [f"--identity={more['name']}"] if "name" in more else []
        argv = [*before, *KLEADER, "run", f"--lock=file:{lock}", "--name=t", *identity, *options, "--", *command]
        return processes.start(argv, **more)

    return start


@pytest.fixture
def alone(processes: Processes) -> Start:
    def start(command: list[str], *options: str, **more: Any) -> Process:  # noqa: ANN401
        argv = [*more.pop("before", []), *KLEADER, "run", "--leader-elect=false", *options, "--", *command]
        return processes.start(argv, **more)

    return start


def as_pid_1(process: Process) -> int:
    """The pid, out here, of what runs as PID 1 below this `unshare`, once it is there."""
    wait_until(lambda: descendants(process.pid), "the namespace's PID 1")
    return descendants(process.pid)[0]


def guard_of(candidate: Process) -> int:
    """The pid of its guard."""

    def guards() -> list[int]:
        return [pid for pid in descendants(candidate.pid) if os.getsid(pid) == pid and "supervise" in _words(pid)]

    wait_until(guards, "a guard")
    return guards()[0]


def _words(pid: int) -> list[str]:
    try:
        with open(f"/proc/{pid}/cmdline", encoding="utf-8", errors="replace") as file:  # noqa: PTH123
            return file.read().split("\0")
    except OSError:
        return []
