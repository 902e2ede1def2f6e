"""What the demo prints: lines that only grow, so that a pipe shows what a terminal shows, without colour."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from collections.abc import Sequence

WIDTH = 78
_BOLD, _DIM, _RED, _GREEN, _YELLOW = "1", "2", "31;1", "32;1", "33"
_SECOND = 1_000_000_000


@dataclass(frozen=True)
class Signs:
    """The signs of the chart."""

    works: str = "█"
    waits: str = "·"
    killed: str = "✗"
    stopped: str = "■"
    arrow: str = "→"


ASCII = Signs("#", ".", "x", "=", "->")


@dataclass(frozen=True)
class Bar:
    """One candidate's row; instants in ns, None if there was none."""

    name: str
    began: int
    work: int | None
    end: int
    killed: bool


class Picture:
    """Prints on ``out``; in colour on a terminal, unless NO_COLOR is set."""

    def __init__(self, out: TextIO = sys.stdout) -> None:
        self._out = out
        self._colour = out.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
        self.signs = Signs() if _can_encode(out, "".join(vars(Signs()).values())) else ASCII
        self._zero = 0
        self._column = 0  # in an unfinished line

    def title(self, text: str, *more: str) -> None:
        """The first lines."""
        self._write(self._paint(text, _BOLD) + "\n" + "".join(f"{line}\n" for line in more) + "\n")

    def zero(self, at: int) -> None:
        """Set the instant from which times count."""
        self._zero = at

    def event(self, at: int, who: str, text: str, colour: str = "") -> None:
        """Something happened to one candidate."""
        self.finish()
        self._write(f"{(at - self._zero) / _SECOND:6.2f} s  {self._paint(who, _BOLD)}  {self._paint(text, colour)}\n")

    def leads(self, at: int, who: str) -> None:
        """A new leader."""
        self.event(at, who, "LEADS: its worker runs", _GREEN)

    def waits(self, at: int, who: str) -> None:
        """Candidates that wait."""
        self.event(at, who, "wait", _YELLOW)

    def killed(self, at: int, who: str, text: str) -> None:
        """A leader's end."""
        self.event(at, who, text, _RED)

    def job(self, number: int) -> None:
        """The next job in the leader's line."""
        text = f" {number}"
        if not self._column:
            text = f"{'':15}jobs{text}"
        if self._column + len(text) <= WIDTH:
            self._column += len(text)
            self._write(self._paint(text, _GREEN))

    def chart(self, bars: Sequence[Bar]) -> None:
        """A row for each candidate, time from left to right."""
        self.finish()
        signs = self.signs
        whole = max(bar.end for bar in bars) - self._zero
        cell = max(_SECOND // 5, -(-whole // (WIDTH - 8)))
        marks = [" "] * (whole // cell + 4)
        for second in range(0, whole // _SECOND + 1, 2):
            place = second * _SECOND // cell
            marks[place : place + 4] = f"{second} s".ljust(4)
        self._write(f"\n{'':6}{self._paint(''.join(marks).rstrip(), _DIM)}\n")
        for bar in bars:
            first, last = (bar.began - self._zero) // cell, (bar.end - self._zero) // cell
            work = last if bar.work is None else (bar.work - self._zero) // cell
            waits, works = signs.waits * (work - first), signs.works * (last - work)
            end = self._paint(signs.killed, _RED) if bar.killed else signs.stopped
            line = " " * first + self._paint(waits, _YELLOW) + self._paint(works, _GREEN) + end
            self._write(f"{self._paint(bar.name.ljust(4), _BOLD)}  {line}\n")
        legend = (
            f"{signs.works} its worker runs   {signs.waits} waits   {signs.killed} killed   {signs.stopped} stopped"
        )
        self._write(f"{'':6}{self._paint(legend, _DIM)}\n")

    def measured(self, what: str, time: str) -> None:
        """One time."""
        self._write(f"{what:<50} {self._paint(f'{time:>10}', _BOLD)}\n")

    def verdict(self, text: str, *, good: bool) -> None:
        """The last line."""
        self._write(self._paint(text, _GREEN if good else _RED) + "\n")

    def finish(self) -> None:
        """End a line that is still growing."""
        if self._column:
            self._write("\n")
            self._column = 0

    def _paint(self, text: str, colour: str) -> str:
        return f"\033[{colour}m{text}\033[0m" if self._colour and colour and text else text

    def _write(self, text: str) -> None:
        self._out.write(text)
        self._out.flush()


def _can_encode(out: TextIO, text: str) -> bool:
    try:
        text.encode(out.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True
