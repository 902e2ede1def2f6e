"""Several watches as one."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import TYPE_CHECKING, TypeVar

from kleader.kube.errors import WatchError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Sequence

T = TypeVar("T")


async def merge_watches(watches: Sequence[AsyncGenerator[T, None]]) -> AsyncGenerator[tuple[int, T], None]:
    """Each event of each watch, with the watch's index. If one ends, all end, with its error or a WatchError."""
    events: asyncio.Queue[tuple[int, T] | Exception] = asyncio.Queue()

    async def follow(index: int) -> None:
        try:
            async with aclosing(watches[index]) as watch:
                async for event in watch:
                    events.put_nowait((index, event))
            events.put_nowait(WatchError("the watch ended"))
        except Exception as error:  # noqa: BLE001 - the reader gets every error
            events.put_nowait(error)

    tasks = [asyncio.ensure_future(follow(index)) for index in range(len(watches))]
    try:
        while not isinstance(event := await events.get(), Exception):
            yield event
        raise event
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
