"""HTTP/1.1 over TCP and TLS, on asyncio and h11: a call is bounded as a whole, and is never repeated behind one's back.

Own code around h11 instead of the urllib3 in the ``kubernetes`` package: that one repeats idempotent calls, bounds only
the gap between two bytes, and weighs more than the memory of a waiting candidate may.
"""

from __future__ import annotations

import asyncio
import socket
from typing import TYPE_CHECKING, NamedTuple

import h11

from kleader.locks.within import within

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncGenerator

MOST = 4 << 20  # bytes of one answer or one watch event; etcd's objects end at 2 MB
HTTP_OK, HTTP_REDIRECT = 200, 300
_KEEPALIVE = {"TCP_KEEPIDLE": 30, "TCP_KEEPINTVL": 10, "TCP_KEEPCNT": 3}  # a peer that is gone is noticed in a minute


class Endpoint(NamedTuple):
    """Where to connect to."""

    host: str
    port: int
    authority: str  # of the Host header
    prefix: str  # of every path
    tls: ssl.SSLContext | None
    server_name: str  # that the certificate must show
    proxy: tuple[str, int, str] | None  # host, port and Proxy-Authorization of an HTTP proxy


Headers = list[tuple[str, str]]


class Answer(NamedTuple):
    """A whole answer, or its head alone."""

    status: int
    headers: dict[str, str]  # names in lower case
    body: bytes


class Connection(asyncio.Protocol):
    """One connection, one request at a time. Any exception but a status ends it: make another."""

    def __init__(self, to: Endpoint) -> None:
        self.to = to
        self._h11 = h11.Connection(h11.CLIENT)
        self._transport: asyncio.Transport | None = None
        self._news = asyncio.Event()
        self.closed = asyncio.Event()

    @classmethod
    async def open(cls, to: Endpoint) -> Connection:
        """Connect, through the proxy if there is one. OSError (ssl.SSLError among them) if that fails; not bounded."""
        loop, name = asyncio.get_running_loop(), to.server_name if to.tls else None
        if to.proxy:
            sock = await _tunnel(to, *to.proxy)
            _, self = await loop.create_connection(lambda: cls(to), sock=sock, ssl=to.tls, server_hostname=name)
        else:
            _, self = await loop.create_connection(lambda: cls(to), to.host, to.port, ssl=to.tls, server_hostname=name)
        return self

    @property
    def usable(self) -> bool:
        """Whether another request may be sent on it."""
        unasked = self._h11.trailing_data[0]
        return not self.closed.is_set() and self._h11.our_state is h11.IDLE and not unasked

    async def call(self, method: str, target: str, headers: Headers, body: bytes = b"", most: int = MOST) -> Answer:
        """Send a request and read the whole answer; at most ``most`` bytes of it."""
        head = await self._begin(method, target, headers, body)
        data = bytearray()
        async for piece in self._body():
            data += piece
            if len(data) > most:
                self.close()
                msg = f"the answer is longer than {most >> 20} MiB"
                raise h11.RemoteProtocolError(msg)
        answer = Answer(head.status_code, _headers(head), bytes(data))
        if self._h11.our_state is h11.DONE and self._h11.their_state is h11.DONE:
            self._h11.start_next_cycle()
        else:  # Connection: close
            self.close()
        return answer

    async def begin(self, target: str, headers: Headers) -> Answer:
        """Send a GET and read the head of its answer; what follows is read by :meth:`lines` or :meth:`rest`."""
        head = await self._begin("GET", target, headers, b"")
        return Answer(head.status_code, _headers(head), b"")

    async def lines(self, silence: float) -> AsyncGenerator[bytes, None]:
        """The lines of the answer as they come; TimeoutError after ``silence`` seconds without a byte."""
        line = bytearray()
        body = self._body()
        while True:
            try:
                async with within(silence):
                    piece = await anext(body)
            except StopAsyncIteration:
                return
            *whole, rest = piece.split(b"\n")
            for each in whole:
                yield bytes(line) + each
                line.clear()
            line += rest
            if len(line) > MOST:
                self.close()
                msg = f"an event is longer than {MOST >> 20} MiB"
                raise h11.RemoteProtocolError(msg)

    async def rest(self) -> bytes:
        """What is left of the answer, cut at MOST."""
        data = bytearray()
        async for piece in self._body():
            data += piece
            if len(data) > MOST:
                break
        return bytes(data)

    def close(self) -> None:
        """At once."""
        if self._transport:
            self._transport.abort()
        self.closed.set()
        self._news.set()

    # --- asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Have the kernel notice a peer that is gone, and keep routers from forgetting an idle connection."""
        self._transport = transport  # type: ignore[assignment]
        sock = transport.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for option, value in _KEEPALIVE.items():
            if hasattr(socket, option):  # macOS lacks the first
                sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)

    def data_received(self, data: bytes) -> None:
        """Hand it to h11; whoever waits looks again."""
        if not self.closed.is_set():
            self._h11.receive_data(data)
            self._news.set()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        """Told once, by whichever side ended it."""
        self.closed.set()
        self._news.set()

    # --- h11

    async def _begin(self, method: str, target: str, headers: Headers, body: bytes) -> h11.Response:
        sent = [("Host", self.to.authority), *headers, *([("Content-Length", str(len(body)))] if body else [])]
        try:
            head = h11.Request(method=method, target=self.to.prefix + target, headers=sent)
        except (h11.LocalProtocolError, UnicodeEncodeError):  # whose message would show the token
            msg = "a token or a user's name has characters that no HTTP header can carry"
            raise ConnectionError(msg) from None
        self._send(head)
        if body:
            self._send(h11.Data(data=body))
        self._send(h11.EndOfMessage())
        while True:
            event = await self._event()
            if isinstance(event, h11.Response):
                return event
            if not isinstance(event, h11.InformationalResponse):
                msg = "the answer has no head"
                raise h11.RemoteProtocolError(msg)

    async def _body(self) -> AsyncGenerator[bytes, None]:
        while True:
            event = await self._event()
            if isinstance(event, h11.Data):
                yield bytes(event.data)
            else:
                return

    async def _event(self) -> h11.Event:
        while True:
            event = self._h11.next_event()
            if event is h11.NEED_DATA:
                if self.closed.is_set():
                    try:
                        self._h11.receive_data(b"")  # an answer that is ended by the end of the connection is whole
                        event = self._h11.next_event()
                    except h11.RemoteProtocolError:  # in the middle of one
                        event = h11.NEED_DATA
                    if event is h11.NEED_DATA or isinstance(event, h11.ConnectionClosed):
                        msg = "the connection was closed"
                        raise ConnectionError(msg)
                    return event  # type: ignore[return-value]
                self._news.clear()
                await self._news.wait()
            elif isinstance(event, h11.ConnectionClosed):
                msg = "the connection was closed"
                raise ConnectionError(msg)
            else:
                return event  # type: ignore[return-value]

    def _send(self, event: h11.Event) -> None:
        data = self._h11.send(event)
        if self.closed.is_set() or self._transport is None:
            msg = "the connection was closed"
            raise ConnectionError(msg)
        if data:
            self._transport.write(data)


