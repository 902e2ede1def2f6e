"""A TCP proxy on loopback whose faults a test switches while it runs."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from typing import Literal

from tests.support.loopthread import LoopThread
from tests.support.port import LOOPBACK, Port, bound
from tests.support.processes import PATIENCE, wait_until

Mode = Literal["pass", "silent", "reset", "refuse", "delay", "trickle", "drop-answers"]


class Link:
    """One client's connection and the one made for it to the server."""

    def __init__(self, client: socket.socket) -> None:
        self.client = client
        self.server: socket.socket | None = None
        self.lossy = False  # bytes of it were dropped: it can never be whole again
        self.task: asyncio.Task[None] | None = None

    async def reset(self) -> None:
        """Close both ends with an RST."""
        if self.task:  # it must let go of the descriptors before they are closed: the next connection may get the same
            self.task.cancel()
            await asyncio.gather(self.task, return_exceptions=True)
        reset(self.client)
        if self.server:
            reset(self.server)


def reset(connection: socket.socket) -> None:
    """Close with an RST instead of a FIN."""
    abortive(connection)
    connection.close()


def abortive(connection: socket.socket) -> None:
    """Let the connection's close be an RST."""
    with contextlib.suppress(OSError):
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


class Proxy(LoopThread):
    """Passes bytes between clients and one server, as `switch` last said.

    | mode | connections there are | new connections |
    |---|---|---|
    | pass | bytes go both ways | likewise |
    | silent | nothing goes either way, no FIN either; all is held, and delivered when passing again | likewise |
    | reset | RST | accepted, RST |
    | refuse | RST | refused |
    | delay | every piece waits `seconds`, both ways | likewise |
    | trickle | the server's bytes come one each `seconds` (0.5) | likewise |
    | drop-answers | what the client sends arrives, the server's bytes are lost; RST at the next switch | likewise |
    """

    def __init__(self, host: str, port: int) -> None:
        self._upstream = (host, port)
        self._port = Port()
        self.port = self._port.number
        self.url = f"https://{LOOPBACK}:{self.port}"
        self.mode: Mode = "pass"
        self.connections = 0
        self._seconds = 0.0
        self._links: set[Link] = set()
        self._accepting: asyncio.Task[None] | None = None
        self._listener: socket.socket | None = None
        self._switched = asyncio.Event()

    def switch(self, mode: Mode, seconds: float = 0.5) -> None:
        """Change the mode; it holds for every byte when this returns."""

        async def change() -> None:
            self.mode, self._seconds = mode, seconds
            if mode == "refuse":
                self._deafen()  # first: a client that was reset connects again at once
            for link in list(self._links):
                if mode in {"reset", "refuse"} or link.lossy:
                    await link.reset()
            if mode != "refuse":
                self._listen()
            self._switched.set()
            self._switched = asyncio.Event()

        self.run(change())

    def reset_connections(self) -> None:
        """Reset every connection there is, once; new ones are not affected."""

        async def cut() -> None:
            for link in list(self._links):
                await link.reset()

        self.run(cut())

    def wait_connections(self, number: int, timeout: float = PATIENCE) -> None:
        """Return once `number` connections have been accepted since the start."""
        wait_until(lambda: self.connections >= number, f"{number} connections", timeout)

    # --- in the loop
    async def open(self) -> None:
        self._listen()

    async def shut(self) -> None:
        self._deafen()
        for link in list(self._links):
            await link.reset()
        self._port.close()

    def _listen(self) -> None:
        if self._listener is None:
            self._listener = bound(self.port)
            self._listener.listen(1024)
            self._listener.settimeout(0)
            self._accepting = asyncio.ensure_future(self._accept(self._listener))

    def _deafen(self) -> None:
        if self._listener is not None and self._accepting is not None:
            self._accepting.cancel()
            self._listener.close()
            self._listener = None

    async def _accept(self, listener: socket.socket) -> None:
        while True:
            client, _ = await asyncio.get_running_loop().sock_accept(listener)
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.connections += 1
            if self.mode == "reset":
                reset(client)
                continue
            link = Link(client)
            self._links.add(link)
            link.task = asyncio.ensure_future(self._carry(link))

    async def _carry(self, link: Link) -> None:
        server = link.server = socket.socket()
        server.settimeout(0)
        server.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        pumps: list[asyncio.Task[None]] = []
        try:
            while self.mode == "silent":
                await self._switched.wait()
            await asyncio.get_running_loop().sock_connect(server, self._upstream)
            ends = ((link.client, server), (server, link.client))
            pumps = [asyncio.ensure_future(self._pump(link, *pair)) for pair in ends]
            await asyncio.gather(*pumps)
        except (OSError, asyncio.CancelledError):
            abortive(link.client)
            abortive(server)
        finally:
            for pump in pumps:
                pump.cancel()
            await asyncio.gather(*pumps, return_exceptions=True)
            link.client.close()
            server.close()
            self._links.discard(link)

    async def _pump(self, link: Link, source: socket.socket, sink: socket.socket) -> None:
        """Carry one direction up to its FIN."""
        loop = asyncio.get_running_loop()
        while data := await loop.sock_recv(source, 65536):
            await self._deliver(link, sink, data)
        while self.mode == "silent":
            await self._switched.wait()
        with contextlib.suppress(OSError):
            sink.shutdown(socket.SHUT_WR)

    async def _deliver(self, link: Link, sink: socket.socket, data: bytes) -> None:
        loop = asyncio.get_running_loop()
        answer = sink is link.client
        while data:
            switched = self._switched
            if self.mode == "silent":
                await switched.wait()
            elif self.mode == "drop-answers" and answer:
                link.lossy = True
                return
            elif self.mode == "trickle" and answer:
                await loop.sock_sendall(sink, data[:1])
                data = data[1:]
                await self._pause(switched)
            elif self.mode == "delay" and await self._pause(switched):
                continue
            else:
                await loop.sock_sendall(sink, data)
                return

    async def _pause(self, switched: asyncio.Event) -> bool:
        """Wait `seconds`; tell whether the mode was switched meanwhile."""
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(switched.wait(), self._seconds)
        return switched.is_set()
