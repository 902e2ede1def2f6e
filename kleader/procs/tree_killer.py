"""The tree of the command's processes, descendants after setsid and double fork included, and what kills all of it."""

from __future__ import annotations

import math
import os
import signal
import time
from typing import Protocol

from kleader import system
from kleader.procs import cgroup
from kleader.procs.bystanders import Bystanders
from kleader.procs.killer import kill_round

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from kleader.log import Log
    from kleader.system import Process

LOG_EVERY = 10.0  # seconds
_FIRST_PAUSE, _MAX_PAUSE = 0.004, 0.05  # seconds between two rounds
_MAX_REAPED = 1000  # at once
_DYING_SECONDS = 0.05  # past kill_at, in which an ordinary tree is dead


def reap(most: int) -> list[tuple[int, int]]:
    """Pid and waitpid's status of the children that have ended or were stopped since; ``most`` at most."""
    found: list[tuple[int, int]] = []
    while len(found) < most:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG | os.WUNTRACED)
        except ChildProcessError:
            break
        if pid == 0:
            break
        found.append((pid, status))
    return found


class KillDeadline(Protocol):
    """When the tree must be dead. The kernel's timer rings ``margin`` seconds later (kleader.supervisor.deadline)."""

    kill_at: float
    margin: float

    def awake(self, now: float) -> None:
        """Put the timer off: past kill_at the caller is killing."""


class ProcessTree:
    """The processes of the command. The owner is single-threaded, adopts orphans, and alone reaps its children."""

    def __init__(self, bystanders: Bystanders | None = None, cgroup: str = "") -> None:
        self.own_pids: set[int] = set()  # kleader's own children: the elector, the exporter, subreapers
        self.bystanders = bystanders or Bystanders({})
        self.cgroup = cgroup  # the directory of the one that kleader was started alone in; "": there is none
        self.group = 0  # the process group that was made for the command; 0: it has none of its own

    def children(self) -> list[int] | None:
        """The pids of the tree's processes that are children of this one. None: no descriptor is free."""
        try:
            found, bystanders = system.children(self.own_pids), self.bystanders.living()
        except OSError:
            return None
        return [pid for pid in found if pid not in bystanders]

    def is_empty(self) -> bool:
        """Whether it is proven that no process is alive: all were reaped, and each orphan becomes a child of this one.

        False where the children cannot be listed, for want of a descriptor. A zombie that another process traces cannot
        be reaped, but is dead. If all children are such zombies before and after a look at each, none left an orphan.
        """
        children = self.children()
        if not children:
            return children == []
        try:
            return all(map(system.dead_for_good, children)) and self.children() == children
        except OSError:  # no descriptor is free
            return False

    def below(self) -> Iterator[Process]:
        """The processes now, parents first, each as soon as it is found. OSError: no descriptor is free."""
        return system.below(os.getpid(), self.own_pids | self.bystanders.living().keys())

    def signal(self, *numbers: int, group: int = 0) -> None:
        """Signal every process, or those of this process group, as far as this user may."""
        try:
            for process in self.below():
                if group in {0, process.group}:
                    for number in numbers:
                        try:
                            system.kill(process, number)
                        except PermissionError:
                            continue
        except OSError:  # no descriptor is free: a process that is not asked to stop is killed later
            return


