"""Whether a record says beyond doubt that nobody holds the lock: written anew, after encoding/json and RFC 8259."""

from __future__ import annotations

import json
from math import inf
from typing import Any, NoReturn

FIELDS = ("holderIdentity", "leaseDurationSeconds", "leaderTransitions")


def held_for(fields: list[tuple[str, Any]], *, any_case: bool = False) -> float:
    """Seconds for which nobody may take it: 0 where the holder is empty or missing, inf where nobody can tell.

    ``fields`` in the order in which they are written: the last one counts, and null changes nothing (encoding/json).
    """
    holder, duration, count = (_last(fields, name, any_case=any_case) for name in FIELDS)
    if isinstance(count, int) and abs(count) >= 2**63:
        return inf
    if holder in {None, ""}:
        return 0
    if isinstance(duration, str) and duration.isascii() and duration.isdecimal():  # the Python client's
        duration = int(duration) if len(duration) < 20 else None
    sound = isinstance(duration, int) and not isinstance(duration, bool) and duration > 0
    return duration if sound and holder != _NONE else inf


_NONE = object()  # no text


def _last(fields: list[tuple[str, Any]], name: str, *, any_case: bool) -> Any:  # noqa: ANN401
    found: Any = None
    for key, value in fields:
        if key == name or (any_case and key.lower() == name.lower()):
            found = found if value is None else value
            if name == FIELDS[0] and not isinstance(value, str | None):
                return _NONE
    return found


def annotation(text: str) -> float:
    """The same of an annotation's text."""
    try:
        found = json.loads(text, object_pairs_hook=tuple, parse_constant=_no_constant)
    except (ValueError, RecursionError):
        return inf
    if found is None:
        return 0
    return held_for(list(found), any_case=True) if isinstance(found, tuple) else inf


def _no_constant(name: str) -> NoReturn:
    raise ValueError(name)
