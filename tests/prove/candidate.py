"""One candidate: how it was started, and the processes that it consists of."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

import psutil

from tests.support import wall_clock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from tests.support.checker import Term
    from tests.support.processes import Process
    from tests.support.proxy import Proxy


class Missed(Exception):  # noqa: N818 - an outcome
    """Whom a fault was meant for is not there any more: the trial does not count."""


@dataclass(frozen=True)
class Style:
    """What a candidate runs in, and what its command does."""

    name: str
    does: tuple[str, ...] = ("--term-delay=0.2",)  # the witness's options
    prefix: tuple[str, ...] = ()  # of kleader
    before: tuple[str, ...] = ()  # the command
    init: bool = False  # PID 1 of a PID namespace
    elsewhen: bool = False  # in a time namespace
    stepped: bool = False  # its wall clock can be set

    @property
    def possible(self) -> bool:
        """Whether this machine, and who we are on it, allow for such a one."""
        return self.stepped or works(*self.prefix, *self.leaving, "true")

    @property
    def leaving(self) -> list[str]:
        """What brings its command back to where the others' are."""
        return [part.format(pid=os.getpid()) for part in self.before]

    @property
    def brood(self) -> bool:
        """Whether its command leaves a descendant that has a session of its own and is deaf to TERM."""
        return "--descendant" in self.does


def works(*argv: str) -> bool:
    """Whether this command succeeds."""
    try:
        return subprocess.run(argv, check=False, capture_output=True, timeout=30).returncode == 0
    except OSError:
        return False


DEAF = ("--ignore-term", "--descendant")
PLAIN = Style("plain")
BROOD = Style("deaf, with a descendant", DEAF)
INIT = Style("PID 1", DEAF, ("unshare", "--pid", "--fork", "--kill-child", "--mount-proc"), init=True)
ELSEWHEN = Style(
    "another CLOCK_BOOTTIME",
    prefix=("unshare", "--time", "--boottime=1000000"),
    before=("nsenter", "--time=/proc/{pid}/ns/time"),  # of who starts it: the witnesses have one clock
    elsewhen=True,
)
STEPPED = Style(
    "a wall clock of its own",
    prefix=(sys.executable, wall_clock.__file__),
    stepped=True,
)


@dataclass
class Access:
    """Who a candidate is to the API server: a token in a file, or a client certificate in its kubeconfig."""

    config: Path
    proxy: Proxy
    tokens: tuple[str, str]
    token_file: Path | None
    renew: Callable[[float], None]  # writes a certificate that is good for so many seconds

    @property
    def authorizations(self) -> set[str]:
        return {f"Bearer {token}" for token in self.tokens}


@dataclass
class Candidate:
    """A running `kleader run`, or a rival: client-go's."""

    identity: str
    style: Style
    process: Process
    access: Access | None  # None: of the file lock, or a rival
    wall: Path | None = None  # what wall_clock.py reads
    rival: bool = False

    @property
    def running(self) -> bool:
        return self.process.running

    @property
    def knows(self) -> bool:
        """It has told of a leader: itself, another, or somebody whom a lock file without its content does not name."""
        if self.rival:
            return "new leader: " in self.process.err
        events = ("leader_observed", "became_leader", "holder_unknown", "waiting_for_previous_leader")
        return any(self.process.logged(event) for event in events)

    def knows_of(self, leader: str) -> bool:
        """Whether it is the last one that it has told of."""
        return any(
            line.is_of("leader_observed", rf"is {re.escape(leader)}\b")
            for line in self.process.logged("leader_observed")[-1:]
        )

    @property
    def led(self) -> int:
        """How often it has said that it leads."""
        if self.rival:
            return self.process.err.count(f"new leader: {self.identity}\n")
        return len(self.process.logged("became_leader"))

    def supervisor(self) -> psutil.Process:
        """The topmost process that is kleader's own; Missed where there is none."""
        with contextlib.suppress(psutil.NoSuchProcess):
            top = psutil.Process(self.process.pid)
            for each in (top, *top.children(recursive=True)):
                if "supervise" in words(each):
                    return each
        raise Missed("it has no supervisor")

    def elector(self) -> psutil.Process:
        """The process with the network, or the file lock's guard; Missed where there is none just now."""
        supervisor = self.supervisor()
        with contextlib.suppress(psutil.NoSuchProcess):
            for each in supervisor.children():
                with contextlib.suppress(psutil.NoSuchProcess, ProcessLookupError):
                    if self._minds_the_lock(each):
                        return each
        raise Missed("it has no elector")

    def _minds_the_lock(self, process: psutil.Process) -> bool:
        if self.access:
            return "elect" in words(process)
        return "supervise" in words(process) and os.getsid(process.pid) == process.pid

    def command(self, term: Term) -> psutil.Process:
        """The main process of the term."""
        return self._named(term.pid)

    def descendant(self, term: Term) -> psutil.Process:
        """What the term's main process has left."""
        if not term.descendants:
            raise Missed("it has no descendant")
        return self._named(term.descendants[0].pid)

    def everybody(self) -> list[psutil.Process]:
        """All of its processes, the parents first."""
        with contextlib.suppress(psutil.NoSuchProcess):
            top = psutil.Process(self.process.pid)
            return [top, *top.children(recursive=True)]
        raise Missed("it has ended")

    def kill(self) -> None:
        """SIGKILL for all of its processes. They are stopped first: one that is killed too early leaves orphans.

        A candidate that waits may lead by then, and start a command between the look at its processes and the kill.
        """
        stopped: set[psutil.Process] = set()
        while found := {*self.everybody()} - stopped:
            signal_each(found, signal.SIGSTOP)
            stopped |= found
        signal_each(stopped, signal.SIGKILL)

    def _named(self, pid: int) -> psutil.Process:
        """Who has this pid in the innermost of its PID namespaces."""
        for each in self.supervisor().children(recursive=True):
            if innermost(each.pid) == pid:
                return each
        raise Missed("it has no such process")


def signal_each(processes: Iterable[psutil.Process], number: int) -> list[psutil.Process]:
    """Send a signal to each; returns whom it reached."""
    reached = []
    for each in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            each.send_signal(number)
            reached.append(each)
    return reached


def words(process: psutil.Process) -> list[str]:
    """Its command line; nothing where it has ended."""
    try:
        return process.cmdline()
    except psutil.Error:
        return []


def innermost(pid: int) -> int:
    """The pid by which the process knows itself; 0 where it has ended."""
    try:
        with open(f"/proc/{pid}/status", encoding="ascii", errors="replace") as status:  # noqa: PTH123
            return next(int(line.split()[-1]) for line in status if line.startswith("NSpid:"))
    except (OSError, StopIteration):
        return 0
