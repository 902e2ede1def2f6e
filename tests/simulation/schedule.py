"""A schedule of misfortunes, drawn from one seed: trouble, then none, and a judgement."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from kleader.election.record import Record
from kleader.election.state import Candidate
from kleader.election.timing import choose
from tests.simulation.host import Road
from tests.simulation.machine import Machine
from tests.simulation.rival import Rival
from tests.simulation.world import BrokenPromiseError, World

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tests.simulation.host import Host
    from tests.simulation.server import Kept

T = TypeVar("T")

TROUBLED = 90.0  # seconds in which things go wrong
HEALED = 75.0  # and in which they do not, after which there must be a leader
CALM = 15.0  # the last of them, in which nobody may ask for more than is due
TIMINGS = (choose(15, 10, 2), choose(6, 3, 1), choose(4, 2, 1))
RIVALS_TIMINGS = (choose(15, 10, 2), choose(8, 4, 1))  # client-go leads P + R, and a second more: that must be before D

#: Which candidates each fleet is drawn from: kleaders by what they lock, client-go's by version and what they lock.
FLEETS = {
    "lease": ("lease",),
    "annotation": ("annotation",),
    "lease, client-go": ("lease", "lease", "v0.36 lease"),
    "annotation, client-go": ("annotation", "annotation", "v0.23 annotation"),
    "multilock": ("both",),
    "from annotation": ("both", "both", "annotation"),
    "from annotation, client-go": ("both", "both", "annotation", "v0.23 annotation"),
    "to lease": ("both", "both", "lease"),
    "to lease, client-go": ("both", "both", "lease", "v0.36 lease"),
}


class Schedule(World):
    """A few hosts, sometimes two kleaders of one identity. ``fleet``: one of FLEETS; else any."""

    machine: type[Machine] = Machine
    spare = 1  # requests that anybody may make in the calm beyond what is due

    def __init__(self, seed: int, fleet: str = "") -> None:
        super().__init__(seed)
        self.fleet = fleet or self.rng.choice(list(FLEETS))
        self.timing = self.rng.choice(RIVALS_TIMINGS if "client-go" in self.fleet else TIMINGS)
        self.misfortunes = self._some(self.possible)
        twins = self.chance(0.2)
        for name in "abcd"[: self.rng.choice((2, 3, 3, 4))]:
            kind = self.rng.choice(FLEETS[self.fleet])
            identity = "twin" if twins and name in "ab" and not kind.startswith("v") else name
            self.join(kind, name, identity)

    @property
    def possible(self) -> tuple[Callable[[Schedule, Host], None], ...]:
        """What may befall this fleet; the more often it is in it, the likelier."""
        return MISFORTUNES

    def join(self, kind: str, name: str, identity: str) -> Host:
        """One more candidate."""
        me = Candidate(identity, self.timing, self.timing.request_timeout)
        annotated, lease = self.server.annotated, self.server.lease
        version, what = kind.split() if " " in kind else ("", kind)
        kept: tuple[Kept, ...] = {"lease": (lease,), "annotation": (annotated,), "both": (annotated, lease)}[what]
        host: Host = self.machine(self, name, me, kept)
        if version:
            host = Rival(self, name, me, kept, modern=version == "v0.36")
        host.road = self._road()
        host.fates = self._some(host.fates)
        if isinstance(host, Machine):
            host.coarse = self.chance(0.5)
        self.hosts.append(host)
        return host

    def _some(self, whole: Sequence[T]) -> Sequence[T]:
        """All, or a few of them only: what needs several of a kind to happen is seldom seen among all."""
        return whole if self.chance(0.5) else [self.rng.choice(whole) for _ in range(self.rng.randint(1, 5))]

    def chance(self, probability: float) -> bool:
        """Whether it happens."""
        return self.rng.random() < probability

    def play(self) -> None:
        """Trouble, then none; AssertionError if anything comes of it that may not."""
        try:
            for host in self.hosts:
                self.after(self.rng.choice((0.0, self.rng.uniform(0, 20))), host.start)
            self._misfortune()
            self.run(TROUBLED)
            self._heal()
            self.run(TROUBLED + HEALED)
            self._judge()
        finally:
            self.end()

    def _road(self) -> Road:
        bad = self.rng.choice((0.0, 0.05, 0.3))
        return Road(
            fault=bad,
            watch_fault=self.rng.choice((0.0, bad)),
            latency=self.rng.choice((0.002, 0.05, 0.5)),
            watch_denied=self.chance(0.1),
        )

    def _misfortune(self) -> None:
        self.after(self.rng.expovariate(1 / 5), self._misfortune)
        if self.now > TROUBLED:
            return
        host = self.rng.choice(self.hosts)
        if self.running and self.chance(0.5):
            host = self.running
        what = self.rng.choice(self.misfortunes)
        self.log(host.name, "befallen by", what.__name__)
        what(self, host)

    def _heal(self) -> None:
        self.log("healed")
        self.server.down = False
        for host in self.hosts:
            host.mend()

    def _judge(self) -> None:
        if not self.running:
            raise BrokenPromiseError("nobody leads, though nothing hinders")
        for host in self.hosts:
            asked = sum(1 for when in host.asked if when > self.now - CALM)
            due = 0 if host.quiet else len(host.kept) * (CALM * 1.06 / host.me.timing.retry_period + self.spare)
            if asked > due and isinstance(host, Machine):
                raise BrokenPromiseError(f"{host.name} made {asked} requests in {CALM} s of calm")


# --- what may befall a host, or one of the objects that its lock is kept in


def kill_elector(_: Schedule, host: Host) -> None:
    host.crash_elector()


def stop_elector(world: Schedule, host: Host) -> None:
    host.pause(world.rng.choice((0.5, 5, 30)) * world.rng.random())


def crash(_: Schedule, host: Host) -> None:
    host.crash()


def planned_stop(world: Schedule, host: Host) -> None:
    host.stop(world.rng.choice((0.0, 3 * world.rng.random())))


def partition(world: Schedule, host: Host) -> None:
    road = host.road
    road.cut = True

    def end() -> None:
        road.cut = False

    world.after(world.rng.uniform(0, 2 * world.lease), end)


def outage(world: Schedule, _: Host) -> None:
    world.server.down = True

    def end() -> None:
        world.server.down = False

    world.after(world.rng.uniform(0, world.lease), end)


def clock_set(world: Schedule, host: Host) -> None:
    """The wall clock only: it decides nothing."""
    host.skew += world.rng.choice((-1, 1)) * world.rng.choice((0.5, 60, 1e5))


def label(world: Schedule, host: Host) -> None:
    kept = world.rng.choice(host.kept)
    if kept.stored:
        kept.edit(label=kept.stored.label + 1)


def delete(world: Schedule, host: Host) -> None:
    """Promised among kleaders that have seen the lock: one that has not would create it at once."""
    kept = world.rng.choice(host.kept)

    def promised(each: Host) -> bool:
        return isinstance(each, Machine) and (not each.up or kept.name in each.saw)

    if kept.stored and all(promised(each) for each in world.hosts if kept in each.kept):
        world.log("deleted:", kept.name)
        kept.delete(world.now)


def steal(world: Schedule, host: Host) -> None:
    """An edit by hand to a holder that does not exist, the incarnation left where it was."""
    kept = world.rng.choice(host.kept)
    if kept.stored:
        kept.edit(record=replace(kept.stored.record, holder="nobody", duration=world.lease), fault="")


def garble(world: Schedule, host: Host) -> None:
    """An edit by hand that no one can read, and that is mended when a leader must have noticed."""
    kept, fault = world.rng.choice(host.kept), f"garbled at {world.now}"
    kept.edit(record=Record(), fault=fault)

    def mend() -> None:
        if kept.stored and kept.stored.fault == fault:
            kept.edit(record=Record("", 1), incarnation="", fault="")

    world.after(1.2 * world.lease, mend)


MISFORTUNES: tuple[Callable[[Schedule, Host], None], ...] = (
    kill_elector,
    kill_elector,
    stop_elector,
    stop_elector,
    crash,
    crash,
    planned_stop,
    planned_stop,
    planned_stop,
    partition,
    partition,
    outage,
    clock_set,
    label,
    delete,
    steal,
    garble,
)
