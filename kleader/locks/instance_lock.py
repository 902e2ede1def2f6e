"""A name that one process of a network namespace can have: an abstract UNIX socket (unix(7)).

It needs no file. The kernel frees it with the last process that has the socket, so a process that inherits the socket
has the name too. Abstract addresses have no permissions: a stranger in the same network namespace that knows the name
can take it first. So a name must have a part that strangers do not know, such as a Pod's uid, which is random and shown
only to those who may read the Pod or the node's /proc. A stranger that learns it can keep candidates of this Pod from
leading, until it ends; it cannot make two of them lead.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket

_MAX_ADDRESS_BYTES = 107


def address(name: bytes) -> bytes | None:
    """The address for a name; None where the system has no such addresses, and every process may have any name."""
    if sys.platform != "linux":
        return None
    found = b"\0kleader/" + name
    if len(found) > _MAX_ADDRESS_BYTES:
        import _blake2  # noqa: PLC0415 - hashlib would load OpenSSL

        found = b"\0kleader/" + _blake2.blake2b(found, digest_size=32).hexdigest().encode()
    return found


def held(sock: socket.socket) -> bytes:
    """The address that the socket has; b"" if none."""
    return bytes(sock.getsockname() or b"")


def acquire(sock: socket.socket, wanted: bytes | None) -> bool:
    """Bind the socket to the address, unless it is bound to it; False if another process has the address."""
    if wanted is None:
        return True
    try:
        sock.bind(wanted)
    except OSError:
        return held(sock) == wanted
    return True
