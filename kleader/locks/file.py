"""The lock in a file on this machine: flock(2), and the kernel decides.

It is free once no process holds the open file. It is never unlocked (any process that inherited it would free it for
all), never unlinked and never replaced by rename. Somebody else may do that, or make the path lead elsewhere: then
path and lock part, and a newcomer would lock another file. So a leader also holds abstract UNIX sockets (unix(7)) named
after the path and the directory, which need no file and are freed by the kernel like the lock. They reach as far as the
network namespace.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import stat

from kleader import platform
from kleader.locks import abstract

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
    from collections.abc import Sequence

_REFUSED = ("nfs", "cifs", "smb", "fuse", "9p", "virtiofs", "ceph", "lustre", "afs", "gfs", "ocfs")
_MOST = 1 << 16  # bytes of a record
ADDRESSES = 4  # of a path, at most
MAGIC = "kleader"
_HEAD = b'{"kleader": 1'  # begins each record: one that was torn by a crash is still ours
_LONGEST_TOKEN = 100
_LONGEST_HOLDER = 4096  # characters
_GREATEST = 2**62  # of what is no token


class LockFileError(OSError):
    """A lock file that cannot serve; ``strerror`` is one line with the mend."""

    def __init__(self, message: str) -> None:
        super().__init__(0, message)


def default_path(namespace: str, name: str) -> str:
    """/run/kleader/NAMESPACE.NAME.lock for root, under $XDG_RUNTIME_DIR for others. LockFileError without it."""
    if os.geteuid() == 0:
        return f"/run/kleader/{namespace}.{name}.lock"
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    if not runtime:
        msg = "XDG_RUNTIME_DIR is not set, so there is no place of yours for the lock file: give --lock file:PATH"
        raise LockFileError(msg)
    return f"{runtime}/kleader/{namespace}.{name}.lock"


def open_lock(path: str, *, make_directory: bool) -> int:
    """A descriptor of the lock file, made if missing. LockFileError says what is wrong with the place or file."""
    try:
        if make_directory:
            os.makedirs(os.path.dirname(path), 0o700, exist_ok=True)
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK, 0o600)
    except OSError as error:
        mend = "give --lock file:PATH in a directory that you can write to"
        raise LockFileError(f"cannot open the lock file {path}: {error.strerror}: {mend}") from None
    if problem := _problem(fd, path):
        os.close(fd)
        raise LockFileError(problem)
    return fd


def remote(filesystem: str) -> bool:
    """Whether a file system of this type is shared with machines whose kernels do not see each other's locks."""
    return filesystem.startswith(_REFUSED)


def _problem(fd: int, path: str) -> str:
    """Why this file cannot serve, in one line; empty if it can."""
    found = os.fstat(fd)
    if not stat.S_ISREG(found.st_mode):
        return f"{path} is not a regular file: give another --lock file:PATH"
    kind = platform.filesystem(found.st_dev)
    if remote(kind):
        return f"{path} is on {kind}, where locks are not to be trusted: use a local file system, or --lock lease"
    content = os.pread(fd, len(_HEAD), 0)
    if content.strip(b"\0 \n") and content != _HEAD:
        return f"{path} holds something that kleader did not write: give another --lock file:PATH"
    return ""


def take(fd: int, *, wait: bool) -> bool:
    """Lock it. Without ``wait``, False if another open file holds the lock."""
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


def addresses(path: str) -> list[bytes]:
    """The abstract addresses that stand for this path, whatever file it names; none where there are no such addresses.

    The path as given, in this mount namespace: wherever it leads by now. As given and as resolved, on its device: in
    other mount namespaces too, where the device tells this path from another one of the same spelling. And the name in
    this very directory: by whatever path. In one order for all, so that of those who take some and wait for others
    none waits for one who waits for it.
    """
    given = os.path.abspath(path)
    directory, name = os.path.split(given)
    directory = os.path.realpath(directory)
    found = os.stat(directory)
    device = f"{found.st_dev:x}"
    names = (
        f"{_mount_namespace()}{given}",
        f"{device}{given}",
        f"{device}{directory}/{name}",
        f"{device}:{found.st_ino:x}/{name}",
    )
    made = (abstract.address(each.encode(errors="surrogateescape")) for each in names)
    return sorted({each for each in made if each})


def claim(sockets: Sequence[socket.socket], wanted: Sequence[bytes]) -> bool:
    """Take all of a path's addresses; False while a leader who lost its file, or its path, still holds one of them."""
    return all(abstract.claim(*each) for each in zip(sockets[: len(wanted)], wanted, strict=True))


def _mount_namespace() -> str:
    try:
        return os.readlink("/proc/self/ns/mnt")
    except OSError:  # a kernel without them: there is one
        return ""


def read(fd: int) -> dict[str, object] | None:
    """The record of the last leader, which decides nothing; None if there is none that can be read."""
    try:
        found = json.loads(os.pread(fd, _MOST, 0).strip(b"\0 \n"))
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) and MAGIC in found else None


def holder(fd: int) -> str:
    """The last leader's identity, as the record has it; "" if there is none."""
    found = (read(fd) or {}).get("holderIdentity")
    return found[:_LONGEST_HOLDER] if isinstance(found, str) else ""


def number(record: dict[str, object], name: str) -> int | None:
    """What can be counted on in it; None where that is nothing."""
    found = record.get(name)
    return found if isinstance(found, int) and not isinstance(found, bool) and 0 <= found < _GREATEST else None


def write(fd: int, record: dict[str, object]) -> None:
    """Write the record in place and have it on disk. OSError on a full or failing disk."""
    data = json.dumps({MAGIC: 1, **record}).encode() + b"\n"
    padded = data.ljust(os.fstat(fd).st_size, b" ")
    os.posix_fallocate(fd, 0, len(padded))  # there is room: the last record is not lost half-way
    written = os.pwrite(fd, padded, 0)
    if written != len(padded):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    os.fsync(fd)


def next_token(fd: int, wall: int) -> int:
    """A token greater than the last one in the file: max(previous + 1, microseconds since the epoch)."""
    previous = (read(fd) or {}).get("token")
    if isinstance(previous, str) and previous.isdecimal() and len(previous) <= _LONGEST_TOKEN:
        return max(int(previous) + 1, wall)
    return wall
