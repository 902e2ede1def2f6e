"""The rounds of the one killer."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from kleader import system
from kleader.procs import killer
from kleader.procs.process_tracker import ProcessTracker
from tests.support.processes import wait_until

if TYPE_CHECKING:
    import pytest

    from tests.support.processes import Processes


def test_a_scan_longer_than_the_attempt_can_prove_a_tree_empty(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As with thousands of processes on a busy machine: each attempt ended before its second look, for ever."""
    clock = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])

    def look() -> list[system.Process]:
        clock[0] += 1
        return []

    assert killer.kill_until_none(look, 0.1)


def test_an_attempt_ends_even_if_each_scan_finds_new_zombies(monkeypatch: pytest.MonkeyPatch) -> None:
    """As of a chain of processes that each start the next and exit: the next means is tried, such as cgroup.kill."""
    pids = iter(range(2, 100))
    clock = iter(range(1000))
    monkeypatch.setattr(time, "monotonic", lambda: next(clock))
    assert not killer.kill_until_none(lambda: [system.Process(next(pids), 1, 1, "Z", 1, 1)], 10)


def test_processes_found_while_killing_are_known_to_the_last_resort(processes: Processes) -> None:
    process = processes.start(["sh", "-c", "sleep 600 & echo $!; wait"])
    wait_until(lambda: "\n" in process.out, "the command")
    supervisor = system.process(process.pid)
    assert supervisor
    tracker = ProcessTracker(supervisor.pid, supervisor.start, "KLEADER_TERM_none")
    tracker.add(1, -1)
    tracker.kill_below_supervisor(0)
    assert int(process.out) in tracker._known
