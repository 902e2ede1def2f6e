"""What a response of an API server, or none, means: an error of a Kind, with one sentence and a hint what to do."""

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
from kleader.kube.errors import ForbiddenError, LockError
from kleader.kube.metadata import string_map, string_maps

if TYPE_CHECKING:
    from collections.abc import Callable

    from kleader.kube.connection import Response

UNAUTHORIZED = 401
_BAD_REQUEST, _FORBIDDEN, _NOT_FOUND, _CONFLICT, _TOO_LARGE, _INVALID = 400, 403, 404, 409, 413, 422
_THROTTLED, _SERVER_ERROR = 429, 500
_MAX_RETRY_AFTER_SECONDS = 3600.0
_MAX_MESSAGE_LENGTH = 300
_DATE = re.compile(r"\w{3}, (\d\d) (\w{3}) (\d{4}) (\d\d):(\d\d):(\d\d) GMT", re.ASCII)
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_WARNING = re.compile(r'(?:^|,)\s*299 [^ "]+ "((?:[^"\\]|\\.)*)"')
_ESCAPED = re.compile(r"\\(.)")
_MAX_WARNINGS = 20  # of one process: an admission webhook may word each one differently
_CONNECTION_REFUSED = os.strerror(errno.ECONNREFUSED)


class Server(NamedTuple):
    """An API server, as messages name it."""

    name: str  # "the API server https://…", as far as it is known
    address: str  # the setting that has its address
    source: str  # the setting that has our user and the server's certificate authority
    proxy: str = ""  # the address of the HTTP proxy

    @property
    def hint(self) -> str:
        """What to do if this is no API server at all."""
        return f"check what answers there, and the address in {self.address}"


class ClockSkew(NamedTuple):
    """By how many seconds the API server's clock is ahead of this machine's wall clock, plus or minus ``error``."""

    seconds: float
    error: float


def json_object(body: bytes) -> dict[str, Any] | None:
    """The JSON object in a body; None if there is none."""
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def error_of(response: Response, target: str, server: Server) -> LockError:
    """The error that a response other than 200 and 201 to a request for ``target`` means.

    Retry-After counts on a 429 and on every 5xx, as in client-go.
    """
    error = _error_of(response, target, server)
    if response.status >= _SERVER_ERROR:
        error.failure = error.failure._replace(retry_after=_retry_after(response, default=0.0))
    return error


def unreadable(what: str, server: Server) -> LockError:
    """The error for a response that is not what was requested."""
    return LockError(Kind.UNREACHABLE, f"{server.name} answered with {what}: {server.hint}")


def no_response(error: Exception, timeout: float, server: Server) -> str:
    """The sentence for a request without a complete response, after ``timeout`` seconds at most."""
    peer = f"{server.name} through the proxy {server.proxy}" if server.proxy else server.name
    hint = f"check the network to it, and the address in {server.address}"
    if isinstance(error, asyncio.TimeoutError) and not getattr(error, "errno", None):  # the kernel has ETIMEDOUT
        return f"{peer} did not answer within {text(timeout)}: {hint}"
    if isinstance(error, ssl.SSLCertVerificationError):
        return (
            f"the certificate of {server.name} is not accepted: {error.verify_message};"
            f" renew it, or correct the certificate authority in {server.source}"
        )
    reason = _reason(error)
    if isinstance(error, socket.gaierror):
        hint = f"check this machine's DNS, and the address in {server.address}"
    elif reason == _CONNECTION_REFUSED:
        hint = f"check that it runs, and the address in {server.address}"
    elif isinstance(error, (ssl.SSLError, h11.ProtocolError)):
        hint = server.hint
    return f"cannot reach {peer}: {reason}; {hint}"


def status_message(status: dict[str, Any]) -> str:
    """The message of a Status object (meta/v1) as one short line; "" if it has none."""
    message = status.get("message")
    return _line(message) if isinstance(message, str) else ""


def http_date(date: str) -> float | None:
    """Seconds since the epoch of a Date header (whole seconds; RFC 9110, IMF-fixdate); None if it is invalid."""
    found = _DATE.fullmatch(date)
    if not found or found[2] not in _MONTHS:
        return None
    day, year, hour, minute, second = (int(found[i]) for i in (1, 3, 4, 5, 6))
    try:
        return datetime(year, _MONTHS.index(found[2]) + 1, day, hour, minute, second, tzinfo=timezone.utc).timestamp()
    except ValueError:
        return None


def clock_skew(date: str, sent: float, received: float) -> ClockSkew | None:
    """The skew by the Date of a response; None if the date is invalid.

    ``sent`` and ``received`` are this machine's wall clock in seconds, before the request and after its response.
    """
    at = http_date(date)
    if at is None:
        return None
    least, most = at - received, at + 1 - sent
    return ClockSkew((least + most) / 2, (most - least) / 2)


class ServerWarnings:
    """Passes each new warning of an API server (``Warning: 299``) to ``warn``, as client-go's warning handler does."""

    def __init__(self, warn: Callable[[str], None]) -> None:
        self._warn = warn
        self._known: set[str] = set()

    def read(self, header: str) -> None:
        """Read a ``Warning`` header, which may hold several warnings."""
        for quoted in _WARNING.findall(header):
            warning = _line(_ESCAPED.sub(r"\1", quoted).encode("latin-1", "replace").decode(errors="replace"))
            if warning and warning not in self._known and len(self._known) < _MAX_WARNINGS:
                self._known.add(warning)
                self._warn(f"the API server warns: {warning}")


# --- by status


