"""What the metrics count, found by comparing the election's state before and after a step."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kleader.election import events as e
from kleader.election.step_function import Phase
from kleader.ipc import messages as m

if TYPE_CHECKING:
    from kleader.election.step_function import State


def measured(before: State, event: e.Event, after: State, now: float) -> m.Measured | None:
    """The message for the supervisor; None if nothing is to be counted. ``now``: seconds on CLOCK_BOOTTIME."""
    led = before.phase is after.phase is Phase.LEADING and not after.me.non_expiring
    renewed = led and isinstance(event, e.WriteDone) and after.t0 > before.t0
    found = m.Measured(
        read=after.has_observed and not before.has_observed,
        slow=int(led and isinstance(event, e.GetDone)),
        reconnects=int(isinstance(event, e.WatchEnded) and event.begun),
        took=now - after.t0 if renewed else 0.0,
    )
    return found if any(found) else None
