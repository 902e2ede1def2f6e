"""The holder before this one, and for how long the lock had no leader: what the log shows of a handover."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kleader.election.duration import text
from kleader.election.record import UNKNOWN

if TYPE_CHECKING:
    from kleader.election.state import State
    from kleader.log import Log


class Predecessor:
    """The last other holder that was observed, and until when it is known to have held the lock."""

    def __init__(self) -> None:
        self._who = ""
        self._until = 0.0  # when its last renewal was observed, or its release
        self._gave_up = False
        self._sign = ""

    def note(self, state: State, now: float) -> None:
        """What is known of the lock after a step."""
        seen = state.observed
        holder = seen.record.holder if seen else ""
        given = seen is not None and seen.handed_over
        own = seen is not None and (holder == state.me.identity or state.held_by_me(seen))
        if not state.known or holder == UNKNOWN or (own and not given):
            return
        self._sign = "was last observed to hold it" if state.me.non_expiring else "was last observed to renew it"
        if holder and not given:
            self._who, self._until, self._gave_up = holder, state.observed_at, False
        elif not self._gave_up:
            self._until, self._gave_up = (state.observed_at if seen else now), True

    def log_handover(self, log: Log, now: float) -> None:
        """Log for how long the lock had no leader; nothing if no other holder was observed."""
        if not self._who:
            return
        idle = round(max(0.0, now - self._until), 3)
        how = "released it" if self._gave_up else self._sign
        what = f"acquired the lock {text(idle)} after {self._who[:256]} {how}"
        log.info(what, event="acquired", predecessor=self._who[:256], gave_up=self._gave_up, leaderless=idle)
        self._who = ""
