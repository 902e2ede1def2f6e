"""One Lease shared by kleader and two real client-go candidates."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

from tests.cluster.fleet import Fleet, kill_whole
from tests.support.clientgo import complaints

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.conftest import Trials
    from tests.support.plane import Plane
    from tests.support.processes import Process, Processes

SLOW_TO_DIE = ("--term-delay=0.2",)
HANDOVERS = 10


class Mixed:
    """Starts and stops candidates of both kinds, and keeps their logs."""

    def __init__(self, plane: Plane, fleet: Fleet, processes: Processes, clientgo: Callable[..., list[str]]) -> None:
        self._plane, self._fleet, self._processes, self._argv = plane, fleet, processes, clientgo
        self.witness = fleet.witness
        self.running: dict[str, Process] = {}
        self.clientgo: list[Process] = []

    def kleader(self, behind: str) -> None:
        self.running["kleader"] = self._fleet.waiting("kleader", behind=behind, does=SLOW_TO_DIE)

    def go(self, identity: str) -> None:
        fleet = self._fleet
        config = self._plane.kubeconfig(self._plane.new_user(), fleet.namespace)
        argv = self._argv(
            *(config, fleet.namespace, fleet.name, identity, fleet.witness.command(*SLOW_TO_DIE)),
            lease_duration="5s",
            renew_deadline="3s",
            retry_period="1s",
            stop_first=True,
        )
        self.running[identity] = self._processes.start(argv, name=identity)
        self.clientgo.append(self.running[identity])

    def complaints(self) -> list[str]:
        return [line for process in self.clientgo for line in complaints(process.err)]


def test_ten_handovers_in_both_directions(
    plane: Plane, fleet: Fleet, processes: Processes, clientgo: Callable[..., list[str]], trials: Trials
) -> None:
    """From client-go to kleader and back, five times each: no overlap, and no complaint in the logs of client-go."""
    mixed = Mixed(plane, fleet, processes, clientgo)
    mixed.go("go-1")
    leader = fleet.witness.wait_start().identity
    mixed.go("go-2")
    for number in range(HANDOVERS):
        if "kleader" not in mixed.running:
            mixed.kleader(behind=leader)
        stopped = mixed.running.pop(leader)
        stopped.signal(signal.SIGTERM)
        assert stopped.wait() == 0
        before, leader = leader, fleet.witness.wait_start(number + 2).identity
        assert "kleader" in {before, leader}, "kleader is on one side of each"
        if before != "kleader":
            mixed.go(before)
    fleet.witness.check(terms=HANDOVERS + 1)
    assert fleet.spec()["leaseTransitions"] == HANDOVERS
    assert mixed.complaints() == []
    trials.count(HANDOVERS, "handovers between kleader and client-go")


def test_crashes_in_both_directions(
    plane: Plane, fleet: Fleet, processes: Processes, clientgo: Callable[..., list[str]], trials: Trials
) -> None:
    mixed = Mixed(plane, fleet, processes, clientgo)
    mixed.go("go-1")
    fleet.witness.wait_start()
    mixed.kleader(behind="go-1")
    kill_whole(mixed.running["go-1"])
    assert fleet.witness.wait_start(2).identity == "kleader"
    mixed.go("go-2")
    mixed.running["go-2"].wait_err("leader: kleader")
    kill_whole(mixed.running["kleader"])
    assert fleet.witness.wait_start(3).identity == "go-2"
    fleet.witness.check(terms=3)
    trials.count(2, "crashes between kleader and client-go")
