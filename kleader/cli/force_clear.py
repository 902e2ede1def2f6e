"""How ``resign --force`` clears a lock: it overwrites only a record that it observed unchanged."""

from __future__ import annotations

import time
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from kleader import system
from kleader.cli import formatters
from kleader.cli.console import fail, warn
from kleader.cli.followed_lock import TimeIsUpError
from kleader.cli.leader_requests import followed, holder_of
from kleader.election.duration import text
from kleader.election.record import Record, fresh_time
from kleader.election.release import DURATION
from kleader.exits import NOT_DONE
from kleader.kube.metadata import string_map
from kleader.locks.annotation_lock import LEADER
from kleader.locks.lock_annotations import annotation
from kleader.observe.snapshot import LockState, LockStatus, status_from_watch
from kleader.observe.tracker import Change

if TYPE_CHECKING:
    from kleader.cli.followed_lock import FollowedLock
    from kleader.cli.locate import Query
    from kleader.election.events import Observed
    from kleader.locks.object_lock import ObjectLock

UNREADABLE_SECONDS = 15  # for which a record without a readable duration is watched; client-go's lease duration


async def clear(query: Query, timeout: float, form: str, *, now: bool, yes: bool) -> None:
    """Return when the lock is free, and print that; exit with 1 if its record is written meanwhile."""
    lock = followed(query, timeout)
    first: dict[ObjectLock, Observed] = {}
    unchanged_at = 0.0
    try:
        async for status, changes in lock.statuses():
            if status is None:
                lock.fail_missing()
            if status.state is LockState.FREE:
                formatters.print_result(status, changes, form)
                return
            if not first:
                if status.snapshot.non_expiring:
                    fail("the lock does not expire: it is free when the Pod that owns it is deleted", NOT_DONE)
                first = await _read(lock)
                # What is overwritten was read after the first status: its whole duration counts from here.
                duration, began_at = float(status.snapshot.record.duration or UNREADABLE_SECONDS), system.clock()
                _confirm(status, duration, now=now, yes=yes)
                unchanged_at = lock.check_at = began_at + duration
                lock.end = max(lock.end, system.clock()) + duration
            elif any(change.event not in {"present", "expired"} for change in changes):
                fix = "ask it without --force" if status.snapshot.incarnation else "end its process"
                fail(f"{holder_of(status)} is alive, because it has just written the lock: {fix}", NOT_DONE)
            is_silent = status.state in {LockState.EXPIRED, LockState.MALFORMED} and system.clock() >= unchanged_at
            if now or is_silent:
                for part, observed in first.items():
                    await _release(lock, part, observed)
                freed = _freed(status)
                formatters.print_result(
                    freed, [Change("cleared", f"cleared: {holder_of(status)} held it", freed)], form
                )
                return
    except TimeIsUpError as error:
        lock.fail_late(str(error), "the record was not observed unchanged for its lease duration", NOT_DONE)


def _confirm(status: LockStatus, duration: float, *, now: bool, yes: bool) -> None:
    """Warn about the risk, and ask for confirmation."""
    holder = holder_of(status)
    if now:
        risk = f"if {holder} is alive, it continues until it notices, and another candidate may lead meanwhile"
        warn(f"this takes the lock from {holder} at once: {risk}")
    else:
        risk = "if that holder does not run kleader, its work may still run then"
        warn(f"this takes the lock from {holder} once it was observed unchanged for {text(duration)}: {risk}")
    if not yes:
        click.confirm("kleader: continue?", abort=True, err=True)


async def _read(lock: FollowedLock) -> dict[ObjectLock, Observed]:
    """The lock's objects that exist, as they are now."""
    found = {part: await lock.retry(partial(part.get, lock.query.request_timeout)) for part in lock.objects}
    return {part: observed for part, observed in found.items() if observed}


async def _release(lock: FollowedLock, part: ObjectLock, first: Observed) -> None:
    """Write what client-go writes to release, over this record alone; the rest of the object may have changed."""

    async def attempt() -> None:
        observed = await part.get(lock.query.request_timeout)
        if not (observed.record.holder or observed.fault):
            return
        if _record_as_written(observed) != _record_as_written(first):
            fail("the lock was written just now, so it is not cleared: try again", NOT_DONE)
        instant = fresh_time(observed.record.renewed, time.time_ns() // 1000, part.properties.tick)
        record = Record("", DURATION, instant, instant, _transitions(observed))
        await part.write(observed, record, "", lock.query.request_timeout)

    await lock.retry(attempt)


def _record_as_written(observed: Observed) -> tuple[Any, ...]:
    """Everything that can say who holds the lock, readable or not."""
    base = observed.base
    return base["metadata"]["uid"], observed.incarnation, base.get("spec"), annotation(base, LEADER)


def _transitions(observed: Observed) -> int:
    """The transitions, if they can be read."""
    found = string_map(observed.base.get("spec")).get("leaseTransitions")
    kept = observed.record.transitions if not observed.fault else found
    return kept if isinstance(kept, int) and 0 <= kept < 1 << 31 else 0


def _freed(status: LockStatus) -> LockStatus:
    lock = replace(status.snapshot, record=Record("", DURATION), incarnation="", fault="")
    return status_from_watch(lock, 0, status.at)
