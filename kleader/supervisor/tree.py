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
        self.spared: set[int] = set()  # the elector and the reporter

    def children(self) -> list[int] | None:
        """Those of it that are our own, each of which keeps its pid until we reap it. None: it cannot be told now."""
        try:
            return platform.children(self.spared)
        except OSError:  # too many open files
            return None

    def empty(self) -> bool:
        """Proof that nothing is left: all of it was reaped, and orphans would have come here."""
        return self.children() == []

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
    """SIGKILL for all of the tree until it is proven empty.

    Our own children at once, for that takes no look at them, and when these are reaped whoever has become one by it; in
    rounds all that is below, too, for it may have a parent that does not die.
    """

    def __init__(self, tree: Tree, deadline: Deadline, log: Log) -> None:
        self._tree, self._deadline, self._log = tree, deadline, log
        self._struck: set[int] = set()  # children that were sent SIGKILL and are not reaped yet
        self._pause = 0.0
        self._tell_at = math.inf
        self.began = math.inf
        self.next_at = math.inf  # when the next round is due

    def begin(self, now: float) -> None:
        """From here on."""
        self.began = now
        self._tell_at = now + TELL_EVERY
        self._pause = _SOON
        self._strike(self._tree.children() or [])
        self._rest(now)

    def reaped(self, pid: int) -> None:
        """A child has ended."""
        self._struck.discard(pid)

    def done(self, now: float) -> bool:
        """Kill who has come, and all in a round if one is due. True once nothing is left."""
        if self._struck and now < self.next_at:  # to look now would only keep them from dying
            return False
        children = self._tree.children()
        if children == []:
            self.began = self.next_at = math.inf
            return True
        if now < self.next_at:
            self._strike(children or [])
            return False
        refused = self._round(children or [])
        self._rest(now)
        self._pause = min(_LATER, self._pause * 2)
        if now >= self._tell_at:
            self._tell_at = now + TELL_EVERY
            self._tell(refused)
        return False

    def leave(self) -> None:
        """What does not die is left alone."""
        self.began = self.next_at = math.inf

    def blindly(self) -> None:
        """The supervisor cannot go on: kill without pause until nothing is left, or its own deadline ends it."""
        while (children := self._tree.children()) != []:
            self._round(children or [])
            time.sleep(_SOON)
            reap(_MOST)

    def _rest(self, since: float) -> None:
        """Until the next round: a large tree needs this processor to die, too. Not so long that we count as asleep."""
        now = platform.clock()
        self.next_at = now + min(max(self._pause, now - since), self._deadline.margin / 2)

    def _round(self, children: list[int]) -> list[int]:
        """SIGKILL for each, once. Who forked meanwhile is met next time. Those that this user may not kill."""
        self._struck.clear()
        refused = self._strike(children)
        try:
            for each in platform.below(os.getpid(), self._tree.spared):
                self._deadline.awake(platform.clock())
                try:
                    if not (each.dead or each.pid in self._struck):
                        platform.kill(each, signal.SIGKILL)
                except PermissionError:
                    refused.append(each.pid)
        except OSError as error:  # too many open files on this machine, no memory: again in the next round
            self._log.repeated(f"cannot look for the command's processes: {error.strerror}")
        return refused

    def _strike(self, children: list[int]) -> list[int]:
        """SIGKILL for those that have had none. Those that this user may not kill."""
        refused = []
        for pid in children:
            if pid not in self._struck:
                self._deadline.awake(platform.clock())
                try:
                    os.kill(pid, signal.SIGKILL)
                except PermissionError:
                    refused.append(pid)
        self._struck = set(children)
        return refused

    def _tell(self, refused: list[int]) -> None:
        try:
            who = " ".join(map(str, (refused or [each.pid for each in self._tree.members()])[:20]))
        except OSError:
            who = "that cannot be listed"
        why = "may not be killed by this user" if refused else "do not die"
        self._log.error(f"processes {who} {why}: the lock is not released while they live")
