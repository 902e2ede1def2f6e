"""The picture of the README: medians as bars, an SVG that reads on a light and on a dark page."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING
from xml.sax.saxutils import escape

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

INK, OURS, OTHERS = "#6e7781", "#2f81f7", "#9a6700"  # each has a contrast of 3 or more to white and to #0d1117
PLANNED, CRASH = "planned handover", "takeover after a crash, past the end of the lease"  # rows of the README, too
_WIDTH, _LEFT, _RIGHT, _LINE, _BAR = 760, 110, 80, 22, 12  # pixels
_STEPS = (1, 2, 5)


def svg(groups: Mapping[str, Mapping[str, int]]) -> str:
    """Return the picture of titled groups of bars, each bar a name and its milliseconds, all to one scale from 0."""
    most = max((ms for bars in groups.values() for ms in bars.values()), default=1)
    scale = (_WIDTH - _LEFT - _RIGHT) / most
    drawn, top = [], 0
    for title, bars in groups.items():
        top += _LINE
        drawn.append(_text(0, top, title, weight="bold"))
        for name, ms in bars.items():
            top += _LINE
            width = max(1.0, ms * scale)
            colour = OURS if name == "kleader" else OTHERS
            drawn.append(_text(_LEFT - 10, top, name, anchor="end"))
            drawn.append(
                f'<rect x="{_LEFT}" y="{top - _BAR + 2}" width="{width:.1f}" height="{_BAR}" fill="{colour}"/>'
            )
            drawn.append(_text(_LEFT + width + 8, top, f"{ms:,} ms"))
        top += _LINE // 2
    inside = "\n".join([*_grid(most, scale, top), *drawn])
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{top + _LINE}"'
        f' font-family="sans-serif" font-size="13">\n{inside}\n</svg>\n'
    )


def write(path: Path, groups: Mapping[str, Mapping[str, float]]) -> None:
    """Write the picture of seconds to `path`, rounded to whole milliseconds as in the README's table."""
    path.write_text(svg({title: {name: round(s * 1e3) for name, s in bars.items()} for title, bars in groups.items()}))


def _grid(most: int, scale: float, bottom: int) -> Iterable[str]:
    step = next(each * 10**power for power in range(9) for each in _STEPS if most / (each * 10**power) <= 5)
    for ms in range(0, math.floor(most / step) * step + 1, step):
        x = _LEFT + ms * scale
        yield f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{_LINE}" y2="{bottom}" stroke="{INK}" stroke-opacity="0.3"/>'
        yield _text(x, bottom + 14, f"{ms:,} ms" if ms else "0", anchor="middle")


def _text(x: float, y: float, text: str, *, anchor: str = "start", weight: str = "normal") -> str:
    return f'<text x="{x:.1f}" y="{y}" fill="{INK}" text-anchor="{anchor}" font-weight="{weight}">{escape(text)}</text>'
