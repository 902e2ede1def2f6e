"""Forks processes: kleader's own, with a channel and only the descriptors that they need, and the command's."""

from __future__ import annotations

import fcntl
import math
import os

from kleader import system
from kleader.exits import FAILED
from kleader.ipc.channel import Channel

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
    from collections.abc import Callable


class Launcher:
    """Starts electors. This one starts none: the command runs without a lock."""

    heartbeat_timeout = math.inf  # seconds of a term without a message after which it hangs; inf: it may block
    releases = False  # the lock has to be released by a request; else it is free when kleader has ended
    inherited: tuple[int, ...] = ()  # descriptors that the command inherits

    def start(self, *, leading: bool) -> tuple[int, Channel]:
        """The pid and the link of a new one. OSError: no room for a process, or the lock cannot be opened."""
        raise NotImplementedError

    def holder(self) -> str:
        """The holder, where no elector can tell while it waits; "" if there is none, or the elector tells."""
        return ""

    def close_lock(self) -> None:
        """Close the lock that an elector which has ended may have acquired. A lease ends by itself."""


def fork(run: Callable[[], int], *, signal_at_parents_death: int = 0, own_group: bool = False) -> int:
    """Fork a process that exits with the status that ``run`` returns; its pid. OSError: there is no room for it.

    With a ``signal_at_parents_death`` it runs nothing if its parent is dead by then.
    """
    parent = os.getpid()
    pid = os.fork()
    if pid == 0:
        status = FAILED
        try:
            if signal_at_parents_death:
                system.die_with_parent(signal_at_parents_death)
                if os.getppid() != parent:  # it died before the line above
                    os._exit(FAILED)
            if own_group:
                os.setpgid(0, 0)
            status = run()
        finally:
            os._exit(status)
    if own_group:
        try:
            os.setpgid(pid, pid)  # whichever of the two comes first
        except OSError:
            pass
    return pid


def connected(run: Callable[[socket.socket], int]) -> tuple[int, Channel]:
    """Fork a process in a session of its own, which no terminal signals; its pid, and this end of the channel to it.

    ``run`` gets the other end. OSError: no process or descriptor is left.
    """
    ours, theirs = system.link_pair()

    def in_own_session() -> int:
        ours.close()
        os.setsid()
        return run(theirs)

    try:
        pid = fork(in_own_session)
    except OSError:
        ours.close()
        raise
    finally:
        theirs.close()
    return pid, Channel(ours)


def process(command: list[str], plan_fd: int, others: tuple[int, ...]) -> tuple[int, Channel]:
    """Fork and exec a process, as :func:`connected`.

    It inherits stderr, the plan as descriptor 3, its end of the channel as 4, and ``others`` from 5 on.
    """

    def execute(theirs: socket.socket) -> int:
        _inherit_only((plan_fd, theirs.fileno(), *others), first=3)
        os.execv(command[0], command)

    return connected(execute)


def _inherit_only(fds: tuple[int, ...], first: int) -> None:
    """Number these descriptors from ``first``, make stdin and stdout /dev/null, keep stderr, close all others."""
    high = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, first + len(fds)) for fd in fds]  # beyond the numbers to be taken
    for number, fd in enumerate(high, first):
        os.dup2(fd, number, inheritable=True)
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(null, 1)
    system.close_all_but({0, 1, 2, *range(first, first + len(fds))})
