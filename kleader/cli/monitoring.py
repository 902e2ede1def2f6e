"""What --http and --state-file need: checked, and held, before the lock is touched."""

from __future__ import annotations

import os
import socket

from kleader.cli.console import fail
from kleader.exits import FAILED

_BACKLOG = 64
_STATE_BYTES = 4096  # no state is longer


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


def state_file_problem(path: str) -> tuple[str, str]:
    """Why no file can be replaced there, and how to fix it; "" if no reason is known."""
    directory = os.path.dirname(path)
    if os.path.isdir(path):
        return "it is a directory", "give a file in it"
    if not os.path.isdir(directory):
        return f"there is no directory {directory}", "create it, or choose another"
    if not os.access(directory, os.W_OK | os.X_OK):
        return f"the directory {directory} is not writable", "choose another directory"
    return "", ""


def disk_problem(path: str) -> str:
    """Why a write there would fail now, and how to fix it; "" if it would not. A nameless file is written."""
    import tempfile

    try:
        with tempfile.TemporaryFile(dir=os.path.dirname(path), buffering=0) as nameless:
            nameless.write(bytes(_STATE_BYTES))
    except OSError as error:
        return f"{error.strerror}: make room in {os.path.dirname(path)}, or choose another directory"
    return ""


def check_file(option: str, path: str) -> list[str]:
    """Warnings about the file of --state-file or --metrics-file; exits if it can never be written."""
    problem, fix = state_file_problem(path)
    if problem:
        fail(f"{option} {path}: {problem}: {fix}", FAILED)
    full = disk_problem(path)
    return [f"{option} {path} cannot be written now: {full}"] if full else []
