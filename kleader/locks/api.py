"""The road to the Kubernetes API: bounded calls, no hidden retries, statuses turned into what they mean for a lock."""

from __future__ import annotations

import asyncio
import json
import os
import ssl
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

import h11

from kleader.election.duration import text
from kleader.election.events import Kind
from kleader.locks.base import LockError, SetUpError, WatchError
from kleader.locks.http import Answer, Connection

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from kleader.locks.credentials import Credentials

_HANDSHAKE = 5.0  # seconds for a connection that nobody waits for
SILENCE = 300.0  # seconds without a byte, bookmarks included, after which a watch is taken for dead
_LONGEST_PAUSE = 3600.0  # seconds that a Retry-After may ask for
_BROKEN = (OSError, h11.ProtocolError, ValueError)  # ssl.SSLError is an OSError; names that cannot be are ValueErrors
_CREATED = 201
_OK, _BAD_REQUEST, _SERVER_ERROR = 200, 400, 500
_UNAUTHORIZED, _FORBIDDEN, _NOT_FOUND, _CONFLICT, _INVALID, _THROTTLED = 401, 403, 404, 409, 422, 429


class Api:
    """Two connections to one API server: one for calls, one for the watch."""

    def __init__(self, credentials: Credentials) -> None:
        self.credentials = credentials
        self._calls: Connection | None = None
        self._opening = asyncio.Lock()
        self._watches = 0
        self._warmer: asyncio.Task[None] | None = None

    async def call(self, method: str, target: str, body: dict[str, Any] | None, timeout: float) -> dict[str, Any]:
        """The object that a 200 or 201 carries; everything else is a LockError. ``timeout`` bounds the whole call."""
        try:
            answer = await asyncio.wait_for(self._call(method, target, body), timeout)
        except asyncio.TimeoutError:
            raise LockError(Kind.UNREACHABLE, f"{self._where()} did not answer within {text(timeout)}") from None
        except _BROKEN as error:
            if isinstance(error, ssl.SSLCertVerificationError):
                self.credentials.refuse()  # its authority may have been replaced
            raise LockError(Kind.UNREACHABLE, self._sentence(error)) from None
        except SetUpError as error:
            raise LockError(Kind.DENIED, str(error)) from None
        return self._judge(answer)

    async def watch(self, target: str, timeout: float) -> AsyncGenerator[tuple[str, dict[str, Any]], None]:
        """Type and object of each watch event; a WatchError ends it. ``timeout`` bounds its beginning.

        Meanwhile a connection is kept ready for the next call: the server closes idle ones, and a handshake would delay
        a takeover.
        """
        connection: Connection | None = None
        begun = False
        self._watches += 1
        if self._warmer is None:
            self._warmer = asyncio.get_running_loop().create_task(self._keep_warm())
        try:
            connection, answer = opened = await asyncio.wait_for(self._watch(target), timeout)
            if answer.status != _OK:
                raise self._refused(answer)
            begun = True
            async with aclosing(opened[0].lines(SILENCE)) as lines:
                async for line in lines:
                    yield self._event(line)
        except asyncio.TimeoutError:
            msg = f"the watch at {self._where()} is silent"
            raise WatchError(msg, begun=begun) from None
        except _BROKEN as error:
            raise WatchError(self._sentence(error), begun=begun) from None
        except SetUpError as error:
            raise WatchError(str(error), begun=begun) from None
        finally:
            if connection is not None:
                connection.close()
            self._watches -= 1
            self._cool()

    def _cool(self) -> None:
        """At the end of the last watch: a new one may have begun before the one that it replaces ended."""
        if self._warmer is not None and not self._watches:
            self._warmer.cancel()
            self._warmer = None

    async def _call(self, method: str, target: str, body: dict[str, Any] | None) -> Answer:
        connection = await self._ready()
        if not connection.usable:  # by an earlier call that nobody waits for any more
            connection.close()
            connection = await self._ready()
        headers = [*self.credentials.headers(), ("Accept", "application/json")]
        data = b""
        if body is not None:
            headers.append(("Content-Type", "application/json"))
            data = json.dumps(body, separators=(",", ":")).encode()
        try:
            return await connection.call(method, target, headers, data)
        except BaseException:  # what came on it next would be the answer to this
            connection.close()
            raise

    async def _ready(self) -> Connection:
        """The connection for calls. One that is in use stays: who warms it must not end a call."""
        async with self._opening:
            endpoint = await self.credentials.refresh()
            present = self._calls
            if present and (present.closed.is_set() or (present.to is not endpoint and present.usable)):
                present.close()
                present = None
            if not present:
                present = self._calls = await Connection.open(endpoint)
            return present

    async def _watch(self, target: str) -> tuple[Connection, Answer]:
        """What the server refuses is read whole."""
        connection = await Connection.open(await self.credentials.refresh())
        try:
            answer = await connection.begin(target, [*self.credentials.headers(), ("Accept", "application/json")])
            return connection, answer if answer.status == _OK else answer._replace(body=await connection.rest())
        except BaseException:
            connection.close()
            raise

    async def _keep_warm(self) -> None:
        pause = 1.0
        while True:
            try:
                connection = await asyncio.wait_for(self._ready(), _HANDSHAKE)
                pause = 1.0
                await asyncio.wait_for(connection.closed.wait(), self.credentials.fresh_for)
            except (asyncio.TimeoutError, SetUpError, *_BROKEN):
                pause = min(60.0, pause * 2)
            await asyncio.sleep(pause)

    # --- what answers mean

    def _judge(self, answer: Answer) -> dict[str, Any]:
        status = answer.status
        found = _object(answer.body)
        if status in {_OK, _CREATED}:
            if found is None:
                raise LockError(Kind.UNREACHABLE, f"{self._where()} answered something that is no JSON object")
            return found
        said = _message(found, status)
        if status == _NOT_FOUND:
            if (found or {}).get("kind") != "Status":  # no word of an API server's on the lock
                raise LockError(
                    Kind.REFUSED, f"{self._where()} keeps no Leases ({status}): is it a Kubernetes API server?"
                )
            raise _not_found(found, said)
        if status == _CONFLICT or (status == _INVALID and _exists(found)):
            raise LockError(Kind.CONFLICT, said)
        if status == _UNAUTHORIZED:
            self.credentials.refuse()
            mend = "check the kubeconfig or the service account"
            raise LockError(Kind.DENIED, f"{self._where()} does not accept our credentials ({said}): {mend}")
        if status == _FORBIDDEN:
            raise _forbidden(found, said)
        if status == _THROTTLED:
            pause = _seconds(answer.headers.get("retry-after"))
            raise LockError(Kind.THROTTLED, f"{self._where()} is too busy: {said}", pause)
        if _BAD_REQUEST <= status < _SERVER_ERROR:
            raise LockError(Kind.REFUSED, f"{self._where()} refuses the request: {said}")
        raise LockError(Kind.UNREACHABLE, f"{self._where()} answered {status}: {said}")

    def _refused(self, answer: Answer) -> WatchError:
        said, status = _message(_object(answer.body), answer.status), answer.status
        if status == _UNAUTHORIZED:
            self.credentials.refuse()
        pause = _seconds(answer.headers.get("retry-after")) if status == _THROTTLED else 0.0
        reason = f"the watch was refused ({said})"
        return WatchError(reason, denied=status == _FORBIDDEN, begun=False, retry_after=pause)

    def _event(self, line: bytes) -> tuple[str, dict[str, Any]]:
        event = _object(line) or {}
        kind, found = event.get("type"), event.get("object")
        if not isinstance(kind, str) or not isinstance(found, dict):
            msg = f"{self._where()} sent something that is no watch event"
            raise WatchError(msg)
        if kind == "ERROR":
            raise WatchError(_message(found, 0))
        return kind, found

    def _where(self) -> str:
        return f"the API server {self.credentials.server}".rstrip()

    def _sentence(self, error: Exception) -> str:
        if isinstance(error, ssl.SSLCertVerificationError):
            return (
                f"the certificate of {self._where()} is not accepted: {error.verify_message};"
                " renew it, or correct certificate-authority in the kubeconfig"
            )
        if isinstance(error, OSError) and error.errno and error.errno > 0 and not isinstance(error, ssl.SSLError):
            detail = os.strerror(error.errno)  # asyncio writes sentences of its own
        else:
            detail = getattr(error, "strerror", None) or str(error) or type(error).__name__
            if isinstance(error, h11.ProtocolError):
                detail = f"its answer is not HTTP as it should be: {detail}"
        return f"cannot reach {self._where()}: {detail}"


