"""A model of the control plane's leader election controller (KEP-4355), and a world in which it names the leaders.

It judges by its own wall clock, which is as wrong as anybody's, what the candidates wrote by theirs.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from math import inf
from typing import TYPE_CHECKING

from kleader.election import events as e
from kleader.election.events import Kind
from kleader.election.record import SECOND, Record
from kleader.election.state import Phase
from tests.simulation.faults import FAULTS, Fault, partition
from tests.simulation.host import LAGS, ORDERLY, WALL, Network
from tests.simulation.machine import Machine
from tests.simulation.schedule import Schedule
from tests.simulation.world import BrokenPromiseError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kleader.election.state import Candidate, State
    from tests.simulation.server import Kept
    from tests.simulation.world import World

PATIENCE = 5.0  # seconds: until it looks again, for an answer to a ping, of the Leases that it names in


@dataclass
class LeaseCandidate:
    """As it is at the API; instants in seconds by whoever's clock wrote them."""

    name: str
    rank: int  # of its versions: the least is to lead
    renewed: float
    pinged: float = -inf


class ControlPlane:
    """reconcileElectionStep of pkg/controlplane/controller/leaderelection, with its clock and its moods."""

    def __init__(self, world: World) -> None:
        self.world, self.lease = world, world.server.lease
        self.candidates: dict[str, LeaseCandidate] = {}
        self.rng = world.fork()
        self.skew = self.rng.uniform(-1, 1)
        self.busy_until = 0.0
        self.lease.listeners.append(lambda _seen: self.look())
        self._look_again()

    def _look_again(self) -> None:
        self.world.after(PATIENCE, self._look_again)
        self.look()

    def look(self) -> None:
        """Something has changed: see to it soon."""
        soon = self.world.now + self.rng.uniform(0, 0.05)
        self.world.at(max(soon, self.busy_until), self._step)

    @property
    def wall(self) -> float:
        """Its clock."""
        return self.world.now + self.skew

    def _step(self) -> None:
        now, stored = self.wall, self.lease.stored
        if self.world.server.down or not self.candidates:
            return
        record = stored.record if stored else Record()
        expired = record.renewed is None or (record.renewed - WALL) / SECOND + record.duration < now
        if not expired and record.holder == self._best(list(self.candidates.values())).name:
            return
        if not self._all_have_answered(now):
            return
        if acked := [each for each in self.candidates.values() if each.renewed + PATIENCE > now]:
            best = self._best(acked).name
            if stored is None or not record.holder or (expired and best != record.holder):
                self.name(best)
            elif best not in {record.holder, stored.preferred}:
                self.lease.edit(preferred=best)

    def _all_have_answered(self, now: float) -> bool:
        """Or had their time for it."""
        voting = True
        for each in self.candidates.values():
            answered, late = each.renewed >= each.pinged, each.pinged + PATIENCE < now
            if not answered and not late:
                voting = False
            elif each.renewed + PATIENCE <= now and answered and late:
                voting = False
                self.world.log("the control plane pings", each.name)
                self.ask(each, now)
        return voting

    def ask(self, candidate: LeaseCandidate, now: float) -> None:
        """Its pingTime is written, by whomever."""
        candidate.pinged = now
        for machine in self.world.hosts:
            if isinstance(machine, NamedMachine) and machine.me.identity == candidate.name:
                machine.pinged(candidate)

    @staticmethod
    def _best(candidates: list[LeaseCandidate]) -> LeaseCandidate:
        return min(candidates, key=lambda each: each.rank)

    def any_candidate(self, luck: float) -> str:
        """The name of one of them."""
        return list(self.candidates)[int(luck * len(self.candidates))]

    def name(self, holder: str) -> None:
        """Over whatever is there: everything else in the object stays, the annotation too."""
        self.world.log("the control plane names", holder)
        stored, renewed = self.lease.stored, WALL + round(self.wall * SECOND)
        record = Record(holder, int(PATIENCE), None, renewed, stored.record.transitions if stored else 0)
        if stored:
            self.lease.edit(record=record, fault="", preferred="")
        else:
            self.lease.create(record, only_control_plane_wrote=True)


