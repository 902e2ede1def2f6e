"""A call is bounded as a whole, happens once, and its answer is nobody else's. Over plain TCP, on this machine."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any, cast

import pytest

from kleader.election.events import Kind
from kleader.locks.answers import Server
from kleader.locks.api import Api
from kleader.locks.base import LockError
from kleader.locks.http import Endpoint
from tests.support.processes import PATIENCE

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from kleader.locks.credentials import Credentials

    Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"


class Access:
    """Stands for credentials."""

    server = Server("the API server", "--server", "--kubeconfig", "")
    fresh_for = None

    def __init__(self, port: int) -> None:
        self._endpoint = Endpoint("127.0.0.1", port, f"127.0.0.1:{port}", "", None, "", None)

    async def refresh(self) -> Endpoint:
        """The same all the time."""
        return self._endpoint

    def headers(self) -> list[tuple[str, str]]:
        """None."""
        return []


def against(serve: Serve, work: Callable[[Api], Awaitable[None]]) -> None:
    """Do this work with an API server that serves each connection so."""

    async def play() -> None:
        serving = set()

        async def served(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            serving.add(asyncio.current_task())
            with contextlib.suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
                await serve(reader, writer)
            writer.close()

        server = await asyncio.start_server(served, "127.0.0.1", 0)
        api = Api(cast("Credentials", Access(server.sockets[0].getsockname()[1])))
        await work(api)
        api.close()
        server.close()
        for each in serving:
            if each:
                each.cancel()
        for _ in range(10):  # turns of the loop, in which sockets are let go of
            await asyncio.sleep(0)

    asyncio.run(play())


def test_an_answer_that_trickles_in_is_bounded_as_a_whole() -> None:
    """Not only the gap between two of its bytes."""

    async def trickle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        for byte in HEAD % 100 + b"{}".ljust(100):
            writer.write(bytes([byte]))
            await writer.drain()
            await asyncio.sleep(0.02)

    async def work(api: Api) -> None:
        with pytest.raises(LockError) as error:
            await api.call("PUT", "/x", {}, 0.3)
        assert error.value.failure.kind is Kind.UNREACHABLE

    against(trickle, work)


def test_a_call_that_fails_is_not_repeated_behind_ones_back() -> None:
    """Whether it happened is for the election to find out."""
    asked: list[bytes] = []

    async def hang_up(reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
        asked.append(await reader.readuntil(b"\r\n\r\n"))

    async def work(api: Api) -> None:
        with pytest.raises(LockError):
            await api.call("PUT", "/x", {}, PATIENCE)

    against(hang_up, work)
    assert len(asked) == 1


def test_the_answer_to_a_call_that_was_given_up_is_nobodys() -> None:
    """It comes on the connection on which the next call would be sent."""

    async def late(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while head := await reader.readuntil(b"\r\n\r\n"):
            path = head.split()[1].decode()
            if path == "/first":
                await given_up.wait()
            said = b'{"of": "%s"}' % path.encode()
            writer.write(HEAD % len(said) + said)
            await writer.drain()

    async def work(api: Api) -> None:
        with pytest.raises(LockError):
            await api.call("GET", "/first", None, 0.2)
        given_up.set()
        found: dict[str, Any] = await api.call("GET", "/second", None, PATIENCE)
        assert found == {"of": "/second"}

    given_up = asyncio.Event()
    against(late, work)
