"""What runs beside the command for whoever operates it: ``--on-new-leader`` and ``--health``.

Neither holds up a start, a kill or a release: they are forked when there is nothing else to do, and nobody waits for
them. Their processes are no part of the command's tree (kleader.supervisor.aside).
"""

from __future__ import annotations

import math

from kleader.supervisor.aside import TIMED_OUT, Aside
from kleader.supervisor.environment import beside
from kleader.supervisor.states import State

TYPE_CHECKING = False
if TYPE_CHECKING:
    from kleader import platform
    from kleader.link.plan import Plan
    from kleader.log import Log
    from kleader.supervisor.elector import Elector
    from kleader.supervisor.term import Term
    from kleader.supervisor.tree import Tree

_LONGEST_HOOK = 60.0  # seconds
_LOOK_EVERY = 1.0  # seconds between two looks at who holds the file lock: its guard tells of the first alone


class Hooks:
    """Both of them."""

    def __init__(self, plan: Plan, log: Log, signals: platform.Signals, tree: Tree, elector: Elector) -> None:
        self._plan, self._tree = plan, tree
        self._news = NewLeader(plan, Aside("the --on-new-leader command", log, signals), elector)
        self.health = Health(plan, log, Aside("the --health command", log, signals))
        self.namespace = plan.namespace

    def leads(self, identity: str, namespace: str) -> None:
        """Somebody does, in this namespace."""
        self.namespace = namespace
        self._news.leads(identity)

    def due(self, state: State, *, runs: bool) -> float:
        """When there is something to do; ``runs``: the command does."""
        return min(self._news.due(state), self.health.due(state, runs=runs))

    def mind(self, state: State, term: Term, now: float, *, runs: bool) -> None:
        """Start and end what is due."""
        if now < self.due(state, runs=runs):
            return
        environment = beside(self._plan, term.lead, term.incarnation, self.namespace)
        self._news.mind(state, environment, now)
        self.health.mind(state, environment, now, runs=runs)
        self._tree.spared |= {each.pid for each in self._asides if each.pid}

    def reaped(self, pid: int, waitstatus: int, now: float) -> bool:
        """Whether it was the keeper of one of them, which has ended or was stopped."""
        for each in (self._news, self.health):
            if each.aside.pid == pid:
                status = each.aside.reaped(waitstatus)
                if status is not None:
                    self._tree.spared.discard(pid)
                    each.ended(status, now)
                return True
        return False

    def end(self) -> None:
        """Kill what runs; start nothing more."""
        for each in self._asides:
            each.end()

    @property
    def _asides(self) -> tuple[Aside, Aside]:
        return self._news.aside, self.health.aside


class NewLeader:
    """Runs for the first leader seen and for every change, one at a time; of those that wait, the latest."""

    def __init__(self, plan: Plan, aside: Aside, elector: Elector) -> None:
        self._plan, self.aside, self._elector = plan, aside, elector
        self._look_at = 0.0
        self._leader = ""
        self._told = ""  # whom it last ran for

    def leads(self, identity: str) -> None:
        """Somebody does; "" is nobody."""
        self._leader = identity or self._leader

    def due(self, state: State) -> float:
        """When to look."""
        if not self._plan.on_new_leader or state in {State.GIVING_WAY, State.SWEEPING, State.RELEASING, State.ENDED}:
            return math.inf
        if self.aside.pid:
            return self.aside.overdue
        if self._leader != self._told:
            return 0.0
        return self._look_at if self._plan.lock == "file" and state is State.WAITING else math.inf

    def mind(self, state: State, environment: dict[str, str], now: float) -> None:
        """Run it if there is news, and nothing else to do."""
        self.aside.mind(now)
        if self._plan.lock == "file" and state is State.WAITING and now >= self._look_at:
            self._look_at = now + _LOOK_EVERY
            self._leader = self._elector.starter.holder() or self._leader
        if self._leader != self._told and now >= self.due(state) and not self.aside.pid:
            self._told = self._leader
            self.aside.start(self._plan.on_new_leader, environment | {"KLEADER_LEADER": self._told}, _LONGEST_HOOK)

    def ended(self, status: int, now: float) -> None:
        """It has."""
        self.aside.tell(status, now)


class Health:
    """Runs again and again, and is believed about its failures when there are enough of them in a row."""

    def __init__(self, plan: Plan, log: Log, aside: Aside) -> None:
        self._plan, self._log, self.aside = plan, log, aside
        self._failures = 0
        self._outdated = False  # what is under way says nothing bad
        self._next_at = 0.0
        self.known = not plan.health  # it has ended at least once
        self.well = not plan.health

    def begin(self, now: float) -> None:
        """A term began, or the command was started: it has all of its time to come up.

        A check that is under way has asked something else, such as a standby that is made to end.
        """
        self._failures, self._outdated = 0, self.aside.pid != 0
        self._next_at = now + self._plan.health_period

    def due(self, state: State, *, runs: bool) -> float:
        """When to look. A command that is about to start, or to end, is not asked."""
        if self.aside.pid:
            return self.aside.overdue
        asked = state in {State.RESTING, State.WAITING} or (state is State.LEADING and runs)
        return self._next_at if self._plan.health and asked else math.inf

    def mind(self, state: State, environment: dict[str, str], now: float, *, runs: bool) -> None:
        """Run it if its time has come."""
        self.aside.mind(now)
        if not self.aside.pid and now >= self.due(state, runs=runs):
            self._next_at = now + self._plan.health_period
            if not self.aside.start(self._plan.health, environment, self._plan.health_period):
                self.ended(TIMED_OUT, now)

    def ended(self, status: int, now: float) -> None:
        """It has."""
        self._next_at = max(self._next_at, now)
        self.known = True
        outdated, self._outdated = self._outdated, False
        if status and outdated:
            return
        if status == 0:
            if not self.well:
                self._log.info("healthy")
            self.well, self._failures = True, 0
            return
        self._failures += 1
        if self._failures <= self._plan.health_failures:
            self.aside.tell(status, now)
        if self._failures >= self._plan.health_failures:
            self.well = False
