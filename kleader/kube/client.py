"""A client of one API server: calls that are bounded and sent once, and watches of one object."""

from __future__ import annotations

import asyncio
import json
import ssl
import time
import urllib.parse
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

import h11

from kleader import system
from kleader.backoff import Backoff
from kleader.election.events import Kind
from kleader.kube import responses
from kleader.kube.connection import MAX_RESPONSE_BYTES, Connection, Response
from kleader.kube.errors import ForbiddenError, LockError, SetUpError, WatchError
from kleader.kube.metadata import string_map
from kleader.kube.timeout import within

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from kleader.kube.credentials import Credentials

FIELD_MANAGER = "kleader"  # of every write; releases before sent only a User-Agent
JSON = "application/json"
MAX_SILENCE_SECONDS = 300.0  # a watch without a byte, bookmarks included, for so long is dead
_MERGE_PATCH = "application/merge-patch+json"
_BOOKMARK = "BOOKMARK"
_PREWARM_TIMEOUT = 5.0  # seconds
# ssl.SSLError is an OSError; asyncio.TimeoutError is one from Python 3.11 on; an invalid host name is a ValueError.
_NO_RESPONSE = (OSError, asyncio.TimeoutError, h11.ProtocolError, ValueError)
_OK, _CREATED, _GONE = 200, 201, 410


class _TooOldError(WatchError):
    """The API server does not remember the resourceVersion that the watch should begin at."""


