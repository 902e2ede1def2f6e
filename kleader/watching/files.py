"""Lock files, as somebody sees them who takes no part: the kernel's own lists say which are held, nothing is locked.

A momentary lock would tell as well, and be in the way of a candidate that tries once.
"""

from __future__ import annotations

import asyncio
import os
import sys
from typing import TYPE_CHECKING

from kleader.election.events import Kind
from kleader.election.record import Record
from kleader.locks import file
from kleader.locks.base import LockError
from kleader.watching.seen import Seen
from kleader.watching.source import News

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from kleader.watching.seen import Key

_EVERY = 0.25  # seconds
_ENDING = ".lock"


class Files:
    """One lock file, or all of a directory, NAMESPACE.NAME.lock, that begin with ``prefix``; ``name``: "" for any."""

    def __init__(self, path: str, prefix: str | None = None, name: str = "") -> None:
        self._path, self._prefix, self._name = path, prefix, name

    skew = None  # there is one clock

    async def look(self) -> tuple[dict[Key, Seen], str]:
        """Those that are there. LockError where one cannot be read."""
        try:
            held = _locked()
            found = [seen for path in self._paths() if (seen := _look(path, held))]
        except OSError as error:
            raise LockError(Kind.DENIED, f"cannot read {error.filename or self._path}: {error.strerror}") from None
        return {seen.key: seen for seen in found}, ""

    async def follow(self) -> AsyncGenerator[News, None]:
        """All that there are, again and again: the kernel tells nobody who does not lock."""
        while True:
            try:
                yield News(dict((await self.look())[0]), whole=True)
            except LockError as error:
                yield News({}, trouble=error)
            await asyncio.sleep(_EVERY)

    def _paths(self) -> list[str]:
        if self._prefix is None:
            return [self._path]
        try:
            names = sorted(os.listdir(self._path))
        except FileNotFoundError:
            return []
        found = [each for each in names if each.startswith(self._prefix) and _is_lock(each)]
        return [os.path.join(self._path, each) for each in found if self._name in {"", _parts(each)[1]}]


def _is_lock(name: str) -> bool:
    return name.endswith(_ENDING) and "." in name.removesuffix(_ENDING)


def _parts(name: str) -> tuple[str, str]:
    """Namespace and name of the lock in a file of this name."""
    namespace, _, lock = name.removesuffix(_ENDING).partition(".")
    return namespace, lock


def _look(path: str, held: frozenset[str]) -> Seen | None:
    """The lock in a file; None where there is no file."""
    base = os.path.basename(path)
    namespace, name = _parts(base) if _is_lock(base) else ("", base.removesuffix(_ENDING))
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        return None
    try:
        found = os.fstat(fd)
        record, holder = file.read(fd) or {}, file.holder(fd)
    finally:
        os.close(fd)
    shown = {"@" + each[1:].decode(errors="replace") for each in file.addresses(path)}
    device = f"{os.major(found.st_dev):02x}:{os.minor(found.st_dev):02x}:{found.st_ino}"
    if not held & {device, *shown}:
        return Seen("file", namespace, name, lasting=True, path=path)
    incarnation = record.get("incarnation")
    return Seen(
        "file",
        namespace,
        name,
        Record(
            holder or "a process that has not said its name",
            acquired=file.number(record, "acquireTime"),
            transitions=file.number(record, "transitions") or 0,
        ),
        incarnation if isinstance(incarnation, str) else "",
        lasting=True,
        path=path,
    )


def _locked() -> frozenset[str]:
    """The device and inode of each file that is locked by flock(2) (proc_locks(5)), and the abstract sockets' names.

    What other PID and network namespaces have is not among them.
    """
    if sys.platform != "linux":
        raise LockError(Kind.HOPELESS, "this system does not tell which files are locked: ask for a lock at the API")
    with open("/proc/locks", encoding="utf-8") as lines:
        fields = [line.split() for line in lines]
    files = {each[5] for each in fields if len(each) > 5 and each[1] == "FLOCK"}  # noqa: PLR2004 - who waits has "->"
    with open("/proc/net/unix", encoding="utf-8", errors="replace") as lines:
        named = [line.rstrip("\n").split(maxsplit=7) for line in lines if "@kleader/" in line]
    sockets = {each[7] for each in named if len(each) > 7}  # noqa: PLR2004 - others' names may hold line ends
    return frozenset(files | sockets)
