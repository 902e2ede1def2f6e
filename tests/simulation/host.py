"""What every candidate runs on: a machine with a clock of its own, and a road to the API server."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from kleader.election import events as e
from kleader.election.events import Failure, Kind, Observed
from kleader.election.record import SECOND
from tests.simulation.loop import Loop

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kleader.election.state import Candidate
    from tests.simulation.server import Kept
    from tests.simulation.world import World

WALL = 1_700_000_000 * SECOND
REFUSALS = {"500": Kind.UNREACHABLE, "429": Kind.THROTTLED, "403": Kind.DENIED, "422": Kind.REFUSED}
FATES = (
    "lost",  # on its way
    "late",  # and then acted on, maybe when nobody waits for it any more
    *("slow",) * 3,  # to answer
    *("answer lost",) * 2,
    "answered twice",
    "sent twice",  # by a proxy
    "error after",  # it was acted on
    "no-op",  # an answer with the version that was sent
    "lie",  # an answer that shows something else; it was not acted on
    *REFUSALS,
)


@dataclass
class Road:
    """How bad a host's road to the API server is: probabilities for each request or event."""

    fault: float = 0.0
    watch_fault: float = 0.0
    latency: float = 0.01  # seconds, the most in one direction
    cut: bool = False
    watch_denied: bool = False
    watch_lag: float = 0.0  # seconds that now and then a watch is behind at most, in order


class Watch:
    """A watch, until it is said to be over."""

    def __init__(self) -> None:
        self.over = False
        self.deaf = False
        self.latest = 0.0


