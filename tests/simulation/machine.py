"""One machine: the elector that is under test, and the supervisor reduced to what it promises.

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
from kleader.election.events import Instant, Observed
from kleader.election.record import SECOND
from kleader.election.state import Candidate, Phase, State, resume, resume_waiting
from tests.simulation.host import Host
from tests.simulation.pair import Pair

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.simulation.host import Watch
    from tests.simulation.server import Kept
    from tests.simulation.world import World


@dataclass
class Command:
    """What the supervisor knows of the term that it runs a command for."""

    lead: e.Lead
    stop_at: float
    kill_at: float
    dies_at: float = inf  # on this machine's clock; once set it is never put off
    lost: bool = False


class Machine(Host):
    """Feeds one state machine with what the world does to it; two objects are a multilock."""

    def __init__(self, world: World, name: str, me: Candidate, kept: tuple[Kept, ...]) -> None:
        me = replace(me, **kept[0].traits._asdict())
        me = replace(me, twofold=len(kept) > 1)
        super().__init__(world, name, me, kept)
        self.state: State | None = None  # None: there is no elector
        self.paused = False
        self.missed: list[Callable[[], object]] = []  # while paused
        self.pair: Pair | None = None  # of the present elector
        self.watching: Watch | None = None
        self.command: Command | None = None
        self.terms = 0
        self.renew_term = False  # the next elector's is not its predecessor's
        self.coarse = False  # it compares records at whole seconds, as client-go does

    @property
    def quiet(self) -> bool:
        """Neither leads nor polls."""
        return self.world.running is not self and not (self.state and self.state.denied)

    # --- the elector

    def start(self) -> None:
        """A fresh process: a new identity in all but name."""
        if self.up:
            return
        if self.world.just_deleted(self.kept):
            self.world.after(1, self.start)  # who never saw it held would create it at once: not promised
            return
        self.up, self.command = True, None
        self.saw.clear()
        self._elect(State(self.me, self._new_term()))

    def _new_term(self) -> str:
        self.terms += 1
        return f"{self.name}-{self.terms}"

    def _elect(self, state: State) -> None:
        self.life += 1
        self.paused, self.missed, self.state = False, [], state
        if len(self.kept) > 1:
            self.pair = Pair(self, replaces=state.phase is Phase.LEADING or state.doubt)
        self.world.log(self.name, "starts an elector", state.phase.value, state.incarnation)
        self.tell(e.Woke())

    def deliver(self, what: Callable[[], object]) -> None:
        """To the present elector: now, or when it is not paused any more."""
        if self.paused:
            self.missed.append(what)
        else:
            what()

    def tell(self, event: e.Event) -> None:
        """One step of the election."""
        if self.paused:
            self.missed.append(partial(self.tell, event))
        if self.state is None or self.paused:
            return
        if isinstance(event, (e.Got, e.Saw)) and event.seen and not self.pair:
            event = replace(event, seen=self._at_whole_seconds(event.seen))
            self.saw.add(self.kept[0].name)
        now = Instant(self.boot, self.wall, self.rng.random())
        self.state, actions = election.step(self.state, event, now)
        assert self.state.wake_at > now.boot, "spins"
        life = self.life
        for action in actions:
            self.world.log(self.name, type(event).__name__, action)
            self._perform(action)
        if life == self.life and self.state.wake_at < inf:
            self.after(max(1e-6, self.state.wake_at - self.boot), partial(self._wake, life, self.state.wake_at))

    def _at_whole_seconds(self, seen: Observed) -> Observed:
        if not self.coarse or seen.record.holder == self.me.identity or seen.record.renewed is None:
            return seen
        return replace(seen, record=replace(seen.record, renewed=seen.record.renewed // SECOND * SECOND))

    def _wake(self, life: int, due: float) -> None:
        if self.state and life == self.life and self.state.wake_at == due:
            self.tell(e.Woke())

    def pause(self, seconds: float) -> None:
        """SIGSTOP and SIGCONT, for the elector alone."""
        if self.state and not self.paused:
            self.paused = True
            self.world.after(seconds, partial(self.go_on, self.life))

    def go_on(self, life: int) -> None:
        """SIGCONT, if it is still for this elector."""
        if life == self.life and self.paused:
            self.paused, missed, self.missed = False, self.missed, []
            missed.append(partial(self.tell, e.Woke()))
            for each in missed:
                self.deliver(each)

    # --- what it asks for

    def _perform(self, action: e.Action) -> None:
        match action:
            case e.Get() | e.Write():
                self._call(action)
            case e.Watch(seen):
                self._unwatch()
                self._look_on(seen)
            case e.Unwatch():
                self._unwatch()
            case e.Lead():
                self._led(action)
            case e.Extend(stop_at, kill_at):
                if self.command and not self.command.lost and self.rng.random() > self.road.fault / 10:
                    self.command.stop_at, self.command.kill_at = stop_at, kill_at
            case e.Lost(_, kill_now):
                self.lose(kill_now=kill_now)
            case e.Yield() if self.command:
                self.stop(self.rng.uniform(0, 3))
            case e.Done() | e.GiveUp():
                self.crash()

    def _call(self, request: e.Get | e.Write) -> None:
        if self.pair:
            self.pair.ask(request)
        else:
            self.send(self.kept[0], request, partial(self._answer, self.life))

    def _answer(self, life: int, event: e.Event) -> None:
        if life == self.life:
            self.tell(event)

    def _look_on(self, seen: Observed | None) -> None:
        if self.pair:
            self.pair.watch(seen)
        else:
            self.watching = self.watch(self.kept[0], seen.version if seen else "", self.tell)

    def _unwatch(self) -> None:
        if self.pair:
            self.pair.unwatch()
        elif self.watching:
            self.watching.over = True

    # --- the supervisor

    def _led(self, lead: e.Lead) -> None:
        assert self.command is None, "a second command for one term"
        assert lead.stop_at > self.boot
        self.command = Command(lead, lead.stop_at, lead.kill_at)
        self.world.started(self, lead.token)
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
        """TERM: the command winds down, the lock is renewed meanwhile; a candidate that waits ends."""
        if self.command:
            self._doom(self.command, self.boot + seconds)
        elif self.state:
            self.tell(e.Emptied(release=True))

    def _doom(self, command: Command, dies_at: float) -> None:
        if dies_at < command.dies_at:
            command.dies_at = max(dies_at, self.boot)
            self.after(command.dies_at - self.boot, partial(self._mind, command))

    def _emptied(self, command: Command) -> None:
        self.world.ended(self)
        self.command = None
        if self.state is None:
            self._elect_later(new_term=True)
        elif not self.retired and self.rng.random() < 0.5:  # lost, or an orderly end of the term: --on-loss wait
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
        self.up, self.command = False, None
        self._end_elector()
        if not self.retired:
            self.world.after(self.rng.uniform(0.1, 20), self.start)

    def mend(self) -> None:
        """What is missing or stopped is not for long."""
        super().mend()
        self.go_on(self.life)
        if self.up and self.state is None:
            self._succeed(self.life)

    def crash_elector(self) -> None:
        """The elector alone dies; the supervisor replaces it when it has reaped it."""
        if self.state and self.state.phase is not Phase.OVER:
            self._end_elector()
            self._elect_later(new_term=False)

    def _end_elector(self) -> None:
        self.state = None
        self.life += 1
        self._unwatch()
        self.loop.end()

    def _elect_later(self, *, new_term: bool) -> None:
        self.renew_term = new_term
        self.world.after(self.rng.choice((0.05, self.rng.uniform(0, 12))), partial(self._succeed, self.life))

    def _succeed(self, life: int) -> None:
        if life != self.life or not self.up:
            return
        command, term = self.command, f"{self.name}-{self.terms}"
        if command is None:
            self._elect(resume_waiting(self.me, self._new_term() if self.renew_term else term))
        elif not command.lost and command.dies_at == inf:
            lead, t0 = command.lead, command.stop_at - self.me.timing.renew_deadline
            self._elect(resume(self.me, term, t0, acquired=lead.acquired, transitions=lead.transitions))
        # else it is dying: a new term begins when it is dead
