"""What is told of a Status, at an instant that may be long after it: its deadlines are instants, so it still holds."""

from __future__ import annotations

import json
import math
import time
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from kleader.link.messages import Status

TOLERANCE = 20.0  # seconds past the lease's end, as kube-controller-manager gives its LeaderHealthzAdaptor
_BUSY = {"leader", "stopping", "sweeping"}  # roles in which something of a term may be alive


class Answer(NamedTuple):
    """Of an HTTP request."""

    status: int
    content: str  # its type
    body: bytes


def plain(status: int, text: str) -> Answer:
    """A line for people."""
    return Answer(status, "text/plain; charset=utf-8", f"{text}\n".encode())


def healthz(told: Status, lease_duration: float, now: float) -> Answer:
    """client-go's HealthzAdaptor: a leader that could not renew should have ended by now, and has not.

    A standby is healthy, and who holds what does not expire.
    """
    if told.role in _BUSY and now - told.renewed > lease_duration + TOLERANCE:
        return plain(503, f"failed election to renew leadership on lease {told.name}")
    return plain(200, "ok")


def readyz(told: Status) -> Answer:
    """Whether the lock has been read: it does not follow leadership, or a rolling update would never end."""
    return plain(200, "ok") if told.read else plain(503, "the lock has not been read yet")


def leader(told: Status, now: float) -> Answer:
    """As contrib's leader-elector had it, and who is asked."""
    leading = leads(told, now)
    expired = told.leader == told.identity and not holds(told, now)
    about = {
        "name": "" if expired else told.leader,
        "identity": told.identity,
        "role": told.role,
        "leading": leading,
        "token": told.token if leading else None,
        "secondsLeft": _finite(max(0.0, told.kill_at - now)) if leading else None,
    }
    return Answer(200, "application/json", json.dumps(about).encode() + b"\n")


def holds(told: Status, now: float) -> bool:
    """Whether the lock is held, for all that the supervisor may have done since."""
    return told.held and now < told.kill_at


def leads(told: Status, now: float) -> bool:
    """Whether the command runs, likewise."""
    return told.leads and now < told.kill_at


def state(told: Status, now: float) -> dict[str, Any]:
    """For the state file. Each deadline by two clocks: the machine's since boot decides, the other is for people."""
    wall = time.time()

    def instant(at: float) -> dict[str, Any] | None:
        if not told.held or math.isinf(at):
            return None
        return {"boot": at, "time": _written(wall + at - now)}

    return {
        "role": told.role,
        "leading": leads(told, now),
        "identity": told.identity,
        "leader": told.leader,
        "lock": told.lock,
        "namespace": told.namespace,
        "name": told.name,
        "token": told.token if told.held else None,
        "transitions": told.transitions if told.held else None,
        "renewed": instant(told.renewed),
        "stopAt": instant(told.stop_at),
        "killAt": instant(told.kill_at),
        "pid": told.pid or None,
    }


def _finite(value: float) -> float | None:
    return None if math.isinf(value) else round(value, 3)


def _written(wall: float) -> str:
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(wall))}.{int(wall % 1 * 1e6):06d}Z"
