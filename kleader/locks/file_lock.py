"""A lock in a file of this machine: flock(2). The kernel decides who holds it.

It is free once no process has the open file. It is never unlocked, because that would free it for all processes that
inherited it, and never unlinked or replaced by rename. Another program may do that: kleader.locks.path_lock keeps a
candidate that then opens another file from leading.
"""

from __future__ import annotations

import errno
import fcntl
import functools
import json
import os
import stat

from kleader import system
from kleader.locks import run_history

_REMOTE_FILESYSTEMS = ("nfs", "cifs", "smb", "fuse", "9p", "virtiofs", "ceph", "lustre", "afs", "gfs", "ocfs")
OPEN_FLAGS = os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
_MAX_RECORD_BYTES = 1 << 16
MAGIC = "kleader"
_HEAD = b'{"kleader": 1'  # how each record begins: a record that a crash cut off is still kleader's
_MAX_TOKEN_LENGTH = 100
_MAX_HOLDER_LENGTH = 4096
_MAX_NUMBER = 2**62


class LockFileError(OSError):
    """A lock file or its place cannot be used; ``strerror`` is one line with a hint."""

    def __init__(self, message: str) -> None:
        super().__init__(0, message)


# --- the file


def user_directory() -> str:
    """The directory of this user's lock files, whatever the environment; "" if there is none.

    cron, a terminal and a service must find the same one, in a login session and after it: so it is not in /tmp, which
    a service may have for itself, and not in $XDG_RUNTIME_DIR.
    """
    user = os.geteuid()
    if user == 0:
        return "/run/kleader"
    home = _home(user)
    return os.path.join(home, ".local/state/kleader") if os.path.isabs(home) and os.path.isdir(home) else ""


@functools.cache  # the user database may be on a network, and a candidacy must not wait for it
def _home(user: int) -> str:
    import pwd  # noqa: PLC0415 - loads what /etc/nsswitch.conf names

    try:
        return pwd.getpwuid(user).pw_dir
    except KeyError:
        return ""


def default_path(namespace: str, name: str) -> str:
    """NAMESPACE.NAME.lock in the user's directory. LockFileError."""
    place = user_directory()
    if not place:
        raise LockFileError(
            f"user {os.geteuid()} has no home directory to keep the lock file in: give --lock file:PATH"
        )
    return f"{place}/{namespace}.{name}.lock"


def open_lock(path: str) -> int:
    """A descriptor of the lock file, which is created if missing, with the user's directory if it is in that.

    LockFileError.
    """
    place = os.path.dirname(path)
    try:
        if place == user_directory():
            _make_user_directory(place)
        fd = os.open(path, os.O_RDWR | os.O_CREAT | OPEN_FLAGS, 0o600)
    except LockFileError:
        raise
    except OSError as error:
        hint = "give --lock file:PATH in a directory that you can write to"
        if error.errno in {errno.EACCES, errno.EPERM} and os.path.lexists(path):
            owner = os.lstat(path).st_uid
            hint = (
                f"it belongs to user {owner}, who has to give this user access to it; or give another --lock file:PATH"
            )
        raise LockFileError(f"cannot open the lock file {path}: {error.strerror}: {hint}") from None
    if problem := _problem(fd, path):
        os.close(fd)
        raise LockFileError(problem)
    return fd


def _make_user_directory(path: str) -> None:
    make_directories(path)
    if problem := unsafe(path):
        raise LockFileError(problem)
    if os.lstat(path).st_mode & 0o077:
        os.chmod(path, 0o700)


def make_directories(path: str) -> None:
    """Create the directories that are missing, for this user alone."""
    mask = os.umask(0o077)
    try:
        os.makedirs(path, exist_ok=True)
    finally:
        os.umask(mask)


def unsafe(path: str) -> str:
    """Why another user could replace files in the user's directory, in one line; "" if none can."""
    found = os.lstat(path)
    if stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid() and not found.st_mode & 0o022:
        return ""
    hint = f"make it a directory that only user {os.geteuid()} can write to (chmod 700), or give --lock file:PATH"
    return f"{path} is not safe for lock files: {hint}"


def remote(filesystem: str) -> bool:
    """Whether machines whose kernels do not see each other's locks share a file system of this type."""
    return filesystem.startswith(_REMOTE_FILESYSTEMS)


def _problem(fd: int, path: str) -> str:
    """Why the open file cannot be a lock file, in one line; "" if it can."""
    found = os.fstat(fd)
    if not stat.S_ISREG(found.st_mode):
        return f"{path} is not a regular file: give another --lock file:PATH"
    kind = system.filesystem(found.st_dev)
    if remote(kind):
        hint = "give --lock file:PATH on a local file system, or --lock lease"
        return f"{path} is on {kind}, whose locks are unreliable: {hint}"
    content = os.pread(fd, len(_HEAD), 0)
    if content.strip(b"\0 \n") and content != _HEAD:
        return f"{path} has content that kleader did not write: give another --lock file:PATH"
    return ""


# --- the lock


def acquire(fd: int, *, wait: bool) -> bool:
    """Lock the file. Without ``wait`` False if another open file holds the lock."""
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError:
        return False
    return True


def in_place(fd: int, path: str) -> bool:
    """Whether the path still names the open file."""
    try:
        there = os.stat(path, follow_symlinks=False)
    except OSError:
        return False
    here = os.fstat(fd)
    return (there.st_dev, there.st_ino) == (here.st_dev, here.st_ino)


# --- the record, which decides nothing


def read_record(fd: int) -> dict[str, object]:
    """The record of the last leader; {} if there is none that is valid."""
    try:
        found = json.loads(os.pread(fd, _MAX_RECORD_BYTES, 0).strip(b"\0 \n"))
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) and MAGIC in found else {}


def last_holder(fd: int) -> str:
    """The identity of the last leader; "" if the file does not tell."""
    found = read_record(fd).get("holderIdentity")
    return found[:_MAX_HOLDER_LENGTH] if isinstance(found, str) else ""


def runs(record: dict[str, object]) -> list[run_history.Run]:
    """The latest runs, newest first."""
    return run_history.from_json(record.get("runs"))


def number(record: dict[str, object], name: str) -> int | None:
    """A number of the record; None if it is none, or absurd."""
    found = record.get(name)
    return found if isinstance(found, int) and not isinstance(found, bool) and 0 <= found < _MAX_NUMBER else None


def write_record(fd: int, record: dict[str, object], *, sync: bool = True) -> None:
    """Write the record in place and ``sync`` it to the disk. OSError if the disk is full or fails."""
    data = json.dumps({MAGIC: 1, **record}).encode() + b"\n"
    padded = data.ljust(os.fstat(fd).st_size, b" ")
    os.posix_fallocate(fd, 0, len(padded))  # a full disk must not cut the last record off
    written = os.pwrite(fd, padded, 0)
    if written != len(padded):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    if sync:
        os.fsync(fd)


def next_token(record: dict[str, object], wall: int) -> int:
    """The next fencing token: max(the record's + 1, ``wall``), ``wall`` in microseconds since the epoch."""
    previous = record.get("token")
    if isinstance(previous, str) and previous.isdecimal() and len(previous) <= _MAX_TOKEN_LENGTH:
        return max(int(previous) + 1, wall)
    return wall
