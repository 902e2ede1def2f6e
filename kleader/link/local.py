"""Where a kleader tells what it does to whoever asks on this machine: a socket that answers once and closes.

It is in $KLEADER_RUNTIME_DIR; else in /run/kleader, if that is there and may be written; else it is an abstract one
(unix(7)), which needs no disk and reaches as far as the network namespace: through a whole Pod. Any number of kleaders
have theirs side by side, each begun with the name of its lock.
"""

from __future__ import annotations

import errno
import json
import os
import re
import select
import socket
import struct
import sys
import time
from typing import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

RUNTIME_DIR = "KLEADER_RUNTIME_DIR"
_USUAL = "/run/kleader"
_ABSTRACT = "\0kleader/asked/"
_BACKLOG = 16
_LONGEST_NAME = 24  # characters of a lock's name: an address has 107 bytes
_MOST = 1 << 16  # bytes of an answer
_LISTENING = 0x10000  # __SO_ACCEPTCON, in /proc/net/unix
# A line of it: others' names may hold anything, line ends too.
_SHOWN = re.compile(rf"\S+: \S+ \S+ ([0-9A-F]{{8}}) \S+ \S+ +\d+ @({re.escape(_ABSTRACT[1:])}\S+)")


# --- who is asked


def listen(name: str) -> tuple[socket.socket, str]:
    """A socket that is found by the lock's name, and the file to remove at the end; "" if there is none.

    OSError where there is no place for it. A file that a dead kleader of this lock has left is removed.
    """
    unique = os.urandom(4).hex()
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    path = ""
    try:
        if directory := os.environ.get(RUNTIME_DIR, "") or _usual():
            os.makedirs(directory, 0o755, exist_ok=True)
            _tidy(directory, short(name))
            path = os.path.join(directory, f"{short(name)}.{unique}.sock")
            hidden = f"{path}~"
            sock.bind(hidden)
            os.chmod(hidden, 0o666)  # noqa: S103 - the directory says who may ask
            sock.listen(_BACKLOG)
            os.rename(hidden, path)  # by now: one that refuses is dead, and may be tidied away
        elif sys.platform == "linux":
            sock.bind(f"{_ABSTRACT}{short(name)}/{unique}")
            sock.listen(_BACKLOG)
        else:
            sock.bind("")  # refused
    except OSError:
        sock.close()
        raise
    sock.setblocking(False)
    return sock, path


def _usual() -> str:
    return _USUAL if os.access(_USUAL, os.W_OK | os.X_OK) else ""


def short(name: str) -> str:
    """What of a name is in the address: enough to leave most others unasked; the answer has all of it."""
    return re.sub(r"[^A-Za-z0-9._-]", "_", name)[:_LONGEST_NAME]


def _tidy(directory: str, wanted: str) -> None:
    for _, each in _files(directory, wanted):
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
            sock.setblocking(False)
            try:
                if sock.connect_ex(each) == errno.ECONNREFUSED:
                    os.unlink(each)
            except OSError:  # another kleader was faster, or it is another user's
                continue


# --- who asks


class Answer(NamedTuple):
    """What one kleader says of itself."""

    lock: str  # for people: type, namespace and name
    name: str
    namespace: str
    role: str
    leads: bool  # it still does by now


class Answers(NamedTuple):
    """What was answered in time; the short names of who did not; and the users whose sockets are not to be trusted."""

    given: list[Answer]
    silent: set[str]
    strangers: set[int]


def ask(name: str | None, seconds: float) -> Answers:
    """Ask all whose lock may have this name (None: all that there are); takes about so long at most.

    An abstract address is anybody's to take: only root and the asking user are believed there. In a directory its
    permissions decide.
    """
    began = _clock()
    asked, silent, strangers = _asked(name, seconds)
    poll = select.poll()
    for fd in asked:
        poll.register(fd, select.POLLIN)
    given = []
    while asked and (left := began + seconds - _clock()) > 0:
        for fd, _ in poll.poll(left * 1000):
            if asked[fd].complete():
                poll.unregister(fd)
                one = asked.pop(fd)
                if answer := one.answer(began):
                    given.append(answer)
                else:
                    silent.add(one.about)
    for each in asked.values():
        silent.add(each.about)
        each.close()
    return Answers(given, silent, strangers)


