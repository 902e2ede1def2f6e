"""The command: its main process through starts, signals and ends, and the tree of all that descends from it.

A main process is forked, held at an exec barrier until the elector knows its pid, and executed only in time.
"""

from __future__ import annotations

import errno
import os
import signal

from kleader import system
from kleader.backoff import Backoff
from kleader.election.duration import text
from kleader.exits import FAILED, NOT_EXECUTABLE, NOT_FOUND, SIGNALLED
from kleader.ipc.spawn import fork
from kleader.procs import cgroup
from kleader.procs.bystanders import Bystanders
from kleader.procs.tree_killer import ProcessTree
from kleader.supervisor.signals import name
from kleader.supervisor.terminal import Terminal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from kleader.ipc.plan import Plan
    from kleader.log import Log
    from kleader.system import Signals

MAX_FAILURE_BYTES = 1 << 16
_LATE = "the command was not started: the deadline had passed"
_BY_TERMINAL = (SIGNALLED + signal.SIGINT, SIGNALLED + signal.SIGQUIT)


def shell_status(waitstatus: int) -> int:
    """The exit status, as a shell has it: 128 and the number of the signal that ended the process."""
    return SIGNALLED + os.WTERMSIG(waitstatus) if os.WIFSIGNALED(waitstatus) else os.WEXITSTATUS(waitstatus)


class Child:
    """A main process that was forked. It waits for :meth:`release`; closing the barrier instead ends it."""

    def __init__(self, pid: int, barrier: int, exec_status: int, *, own_group: bool, foreground: bool) -> None:
        self.pid = pid
        self.own_group = own_group
        self.foreground = foreground
        self.status: int | None = None  # as the shell has it, once it has ended
        self.signal = 0  # that ended it
        self.late = False  # the deadline had passed before the exec
        self.failure = ""  # why it could not be executed
        self._barrier = barrier
        self._exec_status = exec_status  # a pipe: closed by a successful exec, else it has the reason
        found = system.process(pid)
        self.start = found.start if found else 0

    def release(self) -> None:
        """Let it execute the command."""
        try:
            os.write(self._barrier, b"!")
        except BrokenPipeError:  # it was killed at the barrier
            pass
        finally:
            os.close(self._barrier)
            self._barrier = -1

    @property
    def fd(self) -> int | None:
        """For poll: readable once it has become the command, or could not."""
        return self._exec_status if self._exec_status >= 0 else None

    @property
    def started(self) -> bool:
        """Whether it is known to have become the command."""
        return self._exec_status < 0 and not self.failure

    def executed(self) -> bool:
        """Whether it became the command since the last call. ``failure`` says what kept it from that."""
        try:
            failure = os.read(self._exec_status, MAX_FAILURE_BYTES) if self._exec_status >= 0 else None
        except BlockingIOError:
            return False
        if failure is None:
            return False
        os.close(self._exec_status)
        self._exec_status = -1
        if failure:
            self.failure = os.fsdecode(failure)
            self.late = self.failure == _LATE
        return not failure and self._barrier < 0

    def ended(self, waitstatus: int) -> None:
        """It ended, as waitpid says."""
        self.signal = os.WTERMSIG(waitstatus) if os.WIFSIGNALED(waitstatus) else 0
        self.status = shell_status(waitstatus)
        if self._barrier >= 0:
            os.close(self._barrier)
            self._barrier = -1

    def send(self, number: int) -> None:
        """Signal the main process alone, as a kubelet does. It is not reaped yet, so that the pid is still its own."""
        if self.status is None:
            try:
                os.kill(self.pid, number)
            except (ProcessLookupError, PermissionError):
                return

    def kill(self) -> None:
        """SIGKILL for the whole process group at once, where it has one of its own: a fork bomb is faster than a loop.

        The main process leads that group and is not reaped yet, so that the number is still its own.
        """
        if self.status is None and self.own_group:
            try:
                os.killpg(self.pid, signal.SIGKILL)
            except (ProcessLookupError, PermissionError):
                pass
        self.send(signal.SIGKILL)


def spawn(  # noqa: PLR0913 - each is one thing that a new process needs
    command: list[str],
    environment: Mapping[str, str],
    *,
    keep: tuple[int, ...],
    signals: Signals,
    terminal: Terminal,
    stop_at: float,
) -> Child:
    """Fork ``command`` and hold it at its exec barrier. OSError: there is no room for another process.

    ``keep``: descriptors of kleader that it inherits. It gets a group of its own, and the terminal's foreground, where
    kleader has that to give; beside others in kleader's group it stays there; without a terminal it gets a group.
    """
    foreground = terminal.can_be_given()
    own_group = foreground or not terminal.present
    (barrier_out, barrier_in), (status_out, status_in) = os.pipe(), os.pipe()

    def wait_at_barrier() -> int:
        os.close(barrier_in)  # else this process would keep its own barrier open
        if not os.read(barrier_out, 1):
            return FAILED
        if foreground:
            terminal.give(os.getpgrp())
        return become(command, dict(environment), keep, signals, stop_at, status_in)

    try:
        pid = fork(wait_at_barrier, signal_at_parents_death=signal.SIGKILL, own_group=own_group)
    except OSError:
        for fd in (barrier_out, barrier_in, status_out, status_in):
            os.close(fd)
        raise
    os.close(barrier_out)
    os.close(status_in)
    os.set_blocking(status_out, False)
    return Child(pid, barrier_in, status_out, own_group=own_group, foreground=foreground)


