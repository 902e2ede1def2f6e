"""As much of an event loop as coroutines, futures and queues need, on the clock of a simulated host."""

from __future__ import annotations

import asyncio
from asyncio import _get_running_loop, _set_running_loop
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar, cast

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from contextvars import Context

    from tests.simulation.host import Host

T = TypeVar("T")


class Handle:
    """What call_later can be taken back by."""

    cancelled = False

    def cancel(self) -> None:
        """It will not happen."""
        self.cancelled = True


class Loop:
    """Tasks of one host. What one of them raises is raised by the world, unless it was ended."""

    def __init__(self, host: Host) -> None:
        self._host, self._soon = host, host.world.soon
        self._tasks: dict[asyncio.Task[None], None] = {}  # in the order of their beginning
        self._self = cast("asyncio.AbstractEventLoop", self)

    def time(self) -> float:
        """Seconds on the host's clock."""
        return self._host.boot

    def call_soon(self, callback: Callable[..., object], *args: object, context: Context | None = None) -> None:  # noqa: ARG002
        """After what happens now; nothing here has variables in a context."""
        self._soon(partial(self._run, callback, *args))

    def call_later(self, delay: float, callback: Callable[..., object], *args: object) -> Handle:
        """In so many seconds of the host's clock."""
        handle = Handle()
        self._host.after(delay, lambda: None if handle.cancelled else self._run(callback, *args))
        return handle

    def create_future(self) -> asyncio.Future[Any]:
        """As asyncio does."""
        return asyncio.Future(loop=self._self)

    def create_task(self, coro: Coroutine[Any, Any, T], **_: object) -> asyncio.Task[T]:
        """As asyncio does."""
        return asyncio.Task(coro, loop=self._self)

    def get_debug(self) -> bool:
        """Asked by asyncio."""
        return False

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """A task that was thrown away with its host is no news."""

    def spawn(self, coro: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Begin something that is minded until it ends."""
        task = self.create_task(coro)
        self._tasks[task] = None
        task.add_done_callback(self._ended)
        return task

    def end(self) -> None:
        """Everything that goes on is over."""
        for task in self._tasks:
            task.cancel()

    def _ended(self, task: asyncio.Task[None]) -> None:
        del self._tasks[task]
        if not task.cancelled():
            task.result()

    def _run(self, callback: Callable[..., object], *args: object) -> None:
        if _get_running_loop() is not self._self:
            _set_running_loop(self._self)
        callback(*args)
