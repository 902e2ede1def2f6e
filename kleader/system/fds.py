"""File descriptors across fork, on every POSIX system alike."""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection

OPEN_FILES = "/proc/self/fd" if sys.platform == "linux" else "/dev/fd"  # an image of Linux may have no /dev/fd


def close_all_but(kept: Collection[int]) -> None:
    """In a forked child: what it has no use for."""
    for name in os.listdir(OPEN_FILES):
        if int(name) not in kept:
            try:
                os.close(int(name))
            except OSError:  # the directory's own
                continue
