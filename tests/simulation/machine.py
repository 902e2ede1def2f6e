"""One machine: the elector that is under test, beside its supervisor."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from math import inf
from typing import TYPE_CHECKING

from kleader.election import events as e
from kleader.election import step_function as election
from kleader.election.events import Instant, Observed
from kleader.election.record import SECOND
from kleader.election.state import Candidate, Phase, State
from kleader.elector import resumption
from kleader.ipc.messages import Assign
from tests.simulation.host import MOST_ASKED, Host
from tests.simulation.pair import Pair
from tests.simulation.supervisor import Supervisor

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.simulation.host import Watch
    from tests.simulation.server import Kept
    from tests.simulation.supervisor import Command
    from tests.simulation.world import World


class Machine(Host):
    """Feeds one state machine with what the world does to it; two objects are a multilock."""

    def __init__(self, world: World, name: str, me: Candidate, kept: tuple[Kept, ...]) -> None:
        me = replace(me, **kept[0].properties._asdict())
        me = replace(me, is_multilock=len(kept) > 1)
        super().__init__(world, name, me, kept)
        self.state: State | None = None  # None: there is no elector
        self.due = inf  # when it wants to be woken
        self.missed: list[Callable[[], object]] = []  # while paused
        self.pair: Pair | None = None  # of the present elector
        self.watching: Watch | None = None
        self.warm = False  # its kleader has a standby
        self.supervisor = Supervisor(self)
        self.memory = ""  # what an elector has told for the next
        self.terms = 0
        self.renew_term = False  # the next elector's is not its predecessor's
        self.release = 0.8  # of its terms that end in good order release the lock; the others have --no-release
        self.coarse = False  # it compares records at whole seconds, as client-go does

    @property
    def quiet(self) -> bool:
        """Neither leads nor polls."""
        return self.world.running is not self and not (self.state and self.state.watch_denied)

    # --- the elector

    def start(self) -> None:
        """A fresh process: a new identity in all but name."""
        if self.up:
            return
        if self.world.just_robbed(self):
            self.hinder(1)
            self.world.after(1, self.start)  # who never saw it held would create it at once: not promised
            return
        self.up, self.supervisor, self.memory = True, Supervisor(self), ""
        self.saw.clear()
        self._elect(State(self.me, self._new_term()))

    @property
    def _term(self) -> str:
        return f"{self.name}-{self.terms}"

    def _new_term(self) -> str:
        self.terms += 1
        return self._term

    def _elect(self, state: State) -> None:
        self.life += 1
        self.paused, self.missed, self.state = False, [], state
        if len(self.kept) > 1:
            self.pair = Pair(self)
        self.world.log(self.name, "starts an elector", state.phase.value, state.incarnation)
        self.tell(e.TimerFired())

    def deliver(self, what: Callable[[], object]) -> None:
        """To the present elector: now, or when it is not paused any more."""
        if self.paused:
            self.missed.append(what)
        else:
            what()

    def tell(self, event: e.Event) -> None:
        """One step of the election."""
        before, life = self.state, self.life
        if self.paused:
            self.missed.append(partial(self.tell, event))
            return
        if before is None:
            return
        if isinstance(event, (e.RequestFailed, e.WatchEnded)):
            self._note_retry_after(event)
        elif self.coarse and isinstance(event, (e.GetDone, e.WatchEvent)) and event.observed and not self.pair:
            event = replace(event, observed=self._at_whole_seconds(event.observed))
        now = Instant(self.boot, self.wall, self.rng.random())
        self.state, actions = election.step(before, event, now)
        if resume_state := resumption.resume_state(before, self.state):
            self.memory = resume_state.state
        self._note_observed(before.observed, self.state.observed)
        self.due = self.state.wake_at
        assert self.due > now.boot, "spins"
        for action in actions:
            self.world.log(self.name, type(event).__name__, action)
            if self.state.phase is Phase.HOLDING and before.phase is not Phase.HOLDING:
                self._holds()
            self.between()
            if life != self.life:
                return
            self.deliver(partial(self._perform, action))
        if life == self.life and self.due < inf:
            self.after(max(1e-6, self.due - now.boot), partial(self._wake, life, self.due))

    def _note_observed(self, before: Observed | None, observed: Observed | None) -> None:
        """What the election has observed: an answer that came too late was none."""
        if observed is None or observed is before:
            return
        parts = observed.base if self.me.is_multilock else (observed,)
        for kept, part in zip(self.kept, parts, strict=False):
            if part and not part.is_blank:
                known = self.saw.get(kept.name, self.me.timing.lease_duration)
                self.saw[kept.name] = max(known, part.record.duration)

    def _note_retry_after(self, event: e.RequestFailed | e.WatchEnded) -> None:
        seconds = event.failure.retry_after if isinstance(event, e.RequestFailed) else event.retry_after
        if seconds:
            self.hinder(1.1 * seconds)  # from now on: it may have been told late

    def _at_whole_seconds(self, seen: Observed) -> Observed:
        renewed = seen.record.renewed
        if not renewed or not renewed % SECOND or seen.record.holder == self.me.identity:
            return seen
        return replace(seen, record=replace(seen.record, renewed=renewed // SECOND * SECOND))

    def _holds(self) -> None:
        """It waits before it leads, with the lock."""
        if met := self.meet("holding"):
            life, wait = self.life, self.world.lease * met.luck
            self.hinder(wait)
            self.after(wait, lambda: self.crash_elector() if life == self.life else None)

    def _wake(self, life: int, due: float) -> None:
        if self.state and life == self.life and self.due == due:
            self.tell(e.TimerFired())

    def pause(self, seconds: float) -> None:
        """SIGSTOP and SIGCONT, for the elector alone."""
        if self.state and not self.paused:
            self.paused = True
            self.world.after(seconds, partial(self.go_on, self.life))

    def go_on(self, life: int) -> None:
        """SIGCONT, if it is still for this elector."""
        if life == self.life and self.paused:
            self.paused, missed, self.missed = False, self.missed, []
            missed.append(partial(self.tell, e.TimerFired()))
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
            case e.Acquired() | e.Renewed() | e.Lost() | e.StepDown():
                self.supervisor.receive(action)
            case e.Released() | e.AcquireFailed():
                self._candidacy_ended()

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

    # --- beside its supervisor

    def stop(self, seconds: float) -> None:
        """TERM: the command winds down, the lock is renewed meanwhile; a candidate that waits ends."""
        if self.supervisor.command:
            self.supervisor.stop(seconds)
        elif self.state and not self.supervisor.stopped:
            self.supervisor.ending = True
            self.tell(e.AllProcessesExited(release=True))

    def emptied(self, command: Command) -> None:
        """Nothing of a term is alive: the candidacy ends, and another one may follow (--on-loss wait)."""
        contends = self.fortune.random() < 0.5
        if self.state is None:
            self._elect_later(new_term=True)
        elif command.lost and contends:
            self.tell(e.Restart(self._new_term()))
        else:
            self.supervisor.ending, self.supervisor.owed = True, None if command.lost else command
            self.supervisor.rests = (0.5 + self.me.timing.lease_duration * command.asked) if contends else inf
            release = not command.lost and (
                self.me.non_expiring or command.asked or self.fortune.random() < self.release
            )
            record = not (command.lost or self.me.non_expiring)
            self.tell(e.AllProcessesExited(release, command.to if release else "", record=record))

    def deserted(self, life: int) -> None:
        """The elector finds that its supervisor has not answered for too long."""
        if life == self.life and self.supervisor.stopped:
            self.tell(e.SupervisorUnresponsive("the supervisor does not answer"))

    # --- misfortunes

    def crash(self) -> None:
        """The whole machine: nothing of it is left; a fresh process comes later."""
        self.supervisor.vanish()
        self.over()

    def over(self) -> None:
        """Of kleader nothing is left; a fresh process comes later."""
        if self.up:
            self.up = False
            self._end_elector()
            self.come_back()

    def repair(self) -> None:
        """What is missing or stopped is not for long."""
        super().repair()
        if self.paused:
            self.hinder(MOST_ASKED)
        self.supervisor.go_on(self.supervisor)
        self.supervisor.hasten()
        self.go_on(self.life)
        if self.up and self.state is None:
            self._succeed(self.life)

    def crash_elector(self) -> None:
        """The elector alone dies; the supervisor replaces it when it has reaped it."""
        if self.state and self.state.phase is not Phase.OVER:
            self._end_elector()
            owed, self.supervisor.owed = self.supervisor.owed, None
            if owed:  # where it expires it may have been released: the next elector only records the run
                self._resume(owed)
                self.tell(e.AllProcessesExited(self.me.non_expiring, owed.to, record=not self.me.non_expiring))
            elif self.supervisor.ending:
                self._candidacy_ended()
            else:
                self._elect_later(new_term=False)

    def _candidacy_ended(self) -> None:
        """Another one follows, with another elector, or kleader ends."""
        rests, self.supervisor.rests = self.supervisor.rests, inf
        if rests < inf:
            self.supervisor.ending, self.supervisor.owed, self.renew_term = False, None, True
            self._end_elector()
            self.after(rests, partial(self._succeed, self.life))
        else:
            self.over()

    def _end_elector(self) -> None:
        self.state = None
        self.life += 1
        self._unwatch()
        self.loop.end()

    def _elect_later(self, *, new_term: bool) -> None:
        self.renew_term = new_term
        wait = self.fortune.choice((0.05, 0.8 * self.world.lease * self.fortune.random()))
        self.world.after(wait, partial(self._succeed, self.life))

    def _succeed(self, life: int) -> None:
        if life != self.life or not self.up:
            return
        command = self.supervisor.command
        if self.supervisor.stopped:
            self.world.after(1, partial(self._succeed, life))
        elif command is None:
            self._elect(self._resumed(self._new_term() if self.renew_term else self._term))
        elif not command.lost:
            self._resume(command)
        # else it is dying: a new term begins when it is dead

    def _resume(self, command: Command) -> None:
        t0 = command.stop_at - self.me.timing.renew_deadline
        self._elect(self._resumed(self._term, command.lead, t0))

    def _resumed(self, term: str, lead: e.Acquired | None = None, t0: float = 0.0) -> State:
        acquired, transitions = (lead.acquired, lead.transitions) if lead else (0, 0)
        assign = Assign(term, lead is not None, True, t0, acquired, transitions, [], self.memory)  # noqa: FBT003
        state = resumption.resumed(self.me, assign, self.boot)
        if resume_state := resumption.resume_state(None, state):
            self.memory = resume_state.state
        return state
