"""``--standby``: a command that runs while this candidate does not lead, and has ended before the candidate leads.

Its subreaper counts as the leading command's tree: that the standby has ended, with all of its processes, is proven as
between two starts of the command, by killing until the tree is empty.
"""

from __future__ import annotations

import math
import signal

from kleader import system
from kleader.election.duration import text
from kleader.supervisor.environment import hook_environment
from kleader.supervisor.states import CONTENDING, RunState
from kleader.supervisor.subtree import Subtree

TYPE_CHECKING = False
if TYPE_CHECKING:
    from kleader.ipc.plan import Plan
    from kleader.log import Log
    from kleader.procs.tree_killer import ProcessTree, TreeKiller
    from kleader.supervisor.term import Term

_FREE_LOCK_SECONDS = 1.0  # a lock that is free is acquired by then, and no standby has to be stopped first


class Standby:
    """Started again, after pauses, when it ends by itself. Without the option there is none, and none to wait for."""

    def __init__(self, plan: Plan, log: Log, signals: system.Signals, tree: ProcessTree, killer: TreeKiller) -> None:
        self._plan, self._log, self._tree, self._killer = plan, log, tree, killer
        self.subtree = Subtree("the standby", log, signals, None, self._ended)
        # the health check may ask the standby itself: then it starts at once
        self.subtree.process.start_at = 0.0 if plan.health else system.clock() + _FREE_LOCK_SECONDS
        self._kill_at = math.inf
        self._abandoned = False
        self._killing = False  # what a subreaper that was killed has left

    def contend(self, now: float) -> None:
        """A candidacy begins."""
        self.subtree.process.start_at = now + _FREE_LOCK_SECONDS

    def due(self, state: RunState, term: Term) -> float:
        """When :meth:`check` has something to do."""
        if not self._plan.standby:
            return math.inf
        if self._killing:
            return self._killer.next_at
        start_at = self.subtree.process.start_at if self._wanted(state, term) else math.inf
        return min(self._kill_at, start_at)

    def check(self, state: RunState, term: Term, now: float) -> None:
        """Start it if it is due, and kill it if it is late. In a term that leads it is never started."""
        if now < self.due(state, term):
            return
        if now >= self._kill_at:
            self.kill(now)
            self._log.warning("the standby did not stop in time: killed it with SIGKILL", event="standby_killed")
        if self._wanted(state, term) and now >= self.subtree.process.start_at and self.ended(now):
            if self.subtree.start(self._plan.standby, hook_environment(self._plan, term), now):
                self._log.info("started the standby", event="standby_started")
            else:
                self.subtree.process.pause(now)

    def ended(self, now: float) -> bool:
        """Whether no process of it is left, while there is no command either. What is left is killed."""
        if self._abandoned:
            return True
        if self.subtree.process.pid:
            return False
        if not self._killing and self._plan.standby and not self._tree.is_empty():
            self._killing = True
            self._killer.begin(now)
        self._killing = self._killing and not self._killer.poll(now)
        return not self._killing

    def signal(self, number: int) -> None:
        """Signal its main process."""
        self.subtree.signal(number)

    def ask_to_stop(self, number: int, by: float) -> None:
        """Send the stop signal, then CONT; it is killed at the instant ``by``."""
        if self.subtree.process.pid:
            self._log.info("stopping the standby", event="standby_stopping")
            self._kill_at = by
            self.subtree.signal(number, signal.SIGCONT)

    def kill(self, now: float) -> None:
        """Kill all of its processes."""
        self._kill_at, self._killing = math.inf, False
        self.subtree.stop(now)

    def abandon(self) -> None:
        """Leave what does not die, for kleader ends."""
        self._abandoned = True
        self._killer.stop()

    def kill_now(self, now: float) -> None:
        """Kill it; if that was done already, leave what does not die."""
        if not self.subtree.running:
            self.abandon()
        self.kill(now)

    def _ended(self, status: int, now: float) -> None:
        by_itself, self._kill_at = self.subtree.running and self._kill_at == math.inf, math.inf
        if by_itself:
            ran, pause = now - self.subtree.process.started_at, self.subtree.process.pause(now)
            how = f"the standby ended after {text(round(ran, 1))}, with status {status}"
            self._log.warning(f"{how}; starting it again in {text(pause)}", event="standby_exited")

    def _wanted(self, state: RunState, term: Term) -> bool:
        return state in CONTENDING and term.lead is None and not self.subtree.process.pid
