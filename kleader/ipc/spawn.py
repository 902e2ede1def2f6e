"""Starts processes with a channel to them, in sessions of their own, with only the descriptors that they need."""

from __future__ import annotations

import fcntl
import os

from kleader import system
from kleader.exits import FAILED
from kleader.ipc.channel import Channel

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket


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
