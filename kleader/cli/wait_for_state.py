"""How ``wait`` observes that the lock is in the state that it waits for."""

from __future__ import annotations

import asyncio
import math
from typing import TYPE_CHECKING

from kleader.cli import formatters
from kleader.cli.followed_lock import FollowedLock
from kleader.exits import NOT_ACQUIRED
from kleader.kube.timeout import within
from kleader.observe.snapshot import LockState

if TYPE_CHECKING:
    from kleader.cli.locate import Query
    from kleader.observe.snapshot import LockStatus
    from kleader.observe.tracker import Change

_LEADER_CHANGES = {"acquired", "released", "deleted"}
_NOT_REACHED = {
    "leader": "no leader was observed",
    "free": "the lock was not free",
    "change": "the leader did not change",
}


async def wait(query: Query, wanted: str, timeout: float | None, form: str) -> None:
    """Return in the wanted state, which is printed. Exits with 124 after ``timeout`` seconds, 125 if it is unknown."""
    lock = FollowedLock(query, math.inf if timeout is None else timeout)
    lock.end = math.inf  # the timeout below is exact
    is_first = True
    try:
        async with within(timeout):
            async for status, changes in lock.statuses():
                if _is_reached(wanted, status, changes, is_first=is_first):
                    formatters.print_result(status, changes, form)
                    return
                is_first = False
    except asyncio.TimeoutError:
        message = _NOT_REACHED.get(wanted, f"{wanted} was not observed to lead")
        lock.fail_late(lock.problem, message, NOT_ACQUIRED)


def _is_reached(wanted: str, status: LockStatus | None, changes: list[Change], *, is_first: bool) -> bool:
    if wanted == "free":
        return status is None or status.state in {LockState.FREE, LockState.EXPIRED}
    if wanted == "change":
        return not is_first and any(change.event in _LEADER_CHANGES for change in changes)
    alive = [change.status for change in changes if change.holder_is_alive]
    alive += [status] if status and status.snapshot.non_expiring else []
    leaders = [found.snapshot.record.holder for found in alive if found.state is LockState.HELD]
    return bool(leaders) if wanted == "leader" else wanted in leaders
