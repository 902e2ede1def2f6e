"""The command's processes as the elector knows them: it kills them where the supervisor is dead or does not answer."""

from __future__ import annotations

import math
import os
import time

from kleader import system
from kleader.procs import cgroup, last_resort
from kleader.procs.bystanders import Bystanders
from kleader.procs.killer import is_alive, kill_round, kill_until_none

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from kleader.system import Process

MAX_KILL_SECONDS = 60.0  # spent on processes that do not die
_ATTEMPT = 0.1  # seconds of that before the next means is tried


class ProcessTracker:
    """Every process seen below the supervisor while it lived, and every one with the term's marker in its environment.

    ``supervisor`` and ``start``: its pid and start time. ``excluded``: pid and start time of each process that is none
    of the command's. ``cgroup``: the directory of the cgroup that kleader was started alone in; "": there is none.
    """

    def __init__(
        self, supervisor: int, start: int, marker: str, excluded: Iterable[list[int]] = (), cgroup: str = ""
    ) -> None:
        self.supervisor = supervisor
        self._start = start
        self._marker = marker
        self._cgroup = cgroup
        self._known: dict[int, int] = {}  # pid to start time
        self._bystanders = Bystanders({process[0]: process[1] for process in excluded})
        self.has_command = False  # whether a command was ever started

    def add(self, pid: int, start: int, excluded: Iterable[list[int]] = ()) -> None:
        """The command was forked with this pid and start time; ``excluded``: as at first, and what came since."""
        self.has_command = True
        self._bystanders.add(excluded)
        self._known[pid] = start

    def scan(self) -> None:
        """Remember the processes that are below the supervisor now, and forget those that are gone."""
        if not self.has_command:
            return
        try:
            self._known = {pid: start for pid, start in self._known.items() if is_alive(pid, start)}
            self._bystanders.scan(time.monotonic())
            self._below()
        except (OSError, MemoryError):  # no descriptor is free: the last scan must do
            return

    def supervisor_lives(self) -> bool:
        """Whether the very process that started this elector exists and is no zombie."""
        return is_alive(self.supervisor, self._start)

    def kill_supervisor(self) -> None:
        """SIGKILL for the supervisor, but not as PID 1 of this namespace, which cannot be killed from inside."""
        now = system.process(self.supervisor)
        if self.supervisor != 1 and now and now.start == self._start:
            try:
                system.kill(now)  # not its process group, which it may share with others
            except PermissionError:
                return

    def kill_as_last_resort(self, *, supervisor: bool = False) -> None:
        """Kill the known processes, and the supervisor on request, with no code of any other method here."""
        last_resort.kill_known(self._known, self.supervisor if supervisor else 0)

    def kill_cgroup(self) -> None:
        """SIGKILL at once for the whole cgroup that kleader was started alone in, this process included.

        For processes that fork faster than they are found, past kill_at. Not beside a process that was there before
        kleader, nor while a known process is in another cgroup: no process would be left to kill that one.
        """
        if not self._bystanders.any_from_start:
            cgroup.kill_all(self._cgroup, [pid for pid, start in self._known.items() if is_alive(pid, start)])

    def kill_below_supervisor(self, seconds: float) -> bool:
        """Kill every process below the supervisor. True: none is alive. False: some may be, after so many seconds.

        The proof holds for a supervisor that is stopped or stuck and so reaps no child: a process that is alive has an
        ancestor among its children.
        """
        return not self.has_command or (kill_until_none(self._below, seconds) and self.supervisor_lives())

    def kill_once(self) -> int:
        """SIGKILL once for every process that can be found; how many were alive."""
        return len(kill_round(self._find()).living)

    def kill_until_none(self, kill_at: float = math.inf) -> bool:
        """Kill until no process is found, for a supervisor that is dead. False: some do not die in 60 seconds.

        ``kill_at``, on the boot clock: from then on the whole cgroup is killed after one failed attempt.
        """
        give_up = time.monotonic() + MAX_KILL_SECONDS
        while time.monotonic() < give_up:
            try:
                if kill_until_none(self._find, _ATTEMPT):
                    return True
                if system.clock() >= kill_at:
                    self.kill_cgroup()
            except Exception:  # noqa: BLE001 - no descriptor is free, or worse: the next attempt may succeed
                self.kill_as_last_resort()
                time.sleep(0.01)
        return False

    def _excluded(self) -> set[int]:
        return {os.getpid(), *self._bystanders.living()}

    def _below(self) -> list[Process]:
        """The command's processes below the supervisor, known from now on; none where its pid is another's by now."""
        found = list(system.below(self.supervisor, self._excluded()))
        if not self.supervisor_lives():
            return []
        self._known |= {process.pid: process.start for process in found}
        return found

    def _find(self) -> Iterator[Process]:
        """What is known or marked, and its descendants.

        What is known comes first: to read an environment may take long, where its process hangs.
        """
        table, supervisor = system.processes(), {self.supervisor} if self.supervisor_lives() else set[int]()
        excluded = self._excluded() | supervisor
        roots = [pid for pid in self._known.keys() & table.keys() - excluded if table[pid].start == self._known[pid]]
        known = self._family(table, [*roots, *supervisor], excluded)
        yield from known
        excluded |= {process.pid for process in known}
        marked = [pid for pid in table if pid not in excluded and system.environment_has(pid, self._marker)]
        yield from self._family(table, marked, excluded)

    def _family(self, table: dict[int, Process], roots: list[int], excluded: set[int]) -> list[Process]:
        """These processes and their descendants, but for those excluded; known from now on."""
        found = [table[pid] for pid in roots if pid not in excluded]
        found += system.descendants(table, roots, excluded)
        self._known |= {process.pid: process.start for process in found}
        return found


def has_survivors(
    variables: Mapping[str, str], marker: str, excluded_incarnations: set[str], killed_incarnation: str
) -> bool:
    """Whether processes of an earlier term are alive, as far as their environment shows it.

    Such a process has all ``variables`` and the marker of none of ``excluded_incarnations``; or the marker of
    ``killed_incarnation``, whatever a kleader within that term made of the variables. A process with the latter is sent
    SIGKILL: the kleader that started it is dead. A fork during the first look is found by the second.
    """
    wanted = [b"\0%b\0" % os.fsencode(f"{name}={value}") for name, value in variables.items()]
    own = [b"\0%b=" % os.fsencode(marker + term) for term in excluded_incarnations]
    dead_term = b"\0%b=" % os.fsencode(marker + killed_incarnation)
    found = False
    for _ in range(2):
        for pid, process in system.processes().items():
            environment = b"\0" + system.environment(pid)
            is_of_dead_term = bool(killed_incarnation) and dead_term in environment
            if process.dead or any(term in environment for term in own):
                continue
            if is_of_dead_term or all(variable in environment for variable in wanted):
                found = True
                if is_of_dead_term and pid not in {os.getpid(), os.getppid()}:
                    system.sigkill(process)
    return found
