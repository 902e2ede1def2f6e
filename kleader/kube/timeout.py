"""Time limits: ``async with within(seconds)`` raises asyncio.TimeoutError if the block takes longer.

``asyncio.wait_for`` must not be used: before Python 3.12 it loses a cancellation that comes at the moment of the result
(python/cpython issue 86296), and the task runs on for ever.
"""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

if sys.version_info >= (3, 11):
    from asyncio import timeout as within
else:
    from async_timeout import timeout as within

__all__ = ["seconds_left", "wait_at_most", "within"]


def seconds_left(timeout: float) -> Callable[[], float]:
    """A function that gives the seconds left of a timeout that begins now, for several requests in a row."""
    clock = asyncio.get_running_loop().time
    end = clock() + timeout
    return lambda: end - clock()


async def wait_at_most(event: asyncio.Event, seconds: float) -> None:
    """Return when the event is set, or after so many seconds."""
    try:
        async with within(seconds):
            await event.wait()
    except asyncio.TimeoutError:
        return
