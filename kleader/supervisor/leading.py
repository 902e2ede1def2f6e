"""A term's command, from its start until nothing of its tree is alive."""

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
from kleader.supervisor.signals import name
from kleader.supervisor.standby import Standby
from kleader.supervisor.states import NEXT, State
from kleader.supervisor.term import Term
from kleader.supervisor.tree import Sweep

TYPE_CHECKING = False
if TYPE_CHECKING:
    from kleader.link.plan import Plan
    from kleader.log import Log
    from kleader.supervisor.child import Child
    from kleader.supervisor.elector import Elector

FAILED = 125
_DELIBERATE = 1.0  # a signal so long after the sweep began is meant to leave what will not die


class Leading:
    """The half of a life in which there is a command: GIVING_WAY, LEADING, STOPPING, SWEEPING, and again."""

    def __init__(self, plan: Plan, log: Log, signals: platform.Signals, elector: Elector) -> None:
        self._plan, self._log, self._elector = plan, log, elector
        self._deadline = Deadline(platform.KillTimer() if os.getpid() != 1 else None, plan.kill)
        self._command = Command(plan, log, signals)
        self._sweep = Sweep(self._command.tree, self._deadline, log)
        self._hooks = Hooks(plan, log, signals, self._command.tree, elector)
        self._standby = Standby(plan, log, signals, self._command.tree, self._sweep)
        self._state = State.WAITING
        self._term = Term(1)
        self._status = 0  # what kleader will exit with

    def end_blindly(self) -> None:
        """The supervisor cannot go on: nothing of the command is left behind."""
        self._kill_main()
        self._sweep.blindly()

    def _to(self, state: State) -> None:
        if state not in NEXT[self._state]:
            msg = f"from {self._state} to {state}"
            raise AssertionError(msg)
        self._state = state
        self._log.role = state.value

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
        """From here on SIGKILL, until nothing is left. A standby that gives way is part of that."""
        self._term.start_at = self._term.stop_by = math.inf
        self._command.draining = False
        self._to(State.SWEEPING)
        self._kill_main()
        self._standby.kill()
        self._sweep.begin(now)

    def _kill_main(self) -> None:
        """The one process that can be killed without looking for it, which takes descriptors that may be short."""
        if self._command.main:
            self._command.main.send(signal.SIGKILL)

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

    def _on_yield(self, said: m.Yield, now: float) -> None:
        term, between = self._term, self._state is State.SWEEPING
        if between and (term.over or term.quit or not (self._command.again or term.gives_way)):
            return  # the term ends anyway
        term.yielded = said
        term.ends(now, name(self._plan.stop_signal or signal.SIGTERM), said.reason)
        self._status = self._plan.loss_exit_code
        self._log.info(f"giving up leadership: {said.reason}")
        if not between:
            self._stop(self._plan.stop_signal or signal.SIGTERM, now, now + self._plan.stop_timeout, send=True)

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
            elif term.gives_way:
                self._status = 128 + number
        elif self._state is not State.SWEEPING:
            self._begin_sweep(now)
            self._log.warning(f"{name(number)} again: killing")
        elif now >= self._sweep.began + _DELIBERATE:
            self._log.error(f"{name(number)} again: leaving processes that will not die; the lock is not released")
            self._status = self._status or 128 + number
            self._to(State.ENDED)

    @property
    def _restarts(self) -> bool:
        """Whether the command is to be started once more in this term."""
        return self._command.again and not self._term.quit and not self._term.over
