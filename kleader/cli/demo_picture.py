"""What the demo prints: lines that only grow, so that a pipe shows what a terminal shows, without colour."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, NamedTuple

from kleader.cli.console import can_show, takes_colours

if TYPE_CHECKING:
    from collections.abc import Sequence

WIDTH = 78
BOLD, DIM, RED, GREEN, YELLOW = "1", "2", "31;1", "32;1", "33"
_SECOND = 1_000_000_000
_ASCII = {"█": "#", "·": ".", "✗": "x", "■": "=", "→": "->"}


class Bar(NamedTuple):
    """A candidate's row in the chart."""

    name: str
    began: int
    worker_began: int
    worker_ended: int
    is_killed: bool


class Picture:
    """Prints on standard output, in colour on a terminal, in ASCII where nothing else can be encoded.

    Instants are nanoseconds of the clock of the workers; the picture's own count from ``zero``.
    """

    def __init__(self) -> None:
        self._has_colour = takes_colours(sys.stdout)
        self._signs = str.maketrans({} if can_show(sys.stdout, "".join(_ASCII)) else _ASCII)
        self.zero = 0
        self._column = 0  # in an unfinished line

    def line(self, text: str, colour: str = "") -> None:
        """A line of its own."""
        self.finish()
        self._write(f"{self._paint(text, colour)}\n")

    def event(self, at: int, who: str, text: str, colour: str = "") -> None:
        """Something happened to a candidate."""
        self.line(f"{(at - self.zero) / _SECOND:6.2f} s  {self._paint(who, BOLD)}  {self._paint(text, colour)}")

    def job(self, number: str) -> None:
        """The next job in the leader's line."""
        text = f" {number}" if self._column else f"{'':15}jobs {number}"
        if self._column + len(text) <= WIDTH:
            self._column += len(text)
            self._write(self._paint(text, GREEN))

    def chart(self, bars: Sequence[Bar]) -> None:
        """A row for each candidate, time from left to right."""
        whole = max(bar.worker_ended for bar in bars) - self.zero
        cell = max(_SECOND // 5, -(-whole // (WIDTH - 8)))
        marks = [" "] * (whole // cell + 4)
        for second in range(0, whole // _SECOND + 1, 2):
            place = second * _SECOND // cell
            marks[place : place + 4] = f"{second} s".ljust(4)
        self.line(f"\n{'':6}{self._paint(''.join(marks).rstrip(), DIM)}")
        for bar in bars:
            began, work, end = ((at - self.zero) // cell for at in (bar.began, bar.worker_began, bar.worker_ended))
            waits, works = self._paint("·" * (work - began), YELLOW), self._paint("█" * (end - work), GREEN)
            sign = self._paint("✗", RED) if bar.is_killed else "■"
            self.line(f"{self._paint(bar.name.ljust(4), BOLD)}  {' ' * began}{waits}{works}{sign}")
        self.line(f"{'':6}█ its worker runs   · waits   ✗ killed   ■ stopped", DIM)

    def measured(self, what: str, ns: int) -> None:
        """One time."""
        self.line(f"{what:<50} {self._paint(f'{ns / 1e6:>7.1f} ms', BOLD)}")

    def finish(self) -> None:
        """End a line that is still growing."""
        if self._column:
            self._write("\n")
            self._column = 0

    def _paint(self, text: str, colour: str) -> str:
        return f"\033[{colour}m{text}\033[0m" if self._has_colour and colour and text else text

    def _write(self, text: str) -> None:
        sys.stdout.write(text.translate(self._signs))
        sys.stdout.flush()
