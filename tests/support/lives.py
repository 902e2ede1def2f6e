"""One supervisor's state machine in a simulated world: processes, links and a clock that a test drives.

Everything from :class:`RunStateMachine` down is kleader's code, except forks, signals, waitpid and the clock. What must
not happen raises an AssertionError where it happens. tests/unit/test_lives.py draws what happens.
"""

from __future__ import annotations

import errno
import itertools
import math
import os
import signal
from dataclasses import dataclass
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, ClassVar

from kleader import system
from kleader.election import protocol as p
from kleader.ipc import messages as m
from kleader.ipc.spawn import Launcher
from kleader.supervisor import child, state_machine
from kleader.supervisor.state_machine import RunStateMachine
from kleader.supervisor.states import ENDING, LIMITED, RunState
from kleader.supervisor.subtree import Subtree

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pytest

    from kleader.ipc.plan import Plan

SHORTEST = 0.001  # seconds between two turns at the end, at least
REPLACED = 2.0  # seconds that the start of the next elector may take before a loss
GRACE_OF_THE_END = 200  # seconds in which a run ends that is asked three times


@dataclass(frozen=True)
class Kernel:
    """What the kernel does with what is started, or sent a signal, in one turn; in seconds."""

    no_room: bool = False  # for another process
    ignores_term: bool = False  # the command, from its start
    daemon: bool = False  # the command starts a descendant that ignores SIGTERM
    term_takes: float = 0.0
    kill_takes: float = 0.0
    hook_runs: float = 0.0


@dataclass
class Process:
    """A process."""

    kind: str  # main, descendant, subreaper, hook or elector
    ignores_term: bool = True
    kill_takes: float = 0.0
    dies_at: float = math.inf
    status: int = 0  # waitpid's
    stopped: bool = False


class Link:
    """The link of an elector, which sends the messages of `sent`."""

    fd = 7

    def __init__(self, world: World) -> None:
        self._world = world
        self.sent: list[m.Message] = []
        self.open = self.room = True

    def send(self, _term: int, body: m.Body) -> bool:
        if isinstance(body, (p.Restart, p.AllProcessesExited)):
            assert not self._world.tree("main", "descendant"), f"{type(body).__name__} beside a living process"
        return self.room

    def receive(self) -> list[m.Message]:
        sent, self.sent = self.sent, []
        return sent

    def close(self) -> None:
        self.open = False


