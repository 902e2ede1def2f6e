"""Whole runs of the state machine in a simulated world: crashes, stops, delays and messages by chance, from a seed.

Everything from :class:`RunStateMachine` down is kleader's code, except forks, signals, waitpid and the clock. Each
violation is noted in `World.wrong`.
"""

from __future__ import annotations

import errno
import math
import os
import random
import signal
from dataclasses import dataclass
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from kleader import system
from kleader.election import protocol as p
from kleader.ipc import messages as m
from kleader.ipc.plan import Plan
from kleader.supervisor import child, state_machine
from kleader.supervisor.state_machine import RunStateMachine
from kleader.supervisor.states import ENDING, LIMITED, State
from kleader.supervisor.subtree import Subtree

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pytest

SIGNALS = [signal.SIGTERM, signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGTSTP, signal.SIGUSR1]
SHORTEST = 0.001  # seconds between two turns, at least, once nothing happens any more
REPLACED = 2.0  # seconds that the start of the next elector may take before a loss


@dataclass
class Body:
    """A process."""

    kind: str  # main, descendant, subreaper, hook or elector
    deaf: bool = False  # ignores TERM and INT
    dying: float = 0.0  # seconds that SIGKILL takes
    dies_at: float = math.inf
    status: int = 0  # waitpid's
    stopped: bool = False


class Link:
    """The link of an elector, which sends what it is given."""

    fd = 7

    def __init__(self, world: World) -> None:
        self._world = world
        self.says: list[m.Body] = []
        self.open = self.room = True

    def send(self, _term: int, body: m.Body) -> bool:
        world = self._world
        if isinstance(body, (p.Restart, p.AllProcessesExited)):
            world.expect(not world.tree("main", "descendant"), f"{type(body).__name__} beside the living")
        return self.room

    def receive(self) -> list[m.Message]:
        says, self.says = self.says, []
        number = self._world.machine._run.term.number if self._world.machine else 0
        return [m.Message(number, body) for body in says]

    def close(self) -> None:
        self.open = False


