"""The live view of ``status --watch`` on a terminal: what happens scrolls by, below it stands what is."""

from __future__ import annotations

import shutil
import sys
from typing import TYPE_CHECKING

from kleader.cli import words
from kleader.election.record import called
from kleader.watching.seen import State

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kleader.watching.seen import Look

REFRESH = 0.2  # seconds
_BAR = 20  # cells
_FULL, _EMPTY = "█", "░"
_LEAST = 20  # characters for a holder
_MARGIN = 2  # lines that stay free: the heading's, and the cursor's


class View:
    """Draws on stdout. The cursor stays below the view: whatever ends the program leaves a whole screen."""

    def __init__(self, *, everywhere: bool) -> None:
        self._everywhere = everywhere
        self._drawn = 0
        self._colours = words.colourful(sys.stdout)
        self._cells = (_FULL, _EMPTY) if words.encodable(_FULL + _EMPTY) else ("#", "-")

    def draw(self, lines: Sequence[str], looks: Sequence[Look], trouble: str = "") -> None:
        """First what happened, which stays; then all locks."""
        size = shutil.get_terminal_size()
        frame = self._frame(looks, size.columns, size.lines - _MARGIN - bool(trouble))
        frame += [words.printable(trouble)[: size.columns - 1]] if trouble else []
        up = f"\x1b[{self._drawn}A" if self._drawn else ""
        text = "".join(f"{line}\n" for line in [*lines, *frame])
        sys.stdout.write(f"{up}\r\x1b[J{text}")
        sys.stdout.flush()
        self._drawn = len(frame)

    def _frame(self, looks: Sequence[Look], columns: int, most: int) -> list[str]:
        shown = looks if len(looks) <= most else looks[: max(0, most - 1)]
        where = [words.printable(look.seen.path or self._where(look)) for look in shown]
        holders = [self._holder(look) for look in shown]
        first = max([len("LOCK"), *map(len, where)])
        names = [len(holder) for look, holder in zip(shown, holders, strict=True) if not look.seen.fault]
        second = max(_LEAST, min(max([0, *names]), columns - first - _BAR - 24))
        lines = [self._line("LOCK", "HOLDER", " " * _BAR, "LEFT", "LED", first, second)[: columns - 1]]
        for look, place, holder in zip(shown, where, holders, strict=True):
            led = words.ago(look.seen.record.acquired, look.wall) if look.seen.record.holder else ""
            line = self._line(place, holder, self._bar(look), self._left(look), led, first, second)[: columns - 1]
            lines.append(words.coloured(line, look.state) if self._colours else line)
        if len(shown) < len(looks):
            lines.append(f"and {len(looks) - len(shown)} more")
        return lines

    def _where(self, look: Look) -> str:
        return f"{look.seen.namespace}/{look.seen.name}" if self._everywhere else look.seen.name

    @staticmethod
    def _line(  # noqa: PLR0913, PLR0917 - the columns
        place: str, holder: str, bar: str, left: str, led: str, first: int, second: int
    ) -> str:
        cut = holder if len(holder) <= second else f"{holder[: second - 1]}~"
        return f"{place:{first}}  {cut:{second}}  {bar}  {left:>7}  {led:>7}".rstrip()

    @staticmethod
    def _holder(look: Look) -> str:
        if look.state is State.HELD:
            return words.printable(called(look.seen.record.holder))
        who = called(look.seen.record.holder) or look.seen.fault
        return f"{look.state.value}: {words.printable(who)}".removesuffix(": ")

    def _bar(self, look: Look) -> str:
        full, empty = self._cells
        if look.left is None:
            return (full if look.state is State.HELD else empty) * _BAR
        part = look.left / max(1, look.seen.record.duration)
        count = max(0, min(_BAR, round(part * _BAR)))
        return full * count + empty * (_BAR - count)

    @staticmethod
    def _left(look: Look) -> str:
        if look.left is None:
            return "for life" if look.state is State.HELD else ""
        return f"{max(0.0, look.left):.1f}s" if look.left > 0 else "0s"