def _asked(name: str | None, seconds: float) -> tuple[dict[int, _Asked], set[str], set[int]]:
    """Who listens, by descriptor; the short names of those whose queue is full; the users that are not believed."""
    until = _clock() + seconds
    asked, silent, strangers = dict[int, _Asked](), set[str](), set[int]()
    for about, address in _addresses(None if name is None else short(name)):
        try:
            sock = _connected(address, max(0.001, min(seconds / 4, until - _clock())))
        except BlockingIOError:
            silent.add(about)
            continue
        except OSError:  # it is dead
            continue
        if address[0] == "\0" and (user := _user(sock)) not in {0, os.geteuid()}:
            strangers.add(user)
            sock.close()
        else:
            asked[sock.fileno()] = _Asked(about, sock)
    return asked, silent, strangers


class _Asked:
    """One that was asked, and what it has said so far."""

    def __init__(self, about: str, sock: socket.socket) -> None:
        self.about = about
        self._socket, self._said = sock, b""

    def complete(self) -> bool:
        """Take in what has come; whether there will be no more."""
        try:
            piece = self._socket.recv(_MOST, socket.MSG_DONTWAIT)
        except OSError:
            piece = b""
        self._said += piece
        return not piece or len(self._said) > _MOST

    def answer(self, asked_at: float) -> Answer | None:
        """None where it is none. What it takes for now was later than ``asked_at``, whatever its clock shows."""
        self.close()
        try:
            told = json.loads(self._said)
            lock, namespace, name = (str(told[key]) for key in ("lock", "namespace", "name"))
            time_left = float("inf") if told["kill_at"] is None else told["kill_at"] - told["at"]
            leads = told["leads"] is True and time_left > _clock() - asked_at
            which = " ".join(filter(None, (lock or "without election", "/".join(filter(None, (namespace, name))))))
            return Answer(which, name, namespace, str(told["role"]), leads)
        except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
            return None

    def close(self) -> None:
        """Ask no more."""
        self._socket.close()


def _addresses(wanted: str | None) -> Iterator[tuple[str, str]]:
    """Short names and addresses, of all that listen and of some that are dead."""
    directory = os.environ.get(RUNTIME_DIR, "")
    yield from _files(directory or _USUAL, wanted)
    if directory or sys.platform != "linux":
        return
    try:
        with open("/proc/net/unix", encoding="utf-8", errors="replace") as file:
            entries = [entry for line in file if (entry := _SHOWN.fullmatch(line.rstrip("\n")))]
    except OSError:
        return
    for entry in entries:
        path = f"\0{entry[2]}"
        about, _, unique = path.removeprefix(_ABSTRACT).rpartition("/")
        if unique and int(entry[1], 16) & _LISTENING and wanted in {None, about}:
            yield about, path


def _files(directory: str, wanted: str | None) -> Iterator[tuple[str, str]]:
    try:
        names = sorted(os.listdir(directory))
    except OSError:
        return
    for name in names:
        about, _, unique = name.removesuffix(".sock").rpartition(".")
        if name.endswith(".sock") and unique and wanted in {None, about}:
            yield about, os.path.join(directory, name)


def _connected(address: str, patience: float) -> socket.socket:
    """BlockingIOError: its queue is full. OSError: nobody listens there."""
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        seconds, rest = divmod(int(patience * 1_000_000), 1_000_000)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", seconds, rest))
        sock.connect(address)
    except OSError:
        sock.close()
        raise
    return sock


def _user(sock: socket.socket) -> int:
    """Who listens at the other end."""
    credentials = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    return int(struct.unpack("3i", credentials)[1])


def _clock() -> float:
    """As kleader.platform's, which takes longer to import than the answer takes to come."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))
