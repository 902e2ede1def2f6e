"""A call has one time limit, is sent once, and gets its own answer. Over plain TCP, on this machine."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any, cast

import pytest

from kleader.election.events import Kind
from kleader.kube.client import ApiClient
from kleader.kube.connection import Endpoint
from kleader.kube.errors import LockError, SetUpError, WatchError
from kleader.kube.responses import Server, ServerWarnings
from tests.support.processes import PATIENCE

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from kleader.kube.credentials import Credentials

    Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"


class Access:
    """Stands for credentials."""

    server = Server("the API server", "--server", "--kubeconfig", "")
    fresh_for = None
    warnings = ServerWarnings(lambda _: None)

    def __init__(self, port: int) -> None:
        self._endpoint = Endpoint("127.0.0.1", port, f"127.0.0.1:{port}", "", None, "", None)

    async def refresh(self) -> Endpoint:
        """The same all the time."""
        return self._endpoint

    def headers(self) -> list[tuple[str, str]]:
        """None."""
        return []


def against(serve: Serve, work: Callable[[ApiClient], Awaitable[None]]) -> None:
    """Do this work with an API server that serves each connection so."""

    async def play() -> None:
        serving = set()

        async def served(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            serving.add(asyncio.current_task())
            with contextlib.suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
                await serve(reader, writer)
            writer.close()

        server = await asyncio.start_server(served, "127.0.0.1", 0)
        api = ApiClient(cast("Credentials", Access(server.sockets[0].getsockname()[1])))
        await work(api)
        api.close()
        server.close()
        for each in serving:
            if each:
                each.cancel()
        for _ in range(10):  # turns of the loop, in which sockets are let go of
            await asyncio.sleep(0)

    asyncio.run(play())


def test_call_timeout_holds_for_a_response_that_trickles_in() -> None:
    """Not only the gap between two of its bytes."""

    async def trickle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        for byte in HEAD % 100 + b"{}".ljust(100):
            writer.write(bytes([byte]))
            await writer.drain()
            await asyncio.sleep(0.02)

    async def work(api: ApiClient) -> None:
        with pytest.raises(LockError) as error:
            await api.call("PUT", "/x", {}, 0.3)
        assert error.value.failure.kind is Kind.UNREACHABLE

    against(trickle, work)


def test_failed_call_is_never_repeated() -> None:
    """Whether it happened is for the election to find out."""
    asked: list[bytes] = []

    async def hang_up(reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
        asked.append(await reader.readuntil(b"\r\n\r\n"))

    async def work(api: ApiClient) -> None:
        with pytest.raises(LockError):
            await api.call("PUT", "/x", {}, PATIENCE)

    against(hang_up, work)
    assert len(asked) == 1


def test_late_response_is_not_taken_for_that_of_the_next_call() -> None:
    """It comes on the connection on which the next call would be sent."""

    async def late(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while head := await reader.readuntil(b"\r\n\r\n"):
            path = head.split()[1].decode().partition("?")[0]
            if path == "/first":
                await given_up.wait()
            said = b'{"of": "%s"}' % path.encode()
            writer.write(HEAD % len(said) + said)
            await writer.drain()

    async def work(api: ApiClient) -> None:
        with pytest.raises(LockError):
            await api.call("GET", "/first", None, 0.2)
        given_up.set()
        found: dict[str, Any] = await api.call("GET", "/second", None, PATIENCE)
        assert found == {"of": "/second"}

    given_up = asyncio.Event()
    against(late, work)


def test_bytes_that_no_call_asked_for_are_not_taken_for_the_next_response() -> None:
    """Such as a proxy sends that gives an idle connection up."""
    connections: list[int] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connections.append(1)
        while await reader.readuntil(b"\r\n\r\n"):
            said = b'{"of": %d}' % len(connections)
            writer.write(HEAD % len(said) + said + HEAD % 8 + b'{"of": 0}'[:8])
            await writer.drain()

    async def work(api: ApiClient) -> None:
        assert await api.call("GET", "/x", None, PATIENCE) == {"of": 1}
        assert await api.call("GET", "/x", None, PATIENCE) == {"of": 2}

    against(serve, work)


def test_a_watch_without_credentials_ends_with_their_error() -> None:
    """A kubeconfig that is replaced by one that cannot be read, say."""

    async def work(api: ApiClient) -> None:
        async def refuse() -> None:
            raise SetUpError("cannot use the kubeconfig")

        api.credentials.refresh = refuse  # type: ignore[assignment,method-assign]
        with pytest.raises(WatchError, match="cannot use the kubeconfig") as error:
            await anext(api.watch("/x?watch=1", PATIENCE))
        assert not error.value.ended.denied

    against(lambda *_: asyncio.sleep(0), work)


def test_writes_name_the_field_manager_and_calls_their_timeout() -> None:
    """The User-Agent may be a proxy's. A watch is not bounded by the time that its beginning has."""
    asked: list[str] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while head := await reader.readuntil(b"\r\n\r\n"):
            line, *_ = head.decode().splitlines()
            asked.append(line.removesuffix(" HTTP/1.1"))
            if "content-length: 2" in head.decode().lower():
                await reader.readexactly(2)
            writer.write(HEAD % 2 + b"{}")
            await writer.drain()

    async def work(api: ApiClient) -> None:
        for method, target, body in (
            ("GET", "/x", None), ("GET", "/x?limit=2", None), ("DELETE", "/x", {}), ("DELETE", "/x", None),
            ("PUT", "/x", {}), ("POST", "/x?dryRun=All", {}), ("PATCH", "/x", {}),
        ):  # fmt: skip
            assert await api.call(method, target, body, PATIENCE + 0.0004) == {}
        async with contextlib.aclosing(api.watch("/x?watch=1", PATIENCE)) as events:
            assert [kind async for kind, _ in events] == ["BOOKMARK"], "it has begun"

    against(answer, work)
    time, manager = f"timeout={PATIENCE * 1000:.0f}ms", "fieldManager=kleader"
    assert asked == [
        f"GET /x?{time}",
        f"GET /x?limit=2&{time}",
        f"DELETE /x?{time}",
        f"DELETE /x?{time}",
        f"PUT /x?{time}&{manager}",
        f"POST /x?dryRun=All&{time}&{manager}",
        f"PATCH /x?{time}&{manager}",
        "GET /x?watch=1",
    ]
