"""Fleets of kleader and real client-go candidates on every lock that both have, and their way from one to the next."""

from __future__ import annotations

import itertools
import json
import signal
from typing import TYPE_CHECKING, NamedTuple

import pytest

from tests.cluster.fleet import DEFAULTS, Fleet, kill_whole, wait_observed
from tests.support.api import lease_path, path
from tests.support.checker import Witness
from tests.support.clientgo import complaints

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from tests.conftest import Trials
    from tests.support.api import Object
    from tests.support.plane import Plane
    from tests.support.processes import Process, Processes

ROUNDS = 10  # on a Lease; three on the other kinds, whose records and answers tests/cluster/test_contract.py compares
D = 6
TIMINGS = (f"--lease-duration={D}s", "--renew-deadline=4s", "--retry-period=1s")
LEADER = "control-plane.alpha.kubernetes.io/leader"
SLOW_TO_DIE = ("--term-delay=0.1",)


class Kind(NamedTuple):
    """A lock by kleader's and by client-go's name."""

    ours: str
    theirs: str

    @property
    def objects(self) -> list[str]:
        """The kinds of objects that it is kept in."""
        kinds = {"configmap": "ConfigMap", "endpoints": "Endpoints"}
        found = [kind for name, kind in kinds.items() if self.ours.startswith(name)]
        return found + ["Lease"] * self.ours.startswith(("lease", "configmapsl", "endpointsl"))


KINDS = (
    Kind("lease", "leases"),
    Kind("configmap", "configmaps"),
    Kind("endpoints", "endpoints"),
    Kind("configmapsleases", "configmapsleases"),
    Kind("endpointsleases", "endpointsleases"),
)


class Mixed:
    """Candidates of both kinds for one lock, by their identities."""

    def __init__(
        self, plane: Plane, namespace: str, processes: Processes, witness: Witness, clientgo: Callable[..., list[str]]
    ) -> None:
        self.plane, self.namespace, self.witness = plane, namespace, witness
        self.fleet = Fleet(plane, namespace, processes, witness)
        self._processes, self._argv = processes, clientgo
        self._numbers = itertools.count(1)
        self.running: dict[str, Process] = {}
        self.everybody: list[Process] = []
        self.handovers = 0

    def kleader(self, kind: Kind, *, timings: Sequence[str] = TIMINGS) -> str:
        identity = f"k-{next(self._numbers)}"
        config = self.plane.kubeconfig(namespace=self.namespace)
        process = self.fleet.start(
            identity, f"--lock={kind.ours}", kubeconfig=config, timings=timings, does=SLOW_TO_DIE
        )
        self.running[identity] = process
        return identity

    def go(self, kind: Kind, *, timings: tuple[str, str, str] = (f"{D}s", "4s", "1s")) -> str:
        identity = f"go-{next(self._numbers)}"
        config = self.plane.kubeconfig(namespace=self.namespace)
        argv = self._argv(
            *(config, self.namespace, self.fleet.name, identity, self.witness.command(*SLOW_TO_DIE)),
            **dict(zip(("lease_duration", "renew_deadline", "retry_period"), timings, strict=True)),
            lock=kind.theirs,
            stop_first=True,
        )
        self.running[identity] = self._processes.start(argv, name=identity)
        self.everybody.append(self.running[identity])
        return identity

    def leads_first(self) -> str:
        return self.witness.wait_start(1).identity

    def seen(self, leader: str, *by: str) -> None:
        """Return once these have seen who leads."""
        for identity in by:
            wait_observed(self.running[identity], leader, clientgo=not identity.startswith("k"))

    def ends(self, identity: str, *, crash: bool = False) -> None:
        """Let one that waits, or leads, end."""
        process = self.running.pop(identity)
        if crash:
            kill_whole(process)
        else:
            process.signal(signal.SIGTERM)
            process.wait()

    def hands_over(self, leader: str, *, crash: bool = False) -> str:
        """End the leader, and return the next."""
        self.ends(leader, crash=crash)
        self.handovers += 1
        return self.witness.wait_start(self.handovers + 1).identity

    def settled(self, leader: str) -> None:
        """Return once the leader has seen itself lead: it has written all that it writes then."""
        self.seen(leader, leader)

    def records(self, kind: Kind) -> list[Object]:
        return [self._record(each) for each in kind.objects]

    def _record(self, kind: str) -> Object:
        if kind == "Lease":
            spec: Object = self.plane.api.get(lease_path(self.namespace, self.fleet.name))["spec"]
            return spec | {"leaderTransitions": spec["leaseTransitions"]}
        found = self.plane.api.get(path("v1", kind, self.namespace, self.fleet.name))
        record: Object = json.loads(found["metadata"]["annotations"][LEADER])
        return record

    def complaints(self) -> list[str]:
        return [line for process in self.everybody for line in complaints(process.err)]


