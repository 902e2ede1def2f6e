"""How instants, durations and names are written for people: as kubectl writes them."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from kleader.election.record import SECOND, micro_time
from kleader.watching.seen import Look, State

if TYPE_CHECKING:
    from typing import TextIO

NONE, UNKNOWN = "<none>", "<unknown>"
_MINUTE, _HOUR, _DAY, _YEAR = 60, 3600, 86400, 365 * 86400
_COLOURS = {State.FREE: "33", State.HELD: "32", State.OVERDUE: "31", State.EXPIRED: "31", State.MALFORMED: "1;31"}


def human(seconds: float) -> str:
    """As kubectl shows ages: k8s.io/apimachinery's duration.HumanDuration."""
    whole = max(0, int(seconds))
    if whole < 2 * _MINUTE:
        return f"{whole}s"
    for unit, one, part, other, both, most in (
        (_MINUTE, "m", 1, "s", 10, 180),
        (_HOUR, "h", _MINUTE, "m", 8, 48),
        (_DAY, "d", _HOUR, "h", 8, 2 * 365),
    ):
        count, rest = divmod(whole, unit)
        if count < both and rest // part:
            return f"{count}{one}{rest // part}{other}"
        if count < most:
            return f"{count}{one}"
    years, rest = divmod(whole, _YEAR)
    days = rest // _DAY
    return f"{years}y{days}d" if years < 8 and days else f"{years}y"  # noqa: PLR2004 - kubectl's


def moment(wall: int) -> str:
    """To the millisecond, as in logs."""
    return f"{micro_time(wall)[:-4]}Z"


def ago(instant: int | None, wall: int) -> str:
    """How long since."""
    return UNKNOWN if instant is None else human((wall - instant) / SECOND)


def expires(look: Look) -> str:
    """When the lock expires, or when it did as far as can be told."""
    if look.left is None:
        held = look.state in {State.HELD, State.OVERDUE} and not look.seen.lasting
        return UNKNOWN if held or look.state is State.MALFORMED else NONE
    return f"in {human(look.left)}" if look.left > 0 else f"{human(-look.left)} ago"


def printable(said: str) -> str:
    """No control characters: what somebody wrote into a lock must not move a terminal's cursor."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in said)


def colourful(stream: TextIO) -> bool:
    """Whether a stream takes colours: a terminal that can, and nobody who objects (https://no-color.org)."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def coloured(said: str, state: State) -> str:
    """In the colour of a state."""
    return f"\x1b[{_COLOURS[state]}m{said}\x1b[0m"


def encodable(said: str, stream: TextIO = sys.stdout) -> bool:
    """Whether a stream can show it."""
    try:
        said.encode(stream.encoding or "ascii")
    except UnicodeEncodeError:
        return False
    return True
