"""What an elector does at once. A bug must end the process, which is replaced, rather than leave it half alive."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, Any, NoReturn

from kleader.exits import FAILED

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from kleader.log import Log


class Tasks:
    """Those that run; each that fails is the end."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._running: set[asyncio.Task[None]] = set()

    def spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Begin, in a loop."""
        task = asyncio.ensure_future(self._safely(work))
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        task.add_done_callback(lambda _: work.close())  # of one that was cancelled before it began
        return task

    def on_error(self, _loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """What asyncio would print with a traceback. A callback that fails is a bug; transports end by themselves."""
        error = context.get("exception")
        if "handle" in context and error:
            self._fail(error)
        self._log.debug(f"{context.get('message')}: {error}", event="internal_warning")

    async def _safely(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except asyncio.CancelledError:
            raise
        except BaseException as error:  # noqa: BLE001
            self._fail(error)

    def _fail(self, error: BaseException) -> NoReturn:
        self._log.error(
            f"the elector failed: {type(error).__name__}: {error}; please report it", event="elector_failed"
        )
        self._log.finish()
        os._exit(FAILED)
