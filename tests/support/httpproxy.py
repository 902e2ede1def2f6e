"""A proxy that ends TLS, sees each request, and does to it what a test's rules say."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import ssl
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import h11

from tests.support.loopthread import LoopThread
from tests.support.port import LOOPBACK
from tests.support.processes import PATIENCE, wait_until
from tests.support.proxy import abortive

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    import trustme
Headers = list[tuple[bytes, bytes]]
LIMIT = 1 << 20  # of a message's head


@dataclass(frozen=True)
class Request:
    """What a client sent; `path` is the whole target, query included; `at` is time.monotonic() of its arrival."""

    method: str
    path: str
    headers: dict[str, str]  # names in lower case
    body: bytes
    at: float

    def json(self) -> dict[str, Any]:
        """Return the body's JSON."""
        decoded: dict[str, Any] = json.loads(self.body)
        return decoded

    @property
    def target(self) -> str:
        """Return the path without what kleader adds to that of each call."""
        return re.sub("[?&](timeout|fieldManager)=[^&]*", "", self.path)

    def matches(self, method: str | None, path: str | None) -> bool:
        return (method is None or method == self.method) and (path is None or bool(re.search(path, self.target)))


class Closed(Exception):  # noqa: N818 - an outcome
    """The client's connection is to be closed, `hard` with an RST."""

    def __init__(self, *, hard: bool = False) -> None:
        super().__init__()
        self.hard = hard


@dataclass
class Rule:
    """What happens to the requests that match; made by HttpProxy.on."""

    proxy: HttpProxy
    action: Action
    method: str | None
    path: str | None
    where: Callable[[Request], object] | None
    skip: int
    times: int | None
    requests: list[Request] = field(default_factory=list)
    answered: int = 0  # how many of them the server has answered to the proxy, where the action fetches the answer
    _released: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def hits(self) -> int:
        """How many requests it was applied to."""
        return len(self.requests)

    def wait(self, number: int = 1, timeout: float = PATIENCE) -> Request:
        """Return the `number`-th request it was applied to, as soon as the proxy has it: before the server does."""
        wait_until(lambda: self.hits >= number, f"request {number} for the rule on {self.method} {self.path}", timeout)
        return self.requests[number - 1]

    def wait_answered(self, number: int = 1) -> Request:
        """Return that request once the server has answered it, and so done it: of lose() and hold_answer()."""
        wait_until(lambda: self.answered >= number, f"answer {number} to {self.method} {self.path}")
        return self.requests[number - 1]

    def release(self) -> None:
        """Let what hold() or hold_answer() holds go on."""
        self.proxy.call_soon(self._released.set)

    def remove(self) -> None:
        """Apply it to no further request."""
        self.times = self.hits

    async def held(self) -> None:
        await self._released.wait()

    def takes(self, request: Request) -> bool:
        """Tell whether it applies to this one, and count it."""
        if not request.matches(self.method, self.path) or (self.where and not self.where(request)):
            return False
        if self.skip > 0:
            self.skip -= 1
            return False
        if self.times is not None and self.hits >= self.times:
            return False
        self.requests.append(request)
        return True


class Exchange:
    """One request and the way of its answer."""

    def __init__(self, proxy: HttpProxy, rule: Rule | None, request: Request, client: Client) -> None:
        self._proxy, self._client = proxy, client
        self.rule, self.request = rule, request

    async def fetch(self) -> tuple[int, Headers, bytes]:
        """Ask the server, and return its whole answer."""
        body = b""
        async with self._proxy.upstream(self.request) as answer:
            async for part in answer.parts():
                body += part
            if self.rule:
                self.rule.answered += 1
            return answer.status, answer.headers, body

    async def relay(self) -> None:
        """Ask the server, and pass its answer on as it comes (a watch's never ends)."""
        async with self._proxy.upstream(self.request) as answer:
            await self._client.send(h11.Response(status_code=answer.status, headers=answer.headers))
            async for part in answer.parts():
                await self._client.send(h11.Data(data=part))
        await self._client.send(h11.EndOfMessage())

    async def reply(self, status: int, headers: Headers, body: bytes) -> None:
        """Answer in the server's place."""
        framing = {b"content-length", b"transfer-encoding"}
        kept = [(name, value) for name, value in headers if name.lower() not in framing]
        length = (b"content-length", str(len(body)).encode())
        await self._client.send(h11.Response(status_code=status, headers=[*kept, length]))
        await self._client.send(h11.Data(data=body))
        await self._client.send(h11.EndOfMessage())

    async def write(self, data: bytes) -> None:
        """Send bytes as they are, whatever HTTP says."""
        await self._client.write(data)

    async def silence(self) -> None:
        """Answer nothing for as long as the client stays."""
        await asyncio.Event().wait()


