"""A name that one process of a network namespace can have: an abstract UNIX socket (unix(7)).

It needs no file, and the kernel frees it with the last process that holds the socket: whoever inherits the socket has
the name too.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket

_LONGEST = 107  # bytes


def address(name: bytes) -> bytes | None:
    """Where ``name`` is bound; None on systems without such addresses, where nobody keeps anybody from a name."""
    if sys.platform != "linux":
        return None
    found = b"\0kleader/" + name
    if len(found) > _LONGEST:
        import _blake2  # noqa: PLC0415 - hashlib's own, without the libraries that it loads

        found = b"\0kleader/" + _blake2.blake2b(found, digest_size=32).hexdigest().encode()
    return found


def had(sock: socket.socket) -> bytes:
    """The address that the socket has; b"" if none."""
    return bytes(sock.getsockname() or b"")


def claim(sock: socket.socket, wanted: bytes | None) -> bool:
    """Take the address, or have it already; False while somebody else has it."""
    if wanted is None:
        return True
    try:
        sock.bind(wanted)
    except OSError:
        return had(sock) == wanted
    return True