class ApiClient:
    """Calls share one connection, one call at a time; each watch has a connection of its own.

    A ``shared`` client leaves the credentials valid after a 401, so that others with the same credentials never wait.
    """

    def __init__(self, credentials: Credentials, *, shared: bool = False) -> None:
        self.credentials = credentials
        self._shared = shared
        self._connection: Connection | None = None
        self._connecting = asyncio.Lock()
        self._watches = 0
        self._prewarming: asyncio.Task[None] | None = None
        self._last_date = ("", 0.0, 0.0)  # of the last response, and the wall clock before and after
        self._success_date = ("", 0.0)  # of the last response to a successful call, and CLOCK_BOOTTIME when it came

    @property
    def skew(self) -> responses.ClockSkew | None:
        """How far the API server's clock is from this machine's, by the last call; None if it is not known."""
        return responses.clock_skew(*self._last_date)

    @property
    def server_time(self) -> int | None:
        """Microseconds since the epoch by the API server's clock, to a second; None if it has not told.

        The time since its last answer is measured by CLOCK_BOOTTIME: this machine's wall clock has no part in it.
        """
        date, came_at = self._success_date
        at = responses.http_date(date)
        return None if at is None else round((at + system.clock() - came_at) * 1_000_000)

    async def call(  # noqa: PLR0913 - the last two are for lists
        self,
        method: str,
        target: str,
        body: dict[str, Any] | None,
        timeout: float,
        *,
        accept: str = JSON,
        max_bytes: int = MAX_RESPONSE_BYTES,
    ) -> dict[str, Any]:
        """The object of a 200 or 201; every other result is a LockError. ``timeout``: seconds for the whole call.

        ``accept``: the media type; ``max_bytes``: of the response. The API server gets the timeout too, so that it
        does no work after it, and the field manager, because a proxy may replace the User-Agent.
        """
        try:
            async with within(timeout):
                response = await self._call(
                    method, target + _parameters(method, target, timeout), body, accept, max_bytes
                )
        except _NO_RESPONSE as error:
            if isinstance(error, ssl.SSLCertVerificationError):
                self._invalidate_credentials()  # the authority may have been replaced
            raise LockError(Kind.UNREACHABLE, responses.no_response(error, timeout, self.credentials.server)) from None
        except SetUpError as error:
            raise LockError(Kind.DENIED, str(error)) from None
        if response.status not in {_OK, _CREATED}:
            raise self._error_of(response, target)
        self._success_date = response.headers.get("date", ""), system.clock()
        found = responses.json_object(response.body)
        if found is None:
            raise self.unreadable("something that is not a JSON object")
        return found

    async def watch(
        self, target: str, timeout: float, *, accept: str = JSON
    ) -> AsyncGenerator[tuple[str, dict[str, Any]], None]:
        """Type and object of each watch event, until a WatchError. ``timeout``: seconds for the watch to begin.

        The first is a bookmark without an object: the watch has begun.

        Meanwhile a connection for the next call is kept open: the API server closes idle ones, and a handshake would
        delay a takeover.
        """
        connection: Connection | None = None
        begun = False
        self._watches += 1
        if self._prewarming is None:
            self._prewarming = asyncio.get_running_loop().create_task(self._prewarm())
        try:
            async with within(timeout):
                connection, head = await self._begin_watch(target, accept)
            if head.status != _OK:
                error = self._error_of(head, target)
                reason, denied = f"the watch was refused: {error}", isinstance(error, ForbiddenError)
                if head.status == _GONE:
                    raise _TooOldError(reason, begun=False)
                raise WatchError(reason, denied=denied, begun=False, retry_after=error.failure.retry_after)
            begun = True
            yield _BOOKMARK, {}
            async with aclosing(connection.lines(MAX_SILENCE_SECONDS)) as lines:
                async for line in lines:
                    yield self._event(line)
        except _NO_RESPONSE as error:
            waited = MAX_SILENCE_SECONDS if begun else timeout
            raise WatchError(responses.no_response(error, waited, self.credentials.server), begun=begun) from None
        except SetUpError as error:
            raise WatchError(str(error), begun=begun) from None
        finally:
            if connection is not None:
                connection.close()
            self._watches -= 1  # a watch may begin before the one that it replaces ends
            if not self._watches:
                self._prewarming.cancel()
                self._prewarming = None

    async def watch_object(
        self, collection: str, name: str, version: str, timeout: float, *, reads_missing: bool = False
    ) -> AsyncGenerator[dict[str, Any] | None, None]:
        """Each state of one object after resourceVersion ``version`` ("": the present state too); None if it is gone.

        ``reads_missing``: the first state is None if there is no object once the watch has begun.

        The API server remembers only its latest changes, none from before its start: the version of an object that is
        rarely written soon is too old. The watch then begins without a version, and goes on if the present version is
        still ``version``, so nothing is left out. Otherwise it ends with a WatchError.
        """
        received = False
        reads = f"{collection}/{urllib.parse.quote(name, safe='')}" if reads_missing else ""
        try:
            async with aclosing(self._states(collection, name, version, timeout, reads)) as states:
                async for state in states:
                    received = True
                    yield state
        except _TooOldError:
            if received or not version:
                raise
        else:
            return
        async with aclosing(self._states(collection, name, "", timeout)) as states:
            try:
                async with within(2 * timeout):  # for the watch to begin, and for the present state
                    present = await anext(states, None)
            except asyncio.TimeoutError:
                raise WatchError(f"{name} is gone, or the watch is silent") from None
            if present is None or string_map(present.get("metadata")).get("resourceVersion") != version:
                raise WatchError(f"{name} has changed before the watch began")
            async for state in states:
                yield state

    def close(self) -> None:
        """Close the connection for calls; the next call opens another."""
        if self._connection:
            self._connection.close()
            self._connection = None

    def unreadable(self, what: str) -> LockError:
        """The error for a response that is not what was requested."""
        return responses.unreadable(what, self.credentials.server)

    async def _states(
        self, collection: str, name: str, version: str, timeout: float, reads: str = ""
    ) -> AsyncGenerator[dict[str, Any] | None, None]:
        """Bookmarks only show that the watch is alive. ``reads``: the object to read after the first one."""
        query = {"watch": "1", "fieldSelector": f"metadata.name={name}", "allowWatchBookmarks": "true"}
        if version:
            query["resourceVersion"] = version
        async with aclosing(self.watch(f"{collection}?{urllib.parse.urlencode(query)}", timeout)) as events:
            async for kind, found in events:
                if kind != _BOOKMARK:
                    yield None if kind == "DELETED" else found
                elif reads:
                    if await self._is_missing(reads, timeout):
                        yield None
                    reads = ""

    async def _is_missing(self, target: str, timeout: float) -> bool:
        try:
            await self.call("GET", target, None, timeout)
        except LockError as error:
            if error.failure.kind is Kind.MISSING:
                return True
            raise WatchError(str(error)) from None
        return False

    async def _call(
        self, method: str, target: str, body: dict[str, Any] | None, accept: str, max_bytes: int
    ) -> Response:
        connection = await self._connected()
        if not connection.usable:  # the server has sent something unasked, or is about to close it
            connection.close()
            connection = await self._connected()
        headers = [*self.credentials.headers(), ("Accept", accept)]
        data = b""
        if body is not None:
            headers.append(("Content-Type", _MERGE_PATCH if method == "PATCH" else JSON))
            data = json.dumps(body, separators=(",", ":")).encode()
        sent = time.time()
        try:
            response = await connection.call(method, target, headers, data, max_bytes)
        except BaseException:  # the next response on it would be this call's
            connection.close()
            raise
        self._last_date = response.headers.get("date", ""), sent, time.time()
        self.credentials.warnings.read(response.headers.get("warning", ""))
        return response

    async def _connected(self) -> Connection:
        """The connection for calls. One that is in use stays: prewarming must not end a call."""
        async with self._connecting:
            endpoint = await self.credentials.refresh()
            present = self._connection
            if present and (present.closed.is_set() or (present.to is not endpoint and present.usable)):
                present.close()
                present = None
            if not present:
                present = self._connection = await Connection.open(endpoint)
            return present

    async def _begin_watch(self, target: str, accept: str) -> tuple[Connection, Response]:
        """The response has a body only if the watch was refused."""
        connection = await Connection.open(await self.credentials.refresh())
        try:
            head = await connection.send("GET", target, [*self.credentials.headers(), ("Accept", accept)])
            self.credentials.warnings.read(head.headers.get("warning", ""))
            return connection, head if head.status == _OK else head._replace(body=await connection.rest())
        except BaseException:
            connection.close()
            raise

    async def _prewarm(self) -> None:
        backoff = Backoff(1.0, 60.0)
        while True:
            try:
                async with within(_PREWARM_TIMEOUT):
                    connection = await self._connected()
                backoff.reset()
                async with within(self.credentials.fresh_for):
                    await connection.closed.wait()
            except (SetUpError, *_NO_RESPONSE):
                pass
            await asyncio.sleep(backoff.pause())

    def _error_of(self, response: Response, target: str) -> LockError:
        if response.status == responses.UNAUTHORIZED:
            self._invalidate_credentials()
        return responses.error_of(response, target, self.credentials.server)

    def _invalidate_credentials(self) -> None:
        if not self._shared:
            self.credentials.invalidate()

    def _event(self, line: bytes) -> tuple[str, dict[str, Any]]:
        event = responses.json_object(line) or {}
        kind, found = event.get("type"), event.get("object")
        if not isinstance(kind, str) or not isinstance(found, dict):
            raise WatchError(str(self.unreadable("something that is not a watch event")))
        if kind == "ERROR":
            error = _TooOldError if found.get("code") == _GONE else WatchError
            raise error(f"the watch was ended ({responses.status_message(found) or 'without a reason'})")
        return kind, found


def _parameters(method: str, target: str, timeout: float) -> str:
    """The query that is added to the target of a call."""
    query = {"timeout": f"{max(1, round(timeout * 1000))}ms"}
    if method in {"POST", "PUT", "PATCH"}:
        query["fieldManager"] = FIELD_MANAGER
    return ("&" if "?" in target else "?") + urllib.parse.urlencode(query)
