"""Lines on standard error: warnings beside the result, and the one error with which a command ends.

Probes need it: it does without click, and without typing, which takes longer than their answer.
"""

from __future__ import annotations

import os
import sys
import time

from kleader.log import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn, TextIO


def fail(message: str | None, status: int) -> NoReturn:
    """Print the error in one line, and exit with the status."""
    print_line(f"kleader: error: {one_line(str(message))}", sys.stderr)
    sys.exit(status)


def warn(message: str) -> None:
    """Print a warning in one line."""
    print_line(f"kleader: {one_line(message)}", sys.stderr)


def print_line(line: str, stream: TextIO | None = None) -> None:
    """Print on standard output or another stream at once. OSError: no process reads it, the disk is full."""
    print(line, file=stream, flush=True)


def one_line(text: str) -> str:
    """The text without line breaks and without characters that a terminal acts on."""
    return printable(" ".join(text.split()))


def takes_colours(stream: TextIO) -> bool:
    """Whether a stream is a terminal with colours, and the user does not object (https://no-color.org)."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def can_show(stream: TextIO, text: str) -> bool:
    """Whether the stream's encoding has all characters of the text."""
    return text.encode(stream.encoding or "ascii", "ignore").decode(stream.encoding or "ascii") == text


class RepeatedWarning:
    """Warnings, each printed at most once in so many seconds."""

    def __init__(self, every: float = 10.0) -> None:
        self._every = every
        self._printed: dict[str, float] = {}

    def warn(self, message: str) -> None:
        """Print it, unless it was printed just now."""
        now = time.monotonic()
        self._printed = {text: at for text, at in self._printed.items() if now - at < self._every}
        if message not in self._printed:
            self._printed[message] = now
            warn(message)
