"""What everything that happens means: the state of ``run``, and how it goes from one to the next."""

from __future__ import annotations

import math
import os
import signal

from kleader import platform
from kleader.link import messages as m
from kleader.supervisor.command import Command
from kleader.supervisor.deadline import Deadline
from kleader.supervisor.environment import environment
from kleader.supervisor.hooks import Hooks
from kleader.supervisor.minder import Minder
from kleader.supervisor.report import Report
from kleader.supervisor.rest import Rest
from kleader.supervisor.signals import ENDING, POLITE, name
from kleader.supervisor.states import NEXT, State
from kleader.supervisor.term import Term
from kleader.supervisor.tree import Sweep

TYPE_CHECKING = False
if TYPE_CHECKING:
    from kleader.link.plan import Plan
    from kleader.log import Log
    from kleader.supervisor.child import Child
    from kleader.supervisor.elector import Elector

NOT_ACQUIRED, FAILED = 124, 125
_DELIBERATE = 1.0  # a signal so long after the sweep began is meant to leave what will not die
_WHEN = {  # the states in which a message means something, where that is not all
    m.Lead: {State.WAITING},
    m.Lost: {State.LEADING, State.STOPPING, State.SWEEPING},
    m.Yield: {State.LEADING, State.SWEEPING},
}


