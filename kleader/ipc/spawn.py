"""Starts processes with a channel to them, in sessions of their own, with only the descriptors that they need."""

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


def process(command: list[str], plan_fd: int, others: tuple[int, ...]) -> tuple[int, Channel]:
    """Fork and exec a process; its pid, and this end of the channel.

    It inherits stderr, the plan as descriptor 3, its end of the channel as 4, and ``others`` from 5 on.
    OSError: no process or descriptor is left.
    """
    ours, theirs = system.link_pair()
    pid = fork(ours, theirs)
    if pid == 0:
        try:
            _inherit_only((plan_fd, theirs.fileno(), *others), first=3)
            os.execv(command[0], command)
        finally:
            os._exit(FAILED)
    theirs.close()
    return pid, Channel(ours)


def fork(ours: socket.socket, theirs: socket.socket) -> int:
    """Fork into a session of its own, which no terminal signals; the pid, 0 in the child. OSError: both are closed."""
    try:
        pid = os.fork()
    except OSError:
        ours.close()
        theirs.close()
        raise
    if pid == 0:
        os.setsid()
    return pid


def _inherit_only(fds: tuple[int, ...], first: int) -> None:
    """Number these descriptors from ``first``, make stdin and stdout /dev/null, keep stderr, close all others."""
    high = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, first + len(fds)) for fd in fds]  # beyond the numbers to be taken
    for number, fd in enumerate(high, first):
        os.dup2(fd, number, inheritable=True)
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(null, 1)
    system.close_all_but({0, 1, 2, *range(first, first + len(fds))})
