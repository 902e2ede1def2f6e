"""The real multilock over two objects of the model: requests, faults and deaths fall between its two halves too."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from functools import partial
from typing import TYPE_CHECKING, TypeVar, cast

from kleader.election import events as e
from kleader.election.events import Kind, Observed
from kleader.kube.errors import LockError, WatchError
from kleader.locks.multilock import MultiLock

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable

    from kleader.election.record import Record
    from kleader.locks.object_lock import ObjectLock
    from tests.simulation.host import Host
    from tests.simulation.machine import Machine
    from tests.simulation.server import Kept

T = TypeVar("T")


class Part:
    """One object as a coroutine locks it: what ObjectLock promises."""

    namespace = "default"

    def __init__(self, host: Host, kept: Kept) -> None:
        self.properties = kept.properties
        self._host, self._kept, self._life = host, kept, host.life

    async def get(self, timeout: float) -> Observed:
        """The object as it is now."""
        event = await self._call(e.Get(0, timeout))
        if event.observed is None:
            raise LockError(Kind.MISSING, "there is none")
        return event.observed

    async def write(self, base: Observed | None, record: Record, incarnation: str, timeout: float) -> Observed:
        """Over exactly this, or a creation."""
        self._host.between()
        event = await self._call(e.Write(0, timeout, base, record, incarnation))
        assert event.observed
        return event.observed

    async def watch(self, after: Observed | None, _timeout: float) -> AsyncGenerator[Observed | None, None]:
        """Each later state."""
        told: asyncio.Queue[e.Event] = asyncio.Queue()
        watch = self._host.watch(self._kept, after.version if after else "", partial(self._deliver, told.put_nowait))
        try:
            while isinstance(event := await told.get(), e.WatchEvent):
                yield event.observed
            assert isinstance(event, e.WatchEnded)
            error = WatchError(event.reason)
            error.ended = event
            raise error
        finally:
            watch.over = True

    async def _call(self, request: e.Get | e.Write) -> e.GetDone | e.WriteDone:
        """Sent when the process runs; LockError."""
        loop = self._host.loop
        if self._host.paused:
            running: asyncio.Future[None] = loop.create_future()
            self._deliver(resolve, running, None)
            await running
        answered: asyncio.Future[e.Event] = loop.create_future()
        if request.timeout <= 0:
            raise LockError(Kind.UNREACHABLE, "no time was left")
        self._host.send(self._kept, request, partial(self._deliver, resolve, answered))
        event = await answered
        if isinstance(event, e.RequestFailed):
            raise LockError(*event.failure)
        assert isinstance(event, (e.GetDone, e.WriteDone))
        return event

    def _deliver(self, what: Callable[..., object], *args: object) -> None:
        if self._host.life == self._life:
            self._host.deliver(partial(what, *args))


class Pair:
    """The multilock of one elector, asked as the elector's loop does it."""

    def __init__(self, machine: Machine) -> None:
        first, second = (cast("ObjectLock", Part(machine, kept)) for kept in machine.kept)
        self._machine, self._life = machine, machine.life
        self._lock = MultiLock(first, second, machine.me.timing.lease_duration)
        self._requesting: asyncio.Task[None] | None = None
        self._watching: asyncio.Task[None] | None = None

    def ask(self, request: e.Get | e.Write) -> None:
        """Supersedes what is still under way."""
        if self._requesting:
            self._requesting.cancel()
        self._requesting = self._machine.loop.spawn(self._request(request))

    def watch(self, seen: Observed | None) -> None:
        """From after what was seen."""
        self._watching = self._machine.loop.spawn(self._watch(seen))

    def unwatch(self) -> None:
        """Nothing of it is told any more."""
        watching, self._watching = self._watching, None
        if watching:
            watching.cancel()

    async def _request(self, request: e.Get | e.Write) -> None:
        event: e.Event
        try:
            if isinstance(request, e.Get):
                event = e.GetDone(request, await self._lock.get(request.timeout))
            else:
                written = await self._lock.write(request.base, request.record, request.incarnation, request.timeout)
                event = e.WriteDone(request, written)
        except LockError as error:
            event = e.RequestFailed(request, error.failure)
        self._requesting = None
        self._tell(event)

    async def _watch(self, seen: Observed | None) -> None:
        ended = e.WatchEnded("the watch ended")
        mine = self._watching
        try:
            async with aclosing(self._lock.watch(seen, self._machine.me.request_timeout)) as states:
                async for state in states:
                    if self._watching is not mine:
                        return
                    self._tell(e.WatchEvent(state))
        except WatchError as error:
            ended = error.ended
        if self._watching is mine:
            self._watching = None
            self._tell(ended)

    def _tell(self, event: e.Event) -> None:
        if self._machine.life == self._life:
            self._machine.tell(event)


def resolve(future: asyncio.Future[T], value: T) -> None:
    """For the first time, and while it is waited for."""
    if not future.done():
        future.set_result(value)
