"""What an elector sends to the supervisor for the elector that may replace it.

Of the lock delay that is the longest lease duration that was seen: the next elector counts it from its own start, which
is later than any ``safe_at`` before. A lock that does not expire has a state of its own to resume.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kleader.election.record import Record
from kleader.election.state import next_incarnation, resume, resume_waiting
from kleader.ipc import messages as m

if TYPE_CHECKING:
    from kleader.election.state import Candidate, State


def resume_state(before: State | None, after: State) -> m.ResumeState | None:
    """The message before what a step asks for is done; None where a step has changed nothing of it.

    ``before``: None of a replacement elector, before its first step: its incarnation may be another.
    """
    sent = before and (before.longest, before.incarnation)
    if after.me.non_expiring or (after.longest, after.incarnation) == sent:
        return None
    return m.ResumeState(f"{after.longest} {after.incarnation}")


def resumed(me: Candidate, assign: m.Assign, now: float) -> State:
    """The state of an elector that replaces another one. A term keeps its incarnation; a candidate gets the next."""
    longest, incarnation = 0, assign.incarnation
    if assign.resume_state and not me.non_expiring:
        seconds, _, last = assign.resume_state.partition(" ")
        longest = int(seconds)
        if last.partition(".")[0] == assign.incarnation:
            incarnation = last
    if assign.leading:
        own_record = Record(me.identity, me.timing.lease_duration, assign.acquired, None, assign.transitions)
        return resume(me, incarnation, assign.t0, own_record, longest=longest)
    incarnation = incarnation if me.non_expiring else next_incarnation(incarnation)
    return resume_waiting(me, incarnation, now, longest=longest)