class Host:
    """Its clock may be 5 % off. ``kept`` are the objects that its candidate locks."""

    fates: Sequence[str] = FATES

    def __init__(self, world: World, name: str, me: Candidate, kept: tuple[Kept, ...]) -> None:
        self.world, self.name, self.me, self.kept = world, name, me, kept
        self.rng = world.rng
        self.rate = self.rng.choice((0.95, 1.05, self.rng.uniform(0.95, 1.05)))
        self.offset = self.rng.uniform(0, 1e6)
        self.skew = self.rng.uniform(-5, 5)  # of the wall clock, seconds
        self.road = Road()
        self.loop = Loop(self)
        self.life = 0  # counts processes, so that what was meant for one does not reach the next
        self.up = False
        self.retired = False  # it does not come back
        self.asked: list[float] = []  # when requests were made
        self.saw: set[str] = set()  # which objects its present process has seen

    @property
    def boot(self) -> float:
        """Seconds on its own clock."""
        return self.offset + self.rate * self.world.now

    @property
    def wall(self) -> int:
        """Microseconds since the epoch, as it believes."""
        return WALL + round((self.world.now + self.skew) * SECOND)

    @property
    def quiet(self) -> bool:
        """Whether it has nothing to ask while nothing changes."""
        return False

    def after(self, seconds: float, what: Callable[[], None]) -> None:
        """Seconds of its own clock from now."""
        self.world.after(seconds / self.rate, what)

    # --- what befalls it

    def start(self) -> None:
        """A fresh process, unless there is one."""
        raise NotImplementedError

    def stop(self, seconds: float) -> None:
        """A planned stop: the command winds down for so long, the lock is renewed meanwhile and released then."""
        raise NotImplementedError

    def crash(self) -> None:
        """The whole machine: nothing of it is left."""
        raise NotImplementedError

    def mend(self) -> None:
        """Nothing hinders it any more."""
        self.road = Road(watch_denied=self.road.watch_denied)
        if not self.retired:
            self.start()

    def crash_elector(self) -> None:
        """What minds the lock dies alone, if it can."""

    def pause(self, seconds: float) -> None:
        """What minds the lock is stopped alone, if it can be."""

    def trouble(self) -> None:
        """Any of these, on a bad road, just before a write."""
        if self.rng.random() < self.road.fault / 4:
            self.rng.choice((self.crash, self.crash_elector, partial(self.pause, self.rng.uniform(0, 20))))()

    def deliver(self, what: Callable[[], object]) -> None:
        """To the present process, when it runs."""
        what()

    # --- its road

    def send(self, kept: Kept, request: e.Get | e.Write, answer: Callable[[e.Event], None]) -> None:
        """A request, answered once, twice, or by a timeout."""
        self.asked.append(self.world.now)
        fate = self.rng.choice(self.fates) if self.rng.random() < self.road.fault else ""
        up, down = (self.rng.uniform(0, self.road.latency) for _ in range(2))
        if fate == "late":
            up = self.rng.uniform(0, 20)
        elif fate == "later":
            up = request.timeout / self.rate + self.rng.uniform(0, 15)
        elif fate == "slow":
            down = self.rng.uniform(0, request.timeout)
        if not self.road.cut:
            self.world.after(up, partial(self._serve, self.road, kept, request, fate, down, answer))
        timeout = e.Failed(request, Failure(Kind.UNREACHABLE, "timeout"))
        self.after(request.timeout, partial(answer, timeout))

    def _serve(  # noqa: PLR0917 - by partial
        self,
        road: Road,
        kept: Kept,
        request: e.Get | e.Write,
        fate: str,
        down: float,
        answer: Callable[[e.Event], None],
    ) -> None:
        """What the server makes of a request, and its answer, which may be a lie."""
        if fate in {"late", "later"} and road is not self.road:
            return
        server, event = self.world.server, self._fateful(kept, request, fate)
        if event is None and fate != "lost" and not server.down:
            event = kept.answer(request)
            if fate == "sent twice":
                event = kept.answer(request)
            elif fate == "error after":
                event = e.Failed(request, Failure(Kind.UNREACHABLE, "500"))
            elif fate == "no-op" and isinstance(event, e.Wrote) and event.request.base:
                event = replace(event, seen=replace(event.seen, version=event.request.base.version))
        if event and fate != "answer lost" and not server.down:
            self.world.after(down, partial(answer, event))
            if fate == "answered twice":
                self.world.after(down + self.rng.uniform(0, 5), partial(answer, event))

    def _fateful(self, kept: Kept, request: e.Get | e.Write, fate: str) -> e.Event | None:
        """The answer to a request that is not acted on."""
        if fate in REFUSALS:
            return e.Failed(request, Failure(REFUSALS[fate], fate, self.rng.uniform(0, 30)))
        if fate == "lie" and isinstance(request, e.Write) and kept.stored:
            return e.Wrote(request, kept.stored.observed())
        return None

    def watch(self, kept: Kept, version: str, told: Callable[[e.Event], None]) -> Watch:
        """A watch of one object; whatever it tells after it is over is not to be heard."""
        watch = Watch()

        def tell(event: e.Event) -> None:
            if not watch.over:
                told(event)

        def hear(seen: Observed | None) -> None:
            if watch.over:
                kept.listeners.remove(hear)
            elif self.road.cut and not watch.deaf:
                self._deafen(watch, tell)
            elif self.rng.random() < self.road.watch_fault:
                self._trouble_watch(kept, watch, tell)
            elif not watch.deaf:  # in order
                lags = self.road.watch_lag and self.rng.random() < 0.05
                most = self.road.watch_lag if lags else self.road.latency
                watch.latest = max(watch.latest, self.world.now + self.rng.uniform(0, most))
                self.world.at(watch.latest, partial(tell, e.Saw(seen)))

        if self.road.watch_denied:
            self.world.after(self.rng.uniform(0, 0.1), partial(tell, e.WatchEnded("denied", denied=True)))
            return watch
        kept.listeners.append(hear)
        for seen in kept.since(version):
            hear(seen)
        return watch

    def _trouble_watch(self, kept: Kept, watch: Watch, tell: Callable[[e.Event], None]) -> None:
        rng = self.rng
        match rng.choice(("deaf", "ended", "throttled", "late", "stale", "dropped")):
            case "deaf":
                self._deafen(watch, tell)
            case "ended":
                self.world.after(0, partial(tell, e.WatchEnded("reset")))
            case "throttled":
                self.world.after(0, partial(tell, e.WatchEnded("busy", begun=False, retry_after=rng.uniform(1, 30))))
            case "dropped":  # one event; the watch ends some time later
                self.world.after(rng.uniform(0, 60), partial(tell, e.WatchEnded("reset")))
            case "late":
                if kept.stored:
                    self.world.after(rng.uniform(0, 20), partial(tell, e.Saw(kept.stored.observed())))
            case "stale":
                self.world.after(0, partial(tell, e.Saw(rng.choice(kept.history[-8:])[1])))

    def _deafen(self, watch: Watch, tell: Callable[[e.Event], None]) -> None:
        """A watch that is told nothing more; the loop notices by its silence."""
        watch.deaf = True
        self.world.after(self.rng.uniform(10, 60), partial(tell, e.WatchEnded("silent")))