class World:
    """Processes, a clock, and chance."""

    heartbeat_timeout = 5.0
    releases = True
    inherited: tuple[int, ...] = ()

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)  # noqa: S311 - a seed replays a life
        self.now = 100.0
        self.bodies: dict[int, Body] = {}
        self.room = True  # for another elector
        self.elector = 0
        self.link: Link | None = None
        self.machine: RunStateMachine | None = None
        self.wrong: list[str] = []

    def expect(self, holds: bool, what: str) -> None:  # noqa: FBT001 - a claim
        if not holds:
            self.wrong.append(what)

    def tree(self, *kinds: str) -> list[int]:
        """The living processes of these kinds; by default, those that count as the command's tree."""
        return [pid for pid, body in self.bodies.items() if body.kind in (kinds or {"main", "descendant", "subreaper"})]

    def _born(self, kind: str, **known: Any) -> int:  # noqa: ANN401
        pid = 1000 + self.rng.randrange(10**9)
        self.bodies[pid] = Body(kind, **known)
        return pid

    # --- in the place of the kernel

    def kill(self, pid: int, number: int) -> None:
        if pid not in self.bodies:
            raise ProcessLookupError
        body = self.bodies[pid]
        if number == signal.SIGKILL:
            body.dies_at, body.status = min(body.dies_at, self.now + body.dying), signal.SIGKILL
        elif number in {signal.SIGTERM, signal.SIGINT} and body.kind == "main" and not body.deaf:
            body.dies_at = min(body.dies_at, self.now + self.rng.choice((0, 0.3, 1, 5)))

    def sigkill(self, pid: int) -> bool:
        self.kill(pid, signal.SIGKILL)
        return True

    def spawn(self, *_: object, stop_at: float, **__: object) -> child.Child:
        if self.rng.random() < 0.03:
            raise BlockingIOError
        self.expect(not self.tree(), "started beside the living")
        if self.machine:
            term = self.machine._run.term
            self.expect(not (term.over or term.shutdown_signal), "started in a term that is over")
            self.expect(not (term.lead and term.lead.done), "started what was done already")
        pid = self._born("main", deaf=self.rng.random() < 0.6, dying=self.rng.choice((0, 0, 0.05, 0.3)))
        if self.rng.random() < 0.5:
            self._born("descendant", deaf=True, dying=self.rng.choice((0, 0.1)))
        made = child.Child(pid, -1, -1, own_group=True, foreground=False)
        made.release = lambda: None  # type: ignore[method-assign]
        if self.now >= stop_at:
            made.late, self.bodies[pid].dies_at = True, self.now
        return made

    def contain(self, command: list[str]) -> tuple[int, int]:
        if self.rng.random() < 0.1:
            raise BlockingIOError(errno.EAGAIN, "no room")
        if command == ["on-end"]:
            assert self.machine
            self.expect(not self.tree("main", "descendant"), "--on-end beside the living")
            at_once = self.machine._run.state is State.WAITING
            self.expect(at_once or self.elector not in self.bodies, "--on-end before the release")
            self.expect(at_once or self.machine._run.state in ENDING, "--on-end in a term")
            return self._born("hook", dies_at=self.now + self.rng.choice((0, 0.1, 5, 100))), 1
        return self._born("subreaper", dying=self.rng.choice((0, 0, 0.1, 0.5))), 1

    def stop(self, subtree: Any, now: float) -> None:  # noqa: ANN401 - its own parts
        if subtree._link >= 0:
            subtree._link, subtree.overdue_at = -1, min(subtree.overdue_at, now + 2)
            if subtree.process.pid in self.bodies:
                self.kill(subtree.process.pid, signal.SIGKILL)

    def reap(self) -> list[tuple[int, int]]:
        """The children that have ended or were stopped since."""
        found = []
        for pid, body in list(self.bodies.items()):
            if self.now >= body.dies_at:
                del self.bodies[pid]
                if self.link and pid == self.elector:
                    self.link.open = False
                found.append((pid, body.status))
            elif body.stopped:
                body.stopped = False
                found.append((pid, signal.SIGSTOP << 8 | 0x7F))
        self.rng.shuffle(found)
        return found

    # --- in the place of the launcher

    def start(self, *, leading: bool) -> tuple[int, Any]:  # noqa: ARG002
        if not self.room:
            raise BlockingIOError
        self.expect(self.elector not in self.bodies, "an elector beside another")
        self.elector, self.link = self._born("elector"), Link(self)
        return self.elector, self.link

    def holder(self) -> str:
        return ""

    def let_go(self) -> None:
        pass


class Report:
    """No process asks for the status."""

    due, fd = math.inf, None

    def __init__(self, *_: object) -> None:
        self.exporter = SimpleNamespace(process=SimpleNamespace(pid=0))

    def note(self, body: m.Body) -> None:
        pass

    def publish(self, *_: object) -> None:
        pass


class Silence:
    """A log that is thrown away."""

    role = ""

    def __getattr__(self, _name: str) -> Any:  # noqa: ANN401
        return lambda *_, **__: None