class Life:
    """One plan, from the first candidacy to the exit status; told what happens and when, it waits for nothing."""

    def __init__(self, plan: Plan, log: Log, signals: platform.Signals, elector: Elector) -> None:
        self._plan, self._log, self._elector = plan, log, elector
        self._deadline = Deadline(platform.KillTimer() if os.getpid() != 1 else None, plan.kill)
        self._command = Command(plan, log, signals)
        self._sweep = Sweep(self._command.tree, self._deadline, log)
        self._minder = Minder(plan, log, signals, elector, self._command)
        self._report = Report(plan, log, self._command, self._deadline)
        self._hooks = Hooks(plan, log, signals, self._command.tree, elector)
        self._rest = Rest(plan, self._hooks.health, elector)
        self._state = State.WAITING
        self._term = Term(1)
        self._status = 0  # what kleader will exit with
        self._interrupted = False  # by Ctrl-C, before it led

    def begin(self) -> None:
        """From here on. Without an election the command is run at once."""
        if not self._plan.lock:
            self._to(State.LEADING)
            self._term.start_at = 0.0
        elif not self._hooks.health.well:
            self._to(State.RESTING)

    def end_blindly(self) -> None:
        """The supervisor cannot go on: nothing of the command is left behind."""
        self._kill_main()
        self._sweep.blindly()

    @property
    def over(self) -> bool:
        """Whether nothing is left to be done."""
        return self._state is State.ENDED

    def status(self) -> int:
        """The exit status, once it is over; does not return where kleader is to die of Ctrl-C as its command did.

        A shell wants to see that death, to end its loop or script as well: not where no shell can be above us.
        """
        self._elector.starter.let_go()
        self._report.close()
        interrupted = self._interrupted or self._command.interrupted
        if interrupted and self._status == 128 + signal.SIGINT and os.getsid(0) != os.getpid():
            platform.die_of(signal.SIGINT)
        return self._status

    @property
    def links(self) -> tuple[int | None, ...]:
        """For poll: where the elector and a new command speak, and who watches asks."""
        return self._elector.fd, self._command.news, *self._report.fds

    def due(self) -> float:
        """The next instant at which something has to be done even if nothing happens."""
        term = self._term
        due = [term.start_at, term.stop_by, self._sweep.next_at, self._minder.due(self._state, term), self._report.due]
        due.append(self._hooks.due(self._state, runs=self._command.runs))
        if self._state is State.RESTING:
            due.append(self._rest.due(term))
        if self._state in {State.LEADING, State.STOPPING}:
            due += [self._deadline.kill_at, math.inf if term.lost else self._deadline.stop_at]
        return min(due)

    def act(self, now: float) -> None:
        """What the clock says."""
        term = self._term
        self._deadline.awake(now)
        if self._state in {State.LEADING, State.STOPPING} and (passed := self._deadline.passed(now)):
            self._lose(passed, now, kill=now >= self._deadline.kill_at)
        if not self._hooks.health.well:
            self._unwell(now)
        if self._command.draining and self._command.tree.empty():
            self._begin_sweep(now)
        if self._state is State.LEADING and now >= term.start_at:
            self._start(now)
        if now >= term.stop_by:
            self._log.warning("the command did not stop in time: killing")
            self._begin_sweep(now)
        if self._state is State.SWEEPING and self._sweep.done(now):
            self._swept(now)
        if not self._minder.mind(self._state, self._term, now):
            if self._state is State.WAITING:
                self._end(FAILED, now)
            elif self._state is State.RESTING:
                self._rested(now)
            else:
                self._to(State.ENDED)
        self._hooks.mind(self._state, term, now, runs=self._command.runs)
        self._report.turn(self._state, self._term, now)

    def _to(self, state: State) -> None:
        if state not in NEXT[self._state]:
            msg = f"from {self._state} to {state}"
            raise AssertionError(msg)
        self._state = state
        self._log.role = state.value

    # --- what the elector says

    def hear(self, now: float) -> None:
        """All that it has said since."""
        self._command.look()
        heard = self._elector.hear(now)
        for message in heard:
            self._report.heard(message)
            if isinstance(message, m.Remember):
                self._minder.memory = message.what
            elif message.term == self._term.number:
                self._on_message(message, now)
        if heard:
            self._elector.tell(m.Alive(self._term.number))

    def _on_message(self, message: m.Message, now: float) -> None:
        if self._state not in _WHEN.get(type(message), State):
            return
        if isinstance(message, m.Lead):
            self._on_lead(message, now)
        elif isinstance(message, m.Extend):
            self._on_extend(message, now)
        elif isinstance(message, m.Lost):
            self._lose(message.reason, now, kill=message.kill_now)
        elif isinstance(message, m.Yield):
            self._on_yield(message, now)
        elif isinstance(message, m.Observe):
            self._on_observe(message)
        elif isinstance(message, m.Failed):
            self._log.error(message.reason, status=message.status)
            if self._state is State.WAITING:
                self._end(message.status, now)
        elif isinstance(message, m.Released):
            self._minder.released(message, self._term)

    def _on_observe(self, observe: m.Observe) -> None:
        if self._plan.lock != "file":
            self._log.about(namespace=observe.namespace)
        self._hooks.leads(observe.leader, observe.namespace)
        if observe.leader != self._plan.identity:
            self._log.info(f"the leader is {observe.leader[:256]}", leader=observe.leader[:256])

    def _on_lead(self, lead: m.Lead, now: float) -> None:
        self._term.lead, self._term.led_at = lead, now
        self._term.t0 = lead.stop_at - self._plan.renew_deadline
        self._minder.stay_awake()
        self._deadline.begin(lead.stop_at, lead.kill_at, now)
        self._to(State.LEADING)
        if self._plan.lock != "file":
            self._log.about(namespace=lead.namespace)
        self._hooks.leads(self._plan.identity, lead.namespace)
        what = f"token {lead.token}, transitions {lead.transitions}"
        self._log.info(f"became leader: {what}", token=lead.token, transitions=lead.transitions)
        self._term.start_at = now

    def _on_extend(self, extend: m.Extend, now: float) -> None:
        if self._state is State.WAITING:  # its Lead was lost: another will say it
            self._elector.replace()
        elif not self._term.lost:
            self._deadline.extend(extend.stop_at, extend.kill_at, now)
            self._term.t0 = max(self._term.t0, extend.stop_at - self._plan.renew_deadline)

    def _on_yield(self, said: m.Yield, now: float) -> None:
        term, between = self._term, self._state is State.SWEEPING
        if between and (term.over or term.quit or not self._command.again):
            return  # the term ends anyway
        term.yielded = said
        term.ends(now, name(self._plan.stop_signal or signal.SIGTERM), said.reason)
        self._status = self._plan.loss_exit_code
        self._log.info(f"giving up leadership: {said.reason}")
        if not between:
            self._stop(self._plan.stop_signal or signal.SIGTERM, now, now + self._plan.stop_timeout, send=True)

    # --- signals

    def on_signal(self, number: int, now: float, *, terminal: bool) -> None:
        """What it asks for depends on the state; ``terminal``: whoever else shares kleader's group has got it too."""
        if self._state is State.ENDED:
            return
        if self._state in {State.RESTING, State.WAITING}:
            if number == signal.SIGTSTP:
                self._minder.suspend(self._state)
            elif number in ENDING:
                self._log.info(f"{name(number)}: ending")
                self._interrupted = terminal
                self._end(128 + number, now)
        elif self._state is State.RELEASING:
            if number in ENDING:
                self._minder.abandon()
        elif number in POLITE:
            self._on_polite(number, now, terminal=terminal)
        else:
            self._command.forward(number, terminal=terminal)

    def _on_polite(self, number: int, now: float, *, terminal: bool) -> None:
        """TERM and INT: once politely, again to kill, and once more to leave what will not die."""
        term = self._term
        if not term.quit:
            term.quit = number
            if self._state is State.LEADING:
                term.ends(now, name(self._plan.stop_signal or number), f"{name(number)} came")
                self._status = self._status if self._command.runs else 128 + number
                had_it = self._command.has(terminal=terminal)
                self._stop(self._plan.stop_signal or number, now, now + self._plan.stop_timeout, send=not had_it)
            elif self._state is State.STOPPING and not self._command.has(terminal=terminal):
                self._command.ask_to_stop(self._plan.stop_signal or number)
        elif self._state is not State.SWEEPING:
            self._log.warning(f"{name(number)} again: killing")
            self._begin_sweep(now)
        elif now >= self._sweep.began + _DELIBERATE:
            self._log.error(f"{name(number)} again: leaving processes that will not die; the lock is not released")
            self._status = self._status or 128 + number
            self._to(State.ENDED)

    # --- children

    def reaped(self, pid: int, status: int, now: float) -> None:
        """A child has ended, or was stopped: with waitpid's status."""
        self._sweep.reaped(pid)
        if pid == self._elector.pid:
            self._minder.ended(status, now)
            self.hear(now)  # its last words
        elif self._command.main and pid == self._command.main.pid:
            self._on_main(self._command.main, status, now)
        else:
            self._hooks.reaped(pid, status, now)

    def _on_main(self, main: Child, status: int, now: float) -> None:
        if os.WIFSTOPPED(status):
            if self._state in {State.LEADING, State.STOPPING}:
                self._command.suspended(status)
            return
        self._command.ended(main, status, now)
        if self._state is State.ENDED:
            return
        if main.late:
            self._lose("the deadline passed before the command could start", now, kill=True)
            return
        self._term.ends(now, "", "the command ended")
        if not self._term.over or self._term.quit:
            self._status = main.status or 0
        if self._plan.until_empty and self._state in {State.LEADING, State.STOPPING} and not main.failure:
            self._command.draining = True
            if self._state is State.STOPPING:
                self._command.ask_to_stop(self._plan.stop_signal or self._term.quit or signal.SIGTERM)
        elif self._state is not State.SWEEPING:
            self._begin_sweep(now)

    # --- the command

    def _start(self, now: float) -> None:
        term = self._term
        term.start_at = math.inf
        env = environment(self._plan, term.lead, term.incarnation)
        try:
            main = self._command.fork(env, self._elector.starter.inherited, self._deadline.stop_at, now)
        except OSError as error:
            self._log.error(f"cannot start the command: {error.strerror}")
            term.ends(now, "", "the command could not be started")
            self._status = FAILED
            self._begin_sweep(now)
            return
        self._elector.tell(m.Started(term.number, main.pid, main.start))
        main.let_through()
        self._hooks.health.begin(now)
        self._log.debug(f"forked the command: pid {main.pid}", pid=main.pid)

    def _lose(self, reason: str, now: float, *, kill: bool) -> None:
        """Leadership is lost. With ``kill`` there is no grace; nor is there beyond kill_at, when it is lost again."""
        term = self._term
        first, term.lost = not term.lost, True
        polite = name(self._plan.stop_signal or signal.SIGTERM) if self._command.runs and not kill else "SIGKILL"
        term.ends(now, polite, f"the lock was lost: {reason}")
        if first and not term.quit:
            self._status = self._plan.loss_exit_code
        if self._state is not State.SWEEPING and (kill or not self._command.runs):
            self._begin_sweep(now)
        if first:  # after the kill: a log on a disk that hangs must not delay it
            self._log.error(f"lost the lock: {reason}")
        if first and self._state is not State.SWEEPING:
            by = min(term.stop_by, now + self._plan.grace)
            if self._state is State.LEADING:
                self._stop(self._plan.stop_signal or signal.SIGTERM, now, by, send=True)
            term.stop_by = by

    def _stop(self, number: int, now: float, by: float, *, send: bool) -> None:
        if not self._command.runs:  # between two starts
            self._begin_sweep(now)
            return
        self._to(State.STOPPING)
        self._term.stop_by = by
        self._log.info(f"stopping the command with {name(number)}")
        self._elector.tell(m.Stopping(self._term.number))
        if send:
            self._command.ask_to_stop(number)

    def _begin_sweep(self, now: float) -> None:
        """From here on SIGKILL, until nothing is left."""
        self._term.start_at = self._term.stop_by = math.inf
        self._command.draining = False
        self._to(State.SWEEPING)
        self._kill_main()
        self._sweep.begin(now)

    def _kill_main(self) -> None:
        """The one process that can be killed without looking for it, which takes descriptors that may be short."""
        if self._command.main:
            self._command.main.send(signal.SIGKILL)

    def _swept(self, now: float) -> None:
        """Nothing of the term is alive."""
        term = self._term
        if not self._restarts:
            term.tell(self._log, now)
        if term.over and self._plan.on_loss == "wait" and not term.quit:
            self._contend_again(now)
        elif self._restarts:
            self._to(State.LEADING)
            term.ending = None
            term.start_at = now + self._command.pause(now)
        else:
            self._end(self._status, now)

    @property
    def _restarts(self) -> bool:
        """Whether the command is to be started once more in this term."""
        return self._command.again and not self._term.quit and not self._term.over

    def _contend_again(self, now: float) -> None:
        if not self._hooks.health.well:
            self._begin_rest(now, self._plan.lease_duration)
            return
        self._to(State.WAITING)
        self._deadline.end()
        previous, self._term = self._term, Term(self._term.number + 1)
        self._status = 0
        release, to = previous.parting(self._plan.release)
        self._elector.tell(m.Again(previous.number, self._term.incarnation, release, to, previous.asked))

    # --- a candidate that is not well

    def _unwell(self, now: float) -> None:
        """A leader ends its term as on a Yield; nobody contends, and what may be ours is given up."""
        if self._state is State.LEADING:
            self._on_yield(f"the --health command failed {self._plan.health_failures} times in a row", now)
        elif self._state is State.WAITING:
            self._log.warning("not well: not contending")
            self._begin_rest(now, 0.0)

    def _begin_rest(self, now: float, seconds: float) -> None:
        """Nothing of a term runs. There is no elector until we are well, nor for so many seconds."""
        self._to(State.RESTING)
        self._deadline.end()
        self._status = 0
        self._rest.begin(now + seconds)
        self._minder.dismiss(self._term, now)

    def _rested(self, now: float) -> None:
        """No elector is there. What it may have locked meanwhile is let go."""
        self._elector.starter.let_go()
        if self._term.lead:
            self._term = Term(self._term.number + 1)
        if self._rest.over(now):
            self._minder.return_to_work()
            self._to(State.WAITING)
        elif self._rest.in_vain(self._term, now):
            self._log.error("not acquired within --wait: the --health command has not succeeded")
            self._end(NOT_ACQUIRED, now)

    # --- the end

    def _end(self, status: int, now: float) -> None:
        """Nothing runs. The elector gives up what may be ours, then ends; then so do we."""
        self._status = status
        self._hooks.end()
        self._to(State.RELEASING)
        self._deadline.end()
        self._minder.dismiss(self._term, now)
