"""The processes that kleader starts besides the command: elector, exporter, and subreapers of hooks and standby."""

from __future__ import annotations

import math
import os
import signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeVar

    from kleader.backoff import Backoff
    from kleader.procs.tree_killer import ProcessTree

    Link = TypeVar("Link")


class ChildProcess:
    """At most one process at a time: the next one is started only after this one has ended and is reaped.

    ``tree``: the command's, which the process is no part of while it lives; None: the process is a part of it.
    ``on_exit`` gets waitpid's status and the time. A process that is stopped (SIGSTOP) is killed: it would neither work
    nor end.
    """

    def __init__(self, tree: ProcessTree | None, on_exit: Callable[[int, float], None], backoff: Backoff) -> None:
        self._tree, self._on_exit, self._backoff = tree, on_exit, backoff
        self.pid = 0  # until it is reaped
        self.start_at = 0.0  # when the next one may be started
        self.started_at = self._tried_at = -math.inf

    def start(self, now: float, launch: Callable[[], tuple[int, Link]]) -> Link:
        """Start one: ``launch`` returns its pid and its link. OSError: there is no room for another process."""
        self._tried_at = now
        self.pid, link = launch()
        self.started_at = now
        if self._tree:
            self._tree.own_pids.add(self.pid)
        return link

    def kill(self) -> None:
        """SIGKILL. The process is not reaped yet, so that the pid is still its own."""
        if self.pid:
            os.kill(self.pid, signal.SIGKILL)

    def reaped(self, waitstatus: int, now: float) -> None:
        """The process ended, or was stopped, as waitpid says."""
        if os.WIFSTOPPED(waitstatus):
            self.kill()
            return
        if self._tree:
            self._tree.own_pids.discard(self.pid)
        self.pid = 0
        self._on_exit(waitstatus, now)

    def pause(self, now: float) -> float:
        """Put off the next start; seconds until then."""
        pause = self._backoff.pause(now - self._tried_at)
        self.start_at = now + pause
        return pause
