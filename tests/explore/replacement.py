"""What a supervisor keeps of an elector that dies, and the election of the next one."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any

from kleader.election import state as states
from kleader.election.events import Observed
from kleader.elector import successor
from kleader.ipc import messages
from tests.explore.values import NOW

if TYPE_CHECKING:
    from kleader.election.state import Candidate, State

_new: Any = successor
_states: Any = states
_messages: Any = messages
HANDED_OVER = "handed_over" if "handed_over" in {each.name for each in fields(Observed)} else "given"


def kept(before: State, after: State) -> str | None:
    """What an elector tells its supervisor after a step; None: nothing new."""
    told = getattr(_new, "remember", None) or _new.told
    message = told(0, before, after)
    return None if message is None else str(message.what)


def replaced(me: Candidate, incarnation: str, memory: str, term: tuple[float, float, int, int] | None) -> State:
    """The state of the next elector; ``term``: of a command that is alive, or whose lock is to be released."""
    stop_at, _, acquired, transitions = term or (0.0, 0.0, 0, 0)
    t0 = stop_at - me.timing.renew_deadline if term else 0.0
    if hasattr(_new, "resumed"):
        leading, replaces = term is not None, True
        assign = _messages.Assign(0, incarnation, leading, replaces, t0, acquired, transitions, [], memory)
        return _new.resumed(me, assign, NOW)  # type: ignore[no-any-return]
    if term:
        return _states.resume(me, incarnation, t0, acquired=acquired, transitions=transitions)  # type: ignore[no-any-return]
    return _states.resume_waiting(me, incarnation, held=int(memory or 0))  # type: ignore[no-any-return]
