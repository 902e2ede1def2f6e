"""``async with within(seconds)``: TimeoutError (``asyncio.TimeoutError`` on Python 3.10) for what takes longer.

Not ``asyncio.wait_for``: up to Python 3.11 that loses the cancellation that comes at the moment of the answer
(python/cpython issue 86296), and what was cancelled in vain goes on for ever.
"""

from __future__ import annotations

import sys

if sys.version_info >= (3, 11):
    from asyncio import timeout as within
else:
    from async_timeout import timeout as within

__all__ = ["within"]
