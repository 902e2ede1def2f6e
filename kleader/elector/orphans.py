"""The command's processes as they are known outside the supervisor, to be killed should it die or sleep."""

from __future__ import annotations

import os
import time

from kleader import platform

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from kleader.platform import Process

_PATIENCE = 60.0  # seconds spent on processes that will not die


class Orphans:
    """What was seen below the supervisor while it lived, and what carries the term's marker in its environment."""

    def __init__(self, supervisor: int, start: int, marker: str) -> None:
        self.supervisor = supervisor
        self._start = start
        self._marker = marker
        self._known: dict[int, int] = {}  # pid to start time
        self.any = False  # whether a command was ever started

    def started(self, pid: int, start: int) -> None:
        """The command itself."""
        self.any = True
        self._known[pid] = start

    def look(self) -> None:
        """Remember who is below the supervisor now, forget who is gone."""
        if not self.any:
            return
        try:
            self._known = {pid: start for pid, start in self._known.items() if _alive(pid, start)}
            seen = {each.pid: each.start for each in platform.below(self.supervisor, {os.getpid()})}
            if self.supervisor_lives():  # else its pid may be another's, and they nobody's of ours
                self._known |= seen
        except (OSError, MemoryError):  # too many open files on this machine: what is known must do
            return

    def supervisor_lives(self) -> bool:
        """Whether the very process that started us is there, and not a zombie."""
        return _alive(self.supervisor, self._start)

    def kill_supervisor(self) -> None:
        """SIGKILL, unless it is PID 1 of this namespace, which cannot be killed from inside."""
        now = platform.process(self.supervisor)
        if self.supervisor != 1 and now and now.start == self._start:
            _kill(now)

    def sweep(self) -> int:
        """SIGKILL once for all that can be found; how many are still there. Best effort once the supervisor is dead."""
        table = platform.processes()
        own = {os.getpid(), self.supervisor}
        targets = {pid: table[pid] for pid, start in self._known.items() if pid in table and table[pid].start == start}
        for pid, each in table.items():
            if pid not in targets and pid not in own and platform.environment_has(pid, self._marker):
                targets[pid] = each
        roots = [*targets, self.supervisor] if self.supervisor_lives() else [*targets]
        targets |= {each.pid: each for each in platform.descendants(table, roots, own)}
        self._known |= {pid: each.start for pid, each in targets.items()}
        left = 0
        for each in targets.values():
            if not each.dead:
                left += 1
                _kill(each)
        return left

    def sweep_until_none(self) -> bool:
        """For a supervisor that is dead: until nothing is found twice in a row. False if something will not die."""
        give_up = time.monotonic() + _PATIENCE
        quiet = 0
        while quiet < 2:  # noqa: PLR2004 - what forked during the first look is met by the second
            try:
                quiet = 0 if self.sweep() else quiet + 1
            except (OSError, MemoryError):  # too many open files on this machine: again in a moment
                quiet = 0
            if time.monotonic() >= give_up:
                return False
            time.sleep(0.01)
        return True


def left(variables: Mapping[str, str], marker: str, spared: set[str], doomed: str) -> bool:
    """Whether processes of an earlier term are alive, as far as their environment tells it.

    They carry ``variables`` and no marker of the terms ``spared``, or the marker of the term ``doomed``, whatever a
    kleader among them has made of the rest. These are sent SIGKILL: who started them is dead. What forked during the
    first look is met by the second.
    """
    wanted = [b"\0%b\0" % os.fsencode(f"{name}={value}") for name, value in variables.items()]
    own = {os.getpid(), os.getppid()}
    found = False
    for _ in range(2):
        for pid, each in platform.processes().items():
            environment = b"\0" + platform.environment(pid)
            condemned = bool(doomed) and b"\0%b=" % os.fsencode(marker + doomed) in environment
            if each.dead or not (condemned or all(one in environment for one in wanted)):
                continue
            if any(b"\0%b=" % os.fsencode(marker + term) in environment for term in spared):
                continue
            found = True
            if condemned and pid not in own:
                _kill(each)
    return found


def _alive(pid: int, start: int) -> bool:
    now = platform.process(pid)
    return now is not None and now.start == start and not now.dead


def _kill(target: Process) -> None:
    try:
        platform.kill(target)
    except PermissionError:
        return
