"""Nothing of the command is alive when the killer itself fails, or Python lacks what it would use."""

from __future__ import annotations

import os
import signal
import time
from typing import TYPE_CHECKING

from kleader import system
from kleader.procs import last_resort
from kleader.procs.process_tracker import ProcessTracker
from tests.process.conftest import lead
from tests.support import cgroups
from tests.support.processes import alive, wait_gone, wait_until

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from tests.process.conftest import Heard, Scripted
    from tests.support.processes import Processes

# One in the command's process group, one in a session of its own, and one that nobody is the parent of.
COMMAND = [
    "sh",
    "-c",
    "trap '' TERM; sleep 600 & echo $!; setsid sleep 600 & echo $!; (setsid sleep 600 & echo $!); wait",
]


def test_a_python_built_without_pidfd_open_and_memfd_create_kills_the_whole_tree(
    scripted: Scripted, heard: Heard
) -> None:
    """Those are missing from a Python that was built against kernel headers from before 5.3."""
    script = [[0, "acquired", lead(600, 600)]]
    kleader = scripted(COMMAND, script, "--stop-timeout=0s", fault="an old Python")
    wait_until(lambda: kleader.out.count("\n") == 3, "its tree")
    kleader.signal(signal.SIGTERM)
    assert kleader.wait() == 128 + signal.SIGKILL
    assert not any(alive(int(pid)) for pid in kleader.out.split())
    assert "internal error" not in kleader.err
    assert [said["release"] for said in heard("AllProcessesExited")] == [True]


def test_the_last_resort_kills_the_tree_when_the_killer_has_no_memory(
    scripted: Scripted, heard: Heard, tmp_path: Path
) -> None:
    flag = tmp_path / "renewed"
    script = [[0, "acquired", lead(600, 600)], [str(flag), "renewed", {"stop_at": 601, "kill_at": 601}]]
    kleader = scripted(COMMAND, script, fault="no killer")
    wait_until(lambda: kleader.out.count("\n") == 3, "its tree")
    flag.touch()
    assert kleader.wait() == 125
    assert not any(alive(int(pid)) for pid in kleader.out.split())
    assert heard("AllProcessesExited") == [], "nothing is released"


def test_the_last_resort_kills_no_process_that_was_there_before_kleader(scripted: Scripted, tmp_path: Path) -> None:
    """As in `helper & exec kleader run …`: it is a child of kleader, as the command is."""
    flag, pid = tmp_path / "renewed", tmp_path / "pid"
    script = [[0, "acquired", lead(600, 600)], [str(flag), "renewed", {"stop_at": 601, "kill_at": 601}]]
    helper = ["sh", "-c", f'sleep 600 & echo $! >{pid}; exec "$@"', "-"]
    kleader = scripted(COMMAND, script, fault="no killer", before=helper)
    wait_until(lambda: kleader.out.count("\n") == 3, "its tree")
    flag.touch()
    assert kleader.wait() == 125
    assert not any(alive(int(each)) for each in kleader.out.split())
    assert alive(int(pid.read_text()))
    os.kill(int(pid.read_text()), signal.SIGKILL)


if cgroups.may_be_made():

    def test_processes_that_survive_kill_at_die_with_kleaders_cgroup(scripted: Scripted) -> None:
        """Here for lack of permission. So does kleader itself, and releases nothing."""
        with cgroups.made() as cgroup:
            kleader = scripted(COMMAND, [[0, "acquired", lead(5, 5)]], before=cgroup.join, fault="may not kill")
            assert kleader.wait() == -signal.SIGKILL
            wait_until(lambda: not cgroup.pids, "the end of all in it")
            assert kleader.out.count("\n") == 3


def test_the_elector_kills_the_commands_group_when_its_killer_fails(
    processes: Processes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its supervisor is dead, and no other process can do it. A process with another start time is another process."""
    command = processes.start(["setsid", "sh", "-c", "sleep 600 & echo $!; wait"])
    wait_until(lambda: "\n" in command.out, "the command")
    tracker = ProcessTracker(1, -1, "KLEADER_TERM_none")
    found = system.process(command.pid)
    assert found
    tracker.add(command.pid, found.start)
    other = processes.start(["sleep", "600"])
    tracker.add(other.pid, found.start - 1)
    failures: list[int] = []

    def fails() -> list[system.Process]:
        failures.append(1)
        if len(failures) < 3:
            raise AttributeError
        return []

    monkeypatch.setattr(tracker, "_find", fails)
    assert tracker.kill_until_none()
    wait_gone(command.pid, int(command.out))
    other.signal(signal.SIGTERM)
    assert other.wait() == -signal.SIGTERM, "SIGKILL was not sent before"


def test_last_resort_continues_after_any_exception_and_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """With nothing that it could list there is nothing more that it could kill: another guard acts."""
    sent: list[int] = []

    def fails(*_: object) -> int:
        raise MemoryError

    monkeypatch.setattr(last_resort, "_children", fails)
    monkeypatch.setattr(last_resort, "_is_child", lambda _pid: True)
    monkeypatch.setattr(os, "getpgid", fails)
    monkeypatch.setattr(os, "kill", lambda pid, _number: sent.append(pid))
    monkeypatch.setattr(time, "sleep", fails)
    last_resort.kill_children(99_999_999, ())
    assert sent == [99_999_999]
    monkeypatch.setattr(last_resort, "_start", fails)
    last_resort.kill_known({99_999_999: 1}, 0)
    assert sent == [99_999_999]
