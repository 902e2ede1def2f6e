"""What a check found out."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

OK, WARN, FAIL = "ok", "warn", "fail"


class Finding(NamedTuple):
    """One line: what was looked at, how it is, and what would mend it."""

    level: str  # OK, WARN: it works, but for something; FAIL: no run can lead so, or none safely
    check: str
    message: str
    mend: str = ""

    @property
    def line(self) -> str:
        """For people."""
        return f"{self.level:4}  " + printable(f"{self.check}: {self.message}{f'; {self.mend}' if self.mend else ''}")


Tell = Callable[[Finding], None]


def printable(said: str) -> str:
    """In one line."""
    from kleader.cli import words

    return words.printable(" ".join(said.split()))