def become(  # noqa: PLR0913, PLR0917
    command: list[str],
    environment: dict[str, str],
    keep: tuple[int, ...],
    signals: Signals,
    stop_at: float,
    failure_in: int,
) -> int:
    """In the forked child: restore what kleader changed, check the clock, exec. Returns only on failure."""
    if environment.get("LISTEN_PID") == str(os.getppid()):  # sd_listen_fds(3): meant for the process that is started
        environment["LISTEN_PID"] = str(os.getpid())
    for fd in keep:
        os.set_inheritable(fd, True)
    try:
        signals.restore()
        if system.clock() >= stop_at:
            os.write(failure_in, _LATE.encode())
            return FAILED
        os.execvpe(command[0], command, environment)
    except OSError as error:
        missing = error.errno in (errno.ENOENT, errno.ENOTDIR)
        os.write(failure_in, os.fsencode(f"cannot execute {command[0]}: {error.strerror}"))
        return NOT_FOUND if missing else NOT_EXECUTABLE
    except ValueError as error:  # a NUL in an argument
        os.write(failure_in, os.fsencode(f"cannot execute {command[0]!r}: {error}"))
        return NOT_EXECUTABLE


class Command:
    """One main process after another, and the tree of processes that descend from them."""

    def __init__(self, plan: Plan, log: Log, signals: Signals) -> None:
        self._plan, self._log, self._signals = plan, log, signals
        self._backoff = Backoff(1.0, 30.0, steady=60.0)
        self._started_at = 0.0
        self._ended_from_terminal = False  # Ctrl-C or Ctrl-\ reached it without kleader
        self.interrupted = False  # it died of Ctrl-C
        self.tree = ProcessTree(Bystanders.at_start(), cgroup.alone_in())
        self._terminal = Terminal(self.tree.own_pids)
        self.main: Child | None = None
        self.draining = False  # --until-empty: the main process ended, and other processes of the tree did not
        self.restart_wanted = False  # start it again once its tree is empty
        self.restarts = 0

    @property
    def fd(self) -> int | None:
        """For poll: readable once :meth:`check_executed` has something to log."""
        return self.main.fd if self.main else None

    @property
    def runs(self) -> bool:
        """Whether there is a process that can be asked to stop."""
        return self.main is not None or self.draining

    def fork(self, environment: Mapping[str, str], keep: tuple[int, ...], stop_at: float, now: float) -> Child:
        """Make a new main process, held at its barrier. OSError: there is no room for another process."""
        self.restart_wanted = self._ended_from_terminal = False
        self._started_at = now
        plan = self._plan
        if not (plan.standby or plan.health or plan.on_new_leader or plan.on_end):  # their orphans may be among them
            self.tree.bystanders.add_all_but(self.tree.own_pids)
        self.main = spawn(
            self._plan.command, environment, keep=keep, signals=self._signals, terminal=self._terminal, stop_at=stop_at
        )
        self.tree.group = self.main.pid if self.main.own_group else 0
        return self.main

    def check_executed(self) -> None:
        """Log it once the main process has become the command."""
        if self.main and self.main.executed():
            self._log.info(f"started the command: pid {self.main.pid}", event="command_started", pid=self.main.pid)

    def forward(self, number: int, *, terminal: bool) -> None:
        """Pass a signal on to the main process, unless the terminal has sent it there already."""
        if self.got_it_too(terminal=terminal):
            self._ended_from_terminal |= number in {signal.SIGINT, signal.SIGQUIT}
        elif self.main:
            self.main.send(number)

    def got_it_too(self, *, terminal: bool) -> bool:
        """Whether a signal of the terminal went to the command too, because it shares kleader's process group."""
        return terminal and self.main is not None and not self.main.own_group

    def ask_to_stop(self, number: int) -> None:
        """Send the stop signal, then CONT: a stopped process never acts on TERM."""
        if self.draining:
            self.tree.signal(number, signal.SIGCONT)
        elif self._plan.stop_group:
            self._signal_group(number, signal.SIGCONT)
        elif self.main:
            self.main.send(number)
            self.main.send(signal.SIGCONT)

    def suspended(self, waitstatus: int) -> None:
        """The main process was stopped. After Ctrl-Z it is continued."""
        number = os.WSTOPSIG(waitstatus)
        if number == signal.SIGTSTP:
            self._signal_group(signal.SIGCONT)
            message = "the command was suspended by SIGTSTP while it leads: continuing it"
        else:
            message = f"the command was stopped by {name(number)}; the lock stays held"
        self._log.warning(message, event="command_suspended")

    def ended(self, main: Child, waitstatus: int, now: float) -> None:
        """The main process ended; decides whether the command is started again."""
        self.check_executed()
        main.ended(waitstatus)
        self.main = None
        if main.foreground:
            self._terminal.take_back(main.pid)
        if main.failure:
            self._log.error(main.failure, event="command_not_executed")
            return
        how = f"was ended by {name(main.signal)}" if main.signal else f"exited with status {main.status}"
        ran = text(round(now - self._started_at, 1))
        self._log.info(f"the command {how} after {ran}", event="command_exited", status=main.status)
        if (main.foreground or self._ended_from_terminal) and main.status in _BY_TERMINAL:
            self.interrupted = main.signal == signal.SIGINT
            return  # the user at the terminal wanted it to end
        restart = self._plan.restart
        self.restart_wanted = restart == "always" or (restart == "on-failure" and main.status != 0)

    def pause(self, now: float) -> float:
        """Seconds until it is started again."""
        self.restarts += 1
        pause = self._backoff.pause(now - self._started_at)
        self._log.info(f"restarting the command in {text(pause)}", event="command_restarting")
        return pause

    def _signal_group(self, *numbers: int) -> None:
        """Signal the command's process group; where that is kleader's own too, the processes of the tree in it."""
        if self.main:
            self.tree.signal(*numbers, group=self.main.pid if self.main.own_group else os.getpgrp())
