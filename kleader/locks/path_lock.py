"""The lock on the path of a lock file, in addition to the lock on the file.

The file may be removed or replaced, or the path may lead elsewhere: then a new candidate would lock another file.
So a leader also locks the path: bytes, at offsets that are hashes of the path and its directory, in a file that no
other user can open. They are locks of an open file description (fcntl(2)), which the kernel frees with the last process
that has it.
"""

from __future__ import annotations

import fcntl
import os
import stat
import struct
import sys

from kleader import system
from kleader.locks import file_lock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

_OFD_GETLK, _OFD_SETLK = 36, 37  # <fcntl.h>; Python has them only if its headers did
_FLOCK = "hhqqi4x"  # struct flock: type, whence, start, length, pid
UNGUARDED = (
    "no file can be made that this user alone may open, neither in its home directory nor beside the lock file: if the"
    " lock file is removed or replaced, another candidate may lead before this one notices"
)


def open_path_locks(path: str, *, read_only: bool = False) -> list[int]:
    """Descriptors of the files in which this user's leaders lock their paths.

    One is beside the user's directory, and outlives the lock file's directory. One is in the lock file's directory,
    where containers and users without a home directory find it. For a lock file in /run they are one file, opened once:
    two open files would keep each other from a byte. ``read_only``: none is created, and they serve only
    :func:`is_path_held`.
    """
    own, here = file_lock.user_directory(), os.path.dirname(path)
    access = os.O_RDONLY if read_only else os.O_RDWR | os.O_CREAT
    opened: list[int] = []
    for place in (own, "" if here == own else os.path.join(here, "kleader")):
        if not place or sys.platform != "linux":
            continue
        try:
            if not read_only:
                file_lock.make_directories(os.path.dirname(place))
            fd = os.open(f"{place}.paths", access | file_lock.OPEN_FLAGS, 0o600)
        except OSError:
            continue
        if _is_private(fd) and not any(os.path.samestat(os.fstat(fd), os.fstat(other)) for other in opened):
            opened.append(fd)
        else:
            os.close(fd)
    return opened


def _is_private(fd: int) -> bool:
    """Whether no other user can open the file, and the kernel has such locks on it."""
    found = os.fstat(fd)
    own = stat.S_ISREG(found.st_mode) and found.st_uid == os.geteuid() and not found.st_mode & 0o077
    try:
        _fcntl_byte(fd, _OFD_GETLK, 0)
    except OSError:
        return False
    return own and not file_lock.remote(system.filesystem(found.st_dev))


def path_keys(path: str) -> list[int]:
    """The offsets of the bytes that stand for this path, whatever file it names.

    The path as given, in this mount namespace: wherever it leads by now. As given and as resolved, on its device: for
    other mount namespaces, where the device distinguishes it from another path of the same spelling. And the name in
    this very directory: for any path to it. They are sorted: candidates that lock them in one order cannot deadlock.
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
    return sorted({_hash(identity.encode(errors="surrogateescape")) for identity in names})


def acquire_path(fds: Sequence[int], keys: Sequence[int]) -> bool:
    """Lock all bytes of a path; False while a leader that lost its file, or its path, holds one of them."""
    try:
        for fd in fds:
            for key in keys:
                _fcntl_byte(fd, _OFD_SETLK, key)
    except (BlockingIOError, PermissionError):  # fcntl(2): either
        return False
    return True


def is_path_held(path: str) -> bool:
    """Whether a leader of this user holds the path, for a command that does not compete."""
    fds, keys = open_path_locks(path, read_only=True), path_keys(path)
    held = any(_fcntl_byte(fd, _OFD_GETLK, key) != fcntl.F_UNLCK for fd in fds for key in keys)
    for fd in fds:
        os.close(fd)
    return held


def _fcntl_byte(fd: int, command: int, key: int) -> int:
    """Lock one byte, or test it (fcntl(2)); the type of the lock that is in the way."""
    lock = struct.pack(_FLOCK, fcntl.F_WRLCK, os.SEEK_SET, key, 1, 0)
    return int(struct.unpack(_FLOCK, fcntl.fcntl(fd, command, lock))[0])


def _hash(name: bytes) -> int:
    """FNV-1a of 62 bits; hashlib would load OpenSSL. Part of the protocol between versions."""
    key = 0xCBF29CE484222325
    for byte in name:
        key = (key ^ byte) * 0x100000001B3 % 2**64
    return key >> 2


def _mount_namespace() -> str:
    try:
        return os.readlink("/proc/self/ns/mnt")
    except OSError:  # the kernel has none
        return ""
