"""Follows locks as a waiting candidate does: by what it observes, on this machine's clock. Pure: it reads no clock.

``now``: seconds on the clock of expiries (CLOCK_BOOTTIME). ``wall``: microseconds since the epoch, for people.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from kleader.election.duration import text
from kleader.election.record import SECOND, UNKNOWN, Record, display_name
from kleader.locks.base import MULTILOCKS
from kleader.observe.assemble import assemble
from kleader.observe.snapshot import LockSnapshot, LockState, LockStatus, status_from_watch

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kleader.observe.snapshot import LockKey, SourceUpdate

_SETTLE_SECONDS = 1.0  # for which a multilock's objects may differ: its holder writes one after the other


class Change(NamedTuple):
    """What happened to a lock.

    ``event``: present, acquired, given (handed over), released, expired, renewed (after it had expired), malformed,
    mended, moved (to one object, or to two) or deleted; "" for a renewal in time.
    ``seconds``: the duration in the sentence: how long the holder led, or how long after its lease had expired.
    """

    event: str
    sentence: str
    status: LockStatus
    seconds: float | None = None
    holder_is_alive: bool = False  # the holder has just written the record


@dataclass(slots=True)
class _Tracked:
    """One lock, since it was first observed. Instants are of ``now``."""

    snapshot: LockSnapshot
    unchanged_since: float
    state: LockState
    led_since: float | None = None  # None: the term began before it was observed
    available: tuple[float, str] | None = None  # since when another candidate may acquire it, and what had happened
    differing: tuple[float, LockSnapshot] | None = (
        None  # a multilock whose objects differ: since when, and as last read
    )
    emptied_at: float | None = None  # when one of the differing objects had no holder

    @property
    def expires_at(self) -> float:
        if self.state is not LockState.HELD or self.snapshot.non_expiring:
            return math.inf
        return self.unchanged_since + self.snapshot.record.duration

    def led_for(self, now: float, wall: int) -> float | None:
        """By this machine's clock where the term's begin was observed, else by the record's times."""
        record = self.snapshot.record
        if not record.holder or self.snapshot.fault:
            return None
        if self.led_since is not None:
            return now - self.led_since
        return None if record.acquired is None else max(0.0, (wall - record.acquired) / SECOND)

    def status(self, now: float, wall: int) -> LockStatus:
        """A lock counts as expired only after that was reported as a change."""
        return status_from_watch(self.snapshot, now - self.unchanged_since, wall)._replace(state=self.state)


