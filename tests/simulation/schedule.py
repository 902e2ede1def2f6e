"""A schedule of faults, drawn from one seed: for a while they occur, then no more, and then the run is judged."""

from __future__ import annotations

from functools import partial
from random import Random
from typing import TYPE_CHECKING, TypeVar

from kleader.election.state import Candidate
from kleader.election.timing import Timing, choose
from tests.simulation.faults import FAULTS, Fault, at_once, await_next, start
from tests.simulation.host import LAGS, ORDERLY, START_FAULTS, Network
from tests.simulation.machine import Machine
from tests.simulation.manual_edits import MANUAL_EDITS
from tests.simulation.rival import Rival
from tests.simulation.world import BrokenPromiseError, World

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterator, Sequence

    from tests.simulation.host import Host
    from tests.simulation.server import Kept

T = TypeVar("T")

CALM = 10.0  # seconds at the end in which nobody may ask for more than is due
SLOWEST = 0.95  # rate of a clock
SETTLING = 2.0  # seconds from the last start until then
TIMINGS = (choose(15, 10, 2), choose(6, 3, 1), choose(4, 2, 1))
RIVALS_TIMINGS = (choose(15, 10, 2), choose(8, 4, 1))  # client-go leads P + R, and a second more: that must be before D

#: Which candidates each fleet is drawn from: kleaders by what they lock, client-go's by version and what they lock.
#: "any length": each has a lease duration of its own.
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
    "lease, any length": ("lease",),
    "lease, client-go, any length": ("lease", "lease", "v0.36 lease"),
    "multilock, any length": ("both",),
    "to lease, any length": ("both", "both", "lease"),
}


