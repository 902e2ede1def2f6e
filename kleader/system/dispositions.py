"""Signal dispositions and masks as a program expects to be started with them, on every POSIX system alike."""

from __future__ import annotations

import os
import signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable


def restore(mask: Iterable[int], *, children_ignored: bool) -> None:
    """In a forked child: what kleader itself was started with, as far as it has changed that.

    But for SIGPIPE and SIGXFSZ, which Python ignores before it can be asked: they are the default.
    """
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    if children_ignored:
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def default_signals() -> None:
    """In a forked child of a process that ignores everything: all defaults, and nothing blocked."""
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def die_of(number: int) -> None:
    """End as this signal ends any program. Returns where it does not: as PID 1, or if it was ignored from the start."""
    if signal.getsignal(number) is not signal.SIG_IGN:
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, (number,))
