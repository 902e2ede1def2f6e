"""What of an election is worth counting, found by comparing what it remembered before and after a step."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kleader.election import events as e
from kleader.election.elector import Phase
from kleader.link import messages as m

if TYPE_CHECKING:
    from kleader.election.elector import State


def measured(term: int, before: State, event: e.Event, after: State, now: float) -> m.Measured | None:
    """None where there is nothing to be told."""
    led = before.phase is after.phase is Phase.LEADING and not after.me.lasting
    renewed = led and isinstance(event, e.Wrote) and after.t0 > before.t0
    found = m.Measured(
        term,
        read=after.known and not before.known,
        slow=int(led and isinstance(event, e.Got)),
        reconnects=int(isinstance(event, e.WatchEnded) and event.begun),
        took=now - after.t0 if renewed else 0.0,
    )
    return found if any(found[1:]) else None
