"""What a run needs so that others can watch it: held before the lock is touched."""

from __future__ import annotations

import os
import socket

from kleader.cli.say import FAILED, fail

_BACKLOG = 64


def bound(address: tuple[str, int]) -> socket.socket:
    """A socket that listens there. OSError where it cannot be had."""
    host, port = address
    everywhere = not host and socket.has_dualstack_ipv6()
    family = socket.AF_INET6 if everywhere or ":" in host else socket.AF_INET
    return socket.create_server((host, port), family=family, backlog=_BACKLOG, dualstack_ipv6=everywhere)


def listen(address: tuple[str, int]) -> tuple[int, str]:
    """The descriptor of such a socket, for the processes that follow, and where that is. Exits where it cannot be had.

    Whoever answers may be replaced: connections wait meanwhile.
    """
    try:
        sock = bound(address)
    except OSError as error:
        fail(f"--http {written(*address)}: {reason(error)}: choose another address or port", FAILED)
    where = written(address[0], sock.getsockname()[1])
    os.set_inheritable(sock.fileno(), True)
    return sock.detach(), where


def reason(error: OSError) -> str:
    """The system's own word, to which create_server adds."""
    return os.strerror(error.errno) if error.errno else str(error)


def trouble(path: str) -> tuple[str, str]:
    """Why no file could be replaced there, as far as looking can tell, and the mend; "" if nothing is known."""
    directory = os.path.dirname(path)
    if os.path.isdir(path):
        return "it is a directory", "name a file in it"
    if not os.path.isdir(directory):
        return f"there is no directory {directory}", "make it, or choose another"
    if not os.access(directory, os.W_OK | os.X_OK):
        return f"nothing can be written in {directory}", "choose another directory"
    return "", ""


def check_file(path: str) -> None:
    """Exits where :func:`trouble` is known."""
    why, mend = trouble(path)
    if why:
        fail(f"--state-file {path}: {why}: {mend}", FAILED)


def written(host: str, port: int) -> str:
    """As it is given on a command line."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