class LockTracker:
    """All locks of so many sources. ``kind`` and ``by_name``: as of ``assemble``."""

    def __init__(self, sources: int, kind: str, *, by_name: bool) -> None:
        self._kind, self._by_name = kind, by_name
        self._awaited = set(range(sources))
        self._unreachable: set[int] = set()
        self._objects: list[dict[LockKey, LockSnapshot]] = [{} for _ in range(sources)]
        self._tracked: dict[LockKey, _Tracked] = {}

    @property
    def is_complete(self) -> bool:
        """Whether every source has reported its locks or an error."""
        return not self._awaited

    @property
    def is_unreachable(self) -> bool:
        """Whether a source cannot be read now: meanwhile nothing is observed to expire."""
        return bool(self._unreachable)

    @property
    def is_current(self) -> bool:
        """Whether all locks are known as they are now."""
        return self.is_complete and not self.is_unreachable

    @property
    def next_at(self) -> float:
        """When the next :meth:`tick` may have something to report; infinite if that is not known."""
        expiries = [] if self._unreachable else [tracked.expires_at for tracked in self._tracked.values()]
        settled = [tracked.differing[0] + _SETTLE_SECONDS for tracked in self._tracked.values() if tracked.differing]
        return min([*expiries, *settled], default=math.inf)

    def statuses(self, now: float, wall: int) -> list[LockStatus]:
        """All locks, by namespace and name."""
        return [self._tracked[key].status(now, wall) for key in sorted(self._tracked, key=_by_place)]

    def update(self, source: int, update: SourceUpdate, now: float, wall: int) -> list[Change]:
        """What a source's report changes; nothing until all have reported, because a multilock has two sources."""
        objects, is_first = self._objects[source], not self.is_complete
        is_continuous = not update.is_complete and not self._unreachable  # nothing can have happened in between
        self._awaited.discard(source)
        if update.error:
            self._unreachable.add(source)
        else:
            self._unreachable.discard(source)
            known = dict(objects)
            if update.is_complete:
                objects.clear()
            for key, snapshot in update.snapshots.items():
                before = known.get(key)
                if snapshot:
                    objects[key] = before if before and snapshot.is_older_than(before) else snapshot
                else:
                    objects.pop(key, None)
        if not self.is_complete:
            return []
        places = None if is_first or update.is_complete else {key[1:] for key in update.snapshots}
        return list(self._compare(places, now, wall, is_first=is_first, is_continuous=is_continuous))

    def tick(self, now: float, wall: int) -> list[Change]:
        """What has happened by ``now`` although no source reported anything."""
        changes: list[Change] = []
        for tracked in self._tracked.values():
            if tracked.differing and now >= tracked.differing[0] + _SETTLE_SECONDS:
                snapshot, tracked.differing, tracked.emptied_at = tracked.differing[1], None, None
                changes += _observe(tracked, snapshot, now, wall)
            elif now >= tracked.expires_at and not self._unreachable:
                changes.append(_expire(tracked, now, wall))
        return changes

    def _compare(
        self, places: set[tuple[str, str]] | None, now: float, wall: int, *, is_first: bool, is_continuous: bool
    ) -> Iterator[Change]:
        """The changes at these places (namespace and name), or everywhere."""
        objects = [snapshot for source in self._objects for key, snapshot in source.items() if _is_at(places, key)]
        multilocks = {key for key in self._tracked if key[0] in MULTILOCKS}
        locks = {lock.key: lock for lock in assemble(objects, self._kind, by_name=self._by_name, known=multilocks)}
        for key in [key for key in self._tracked if _is_at(places, key) and key not in locks]:
            tracked = self._tracked.pop(key)
            moved_to = next((other for other in locks if _is_moved(key, other)), None)
            if moved_to is None:
                yield _deleted(tracked, now, wall)
            elif moved_to not in self._tracked:
                tracked.snapshot = replace(tracked.snapshot, kind=moved_to[0])
                self._tracked[moved_to] = tracked
                where = "two objects" if moved_to[0] in MULTILOCKS else "one object alone"
                yield Change("moved", f"kept in {where} now", tracked.status(now, wall))
        for key in sorted(locks, key=_by_place):
            lock, known = locks[key], self._tracked.get(key)
            if known is None:
                self._tracked[key] = known = _Tracked(lock, now, status_from_watch(lock, 0, wall).state)
                known.led_since = None if is_first else now
                yield _appeared(known, now, wall, is_first=is_first)
            elif lock.record.holder == UNKNOWN != known.snapshot.record.holder:
                known.differing = known.differing[0] if known.differing else now, lock
                parts = [part for part in objects if part.key[1:] == key[1:]]
                if known.emptied_at is None and not all(part.record.holder for part in parts):
                    known.emptied_at = now
            else:
                emptied_at, known.differing, known.emptied_at = known.emptied_at, None, None
                if is_continuous and now >= known.expires_at and _is_acquired_by_another(known, lock):
                    yield _expire(known, now, wall)
                if emptied_at is not None and _is_acquired_by_another(known, lock):
                    empty = replace(known.snapshot, record=Record(), incarnation="")
                    yield from _observe(known, empty, emptied_at, wall)
                yield from _observe(known, lock, now, wall)


def _appeared(tracked: _Tracked, now: float, wall: int, *, is_first: bool) -> Change:
    status, holder = tracked.status(now, wall), display_name(tracked.snapshot.record.holder)
    if tracked.state is LockState.HELD and not is_first:
        return Change("acquired", f"{holder} leads, by a new lock", status, holder_is_alive=True)
    sentence = f"held by {holder}{_duration(', for', tracked.led_for(now, wall))}"
    if tracked.state is LockState.FREE:
        sentence = "free"
    elif tracked.state is LockState.MALFORMED:
        sentence = f"malformed, which counts as held: {tracked.snapshot.fault}"
    return Change("present", sentence, status)


def _expire(tracked: _Tracked, now: float, wall: int) -> Change:
    snapshot, holder = tracked.snapshot, display_name(tracked.snapshot.record.holder)
    failed = f"{'taken it within' if snapshot.handed_over else 'renewed it for'} {text(snapshot.record.duration)}"
    # the holder may have died at any instant of that time
    tracked.available = tracked.expires_at, f"the lease of {holder} had expired, and {holder} had not {failed}"
    tracked.state = LockState.EXPIRED
    sentence = f"{holder} has not {failed}: any candidate may acquire it"
    return Change("expired", sentence, tracked.status(now, wall), float(snapshot.record.duration))


