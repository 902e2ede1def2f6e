"""A command beside the leading one, such as a hook: in the keeping of a process of its own.

The keeper is the parent of every orphan of its command, and ends only when nothing of that is left. So none of it comes
to the supervisor, nor can anything of the leading command's tree get among it. Should the keeper itself be killed, what
it kept does come to the supervisor: what is not provably beside the leading command is of its tree, and dies with that.
"""

from __future__ import annotations

import json
import math
import os
import select
import signal

from kleader import platform
from kleader.supervisor.child import FAILED, NOT_EXECUTABLE, NOT_FOUND, become, reap
from kleader.supervisor.deadline import Deadline
from kleader.supervisor.signals import name
from kleader.supervisor.tree import Sweep, Tree

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from kleader.log import Log

TIMED_OUT = 124
_SIGNALLED = 128  # and above: by which signal it ended
_MOST = 1000  # children reaped in one turn
_LONGEST_NEWS = 1 << 16  # bytes
_LATE = 2.0  # seconds beyond its time that a keeper has to kill what it keeps


class Aside:
    """``what`` it is, in logs. It writes to standard error alone, has no terminal, and reads nothing."""

    def __init__(self, what: str, log: Log, signals: platform.Signals) -> None:
        self._what, self._log, self._signals = what, log, signals
        self._link = -1
        self._until = math.inf
        self.pid = 0  # of its keeper
        self.overdue = math.inf  # when the keeper itself must have ended

    def start(self, command: list[str], environment: Mapping[str, str], seconds: float = math.inf) -> bool:
        """Run it, for so long at most. False where there is no room for another process, which is told."""
        parent, pipe = os.getpid(), tuple[int, ...]()
        try:
            theirs, ours = pipe = os.pipe()
            self.pid = os.fork()
        except OSError as error:
            for fd in pipe:
                os.close(fd)
            self._log.warning(f"cannot start {self._what}: {error.strerror}")
            return False
        if self.pid == 0:
            status = FAILED
            try:
                status = self._keep(command, dict(environment), theirs, parent, seconds)
            except BaseException as error:  # noqa: BLE001 - nobody sees a traceback
                self._log.error(f"what keeps {self._what} failed: {type(error).__name__}: {error}")
            finally:
                os._exit(status)
        try:
            os.setpgid(self.pid, self.pid)  # whoever of the two comes first: kleader stays alone in its own group
        except OSError:
            pass
        os.close(theirs)
        os.set_blocking(ours, False)
        self._link = ours
        self._until = platform.clock() + seconds
        self.overdue = self._until + _LATE
        return True

    def signal(self, *numbers: int) -> None:
        """To its main process."""
        if self._link >= 0:
            try:
                os.write(self._link, bytes(numbers))
            except OSError:  # it has ended, or its keeper is stopped
                return

    def end(self) -> None:
        """Kill all of it; the keeper ends when that is done."""
        if self._link >= 0:
            os.close(self._link)
            self._link = -1
            self.overdue = min(self.overdue, platform.clock() + _LATE)

    @property
    def kept(self) -> bool:
        """Whether its end has not been asked for."""
        return self._link >= 0

    def mind(self, now: float) -> None:
        """Kill a keeper that is late."""
        if self.pid and now >= self.overdue:
            self.kill()
            self._log.warning(f"what keeps {self._what} does not end: killing")

    def kill(self) -> None:
        """Kill the keeper: what it kept is the supervisor's then. It is not reaped yet, so the pid is still its own."""
        self.overdue = math.inf
        if self.pid:
            os.kill(self.pid, signal.SIGKILL)

    def reaped(self, waitstatus: int) -> int | None:
        """Take in what waitpid said of the keeper: the command's status, as a shell has it. None: it was stopped."""
        if os.WIFSTOPPED(waitstatus):
            self.kill()
            return None
        self.end()
        self.pid, self.overdue = 0, math.inf
        return _SIGNALLED + os.WTERMSIG(waitstatus) if os.WIFSIGNALED(waitstatus) else os.WEXITSTATUS(waitstatus)

    def tell(self, status: int, now: float) -> None:
        """Warn of how it ended, unless that was well."""
        if status == TIMED_OUT and now >= self._until:
            self._log.warning(f"{self._what} took too long: killed")
        elif status - _SIGNALLED in signal.valid_signals():
            self._log.warning(f"{self._what} was ended by {name(status - _SIGNALLED)}")
        elif status:
            self._log.warning(f"{self._what} exited with status {status}")

    # --- in the keeper

    def _keep(self, command: list[str], environment: dict[str, str], link: int, parent: int, seconds: float) -> int:
        """Until all of it has ended; the status to exit with."""
        platform.die_with_parent(signal.SIGCONT)  # if it is stopped then, it goes on, and finds the link closed
        if os.getppid() != parent:
            return FAILED
        os.setpgid(0, 0)
        platform.adopt_orphans()
        null = os.open(os.devnull, os.O_RDONLY)
        os.dup2(null, 0)
        os.dup2(2, 1)  # standard output is the leading command's alone
        platform.close_all_but({0, 1, 2, link, *self._log.descriptors})
        ended = platform.Signals({signal.SIGCHLD}, set())
        news, theirs = os.pipe()
        main = self._fork(command, environment, theirs)
        os.close(theirs)
        try:
            status = self._watch(main, link, ended, platform.clock() + seconds)
            if status in {NOT_EXECUTABLE, NOT_FOUND} and (failure := os.read(news, _LONGEST_NEWS)):
                self._log.warning(f"{self._what}: {json.loads(failure)}")
            return status
        finally:
            Sweep(Tree(), Deadline(None, 0.0), self._log).blindly()

    def _fork(self, command: list[str], environment: dict[str, str], news: int) -> int:
        keeper = os.getpid()
        pid = os.fork()
        if pid == 0:
            status = FAILED
            try:
                platform.die_with_parent(signal.SIGKILL)
                if os.getppid() != keeper:
                    os._exit(FAILED)
                os.setsid()  # away from the terminal
                status = become(command, environment, (), self._signals, math.inf, news)
            finally:
                os._exit(status)
        return pid

    def _watch(self, main: int, link: int, ended: platform.Signals, until: float) -> int:
        """Its status; TIMED_OUT when its time is over, FAILED when the supervisor wants its end, or is dead."""
        poll = select.poll()
        for fd in (link, ended.fd):
            poll.register(fd, select.POLLIN)
        while True:
            left = until - platform.clock()
            if left <= 0:
                return TIMED_OUT
            ready = {fd for fd, _ in poll.poll(None if left == math.inf else int(left * 1000) + 1)}
            ended.read()
            for pid, status in reap(_MOST):
                if pid == main and not os.WIFSTOPPED(status):
                    return _SIGNALLED + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)
            if link in ready:
                numbers = os.read(link, _LONGEST_NEWS)
                if not numbers:
                    return FAILED
                for number in numbers:
                    os.kill(main, number)
