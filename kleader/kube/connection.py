"""Where an API server is reached, and one HTTP/1.1 connection to it over TCP and TLS, on asyncio and h11.

A request is sent once and never repeated. The ``kubernetes`` package's urllib3 repeats idempotent requests, bounds only
the time between two bytes, and takes more memory than a waiting candidate may.
"""

from __future__ import annotations

import asyncio
import socket
from typing import TYPE_CHECKING, Any, NamedTuple

import h11

from kleader.kube.dial import dial
from kleader.kube.errors import SetUpError
from kleader.kube.proxy import Proxy, open_tunnel, proxy_for
from kleader.kube.timeout import within
from kleader.kube.tls import server_context
from kleader.kube.urls import parse_url

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncGenerator, Mapping

MAX_RESPONSE_BYTES = 4 << 20  # of one response or one watch event; etcd's objects end at 2 MB
_KEEPALIVE = {"TCP_KEEPIDLE": 30, "TCP_KEEPINTVL": 10, "TCP_KEEPCNT": 3}  # a dead peer is noticed in a minute

Headers = list[tuple[str, str]]


class Endpoint(NamedTuple):
    """An API server."""

    host: str
    port: int
    authority: str  # of the Host header
    prefix: str  # of every path
    tls: ssl.SSLContext | None
    server_name: str  # that the certificate must show
    proxy: Proxy | None


def endpoint_of(access: Mapping[str, Any]) -> Endpoint:
    """The API server of an access (kleader.kube.kubeconfig) without userinfo. SetUpError: it cannot be used."""
    parsed = parse_url(access["server"])
    if not parsed or parsed[0].scheme not in {"http", "https"}:
        raise SetUpError(f"invalid API server URL {access['server']!r}: write it as https://HOST:PORT")
    url, host, port = parsed
    return Endpoint(
        host,
        port,
        url.netloc,
        url.path.rstrip("/"),
        server_context(access) if url.scheme == "https" else None,
        access.get("server_name") or host,
        proxy_for(access, url.scheme, host, port),
    )


class Response(NamedTuple):
    """A response, or only its head."""

    status: int
    headers: dict[str, str]  # by name in lower case; the values of one name are joined by ", " (RFC 9110)
    body: bytes


