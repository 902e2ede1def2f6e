"""A request to a leader: it is left on the lock object, and names the one term that it is for."""

from __future__ import annotations

import json
from typing import NamedTuple

from kleader.election.record import MAX_HOLDER_CHARS, UNKNOWN


class Request(NamedTuple):
    """End this term in good order. ``to``: and name this candidate as the next holder; "": leave the lock free."""

    holder: str
    incarnation: str
    to: str = ""


def to_text(request: Request) -> str:
    """The JSON object that is left on the lock."""
    fields = {
        "action": "transfer" if request.to else "resign",
        "holder": request.holder,
        "incarnation": request.incarnation,
    }
    return json.dumps(fields | ({"to": request.to} if request.to else {}), separators=(",", ":"))


def from_text(text: object) -> Request | None:
    """The same; None for everything that is not such a request beyond doubt."""
    try:
        found = json.loads(text) if isinstance(text, str) else None
    except (ValueError, RecursionError):
        return None
    if not isinstance(found, dict):
        return None
    values = [found.get(key) for key in ("holder", "incarnation", "to")]
    action, (holder, incarnation, to) = found.get("action"), values
    if not isinstance(holder, str) or not isinstance(incarnation, str) or not incarnation:
        return None
    if action == "resign" and to is None:
        return Request(holder, incarnation)
    if action == "transfer" and isinstance(to, str) and can_lead(to):
        return Request(holder, incarnation, to)
    return None


def can_lead(identity: str) -> bool:
    """Whether a leader may write this identity as the next holder."""
    return bool(identity.strip()) and len(identity) <= MAX_HOLDER_CHARS and identity != UNKNOWN