class TreeKiller:
    """SIGKILL for the whole tree until it is proven empty.

    The children of this process at once, which needs no scan, and their orphans as these become its children; in
    rounds every descendant, because one may have a parent that does not die.
    """

    def __init__(self, tree: ProcessTree, deadline: KillDeadline, log: Log) -> None:
        self._tree, self._deadline, self._log = tree, deadline, log
        self._signalled: set[int] = set()  # children that were sent SIGKILL and are not reaped yet
        self._pause = 0.0
        self.killed_all = False  # the elector too, and whatever else ran in this PID namespace
        self._log_at = math.inf
        self.began_at = math.inf
        self.next_at = math.inf  # when the next round is due

    def begin(self, now: float) -> None:
        """Start killing: every child at once, then rounds by :meth:`poll`. ``now``: seconds on CLOCK_BOOTTIME."""
        self.began_at = now
        self._log_at = now + LOG_EVERY
        self._pause = _FIRST_PAUSE
        self.killed_all = False
        if now < self._deadline.kill_at:  # past it there is no time for that
            self._tree.bystanders.scan(now)
        self._kill_children(self._tree.children() or [])
        self._schedule(now)

    def reaped(self, pid: int) -> None:
        """A child was reaped: its pid may be another process's from now on."""
        self._signalled.discard(pid)

    def poll(self, now: float) -> bool:
        """Kill new children, and every descendant if a round is due. True once the tree is empty."""
        if self._signalled and now < self.next_at:  # a scan now would only keep them from dying
            return False
        children = self._tree.children()
        if children == [] or (now >= self.next_at and self._tree.is_empty()):
            self.stop()
            return True
        if now < self.next_at:
            self._kill_children(children or [])
            return False
        refused = self._round(children or [])
        self._schedule(now)
        self._pause = min(_MAX_PAUSE, self._pause * 2)
        if now >= self._log_at:
            self._log_at = now + LOG_EVERY
            self._log_survivors(refused)
        return False

    def stop(self) -> None:
        """Kill no more."""
        self.began_at = self.next_at = math.inf

    def kill_until_empty(self) -> None:
        """Kill without another task until the tree is empty, or the deadline's timer ends this process."""
        while not self._tree.is_empty():
            self._round(self._tree.children() or [])
            time.sleep(_FIRST_PAUSE)
            reap(_MAX_REAPED)

    def _schedule(self, since: float) -> None:
        """The next round: a large tree needs this processor to die. Before the timer takes this process for stopped."""
        now = system.clock()
        self.next_at = now + min(max(self._pause, now - since), self._deadline.margin / 2)

    def _round(self, children: list[int]) -> list[int]:
        """SIGKILL for each process once; the next round finds their forks. The pids that this user may not kill."""
        self._signalled.clear()
        refused = self._kill_children(children)
        try:
            refused += kill_round(self._found()).refused
        except OSError as error:  # no descriptor is free, no memory: again in the next round
            self._log.repeated(
                f"cannot look for the command's processes: {error.strerror}", event="process_list_failed"
            )
        return refused

    def _found(self) -> Iterator[Process]:
        """Each process not signalled in this round, one by one: a deadline may pass between two of them."""
        kill_all_at = max(self.began_at, self._deadline.kill_at) + _DYING_SECONDS
        for process in self._tree.below():
            now = system.clock()
            self._deadline.awake(now)
            if now >= kill_all_at:
                if self._kill_all():
                    return
                kill_all_at = math.inf  # once in a round, for that costs a look at each
            if process.pid not in self._signalled:
                yield process

    def _kill_children(self, children: list[int]) -> list[int]:
        """SIGKILL for those not signalled yet. The pids that this user may not kill."""
        refused, groups = [], set[int]()
        for pid in children:
            if pid not in self._signalled:
                self._deadline.awake(system.clock())
                try:
                    self._kill_group_of(pid, groups)
                    os.kill(pid, signal.SIGKILL)
                except PermissionError:
                    refused.append(pid)
        self._signalled = set(children)
        return refused

    def _kill_group_of(self, pid: int, done: set[int]) -> None:
        """SIGKILL for the whole process group of a child, at once: a fork bomb is faster than a loop.

        Only where the group is the command's: the child leads it, or it was made for the command. The child is not
        reaped yet, so no other group can have the number; and kleader's own group is neither. Never groups 0 and 1: to
        kill(2) 0 means the caller's own group, and -1 means every process.
        """
        try:
            group = os.getpgid(pid)
        except PermissionError:  # SELinux can refuse it
            return
        if group in done or group <= 1 or group not in {pid, self._tree.group}:
            return
        done.add(group)
        try:
            os.killpg(group, signal.SIGKILL)
        except PermissionError:  # for every process of it; each is tried by itself
            return

    def _kill_all(self) -> bool:
        """Past kill_at: SIGKILL at once for all, the elector too, so nothing is released after it. False: not done.

        As PID 1 for the whole namespace, elsewhere for the cgroup that kleader was started alone in: it dies, too. For
        processes that fork faster than they are found. Not beside a process that was there before kleader; nor the
        cgroup while a process of the command is in another, which no process would be left to kill.
        """
        if self._tree.bystanders.any_from_start:
            return False
        if os.getpid() != 1:
            self.killed_all = cgroup.kill_all(self._tree.cgroup, self._living())
            return self.killed_all
        self.killed_all = True
        try:
            os.kill(-1, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            pass
        return True

    def _living(self) -> Iterator[int]:
        for process in self._tree.below():
            self._deadline.awake(system.clock())
            if not process.dead:
                yield process.pid

    def _log_survivors(self, refused: list[int]) -> None:
        try:
            pids = refused or [process.pid for process in self._tree.below() if not process.dead]
            names = " ".join(f"{pid} ({system.name_of(pid)})" for pid in pids[:20])
        except OSError:
            names = "that cannot be listed"
        why = "may not be killed by this user" if refused else "do not die"
        self._log.error(
            f"processes {names} {why}: the lock is not released while they live", event="processes_not_killed"
        )
