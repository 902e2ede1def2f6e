"""What everything that happens means: the state of ``run``, and how it goes from one to the next."""

from __future__ import annotations

import math
import os
import signal

from kleader import platform
from kleader.link import messages as m
from kleader.link.plan import FOR_LIFE
from kleader.supervisor.leading import FAILED, Leading
from kleader.supervisor.minder import Minder
from kleader.supervisor.report import Report
from kleader.supervisor.rest import Rest
from kleader.supervisor.signals import ENDING, POLITE, name
from kleader.supervisor.states import State
from kleader.supervisor.term import Term

TYPE_CHECKING = False
if TYPE_CHECKING:
    from kleader.link.plan import Plan
    from kleader.log import Log
    from kleader.supervisor.elector import Elector
    from kleader.supervisor.reporter import Starter

NOT_ACQUIRED = 124
_TIMED = {State.GIVING_WAY, State.LEADING, State.STOPPING}  # in which deadlines are looked at
_WHEN = {  # the states in which a message means something, where that is not all
    m.Lead: {State.WAITING},
    m.Lost: {State.GIVING_WAY, State.LEADING, State.STOPPING, State.SWEEPING},
    m.Yield: {State.GIVING_WAY, State.LEADING, State.SWEEPING},
}


class Life(Leading):
    """One plan, from the first candidacy to the exit status; told what happens and when, it waits for nothing."""

    def __init__(
        self, plan: Plan, log: Log, signals: platform.Signals, elector: Elector, reporter: Starter | None
    ) -> None:
        super().__init__(plan, log, signals, elector)
        self._minder = Minder(plan, log, signals, elector, self._command)
        self._report = Report(plan, log, self._command, self._deadline, elector, reporter)
        self._rest = Rest(plan, self._hooks.health, elector)
        self._interrupted = False  # by Ctrl-C, before it led

    def begin(self) -> None:
        """From here on. Without an election the command is run at once."""
        if not self._plan.lock:
            self._to(State.LEADING)
            self._term.start_at = 0.0
        elif not self._hooks.health.well:
            self._to(State.RESTING)

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

    @property
    def _kill_at(self) -> float:
        return self._deadline.kill_by(self._minder.alone_since(self._term))

    def due(self) -> float:
        """The next instant at which something has to be done even if nothing happens."""
        term = self._term
        due = [term.start_at, term.stop_by, self._sweep.next_at, self._minder.due(self._state, term), self._report.due]
        due += [
            self._hooks.due(self._state, runs=self._command.runs),
            self._standby.due(self._state, term),
            term.way_by,
        ]
        if self._state is State.RESTING:
            due.append(self._rest.due(term))
        if self._state in _TIMED:
            due += [self._kill_at, math.inf if term.lost else self._deadline.stop_at]
        return min(due)

    def act(self, now: float) -> None:
        """What the clock says."""
        term = self._term
        self._deadline.awake(now)
        if self._state in _TIMED and now >= min(self._deadline.stop_at, self._kill_at):
            kill = now >= self._kill_at
            self._lose("the lease is about to expire" if kill else "the renew deadline has passed", now, kill=kill)
        if not self._hooks.health.well:
            self._unwell(now)
        if self._command.draining and self._command.tree.empty():
            self._begin_sweep(now)
        if self._state is State.LEADING and now >= term.start_at:
            self._start(now)
        if now >= term.stop_by:
            self._begin_sweep(now)
            self._log.warning("the command did not stop in time: killing")
        if self._state is State.SWEEPING and self._sweep.done(now):
            self._swept(now)
        if now >= term.way_by and not self.over:
            self._block(now)
        self._mind(now)

    def _mind(self, now: float) -> None:
        """The elector, what runs beside the command, and whoever wants to know of it all."""
        if not self._minder.mind(self._state, self._term, now):
            if self._state is State.WAITING:
                self._end(FAILED, now)
            elif self._state is State.RESTING:
                self._rested(now)
            elif self._standby.gone(now):
                self._to(State.ENDED)
        self._standby.mind(self._state, self._term, self._hooks.namespace, now)
        self._hooks.mind(self._state, self._term, now, runs=self._command.runs)
        self._report.turn(self._state, self._term, now)

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
            self._elector.tell(m.Alive(self._term.number, self._deadline.kill_at))

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
        self._hooks.health.begin(now)
        self._deadline.begin(lead.stop_at, lead.kill_at, now)
        self._to(State.GIVING_WAY if self._plan.standby else State.LEADING)
        if self._plan.lock != "file":
            self._log.about(namespace=lead.namespace)
        self._hooks.leads(self._plan.identity, lead.namespace)
        what = f"token {lead.token}, transitions {lead.transitions}"
        self._log.info(f"became leader: {what}", token=lead.token, transitions=lead.transitions)
        if self._plan.standby:
            self._give_way(now)
        else:
            self._term.start_at = now

    def _on_extend(self, extend: m.Extend, now: float) -> None:
        if self._state is State.WAITING:  # its Lead was lost: another will say it
            self._elector.replace(now)
        elif not self._term.lost:
            self._deadline.extend(extend.stop_at, extend.kill_at, now)
            self._term.t0 = max(self._term.t0, extend.stop_at - self._plan.renew_deadline)

    # --- signals

    def on_signal(self, number: int, now: float, *, terminal: bool) -> None:
        """What it asks for depends on the state; ``terminal``: whoever else shares kleader's group has got it too."""
        if self._state is State.ENDED:
            return
        if self._state in {State.RESTING, State.WAITING}:
            if number == signal.SIGTSTP:
                self._minder.suspend(self._state)
            elif number in POLITE or (number in ENDING and (terminal or not self._plan.standby)):
                self._log.info(f"{name(number)}: ending")
                self._interrupted = terminal
                self._end(128 + number, now, number)
            else:
                self._standby.signal(number)
        elif self._state is State.RELEASING:
            if number in ENDING:
                self._hurry()
        elif number in POLITE:
            self._on_polite(number, now, terminal=terminal)
        else:
            self._command.forward(number, terminal=terminal)

    # --- children

    def reaped(self, pid: int, status: int, now: float) -> None:
        """A child has ended, or was stopped: with waitpid's status."""
        self._sweep.reaped(pid)
        if self._report.ended(pid, status, now):
            return
        if pid == self._elector.pid:
            self._minder.ended(status, now)
            self.hear(now)  # its last words
        elif self._command.main and pid == self._command.main.pid:
            self._on_main(self._command.main, status, now)
        elif self._standby.reaped(pid, status, self._state, now):
            if self._state is State.GIVING_WAY:
                self._begin_sweep(now)
        else:
            self._hooks.reaped(pid, status, now)

    def _swept(self, now: float) -> None:
        """Nothing of the term is alive."""
        term = self._term
        if term.gives_way:
            term.way_by = math.inf
            if not (term.over or term.quit):
                self._to(State.LEADING)
                term.start_at = now
                return
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

    def _contend_again(self, now: float) -> None:
        aside = self._term.asked or not self._hooks.health.well
        nobody_listens = self._elector.fd is None  # it has died just now; what is owed is done by another
        if nobody_listens or not self._hooks.health.well or (self._plan.lock == FOR_LIFE and self._accompanied):
            self._begin_rest(now, self._plan.lease_duration if aside else 0.0)
            return
        self._to(State.WAITING)
        self._deadline.end()
        previous, self._term = self._term, Term(self._term.number + 1)
        self._status = 0
        self._standby.contend(now)
        release, to = previous.parting(self._plan.release)
        self._elector.tell(m.Again(previous.number, self._term.incarnation, release, to, previous.asked))

    @property
    def _accompanied(self) -> bool:
        """Whether processes of ours run beside the next candidacy, which only a new elector tells from earlier ones."""
        plan = self._plan
        return bool(plan.standby or plan.health or plan.on_new_leader)

    # --- the standby

    def _give_way(self, now: float) -> None:
        """Nothing of the standby is alive when the command starts. It has the grace of a loss, for nobody leads."""
        self._term.way_by = now + self._plan.renew_deadline
        self._standby.ask_to_stop(
            self._plan.stop_signal or signal.SIGTERM, now + min(self._plan.grace, self._plan.renew_deadline / 2)
        )
        if not self._standby.pid:
            self._begin_sweep(now)

    def _block(self, now: float) -> None:
        """It does not die. Another may lead, beside a standby: so the lock is given up, though something is alive."""
        self._term.way_by = math.inf
        self._log.error("the standby does not die: giving up the lock")
        self._standby.leave()
        self._end(self._plan.loss_exit_code, now)

    def _hurry(self) -> None:
        """Once more: what has been killed already is left alone."""
        if self._standby.killed:
            self._standby.leave()
        self._standby.kill()
        self._minder.abandon()

    # --- a candidate that is not well

    def _unwell(self, now: float) -> None:
        """A leader ends its term as on a Yield; nobody contends, and what may be ours is given up."""
        if self._state is State.LEADING:
            reason = f"the --health command failed {self._plan.health_failures} times in a row"
            self._on_yield(m.Yield(self._term.number, reason), now)
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

    def _end(self, status: int, now: float, number: int = 0) -> None:
        """Nothing of a term runs. The elector gives up what may be ours, then ends, and the standby does; so do we."""
        self._status = status
        self._hooks.end()
        self._to(State.RELEASING)
        self._deadline.end()
        self._standby.ask_to_stop(self._plan.stop_signal or number or signal.SIGTERM, now + self._plan.stop_timeout)
        self._minder.dismiss(self._term, now)