class Lives:
    """One after the other; `current` is the world of the present one."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.current = World(0)  # another one in each life: hence the lambdas
        patch.setattr(os, "kill", lambda *given: self.current.kill(*given))  # noqa: PLW0108
        patch.setattr(os, "getpgid", lambda pid: pid)
        patch.setattr(os, "killpg", lambda *given: self.current.kill(*given))  # noqa: PLW0108
        patch.setattr(system, "dead_for_good", lambda _pid: False)
        patch.setattr(system, "clock", lambda: self.current.now)
        patch.setattr(system, "KillTimer", lambda: SimpleNamespace(arm=lambda _at: None))
        patch.setattr(system, "process", lambda _pid: None)
        patch.setattr(system, "children", lambda spared: [pid for pid in self.current.tree() if pid not in spared])
        patch.setattr(system, "below", lambda _root, spared: self._below(spared))
        patch.setattr(system, "kill", lambda each, number: self.current.kill(each.pid, number))
        patch.setattr(system, "sigkill", lambda each: self.current.sigkill(each.pid))
        patch.setattr(child, "spawn", lambda *given, **more: self.current.spawn(*given, **more))  # noqa: PLW0108
        patch.setattr(child, "Terminal", lambda _own: SimpleNamespace(take_back=lambda _pid: None))
        patch.setattr(Subtree, "_launch", lambda _, command, *__: self.current.contain(command))
        patch.setattr(Subtree, "signal", lambda *_: None)
        patch.setattr(Subtree, "stop", lambda subtree, now: self.current.stop(subtree, now))  # noqa: PLW0108
        patch.setattr(state_machine, "StatusReport", Report)

    def _below(self, spared: set[int]) -> Iterator[SimpleNamespace]:
        return (
            SimpleNamespace(pid=pid, start=1, dead=False, group=0) for pid in self.current.tree() if pid not in spared
        )

    def live(self, seed: int) -> World:
        """One whole life: of chance for so many turns, then with nothing amiss and three times asked to end."""
        self.current = world = World(seed)
        try:
            _live(world)
        except Exception as error:  # noqa: BLE001 - whatever it is, this seed shows it
            world.wrong.append(f"{type(error).__name__}: {error}")
        return world


def _live(world: World) -> None:
    rng, plan = world.rng, _plan(world.rng)
    given: Any = SimpleNamespace(fd=1, suspend=lambda: None)
    log: Any = Silence()
    world.heartbeat_timeout = max(plan.renew_deadline / 2, 3.0)
    world.machine = one = RunStateMachine(plan, log, given, world, None)
    one.begin()
    for _ in range(rng.randrange(20, 120)):
        _act(world, one, plan)
        if one.ended:
            return
        late = rng.choice((0, 0, 0, 0.05, 0.2, plan.kill, 2 * plan.kill))
        world.now = max(world.now, min(one.due(), world.now + rng.choice((0, 0.001, 0.01, 0.1, 0.3, 1, 3)))) + late
        if world.link and world.elector in world.bodies:
            world.link.says += _words(world, one, plan)
            world.link.room = rng.random() > 0.05
        _strike(world)
        asked = [rng.choice(SIGNALS) for _ in range(rng.choice((*[0] * 12, 1, 1, 2, 3)))]
        _take_in(world, one, asked)
    _end(world, one, plan)


def _act(world: World, one: RunStateMachine, plan: Plan) -> None:
    before, alone_by = one._run.state, math.inf
    if one._elector.fd is None:
        alone_by = one._elector.gone_at + (0.0 if one._run.term.lost else REPLACED)
    one.act(world.now)
    if before in LIMITED and one._run.state in LIMITED:
        kill_at = one._deadline.kill_at
        world.expect(world.now < kill_at, "past kill_at")
        world.expect(world.now < max(kill_at - plan.kill, alone_by), "alone past a kill budget before kill_at")
    if one.ended and before is not State.KILLING:  # where a third request leaves what does not die
        world.expect(not world.tree("main", "descendant"), "ended beside the living")


def _words(world: World, one: RunStateMachine, plan: Plan) -> list[m.Body]:
    """What an elector may say in this state, true or not; nothing as often as not."""
    rng = world.rng
    extend = p.Renewed(*_instants(plan, world.now))
    may: Sequence[m.Body]
    if one._run.state is State.WAITING:
        t0 = world.now - rng.choice((0, 0.1, 1, plan.renew_deadline))
        lead = p.Acquired(*_instants(plan, t0), "1", 0, 1)
        done = lead._replace(done="" if plan.standby else "already done")
        may = [*[lead] * 8, done, extend, p.AcquireFailed("for a reason", 125), *[m.Heartbeat()] * 3]
    elif one._run.state in {State.RELEASING, State.NOT_CONTENDING}:
        may = [p.Released(released=True, why="")]
    else:
        lost = p.Lost("for a reason", kill_now=rng.random() < 0.3)
        asked = p.StepDown("for a reason", asked=rng.random() < 0.5, to="")
        may = [extend] * 6 + [lost] * 4 + [asked] + [m.Heartbeat()] * 3
    says = [rng.choice(may) for _ in range(rng.choice((0, 0, 1, 2)))]
    if says and isinstance(says[0], p.Released):
        world.bodies[world.elector].dies_at = world.now
    return says


def _instants(plan: Plan, t0: float) -> tuple[float, float, float]:
    """t0, stop_at and kill_at of a term that was renewed by a request sent then."""
    return t0, t0 + plan.renew_deadline, t0 + plan.lease_duration - plan.kill - plan.skew


def _strike(world: World) -> None:
    """What befalls processes, and the machine."""
    rng = world.rng
    if rng.random() < 0.15:
        world.room = not world.room
    if world.elector in world.bodies and rng.random() < 0.12:
        if rng.random() < 0.8:
            world.kill(world.elector, signal.SIGKILL)
        else:
            world.bodies[world.elector].stopped = True
    for pid in world.tree():
        if rng.random() < 0.04:
            world.bodies[pid].dies_at = world.now


def _take_in(world: World, one: RunStateMachine, signals: list[signal.Signals]) -> None:
    """A turn of the supervisor's loop, but for what comes first in it."""
    one.receive(world.now)
    for number in signals:
        one.on_signal(number, world.now, terminal=world.rng.random() < 0.2)
    for pid, status in world.reap():
        one.reaped(pid, status, world.now)


