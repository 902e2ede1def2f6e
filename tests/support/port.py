"""Ports on loopback."""

from __future__ import annotations

import socket

LOOPBACK = "127.0.0.1"


class Port:
    """A TCP port on loopback that stays ours while its server is down.

    Bound, never listening: a connection to it is refused, and no outgoing connection can be given it (else one to
    itself may succeed). The server shares it by SO_REUSEPORT.
    """

    def __init__(self) -> None:
        self._socket = bound(0)
        self.number: int = self._socket.getsockname()[1]

    def close(self) -> None:
        self._socket.close()


def bound(port: int) -> socket.socket:
    """Return a socket bound to the port of a `Port`; 0 for a free one."""
    one = socket.socket()
    one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    one.bind((LOOPBACK, port))
    return one
