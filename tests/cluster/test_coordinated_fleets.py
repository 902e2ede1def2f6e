"""Fleets of kleader's and client-go's coordinated candidates, among which the control plane nominates."""

from __future__ import annotations

import contextlib
import itertools
import signal
from typing import TYPE_CHECKING

import pytest

from tests.cluster.fleet import DEFAULTS, Fleet, kill_whole, wait_observed
from tests.cluster.test_fleets import TIMINGS
from tests.support.api import ApiError, path
from tests.support.clientgo import complaints
from tests.support.processes import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.conftest import Trials
    from tests.support.processes import Process, Processes

HANDOVERS = 12
SLOW_TO_DIE = ("--term-delay=0.1",)
BETA = "coordination.k8s.io/v1beta1"


class Queue:
    """Candidates of either kind, each of a newer version than all before: so they lead in the order of their start."""

    def __init__(self, fleet: Fleet, processes: Processes, clientgo: Callable[..., list[str]]) -> None:
        self.fleet, self.witness, self.plane = fleet, fleet.witness, fleet.plane
        self._processes, self._argv = processes, clientgo
        self._versions = (f"1.{minor}.0" for minor in itertools.count(1))
        self._names = itertools.count(1)
        self.waiting: list[str] = []
        self.processes: dict[str, Process] = {}

    def joins(self, kind: str, *, defaults: bool = False) -> str:
        """One more, which is registered."""
        identity, version = f"{kind}-{next(self._names)}", next(self._versions)
        config = self.plane.kubeconfig(namespace=self.fleet.namespace)
        if kind == "k":
            options = ("--coordinated", f"--binary-version={version}")
            timings = DEFAULTS if defaults else TIMINGS
            process = self.fleet.start(identity, *options, kubeconfig=config, timings=timings, does=SLOW_TO_DIE)
        else:
            durations = {} if defaults else {"lease_duration": "6s", "renew_deadline": "4s", "retry_period": "1s"}
            argv = self._argv(
                *(config, self.fleet.namespace, self.fleet.name, identity, self.witness.command(*SLOW_TO_DIE)),
                **durations,
                coordinated=True,
                binary_version=version,
                emulation_version=version,
                stop_first=True,
            )
            process = self._processes.start(argv, name=identity)
        self.processes[identity] = process
        self.waiting.append(identity)
        wait_until(lambda: self.plane.api.find(self._candidate(identity)), f"the LeaseCandidate of {identity}")
        return identity

    def _candidate(self, identity: str) -> str:
        return path(BETA, "LeaseCandidate", self.fleet.namespace, identity)

    def forgotten(self, identity: str) -> None:
        """What client-go, or a crash, leaves behind is removed, as the control plane does after half an hour."""
        with contextlib.suppress(ApiError):
            self.plane.api.delete(self._candidate(identity))

    def leads(self, term: int) -> str:
        """Return the leader of this term, who must be the next in the queue, once all that wait have seen it lead."""
        leader = self.witness.wait_start(term).identity
        assert leader == self.waiting.pop(0), self.witness.story()
        for identity in self.waiting:
            wait_observed(self.processes[identity], leader, clientgo=not identity.startswith("k"))
        return leader

    def ends(self, leader: str, *, crash: bool) -> None:
        process = self.processes[leader]
        if crash:
            kill_whole(process)
            return
        if leader.startswith("go"):
            self.forgotten(leader)
        process.signal(signal.SIGTERM)
        process.wait()

    def complaints(self) -> Iterator[str]:
        for process in self.processes.values():
            yield from complaints(process.err)


@pytest.fixture
def queue(fleet: Fleet, processes: Processes, clientgo: Callable[..., list[str]]) -> Queue:
    return Queue(fleet, processes, clientgo)


@pytest.mark.timeout(900)
def test_twelve_coordinated_handovers_in_both_directions_have_no_overlap(queue: Queue, trials: Trials) -> None:
    """Two of each; every time the other kind is next; planned, and by a crash in each direction."""
    for kind in ("go", "k", "go", "k"):
        queue.joins(kind)
    leader = queue.leads(1)
    for handover in range(1, HANDOVERS + 1):
        crash = handover in {5, 8}
        queue.ends(leader, crash=crash)
        ended, leader = leader, queue.leads(handover + 1)
        queue.forgotten(ended)
        queue.joins(ended.partition("-")[0])
    queue.witness.check(terms=HANDOVERS + 1)
    assert list(queue.complaints()) == []
    trials.count(HANDOVERS, "coordinated handovers between kleader and client-go")


@pytest.mark.timeout(540)
def test_a_crash_and_a_planned_coordinated_handover_at_the_default_timings(queue: Queue, trials: Trials) -> None:
    for kind in ("go", "k", "go"):
        queue.joins(kind, defaults=True)
    queue.ends(queue.leads(1), crash=True)
    queue.ends(queue.leads(2), crash=False)
    queue.leads(3)
    queue.witness.check(terms=3)
    assert list(queue.complaints()) == []
    trials.count(2, "coordinated handovers between kleader and client-go with default timings")
