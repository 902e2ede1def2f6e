"""What this kleader is doing, as one value, and to whom it is told. Never blocks, and nothing is decided by it."""

from __future__ import annotations

import math
from bisect import bisect_left as bisect

from kleader.link import messages as m
from kleader.link.messages import RENEWALS
from kleader.supervisor.desk import Desk
from kleader.supervisor.reporter import Reporter
from kleader.supervisor.states import State

TYPE_CHECKING = False
if TYPE_CHECKING:
    from kleader.link.plan import Plan
    from kleader.log import Log
    from kleader.supervisor.command import Command
    from kleader.supervisor.deadline import Deadline
    from kleader.supervisor.elector import Elector
    from kleader.supervisor.reporter import Starter
    from kleader.supervisor.term import Term

_LONGEST = 1024  # characters of what others wrote


class Report:
    """Knows what the elector says, and the supervisor's parts; ``turn`` is called once in each turn of the loop."""

    def __init__(  # noqa: PLR0913, PLR0917 - the parts that it looks at
        self,
        plan: Plan,
        log: Log,
        command: Command,
        deadline: Deadline,
        elector: Elector,
        starter: Starter | None,
    ) -> None:
        self._plan, self._command, self._deadline, self._elector = plan, command, deadline, elector
        self._desk = Desk(plan.name, log)
        self._reporter = Reporter(starter, log, command.tree.spared)
        self._namespace = plan.namespace
        self._leader = ""
        self._changes = 0
        self._read = plan.lock in {"", "file"}  # by now: opened, or none
        self._slow = self._reconnects = 0
        self._renewals = [0] * (len(RENEWALS) + 1)
        self._renewing = 0.0

    @property
    def fds(self) -> tuple[int | None, ...]:
        """For poll."""
        return (self._desk.fd,)

    @property
    def due(self) -> float:
        """When the next turn is due though nothing happens."""
        return min(self._desk.due, self._reporter.due)

    def heard(self, message: m.Message) -> None:
        """Take in what the elector says."""
        if isinstance(message, m.Observe):
            self._observe(message.leader[:_LONGEST], message.namespace)
        elif isinstance(message, m.Lead):
            self._observe(self._plan.identity, message.namespace)
        elif isinstance(message, m.Measured):
            self._read |= message.read
            self._slow += message.slow
            self._reconnects += message.reconnects
            if message.took > 0:
                self._renewals[bisect(RENEWALS, message.took)] += 1
                self._renewing += message.took

    def _observe(self, leader: str, namespace: str) -> None:
        self._read, self._namespace = True, namespace
        self._changes += leader not in {"", self._leader}
        self._leader = leader

    def turn(self, state: State, term: Term, now: float) -> None:
        """Tell how it is."""
        self._desk.serve(now, lambda: m.encode(self._status(state, term, now)))
        if self._reporter.wanted:
            if state in {State.RELEASING, State.ENDED}:
                self._reporter.retire()
            self._reporter.tell(self._status(state, term, now), now)

    def ended(self, pid: int, status: int, now: float) -> bool:
        """What waitpid said of a child; whether that is all about it."""
        return self._reporter.ended(pid, status, now)

    def close(self) -> None:
        """The end of this kleader."""
        self._desk.close()

    def _status(self, state: State, term: Term, now: float) -> m.Status:
        plan, lead = self._plan, term.lead
        held = state in {State.LEADING, State.STOPPING} and not term.lost
        main = self._command.main if self._command.main and self._command.main.started else None
        return m.Status(
            term=term.number,
            at=now,
            role=state.value,
            held=held,
            leads=held and (main is not None or self._command.draining),
            lock=plan.lock,
            namespace=self._namespace,
            name=plan.name,
            identity=plan.identity,
            leader=self._leader,
            token=lead.token if lead else "",
            transitions=lead.transitions if lead else 0,
            acquired=lead.acquired if lead else 0,
            renewed=term.t0 if lead else math.inf,
            stop_at=self._deadline.stop_at,
            kill_at=self._deadline.kill_at,
            pid=main.pid if main else 0,
            start=main.start if main else 0,
            read=self._read,
            transitions_seen=self._changes,
            restarts=self._command.restarts,
            electors=self._elector.restarts,
            slow=self._slow,
            reconnects=self._reconnects,
            renewals=list(self._renewals),
            renewing=self._renewing,
        )
