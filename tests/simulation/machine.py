"""One machine: its clock, the elector that is under test, and the supervisor reduced to what it promises.

A command runs from Lead until it is killed: at once when the lock was lost to somebody else, else K after kill_at by
this machine's own clock at the latest. When it is dead, and not before, the elector is told so.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from math import inf
from typing import TYPE_CHECKING

from kleader.election import elector as election
from kleader.election import events as e
from kleader.election.events import Failure, Instant, Kind, Observed
from kleader.election.record import SECOND
from kleader.election.state import Candidate, Phase, State, resume, resume_waiting

if TYPE_CHECKING:
    from collections.abc import Callable

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
    """How bad a machine's road to the API server is: probabilities for each request or event."""

    fault: float = 0.0
    watch_fault: float = 0.0
    latency: float = 0.01  # seconds, the most in one direction
    cut: bool = False
    watch_denied: bool = False
    watch_lag: float = 0.0  # seconds that now and then a watch is behind at most, in order


@dataclass
class Command:
    """What the supervisor knows of the term that it runs a command for."""

    lead: e.Lead
    stop_at: float
    kill_at: float
    dies_at: float = inf  # on this machine's clock; once set it is never put off
    lost: bool = False
    yielding: bool = False


class Machine:
    """Feeds one state machine with what the world does to it."""

    def __init__(self, world: World, name: str, me: Candidate, rate: float) -> None:
        self.world, self.name, self.me, self.rate = world, name, me, rate
        self.rng = world.rng
        self.offset = self.rng.uniform(0, 1e6)
        self.skew = self.rng.uniform(-5, 5)  # of the wall clock, seconds
        self.road = Road()
        self.state: State | None = None  # None: there is no elector
        self.life = 0  # counts electors, so that what was meant for one does not reach the next
        self.paused = False
        self.missed: list[e.Event] = []  # while paused
        self.watch = 0  # counts watches
        self.deaf = False
        self.command: Command | None = None
        self.terms = 0
        self.asked: list[float] = []  # when requests were made
        self.up = False
        self.coarse = False  # it compares records at whole seconds, as client-go does

    # --- its clock

    @property
    def boot(self) -> float:
        """Seconds on its own clock."""
        return self.offset + self.rate * self.world.now

    def after(self, seconds: float, what: Callable[[], None]) -> None:
        """Seconds of this machine's own clock from now."""
        self.world.after(seconds / self.rate, what)

    # --- the elector

    def start(self) -> None:
        """A fresh process: a new identity in all but name."""
        if self.world.just_deleted:
            self.world.after(1, self.start)  # who never saw it held would create it at once: not promised
            return
        self.up, self.command = True, None
        self._elect(State(self.me, self._new_term()))

    def _new_term(self) -> str:
        self.terms += 1
        return f"{self.name}-{self.terms}"

    def _elect(self, state: State) -> None:
        self.life += 1
        self.paused, self.missed, self.state = False, [], state
        self.world.log(self.name, "starts an elector", state.phase.value, state.incarnation)
        self.tell(e.Woke())

    def tell(self, event: e.Event) -> None:
        """One step of the election."""
        if self.paused:
            self.missed.append(event)
        if self.state is None or self.paused:
            return
        now = Instant(self.boot, WALL + round((self.world.now + self.skew) * SECOND), self.rng.random())
        if self.coarse and isinstance(event, (e.Got, e.Saw)):
            event = replace(event, seen=self._at_whole_seconds(event.seen))
        self.state, actions = election.step(self.state, event, now)
        assert self.state.wake_at > now.boot, "spins"
        life = self.life
        for action in actions:
            self.world.log(self.name, type(event).__name__, action)
            self._perform(action)
        if life == self.life and self.state.wake_at < inf:
            self.after(max(1e-6, self.state.wake_at - self.boot), partial(self._wake, life, self.state.wake_at))

    def _at_whole_seconds(self, seen: Observed | None) -> Observed | None:
        if seen is None or seen.record.holder == self.me.identity or seen.record.renewed is None:
            return seen
        return replace(seen, record=replace(seen.record, renewed=seen.record.renewed // SECOND * SECOND))

    def _wake(self, life: int, due: float) -> None:
        if self.state and life == self.life and self.state.wake_at == due:
            self.tell(e.Woke())

    def pause(self, seconds: float) -> None:
        """SIGSTOP and SIGCONT, for the elector alone."""
        if self.state and not self.paused:
            self.paused = True
            self.world.after(seconds, partial(self._unpause, self.life))

    def _unpause(self, life: int) -> None:
        if life == self.life and self.paused:
            self.paused, missed, self.missed = False, self.missed, []
            for event in (*missed, e.Woke()):
                self.tell(event)

    # --- what it asks for

    def _perform(self, action: e.Action) -> None:
        match action:
            case e.Get() | e.Write():
                self._call(action)
            case e.Watch(seen):
                self._watch(seen.version if seen else "")
            case e.Unwatch():
                self.watch += 1
            case e.Lead():
                self._led(action)
            case e.Extend(stop_at, kill_at):
                if self.command and not self.command.lost and self.rng.random() > self.road.fault / 10:
                    self.command.stop_at, self.command.kill_at = stop_at, kill_at
            case e.Lost(_, kill_now):
                self.lose(kill_now=kill_now)
            case e.Yield() if self.command:
                self.command.yielding = True
                self.stop(self.rng.uniform(0, 3))
            case e.Done() | e.GiveUp():
                self.crash()

    def _call(self, request: e.Get | e.Write) -> None:
        self.asked.append(self.world.now)
        fate = self.rng.choice(FATES) if self.rng.random() < self.road.fault else ""
        up, down = (self.rng.uniform(0, self.road.latency) for _ in range(2))
        if fate == "late":
            up = self.rng.uniform(0, 20)
        elif fate == "slow":
            down = self.rng.uniform(0, request.timeout)
        answer = partial(self._answer, self.life)
        if not self.road.cut:
            self.world.after(up, partial(self._serve, request, fate, down, answer))
        timeout = e.Failed(request, Failure(Kind.UNREACHABLE, "timeout"))
        self.after(request.timeout, partial(answer, timeout))

    def _answer(self, life: int, event: e.Event) -> None:
        if life == self.life:
            self.tell(event)

    def _serve(self, request: e.Get | e.Write, fate: str, down: float, answer: Callable[[e.Event], None]) -> None:
        """What the server makes of a request, and its answer, which may be a lie."""
        server, event = self.world.server, self._fateful(request, fate)
        if event is None and fate != "lost" and not self.world.down:
            event = server.answer(request)
            if fate == "sent twice":
                event = server.answer(request)
            elif fate == "error after":
                event = e.Failed(request, Failure(Kind.UNREACHABLE, "500"))
            elif fate == "no-op" and isinstance(event, e.Wrote) and event.request.base:
                event = replace(event, seen=replace(event.seen, version=event.request.base.version))
        if event and fate != "answer lost" and not self.world.down:
            self.world.after(down, partial(answer, event))
            if fate == "answered twice":
                self.world.after(down + self.rng.uniform(0, 5), partial(answer, event))

    def _fateful(self, request: e.Get | e.Write, fate: str) -> e.Event | None:
        """The answer to a request that is not acted on."""
        stored = self.world.server.stored
        if fate in REFUSALS:
            return e.Failed(request, Failure(REFUSALS[fate], fate, self.rng.uniform(0, 30)))
        if fate == "lie" and isinstance(request, e.Write) and stored:
            return e.Wrote(request, stored.observed())
        return None

    def _watch(self, version: str) -> None:
        self.watch += 1
        self.deaf = False
        watch, latest = self.watch, [self.world.now]

        def tell(event: e.Event) -> None:
            if watch == self.watch:
                self.tell(event)

        def hear(seen: Observed | None) -> None:
            if watch != self.watch:
                self.world.server.listeners.remove(hear)
                return
            if self.road.cut and not self.deaf:
                self._deafen(tell)
            elif self.rng.random() < self.road.watch_fault:
                self._trouble_watch(tell)
            elif not self.deaf:
                lags = self.road.watch_lag and self.rng.random() < 0.05
                most = self.road.watch_lag if lags else self.road.latency
                latest[0] = max(latest[0], self.world.now + self.rng.uniform(0, most))  # in order
                self.world.at(latest[0], partial(tell, e.Saw(seen)))

        if self.road.watch_denied:
            self.world.after(self.rng.uniform(0, 0.1), partial(tell, e.WatchEnded("denied", denied=True)))
            return
        self.world.server.listeners.append(hear)
        for seen in self.world.server.since(version):
            hear(seen)

    def _trouble_watch(self, tell: Callable[[e.Event], None]) -> None:
        rng = self.rng
        match rng.choice(("deaf", "ended", "throttled", "late", "stale", "dropped")):
            case "deaf":
                self._deafen(tell)
            case "ended":
                self.world.after(0, partial(tell, e.WatchEnded("reset")))
            case "throttled":
                self.world.after(0, partial(tell, e.WatchEnded("busy", begun=False, retry_after=rng.uniform(1, 30))))
            case "dropped":  # one event; the watch ends some time later
                self.world.after(rng.uniform(0, 60), partial(tell, e.WatchEnded("reset")))
            case "late":
                if self.world.server.stored:
                    self.world.after(rng.uniform(0, 20), partial(tell, e.Saw(self.world.server.stored.observed())))
            case "stale":
                self.world.after(0, partial(tell, e.Saw(rng.choice(self.world.server.history[-8:])[1])))

    def _deafen(self, tell: Callable[[e.Event], None]) -> None:
        """A watch that is told nothing more; the loop notices by its silence."""
        self.deaf = True
        self.world.after(self.rng.uniform(10, 60), partial(tell, e.WatchEnded("silent")))

    # --- the supervisor

    def _led(self, lead: e.Lead) -> None:
        assert self.command is None, "a second command for one term"
        assert lead.stop_at > self.boot
        self.command = Command(lead, lead.stop_at, lead.kill_at)
        self.world.started(self)
        self._mind(self.command)

    def _mind(self, command: Command) -> None:
        """The dead-man's timer: needs nobody's help."""
        if self.command is not command:
            return
        if self.boot >= command.dies_at:
            self._emptied(command)
            return
        if self.boot >= command.stop_at:
            self.lose(kill_now=False)
        self.after(
            max(1e-6, min(command.dies_at, inf if command.lost else command.stop_at) - self.boot),
            partial(self._mind, command),
        )

    def lose(self, *, kill_now: bool) -> None:
        """The stop signal, and SIGKILL at kill_at; or SIGKILL now. Either way the tree takes up to K to be reaped."""
        command, kill = self.command, self.me.timing.kill
        if command is None:
            return
        command.lost = True
        last = command.kill_at + kill * self.rng.random()
        dies_at = (
            self.boot + kill * self.rng.random()
            if kill_now
            else self.rng.choice((last, self.rng.uniform(self.boot, last)))
        )
        self._doom(command, dies_at)

    def stop(self, seconds: float) -> None:
        """A planned stop: the command winds down, the lock is renewed meanwhile."""
        if self.command:
            self._doom(self.command, self.boot + seconds)

    def _doom(self, command: Command, dies_at: float) -> None:
        if dies_at < command.dies_at:
            command.dies_at = max(dies_at, self.boot)
            self.after(command.dies_at - self.boot, partial(self._mind, command))

    def _emptied(self, command: Command) -> None:
        self.world.ended(self)
        self.command = None
        if self.state is None:
            self._elect_later(new_term=True)
        elif (command.lost or command.yielding) and self.rng.random() < 0.5:
            self.tell(e.Again(self._new_term(), release=not command.lost))
        else:
            self.tell(e.Emptied(release=not command.lost))

    # --- misfortunes

    def crash(self) -> None:
        """The whole machine, or the end of kleader: nothing of it is left; a fresh process comes later."""
        if not self.up:
            return
        if self.command:
            self.world.ended(self)
        self.up, self.command, self.state = False, None, None
        self.life += 1
        self.watch += 1
        self.world.after(self.rng.uniform(0.1, 20), self.start)

    def crash_elector(self) -> None:
        """The elector alone dies; the supervisor replaces it when it has reaped it."""
        if self.state and self.state.phase is not Phase.OVER:
            self.state = None
            self.life += 1
            self.watch += 1
            self._elect_later(new_term=False)

    def _elect_later(self, *, new_term: bool) -> None:
        self.world.after(self.rng.choice((0.05, self.rng.uniform(0, 12))), partial(self._succeed, self.life, new_term))

    def _succeed(self, life: int, new_term: bool) -> None:  # noqa: FBT001 - by partial
        if life != self.life or not self.up:
            return
        command, term = self.command, f"{self.name}-{self.terms}"
        if command is None:
            self._elect(resume_waiting(self.me, self._new_term() if new_term else term))
        elif not command.lost and command.dies_at == inf:
            lead, t0 = command.lead, command.stop_at - self.me.timing.renew_deadline
            self._elect(resume(self.me, term, t0, acquired=lead.acquired, transitions=lead.transitions))
        # else it is dying: a new term begins when it is dead
