"""Hosts of several addresses, of which some are silent; servers and proxies on loopback, in the test's own loop."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from tests.support.port import LOOPBACK

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator

    import pytest

    Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
    Address = tuple[str, int]

SILENT = "127.0.0.2"


@contextlib.contextmanager
def silent() -> Iterator[Address]:
    """An address that drops whoever knocks, as one behind a firewall does: its queue of connections is full."""
    with contextlib.ExitStack() as stack:
        full = stack.enter_context(socket.socket())
        full.bind((SILENT, 0))
        full.listen(0)
        for _ in range(4):
            caller = stack.enter_context(socket.socket())
            caller.settimeout(0)
            caller.connect_ex(full.getsockname())
        yield full.getsockname()


def resolve(monkeypatch: pytest.MonkeyPatch, **hosts: list[Address]) -> None:
    """Have the name server know these hosts under .test, in this order of their addresses."""
    system = socket.getaddrinfo

    def getaddrinfo(host: str | bytes, *args: Any, **more: Any) -> list[Any]:  # noqa: ANN401
        text = host.decode() if isinstance(host, bytes) else host
        known = hosts.get(str(text).removesuffix(".test"))
        if known is None:
            return system(host, *args, **more)
        return [(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", each) for each in known]

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)


@asynccontextmanager
async def serving(serve: Serve, tls: ssl.SSLContext | None = None) -> AsyncIterator[Address]:
    """Serve each connection so on a free port of loopback, which is closed when ``serve`` returns or fails."""
    tasks = set()

    async def served(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        tasks.add(asyncio.current_task())
        with contextlib.suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            await serve(reader, writer)
        writer.transport.abort()

    server = await asyncio.start_server(served, LOOPBACK, 0, ssl=tls)
    try:
        yield server.sockets[0].getsockname()
    finally:
        server.close()
        for each in tasks:
            if each:
                each.cancel()
        for _ in range(20):  # turns of the loop, in which sockets are let go of
            await asyncio.sleep(0)


async def api(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer each GET with the path that it asks for."""
    while head := await reader.readuntil(b"\r\n\r\n"):
        body = b'{"of": "%s"}' % head.split()[1].partition(b"?")[0]
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
        await writer.drain()


class Forward:
    """A forward proxy for `serving`: HTTP's CONNECT or SOCKS 5; whatever is asked for, it connects to ``target``."""

    def __init__(self, target: Address) -> None:
        self.target = target
        self.asked: list[bytes] = []  # each head of a CONNECT, or SOCKS request

    async def connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve a CONNECT."""
        self.asked.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        await self._join(reader, writer)

    async def socks(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve a SOCKS 5 client that has a user and a password; its answer names an IPv4 address."""
        _, count = await reader.readexactly(2)
        assert 2 in await reader.readexactly(count)
        writer.write(b"\5\2")
        _, length = await reader.readexactly(2)
        user = await reader.readexactly(length)
        password = await reader.readexactly((await reader.readexactly(1))[0])
        writer.write(b"\1\0")
        *_, kind = await reader.readexactly(4)
        host = await reader.readexactly({1: 4, 4: 16}.get(kind) or (await reader.readexactly(1))[0])
        port = int.from_bytes(await reader.readexactly(2), "big")
        self.asked.append(b"%s:%s %d %s:%d" % (user, password, kind, host, port))
        writer.write(b"\5\0\0\1\0\0\0\0\0\0")
        await self._join(reader, writer)

    async def _join(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        beyond, onward = await asyncio.open_connection(*self.target)

        async def copy(source: asyncio.StreamReader, to: asyncio.StreamWriter) -> None:
            while data := await source.read(65536):
                to.write(data)
                await to.drain()

        copies = [asyncio.ensure_future(copy(*each)) for each in ((reader, onward), (beyond, writer))]
        try:
            await asyncio.wait(copies, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for each in copies:
                each.cancel()
            onward.transport.abort()
