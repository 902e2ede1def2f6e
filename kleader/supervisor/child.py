"""The command: forked, held at a gate until its pid is known, and let through to exec only before the deadline."""

from __future__ import annotations

import errno
import json
import os
import signal

from kleader import platform

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from kleader.platform import Signals
    from kleader.supervisor.terminal import Terminal

NOT_EXECUTABLE, NOT_FOUND, FAILED = 126, 127, 125
_MOST_NEWS = 1 << 16  # bytes
_LATE = "the command was not started: the deadline had passed"


class Child:
    """A command that was forked. It waits for :meth:`let_through`; closing the gate instead ends it."""

    def __init__(self, pid: int, gate: int, news: int, *, own_group: bool, foreground: bool) -> None:
        self.pid = pid
        self.own_group = own_group
        self.foreground = foreground
        self.status: int | None = None  # as the shell says it, once it has ended
        self.signal = 0  # that ended it
        self.late = False  # the gate found that the deadline had passed
        self.failure = ""  # why it could not be executed
        self._gate = gate
        self._news = news
        found = platform.process(pid)
        self.start = found.start if found else 0

    def let_through(self) -> None:
        """Everybody who must know of it does: it may become the command."""
        try:
            os.write(self._gate, b"!")
        except BrokenPipeError:  # killed at the gate
            pass
        finally:
            os.close(self._gate)
            self._gate = -1

    @property
    def news(self) -> int | None:
        """For poll: readable once it has become the command, or could not."""
        return self._news if self._news >= 0 else None

    @property
    def started(self) -> bool:
        """Whether it has been seen to become the command."""
        return self._news < 0 and not self.failure

    def executed(self) -> bool:
        """Whether it is seen now that it has become the command; what kept it from that is kept in ``failure``."""
        try:
            news = os.read(self._news, _MOST_NEWS) if self._news >= 0 else None
        except BlockingIOError:
            return False
        if news is None:
            return False
        os.close(self._news)
        self._news = -1
        if news:
            self.failure = json.loads(news)
            self.late = self.failure == _LATE
        return not news and self._gate < 0

    def ended(self, waitstatus: int) -> None:
        """Take in how it ended, from waitpid."""
        if os.WIFSIGNALED(waitstatus):
            self.signal = os.WTERMSIG(waitstatus)
            self.status = 128 + self.signal
        else:
            self.status = os.WEXITSTATUS(waitstatus)
        if self._gate >= 0:
            os.close(self._gate)
            self._gate = -1

    def send(self, signum: int) -> None:
        """Signal the main process alone, as a kubelet does. It is not reaped yet, so the pid is still its own."""
        if self.status is None:
            try:
                os.kill(self.pid, signum)
            except (ProcessLookupError, PermissionError):
                return


def reap(most: int) -> list[tuple[int, int]]:
    """Who has ended or was stopped since, with waitpid's status; at most so many."""
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


def spawn(  # noqa: PLR0913 - each is one thing that a new process needs
    command: list[str],
    environment: Mapping[str, str],
    *,
    keep: tuple[int, ...],
    signals: Signals,
    terminal: Terminal,
    stop_at: float,
) -> Child:
    """Fork ``command`` and hold it at its gate. OSError where the machine has no room for another process.

    ``keep``: descriptors of kleader that it inherits. It gets a group of its own, and the terminal's foreground, where
    kleader has that to give; beside others in kleader's group it stays there; without a terminal it gets a group.
    """
    foreground = terminal.ours_to_give()
    own_group = foreground or not terminal.present
    (gate_out, gate_in), (news_out, news_in) = os.pipe(), os.pipe()
    parent = os.getpid()
    try:
        pid = os.fork()
    except OSError:
        for fd in (gate_out, gate_in, news_out, news_in):
            os.close(fd)
        raise
    if pid == 0:
        status = FAILED
        try:
            platform.die_with_parent(signal.SIGKILL)
            if os.getppid() != parent:  # it died before the line above
                os._exit(FAILED)
            if own_group:
                os.setpgid(0, 0)
            os.close(gate_in)  # else this process would keep its own gate open
            if os.read(gate_out, 1):
                if foreground:
                    terminal.give(os.getpgrp())
                status = become(command, dict(environment), keep, signals, stop_at, news_in)
        finally:
            os._exit(status)
    os.close(gate_out)
    os.close(news_in)
    os.set_blocking(news_out, False)
    if own_group:
        try:
            os.setpgid(pid, pid)  # whoever of the two comes first
        except OSError:
            pass
    return Child(pid, gate_in, news_out, own_group=own_group, foreground=foreground)


def become(  # noqa: PLR0913, PLR0917
    command: list[str],
    environment: dict[str, str],
    keep: tuple[int, ...],
    signals: Signals,
    stop_at: float,
    news: int,
) -> int:
    """In the forked child: restore what kleader changed, look at the clock, exec. Returns only on failure."""
    if environment.get("LISTEN_PID") == str(os.getppid()):  # sd_listen_fds(3): meant for the process that is started
        environment["LISTEN_PID"] = str(os.getpid())
    for fd in keep:
        os.set_inheritable(fd, True)
    try:
        signals.restore()
        if platform.clock() >= stop_at:
            os.write(news, json.dumps(_LATE).encode())
            return FAILED
        os.execvpe(command[0], command, environment)
    except OSError as error:
        missing = error.errno in (errno.ENOENT, errno.ENOTDIR)
        os.write(news, json.dumps(f"cannot execute {command[0]}: {_why(error, command[0], environment)}").encode())
        return NOT_FOUND if missing else NOT_EXECUTABLE
    except ValueError as error:  # a NUL in an argument
        os.write(news, json.dumps(f"cannot execute {command[0]!r}: {error}").encode())
        return NOT_EXECUTABLE


def _why(error: OSError, name: str, environment: Mapping[str, str]) -> str:
    """What execve(2) found, with the mend where its own word for it would mislead."""
    head = b""
    for place in [""] if os.sep in name else os.get_exec_path(environment):
        try:
            with open(os.path.join(place, name), "rb") as file:
                head = file.readline(256)
            break
        except OSError:
            continue
    binary = head.startswith(b"\x7fELF")
    if error.errno == errno.ENOEXEC:
        return f"{error.strerror}: " + (
            "it is made for other machines" if binary else "give it a #! line, as #!/bin/sh"
        )
    if error.errno == errno.ENOENT and head.startswith(b"#!"):
        interpreter = os.fsdecode(head[2:].strip(b" \t\n").replace(b"\t", b" ").split(b" ")[0])
        return f"its interpreter {interpreter!r} does not exist"  # of which a line that ends as in DOS shows the end
    if error.errno == errno.ENOENT and binary:
        return "its dynamic loader does not exist"
    return error.strerror or str(error)
