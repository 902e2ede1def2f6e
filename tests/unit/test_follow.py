"""Locks are followed without waking up for nothing."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from kleader import system
from kleader.observe.follow import TrackerUpdate, follow_locks
from kleader.observe.snapshot import SourceUpdate
from kleader.observe.tracker import LockTracker

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator


class SilentSource:
    """Shows that there is no lock, and nothing after that."""

    async def follow(self) -> AsyncGenerator[SourceUpdate, None]:
        yield SourceUpdate({}, is_complete=True)
        await asyncio.Event().wait()


async def _updates_until(end: float) -> list[TrackerUpdate]:
    source: Any = SilentSource()
    updates = []
    async for update in follow_locks([source], LockTracker(1, "lease", by_name=True), lambda: 0, lambda: end):
        updates.append(update)
        if system.clock() >= end:
            break
    return updates


def test_an_unchanged_lock_is_reported_once_and_then_at_the_requested_instant() -> None:
    """A command that waits for an hour sleeps for an hour."""
    assert len(asyncio.run(_updates_until(system.clock() + 1.5))) == 2
