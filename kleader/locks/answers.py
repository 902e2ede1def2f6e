"""What an API server's answers, and its silence, mean for a lock: a Kind, and one line with the mend."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import re
import socket
import ssl
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any, NamedTuple

import h11

from kleader.election.duration import text
from kleader.election.events import Kind
from kleader.locks.base import LockError

if TYPE_CHECKING:
    from kleader.locks.http import Answer

UNAUTHORIZED = 401
_FORBIDDEN, _NOT_FOUND, _CONFLICT, _TOO_LARGE, _INVALID, _THROTTLED = 403, 404, 409, 413, 422, 429
_BAD_REQUEST, _SERVER_ERROR = 400, 500
_LONGEST_PAUSE = 3600.0  # seconds that a Retry-After may ask for
_LONGEST_SAID = 300  # characters
_DATE = re.compile(r"\w{3}, (\d\d) (\w{3}) (\d{4}) (\d\d):(\d\d):(\d\d) GMT", re.ASCII)
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_REFUSED = os.strerror(errno.ECONNREFUSED)


class ForbiddenError(LockError):
    """A permission is missing."""

    def __init__(self, message: str) -> None:
        super().__init__(Kind.DENIED, message)


class Server(NamedTuple):
    """Whom it is about, for people."""

    name: str  # "the API server https://…", or as much of it as is known
    address: str  # where that was found, and can be corrected
    source: str  # where our user and the server's certificate authority were found
    proxy: str = ""  # the HTTP proxy on the way

    @property
    def elsewhere(self) -> str:
        """The mend where this may be no API server at all."""
        return f"check what answers there, and the address in {self.address}"


class Skew(NamedTuple):
    """By how many seconds the API server's clock is ahead of this machine's wall clock, give or take ``error``."""

    seconds: float
    error: float


def json_object(body: bytes) -> dict[str, Any] | None:
    """The JSON object in a body; None where there is none."""
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def refusal(answer: Answer, target: str, server: Server) -> LockError:
    """Why ``target`` was not answered with a 200 or a 201."""
    found, status = json_object(answer.body) or {}, answer.status
    said = message(found) or _plain(answer) or str(status)
    if status == UNAUTHORIZED:
        reason = f"{server.name} does not accept our credentials ({said}): check the user in {server.source}"
        return LockError(Kind.DENIED, reason)
    if status == _THROTTLED:
        pause = _seconds(answer.headers.get("retry-after"))
        mend = f"it asks for a pause of {text(pause)}; a FlowSchema can put elections first"
        return LockError(Kind.THROTTLED, f"{server.name} is too busy ({said}): {mend}", pause)
    if found.get("kind") == "Status":
        return _status(status, found, said, target, server)
    if status == _NOT_FOUND:
        return _not_served(said, target, server)
    if status == _FORBIDDEN:
        return LockError(Kind.DENIED, f"{server.name} forbids it ({said}): {server.elsewhere}")
    kind = Kind.REFUSED if _BAD_REQUEST <= status < _SERVER_ERROR else Kind.UNREACHABLE
    more = f" ({said})" if said != str(status) else ""
    return LockError(kind, f"{server.name} answered {status}{more}, not as Kubernetes does: {server.elsewhere}")


def unreadable(what: str, server: Server) -> LockError:
    """What was answered is not what was asked for."""
    return LockError(Kind.UNREACHABLE, f"{server.name} answered {what}: {server.elsewhere}")


def none(error: Exception, timeout: float, server: Server) -> str:
    """There was no answer, or no whole one."""
    if isinstance(error, asyncio.TimeoutError) and not getattr(error, "errno", None):  # the kernel has one too
        return f"{_on_the_way(server)} did not answer within {text(timeout)}: {_network(server)}"
    if isinstance(error, ssl.SSLCertVerificationError):
        return (
            f"the certificate of {server.name} is not accepted: {error.verify_message};"
            f" renew it, or correct the certificate authority in {server.source}"
        )
    detail, mend = _detail(error), _network(server)
    if isinstance(error, socket.gaierror):
        mend = f"check this machine's DNS, and the address in {server.address}"
    elif detail == _REFUSED:
        mend = f"check that it runs, and the address in {server.address}"
    elif isinstance(error, (ssl.SSLError, h11.ProtocolError)):
        mend = server.elsewhere
    return f"cannot reach {_on_the_way(server)}: {detail}; {mend}"


def message(found: dict[str, Any]) -> str:
    """The sentence in a Status object, cut to a line; "" where there is none."""
    said = found.get("message")
    return _line(said) if isinstance(said, str) else ""


def skew(date: str, sent: float, received: float) -> Skew | None:
    """From the Date of an answer, which says whole seconds (RFC 9110, IMF-fixdate), and when this clock saw it pass."""
    found = _DATE.fullmatch(date)
    if not found or found[2] not in _MONTHS:
        return None
    day, year, hour, minute, second = (int(found[i]) for i in (1, 3, 4, 5, 6))
    try:
        at = datetime(year, _MONTHS.index(found[2]) + 1, day, hour, minute, second, tzinfo=timezone.utc).timestamp()
    except ValueError:
        return None
    least, most = at - received, at + 1 - sent
    return Skew((least + most) / 2, (most - least) / 2)


# --- what a Status says


def _status(status: int, found: dict[str, Any], said: str, target: str, server: Server) -> LockError:
    causes = _causes(found)
    if status == _NOT_FOUND:
        return _not_found(found, said, target, server)
    if status == _CONFLICT or (status == _INVALID and _exists(causes)):
        return LockError(Kind.CONFLICT, said)
    if status == _FORBIDDEN:
        return _forbidden(causes, said, server)
    if _full(status, causes, said):
        mend = "remove something from it, or give another --name"
        return LockError(Kind.REFUSED, f"the lock's object is full ({said}): {mend}")
    if _BAD_REQUEST <= status < _SERVER_ERROR:
        return LockError(Kind.REFUSED, f"{server.name} refuses the request: {said}; check -n, --name and --lock-label")
    mend = "check its health with kubectl get --raw '/readyz?verbose'"
    return LockError(Kind.UNREACHABLE, f"{server.name} answered {status}: {said}; {mend}")


def _causes(found: dict[str, Any]) -> list[dict[str, Any]]:
    causes = _details(found).get("causes")
    return [each for each in causes if isinstance(each, dict)] if isinstance(causes, list) else []


def _details(found: dict[str, Any]) -> dict[str, Any]:
    details = found.get("details")
    return details if isinstance(details, dict) else {}


def _not_found(found: dict[str, Any], said: str, target: str, server: Server) -> LockError:
    details = _details(found)
    name = details.get("name")
    if not name:  # the API server says so of what it does not serve, and not of an object
        return _not_served(said, target, server)
    if details.get("kind") == "namespaces":
        mend = f"kubectl create namespace {name}, or give -n"
        return LockError(Kind.REFUSED, f"the namespace {name} does not exist: {mend}")
    return LockError(Kind.MISSING, said)


def _not_served(said: str, target: str, server: Server) -> LockError:
    """A 404 that is no word on an object."""
    group, _, rest = target.partition("?")[0].partition("/namespaces/")
    resource = f"{rest.split('/')[1]} of {group.split('/', 2)[-1]}" if "/" in rest else target
    return LockError(Kind.REFUSED, f"{server.name} serves no {resource} ({said}): {server.elsewhere}")


def _exists(causes: list[dict[str, Any]]) -> bool:
    """A create by PUT that met an object: Leases cannot be overwritten without naming a version."""
    return any(each.get("field") == "metadata.resourceVersion" for each in causes)


def _forbidden(causes: list[dict[str, Any]], said: str, server: Server) -> LockError:
    if any(each.get("reason") == "NamespaceTerminating" for each in causes):
        return LockError(Kind.REFUSED, f"the namespace is being deleted: {said}; give another by -n")
    if "exceeded quota" in said:
        return LockError(Kind.REFUSED, f"{said}: raise that ResourceQuota, or give another namespace by -n")
    if "denied the request" in said or "denied request" in said:  # as webhooks and policies are quoted
        return LockError(Kind.REFUSED, f"{said}: let that admission policy admit it, or give another namespace by -n")
    if '"system:anonymous"' in said:
        return ForbiddenError(f"{said}: we sent no credentials, check the user in {server.source}")
    return ForbiddenError(f"{said}: grant it in a Role, and bind that to this user or service account")


def _full(status: int, causes: list[dict[str, Any]], said: str) -> bool:
    """Too long for the API server (413), for its validation (422), or for etcd (500)."""
    too_long = any(each.get("reason") == "FieldValueTooLong" for each in causes)
    return status == _TOO_LARGE or (status == _INVALID and too_long) or "request is too large" in said


def _seconds(retry_after: str | None) -> float:
    return min(float(retry_after), _LONGEST_PAUSE) if retry_after and retry_after.isdecimal() else 1.0


# --- words


def _plain(answer: Answer) -> str:
    """What a server, or somebody before it, says in plain text; "" where it is a page.

    Go's server names no type where it is spoken to without TLS.
    """
    if not answer.headers.get("content-type", "text/plain").startswith("text/plain"):
        return ""
    return _line(answer.body[: 4 * _LONGEST_SAID].decode(errors="replace"))


def _line(said: str) -> str:
    return " ".join(said.split())[:_LONGEST_SAID]


def _on_the_way(server: Server) -> str:
    return f"{server.name} through the proxy {server.proxy}" if server.proxy else server.name


def _network(server: Server) -> str:
    return f"check the network to it, and the address in {server.address}"


def _detail(error: Exception) -> str:
    """The system's own sentence: asyncio writes others, and one for all addresses of a name."""
    if isinstance(error, h11.ProtocolError):
        return f"its answer is not HTTP as it should be: {_line(str(error))}"
    if isinstance(error, OSError) and error.errno and not isinstance(error, (ssl.SSLError, socket.gaierror)):
        return os.strerror(error.errno)
    several = dict.fromkeys(re.findall(r"\[Errno (\d+)\]", str(error)))
    if several:
        return ", ".join(os.strerror(int(each)) for each in several)
    return getattr(error, "strerror", None) or str(error) or type(error).__name__
