"""What this kleader is doing, as one value, and to whom it is told. Never blocks, and nothing is decided by it."""

from __future__ import annotations

import math

from kleader.link import messages as m
from kleader.supervisor.desk import Desk
from kleader.supervisor.states import State

TYPE_CHECKING = False
if TYPE_CHECKING:
    from kleader.link.plan import Plan
    from kleader.log import Log
    from kleader.supervisor.command import Command
    from kleader.supervisor.deadline import Deadline
    from kleader.supervisor.term import Term

_LONGEST = 1024  # characters of what others wrote


class Report:
    """Knows what the elector says, and the supervisor's parts; ``turn`` is called once in each turn of the loop."""

    def __init__(self, plan: Plan, log: Log, command: Command, deadline: Deadline) -> None:
        self._plan, self._command, self._deadline = plan, command, deadline
        self._desk = Desk(plan.name, log)
        self._namespace = plan.namespace
        self._leader = ""

    @property
    def fds(self) -> tuple[int | None, ...]:
        """For poll."""
        return (self._desk.fd,)

    @property
    def due(self) -> float:
        """When the next turn is due though nothing happens."""
        return self._desk.due

    def heard(self, message: m.Message) -> None:
        """Take in what the elector says."""
        if isinstance(message, m.Observe):
            self._leader, self._namespace = message.leader[:_LONGEST], message.namespace
        elif isinstance(message, m.Lead):
            self._leader, self._namespace = self._plan.identity, message.namespace

    def turn(self, state: State, term: Term, now: float) -> None:
        """Tell how it is."""
        self._desk.serve(now, lambda: m.encode(self._status(state, term, now)))

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
        )
