"""Every descendant but the elector's own: found and killed until none is left, setsid and double fork or not."""

from __future__ import annotations

import os
import signal

from kleader import platform

TYPE_CHECKING = False
if TYPE_CHECKING:
    from kleader.platform import Process


class Tree:
    """The processes of the command. This process must be single-threaded, adopt orphans, and be the only one to reap."""

    def __init__(self) -> None:
        self.spared: set[int] = set()  # the elector

    def empty(self) -> bool:
        """Proof that nothing is left: all of it was reaped, and orphans would have come here."""
        return not platform.has_children(self.spared)

    def members(self) -> list[Process]:
        """Who is there now, parents first."""
        return platform.descendants(platform.processes(), os.getpid(), but=frozenset(self.spared))

    def kill(self) -> list[Process]:
        """SIGKILL for all of it, once. Who forked meanwhile is met next time. Returns those that may not be signalled."""
        refused = []
        for each in self.members():
            try:
                platform.kill(each, signal.SIGKILL)
            except PermissionError:
                refused.append(each)
        return refused

    def signal(self, signum: int, *, group: int = 0) -> None:
        """Signal all of the tree, or those of it that are in this process group."""
        for each in self.members():
            if group in (0, each.group):
                try:
                    platform.kill(each, signum)
                except PermissionError:
                    continue
