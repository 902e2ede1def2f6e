"""Signal dispositions and masks as a program expects to be started with them, on every POSIX system alike."""

from __future__ import annotations

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
