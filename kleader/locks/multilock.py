"""Two locks held as one, for a fleet that changes from the first kind to the second: client-go's MultiLock, made safe.

Where it departs from client-go, whose letter lets two candidates lead at once:

- A write counts only if both answers show it. The term counts from before the first of both requests.
- It is held by a candidate only if both objects show that candidate, and released only if both are released. Everything
  else is an unknown holder.
- Each object is written over the version that the decision saw, and created only where the decision saw it missing.
  An object that exists already is a conflict at a creation.
- A release writes each object over its own version, whatever becomes of the other: so half a release can be finished.
"""

from __future__ import annotations

from contextlib import aclosing
from typing import TYPE_CHECKING, NamedTuple

from kleader.election.events import Failure, Kind, Observed
from kleader.election.record import UNKNOWN, Record
from kleader.kube.errors import LockError
from kleader.kube.merged_watch import merge_watches
from kleader.kube.timeout import seconds_left
from kleader.locks import run_history

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from kleader.locks.object_lock import ObjectLock
    from kleader.locks.run_history import Run


class _Pair(NamedTuple):
    """What the primary and the secondary lock showed; None: there is no such object."""

    primary: Observed | None
    secondary: Observed | None


class MultiLock:
    """``primary`` and ``secondary``, for a candidate with this lease duration, in seconds."""

    ended_run: Run | None = None
    recommended = ""
    ends_term = False

    def __init__(self, primary: ObjectLock, secondary: ObjectLock, lease_duration: int) -> None:
        self.namespace = primary.namespace
        self.properties = primary.properties._replace(is_multilock=True)
        self._locks = (primary, secondary)
        self._lease_duration = lease_duration

    async def get(self, timeout: float) -> Observed:
        """Both as they are now; Kind.MISSING if there is neither."""
        left = seconds_left(timeout)
        primary = await _find(self._locks[0], left())
        observed = self._together(_Pair(primary, await _find(self._locks[1], left())))
        if observed is None:
            raise LockError(Kind.MISSING, "neither of the two objects of the lock exists")
        return observed

    async def write(self, base: Observed | None, record: Record, incarnation: str, timeout: float) -> Observed:
        """First the primary, then the secondary. ``Failure.partly_done``: one of them may have been written.

        A release or a handover goes on to the secondary although the primary was not written. Else the next holder
        would find two locks that differ until the lease has run out.
        """
        left = seconds_left(timeout)
        written: list[Observed] = []
        failures: list[Failure] = []
        for lock, before in zip(self._locks, base.base if base else _Pair(None, None), strict=True):
            lock.ended_run, lock.recommended, lock.ends_term = self.ended_run, self.recommended, self.ends_term
            try:
                observed = await lock.write(before, record, incarnation, left())
                _check(observed, before, record, incarnation)
            except LockError as error:
                failures.append(error.failure)
                if incarnation:
                    break
            else:
                written.append(observed)
        if failures:
            unknown = [failure for failure in failures if failure.kind is Kind.UNREACHABLE]
            raise LockError(*(unknown or failures)[0]._replace(partly_done=bool(written)))
        both = self._together(_Pair(*written))
        assert both is not None  # noqa: S101 - both are there
        return both

    async def watch(self, after: Observed | None, timeout: float) -> AsyncGenerator[Observed | None, None]:
        """Each later state of either; the end of one watch is the end of both."""
        pair = after.base if after else _Pair(None, None)
        now = list(pair)
        watches = [lock.watch(part, timeout) for lock, part in zip(self._locks, pair, strict=True)]
        async with aclosing(merge_watches(watches)) as changes:
            async for which, observed in changes:
                now[which] = observed
                yield self._together(_Pair(*now))

    @property
    def server_time(self) -> int | None:
        """Both are objects of one API server."""
        return self._locks[0].server_time

    def runs(self, seen: Observed) -> list[Run]:
        """The runs of both: either may be gone, or be behind after half a write."""
        found = [lock.runs(part) if part else [] for lock, part in zip(self._locks, seen.base, strict=True)]
        return run_history.merge(*found)

    def requested_by(self, seen: Observed) -> str:
        """Either object may have the request."""
        names = (lock.requested_by(part) for lock, part in zip(self._locks, seen.base, strict=True) if part)
        return next(filter(None, names), "")

    def references(self, seen: Observed) -> list[dict[str, str]]:
        """To those that are there."""
        return [
            each for lock, part in zip(self._locks, seen.base, strict=True) if part for each in lock.references(part)
        ]

    def register(self) -> None:
        """Nothing: a candidate shows only in the lock."""

    async def unregister(self, timeout: float) -> None:
        """Nothing."""

    def _together(self, pair: _Pair) -> Observed | None:
        """What two objects say together: the holder that both have; an unknown one where they differ."""
        present = [part for part in pair if part]
        if not present:
            return None
        records, incarnations = [part.record for part in present], {part.incarnation for part in present}
        agreed = len({record.holder for record in records}) == 1
        some_object_lacks_record = any(part is None or part.is_blank for part in pair)
        durations = [record.duration for record in records]
        if not agreed:
            durations.append(self._lease_duration)
        record = Record(
            records[0].holder if agreed else UNKNOWN,
            max(durations),
            records[0].acquired,
            max((each.renewed for each in records if each.renewed is not None), default=None),
            max(each.transitions for each in records),
        )
        return Observed(
            record,
            incarnations.pop() if agreed and len(incarnations) == 1 else "",
            version="/".join(part.version if part else "" for part in pair),
            fault="; ".join(part.fault for part in present if part.fault),
            base=pair,
            components=tuple(part and (part.record, part.incarnation) for part in pair),
            some_object_lacks_record=some_object_lacks_record,
            recommended=next((part.recommended for part in present if part.recommended), ""),
            handed_over=agreed and not some_object_lacks_record and all(part.handed_over for part in present),
            request=next((part.request for part in present if part.request), None),
        )


def _check(observed: Observed, before: Observed | None, record: Record, incarnation: str) -> None:
    """LockError unless an answer shows what was written, under another version than before."""
    shown = (observed.record, observed.incarnation, observed.fault) == (record, incarnation, "")
    if not shown or (before and observed.version == before.version):
        raise LockError(Kind.UNREACHABLE, "the API server's answer does not show what was written")


async def _find(lock: ObjectLock, timeout: float) -> Observed | None:
    try:
        return await lock.get(timeout)
    except LockError as error:
        if error.failure.kind is Kind.MISSING:
            return None
        raise