class World(Launcher):
    """One run, its processes and its clock. It launches electors in the place of the launcher."""

    current: ClassVar[World]  # the latest one: the functions of the kernel act on it
    releases = True

    def __init__(self, plan: Plan) -> None:
        World.current = self
        self.plan, self.kernel, self.now = plan, Kernel(), 100.0
        self.processes: dict[int, Process] = {}
        self.room = True  # for another elector
        self.signals: list[tuple[int, bool]] = []  # for the next turn; whether from the terminal
        self.joined = False  # what happens next is taken in with what has just happened
        self.heartbeat_timeout = max(plan.timing.renew_deadline / 2, 3.0)
        self._elector = 0
        self._link: Link | None = None
        self._pids = itertools.count(1001)
        given: Any = SimpleNamespace(fd=1, suspend=lambda: None)
        log: Any = SilentLog()
        self.machine = RunStateMachine(plan, log, given, self, None)
        self.machine.begin()

    @property
    def state(self) -> RunState:
        return self.machine._run.state

    @property
    def elector(self) -> Process | None:
        return self.processes.get(self._elector)

    def tree(self, *kinds: str) -> list[int]:
        """The living processes of these kinds; by default, those that count as the command's tree."""
        counted = kinds or ("main", "descendant", "subreaper")
        return [pid for pid, process in self.processes.items() if process.kind in counted]

    def _start(self, kind: str, **known: Any) -> int:  # noqa: ANN401
        pid = next(self._pids)
        self.processes[pid] = Process(kind, **known)
        return pid

    # --- in the place of the kernel

    def kill(self, pid: int, number: int) -> None:
        if pid not in self.processes:
            raise ProcessLookupError
        process = self.processes[pid]
        if number == signal.SIGKILL:
            process.dies_at, process.status = min(process.dies_at, self.now + process.kill_takes), signal.SIGKILL
        elif number in {signal.SIGTERM, signal.SIGINT} and not process.ignores_term:
            process.dies_at = min(process.dies_at, self.now + self.kernel.term_takes)

    def sigkill(self, pid: int) -> bool:
        self.kill(pid, signal.SIGKILL)
        return True

    def spawn(self, *_: object, stop_at: float, **__: object) -> child.Child:
        kernel, term = self.kernel, self.machine._run.term
        if kernel.no_room:
            raise BlockingIOError
        assert not self.tree(), "started beside a living process"
        assert not term.over, "started in a term that is over"
        assert not term.shutdown_signal, "started after a signal that ends the run"
        assert not term.lead or not term.lead.done, "started what was done already"
        pid = self._start("main", ignores_term=kernel.ignores_term, kill_takes=kernel.kill_takes)
        if kernel.daemon:
            self._start("descendant", kill_takes=kernel.kill_takes)
        made = child.Child(pid, -1, -1, own_group=True, foreground=False)
        made.release = lambda: None  # type: ignore[method-assign]
        if self.now >= stop_at:
            made.late, self.processes[pid].dies_at = True, self.now
        return made

    def start_subtree(self, command: list[str]) -> tuple[int, int]:
        if self.kernel.no_room:
            raise BlockingIOError(errno.EAGAIN, "no room")
        if command != ["on-end"]:
            return self._start("subreaper", kill_takes=self.kernel.kill_takes), 1
        assert not self.tree("main", "descendant"), "--on-end beside a living process"
        if self.state is not RunState.WAITING:
            assert not self.elector, "--on-end before the release"
            assert self.state in ENDING, "--on-end in a term"
        return self._start("hook", dies_at=self.now + self.kernel.hook_runs), 1

    def stop_subtree(self, subtree: Any) -> None:  # noqa: ANN401 - its own parts
        if subtree._link >= 0:
            subtree._link, subtree.overdue_at = -1, min(subtree.overdue_at, self.now + 2)
            if subtree.process.pid in self.processes:
                self.kill(subtree.process.pid, signal.SIGKILL)

    def children(self, excluded: set[int]) -> list[int]:
        return [pid for pid in self.tree() if pid not in excluded]

    def below(self, excluded: set[int]) -> Iterator[SimpleNamespace]:
        return (SimpleNamespace(pid=pid, start=1, dead=False, group=0) for pid in self.children(excluded))

    def _reap(self) -> Iterator[tuple[int, int]]:
        """The children that have ended or were stopped since."""
        for pid, process in [*self.processes.items()]:
            if self.now >= process.dies_at:
                del self.processes[pid]
                if self._link and pid == self._elector:
                    self._link.open = False
                yield pid, process.status
            elif process.stopped:
                process.stopped = False
                yield pid, signal.SIGSTOP << 8 | 0x7F

    # --- in the place of the launcher

    def start(self, *, leading: bool) -> tuple[int, Any]:  # noqa: ARG002
        if not self.room:
            raise BlockingIOError
        assert not self.elector, "an elector beside another"
        self._elector, self._link = self._start("elector"), Link(self)
        return self._elector, self._link

    # --- what a test does

    def send(self, body: m.Body) -> None:
        """As the elector of this candidacy, if it lives."""
        if self._link and self.elector:
            self._link.sent.append(m.Message(self.machine._run.term.number, body))
            if isinstance(body, p.Released):
                self.elector.dies_at = self.now

    def set_link_room(self, *, room: bool) -> None:
        if self._link:
            self._link.room = room

    def act(self) -> bool:
        """The first half of a turn: what is due. Whether the run goes on."""
        one, before, alone_by = self.machine, self.state, math.inf
        if one._elector.fd is None:
            alone_by = one._elector.gone_at + (0.0 if one._run.term.lost else REPLACED)
        one.act(self.now)
        if before in LIMITED and self.state in LIMITED:
            kill_at = one._deadline.kill_at
            assert self.now < kill_at, "past kill_at"
            assert self.now < max(kill_at - self.plan.timing.kill, alone_by), "alone past a kill budget before kill_at"
        if one.ended and before is not RunState.KILLING:  # where a third request leaves processes that do not die
            assert not self.tree("main", "descendant"), "ended beside a living process"
        return not one.ended

    def advance(self, pause: float, late: float) -> None:
        """Wait for so long or for what is due, and then `late` seconds more."""
        self.now = max(self.now, min(self.machine.due(), self.now + pause)) + late

    def take_in(self) -> None:
        """The second half of a turn: messages, signals and ended processes."""
        self.machine.receive(self.now)
        signals, self.signals = self.signals, []
        for number, terminal in signals:
            self.machine.on_signal(number, self.now, terminal=terminal)
        for pid, status in self._reap():
            self.machine.reaped(pid, status, self.now)

    def end(self) -> None:
        """Nothing goes wrong any more. Three requests to end, 40 s apart, end the run, and each process dies."""
        self.room, self.kernel = True, Kernel()
        asked_at = [self.now, self.now + 40, self.now + 80]
        until = self.now + GRACE_OF_THE_END
        while self.act():
            assert self.now < until, f"{self.state} for ever"
            self.signals += [(signal.SIGTERM, False) for at in asked_at if at <= self.now]
            asked_at = [at for at in asked_at if at > self.now]
            if self.state is RunState.RELEASING:
                self.send(p.Released(released=True))
            self.take_in()
            next_at = min((self.machine.due(), *asked_at, *(each.dies_at for each in self.processes.values())))
            self.now = max(self.now + SHORTEST, min(next_at, until))


