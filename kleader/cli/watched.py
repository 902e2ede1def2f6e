"""What a run needs so that others can watch it: held before the lock is touched."""

from __future__ import annotations

import os
import socket

from kleader.cli.say import FAILED, fail

_BACKLOG = 64


def listen(address: tuple[str, int]) -> tuple[int, str]:
    """The descriptor of a socket that listens there, for the processes that follow, and where that is.

    Whoever answers may be replaced: connections wait meanwhile. Exits where it cannot be had.
    """
    host, port = address
    everywhere = not host and socket.has_dualstack_ipv6()
    family = socket.AF_INET6 if everywhere or ":" in host else socket.AF_INET
    try:
        sock = socket.create_server((host, port), family=family, backlog=_BACKLOG, dualstack_ipv6=everywhere)
    except OSError as error:
        why = os.strerror(error.errno) if error.errno else error
        fail(f"--http {written(host, port)}: {why}: choose another address or port", FAILED)
    where = written(host, sock.getsockname()[1])
    os.set_inheritable(sock.fileno(), True)
    return sock.detach(), where


def check_file(path: str) -> None:
    """Whether a file could be replaced there, as far as looking can tell; exits where it cannot."""
    directory = os.path.dirname(path)
    why = ""
    if os.path.isdir(path):
        why = "it is a directory: name a file in it"
    elif not os.path.isdir(directory):
        why = f"there is no directory {directory}: make it, or choose another"
    elif not os.access(directory, os.W_OK | os.X_OK):
        why = f"nothing can be written in {directory}: choose another directory"
    if why:
        fail(f"--state-file {path}: {why}", FAILED)


def written(host: str, port: int) -> str:
    """As it is given on a command line."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