Action = Callable[[Exchange], Coroutine[None, None, None]]


@dataclass(frozen=True)
class Answer:
    """The server's answer: its head, and its body as it comes."""

    status: int
    headers: Headers
    _connection: h11.Connection
    _reader: asyncio.StreamReader

    async def parts(self) -> AsyncIterator[bytes]:
        while not isinstance(event := await next_event(self._connection, self._reader), h11.EndOfMessage):
            if isinstance(event, h11.Data):
                yield bytes(event.data)


class Client:
    """The client's side of one connection. One task reads it, at all times: so that its end is seen while it waits."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._connection = h11.Connection(h11.SERVER, max_incomplete_event_size=LIMIT)
        self._reading: asyncio.Task[bytes] | None = None

    async def next_request(self) -> Request | None:
        """Return the next request once it is there whole, None at the connection's end."""
        if self._connection.our_state is h11.DONE:
            self._connection.start_next_cycle()
        head: h11.Request | None = None
        body = b""
        while True:
            event = self._connection.next_event()
            if event is h11.NEED_DATA:
                self._connection.receive_data(await self._read())
            elif isinstance(event, h11.Request):
                head = event
            elif isinstance(event, h11.Data):
                body += event.data
            elif isinstance(event, h11.EndOfMessage) and head is not None:
                headers = {name.decode().lower(): value.decode() for name, value in head.headers}
                return Request(head.method.decode(), head.target.decode(), headers, body, time.monotonic())
            else:
                return None

    async def attend(self, work: Coroutine[None, None, None]) -> None:
        """Do the work for one request, unless the client goes away meanwhile: then Closed."""
        task = asyncio.ensure_future(work)
        try:
            while not task.done():
                reading = self._reading = self._reading or asyncio.ensure_future(self._reader.read(65536))
                await asyncio.wait({task, reading}, return_when=asyncio.FIRST_COMPLETED)
                if not task.done():
                    if not (data := await self._read()):
                        raise Closed
                    self._connection.receive_data(data)
            await task
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    @property
    def reusable(self) -> bool:
        return self._connection.our_state is h11.DONE and self._connection.their_state is h11.DONE

    async def send(self, event: h11.Event) -> None:
        await self.write(self._connection.send(event) or b"")

    async def write(self, data: bytes) -> None:
        self._writer.write(data)
        await self._writer.drain()

    async def close(self, *, hard: bool) -> None:
        if self._reading:
            self._reading.cancel()
            await asyncio.gather(self._reading, return_exceptions=True)
        if hard and (connection := self._writer.get_extra_info("socket")):  # None: the client was first
            abortive(connection)
            self._writer.transport.abort()
        try:  # the client may be slow to say good-bye in TLS's way
            self._writer.close()
            await asyncio.wait_for(self._writer.wait_closed(), 1)
        except (OSError, asyncio.TimeoutError):
            pass
        finally:
            self._writer.transport.abort()

    async def _read(self) -> bytes:
        self._reading = self._reading or asyncio.ensure_future(self._reader.read(65536))
        data = await self._reading
        self._reading = None
        return data


async def next_event(connection: h11.Connection, reader: asyncio.StreamReader) -> h11.Event:
    """Return the connection's next event, reading what it needs."""
    while (event := connection.next_event()) is h11.NEED_DATA:
        connection.receive_data(await reader.read(65536))
    assert isinstance(event, h11.Event), event
    return event