def _object(body: bytes) -> dict[str, Any] | None:
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _message(found: dict[str, Any] | None, status: int) -> str:
    """The sentence in a Status object, cut to a line; else the number."""
    said = (found or {}).get("message")
    return " ".join(said.split())[:300] if isinstance(said, str) and said else f"status {status}"


def _causes(found: dict[str, Any] | None) -> list[dict[str, Any]]:
    details = (found or {}).get("details")
    causes = details.get("causes") if isinstance(details, dict) else None
    return [each for each in causes if isinstance(each, dict)] if isinstance(causes, list) else []


def _not_found(found: dict[str, Any] | None, said: str) -> LockError:
    details = (found or {}).get("details")
    if isinstance(details, dict) and details.get("kind") == "namespaces":
        name = details.get("name")
        mend = f"kubectl create namespace {name}, or give -n"
        return LockError(Kind.REFUSED, f"the namespace {name} does not exist: {mend}")
    return LockError(Kind.MISSING, said)


def _exists(found: dict[str, Any] | None) -> bool:
    """A create by PUT that met an object: Leases cannot be overwritten without naming a version."""
    return any(each.get("field") == "metadata.resourceVersion" for each in _causes(found))


def _forbidden(found: dict[str, Any] | None, said: str) -> LockError:
    if any(each.get("reason") == "NamespaceTerminating" for each in _causes(found)):
        return LockError(Kind.REFUSED, f"the namespace is being deleted: {said}")
    return LockError(Kind.DENIED, f"{said}: grant it in a Role, and bind that to this user or service account")


def _seconds(retry_after: str | None) -> float:
    return min(float(retry_after), _LONGEST_PAUSE) if retry_after and retry_after.isdecimal() else 1.0
