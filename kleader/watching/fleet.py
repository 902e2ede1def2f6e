"""Several sources at once: each has its own road, since a road takes one call at a time."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import TYPE_CHECKING, NamedTuple, Protocol

from kleader import platform
from kleader.locks.api import Api
from kleader.locks.base import LockError
from kleader.locks.merge import merged
from kleader.watching.source import POLL, News, Source, shelves

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Sequence

    from kleader.locks.answers import Skew
    from kleader.locks.credentials import Credentials
    from kleader.watching.board import Board, Change
    from kleader.watching.seen import Key, Seen
    from kleader.watching.source import Where


class Follows(Protocol):
    """Where locks are seen."""

    @property
    def skew(self) -> Skew | None:
        """How far the clock there is from this machine's, where that is known."""

    async def look(self) -> tuple[dict[Key, Seen], str]:
        """All that there are, and the version of that; LockError."""

    def follow(self) -> AsyncGenerator[News, None]:
        """The same, then each change, for ever."""


class Told(NamedTuple):
    """What is new."""

    changes: list[Change]
    trouble: LockError | None = None


def sources(credentials: Credentials, asked: str, where: Where, timeout: float) -> list[Source]:
    """Where the locks that are asked for may be; ``asked``: their kind, "" for all."""
    return [Source(Api(credentials), shelf, where, timeout) for shelf in shelves(asked)]


async def look(sources: Sequence[Follows]) -> list[News]:
    """What each of them shows now."""

    async def one(source: Follows) -> News:
        try:
            seen, _ = await source.look()
        except LockError as error:
            return News({}, trouble=error)
        return News(dict(seen), whole=True)

    return await asyncio.gather(*map(one, sources))


async def follow(
    sources: Sequence[Follows], board: Board, wall: Callable[[], int], every: float = 60.0
) -> AsyncGenerator[Told, None]:
    """What the board makes of the sources, at least ``every`` so many seconds, though it be nothing.

    A watch may have gone deaf: before anything is called expired it is read again.
    """
    async with aclosing(merged([source.follow() for source in sources])) as news:
        coming = asyncio.ensure_future(anext(news))
        try:
            while True:
                wake = platform.clock() + POLL if board.blind else board.wake_at()
                pause = every if wake is None else min(every, max(0.0, wake - platform.clock()))
                await asyncio.wait({coming}, timeout=pause)
                if coming.done():
                    which, told = coming.result()
                    coming = asyncio.ensure_future(anext(news))
                    yield Told(board.tell(which, told, platform.clock(), wall()), told.trouble)
                elif wake is not None and wake <= platform.clock():
                    for which, told in enumerate(await look(sources)):
                        yield Told(board.tell(which, told, platform.clock(), wall()), told.trouble)
                    yield Told(board.tick(platform.clock(), wall()))
                else:
                    yield Told([])
        finally:
            coming.cancel()
            await asyncio.gather(coming, return_exceptions=True)