class Server(Protocol):
    """What a proxy needs to know of a control plane."""

    port: int
    ca: trustme.CA
    ca_file: Path


class HttpProxy(LoopThread):
    """Ends the client's TLS (with a certificate of the plane's CA, unless one is given) and asks the server anew.

    HTTP/1.1. The client's certificate ends here too, so its users are those with tokens.
    """

    def __init__(self, plane: Server, *, certificate: trustme.LeafCert | None = None) -> None:
        self.requests: list[Request] = []
        self._rules: list[Rule] = []
        self._upstream = (LOOPBACK, plane.port)
        self._server_tls = ssl.create_default_context(cafile=str(plane.ca_file))
        self._tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        (certificate or plane.ca.issue_cert(LOOPBACK, "localhost")).configure_cert(self._tls)

    @property
    def url(self) -> str:
        return f"https://{LOOPBACK}:{self.port}"

    def on(
        self,
        action: Action,
        *,
        method: str | None = None,
        path: str | None = None,
        where: Callable[[Request], object] | None = None,
        skip: int = 0,
        times: int | None = 1,
    ) -> Rule:
        """Apply `action` to the next `times` requests (None: to all) that match, after `skip` that match are let pass.

        `path` is a regular expression, searched in the request's `target`, query included. The oldest rule that matches
        wins.
        """

        async def add() -> Rule:
            rule = Rule(self, action, method, path, where, skip, times)
            self._rules.append(rule)
            return rule

        return self.run(add())

    def wait_request(
        self, method: str | None = None, path: str | None = None, count: int = 1, timeout: float = PATIENCE
    ) -> Request:
        """Return the `count`-th request since the start that matches, as soon as it is there whole."""

        def found() -> list[Request]:
            return [request for request in self.requests if request.matches(method, path)]

        wait_until(lambda: len(found()) >= count, f"{method or 'request'} {path or ''} number {count}", timeout)
        return found()[count - 1]

    def call_soon(self, function: Callable[[], object]) -> None:
        self._loop.call_soon_threadsafe(function)

    # --- in the loop
    async def open(self) -> None:
        self._server = await asyncio.start_server(self._serve, LOOPBACK, 0, ssl=self._tls)
        self.port: int = self._server.sockets[0].getsockname()[1]

    async def shut(self) -> None:
        self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        client = Client(reader, writer)
        hard = False
        try:
            while request := await client.next_request():
                self.requests.append(request)
                rule = next((rule for rule in self._rules if rule.takes(request)), None)
                exchange = Exchange(self, rule, request, client)
                await client.attend(rule.action(exchange) if rule else exchange.relay())
                if not client.reusable:
                    break
        except Closed as closed:
            hard = closed.hard
        except (OSError, h11.ProtocolError):  # the server is gone, or the client speaks no HTTP
            hard = True
        except asyncio.CancelledError:  # by stop(): not passed on, asyncio's callback for Python 3.11 trips over it
            hard = True
        except Exception as error:  # noqa: BLE001 - what a test's own call() raised, too
            self.failures.append(error)
            hard = True
        finally:
            await client.close(hard=hard)

    @contextlib.asynccontextmanager
    async def upstream(self, request: Request) -> AsyncIterator[Answer]:
        """Send the request to the server on a connection of its own."""
        reader, writer = await asyncio.open_connection(*self._upstream, ssl=self._server_tls)
        try:
            connection = h11.Connection(h11.CLIENT, max_incomplete_event_size=LIMIT)
            head = h11.Request(method=request.method, target=request.path, headers=list(request.headers.items()))
            for event in (head, h11.Data(data=request.body), h11.EndOfMessage()):
                writer.write(connection.send(event) or b"")
            response = await next_event(connection, reader)
            assert isinstance(response, h11.Response), response
            headers = [(bytes(name), bytes(value)) for name, value in response.headers]
            yield Answer(response.status_code, headers, connection, reader)
        finally:
            writer.close()  # or Python 3.10 takes it for open
            writer.transport.abort()
