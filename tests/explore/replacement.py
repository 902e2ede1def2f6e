"""What a supervisor keeps of an elector that dies, and the election of the next one."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING

from kleader.election.events import Observed
from kleader.elector import resumption
from kleader.ipc.messages import Assign
from tests.explore.values import NOW

if TYPE_CHECKING:
    from kleader.election.state import Candidate, State

HANDED_OVER = "handed_over" if "handed_over" in {each.name for each in fields(Observed)} else "given"


def kept(before: State, after: State) -> str | None:
    """What an elector tells its supervisor after a step; None: nothing new."""
    message = resumption.resume_state(before, after)
    return message.state if message else None


def replaced(me: Candidate, incarnation: str, memory: str, term: tuple[float, float, int, int] | None) -> State:
    """The state of the next elector; ``term``: of a command that is alive, or whose lock is to be released."""
    stop_at, _, acquired, transitions = term or (0.0, 0.0, 0, 0)
    t0 = stop_at - me.timing.renew_deadline if term else 0.0
    leading, replaces = term is not None, True
    return resumption.resumed(me, Assign(incarnation, leading, replaces, t0, acquired, transitions, [], memory), NOW)
