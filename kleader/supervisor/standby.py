"""``--standby``: a command that runs while this candidate does not lead, and is gone before it leads.

Its keeper (kleader.supervisor.aside) counts as the command's tree: that it is gone, and all that it kept, is proven as
between two starts of the command, by a sweep after which nothing is left.
"""

from __future__ import annotations

import math
import signal

from kleader import platform
from kleader.election.duration import text
from kleader.supervisor.aside import Aside
from kleader.supervisor.command import Backoff
from kleader.supervisor.environment import beside
from kleader.supervisor.states import State

TYPE_CHECKING = False
if TYPE_CHECKING:
    from kleader.link.plan import Plan
    from kleader.log import Log
    from kleader.supervisor.term import Term
    from kleader.supervisor.tree import Sweep, Tree

_MOMENT = 1.0  # seconds; a lock that is free is had by then, and nothing has to give way first
_WHAT = "the standby"


class Standby:
    """Started again, with pauses, when it ends by itself. Without the option there is none, and nothing to wait for."""

    def __init__(self, plan: Plan, log: Log, signals: platform.Signals, tree: Tree, sweep: Sweep) -> None:
        self._plan, self._log, self._tree, self._sweep = plan, log, tree, sweep
        self._aside = Aside(_WHAT, log, signals)
        self._backoff = Backoff()
        self._began = 0.0
        self._start_at = 0.0 if plan.health else platform.clock() + _MOMENT  # what health asks may be the standby
        self._kill_at = math.inf
        self._left = False
        self._sweeping = False  # what a keeper that was killed has left

    def contend(self, now: float) -> None:
        """A candidacy begins."""
        self._start_at = now + _MOMENT

    @property
    def pid(self) -> int:
        """Of its keeper; 0: it does not run, but may have left something."""
        return self._aside.pid

    def due(self, state: State, term: Term) -> float:
        """When there is something to do."""
        if not self._plan.standby:
            return math.inf
        if self._sweeping:
            return self._sweep.next_at
        start_at = self._start_at if self._wanted(state, term) else math.inf
        return min(self._kill_at, self._aside.overdue, start_at)

    def mind(self, state: State, term: Term, namespace: str, now: float) -> None:
        """Start what is due, and kill what is late. In a term that leads it is never started."""
        if now < self.due(state, term):
            return
        if now >= self._kill_at:
            self.kill()
            self._log.warning(f"{_WHAT} did not stop in time: killing")
        self._aside.mind(now)
        if self._wanted(state, term) and now >= self._start_at and self.gone(now):
            self._began = now
            environment = beside(self._plan, None, term.incarnation, namespace)
            if self._aside.start(self._plan.standby, environment):
                self._log.info(f"started {_WHAT}")
            else:
                self._start_at = now + self._backoff.after(0.0)

    def gone(self, now: float) -> bool:
        """Whether nothing of it is left, where there is no command either. What is left is killed."""
        if self._left:
            return True
        if self.pid:
            return False
        if not self._sweeping and self._plan.standby and not self._tree.empty():
            self._sweeping = True
            self._sweep.begin(now)
        self._sweeping = self._sweeping and not self._sweep.done(now)
        return not self._sweeping

    def signal(self, number: int) -> None:
        """To its main process, as to a command's."""
        self._aside.signal(number)

    def ask_to_stop(self, number: int, by: float) -> None:
        """The stop signal, then CONT; it is killed at an instant."""
        if self.pid:
            self._log.info(f"stopping {_WHAT}")
            self._kill_at = by
            self._aside.signal(number, signal.SIGCONT)

    def kill(self) -> None:
        """All of it."""
        self._kill_at, self._sweeping = math.inf, False
        self._aside.end()

    @property
    def killed(self) -> bool:
        """Whether all has been done about it."""
        return not self._aside.kept

    def leave(self) -> None:
        """What does not die is left alone, for this kleader ends."""
        self._left = True
        self._sweep.leave()

    def reaped(self, pid: int, waitstatus: int, state: State, now: float) -> bool:
        """Whether its keeper was meant, and has ended."""
        if pid != self.pid or not pid:
            return False
        status = self._aside.reaped(waitstatus)
        if status is None:
            return False
        self._kill_at = math.inf
        if state in {State.RESTING, State.WAITING}:
            pause = self._backoff.after(now - self._began)
            self._start_at = now + pause
            ran = text(round(now - self._began, 1))
            self._log.warning(f"{_WHAT} ended after {ran}, with status {status}; starting it again in {text(pause)}")
        return True

    def _wanted(self, state: State, term: Term) -> bool:
        return state in {State.RESTING, State.WAITING} and term.lead is None and not self.pid
