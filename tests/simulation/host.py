"""What every candidate runs on: a machine with its own clock, and a network to the API server."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from kleader.election import events as e
from kleader.election.events import Failure, Kind, Observed
from kleader.election.record import SECOND
from tests.simulation.loop import Loop

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kleader.election.state import Candidate
    from tests.simulation.server import Kept
    from tests.simulation.world import World

MOST_ASKED = 33.0  # seconds for which a host leaves the API server alone when it is asked to
WALL = 1_700_000_000 * SECOND
REFUSALS = {"500": Kind.UNREACHABLE, "429": Kind.THROTTLED, "403": Kind.DENIED, "422": Kind.REFUSED}
#: What may become of a request.
REQUEST_FAULTS = (
    "request lost",
    "request late",  # and then acted on, maybe when nobody waits for it any more
    *("answer slow",) * 3,
    *("answer lost",) * 2,
    "answered twice",
    "request sent twice",  # by a proxy
    "error after it was done",
    "no-op",  # an answer with the version that was sent
    "answer lies",  # it shows something else; the request was not acted on
    *REFUSALS,
)
#: What may become of a watch, when it should tell something.
WATCH_FAULTS = ("watch deaf", "watch ended", "watch throttled", "event late", "event stale", "event dropped")
#: Likewise, where the order matters: as long as such a watch lasts it tells all, and in order, as real ones do.
ORDERLY = ("watch deaf", "watch ended", "watch throttled")
LAGS = (0.0, 1.0, 20.0)  # seconds that such a one may be behind
#: What may come right after a start.
START_FAULTS = ("partition after start",)
#: What may happen between two steps of a process.
STEP_FAULTS = ("machine dies between two steps", "elector dies between two steps", "elector stops between two steps")
#: Of what the next may have something that awaits it.
KINDS_AHEAD = ("take", "request", "event", "step", "start", "holding")


class Ahead(NamedTuple):
    """What awaits the next of something, unless that comes too late; or all of them until then."""

    what: str
    since: float
    until: float
    once: bool
    luck: float  # in [0, 1)


@dataclass
class Network:
    """The network between a host and the API server."""

    latency: float = 0.01  # seconds, the most in one direction
    cut: bool = False
    watch_denied: bool = False
    watch_lag: float = 0.0  # seconds that now and then a watch is behind at most, in order; some begin behind


NOTHING = Ahead("", 0, 0, once=False, luck=0)
TIMEOUT = Failure(Kind.UNREACHABLE, "timeout")


class Watch:
    """A watch, until it is said to be over."""

    def __init__(self, told: Callable[[e.Event], None]) -> None:
        self._told = told
        self.over = False
        self.deaf = False
        self.latest = 0.0  # when its last event arrives
        self._has_told = False

    def tell_first(self, event: e.Event) -> None:
        """Unless it has told something else before."""
        if not self._has_told:
            self.tell(event)

    def tell(self, event: e.Event) -> None:
        """Unless it is over."""
        self._has_told = True
        if not self.over:
            self.over = isinstance(event, e.WatchEnded)
            self._told(event)


class Host:
    """Its clock may be 5 % off. ``kept`` are the objects that its candidate locks."""

    fates: Sequence[str] = REQUEST_FAULTS
    lapses: Sequence[str] = WATCH_FAULTS
    trips: Sequence[str] = STEP_FAULTS

    def __init__(self, world: World, name: str, me: Candidate, kept: tuple[Kept, ...]) -> None:
        self.world, self.name, self.me, self.kept = world, name, me, kept
        self.rng, self.fortune = world.fork(), world.fork()  # for every step; and for what seldom happens
        self.rate = self.rng.choice((0.95, 1.05, self.rng.uniform(0.95, 1.05)))
        self.offset = self.rng.uniform(0, 1e6)
        self.skew = self.rng.uniform(-5, 5)  # of the wall clock, seconds
        self.network = Network()
        self.loop = Loop(self)
        self.life = 0  # counts processes, so that what was meant for one does not reach the next
        self.up = False
        self.paused = False  # what minds the lock
        self.ahead: dict[str, deque[Ahead]] = {kind: deque() for kind in KINDS_AHEAD}
        self._watches: list[Watch] = []
        self.asked: list[float] = []  # when requests were made
        self.saw: dict[str, int] = {}  # for how long what its present process has seen may be held, by object

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
        self.world.at(self.world.now + seconds / self.rate, what)

    # --- its faults

    def start(self) -> None:
        """A fresh process, unless there is one."""
        raise NotImplementedError

    def stop(self, seconds: float) -> None:
        """A planned stop: the command winds down for so long, the lock is renewed meanwhile and released then."""
        raise NotImplementedError

    def crash(self) -> None:
        """The whole machine: nothing of it is left."""
        raise NotImplementedError

    def repair(self) -> None:
        """Nothing hinders it any more."""
        self.network = Network(watch_denied=self.network.watch_denied)
        for ahead in self.ahead.values():
            ahead.clear()
        for watch in self._watches:
            self.world.after(0, partial(watch.tell, e.WatchEnded("reset")))
        self.start()

    def crash_elector(self) -> None:
        """What minds the lock dies alone, if it can."""

    def pause(self, seconds: float) -> None:
        """What minds the lock is stopped alone, if it can be."""

    def come_back(self) -> None:
        """Start anew, sooner or later."""
        self.world.after(self.fortune.uniform(0.1, 1.3 * self.world.lease), self.start)

    def meet(self, kind: str) -> Ahead | None:
        """What awaits this request, event or whatever it is."""
        ahead = self.ahead[kind]
        while ahead and ahead[0].until < self.world.now:
            ahead.popleft()
        if not ahead or ahead[0].since > self.world.now:
            return None
        met = ahead.popleft() if ahead[0].once else ahead[0]
        self.world.note_fault(self, met.what)
        return met

    def cut_off(self, seconds: float) -> None:
        """From the API server."""
        network = self.network
        network.cut = True

        def end() -> None:
            network.cut = False

        self.world.after(seconds, end)

    def started(self, token: str = "") -> None:
        """Its command."""
        self.world.started(self, token)
        if met := self.meet("start"):
            self.cut_off(2 * self.world.lease * met.luck)

    def between(self) -> None:
        """Between two steps."""
        if met := self.meet("step"):
            match met.what:
                case "machine dies between two steps":
                    self.crash()
                case "elector dies between two steps":
                    self.crash_elector()
                case "elector stops between two steps":
                    self.pause(20 * met.luck)

    def deliver(self, what: Callable[[], object]) -> None:
        """To the present process, when it runs."""
        what()

    # --- its network

    def send(self, kept: Kept, request: e.Get | e.Write, answer: Callable[[e.Event], None]) -> None:
        """A request, answered once, twice, or by a timeout."""
        self.asked.append(self.world.now)
        takes = isinstance(request, e.Write) and self.world.running is not self
        met = (takes and self.meet("take")) or self.meet("request") or NOTHING
        up, down = self.network.latency * self.rng.random(), self.network.latency * self.rng.random()
        if met.what == "request late":
            up = 20 * met.luck
        elif met.what == "request too late":
            up = request.timeout / self.rate + 15 * met.luck
        elif met.what == "answer slow":
            down = request.timeout * met.luck
        if met.what or self.network.cut or self.world.server.down:
            self.hinder(request.timeout)
        if not self.network.cut:
            self.world.after(up, partial(self._serve, self.network, kept, request, met, down, answer))
        self.after(request.timeout, partial(answer, e.RequestFailed(request, TIMEOUT)))

    def _serve(  # noqa: PLR0917 - by partial
        self,
        network: Network,
        kept: Kept,
        request: e.Get | e.Write,
        met: Ahead,
        down: float,
        answer: Callable[[e.Event], None],
    ) -> None:
        """What the server makes of a request, and its answer, which may be a lie."""
        fate = met.what
        if fate in {"request late", "request too late"} and network is not self.network:
            return
        server, event = self.world.server, self._refused(kept, request, met)
        if event is None and fate != "request lost" and not server.down:
            event = kept.answer(request)
            if fate == "request sent twice":
                event = kept.answer(request)
            elif fate == "error after it was done":
                event = e.RequestFailed(request, Failure(Kind.UNREACHABLE, "500"))
            elif fate == "no-op" and isinstance(event, e.WriteDone) and event.request.base:
                event = replace(event, observed=replace(event.observed, version=event.request.base.version))
        if event and fate != "answer lost" and not server.down:
            self.world.after(down, partial(answer, event))
            if fate == "answered twice":
                self.world.after(down + 5 * met.luck, partial(answer, event))

    def _refused(self, kept: Kept, request: e.Get | e.Write, met: Ahead) -> e.Event | None:
        """The answer to a request that is not acted on."""
        if met.what in REFUSALS:
            return e.RequestFailed(request, Failure(REFUSALS[met.what], met.what, self._stay_away(met)))
        if met.what == "answer lies" and isinstance(request, e.Write) and kept.seen:
            return e.WriteDone(request, kept.seen)
        return None

    def watch(self, kept: Kept, version: str, told: Callable[[e.Event], None]) -> Watch:
        """A watch of one object; whatever it tells after it is over is not to be heard."""
        watch = Watch(told)
        self._watches = [each for each in self._watches if not each.over] + [watch]

        def receive(seen: Observed | None) -> None:
            if watch.over:
                kept.listeners.remove(receive)
            elif self.network.cut and not watch.deaf:
                self._deafen(watch, self.rng.random())
            elif met := self.meet("event"):
                self._lapse(kept, watch, met)
            elif not watch.deaf:  # in order
                lags = self.network.watch_lag and self.rng.random() < 0.05
                most = self.network.watch_lag if lags else self.network.latency
                watch.latest = max(watch.latest, self.world.now + self.rng.uniform(0, most))
                self.world.at(watch.latest, partial(watch.tell, e.WatchEvent(seen)))

        if self.network.watch_denied:
            self.world.after(self.rng.uniform(0, 0.1), partial(watch.tell, e.WatchEnded("denied", denied=True)))
            return watch
        kept.listeners.append(receive)
        behind = 0 if version or not self.network.watch_lag else self.rng.choice((0, 0, 1, 2, 8))
        for seen in kept.since(version, behind):
            receive(seen)
        if self.me.coordinated and not version:
            self.world.after(self.network.latency * self.rng.random(), partial(self._read_missing, kept, watch))
        return watch

    def _read_missing(self, kept: Kept, watch: Watch) -> None:
        """Once a watch has begun the object is read: that it is missing is the first thing that the watch tells."""
        if self.network.cut or self.world.server.down:
            watch.tell(e.WatchEnded("no answer"))
        elif kept.stored is None:
            first = partial(watch.tell_first, e.WatchEvent(None))
            self.world.after(self.network.latency * self.rng.random(), first)

    def _lapse(self, kept: Kept, watch: Watch, met: Ahead) -> None:
        after: float = 0
        event: e.Event = e.WatchEnded("reset")
        match met.what:
            case "watch deaf":
                self._deafen(watch, met.luck)
                return
            case "watch throttled":
                event = e.WatchEnded("busy", begun=False, retry_after=self._stay_away(met))
            case "event dropped":  # the watch ends some time later
                after = 60 * met.luck
            case "event late" if kept.seen:
                after, event = 20 * met.luck, e.WatchEvent(kept.seen)
            case "event stale":
                event = e.WatchEvent(kept.history[-1 - int(met.luck * min(8, len(kept.history)))][1])
        self.world.after(after, partial(watch.tell, event))

    def _deafen(self, watch: Watch, luck: float) -> None:
        """A watch that is told nothing more; the loop notices by its silence."""
        watch.deaf = True
        self.world.after(10 + 50 * luck, partial(watch.tell, e.WatchEnded("silent")))

    def _stay_away(self, met: Ahead) -> float:
        """Seconds for which the server asks to be left alone; up to a tenth more is waited."""
        seconds = MOST_ASKED / 1.1 * met.luck
        self.hinder(1.1 * seconds)
        return seconds

    def hinder(self, seconds: float) -> None:
        """It cannot be expected to do anything for so long, by its own clock."""
        self.world.hindered_until = max(self.world.hindered_until, self.world.now + seconds / self.rate)