class NamedMachine(Machine):
    """A machine that registers once it has read the lock, answers pings, and leaves before its end.

    A lock that is missing has to be shown by a watch, or read again.
    """

    registered = False  # by its present elector
    was_missing = False  # when its present elector has read it
    lapses = ORDERLY

    def __init__(self, world: World, name: str, me: Candidate, kept: tuple[Kept, ...]) -> None:
        super().__init__(world, name, me, kept)
        self.me = replace(self.me, coordinated=True)

    @property
    def control_plane(self) -> ControlPlane:
        """That of its world."""
        assert isinstance(self.world, NamedSchedule)
        return self.world.control_plane

    @property
    def _candidates(self) -> dict[str, LeaseCandidate]:
        return self.control_plane.candidates

    def _elect(self, state: State) -> None:
        self.registered = self.was_missing = False
        super()._elect(state)

    def tell(self, event: e.Event) -> None:
        """One step, and what the lock does besides."""
        super().tell(event)
        missing = isinstance(event, e.RequestFailed) and event.failure.kind is Kind.MISSING
        read = isinstance(event, (e.GetDone, e.WatchEvent)) or (missing and self.was_missing)
        self.was_missing |= missing
        if read and self.state and not self.registered and self.state.phase in {Phase.FOLLOWING, Phase.LEADING}:
            self.registered = True
            self.world.after(self.rng.uniform(0, self.network.latency), partial(self._register, self.life))

    def _register(self, life: int) -> None:
        if not self.registered or life != self.life:
            return
        if self._cut_off or self.paused:
            self.world.after(1, partial(self._register, life))
            return
        rank = self.world.hosts.index(self)
        known = self._candidates.setdefault(self.me.identity, LeaseCandidate(self.me.identity, rank, self._wall))
        known.renewed = max(self._wall, known.pinged)
        self.control_plane.look()

    def pinged(self, candidate: LeaseCandidate) -> None:
        """Answer as soon as the network allows; by one's own clock, but never before the ping."""
        self.world.after(
            self.rng.uniform(0, 2 * self.network.latency), partial(self._answer_ping, candidate, self.life)
        )

    def _answer_ping(self, candidate: LeaseCandidate, life: int) -> None:
        if self.state is None or life != self.life:
            return
        if self.paused or self._cut_off or self.fortune.random() < 0.1:
            self.world.after(self.fortune.uniform(1, 10), partial(self._answer_ping, candidate, life))
        else:
            candidate.renewed = max(self._wall, candidate.pinged)
            self.control_plane.look()

    @property
    def _cut_off(self) -> bool:
        return self.network.cut or self.world.server.down

    @property
    def _wall(self) -> float:
        return self.world.now + self.skew

    def _perform(self, action: e.Action) -> None:
        last = isinstance(action, e.Write) and not action.record.holder and self.state
        if (last and last.phase is Phase.RELEASING) or isinstance(action, (e.Released, e.AcquireFailed)):
            self.registered = False
            if not self._cut_off:
                self._candidates.pop(self.me.identity, None)
                self.control_plane.look()
        super()._perform(action)


class NamedSchedule(Schedule):
    """Misfortunes of coordinated candidates, and of their control plane."""

    machine = NamedMachine
    patience = 9 * PATIENCE  # it looks, pings, and looks again; and then may twice find one that it prefers
    spare = 2  # the write that ends the wait of a claim is one more

    def __init__(self, seed: int) -> None:
        super().__init__(seed, "lease")
        self.control_plane = ControlPlane(self)

    @property
    def possible(self) -> Sequence[Callable[[Schedule, Fault], None]]:
        """With those of the control plane."""
        return (*FAULTS, *(whim for whim in CONTROL_PLANE_FAULTS for _ in range(2)))

    def _network(self) -> Network:
        return replace(super()._network(), watch_lag=self.rng.choice(LAGS))

    def _heal(self) -> None:
        super()._heal()
        self.control_plane.skew = 0.0
        for machine in self.hosts:
            machine.skew = self.rng.uniform(-1, 1)
        stored = self.server.lease.stored
        # it would wait for a renewTime of tomorrow until then; where there is none that would look like a release
        if stored and not stored.fault and not stored.record.is_blank:
            self.server.lease.edit(record=replace(stored.record, renewed=WALL + round(self.now * SECOND)))

    @property
    def settled(self) -> bool:
        """Whether the oldest has led for long enough."""
        return super().settled and self._oldest_leads

    @property
    def _oldest_leads(self) -> bool:
        return self.running is not None and self.running.me.identity == self.hosts[0].me.identity

    def _judge(self) -> None:
        super()._judge()
        if not self._oldest_leads:
            msg = f"another leads, though {self.hosts[0].name} is the oldest"
            raise BrokenPromiseError(msg)


# --- what may befall the control plane


def control_plane_clock_off(world: Schedule, fault: Fault) -> None:
    """Its wall clock is set."""
    assert isinstance(world, NamedSchedule)
    world.control_plane.skew = fault.of(0, -20, 20, 120 * (fault.luck - 0.5))


def control_plane_names_at_will(world: Schedule, fault: Fault) -> None:
    """It takes a living leader for dead, which often cannot know of it."""
    assert isinstance(world, NamedSchedule)
    if not world.server.down and world.control_plane.candidates:
        if world.running and fault.chance < 0.5:
            partition(world, fault._replace(host=world.running))
        world.control_plane.name(world.control_plane.any_candidate(fault.luck))


def control_plane_prefers_at_will(world: Schedule, fault: Fault) -> None:
    """Its candidates change their versions."""
    assert isinstance(world, NamedSchedule)
    if world.control_plane.candidates:
        world.server.lease.edit(preferred=world.control_plane.any_candidate(fault.luck))


def control_plane_moves(world: Schedule, fault: Fault) -> None:
    """The controller goes to another API server."""
    assert isinstance(world, NamedSchedule)
    world.control_plane.busy_until = world.now + 20 * fault.luck
    world.hindered_until = max(world.hindered_until, world.control_plane.busy_until)


CONTROL_PLANE_FAULTS = (
    control_plane_clock_off,
    control_plane_names_at_will,
    control_plane_names_at_will,
    control_plane_prefers_at_will,
    control_plane_moves,
)