class Report:
    """No process asks for the status."""

    due, fd = math.inf, None

    def __init__(self, *_: object) -> None:
        self.exporter = SimpleNamespace(process=SimpleNamespace(pid=0))

    def note(self, body: m.Body) -> None:
        pass

    def publish(self, *_: object) -> None:
        pass


class SilentLog:
    """A log that is thrown away."""

    role = ""

    def __getattr__(self, _name: str) -> Any:  # noqa: ANN401
        return lambda *_, **__: None


def simulate_kernel(patch: pytest.MonkeyPatch) -> None:
    """The functions that reach the kernel act on `World.current`."""

    def world() -> World:
        return World.current

    patch.setattr(os, "kill", lambda *given: world().kill(*given))
    patch.setattr(os, "getpgid", lambda pid: pid)
    patch.setattr(os, "killpg", lambda *given: world().kill(*given))
    patch.setattr(system, "dead_for_good", lambda _pid: False)
    patch.setattr(system, "clock", lambda: world().now)
    patch.setattr(system, "KillTimer", lambda: SimpleNamespace(arm=lambda _at: None))
    patch.setattr(system, "process", lambda _pid: None)
    patch.setattr(system, "children", lambda excluded: world().children(excluded))
    patch.setattr(system, "below", lambda _root, excluded: world().below(excluded))
    patch.setattr(system, "kill", lambda process, number: world().kill(process.pid, number))
    patch.setattr(system, "sigkill", lambda process: world().sigkill(process.pid))
    patch.setattr(child, "spawn", lambda *given, **more: world().spawn(*given, **more))
    patch.setattr(child, "Terminal", lambda _own: SimpleNamespace(take_back=lambda _pid: None))
    patch.setattr(Subtree, "_launch", lambda _, command, *__: world().start_subtree(command))
    patch.setattr(Subtree, "signal", lambda *_: None)
    patch.setattr(Subtree, "stop", lambda subtree, _now: world().stop_subtree(subtree))
    patch.setattr(state_machine, "StatusReport", Report)