class Connection(asyncio.Protocol):
    """One connection, one request at a time. After an exception it must be closed.

    Each method that waits raises OSError or h11's errors, and is bounded by its caller.
    """

    def __init__(self, to: Endpoint) -> None:
        self.to = to
        self._http = h11.Connection(h11.CLIENT)
        self._transport: asyncio.Transport | None = None
        self._received = asyncio.Event()
        self.closed = asyncio.Event()

    @classmethod
    async def open(cls, to: Endpoint) -> Connection:
        """Connect to the API server, through its proxy if it has one."""
        if to.proxy is None:
            return (await dial(lambda: cls(to), to.host, to.port, to.tls, to.server_name))[1]
        self, transport = cls(to), await open_tunnel(to.proxy, to.host, to.port)
        if to.tls:
            start_tls = asyncio.get_running_loop().start_tls
            try:
                secure = await start_tls(transport, self, to.tls, server_hostname=to.server_name)
            except BaseException:
                transport.abort()
                raise
            assert secure  # noqa: S101 - None before Python 3.11 if the connection was closed
            transport = secure
        else:
            transport.set_protocol(self)
        self.connection_made(transport)
        return self

    @property
    def usable(self) -> bool:
        """Whether another request may be sent: it is open, idle, and the server has sent nothing unasked."""
        unasked = self._http.trailing_data[0]
        return not self.closed.is_set() and self._http.our_state is h11.IDLE and not unasked

    async def call(
        self, method: str, target: str, headers: Headers, body: bytes = b"", max_bytes: int = MAX_RESPONSE_BYTES
    ) -> Response:
        """Send a request and read the whole response, which may have ``max_bytes``."""
        head = await self.send(method, target, headers, body)
        data = await self.rest(max_bytes)
        if len(data) > max_bytes:
            self.close()
            raise h11.RemoteProtocolError(f"the answer is longer than {max_bytes >> 20} MiB")
        if self._http.our_state is h11.DONE and self._http.their_state is h11.DONE:
            self._http.start_next_cycle()
        else:  # Connection: close
            self.close()
        return head._replace(body=data)

    async def send(self, method: str, target: str, headers: Headers, body: bytes = b"") -> Response:
        """Send a request and read the head of its response; :meth:`lines` or :meth:`rest` reads the body."""
        length = [("Content-Length", str(len(body)))] if body else []
        try:
            encoded = [
                (name.encode(), value.encode()) for name, value in [("Host", self.to.authority), *headers, *length]
            ]
            request = h11.Request(method=method, target=self.to.prefix + target, headers=encoded)
        except (h11.LocalProtocolError, UnicodeEncodeError):  # its message would show the token
            raise ConnectionError("a token or a user name has characters that an HTTP header cannot carry") from None
        for event in (request, *([h11.Data(data=body)] if body else []), h11.EndOfMessage()):
            data = self._http.send(event)
            if self.closed.is_set() or self._transport is None:
                raise _closed()
            if data:
                self._transport.write(data)
        while isinstance(head := await self._next_event(), h11.InformationalResponse):
            pass
        assert isinstance(head, h11.Response)  # noqa: S101 - h11 raises its own error for what is no response
        found: dict[str, str] = {}
        for name, value in ((name.decode("ascii"), value.decode("latin-1")) for name, value in head.headers):
            found[name] = f"{found[name]}, {value}" if name in found else value
        return Response(head.status_code, found, b"")

    async def lines(self, silence: float) -> AsyncGenerator[bytes, None]:
        """The lines of the body as they come; TimeoutError after ``silence`` seconds without a byte."""
        line = bytearray()
        body = self._body()
        while True:
            try:
                async with within(silence):
                    piece = await anext(body)
            except StopAsyncIteration:
                return
            *complete, rest = piece.split(b"\n")
            for end in complete:
                yield bytes(line) + end
                line.clear()
            line += rest
            if len(line) > MAX_RESPONSE_BYTES:
                self.close()
                raise h11.RemoteProtocolError(f"an event is longer than {MAX_RESPONSE_BYTES >> 20} MiB")

    async def rest(self, max_bytes: int = MAX_RESPONSE_BYTES) -> bytes:
        """The rest of the body, not read on where it is longer than ``max_bytes``."""
        data = bytearray()
        async for piece in self._body():
            data += piece
            if len(data) > max_bytes:
                break
        return bytes(data)

    def close(self) -> None:
        """Close the connection at once."""
        if self._transport:
            self._transport.abort()
        self.connection_lost(None)

    # --- asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """TCP keep-alive: the kernel notices a dead peer, and no router forgets an idle connection."""
        self._transport = transport  # type: ignore[assignment]
        sock = transport.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for option, value in _KEEPALIVE.items():
            if hasattr(socket, option):  # macOS lacks the first
                sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)

    def data_received(self, data: bytes) -> None:
        """Wake the reader."""
        if not self.closed.is_set():
            self._http.receive_data(data)
            self._received.set()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        """Wake the reader, and the task that waits for ``closed``."""
        self.closed.set()
        self._received.set()

    # --- h11

    async def _body(self) -> AsyncGenerator[bytes, None]:
        while isinstance(event := await self._next_event(), h11.Data):
            yield bytes(event.data)

    async def _next_event(self) -> h11.Event:
        while (event := self._http.next_event()) is h11.NEED_DATA:
            if self.closed.is_set():
                try:
                    self._http.receive_data(b"")  # a response may end with its connection
                    event = self._http.next_event()
                except h11.RemoteProtocolError:  # the connection ended in the middle of a response
                    raise _closed() from None
                break
            self._received.clear()
            await self._received.wait()
        if event is h11.NEED_DATA or isinstance(event, h11.ConnectionClosed):
            raise _closed()
        return event  # type: ignore[return-value]


def _closed() -> ConnectionError:
    return ConnectionError("the connection was closed")
