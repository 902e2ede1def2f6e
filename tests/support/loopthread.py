"""An asyncio loop in a thread of its own, driven by a test."""

from __future__ import annotations

import asyncio
import gc
import threading
import warnings
from typing import TYPE_CHECKING, TypeVar

from tests.support.processes import PATIENCE

if TYPE_CHECKING:
    from collections.abc import Coroutine
    from types import TracebackType

    from typing_extensions import Self

T = TypeVar("T")


class LoopThread:
    """Runs `self.open()` in a new thread's loop from start(), and `self.shut()` there at stop().

    What goes wrong in between belongs into `failures`: stop() raises the first.
    """

    failures: list[Exception]

    def start(self) -> Self:
        """Start the loop; what `open` raises is raised here."""
        self.failures = []
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name=type(self).__name__, daemon=True)
        self._thread.start()
        self.run(self.open())
        return self

    def stop(self) -> None:
        """End every task, then the loop; raise the first of `failures`."""
        with warnings.catch_warnings():  # of what was cancelled before its first step, or in its handshake
            warnings.simplefilter("ignore", ResourceWarning)
            self.run(self._end())
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(10)
            self._loop.close()
            gc.collect()
        if self.failures:
            raise self.failures[0]

    def run(self, work: Coroutine[None, None, T], timeout: float = PATIENCE) -> T:
        """Do this in the loop and return its result."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(timeout)

    async def open(self) -> None:
        """Begin to serve."""

    async def shut(self) -> None:
        """Close what `open` opened; the tasks have ended."""

    async def _end(self) -> None:
        await self._end_tasks()
        await self.shut()
        await self._end_tasks()  # whose connection came meanwhile
        for _ in range(3):  # aborted transports close a round or two later
            await asyncio.sleep(0)

    async def _end_tasks(self) -> None:
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
