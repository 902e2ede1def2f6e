"""HTTP responses from the supervisor's last status, which may be old: its deadlines are instants, and still hold."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from kleader.ipc.messages import Status

TOLERANCE = 20.0  # seconds after the lease's end, as kube-controller-manager gives its LeaderHealthzAdaptor
_LEADING_ROLES = {"leader", "stopping", "sweeping"}  # in which processes of a term may be alive


class HttpResponse(NamedTuple):
    """Status code, content type and body."""

    status: int
    content_type: str
    body: bytes


def plain_text(status: int, line: str) -> HttpResponse:
    """One line for people."""
    return HttpResponse(status, "text/plain; charset=utf-8", f"{line}\n".encode())


def healthz(status: Status, lease_duration: float, now: float) -> HttpResponse:
    """503 for a leader whose lease ran out TOLERANCE seconds ago, as client-go's HealthzAdaptor, or without an elector.

    A standby is healthy, and so is the holder of a lock that does not expire.
    """
    if status.role in _LEADING_ROLES and now - status.renewed > lease_duration + TOLERANCE:
        return plain_text(503, f"failed election to renew leadership on lease {status.name}")
    return _without_elector(status, lease_duration, now) or plain_text(200, "ok")


def readyz(status: Status, lease_duration: float, now: float) -> HttpResponse:
    """200 once the lock has been read. It does not follow leadership, or a rolling update would never end."""
    if not status.read:
        return plain_text(503, "the lock has not been read yet")
    return _without_elector(status, lease_duration, now) or plain_text(200, "ok")


def leader(status: Status, now: float) -> HttpResponse:
    """The leader's name, as contrib's leader-elector gave it, and what this candidate is."""
    leads = is_leading(status, now)
    is_over = status.leader == status.identity and not holds_lock(status, now)
    seconds_left = None if not leads or math.isinf(status.kill_at) else round(max(0.0, status.kill_at - now), 3)
    about = {
        "name": "" if is_over else status.leader,
        "identity": status.identity,
        "role": status.role,
        "leading": leads,
        "token": status.token if leads else None,
        "secondsLeft": seconds_left,
    }
    return HttpResponse(200, "application/json", json.dumps(about).encode() + b"\n")


def holds_lock(status: Status, now: float) -> bool:
    """Whether the lock is held, even if the supervisor has been stopped since it said so."""
    return status.held and now < status.kill_at


def is_leading(status: Status, now: float) -> bool:
    """Whether the command runs, even if the supervisor has been stopped since it said so."""
    return status.leads and now < status.kill_at


def _without_elector(status: Status, lease_duration: float, now: float) -> HttpResponse | None:
    """503 where no elector competes for the lock or renews it; one that hangs is replaced long before."""
    if now - status.silent_since <= lease_duration + TOLERANCE:
        return None
    return plain_text(503, f"the elector of lease {status.name} sends no heartbeats, and none has come in its place")
