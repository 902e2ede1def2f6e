"""Processes beside the command that are not the command's: they are not killed, and their end is not waited for."""

from __future__ import annotations

import os

from kleader import system
from kleader.procs.killer import is_alive

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

SCAN_EVERY = 1.0  # seconds
_MAX_LISTED = 500  # fit into one message


class Bystanders:
    """The processes that existed before the command (`helper & exec kleader run`), and their descendants.

    As PID 1 also those that have entered the namespace since (`kubectl exec`): their parent is outside, pid 0, as no
    parent of the command's processes is. Each is known by pid and start time. A descendant is known once it was seen
    while its ancestor lived; one that was not counts as the command's, which is the safe side.
    """

    def __init__(self, first: Mapping[int, int]) -> None:
        self._first, self._known = dict(first), dict(first)  # pid to start time
        self._seen: set[int] = set()  # pids that did not enter from outside
        self.scan_at = 0.0 if self._may_grow else float("inf")  # when the next scan is due

    @classmethod
    def at_start(cls) -> Bystanders:
        """All that is below this process before it has started anything; as PID 1 all others of the namespace."""
        me = os.getpid()
        others = system.processes().values() if me == 1 else system.below(me, ())
        return cls({process.pid: process.start for process in others if process.pid != me and not process.dead})

    def add_all_but(self, own_pids: Collection[int]) -> None:
        """No process of the command is alive, so each one below this process but ``own_pids`` is a bystander.

        Such as one that a helper has started and that came here when its parent, the helper, ended.
        """
        if self._may_grow:
            try:
                found = system.below(os.getpid(), own_pids)
                self._known |= {process.pid: process.start for process in found if not process.dead}
            except (OSError, MemoryError):  # no descriptor is free: what is not known is not excluded
                return

    def __contains__(self, pid: object) -> bool:
        """Whether one has had this pid, without a look at any: for the last resort."""
        return pid in self._known

    def living(self) -> dict[int, int]:
        """Pid and start time of each that is alive. OSError: no descriptor is free."""
        return {pid: start for pid, start in self._known.items() if is_alive(pid, start)}

    def add(self, others: Iterable[list[int]]) -> None:
        """Bystanders that another process has found: pid and start time of each."""
        self._known |= {process[0]: process[1] for process in others}

    @property
    def listed(self) -> list[list[int]]:
        """As many of the living as fit into a message to the elector, which must not kill them either."""
        return [[pid, start] for pid, start in self.living().items()][:_MAX_LISTED]

    @property
    def any_from_start(self) -> bool:
        """Whether a process that existed before kleader is alive."""
        return any(is_alive(pid, start) for pid, start in self._first.items())

    def scan(self, now: float) -> None:
        """Take note of their descendants, and as PID 1 of what has entered."""
        self.scan_at = now + SCAN_EVERY if self._may_grow else float("inf")
        if not self._may_grow:
            return
        try:
            known = self.living()
            if os.getpid() == 1:
                known |= {process.pid: process.start for process in system.entered(self._seen)}
            for pid, start in list(known.items()):
                below = {process.pid: process.start for process in system.below(pid, ())}
                if is_alive(pid, start):  # else its pid may have become another's meanwhile
                    known |= below
            self._known = known
        except (OSError, MemoryError):  # no descriptor is free: what is not known is not excluded
            return

    @property
    def _may_grow(self) -> bool:
        return bool(self._known) or os.getpid() == 1
