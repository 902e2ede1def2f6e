"""The controlling terminal: the command is made its foreground process group, then kleader again."""

from __future__ import annotations

import os

from kleader import system

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection


class Terminal:
    """There may be none, or it may hang up. ``own``: the pids of kleader's own children, at any time."""

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

    def can_be_given(self) -> bool:
        """Whether kleader is in the foreground and alone in its process group, as a shell starts a single command.

        In a pipeline or a script other programs share the group, and the command must get the terminal's signals as
        they do. A child of kleader's own is in the group, too, until it has made its session.
        """
        if self._foreground() != os.getpgrp():
            return False
        own = {os.getpid(), *self._own}
        return not any(other.group == os.getpgrp() and other.pid not in own for other in system.processes().values())

    def give(self, group: int) -> None:
        """Make ``group`` the foreground. SIGTTOU has to be blocked: else it would stop the caller."""
        try:
            os.tcsetpgrp(self._fd, group)
        except OSError:  # it has hung up
            return

    def take_back(self, group: int) -> None:
        """Make kleader the foreground again, unless a third group is by now."""
        if self._foreground() == group:
            self.give(os.getpgrp())

    def _foreground(self) -> int:
        try:
            return os.tcgetpgrp(self._fd) if self.present else -1
        except OSError:
            return -1
