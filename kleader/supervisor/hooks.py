"""The commands that run beside the leading one for an operator: ``--on-new-leader``, ``--health`` and ``--on-end``.

None delays a start, a kill or a release: they are forked when there is nothing else to do. Only kleader's own exit
waits for them, for a bounded time, after the lock is released. Their processes are no part of the command's tree
(kleader.supervisor.subtree).
"""

from __future__ import annotations

import math

from kleader.supervisor.states import CONTENDING, RunState
from kleader.supervisor.subtree import TIMED_OUT, Subtree

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from kleader import system
    from kleader.ipc.plan import Plan
    from kleader.log import Log
    from kleader.procs.tree_killer import ProcessTree

_MAX_HOOK_SECONDS = 60.0
_LAST_HOOK_SECONDS = 5.0  # that an --on-new-leader command gets at the end: less than a Pod's grace leaves
_ON_NEW_LEADER = "the --on-new-leader command"
_POLL_SECONDS = 1.0  # between two reads of the file lock's holder: its elector reports only the first


class OnNewLeader:
    """Runs for the first leader and for every change of it, one run at a time; of changes that wait, for the latest."""

    def __init__(
        self, plan: Plan, log: Log, signals: system.Signals, tree: ProcessTree, holder: Callable[[], str]
    ) -> None:
        self._plan, self._log, self._holder = plan, log, holder
        self.subtree = Subtree(_ON_NEW_LEADER, log, signals, tree)
        self._poll_at = 0.0
        self._leader = ""
        self._last_run_for = ""
        self._end_by = math.inf  # when a run is killed because kleader ends

    def leads(self, identity: str) -> None:
        """The leader is ``identity``; "" if there is none."""
        self._leader = identity or self._leader

    def due(self, state: RunState) -> float:
        """When :meth:`check` has something to do."""
        if state is RunState.RELEASING:
            return self._end_by if self.subtree.running else math.inf
        never = state in {RunState.STOPPING_STANDBY, RunState.KILLING, RunState.ENDED}
        if never or not self._plan.on_new_leader or self.subtree.process.pid:
            return math.inf
        if self._leader != self._last_run_for:
            return 0.0
        return self._poll_at if self._polls(state) else math.inf

    def check(self, state: RunState, environment: Callable[[], dict[str, str]], now: float) -> None:
        """Run it if there is a new leader; when kleader ends, kill it if it is late."""
        if now < self.due(state):
            return
        if state is RunState.RELEASING:
            self.subtree.stop(now)
            self._log.warning(
                f"{_ON_NEW_LEADER} did not finish within {_LAST_HOOK_SECONDS:.0f}s of the end: killed",
                event="hook_killed",
            )
            return
        if self._polls(state) and now >= self._poll_at:
            self._poll_at = now + _POLL_SECONDS
            self._leader = self._holder() or self._leader
        if self._leader != self._last_run_for and not self.subtree.process.pid:
            self._last_run_for = self._leader
            variables = environment() | {"KLEADER_LEADER": self._leader}
            self.subtree.start(self._plan.on_new_leader, variables, now, _MAX_HOOK_SECONDS)

    def finish(self, now: float) -> None:
        """Kleader ends: start no other, and let this one end for a moment."""
        self._end_by = now + _LAST_HOOK_SECONDS

    def _polls(self, state: RunState) -> bool:
        return self._plan.lock == "file" and state is RunState.WAITING


class OnEnd:
    """Runs after a term: its tree is empty, and if kleader ends, the lock is released. Of several terms, the latest."""

    def __init__(self, plan: Plan, log: Log, signals: system.Signals, tree: ProcessTree) -> None:
        self._plan = plan
        self.subtree = Subtree("the --on-end command", log, signals, tree)
        self._variables: dict[str, str] | None = None  # of a term that has ended

    def term_ended(self, variables: dict[str, str]) -> None:
        """A term has ended; the command runs at the next :meth:`start`."""
        if self._plan.on_end:
            self._variables = variables

    def start(self, now: float) -> None:
        """Run it if a term has ended."""
        if self._variables is not None and not self.subtree.process.pid:
            variables, self._variables = self._variables, None
            self.subtree.start(self._plan.on_end, variables, now, _MAX_HOOK_SECONDS)

    def kill_now(self, now: float) -> None:
        """Kill it, and start no other."""
        self._variables = None
        self.subtree.stop(now)


class Health:
    """Runs again and again; failures count when there are enough of them in a row."""

    def __init__(self, plan: Plan, log: Log, signals: system.Signals, tree: ProcessTree) -> None:
        self._plan, self._log = plan, log
        self.subtree = Subtree("the --health command", log, signals, tree, self._ended)
        self._failures = 0
        self._outdated = False  # a failure of the run under way does not count
        self._next_at = 0.0
        self.known = not plan.health  # it has ended at least once
        self.healthy = not plan.health

    def begin(self, now: float) -> None:
        """A term began, or the command was started: it has a whole period to come up.

        A run that is under way has asked something else, such as a standby that is being stopped.
        """
        self._failures, self._outdated = 0, self.subtree.process.pid != 0
        self._next_at = now + self._plan.health_period

    def due(self, state: RunState, *, runs: bool) -> float:
        """When :meth:`check` has something to do. A command that is about to start, or to end, is not checked."""
        checked = state in CONTENDING or (state is RunState.LEADING and runs)
        return self._next_at if self._plan.health and checked and not self.subtree.process.pid else math.inf

    def check(self, state: RunState, environment: Callable[[], dict[str, str]], now: float, *, runs: bool) -> None:
        """Run it if its time has come."""
        if now < self.due(state, runs=runs):
            return
        self._next_at = now + self._plan.health_period
        if not self.subtree.start(self._plan.health, environment(), now, self._plan.health_period):
            self._judge(TIMED_OUT, now)

    def _ended(self, status: int, now: float) -> None:
        if self.subtree.running:
            self._judge(status, now)

    def _judge(self, status: int, now: float) -> None:
        self._next_at = max(self._next_at, now)
        self.known = True
        outdated, self._outdated = self._outdated, False
        if status == 0:
            if not self.healthy:
                self._log.info("health check succeeding; competing again", event="healthy")
            self.healthy, self._failures = True, 0
        elif not outdated:
            self._failures += 1
            if self._failures <= self._plan.health_failures:
                self.subtree.log_failure(status, now)
            if self._failures >= self._plan.health_failures:
                self.healthy = False
