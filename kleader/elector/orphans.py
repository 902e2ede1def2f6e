"""The command's processes as they are known outside the supervisor, to be killed should it die or sleep."""

from __future__ import annotations

import os
import time

from kleader import platform

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

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

    def clear(self, seconds: float) -> None:
        """SIGKILL for all below the supervisor until nothing is left, for so many seconds at most.

        That is proven where it is stopped or stuck: who is alive there has an ancestor among its children, which it
        reaps none of. So if all are dead, and then are the same still, there is nobody else.
        """
        if not self.any:
            return
        give_up = time.monotonic() + seconds
        dead: set[int] | None = None
        while time.monotonic() < give_up:
            found = list(platform.below(self.supervisor, {os.getpid()}))
            if not self.supervisor_lives():  # its pid may be another's
                return
            self._known |= {each.pid: each.start for each in found}
            pids = {each.pid for each in found}
            if _strike(found):
                dead = None
                time.sleep(0.001)
            elif pids == dead:
                return
            else:
                dead = pids

    def sweep(self) -> int:
        """SIGKILL once for all that can be found; how many are still there. Best effort once the supervisor is dead.

        Whoever is known comes first: to read an environment may take long, where its process hangs.
        """
        table = platform.processes()
        own = {os.getpid(), self.supervisor}
        known = {pid: table[pid] for pid, start in self._known.items() if pid in table and table[pid].start == start}
        roots = [*known, self.supervisor] if self.supervisor_lives() else [*known]
        known |= {each.pid: each for each in platform.descendants(table, roots, own)}
        left = _strike(known.values())
        marked = {
            pid: each
            for pid, each in table.items()
            if pid not in known and pid not in own and platform.environment_has(pid, self._marker)
        }
        below = platform.descendants(table, [*marked], {*own, *known})
        marked |= {each.pid: each for each in below}
        self._known |= {pid: each.start for pid, each in (known | marked).items()}
        return left + _strike(marked.values())

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


def _strike(targets: Iterable[Process]) -> int:
    """SIGKILL for those that are not dead; how many there were."""
    living = [each for each in targets if not each.dead]
    for each in living:
        _kill(each)
    return len(living)


def _kill(target: Process) -> None:
    try:
        platform.kill(target)
    except PermissionError:
        return
