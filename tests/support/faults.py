"""What a rule of HttpProxy does to a request: `proxy.on(faults.lose(), method="PUT")`."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

from tests.support.httpproxy import Closed, Exchange

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tests.support.httpproxy import Action, Request


def lose(then: str = "silent") -> Action:
    """Let the request happen and lose its answer: the connection then is "silent", "reset" or "close"d."""

    async def act(exchange: Exchange) -> None:
        await exchange.fetch()
        if then == "silent":
            await exchange.silence()
        raise Closed(hard=then == "reset")

    return act


def answer(status: int, body: bytes | Mapping[str, Any] = b"", headers: Mapping[str, str] | None = None) -> Action:
    """Answer so, in the server's place; a mapping is sent as JSON."""
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    given = {"Content-Type": "application/json", **(headers or {})}
    lines = [(name.encode(), value.encode()) for name, value in given.items()]

    async def act(exchange: Exchange) -> None:
        await exchange.reply(status, lines, content)

    return act


def raw(data: bytes) -> Action:
    """Send these bytes in the server's place, then close."""

    async def act(exchange: Exchange) -> None:
        await exchange.write(data)
        raise Closed

    return act


def cut(size: int) -> Action:
    """Let the request happen, send the answer's head and `size` bytes of its body, then close."""

    async def act(exchange: Exchange) -> None:
        status, _, body = await exchange.fetch()
        head = f"HTTP/1.1 {status} \r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        await exchange.write(head.encode() + body[:size])
        raise Closed

    return act


def slow(before: float = 0, after: float = 0) -> Action:
    """Wait `before` s until the request reaches the server, and `after` s until its answer goes back."""

    async def act(exchange: Exchange) -> None:
        await asyncio.sleep(before)
        got = await exchange.fetch()
        await asyncio.sleep(after)
        await exchange.reply(*got)

    return act


def hold() -> Action:
    """Keep the request from the server until rule.release()."""

    async def act(exchange: Exchange) -> None:
        assert exchange.rule is not None
        await exchange.rule.held()
        await exchange.relay()

    return act


def hold_answer() -> Action:
    """Let the request happen, and keep its answer until rule.release()."""

    async def act(exchange: Exchange) -> None:
        assert exchange.rule is not None
        got = await exchange.fetch()
        await exchange.rule.held()
        await exchange.reply(*got)

    return act


def closing() -> Action:
    """Pass the answer on with `Connection: close`, as an API server that goes down."""

    async def act(exchange: Exchange) -> None:
        status, headers, body = await exchange.fetch()
        await exchange.reply(status, [*headers, (b"Connection", b"close")], body)

    return act


def call(function: Callable[[Request], object]) -> Action:
    """Call `function(request)` in the proxy's thread, then pass the request on: to look at what is true just then.

    What it raises is raised by the proxy's stop().
    """

    async def act(exchange: Exchange) -> None:
        function(exchange.request)
        await exchange.relay()

    return act


def silence() -> Action:
    """Neither pass the request on nor answer it."""
    return Exchange.silence
