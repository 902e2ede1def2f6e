"""What an elector that waits tells of the lock for the one that may replace it: how long it is held."""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING

from kleader.ipc import messages as m
from kleader.ipc.plan import FOR_LIFE

if TYPE_CHECKING:
    from kleader.election.state import State
    from kleader.ipc.plan import Plan


def told(term: int, before: State, after: State) -> m.Remember | None:
    """None where a step has changed nothing of it. A lock that does not expire has a memory of its own."""
    if after.me.lasting or after.gone_wait == before.gone_wait:
        return None
    return m.Remember(term, str(ceil(after.gone_wait)))


def heard(plan: Plan, assign: m.Assign) -> int:
    """For how many seconds from now on whoever an elector before this one has seen may hold it; 0: there was none."""
    if not (assign.leading or assign.replaces):
        return 0
    return max(plan.lease_duration, int(assign.memory or 0) if plan.lock != FOR_LIFE else 0)
