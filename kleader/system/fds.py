"""File descriptors across fork, on every POSIX system alike."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection


def close_all_but(kept: Collection[int]) -> None:
    """In a forked child: what it has no use for."""
    for name in os.listdir("/dev/fd"):
        if int(name) not in kept:
            try:
                os.close(int(name))
            except OSError:  # the directory's own
                continue
