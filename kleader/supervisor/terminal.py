"""The controlling terminal: its foreground is given to the command and taken back."""

from __future__ import annotations

import os

from kleader import platform

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection


class Terminal:
    """Tolerates that there is none, or that it has gone. ``own``: kleader's own processes, at any time."""

    def __init__(self, own: Collection[int]) -> None:
        self._own = own
        try:
            self._fd = os.open("/dev/tty", os.O_RDWR | os.O_CLOEXEC | os.O_NOCTTY)
        except OSError:
            self._fd = -1

    @property
    def present(self) -> bool:
        """Whether this session has a terminal at all."""
        return self._fd >= 0

    def ours_to_give(self) -> bool:
        """Whether kleader is in the foreground and alone in its process group, as a shell starts a single command.

        In a pipeline or a script others share the group: their terminal signals are the command's too. A process of
        kleader's own does until it has come to its session, which it was forked for.
        """
        if self._foreground() != os.getpgrp():
            return False
        own = {os.getpid(), *self._own}
        return not any(each.group == os.getpgrp() and each.pid not in own for each in platform.processes().values())

    def give(self, group: int) -> None:
        """Make ``group`` the foreground. Called with SIGTTOU blocked, else the caller would be stopped."""
        try:
            os.tcsetpgrp(self._fd, group)
        except OSError:  # it has hung up
            return

    def take_back(self, group: int) -> None:
        """Make kleader the foreground again, unless somebody else has become it meanwhile."""
        if self._foreground() == group:
            self.give(os.getpgrp())

    def _foreground(self) -> int:
        try:
            return os.tcgetpgrp(self._fd) if self.present else -1
        except OSError:
            return -1
