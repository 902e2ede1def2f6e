"""The cgroup (version 2) that kleader was started alone in: one write kills all of it, however fast it forks.

No cgroup is made for the command: kleader dies with it, and whatever has joined since.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

_PROC = "/proc"


def alone_in() -> str:
    """The directory of this process's cgroup if no other process is in it or below it and it may be killed; else ""."""
    try:
        path = _path("self")
        with open(f"{_PROC}/self/mountinfo", encoding="utf-8") as file:
            mounts = [fields for line in file if "cgroup2" in (fields := line.split())]
        for _, _, _, root, mount, *_ in mounts:
            place = os.path.join(mount, os.path.relpath(path, root))
            below = any(os.path.isdir(f"{place}/{name}") for name in os.listdir(place))
            if _pids(place) == [os.getpid()] and not below:
                return place if os.access(f"{place}/cgroup.kill", os.W_OK) else ""  # the root's has no such file
    except (OSError, ValueError):
        pass
    return ""


def kill_all(place: str, pids: Iterable[int]) -> bool:
    """SIGKILL for every process of the cgroup at ``place``, ours too.

    False where this process or one of ``pids`` is in another by now: that one would outlive all who can kill it.
    """
    try:
        if not place or os.getpid() not in _pids(place) or not _all_in(_path("self"), pids):
            return False
        with open(f"{place}/cgroup.kill", "wb", buffering=0) as file:
            file.write(b"1")
    except (OSError, ValueError):
        return False
    return True


def _all_in(path: str, pids: Iterable[int]) -> bool:
    for pid in pids:
        try:
            if _path(pid) != path:
                return False
        except (FileNotFoundError, ProcessLookupError):  # it has ended
            continue
    return True


def _path(pid: int | str) -> str:
    """The path of a process's cgroup (version 2); "" where it has none."""
    with open(f"{_PROC}/{pid}/cgroup", encoding="utf-8") as file:
        return next((line[3:].rstrip("\n") for line in file if line.startswith("0::")), "")


def _pids(place: str) -> list[int]:
    with open(f"{place}/cgroup.procs", encoding="ascii") as file:
        return [int(pid) for pid in file]
