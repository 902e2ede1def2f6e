"""Kills where the killer itself has failed: with kill(2) and waitpid(2) alone, and no code of the killer's.

The cause of the killer's failure (a call that this Python lacks, no memory, no descriptors, a bug) must not be a cause
here. So nothing here is shared with the killer, little is allocated, and no function raises: it tries again.
"""

from __future__ import annotations

import os
import signal
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Container, Mapping

_PAUSE = 0.001  # seconds
_MAX_FAILURES = 1000  # tries in a row: after a second or two this process ends, and elector or kernel kill


def kill_children(command: int, *excluded: Container[int]) -> None:
    """In the supervisor: SIGKILL for each child but ``excluded`` pids until no other is left, or none can be listed.

    ``command``: the pid of the command's main process, whose process group is killed first; 0: it does not run. The
    group is killed only while that process is our child and leads it: then no other group has the number.
    """
    failures = 0
    while failures < _MAX_FAILURES:
        try:
            if command > 1 and _is_child(command) and os.getpgid(command) == command:
                _send(os.killpg, command)
            living = [pid for pid in _children() if not any(pid in pids for pids in excluded)]
            if not living:
                return
            for pid in living:
                _send(os.kill, pid)
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
            failures = 0
        except ChildProcessError:
            return
        except BaseException:  # noqa: BLE001 - whatever it is, it must not keep this from the next try
            failures += 1
            if failures == 1 and command > 1 and _is_child(command):
                _send(os.kill, command)  # this needs no list of children
        try:
            time.sleep(_PAUSE)
        except BaseException:  # noqa: BLE001 - it must not keep this from the next try
            failures += 1


def kill_known(known: Mapping[int, int], supervisor: int) -> None:
    """Outside the supervisor: SIGKILL once for each process of ``known``, pid to start time, and the group it leads.

    ``supervisor``: one that is to be killed, too; 0: none. It is killed only as long as it is our parent, and not as
    PID 1, which cannot be. By its end the kernel kills the command (PR_SET_PDEATHSIG).
    """
    for pid in known:
        try:
            if pid > 1 and _start(pid) == known[pid]:
                if os.getpgid(pid) == pid:
                    _send(os.killpg, pid)
                _send(os.kill, pid)
        except BaseException:  # noqa: BLE001, S112 - the others are killed all the same
            continue
    if supervisor > 1 and os.getppid() == supervisor:
        _send(os.kill, supervisor)


def _send(call: Callable[[int, int], None], target: int) -> None:
    try:
        call(target, signal.SIGKILL)
    except BaseException:  # noqa: BLE001 - it is gone, or may not be killed, or nothing can be allocated
        return


def _is_child(pid: int) -> bool:
    """Whether this is a child of ours that is not reaped yet, so that its pid is its own."""
    try:
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except BaseException:  # noqa: BLE001 - no such child, or nothing can be allocated
        return False
    return True


def _children() -> list[int]:
    """Of this process, which has one thread."""
    fd = os.open("/proc/thread-self/children", os.O_RDONLY | os.O_CLOEXEC)
    try:
        found = b""
        while piece := os.read(fd, 1 << 16):
            found += piece
    finally:
        os.close(fd)
    return [int(word) for word in found.split()]


def _start(pid: int) -> int:
    """The start time that tells a process from a later one with its pid; -1: it is gone."""
    fd = os.open(f"/proc/{pid}/stat", os.O_RDONLY | os.O_CLOEXEC)
    try:
        return int(os.read(fd, 4096).rpartition(b")")[2].split()[19])
    finally:
        os.close(fd)
