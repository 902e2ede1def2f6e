"""File descriptors across fork, and a file that is replaced, on every POSIX system alike."""

from __future__ import annotations

import contextlib
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


def replace_file(path: str, text: str) -> None:
    """At once, for a process that reads meanwhile; what another user has put at PATH.tmp is not written to. OSError."""
    temporary = f"{path}.tmp"
    with contextlib.suppress(FileNotFoundError):
        os.unlink(temporary)
    try:
        with open(temporary, "x", encoding="utf-8", errors="replace") as file:
            file.write(text)
        os.rename(temporary, path)
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
