"""Several watches as one."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import TYPE_CHECKING, TypeVar

from kleader.locks.base import WatchError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Sequence

T = TypeVar("T")


async def merged(watches: Sequence[AsyncGenerator[T, None]]) -> AsyncGenerator[tuple[int, T], None]:
    """What each of them tells, with its number, as it comes. The end of one, with its WatchError, is the end of all."""
    changes: asyncio.Queue[tuple[int, T] | Exception] = asyncio.Queue()

    async def follow(which: int) -> None:
        try:
            async with aclosing(watches[which]) as states:
                async for state in states:
                    changes.put_nowait((which, state))
            changes.put_nowait(WatchError("the watch ended"))
        except Exception as error:  # noqa: BLE001 - a bug too is for who reads on
            changes.put_nowait(error)

    following = [asyncio.ensure_future(follow(which)) for which in range(len(watches))]
    try:
        while not isinstance(change := await changes.get(), Exception):
            yield change
        raise change
    finally:
        for task in following:
            task.cancel()
        await asyncio.gather(*following, return_exceptions=True)
