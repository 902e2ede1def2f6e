"""A command that runs beside the leading one, such as a hook, below a subreaper of its own.

The subreaper is the parent of every orphan of its command, and ends only when all of these processes have ended. So
none of them comes to the supervisor, and none of the leading command's tree gets among them. If the subreaper itself is
killed, its processes do come to the supervisor: they count as the leading command's tree, and die with that.
"""

from __future__ import annotations

import functools
import math
import os
import select
import signal

from kleader import system
from kleader.backoff import Backoff
from kleader.exits import FAILED, NOT_EXECUTABLE, NOT_FOUND, SIGNALLED
from kleader.ipc.spawn import fork
from kleader.procs.tree_killer import ProcessTree, TreeKiller, reap
from kleader.supervisor.child import MAX_FAILURE_BYTES, become, shell_status
from kleader.supervisor.child_process import ChildProcess
from kleader.supervisor.deadline import Deadline
from kleader.supervisor.signals import name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kleader.log import Log

TIMED_OUT = 124  # timeout(1)'s status
_MAX_REAPED = 1000  # children in one turn
_LATE_SECONDS = 2.0  # that a subreaper has for killing its processes


class Subtree:
    """At most one run at a time. The command writes to standard error alone, has no terminal, and reads nothing.

    ``what`` it is, in logs. ``on_exit`` gets the status, as a shell has it, and the time, also of a run that was
    stopped; ``running`` still says then whether it was. By default a failure is logged.
    """

    def __init__(
        self,
        what: str,
        log: Log,
        signals: system.Signals,
        tree: ProcessTree | None,
        on_exit: Callable[[int, float], None] | None = None,
    ) -> None:
        self._what, self._log, self._signals, self._on_exit = what, log, signals, on_exit or self._log_end
        self._link = -1
        self._until = math.inf
        self.process = ChildProcess(tree, self._ended, Backoff(1.0, 30.0, steady=60.0))  # the subreaper
        self.overdue_at = math.inf  # when the subreaper must have ended

    def start(self, command: list[str], environment: Mapping[str, str], now: float, seconds: float = math.inf) -> bool:
        """Run it, no longer than ``seconds``. False, which is logged, where there is no room for another process."""
        launch = functools.partial(self._launch, command, environment, seconds)
        try:
            self._link = self.process.start(now, launch)
        except OSError as error:
            self._log.warning(f"cannot start {self._what}: {error.strerror}", event="hook_not_started")
            return False
        self._until = now + seconds
        self.overdue_at = self._until + _LATE_SECONDS
        return True

    @property
    def running(self) -> bool:
        """Whether it runs, and was not told to end."""
        return self._link >= 0

    def signal(self, *numbers: int) -> None:
        """Signal its main process."""
        if self.running:
            try:
                os.write(self._link, bytes(numbers))
            except OSError:  # it has ended, or its subreaper is stopped
                return

    def stop(self, now: float) -> None:
        """Kill all of its processes; the subreaper ends when they are dead."""
        if self.running:
            os.close(self._link)
            self._link = -1
            self.overdue_at = min(self.overdue_at, now + _LATE_SECONDS)

    def check_overdue(self, now: float) -> None:
        """Kill a subreaper that is late: its processes are the supervisor's then."""
        if self.process.pid and now >= self.overdue_at:
            self.overdue_at = math.inf
            self.process.kill()
            self._log.warning(f"{self._what}: killed, since its subreaper does not end", event="hook_killed")

    def log_failure(self, status: int, now: float) -> None:
        """Warn of how it ended, unless that was well."""
        if status == TIMED_OUT and now >= self._until:
            self._log.warning(f"{self._what} took too long: killed", event="hook_killed")
        elif status - SIGNALLED in signal.valid_signals():
            self._log.warning(f"{self._what} was ended by {name(status - SIGNALLED)}", event="hook_failed")
        elif status:
            self._log.warning(f"{self._what} exited with status {status}", event="hook_failed")

    def _log_end(self, status: int, now: float) -> None:
        if self.running:
            self.log_failure(status, now)

    def _ended(self, waitstatus: int, now: float) -> None:
        self._on_exit(shell_status(waitstatus), now)
        self.stop(now)
        self.overdue_at = math.inf

    def _launch(self, command: list[str], environment: Mapping[str, str], seconds: float) -> tuple[int, int]:
        link_out, link_in = os.pipe()
        contain = functools.partial(self._contain, command, dict(environment), link_out, seconds)
        try:  # if the subreaper is stopped when the supervisor dies, it goes on, and finds the link closed
            pid = fork(contain, signal_at_parents_death=signal.SIGCONT, own_group=True)
        except OSError:
            os.close(link_in)
            raise
        finally:
            os.close(link_out)
        os.set_blocking(link_in, False)
        return pid, link_in

    # --- in the subreaper

    def _contain(self, command: list[str], environment: dict[str, str], link: int, seconds: float) -> int:
        """Run the command until all of its processes have ended; returns the status to exit with."""
        system.adopt_orphans()
        null = os.open(os.devnull, os.O_RDONLY)
        os.dup2(null, 0)
        os.dup2(2, 1)  # standard output is the leading command's alone
        system.close_all_but({0, 1, 2, link, *self._log.descriptors})
        ended = system.Signals({signal.SIGCHLD}, set())
        failure_out, failure_in = os.pipe()

        def execute() -> int:
            os.setsid()  # away from the terminal
            return become(command, environment, (), self._signals, math.inf, failure_in)

        main = fork(execute, signal_at_parents_death=signal.SIGKILL)
        os.close(failure_in)
        try:
            status = self._watch(main, link, ended, system.clock() + seconds)
            if status in {NOT_EXECUTABLE, NOT_FOUND} and (failure := os.read(failure_out, MAX_FAILURE_BYTES)):
                self._log.warning(f"{self._what}: {os.fsdecode(failure)}", event="hook_failed")
            return status
        finally:
            TreeKiller(ProcessTree(), Deadline(None, 0.0), self._log).kill_until_empty()

    def _watch(self, main: int, link: int, ended: system.Signals, until: float) -> int:
        """The command's status; TIMED_OUT when its time is over, FAILED when the supervisor stops it or is dead."""
        poll = select.poll()
        for fd in (link, ended.fd):
            poll.register(fd, select.POLLIN)
        while True:
            left = until - system.clock()
            if left <= 0:
                return TIMED_OUT
            ready = {fd for fd, _ in poll.poll(None if left == math.inf else int(left * 1000) + 1)}
            ended.read()
            for pid, status in reap(_MAX_REAPED):
                if pid == main and not os.WIFSTOPPED(status):
                    return shell_status(status)
            if link in ready:
                numbers = os.read(link, 1 << 10)
                if not numbers:
                    return FAILED
                for number in numbers:
                    os.kill(main, number)