def _error_of(response: Response, target: str, server: Server) -> LockError:
    body, status = json_object(response.body) or {}, response.status
    message = status_message(body) or _plain_text(response) or str(status)
    if status == UNAUTHORIZED:
        hint = f"check the user in {server.source}"
        return LockError(Kind.DENIED, f"{server.name} does not accept kleader's credentials ({message}): {hint}")
    if status == _THROTTLED:
        pause = _retry_after(response, default=1.0)
        hint = f"it asks for a pause of {text(pause)}; a FlowSchema can put elections first"
        return LockError(Kind.THROTTLED, f"{server.name} is too busy ({message}): {hint}", pause)
    if body.get("kind") == "Status":
        return _status_error(status, body, message, target, server)
    if status == _NOT_FOUND:
        return _not_served(message, target, server)
    if status == _FORBIDDEN:
        return LockError(Kind.DENIED, f"{server.name} forbids the request ({message}): {server.hint}")
    kind = Kind.REFUSED if _BAD_REQUEST <= status < _SERVER_ERROR else Kind.UNREACHABLE
    quoted = f" ({message})" if message != str(status) else ""
    return LockError(kind, f"{server.name} answered {status}{quoted}, not as Kubernetes does: {server.hint}")


def _status_error(status: int, body: dict[str, Any], message: str, target: str, server: Server) -> LockError:
    details = string_map(body.get("details"))
    causes = string_maps(details.get("causes"))
    reasons = {str(cause.get("reason")) for cause in causes}
    # A creation by PUT that meets an object is a 422: a Lease is not overwritten without a resourceVersion.
    exists = any(cause.get("field") == "metadata.resourceVersion" for cause in causes)
    if status == _NOT_FOUND:
        return _not_found(details, message, target, server)
    if status == _CONFLICT or (status == _INVALID and exists):
        return LockError(Kind.CONFLICT, message)
    if status == _FORBIDDEN:
        return _forbidden(reasons, message, server)
    too_long = status == _TOO_LARGE or (status == _INVALID and "FieldValueTooLong" in reasons)
    if too_long or "request is too large" in message:  # etcd's, a 500
        hint = "remove something from it, or give another --name"
        return LockError(Kind.REFUSED, f"the lock's object is full ({message}): {hint}")
    if _BAD_REQUEST <= status < _SERVER_ERROR:
        hint = "check -n, --name and --lock-label"
        return LockError(Kind.REFUSED, f"{server.name} refuses the request: {message}; {hint}")
    hint = "check its health with kubectl get --raw '/readyz?verbose'"
    return LockError(Kind.UNREACHABLE, f"{server.name} answered {status}: {message}; {hint}")


def _not_found(details: dict[str, Any], message: str, target: str, server: Server) -> LockError:
    name = details.get("name")
    if not name:  # only an API that is not served has no name here
        return _not_served(message, target, server)
    if details.get("kind") == "namespaces":
        hint = f"kubectl create namespace {name}, or give -n"
        return LockError(Kind.REFUSED, f"the namespace {name} does not exist: {hint}")
    return LockError(Kind.MISSING, message)


def _not_served(message: str, target: str, server: Server) -> LockError:
    group, _, rest = target.partition("?")[0].partition("/namespaces/")
    resource = f"{rest.split('/')[1]} of {group.split('/', 2)[-1]}" if "/" in rest else target
    return LockError(Kind.REFUSED, f"{server.name} serves no {resource} ({message}): {server.hint}")


def _forbidden(reasons: set[str], message: str, server: Server) -> LockError:
    if "NamespaceTerminating" in reasons:
        return LockError(Kind.REFUSED, f"the namespace is being deleted: {message}; give another by -n")
    if "exceeded quota" in message:
        return LockError(Kind.REFUSED, f"{message}: raise that ResourceQuota, or give another namespace by -n")
    if "denied the request" in message or "denied request" in message:  # as webhooks and policies are quoted
        return LockError(
            Kind.REFUSED, f"{message}: let that admission policy admit it, or give another namespace by -n"
        )
    if '"system:anonymous"' in message:
        return ForbiddenError(f"{message}: kleader sent no credentials; check the user in {server.source}")
    return ForbiddenError(f"{message}: grant it in a Role, and bind that to this user or service account")


def _retry_after(response: Response, *, default: float) -> float:
    seconds = response.headers.get("retry-after")
    return min(float(seconds), _MAX_RETRY_AFTER_SECONDS) if seconds and seconds.isdecimal() else default


# --- sentences


def _plain_text(response: Response) -> str:
    """The body as one line if it is plain text; Go's server names no type to a client without TLS."""
    if not response.headers.get("content-type", "text/plain").startswith("text/plain"):
        return ""
    return _line(response.body[: 4 * _MAX_MESSAGE_LENGTH].decode(errors="replace"))


def _line(message: str) -> str:
    return " ".join(message.split())[:_MAX_MESSAGE_LENGTH]


def _reason(error: Exception) -> str:
    """The system's sentence. asyncio words errors of its own, and one for all addresses of a name."""
    if isinstance(error, h11.ProtocolError):
        return f"its answer is not valid HTTP: {_line(str(error))}"
    if isinstance(error, OSError) and error.errno and not isinstance(error, (ssl.SSLError, socket.gaierror)):
        return os.strerror(error.errno)
    numbers = dict.fromkeys(re.findall(r"\[Errno (\d+)\]", str(error)))
    if numbers:
        return ", ".join(os.strerror(int(number)) for number in numbers)
    return getattr(error, "strerror", None) or str(error) or type(error).__name__