def _deleted(tracked: _Tracked, now: float, wall: int) -> Change:
    holder = display_name(tracked.snapshot.record.holder)
    sentence = f"deleted, while {holder} held it" if tracked.state is LockState.HELD else "deleted"
    status = status_from_watch(LockSnapshot(*tracked.snapshot.key), 0, wall)
    return Change("deleted", sentence, status, tracked.led_for(now, wall) if holder else None)


def _observe(tracked: _Tracked, lock: LockSnapshot, now: float, wall: int) -> Iterator[Change]:
    """Note the lock's next state; what that means, unless its record is the same."""
    before, was = tracked.snapshot, tracked.state
    led_for, left = tracked.led_for(now, wall), tracked.expires_at - now
    tracked.snapshot = lock
    if _written(before) == _written(lock):
        return
    state = tracked.state = status_from_watch(lock, 0, wall).state
    is_new_term = lock.term != before.term or before.handed_over or was in {LockState.FREE, LockState.MALFORMED}
    tracked.unchanged_since = now
    if state is LockState.HELD and is_new_term:
        tracked.led_since = now
    holder, former, status = (
        display_name(lock.record.holder),
        display_name(before.record.holder),
        tracked.status(now, wall),
    )
    if state is LockState.MALFORMED:
        yield Change("malformed", f"malformed, which counts as held: {lock.fault}", status)
        return
    available, tracked.available = tracked.available, None
    if state is LockState.FREE:
        tracked.available = (now, f"{former} had released it") if former else available
        if was is not LockState.FREE:
            sentence = f"{former} has released the lock{_duration(', after', led_for)}" if former else "free again"
            yield Change("released", sentence, status, led_for)
    elif lock.handed_over:
        tracked.available = now, f"{former} had handed it over"
        sentence = f"{former} has handed the lock to {holder}, which has {text(lock.record.duration)} to take it"
        yield Change("given", sentence, status, led_for)
    elif was is LockState.MALFORMED:
        yield Change("mended", f"held by {holder}, and readable again", status, holder_is_alive=True)
    elif is_new_term:
        took = now - available[0] if available else 0.0
        how = f", {_short(took)} after {available[1]}" if available else _unexpected(holder, before, was, left)
        yield Change("acquired", f"{holder} leads{how}", status, took if available else None, holder_is_alive=True)
    elif was is LockState.EXPIRED and available:
        late = now - available[0]
        sentence = f"{holder} has renewed the lock after all, {_short(late)} too late"
        yield Change("renewed", sentence, status, late, holder_is_alive=True)
    else:
        yield Change("", "", status, holder_is_alive=True)


def _unexpected(holder: str, before: LockSnapshot, was: LockState, left: float) -> str:
    """How a term began for which the lock was not available."""
    former = display_name(before.record.holder)
    if holder == former:
        return " again"
    rest = f", which had {_short(left)} left" if 0 < left < math.inf else ""
    if left <= 0:  # a poll found the next holder before the expiry was reported
        rest = f", which was last observed to renew it {_short(before.record.duration - left)} ago"
    return f" instead of {former}{rest}" if former and was is LockState.HELD else ""


def _written(lock: LockSnapshot) -> tuple[object, ...]:
    """What a holder writes; a label that another client writes does not show that the holder is alive."""
    return lock.record, lock.incarnation, lock.fault, lock.handed_over


def _is_acquired_by_another(tracked: _Tracked, lock: LockSnapshot) -> bool:
    return not lock.handed_over and lock.record.holder not in {"", tracked.snapshot.record.holder}


def _is_moved(one: LockKey, other: LockKey) -> bool:
    """Whether a lock has become part of a multilock, or was one."""
    return one[1:] == other[1:] and (one[0] in MULTILOCKS) != (other[0] in MULTILOCKS)


def _is_at(places: set[tuple[str, str]] | None, key: LockKey) -> bool:
    return places is None or key[1:] in places


def _by_place(key: LockKey) -> tuple[str, str, str]:
    return key[1], key[2], key[0]


def _short(seconds: float) -> str:
    return text(round(seconds, 3 if seconds < 10 else 0))  # noqa: PLR2004 - above that milliseconds do not matter


def _duration(before: str, seconds: float | None) -> str:
    return "" if seconds is None else f"{before} {_short(seconds)}"
