"""Several sources of locks at once."""

from __future__ import annotations

import asyncio
import math
from contextlib import aclosing
from typing import TYPE_CHECKING, NamedTuple

from kleader import system
from kleader.kube.client import ApiClient
from kleader.kube.errors import LockError
from kleader.kube.merged_watch import merge_watches
from kleader.observe.file_source import FileSource
from kleader.observe.kube_source import POLL_SECONDS, KubeSource, resource_kinds
from kleader.observe.snapshot import SourceUpdate

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Sequence

    from kleader.kube.credentials import Credentials
    from kleader.observe.kube_source import Scope
    from kleader.observe.tracker import Change, LockTracker


_MAX_WAIT_SECONDS = 60.0  # asyncio's clock stands still while the machine is suspended
LockSource = KubeSource | FileSource


class TrackerUpdate(NamedTuple):
    """What happened to the locks, and the error of a source."""

    changes: list[Change]
    error: LockError | None = None


def kube_sources(credentials: Credentials, lock: str, scope: Scope, timeout: float) -> list[KubeSource]:
    """The sources at the API for a kind of lock, "" for all; each has a client, which takes one call at a time."""
    return [KubeSource(ApiClient(credentials), kind, scope, timeout) for kind in resource_kinds(lock)]


async def poll(sources: Sequence[LockSource]) -> list[SourceUpdate]:
    """What each source shows now, all at the same time."""

    async def poll_one(source: LockSource) -> SourceUpdate:
        try:
            return SourceUpdate({**await source.poll()}, is_complete=True)
        except LockError as error:
            return SourceUpdate({}, error=error)

    return await asyncio.gather(*map(poll_one, sources))


async def follow_locks(
    sources: Sequence[LockSource],
    tracker: LockTracker,
    wall: Callable[[], int],
    wake_at: Callable[[], float] = lambda: math.inf,
) -> AsyncGenerator[TrackerUpdate, None]:
    """What the tracker makes of the sources; also at the instant ``wake_at`` (CLOCK_BOOTTIME), if nothing happened.

    ``wall``: microseconds since the epoch, for people. Before a lock is reported as expired, all sources are polled:
    a watch may have stopped delivering.
    """
    async with aclosing(merge_watches([source.follow() for source in sources])) as updates:
        pending = asyncio.ensure_future(anext(updates))
        try:
            while True:
                poll_at = system.clock() + POLL_SECONDS if tracker.is_unreachable else tracker.next_at
                seconds = max(0.0, min(poll_at, wake_at()) - system.clock())
                await asyncio.wait({pending}, timeout=min(seconds, _MAX_WAIT_SECONDS))
                if pending.done():
                    source, update = pending.result()
                    pending = asyncio.ensure_future(anext(updates))
                    yield TrackerUpdate(tracker.update(source, update, system.clock(), wall()), update.error)
                elif poll_at <= system.clock():
                    for source, update in enumerate(await poll(sources)):
                        yield TrackerUpdate(tracker.update(source, update, system.clock(), wall()), update.error)
                    yield TrackerUpdate(tracker.tick(system.clock(), wall()))
                else:
                    yield TrackerUpdate([])
        finally:
            pending.cancel()
            await asyncio.gather(pending, return_exceptions=True)
