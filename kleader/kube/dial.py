"""Opens a TCP connection to whichever address of a host answers first (RFC 8305)."""

from __future__ import annotations

import asyncio
import socket
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable

P = TypeVar("P", bound=asyncio.Protocol)
_NEXT_ADDRESS_SECONDS = 0.25  # until the next address is tried beside a silent one


async def dial(
    protocol: Callable[[], P], host: str, port: int, tls: ssl.SSLContext | None, server_name: str
) -> tuple[asyncio.Transport, P]:
    """Connect a new protocol to the host. OSError if no address answers; the caller bounds the time."""
    loop = asyncio.get_running_loop()
    try:
        addresses = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)
    except socket.gaierror:  # a name, not an address: its resolution may hang, so it takes a thread
        addresses = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    sock = await _first_connected(addresses)
    return await loop.create_connection(protocol, sock=sock, ssl=tls, server_hostname=server_name if tls else None)


async def _first_connected(addresses: list[Any]) -> socket.socket:
    """A socket that is connected to the first address that answers.

    create_connection's happy_eyeballs_delay leaks a socket when it is cancelled.
    """
    untried, attempts, failures = [*addresses], set[asyncio.Task[socket.socket]](), list[BaseException]()
    try:
        while untried or attempts:
            if untried:
                attempts.add(asyncio.ensure_future(_connected(*untried.pop(0))))
            wait = _NEXT_ADDRESS_SECONDS if untried else None
            done, _ = await asyncio.wait(attempts, timeout=wait, return_when=asyncio.FIRST_COMPLETED)
            for attempt in done:
                attempts.remove(attempt)
                if not (error := attempt.exception()):
                    return attempt.result()
                failures.append(error)
    finally:  # also another attempt that has connected at the same time
        for attempt in attempts:
            attempt.cancel()
            attempt.add_done_callback(_close_socket)
    raise failures[0] if len(set(map(str, failures))) == 1 else OSError("; ".join(map(str, failures)))


def _close_socket(attempt: asyncio.Task[socket.socket]) -> None:
    if not attempt.cancelled() and not attempt.exception():
        attempt.result().close()


async def _connected(family: int, kind: int, protocol: int, _name: str, address: Any) -> socket.socket:  # noqa: ANN401
    sock = socket.socket(family, kind, protocol)
    try:
        sock.setblocking(False)
        await asyncio.get_running_loop().sock_connect(sock, address)
    except BaseException:
        sock.close()
        raise
    return sock