class Schedule(World):
    """A few hosts, sometimes two kleaders of one identity. ``fleet``: one of FLEETS; else any."""

    machine: type[Machine] = Machine
    gappy = True  # half of its schedules have manual edits, unless client-go takes part
    patience = 0.0  # seconds more for somebody to lead, where that is not only the candidates' doing
    spare = 1  # requests that anybody may make in the calm beyond what is due

    def __init__(self, seed: int, fleet: str = "") -> None:
        super().__init__(seed)
        self.fleet = fleet or self.rng.choice(list(FLEETS))
        timings: Sequence[Timing] = RIVALS_TIMINGS if "client-go" in self.fleet else TIMINGS
        self.timings = timings if "any length" in self.fleet else [self.rng.choice(timings)]
        self.gap_rng = Random(f"gaps of {seed}")  # noqa: S311 - replayed; what else a seed draws stays what it was
        self.gaps = self.gappy and "client-go" not in self.fleet and self.gap_rng.random() < 1 / 2
        self.orderly = self.gaps or len(self.timings) > 1
        twins = self.chance(0.2)
        for name in "abcd"[: self.rng.choice((2, 3, 3, 4))]:
            kind = self.rng.choice(FLEETS[self.fleet])
            identity = "twin" if twins and name in "ab" and not kind.startswith("v") else name
            self.join(kind, name, identity)
        self.faults_for = 30.0 + 4 * self.lease  # seconds
        self.plan = sorted((*self._thinned(self._plan()), *self._gaps()), key=lambda fault: fault.when)

    def join(self, kind: str, name: str, identity: str) -> Host:
        """One more candidate."""
        me = self.candidate(identity)
        annotated, lease = self.server.annotated, self.server.lease
        version, what = kind.split() if " " in kind else ("", kind)
        kept: tuple[Kept, ...] = {"lease": (lease,), "annotation": (annotated,), "both": (annotated, lease)}[what]
        host: Host = self.machine(self, name, me, kept)
        if version:
            host = Rival(self, name, me, kept, modern=version == "v0.36")
        host.network = self._network()
        if self.orderly:
            host.lapses = [each for each in host.lapses if each in ORDERLY]
            host.network.watch_lag = host.network.watch_lag or self.gap_rng.choice(LAGS)
        if isinstance(host, Machine):
            host.coarse = self.chance(0.5)
        self.hosts.append(host)
        return host

    def candidate(self, identity: str) -> Candidate:
        """One with its own timing, where they differ."""
        # nothing is drawn where there is no choice: the seeds of such schedules stay what they were
        timing = self.timings[0] if len(self.timings) == 1 else self.rng.choice(self.timings)
        return Candidate(identity, timing, timing.request_timeout)

    def chance(self, probability: float) -> bool:
        """Whether it happens."""
        return self.rng.random() < probability

    # --- the plan

    @property
    def possible(self) -> Sequence[Callable[[Schedule, Fault], None]]:
        """What may befall this fleet; the more often it is in it, the likelier."""
        return FAULTS

    def _network(self) -> Network:
        return Network(latency=self.rng.choice((0.002, 0.05, 0.5)), watch_denied=self.chance(0.1))

    def _plan(self) -> Iterator[Fault]:
        """Who starts when, and what happens to whom. Leaving one of it out changes nothing of the others."""
        random, possible = self.rng.random, self._some(self.possible)
        for host in self.hosts:
            yield Fault(self.rng.choice((0.0, 20 * random())), host, "start", start)
        for when in self._instants(1 + self.lease / 4):
            what = self.rng.choice(possible)
            host = self.rng.choice(self.hosts)
            name = what.__name__.replace("_", " ")
            yield Fault(when, host, name, at_once(what), self.chance(0.5), random(), random())
        for host in self.hosts:
            bad = self.rng.choice((0, 10, 2))  # seconds between two of them
            kinds = (
                ("take", bad, host.fates),
                ("start", bad, START_FAULTS),
                ("request", bad, host.fates),
                ("event", bad * self.chance(0.5), host.lapses),
                ("step", 4 * bad, host.trips),
            )
            for kind, apart, names in kinds:
                if apart and names:
                    some, what = self._some(names), await_next(kind)
                    for when in self._instants(apart):
                        name, chance, luck = self.rng.choice(some), random(), random()
                        yield Fault(when, host, name, what, chance=chance, luck=luck, awaits=True)

    def _thinned(self, plan: Iterator[Fault]) -> Iterator[Fault]:
        """Beside manual edits there are often few other faults: a long sequence is rare among all of them."""
        few = self.gaps and self.gap_rng.random() < 2 / 3
        return (each for each in plan if not few or each.name == "start" or self.gap_rng.random() < 1 / 8)

    def _gaps(self) -> Iterator[Fault]:
        """An operator edits the lock, and some candidates do not observe it."""
        random, names = self.gap_rng.random, list(MANUAL_EDITS)
        names = names if random() < 1 / 2 else self.gap_rng.sample(names, 3)
        for when in self._instants(1 + self.lease / 2, self.gap_rng) if self.gaps else ():
            name = self.gap_rng.choice(names)
            yield Fault(
                when, self.gap_rng.choice(self.hosts), name, MANUAL_EDITS[name], random() < 1 / 2, random(), random()
            )

    def _some(self, whole: Sequence[T]) -> Sequence[T]:
        """All, or a few of them only: what needs several of a kind to happen is seldom seen among all."""
        return whole if self.chance(0.5) else [self.rng.choice(whole) for _ in range(self.rng.randint(1, 5))]

    def _instants(self, apart: float, rng: Random | None = None) -> Iterator[float]:
        """So many seconds apart in the mean."""
        rng = rng or self.rng
        when = rng.expovariate(1 / apart)
        while when < self.faults_for:
            yield when
            when += rng.expovariate(1 / apart)

    # --- the play

    def play(self, without: Container[int] = ()) -> None:
        """Fault, then none; AssertionError if anything comes of it that may not. ``without`` some of the plan."""
        try:
            for number, fault in enumerate(self.plan):
                if number in without:
                    continue
                if fault.awaits:
                    fault.befall(self)
                else:
                    self.at(fault.when, partial(fault.befall, self))
            self.run(self.faults_for)
            self._heal()
            self.run(self.faults_for + self.lease + CALM)
            while not self.settled and self.now < self.latest + CALM + SETTLING:
                self.run(self.now + 1)
            self._judge()
        finally:
            self.end()

    def play_or_fail(self, without: Container[int] = ()) -> AssertionError | None:
        """What comes of it that may not."""
        try:
            self.play(without)
        except AssertionError as error:
            return error
        return None

    def _heal(self) -> None:
        self.log("healed")
        self.server.down = False
        for host in self.hosts:
            host.repair()

    @property
    def settled(self) -> bool:
        """Whether one has led for long enough to judge."""
        return bool(self.running) and self.starts[-1] + CALM + SETTLING <= self.now

    @property
    def latest(self) -> float:
        """When somebody must lead, by the slowest clock."""
        return max(self.faults_for, self.hindered_until) + (2 * self.lease + 5 + self.patience) / SLOWEST

    def _judge(self) -> None:
        """Somebody leads in time; a few candidates do not make more requests than they have to."""
        if not self.running or self.starts[-1] > self.latest:
            msg = f"nobody leads {2 * self.lease + 5 + self.patience:g} s after the last fault, by the slowest clock"
            raise BrokenPromiseError(msg)
        if self.hindered_until + SETTLING > self.now - CALM:
            return  # whoever was asked to stay away comes back in the calm
        for host in self.hosts:
            asked = sum(1 for when in host.asked if when > self.now - CALM)
            renewals = 0 if host.quiet else CALM * 1.06 / host.me.timing.retry_period
            if asked > len(host.kept) * (renewals + self.spare) and isinstance(host, Machine):
                msg = f"{host.name} made {asked} requests in {CALM} s of calm"
                raise BrokenPromiseError(msg)
