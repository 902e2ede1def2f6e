"""One Lease shared by kleader and two real client-go candidates."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

from tests.cluster.fleet import PATIENT, SHORT, Fleet, kill_whole
from tests.support.clientgo import complaints
from tests.support.processes import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tests.conftest import Trials
    from tests.support.plane import Plane
    from tests.support.processes import Process, Processes

SLOW_TO_DIE = ("--term-delay=0.2",)
HANDOVERS = 10
SLOW = ("30s", "20s")  # client-go's lease duration and renew deadline, where nothing is to run out


class Mixed:
    """Starts and stops candidates of both kinds, and keeps their logs."""

    def __init__(self, plane: Plane, fleet: Fleet, processes: Processes, clientgo: Callable[..., list[str]]) -> None:
        self._plane, self._fleet, self._processes, self._argv = plane, fleet, processes, clientgo
        self.witness = fleet.witness
        self.running: dict[str, Process] = {}
        self.clientgo: list[Process] = []

    def kleader(self, behind: str, timings: Sequence[str]) -> None:
        self.running["kleader"] = self._fleet.waiting("kleader", behind=behind, does=SLOW_TO_DIE, timings=timings)

    def go(self, identity: str, lease_duration: str, renew_deadline: str) -> None:
        fleet = self._fleet
        config = self._plane.kubeconfig(self._plane.new_user(), fleet.namespace)
        argv = self._argv(
            *(config, fleet.namespace, fleet.name, identity, fleet.witness.command(*SLOW_TO_DIE)),
            lease_duration=lease_duration,
            renew_deadline=renew_deadline,
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
    mixed.go("go-1", *SLOW)
    leader = fleet.witness.wait_start().identity
    mixed.go("go-2", *SLOW)
    for number in range(HANDOVERS):
        if "kleader" not in mixed.running:
            mixed.kleader(behind=leader, timings=PATIENT)
        stopped = mixed.running.pop(leader)
        if leader != "kleader":  # a client-go that is ended while it renews fails to release: not until just after
            renewed = fleet.spec()["renewTime"]
            wait_until(lambda: fleet.spec()["renewTime"] != renewed, "a renewal")  # noqa: B023 - called here
        beside = [] if leader == "kleader" else [each for name, each in mixed.running.items() if name != "kleader"]
        for each in beside:  # whose poll may come first
            each.signal(signal.SIGSTOP)
        stopped.signal(signal.SIGTERM)
        assert stopped.wait() == 0
        before, leader = leader, fleet.witness.wait_start(number + 2).identity
        assert "kleader" in {before, leader}, "kleader is on one side of each"
        for each in beside:
            each.signal(signal.SIGCONT)
        if before != "kleader":
            mixed.go(before, *SLOW)
    fleet.witness.check(terms=HANDOVERS + 1)
    assert fleet.spec()["leaseTransitions"] == HANDOVERS
    assert mixed.complaints() == []
    trials.count(HANDOVERS, "handovers between kleader and client-go")


def test_crashes_in_both_directions(
    plane: Plane, fleet: Fleet, processes: Processes, clientgo: Callable[..., list[str]], trials: Trials
) -> None:
    mixed = Mixed(plane, fleet, processes, clientgo)
    mixed.go("go-1", "5s", "3s")
    fleet.witness.wait_start()
    mixed.kleader(behind="go-1", timings=SHORT)
    kill_whole(mixed.running["go-1"])
    assert fleet.witness.wait_start(2).identity == "kleader"
    mixed.go("go-2", "5s", "3s")
    mixed.running["go-2"].wait_err("leader: kleader")
    kill_whole(mixed.running["kleader"])
    assert fleet.witness.wait_start(3).identity == "go-2"
    fleet.witness.check(terms=3)
    trials.count(2, "crashes between kleader and client-go")
