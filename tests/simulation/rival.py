"""client-go's candidates, to the letter of v0.23.16 and v0.36.3 (tools/leaderelection and its resourcelock).

Each ends its command before it releases, and dies of a loss without releasing: an overlap is kleader's. For the same
reason it has no fault that client-go itself does not survive: an answer that comes long after the write that it
tells of, or tells of none because nothing changed within the second (it counts its lease from the answer; since its
fast path, one try may write the very same record twice, the second time long after an answer that was lost), a clock
set back to a second that it has written before (that changes nothing, or makes a record that others have seen run out),
a stop of its process, an object deleted.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from math import inf
from typing import TYPE_CHECKING, Protocol

from kleader.election.events import Kind, Observed
from kleader.election.record import SECOND, UNKNOWN, Record
from kleader.election.timing import JITTER
from kleader.kube.errors import LockError
from tests.simulation.host import Host
from tests.simulation.pair import Part, resolve

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Sequence

    from kleader.election.state import Candidate
    from tests.simulation.server import Kept
    from tests.simulation.world import World


class GoLock(Protocol):
    """resourcelock.Interface. A raw record is what client-go compares to see whether anything changed."""

    async def get(self, timeout: float) -> tuple[Record, object]:
        """The record, and the raw one; LockError."""

    async def create(self, record: Record, timeout: float) -> None:
        """LockError."""

    async def update(self, record: Record, timeout: float) -> None:
        """Over what was last got or written; LockError."""


class GoSingle:
    """EndpointsLock, ConfigMapLock and LeaseLock: the object is cached, and whatever else it holds stays."""

    def __init__(self, host: Host, kept: Kept) -> None:
        self._part = Part(host, kept)
        self._cached: Observed | None = None

    async def get(self, timeout: float) -> tuple[Record, object]:
        """Raw records are JSON, with times in whole seconds."""
        got = await self._part.get(timeout)
        if got.fault:  # and is not written over: a Lease can always be read, as somebody else's
            raise LockError(Kind.REFUSED, "invalid character")
        self._cached, record = got, got.record
        return record, replace(record, acquired=_second(record.acquired), renewed=_second(record.renewed))

    async def create(self, record: Record, timeout: float) -> None:
        """By POST."""
        self._cached = await self._part.write(None, record, "", timeout)

    async def update(self, record: Record, timeout: float) -> None:
        """By PUT with the cached version."""
        assert self._cached
        self._cached = await self._part.write(self._cached, record, self._cached.incarnation, timeout)


class GoMulti:
    """MultiLock of v0.23, unsafe as it is."""

    def __init__(self, host: Host) -> None:
        self._identity = host.me.identity
        self._primary, self._secondary = (GoSingle(host, kept) for kept in host.kept)

    async def get(self, timeout: float) -> tuple[Record, object]:
        """Get returns the older election record of the lock."""
        primary, primary_raw = await self._primary.get(timeout)
        try:
            secondary, secondary_raw = await self._secondary.get(timeout)
        except LockError as error:  # lock is held by old client
            if error.failure.kind is Kind.MISSING and primary.holder != self._identity:
                return primary, primary_raw
            raise
        if primary.holder != secondary.holder:
            primary = replace(primary, holder=UNKNOWN)
            primary_raw = primary
        return primary, (primary_raw, secondary_raw)

    async def create(self, record: Record, timeout: float) -> None:
        """Create attempts to create both primary lock and secondary lock."""
        try:
            await self._primary.create(record, timeout)
        except LockError as error:
            if error.failure.kind is not Kind.CONFLICT:
                raise
        await self._secondary.create(record, timeout)

    async def update(self, record: Record, timeout: float) -> None:
        """Update will update and existing annotation on both two resources."""
        await self._primary.update(record, timeout)
        try:
            await self._secondary.get(timeout)
        except LockError as error:
            if error.failure.kind is Kind.MISSING:
                await self._secondary.create(record, timeout)
                return
            raise
        await self._secondary.update(record, timeout)


class Rival(Host):
    """A candidate on client-go; ``modern``: v0.36, else v0.23. Two objects are its multilock."""

    fates: Sequence[str] = ("request lost", "request too late", "request sent twice", "error after it was done", "500")
    lapses: Sequence[str] = ()
    trips = ("machine dies between two steps",)

    def __init__(self, world: World, name: str, me: Candidate, kept: tuple[Kept, ...], *, modern: bool = False) -> None:
        super().__init__(world, name, me, kept)
        self._modern = modern
        self._seconds: set[int] = set()  # of its clock, in which it tried
        self.fates = self.fates if modern else (*self.fates, "answer lost")

    def start(self) -> None:
        """A fresh process."""
        if self.up:
            return
        self.life += 1
        self.up, self._leads, self._stopping = True, False, False
        self._lock: GoLock = GoMulti(self) if len(self.kept) > 1 else GoSingle(self, self.kept[0])
        self._seen, self._seen_at = Record(), -inf
        self._raw: object = None
        self.loop.spawn(self._run())

    def stop(self, seconds: float) -> None:
        """TERM: it stops the command, and when that is dead cancels the context."""
        if self.up and not self._stopping:
            self._stopping = True
            self.after(seconds, self._life(self._cancel))

    def crash(self) -> None:
        """Nothing of it is left; a fresh process comes later."""
        if self.up:
            self._end_command()
            self.up = False
            self.life += 1
            self.loop.end()
            self.come_back()

    def _cancel(self) -> None:
        self.loop.end()
        self._end_command()
        self.loop.spawn(self._release())

    def _end_command(self) -> None:
        if self._leads:
            self._leads = False
            self.world.ended(self)

    def _life(self, what: Callable[[], None]) -> Callable[[], None]:
        life = self.life
        return lambda: what() if life == self.life else None

    # --- leaderelection.go

    async def _run(self) -> None:
        period = self.me.timing.retry_period
        while not await self._try_acquire_or_renew(self.boot + self.me.timing.renew_deadline):
            await self._sleep(period * (1 + self.rng.random() * JITTER))
        self._leads = True
        self.started()
        while await self._renew():
            await self._sleep(period)
        self.crash()

    async def _renew(self) -> bool:
        deadline = self.boot + self.me.timing.renew_deadline
        tick = self.boot
        while self.boot < deadline:
            if await self._try_acquire_or_renew(deadline):
                return True
            tick = max(tick + self.me.timing.retry_period, self.boot)
            await self._sleep(min(tick, deadline) - self.boot)
        return False

    async def _try_acquire_or_renew(self, deadline: float) -> bool:
        now, wall = self.boot, self._unused_wall()
        timeout = min(self.me.request_timeout, deadline - now)
        fresh = Record(self.me.identity, self.me.timing.lease_duration, wall, wall, 0)
        try:
            if self._modern and self._mine and self._valid(now):
                optimistic = replace(fresh, acquired=self._seen.acquired, transitions=self._seen.transitions)
                try:
                    await self._lock.update(optimistic, timeout)
                except LockError:
                    pass
                else:
                    self._observe(optimistic)
                    return True
            try:
                old, raw = await self._lock.get(min(timeout, deadline - self.boot))
            except LockError as error:
                if error.failure.kind is not Kind.MISSING:
                    return False
                await self._lock.create(fresh, min(timeout, deadline - self.boot))
                self._observe(fresh)
                return True
            if raw != self._raw:
                self._observe(old)
                self._raw = raw
            if self._barred(old, now, wall):
                return False
            record = replace(fresh, transitions=old.transitions + 1)
            if self._mine:
                record = replace(fresh, acquired=old.acquired, transitions=old.transitions)
            await self._lock.update(record, min(timeout, deadline - self.boot))
        except LockError:
            return False
        self._observe(record)
        return True

    def _unused_wall(self) -> int:
        """In a second that no try before was made in (see above)."""
        wall = self.wall
        while wall // SECOND in self._seconds:
            wall += SECOND
        self._seconds.add(wall // SECOND)
        return wall

    def _barred(self, old: Record, now: float, wall: int) -> bool:
        """By another's term; or, as it would not survive that, by its own write of this second (see above)."""
        again = self._modern and self._mine and _second(old.renewed) == _second(wall)
        return again or bool(old.holder and self._valid(now) and not self._mine)

    async def _release(self) -> None:
        """v0.36 reads the object first, v0.23 does not; that the former may release another's lease is left out."""
        try:
            old = self._seen
            if self._modern:
                old, _ = await self._lock.get(self.me.request_timeout)
            if self._mine and old.holder == self.me.identity:
                await self._lock.update(Record("", 1, self.wall, self.wall, old.transitions), self.me.request_timeout)
        except LockError:
            pass
        self.crash()

    @property
    def _mine(self) -> bool:
        return self._seen.holder == self.me.identity

    def _valid(self, now: float) -> bool:
        duration = self._seen.duration if self._modern else self.me.timing.lease_duration
        return self._seen_at + duration > now

    def _observe(self, record: Record) -> None:
        self._seen, self._seen_at = record, self.boot

    async def _sleep(self, seconds: float) -> None:
        woken: asyncio.Future[None] = self.loop.create_future()
        self.after(max(1e-6, seconds), partial(resolve, woken, None))
        await woken


def _second(time: int | None) -> int | None:
    return None if time is None else time // SECOND * SECOND
