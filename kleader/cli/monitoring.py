"""What --http and --state-file need: checked, and held, before the lock is touched."""

from __future__ import annotations

import errno
import os
import socket

from kleader.cli.console import fail
from kleader.exits import FAILED

_BACKLOG = 64
_STATE_BYTES = 4096  # no state is longer
_PASSES = {errno.ENOSPC, errno.EDQUOT, errno.EIO}


def bind(address: tuple[str, int]) -> socket.socket:
    """A listening socket; OSError."""
    host, port = address
    everywhere = not host and socket.has_dualstack_ipv6()
    family = socket.AF_INET6 if everywhere or ":" in host else socket.AF_INET
    return socket.create_server((host, port), family=family, backlog=_BACKLOG, dualstack_ipv6=everywhere)


def listen(address: tuple[str, int]) -> tuple[int, str]:
    """A listening socket's descriptor, which exec keeps, and its address; exits if there is none.

    The exporter may be replaced: connections wait in the socket meanwhile.
    """
    try:
        sock = bind(address)
    except OSError as error:
        fail(f"--http {address_text(*address)}: {reason(error)}: choose another address or port", FAILED)
    os.set_inheritable(sock.fileno(), True)
    bound = address_text(address[0], sock.getsockname()[1])
    return sock.detach(), bound


def reason(error: OSError) -> str:
    """The system's text, without what create_server adds."""
    return os.strerror(error.errno) if error.errno else str(error)


def address_text(host: str, port: int) -> str:
    """The address as a command line gives it."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def file_problem(path: str) -> tuple[str, bool]:
    """Why no file can be written there and how to fix it, "" if it can; whether it may pass, as a full disk does."""
    import tempfile

    directory = os.path.dirname(path)
    if os.path.isdir(path):
        return "it is a directory: give a file in it", False
    try:
        with tempfile.TemporaryFile(dir=directory, buffering=0) as nameless:
            nameless.write(bytes(_STATE_BYTES))
    except OSError as error:
        fix = f"make room in {directory}" if error.errno in _PASSES else f"make {directory} a writable directory"
        return f"{error.strerror}: {fix}, or choose another", error.errno in _PASSES
    return "", False


def check_file(option: str, path: str) -> list[str]:
    """Warnings about the file of --state-file or --metrics-file; exits if it can never be written."""
    problem, passes = file_problem(path)
    if problem and not passes:
        fail(f"{option} {path}: {problem}", FAILED)
    return [f"{option} {path} cannot be written now: {problem}"] if problem else []