def _headers(head: h11.Response) -> dict[str, str]:
    return {name.decode("ascii"): value.decode("latin-1") for name, value in head.headers}


async def _tunnel(to: Endpoint, host: str, port: int, authorization: str) -> socket.socket:
    """A socket that an HTTP proxy has connected to the endpoint (RFC 9110, CONNECT)."""
    loop = asyncio.get_running_loop()
    family, kind, protocol, _, address = (await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM))[0]
    sock = socket.socket(family, kind, protocol)
    try:
        sock.setblocking(False)
        await loop.sock_connect(sock, address)
        target = f"[{to.host}]:{to.port}" if ":" in to.host else f"{to.host}:{to.port}"
        headers = [("Host", target)] + ([("Proxy-Authorization", authorization)] if authorization else [])
        http = h11.Connection(h11.CLIENT)
        request = http.send(h11.Request(method="CONNECT", target=target, headers=headers))
        await loop.sock_sendall(sock, (request or b"") + (http.send(h11.EndOfMessage()) or b""))
        while not isinstance(event := http.next_event(), h11.Response):
            if event is not h11.NEED_DATA:
                continue
            http.receive_data(await loop.sock_recv(sock, 1))  # no byte of what comes after the head
    except BaseException:
        sock.close()
        raise
    if not HTTP_OK <= event.status_code < HTTP_REDIRECT:
        sock.close()
        msg = f"the proxy {host}:{port} answered {event.status_code}"
        raise ConnectionError(msg)
    return sock
