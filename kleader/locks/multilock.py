"""Two locks held as one, for a fleet that changes from the first kind to the second: client-go's MultiLock, made safe.

Where it departs from client-go, whose letter lets two lead at once:

- A write counts only if both answers show it, from before the first of both requests.
- Holders that differ count as held, by somebody unknown, for the longest of both records' durations and one's own.
- Each of both is written with the version that the decision saw, and created only where the decision saw it missing.
  So nothing that already exists is tolerated at a creation: it is a conflict, and both are read again.
- One that was there and is missing, or has no record, does not make the lock free, whatever the other says.
- One that is created beside the other, or has no record any more, begins without transitions, whatever that has:
  somebody may have had it meanwhile.
"""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from kleader.election.events import Kind, Observed
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
    """What the first and the second lock showed; None: there is no such object."""

    first: Observed | None
    second: Observed | None


class MultiLock:
    """``primary`` and ``secondary``, for a candidate with this lease duration. The fencing token is the primary's.

    ``held``: for how many seconds either may be held, as an elector before this one has seen; 0: there was none.
    """

    def __init__(self, primary: ObjectLock, secondary: ObjectLock, lease_duration: int, held: int = 0) -> None:
        self.namespace = primary.namespace
        self.properties = primary.properties._replace(twofold=True)
        self._locks = (primary, secondary)
        self._least = lease_duration
        self._known = [held] * 2  # the duration that each showed last; 0: never there
        # the first two holders that each showed, with their incarnations, which client-go leaves as it finds them;
        # None: whoever may have had it while it was not seen
        self._shown: tuple[set[tuple[str, str] | None], ...] = (set(), set())

    async def get(self, timeout: float) -> Observed:
        """Both as they are now; Kind.MISSING if there is neither."""
        clock = asyncio.get_running_loop().time
        end = clock() + timeout
        first = await _find(self._locks[0], end - clock())
        try:
            second = await _find(self._locks[1], end - clock())
        except LockError as error:
            self._remember(_Pair(first, None))
            raise LockError(*error.failure._replace(held=self._known[0] if first else 0)) from None
        seen = self._both(_Pair(first, second))
        if seen is None:
            raise LockError(Kind.MISSING, "there is neither of both locks")
        return seen

    async def write(self, base: Observed | None, record: Record, incarnation: str, timeout: float) -> Observed:
        """First the primary, then the secondary; a failure in between leaves them different, which counts as held."""
        clock = asyncio.get_running_loop().time
        end = clock() + timeout
        written: list[Observed] = []
        for i, (lock, before) in enumerate(zip(self._locks, base.base if base else _Pair(None, None), strict=True)):
            begun = replace(record, transitions=0) if base and (before is None or self._missed(i, before)) else record
            try:
                seen = await lock.write(before, begun, incarnation, end - clock())
            except LockError as error:
                if before is None and error.failure.kind in {Kind.CONFLICT, Kind.UNREACHABLE}:
                    self._known[i] = self._known[i] or self._least  # and may be gone when it is read
                    self._shown[i].add(None)
                raise LockError(*error.failure._replace(held=self._known[0] if written else 0)) from None
            shown = (seen.record, seen.incarnation, seen.fault) == (begun, incarnation, "")
            if not shown or (before and seen.version == before.version):
                raise LockError(Kind.UNREACHABLE, "the API server's answer does not show what was written")
            written.append(seen)
            self._known[i] = self._known[i] or self._least  # it is there, whatever becomes of the other
        both = self._both(_Pair(*written))
        assert both is not None  # noqa: S101 - both are there
        return both

    async def watch(self, after: Observed | None, timeout: float) -> AsyncGenerator[Observed | None, None]:
        """Each later state of either; the end of one watch is the end of both."""
        pair = after.base if after else _Pair(None, None)
        now = list(pair)
        watches = [lock.watch(part, timeout) for lock, part in zip(self._locks, pair, strict=True)]
        async with aclosing(merge_watches(watches)) as changes:
            async for which, seen in changes:
                now[which] = seen
                yield self._both(_Pair(*now))

    @property
    def ended_run(self) -> Run | None:
        """Recorded in both."""
        return self._locks[0].ended_run

    @ended_run.setter
    def ended_run(self, run: Run | None) -> None:
        for lock in self._locks:
            lock.ended_run = run

    @property
    def server_time(self) -> int | None:
        """Both are objects of one API server."""
        return self._locks[0].server_time

    def runs(self, seen: Observed) -> list[Run]:
        """The runs of both: either may be gone, or be behind after half a write."""
        found = [lock.runs(part) if part else [] for lock, part in zip(self._locks, seen.base, strict=True)]
        return run_history.merge(*found)

    async def add_run(self, base: Observed, run: Run, timeout: float) -> None:
        """Record it in both."""
        left = seconds_left(timeout)
        for lock, part in zip(self._locks, base.base, strict=True):
            if part:
                await lock.add_run(part, run, left())

    def references(self, seen: Observed) -> list[dict[str, str]]:
        """To those that are there."""
        return [
            each for lock, part in zip(self._locks, seen.base, strict=True) if part for each in lock.references(part)
        ]

    def register(self) -> None:
        """A candidate shows nowhere but in the lock."""

    async def unregister(self, timeout: float) -> None:
        """Likewise."""

    # --- what two objects say together

    def _both(self, pair: _Pair) -> Observed | None:
        present = [part for part in pair if part]
        if not present:
            return None
        missed = [self._missed(i, part) for i, part in enumerate(pair)]
        gone = any(missed)
        records, incarnations = [part.record for part in present], {part.incarnation for part in present}
        agreed = len({record.holder for record in records}) == 1
        durations = [record.duration for record in records]
        if gone or not agreed:
            durations += [self._least, *self._known]
        self._remember(pair)
        for is_missed, shown in zip(missed, self._shown, strict=True):
            if is_missed:
                shown.add(None)
        record = Record(
            records[0].holder if agreed else UNKNOWN,
            max(durations),
            records[0].acquired,
            max((each.renewed for each in records if each.renewed is not None), default=None),
            max(each.transitions for each in records),
        )
        incarnation = incarnations.pop() if agreed and len(incarnations) == 1 else ""
        return Observed(
            record,
            incarnation,
            version=pair.first.version if pair.first else "",
            second=pair.second.version if pair.second else "",
            fault="; ".join(part.fault for part in present if part.fault),
            base=pair,
            torn=gone or (len(present) == 1 and incarnation != ""),
            gone=gone,
            created=any(
                part and not part.record.transitions and shown - {(part.record.holder, part.incarnation)}
                for part, shown in zip(pair, self._shown, strict=True)
            ),
            beside=tuple(part and (part.record, part.incarnation) for part in pair),
            request=next((part.request for part in present if part.request), None),
            given=agreed and not gone and all(part and part.given for part in pair),
        )

    def _missed(self, i: int, part: Observed | None) -> bool:
        """Whether this one was there, and is missing or has no record any more."""
        return self._known[i] > 0 and not _written(part)

    def _remember(self, pair: _Pair) -> None:
        """What is there; what is not is as it was, and so is what was created anew by who is no candidate."""
        for i, part in enumerate(pair):
            if part and _written(part):
                self._known[i] = max(1, part.record.duration, self._known[i] if part.fault else 0)
                if len(self._shown[i]) <= 1:
                    self._shown[i].add((part.record.holder, part.incarnation))


def _written(part: Observed | None) -> bool:
    return part is not None and (not part.record.unwritten or bool(part.fault))


async def _find(lock: ObjectLock, timeout: float) -> Observed | None:
    try:
        return await lock.get(timeout)
    except LockError as error:
        if error.failure.kind is Kind.MISSING:
            return None
        raise