@pytest.fixture
def mixed(
    plane: Plane, namespace: str, processes: Processes, witness: Witness, clientgo: Callable[..., list[str]]
) -> Mixed:
    return Mixed(plane, namespace, processes, witness, clientgo)


@pytest.mark.timeout(720)
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.ours)
def test_handovers_in_both_directions_have_no_overlap(kind: Kind, mixed: Mixed, trials: Trials) -> None:
    """Two of each, planned and by crashes: transitions are counted by both, and each side sees the other's leaders."""
    mixed.go(kind)
    leader = mixed.leads_first()
    mixed.go(kind)
    to_kleader, to_clientgo, rounds = 0, 0, ROUNDS if kind.ours == "lease" else 3
    while min(to_kleader, to_clientgo) < rounds:
        crash = to_kleader in {1, 7}
        ours = [each for each in mixed.running if each.startswith("k")]
        ours += [mixed.kleader(kind) for _ in range(2 - len(ours))]
        mixed.seen(leader, *ours)
        leader = mixed.hands_over(leader, crash=crash)
        theirs = [each for each in mixed.running if each.startswith("go")]
        theirs += [mixed.go(kind) for _ in range(2 - len(theirs))]
        if leader not in ours:  # whose poll came first
            continue
        to_kleader += 1
        mixed.seen(leader, *(each for each in theirs if each != leader))
        mixed.ends(next(each for each in ours if each != leader))
        leader = mixed.hands_over(leader, crash=crash)
        to_clientgo += 1
        assert leader in theirs
    mixed.witness.check(terms=mixed.handovers + 1)
    mixed.settled(leader)
    counted = [each["leaderTransitions"] for each in mixed.records(kind)]
    assert counted == [mixed.handovers] * len(kind.objects)
    assert mixed.complaints() == []
    trials.count(mixed.handovers, f"handovers between kleader and client-go on {kind.ours}")


@pytest.mark.timeout(540)
def test_a_crash_and_a_planned_handover_at_the_default_timings(
    plane: Plane,
    processes: Processes,
    tmp_path: Path,
    clientgo: Callable[..., list[str]],
    trials: Trials,
) -> None:
    """From client-go to kleader by a crash, and back as planned: on every lock at once."""
    fleets = []
    for kind in KINDS:
        witness = Witness(tmp_path / f"{kind.ours}.log")
        fleets.append((kind, Mixed(plane, plane.new_namespace(), processes, witness, clientgo)))
    defaults = ("15s", "10s", "2s")
    leaders = {}
    for kind, mixed in fleets:
        mixed.go(kind, timings=defaults)
        leaders[kind] = mixed.leads_first()
        mixed.seen(leaders[kind], mixed.kleader(kind, timings=DEFAULTS))
    for kind, mixed in fleets:
        mixed.ends(leaders[kind], crash=True)
    for kind, mixed in fleets:
        mixed.handovers += 1
        leaders[kind] = mixed.witness.wait_start(2).identity
        assert leaders[kind].startswith("k")
        mixed.seen(leaders[kind], mixed.go(kind, timings=defaults))
    for kind, mixed in fleets:
        assert mixed.hands_over(leaders[kind]).startswith("go")
        mixed.witness.check(terms=3)
        assert {each["leaderTransitions"] for each in mixed.records(kind)} == {2}
    trials.count(2 * len(KINDS), "handovers between kleader and client-go with default timings")


@pytest.mark.timeout(540)
@pytest.mark.parametrize("primary", ["endpoints", "configmap"])
def test_a_fleet_moves_from_the_annotation_to_the_lease_without_two_leaders(
    primary: str, mixed: Mixed, trials: Trials
) -> None:
    """As kleader-locks(7) has it: one candidate at a time, real candidates of the old kind still running."""
    old = next(kind for kind in KINDS if kind.ours == primary)
    both = next(kind for kind in KINDS if kind.ours == f"{primary.removesuffix('s')}sleases")
    new = KINDS[0]
    fleet = [mixed.go(old)]
    mixed.leads_first()
    fleet += [mixed.go(old), mixed.go(old)]
    steps = [(both, mixed.kleader)] * 3 + [(new, mixed.kleader), (new, mixed.go), (new, mixed.kleader)]
    for kind, start in steps:
        leads = mixed.witness.terms()[-1].identity
        starts = len(mixed.witness.terms())
        leaving = fleet.pop(0)
        mixed.ends(leaving)
        if leaving == leads:
            leads = mixed.witness.wait_start(starts + 1).identity
        newcomer = start(kind)
        mixed.seen(leads, newcomer)
        fleet.append(newcomer)
    assert mixed.records(new)[0]["holderIdentity"] in fleet
    mixed.witness.check()
    trials.count(len(steps), "candidates migrated to another lock")
