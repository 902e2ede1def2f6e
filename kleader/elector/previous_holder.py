"""The holder before this one, and for how long the lock had no leader: what the log shows of a handover."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kleader.election.duration import text
from kleader.election.record import UNKNOWN
from kleader.ipc.messages import Succession

if TYPE_CHECKING:
    from kleader.election.state import State


class PreviousHolder:
    """The last other holder that was observed, and until when it is known to have held the lock."""

    def __init__(self) -> None:
        self._identity = ""
        self._until = 0.0  # when its last renewal was observed, or its release
        self._gave_up = False
        self._sign = ""

    def note(self, state: State, now: float) -> None:
        """What is known of the lock after a step."""
        observed = state.observed
        holder = observed.record.holder if observed else ""
        handed_over = observed is not None and observed.handed_over
        is_mine = observed is not None and (holder == state.me.identity or state.held_by_me(observed))
        if not state.has_observed or holder == UNKNOWN or (is_mine and not handed_over):
            return
        self._sign = "was last observed to hold it" if state.me.non_expiring else "was last observed to renew it"
        if holder and not handed_over:
            self._identity, self._until, self._gave_up = holder, state.observed_at, False
        elif not self._gave_up:
            self._until, self._gave_up = (state.observed_at if observed else now), True

    def succession(self, now: float) -> Succession | None:
        """For how long the lock had no leader, once; None if no other holder was observed."""
        if not self._identity:
            return None
        identity, self._identity = self._identity[:256], ""
        idle = round(max(0.0, now - self._until), 3)
        how = "released it" if self._gave_up else self._sign
        return Succession(f"acquired the lock {text(idle)} after {identity} {how}", identity, self._gave_up, idle)
