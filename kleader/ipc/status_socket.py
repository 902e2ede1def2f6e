"""The local socket on which each kleader answers ``kleader is-leader``: it writes its status once, and closes.

It is in $KLEADER_RUNTIME_DIR; else in /run/kleader, if that directory exists and is writable; else it has an abstract
address (unix(7)), which needs no disk and is visible in the whole network namespace, as in all containers of a Pod. The
addresses of several kleaders differ in a random part, after a label made from the lock's name.
"""

from __future__ import annotations

import errno
import json
import os
import re
import socket
import struct
import sys
import time
from types import SimpleNamespace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

RUNTIME_DIR = "KLEADER_RUNTIME_DIR"
_DEFAULT_DIR = "/run/kleader"
_ABSTRACT = "\0kleader/asked/"
_BACKLOG = 16
_MAX_LABEL_CHARS = 24  # an address has 107 bytes
_MAX_ANSWER_BYTES = 1 << 16
_LISTENING = 0x10000  # __SO_ACCEPTCON, in /proc/net/unix
# A line of that file; the addresses of other programs may hold anything, line ends too.
_ENTRY = re.compile(rf"\S+: \S+ \S+ ([0-9A-F]{{8}}) \S+ \S+ +\d+ @({re.escape(_ABSTRACT[1:])}\S+)")


def label(name: str) -> str:
    """The part of a lock's name that an address has room for; the answer holds the whole name."""
    return re.sub(r"[^A-Za-z0-9._-]", "_", name)[:_MAX_LABEL_CHARS]


# --- the kleader that answers


def listen(name: str) -> tuple[socket.socket, str]:
    """A listening socket for the lock of this name, and the file to remove at the end; "" if it has no file.

    Sockets of dead kleaders are removed from the directory, whatever their locks. OSError: there is no place for it.
    """
    unique = os.urandom(4).hex()
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    path = ""
    try:
        directory = os.environ.get(RUNTIME_DIR, "")
        if not directory and os.access(_DEFAULT_DIR, os.W_OK | os.X_OK):
            directory = _DEFAULT_DIR
        if directory:
            os.makedirs(directory, 0o755, exist_ok=True)
            _remove_dead(directory)
            path = os.path.join(directory, f"{label(name)}.{unique}.sock")
            unfinished = f"{path}~"
            sock.bind(unfinished)
            os.chmod(unfinished, 0o666)  # noqa: S103 - the directory's permissions decide who may ask
            sock.listen(_BACKLOG)
            os.rename(unfinished, path)  # only now: a socket that refuses counts as dead, and is removed
        elif sys.platform == "linux":
            sock.bind(f"{_ABSTRACT}{label(name)}/{unique}")
            sock.listen(_BACKLOG)
        else:
            sock.bind("")  # refused
    except OSError:
        sock.close()
        raise
    sock.setblocking(False)
    return sock, path


def _remove_dead(directory: str) -> None:
    for _, path in _socket_files(directory):
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
            sock.setblocking(False)
            try:
                if sock.connect_ex(path) == errno.ECONNREFUSED:
                    os.unlink(path)
            except OSError:  # another kleader has removed it, or it is another user's
                continue


# --- the process that asks


class Answer(SimpleNamespace):  # not a NamedTuple: typing takes longer than the answer
    """What one kleader says of itself."""

    lock: str  # for people: type, namespace and name
    name: str
    namespace: str
    role: str
    leads: bool  # and its kill_at has not passed
    identity: str
    file: str  # the lock file


