"""Processes at the other end of a link: in sessions of their own, with no descriptors but what they need."""

from __future__ import annotations

import fcntl
import os

from kleader import platform
from kleader.link.channel import Channel

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket


def process(command: list[str], plan_fd: int, others: tuple[int, ...]) -> tuple[int, Channel]:
    """Fork and exec one that finds the plan at 3, the link at 4, and the others from 5 on; its pid, and our end.

    OSError where there is no room for it.
    """
    ours, theirs = platform.link_pair()
    pid = fork(ours, theirs)
    if pid == 0:
        try:
            _move((plan_fd, theirs.fileno(), *others), first=3)
            os.execv(command[0], command)
        finally:
            os._exit(125)
    theirs.close()
    return pid, Channel(ours)


def fork(ours: socket.socket, theirs: socket.socket) -> int:
    """Fork into a session of its own, away from the terminal's signals. OSError: no room, and both are closed."""
    try:
        pid = os.fork()
    except OSError:
        ours.close()
        theirs.close()
        raise
    if pid == 0:
        os.setsid()
    return pid


def _move(fds: tuple[int, ...], first: int) -> None:
    """Let exactly these descriptors and stderr be inherited, numbered from ``first``."""
    high = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, first + len(fds)) for fd in fds]  # out of each other's way
    for i, fd in enumerate(high):
        os.dup2(fd, first + i, inheritable=True)
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(null, 1)
    platform.close_all_but({0, 1, 2, *range(first, first + len(fds))})
