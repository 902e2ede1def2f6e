"""Lock files on this machine, read without locking them: the kernel lists the locks that are held.

Taking a lock for a moment would tell as much, and could make a candidate that tries only once fail.
"""

from __future__ import annotations

import asyncio
import os
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

from kleader.election.events import Kind
from kleader.election.record import Record
from kleader.kube.errors import LockError
from kleader.locks import file_lock, path_lock
from kleader.observe.snapshot import LockSnapshot, SourceUpdate

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from kleader.observe.snapshot import LockKey

_POLL_SECONDS = 0.25
_SUFFIX = ".lock"


class FileSource:
    """The lock file at ``path``; with a ``prefix``, the files NAMESPACE.NAME.lock of a directory that begin with it.

    ``name``: of the locks in the directory; "" for all.
    """

    skew = None  # the files' times are by this machine's clock

    def __init__(self, path: str, prefix: str | None = None, name: str = "") -> None:
        self._path, self._prefix, self._name = path, prefix, name

    async def poll(self) -> dict[LockKey, LockSnapshot]:
        """The locks whose files exist. LockError where one cannot be read, or where the system does not list locks."""
        try:
            held = _flocked_files()
            found = [snapshot for path in self._paths() if (snapshot := _read(path, held))]
        except OSError as error:
            raise LockError(Kind.DENIED, f"cannot read {error.filename or self._path}: {error.strerror}") from None
        return {snapshot.key: snapshot for snapshot in found}

    async def follow(self) -> AsyncGenerator[SourceUpdate, None]:
        """All locks, four times a second: the kernel does not notify observers."""
        while True:
            try:
                yield SourceUpdate({**await self.poll()}, is_complete=True)
            except LockError as error:
                yield SourceUpdate({}, error=error)
            await asyncio.sleep(_POLL_SECONDS)

    def _paths(self) -> list[str]:
        if self._prefix is None:
            return [self._path]
        try:
            files = sorted(os.listdir(self._path))
        except FileNotFoundError:
            return []
        named = [file for file in files if file.startswith(self._prefix) and self._name in {"", _lock_name(file)[1]}]
        return [os.path.join(self._path, file) for file in named if _lock_name(file)[1]]


def _lock_name(file: str) -> tuple[str, str]:
    """Namespace and name of the lock in NAMESPACE.NAME.lock; the name is "" for any other file."""
    namespace, _, name = file.removesuffix(_SUFFIX).partition(".")
    return (namespace, name) if file.endswith(_SUFFIX) else ("", "")


def _read(path: str, held: frozenset[str]) -> LockSnapshot | None:
    """The lock in a file; None where there is no file."""
    file = os.path.basename(path)
    namespace, name = _lock_name(file)
    if not name:
        namespace, name = "", file.removesuffix(_SUFFIX)
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        return None
    try:
        status = os.fstat(fd)
        written, holder = file_lock.read_record(fd), file_lock.last_holder(fd)
    finally:
        os.close(fd)
    runs, last_ended = tuple(file_lock.runs(written)), file_lock.number(written, "lastEnded")
    transitions = file_lock.number(written, "transitions") or 0
    device = f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}:{status.st_ino}"
    if device not in held and not path_lock.is_path_held(path):
        ended = runs[0].ended if runs and runs[0].token == written.get("token") else None
        free = LockSnapshot("file", namespace, name, Record(transitions=transitions), non_expiring=True, path=path)
        return replace(free, runs=runs, last_ended=last_ended, last_holder=holder, free_since=ended)
    record = Record(
        holder or "a process that has not said its name",
        acquired=file_lock.number(written, "acquireTime"),
        transitions=transitions,
    )
    incarnation = written.get("incarnation")
    incarnation = incarnation if isinstance(incarnation, str) else ""
    lock = LockSnapshot("file", namespace, name, record, incarnation, non_expiring=True, path=path)
    return replace(lock, runs=runs, last_ended=last_ended)


def _flocked_files() -> frozenset[str]:
    """Device and inode of each file that flock(2) locks, as proc_locks(5) writes them.

    Locks that processes of other PID namespaces hold may be missing.
    """
    if sys.platform != "linux":
        raise LockError(Kind.PERMANENT, "this system does not list locked files: ask for a lock at the API")
    with open("/proc/locks", encoding="utf-8") as lines:
        fields = [line.split() for line in lines]
    return frozenset(line[5] for line in fields if len(line) > 5 and line[1] == "FLOCK")  # noqa: PLR2004 - a waiting process's line has "->" there