def _end(world: World, one: RunStateMachine, plan: Plan) -> None:
    """Nothing happens any more; three requests, each well after the one before it, and what is killed dies."""
    world.room = True
    asked_at = [world.now, world.now + 40, world.now + 80]
    until = world.now + 200
    while world.now < until:
        _act(world, one, plan)
        if one.ended:
            return
        asked = [signal.SIGTERM for at in asked_at if at <= world.now]
        asked_at = [at for at in asked_at if at > world.now]
        if world.link and one._run.state is State.RELEASING and world.elector in world.bodies:
            world.link.says.append(p.Released(released=True))
            world.bodies[world.elector].dies_at = world.now
        _take_in(world, one, asked)
        next_at = min((one.due(), *asked_at, *(body.dies_at for body in world.bodies.values())))
        world.now = max(world.now + SHORTEST, min(next_at, until))
    world.expect(holds=False, what=f"{one._run.state} for ever")


def _plan(rng: random.Random) -> Plan:
    duration, deadline = rng.choice(((15, 10.0), (5, 4.0), (3, 2.0), (15, 13.0)))
    kill, grace = rng.choice((0.5, 0.5, 0.2, 2.0, 5.0)), rng.choice((0.0, 0.5, 3.0))
    known: dict[str, Any] = {
        **dict.fromkeys(Plan.__annotations__, ""),
        "command": ["x"],
        "path": [],
        "started": 100.0,
        "lock": rng.choice(("lease", "leader-for-life")),
        "identity": "me",
        "wait": None,
        "lease_duration": duration,
        "renew_deadline": deadline,
        "kill": kill,
        "grace": grace,
        "skew": duration / 10,
        "request_timeout": 5.0,
        "loss_exit_code": 255,
        "once_exit_code": 9,
        "stop_signal": 0,
        "release": rng.random() < 0.8,
        "on_loss": rng.choice(("exit", "wait")),
        "restart": rng.choice(("no", "always", "on-failure")),
        "until_empty": rng.random() < 0.3,
        "stop_timeout": rng.choice((0.0, 1.0, 25.0)),
        "health_period": 1.0,
        "standby": rng.choice(([], [], ["standby"])),
        "on_end": rng.choice(([], ["on-end"])),
    }
    return Plan(**known)
