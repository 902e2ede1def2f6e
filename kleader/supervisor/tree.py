"""Every descendant but the elector's own: found and killed until none is left, setsid and double fork or not."""

from __future__ import annotations

import math
import os
import signal
import time

from kleader import platform
from kleader.supervisor.child import reap

TYPE_CHECKING = False
if TYPE_CHECKING:
    from kleader.log import Log
    from kleader.platform import Process
    from kleader.supervisor.deadline import Deadline

TELL_EVERY = 10.0  # seconds
_SOON, _LATER = 0.004, 0.05  # pauses between two rounds
_MOST = 1000  # reaped at once


class Tree:
    """The processes of the command. Who has one must be single-threaded, adopt orphans, and alone reap its children."""

    def __init__(self) -> None:
        self.spared: set[int] = set()  # the elector

    def empty(self) -> bool:
        """Proof that nothing is left: all of it was reaped, and orphans would have come here."""
        return not platform.has_children(self.spared)

    def members(self) -> list[Process]:
        """Who is there now, parents first."""
        return list(platform.below(os.getpid(), self.spared))

    def signal(self, *numbers: int, group: int = 0) -> None:
        """Signal all of the tree, or those of it that are in this process group. Who cannot be reached is left out."""
        try:
            for each in platform.below(os.getpid(), self.spared):
                if group in {0, each.group}:
                    for number in numbers:
                        try:
                            platform.kill(each, number)
                        except PermissionError:
                            continue
        except OSError:  # too many open files on this machine: what is not asked to stop is killed later
            return


class Sweep:
    """SIGKILL for all of the tree, in rounds, until it is proven empty."""

    def __init__(self, tree: Tree, deadline: Deadline, log: Log) -> None:
        self._tree, self._deadline, self._log = tree, deadline, log
        self._pause = 0.0
        self._tell_at = math.inf
        self.began = math.inf
        self.next_at = math.inf  # when the next round is due

    def begin(self, now: float) -> None:
        """From here on."""
        self.began = self.next_at = now
        self._tell_at = now + TELL_EVERY
        self._pause = _SOON

    def done(self, now: float) -> bool:
        """One round if it is due. True once nothing is left."""
        if self._tree.empty():
            self.began = self.next_at = math.inf
            return True
        if now >= self.next_at:
            refused = self._round()
            after = platform.clock()
            self.next_at = after + max(self._pause, after - now)  # a large tree needs this processor to die, too
            self._pause = min(_LATER, self._deadline.margin / 2, self._pause * 2)
            if now >= self._tell_at:
                self._tell_at = now + TELL_EVERY
                self._tell(refused)
        return False

    def blindly(self) -> None:
        """The supervisor cannot go on: kill without pause until nothing is left, or its own deadline ends it."""
        while not self._tree.empty():
            self._round()
            time.sleep(_SOON)
            reap(_MOST)

    def _round(self) -> list[Process]:
        """SIGKILL for each, once. Who forked meanwhile is met next time. Those that this user may not kill."""
        refused = []
        self._deadline.awake(platform.clock())
        try:
            for each in platform.below(os.getpid(), self._tree.spared):
                self._deadline.awake(platform.clock())
                try:
                    if not each.dead:
                        platform.kill(each, signal.SIGKILL)
                except PermissionError:
                    refused.append(each)
        except OSError as error:  # too many open files on this machine, no memory: again in the next round
            self._log.repeated(f"cannot look for the command's processes: {error.strerror}")
        return refused

    def _tell(self, refused: list[Process]) -> None:
        try:
            who = " ".join(str(each.pid) for each in (refused or self._tree.members())[:20])
        except OSError:
            who = "that cannot be listed"
        why = "may not be killed by this user" if refused else "do not die"
        self._log.error(f"processes {who} {why}: the lock is not released while they live")