def ask(name: str | None, timeout: float) -> tuple[list[Answer], set[str], set[int]]:
    """Ask all kleaders whose lock may have this name, or for None all; takes about ``timeout`` seconds at most.

    Returns the answers, the labels of kleaders that gave none that can be read in time, and the users whose sockets
    were not asked. In a directory its permissions decide who can answer. Any user can take an abstract address: there
    only root and the asking user are trusted.
    """
    asked_at = _clock()
    received, silent, untrusted_users = list[Answer](), set[str](), set[int]()
    connected = []
    for who, address in _addresses(None if name is None else label(name)):
        left = asked_at + timeout - _clock()
        try:
            sock = _connect(address, max(0.001, min(timeout / 4, left)))
        except BlockingIOError:
            silent.add(who)
            continue
        except OSError:  # it is dead
            continue
        if address[0] == "\0" and (user := _peer_user(sock)) not in {0, os.geteuid()}:
            untrusted_users.add(user)
            sock.close()
        else:
            connected.append((who, sock))
    for (
        who,
        sock,
    ) in connected:  # they answer side by side; an answer that waits meanwhile is read after the deadline too
        with sock:
            answer = parse(_receive(sock, asked_at + timeout), asked_at)
        if answer:
            received.append(answer)
        else:
            silent.add(who)
    return received, silent, untrusted_users


def parse(data: bytes, asked_at: float) -> Answer | None:
    """The answer, or None where the bytes are none.

    The status was written after ``asked_at``; so the time that it says is left is judged from then, by this process's
    clock, whatever the other's clock shows (a time namespace has its own).
    """
    try:
        status = json.loads(data)
        lock, namespace, name = (str(status[key]) for key in ("lock", "namespace", "name"))
        time_left = float("inf") if status["kill_at"] is None else status["kill_at"] - status["at"]
        leads = status["leads"] is True and time_left > _clock() - asked_at
        described = " ".join(filter(None, (lock or "without election", "/".join(filter(None, (namespace, name))))))
        identity, file = (str(status.get(key, "")) for key in ("identity", "file"))  # not of every version
        role = str(status["role"])
        return Answer(
            lock=described, name=name, namespace=namespace, role=role, leads=leads, identity=identity, file=file
        )
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
        return None


def _addresses(wanted: str | None) -> Iterator[tuple[str, str]]:
    """Labels and addresses: of all kleaders that listen, and of some that are dead."""
    directory = os.environ.get(RUNTIME_DIR, "")
    found = [*_socket_files(directory or _DEFAULT_DIR)]
    if not directory and sys.platform == "linux":
        found += _abstract_sockets()
    yield from ((who, address) for who, address in found if wanted in {None, who})


def _socket_files(directory: str) -> Iterator[tuple[str, str]]:
    try:
        files = sorted(os.listdir(directory))
    except OSError:
        return
    for file in files:
        who, _, unique = file.removesuffix(".sock").rpartition(".")
        if file.endswith(".sock") and unique:
            yield who, os.path.join(directory, file)


def _abstract_sockets() -> Iterator[tuple[str, str]]:
    try:
        with open("/proc/net/unix", encoding="utf-8", errors="replace") as file:
            entries = [entry for line in file if (entry := _ENTRY.fullmatch(line.rstrip("\n")))]
    except OSError:
        return
    for entry in entries:
        address = f"\0{entry[2]}"
        who, _, unique = address.removeprefix(_ABSTRACT).rpartition("/")
        if unique and int(entry[1], 16) & _LISTENING:
            yield who, address


def _connect(address: str, timeout: float) -> socket.socket:
    """BlockingIOError: its queue stays full. OSError: no process listens there."""
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        seconds, rest = divmod(int(timeout * 1_000_000), 1_000_000)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", seconds, rest))
        sock.connect(address)
    except OSError:
        sock.close()
        raise
    return sock


def _receive(sock: socket.socket, deadline: float) -> bytes:
    """All bytes until the end of the stream; after the deadline those that are there already."""
    data = b""
    while len(data) <= _MAX_ANSWER_BYTES:
        sock.settimeout(max(0.0, deadline - _clock()))
        try:
            piece = sock.recv(_MAX_ANSWER_BYTES)
        except OSError:
            break
        if not piece:
            break
        data += piece
    return data


def _peer_user(sock: socket.socket) -> int:
    """The user id of the process that listens at the other end."""
    credentials = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    return int(struct.unpack("3i", credentials)[1])


def _clock() -> float:
    """As kleader.system's, whose import takes longer than the answer."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))
