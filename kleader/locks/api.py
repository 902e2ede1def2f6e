"""The road to the Kubernetes API: bounded calls, no hidden retries, one-object watches."""

from __future__ import annotations

import asyncio
import json
import ssl
import time
import urllib.parse
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

import h11

from kleader.election.events import Kind
from kleader.locks import answers
from kleader.locks.base import LockError, SetUpError, WatchError
from kleader.locks.http import MOST, Answer, Connection
from kleader.locks.object import texts
from kleader.locks.within import within

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from kleader.locks.credentials import Credentials

_HANDSHAKE = 5.0  # seconds for a connection that nobody waits for
SILENCE = 300.0  # seconds without a byte, bookmarks included, after which a watch is taken for dead
# ssl.SSLError is an OSError, asyncio.TimeoutError from Python 3.11 on; names that cannot be are ValueErrors.
_BROKEN = (OSError, asyncio.TimeoutError, h11.ProtocolError, ValueError)
JSON = "application/json"
_MERGE_PATCH = "application/merge-patch+json"
_OK = 200
_GONE = 410
_DONE = {_OK, 201}


class _TooOldError(WatchError):
    """The version to watch from."""


class Api:
    """Two connections to one API server: one for calls, one for the watch.

    One call at a time. A ``guest`` never makes the others that share its credentials wait for new ones.
    """

    def __init__(self, credentials: Credentials, *, guest: bool = False) -> None:
        self.credentials = credentials
        self._guest = guest
        self._calls: Connection | None = None
        self._opening = asyncio.Lock()
        self._watches = 0
        self._warmer: asyncio.Task[None] | None = None
        self._dated = ("", 0.0, 0.0)

    @property
    def skew(self) -> answers.Skew | None:
        """How far the API server's clock is from this machine's, by the last call's answer; None where none told."""
        return answers.skew(*self._dated)

    async def call(  # noqa: PLR0913 - the last two are for lists alone
        self,
        method: str,
        target: str,
        body: dict[str, Any] | None,
        timeout: float,
        *,
        accept: str = JSON,
        most: int = MOST,
    ) -> dict[str, Any]:
        """The object that a 200 or 201 carries; everything else is a LockError. ``timeout`` bounds the whole call.

        ``accept``: the media type that is asked for; ``most``: the bytes that an answer may have.
        """
        try:
            async with within(timeout):
                answer = await self._call(method, target, body, accept, most)
        except _BROKEN as error:
            if isinstance(error, ssl.SSLCertVerificationError):
                self._distrust()  # its authority may have been replaced
            raise LockError(Kind.UNREACHABLE, answers.none(error, timeout, self.credentials.server)) from None
        except SetUpError as error:
            raise LockError(Kind.DENIED, str(error)) from None
        if answer.status not in _DONE:
            raise self._refused(answer, target)
        found = answers.json_object(answer.body)
        if found is None:
            raise self.unreadable("something that is no JSON object")
        return found

    async def watch(
        self, target: str, timeout: float, *, accept: str = JSON
    ) -> AsyncGenerator[tuple[str, dict[str, Any]], None]:
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
            async with within(timeout):
                connection, answer = await self._watch(target, accept)
            if answer.status != _OK:
                error = self._refused(answer, target)
                reason, denied = f"the watch was refused: {error}", isinstance(error, answers.ForbiddenError)
                if answer.status == _GONE:
                    raise _TooOldError(reason, begun=False)
                raise WatchError(reason, denied=denied, begun=False, retry_after=error.failure.retry_after)
            begun = True
            async with aclosing(connection.lines(SILENCE)) as lines:
                async for line in lines:
                    yield self._event(line)
        except _BROKEN as error:
            patience = SILENCE if begun else timeout
            raise WatchError(answers.none(error, patience, self.credentials.server), begun=begun) from None
        except SetUpError as error:
            raise WatchError(str(error), begun=begun) from None
        finally:
            if connection is not None:
                connection.close()
            self._watches -= 1
            self._cool()

    async def changes(
        self, collection: str, name: str, version: str, timeout: float
    ) -> AsyncGenerator[dict[str, Any] | None, None]:
        """Watch one object: each state after ``version`` ("": the present one too), None: it is gone.

        The API server remembers no more than its latest changes, and none from before its start, so the version of an
        object that nobody writes is soon too old for it. The watch then begins without one, and goes on if that is the
        present version still: whatever is told leaves nothing out. Otherwise it ends.
        """
        told = False
        try:
            async with aclosing(self._states(collection, name, version, timeout)) as states:
                async for found in states:
                    told = True
                    yield found
        except _TooOldError:
            if told or not version:
                raise
        else:
            return
        async with aclosing(self._states(collection, name, "", timeout)) as states:
            try:
                async with within(2 * timeout):  # for its beginning, and for the present state
                    present = await anext(states, None)
            except asyncio.TimeoutError:
                raise WatchError(f"{name} is gone, or the watch is silent") from None
            if present is None or texts(present.get("metadata")).get("resourceVersion") != version:
                raise WatchError(f"{name} has changed before the watch began")
            async for found in states:
                yield found

    async def _states(
        self, collection: str, name: str, version: str, timeout: float
    ) -> AsyncGenerator[dict[str, Any] | None, None]:
        """Bookmarks only show the watch to be alive."""
        query = {"watch": "1", "fieldSelector": f"metadata.name={name}", "allowWatchBookmarks": "true"}
        if version:
            query["resourceVersion"] = version
        async with aclosing(self.watch(f"{collection}?{urllib.parse.urlencode(query)}", timeout)) as events:
            async for kind, found in events:
                if kind != "BOOKMARK":
                    yield None if kind == "DELETED" else found

    def close(self) -> None:
        """End the connection for calls; the next call opens another."""
        if self._calls:
            self._calls.close()
            self._calls = None

    def _cool(self) -> None:
        """At the end of the last watch: a new one may have begun before the one that it replaces ended."""
        if self._warmer is not None and not self._watches:
            self._warmer.cancel()
            self._warmer = None

    async def _call(self, method: str, target: str, body: dict[str, Any] | None, accept: str, most: int) -> Answer:
        connection = await self._ready()
        if not connection.usable:  # by an earlier call that nobody waits for any more
            connection.close()
            connection = await self._ready()
        headers = [*self.credentials.headers(), ("Accept", accept)]
        data = b""
        if body is not None:
            headers.append(("Content-Type", _MERGE_PATCH if method == "PATCH" else JSON))
            data = json.dumps(body, separators=(",", ":")).encode()
        sent = time.time()
        try:
            answer = await connection.call(method, target, headers, data, most)
        except BaseException:  # what came on it next would be the answer to this
            connection.close()
            raise
        self._dated = answer.headers.get("date", ""), sent, time.time()
        return answer

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

    async def _watch(self, target: str, accept: str) -> tuple[Connection, Answer]:
        """What the server refuses is read whole."""
        connection = await Connection.open(await self.credentials.refresh())
        try:
            answer = await connection.begin(target, [*self.credentials.headers(), ("Accept", accept)])
            return connection, answer if answer.status == _OK else answer._replace(body=await connection.rest())
        except BaseException:
            connection.close()
            raise

    async def _keep_warm(self) -> None:
        pause = 1.0
        while True:
            try:
                async with within(_HANDSHAKE):
                    connection = await self._ready()
                pause = 1.0
                async with within(self.credentials.fresh_for):
                    await connection.closed.wait()
            except (SetUpError, *_BROKEN):
                pause = min(60.0, pause * 2)
            await asyncio.sleep(pause)

    def unreadable(self, what: str) -> LockError:
        """For who finds that an answer is not what was asked for."""
        return answers.unreadable(what, self.credentials.server)

    def _refused(self, answer: Answer, target: str) -> LockError:
        if answer.status == answers.UNAUTHORIZED:
            self._distrust()
        return answers.refusal(answer, target, self.credentials.server)

    def _distrust(self) -> None:
        """Have the credentials read anew before the next request."""
        if not self._guest:
            self.credentials.refuse()

    def _event(self, line: bytes) -> tuple[str, dict[str, Any]]:
        event = answers.json_object(line) or {}
        kind, found = event.get("type"), event.get("object")
        if not isinstance(kind, str) or not isinstance(found, dict):
            raise WatchError(str(self.unreadable("something that is no watch event")))
        if kind == "ERROR":
            error = _TooOldError if found.get("code") == _GONE else WatchError
            raise error(f"the watch was ended ({answers.message(found) or 'without a reason'})")
        return kind, found
