"""The elector's process: what it guards while it cannot do its work yet."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import math
import socket
import sys
import warnings
from typing import TYPE_CHECKING, Any, NoReturn, cast

import pytest

from kleader import platform
from kleader.election import events as e
from kleader.election.events import Observed
from kleader.election.record import Record
from kleader.elector.loop import Loop
from kleader.elector.orphans import Orphans
from kleader.link import messages as m
from kleader.link.channel import Channel
from kleader.link.plan import FOR_LIFE, Plan
from kleader.locks.base import Traits
from kleader.log import Log

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterator

    from kleader.election.state import State
    from kleader.elector.recorder import Recorder
    from kleader.locks.base import Lock
    from tests.support.processes import Processes

TIMES: dict[str, Any] = {"lease_duration": 2, "kill": 0.2, "skew": 0.2, "renew_deadline": 60.0, "wait": None}


async def _never(_assign: m.Assign) -> tuple[Lock, Recorder]:
    await asyncio.Event().wait()
    raise AssertionError


def test_a_replaced_elector_guards_the_term_before_it_has_found_the_lock(processes: Processes) -> None:
    """Its credentials may take long; a supervisor that is stopped then is killed after kill_at all the same."""
    plan = Plan(**{name: TIMES.get(name, "") for name in Plan.__annotations__})
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    supervisor = processes.start(["/bin/sleep", "600"])  # it answers as a stopped one does
    born = platform.process(supervisor.pid)
    assert born
    told = Channel(theirs)
    told.send(m.Assign(1, "i", True, True, platform.clock(), "7", 0, 0, [], ""))  # noqa: FBT003

    async def elect() -> None:
        elector = Loop(plan, Channel(ours), Log(verbosity=-1), (supervisor.pid, born.start), _never)
        running = asyncio.ensure_future(elector.run())
        assert await asyncio.to_thread(supervisor.wait) == -9
        running.cancel()

    asyncio.run(elect())
    told.close()
    ours.close()


@pytest.mark.parametrize(("wait", "given"), [(0.001, 5.0), (4.0, 5.0), (60.0, 60.0), (0.0, None), (None, None)])
def test_however_short_the_wait_there_is_time_to_find_the_credentials(
    monkeypatch: pytest.MonkeyPatch, wait: float | None, given: float | None
) -> None:
    """Or a wait shorter than a try would try nothing at all on a slow machine."""
    asked: list[float | None] = []

    class OverAtOnce(contextlib.AbstractAsyncContextManager[None]):
        def __init__(self, seconds: float | None) -> None:
            asked.append(seconds)

        async def __aenter__(self) -> None:
            raise asyncio.TimeoutError

        async def __aexit__(self, *_: object) -> None: ...

    monkeypatch.setattr("kleader.elector.loop.within", OverAtOnce)
    plan = Plan(**{name: TIMES.get(name, "") for name in Plan.__annotations__})._replace(wait=wait)
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    elector = Loop(plan, Channel(ours), Log(verbosity=-1), (1, -1), _never)
    asyncio.run(elector._begin(m.Assign(1, "i", False, False, 0.0, "", 0, 0, [], "")))  # noqa: FBT003
    assert asked == [given]
    theirs.close()
    ours.close()


def test_a_supervisor_that_was_asked_nothing_while_its_candidate_waited_is_not_silent_when_that_leads() -> None:
    """A look at it between the Lead and its answer would end the term."""
    plan = Plan(**{name: TIMES.get(name, "") for name in Plan.__annotations__})
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    elector = Loop(plan, Channel(ours), Log(verbosity=-1), (1, 1), _never)
    elector._guard("i")
    assert elector._watchdog
    now = platform.clock()
    elector._watchdog.heard_at = now - 3600
    elector._lead(e.Lead(now + 60, now + 90, "7", 0, 0))
    assert elector._watchdog.heard_at >= now
    theirs.close()
    ours.close()


def test_what_is_ended_before_it_has_begun_leaves_no_word() -> None:
    """A watch that is wanted, and not wanted any more, in one turn: Python would warn of it on standard error."""
    plan = Plan(**{name: TIMES.get(name, "") for name in Plan.__annotations__})
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)

    async def elect() -> None:
        task = Loop(plan, Channel(ours), Log(verbosity=-1), (1, 1), _never)._tasks.spawn(asyncio.sleep(0))
        task.cancel()
        await asyncio.wait({task})

    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        asyncio.run(elect())
        gc.collect()
    assert not said
    theirs.close()
    ours.close()


@pytest.fixture
def elector() -> Iterator[Loop]:
    """One that was told of its term, and has no lock yet."""
    plan = Plan(**{name: TIMES.get(name, "") for name in Plan.__annotations__})
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    made = Loop(plan, Channel(ours), Log(verbosity=-1), (1, -1), _never)
    made._term, made._timer = 3, platform.Timer()
    made._guard("i")
    yield made
    theirs.close()
    ours.close()


def test_the_second_guard_keeps_to_the_terms_kill_at_which_moves_forward_only(elector: Loop) -> None:
    dog, now = elector._watchdog, platform.clock()
    assert dog
    elector._lead(e.Lead(now + 60, now + 90, "7", 0, 0))
    assert dog.kill_at == now + 90
    elector._extend(e.Extend(now + 70, now + 100))
    assert dog.kill_at == now + 100
    elector._extend(e.Extend(now + 65, now + 95))
    assert dog.kill_at == now + 100


def test_the_second_guard_knows_what_the_supervisor_keeps_to(elector: Loop) -> None:
    """A stopped one does not hear of renewals, and is killed by the kernel when the last one that it heard of ends."""
    dog, now = elector._watchdog, platform.clock()
    assert dog
    assert dog.told == math.inf, "it has not begun"
    elector._hear(m.Alive(3, now + 80))
    assert dog.told == now + 80
    elector._hear(m.Alive(2, now + 5))
    assert dog.told == now + 80, "of another term"
    elector._hear(m.Empty(3, False, ""))  # noqa: FBT003
    assert dog.told == dog.kill_at == math.inf


def test_who_takes_over_knows_what_the_supervisor_keeps_to(elector: Loop) -> None:
    """That may be stopped before it answers a word, while the new elector renews on."""

    async def elect() -> None:
        elector._assigned(m.Assign(1, "i", True, True, now, "7", 0, 0, [], ""))  # noqa: FBT003
        dog = elector._watchdog
        assert dog
        elector._extend(e.Extend(now + 70, now + 100))
        assert dog.told == pytest.approx(now + TIMES["lease_duration"] - TIMES["kill"] - TIMES["skew"])
        assert dog.kill_at == now + 100

    now = platform.clock()
    asyncio.run(elect())


def test_an_elector_that_has_to_kill_renews_no_longer(elector: Loop, monkeypatch: pytest.MonkeyPatch) -> None:
    fed: list[e.Event] = []
    monkeypatch.setattr(elector, "_feed", fed.append)
    monkeypatch.setattr(elector, "_on_link", lambda: None)
    dog = elector._watchdog
    assert dog
    monkeypatch.setattr(dog, "ring", lambda: True)
    elector._on_timer()
    assert fed == [e.Woke()], "it has not begun to"
    elector._state = cast("State", object())
    elector._on_timer()
    assert isinstance(fed[1], e.Deserted)


def test_an_answer_that_has_come_is_heard_before_it_is_missed(elector: Loop, monkeypatch: pytest.MonkeyPatch) -> None:
    """By one that was late itself."""
    done: list[str] = []
    dog = elector._watchdog
    assert dog
    monkeypatch.setattr(elector, "_on_link", lambda: done.append("hear"))
    monkeypatch.setattr(dog, "ring", lambda: done.append("ring"))
    elector._on_timer()
    assert done == ["hear", "ring"]


@pytest.mark.parametrize(("kill_now", "hurries"), [(True, True), (False, False)])
def test_the_second_guard_hurries_where_somebody_else_may_lead(elector: Loop, *, kill_now: bool, hurries: bool) -> None:
    dog, now = elector._watchdog, platform.clock()
    assert dog
    dog.kill_at = now + 90
    elector._lose(e.Lost("another leads", kill_now=kill_now))
    assert (dog.kill_at < now + 90) is hurries


class Held:
    """A lock that another has, for longer than this candidate would."""

    namespace = "n"
    traits = Traits()

    async def get(self, _timeout: float) -> Observed:
        return Observed(Record("other", 40, 1, 1, 1), "i", "1")

    async def watch(self, _after: Observed, _timeout: float) -> AsyncGenerator[Observed]:
        await asyncio.Event().wait()
        yield Observed(Record(), "", "2")


def told_of_another(assign: m.Assign) -> tuple[list[State], list[m.Message]]:
    """The states of an elector before and after it has read that another has the lock, and what it told meanwhile."""
    times = {"lease_duration": 15, "renew_deadline": 10.0, "retry_period": 2.0, "kill": 1.0, "grace": 0.5, "skew": 0.5}
    known: dict[str, Any] = {**times, "identity": "me", "request_timeout": 5.0}
    plan = Plan(**{name: known.get(name, "") for name in Plan.__annotations__})
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    states: list[State] = []

    async def find_lock(_assign: m.Assign) -> tuple[Lock, Recorder]:
        return cast("Lock", Held()), cast("Recorder", None)

    async def follow() -> None:
        elector = Loop(plan, Channel(ours), Log(verbosity=-1), (1, -1), find_lock)
        elector._timer, elector._term = platform.Timer(), 2
        await elector._begin(assign)
        assert elector._state
        assert elector._requesting
        states.append(elector._state)
        await elector._requesting
        states.append(elector._state)

    asyncio.run(follow())
    told = Channel(theirs)
    said = told.receive()
    told.close()
    ours.close()
    return states, said


@pytest.mark.parametrize(("memory", "held"), [("", 15), ("60", 60)])
def test_a_successor_waits_for_as_long_as_its_predecessor_has_told(memory: str, held: int) -> None:
    (state, _), _ = told_of_another(m.Assign(2, "i", False, True, 0.0, "", 0, 0, [], memory))  # noqa: FBT003
    assert state.gone_wait == held


def test_for_how_long_another_has_the_lock_is_told_before_who_it_is() -> None:
    _, said = told_of_another(m.Assign(2, "i", False, False, 0.0, "", 0, 0, [], ""))  # noqa: FBT003
    told = [each for each in said if isinstance(each, (m.Remember, m.Observe))]
    assert told == [m.Remember(2, "40"), m.Observe(2, "other", "n")]


def test_words_of_another_term_count_for_nothing(elector: Loop) -> None:
    """The command of a term that is over is nobody's to kill by now, and an Empty disarms the guard of its own term."""
    dog, orphans = elector._watchdog, elector._orphans
    assert dog
    assert orphans
    dog.kill_at = platform.clock() + 90
    elector._hear(m.Started(2, 1, 1))
    elector._hear(m.Empty(2, True, ""))  # noqa: FBT003
    assert dog.kill_at < math.inf
    assert not orphans.any
    elector._hear(m.Started(3, 1, 1))
    assert orphans.any


def test_what_a_predecessor_was_told_of_is_killed_when_the_supervisor_dies(
    monkeypatch: pytest.MonkeyPatch, processes: Processes
) -> None:
    monkeypatch.setattr("os._exit", sys.exit)
    plan = Plan(**{name: TIMES.get(name, "") for name in Plan.__annotations__})
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)

    async def elect(started: list[list[int]]) -> None:
        elector = Loop(plan, Channel(ours), Log(verbosity=-1), (1, -1), _never)
        elector._timer = platform.Timer()
        elector._assigned(m.Assign(1, "i", True, True, platform.clock(), "7", 0, 0, started, ""))  # noqa: FBT003
        elector._deserted()

    command = processes.start(["/bin/sleep", "600"])
    found = platform.process(command.pid)
    assert found
    with pytest.raises(SystemExit):
        asyncio.run(elect([[found.pid, found.start]]))
    assert command.wait() == -9
    theirs.close()
    ours.close()


class Undying(Orphans):
    """Some that die when they are looked for the third time."""

    sweeps = 0

    def sweep_until_none(self) -> bool:
        self.sweeps += 1
        return self.sweeps == 3


@pytest.mark.parametrize(("lock", "sweeps"), [(FOR_LIFE, 3), ("lease", 1)])
def test_an_elector_that_has_not_found_the_lock_stays_for_what_would_not_die_if_that_keeps_others_away(
    monkeypatch: pytest.MonkeyPatch, lock: str, sweeps: int
) -> None:
    monkeypatch.setattr("os._exit", sys.exit)
    plan = Plan(**{name: TIMES.get(name, "") for name in Plan.__annotations__})._replace(lock=lock)
    ours, theirs = socket.socketpair()
    elector = Loop(plan, Channel(ours), Log(verbosity=-1), (1, 1), _never)
    elector._orphans = orphans = Undying(1, -1, "KLEADER_TERM_none")
    orphans.any = True
    with pytest.raises(SystemExit):
        elector._deserted()
    assert orphans.sweeps == sweeps
    theirs.close()
    ours.close()


def test_a_shortage_does_not_end_the_sweep(monkeypatch: pytest.MonkeyPatch, processes: Processes) -> None:
    """Too many open files on the machine: the guard goes on looking, and holds the lock meanwhile."""
    command = processes.start(["/bin/sleep", "600"])
    found = platform.process(command.pid)
    assert found
    orphans = Orphans(1, -1, "KLEADER_TERM_none")
    orphans.started(found.pid, found.start)
    looks: list[int] = []
    real = platform.processes

    def short() -> dict[int, platform.Process]:
        looks.append(1)
        if len(looks) <= 3:
            _too_many()
        command.popen.poll()
        return real()

    monkeypatch.setattr(platform, "processes", short)
    assert orphans.sweep_until_none()
    assert command.wait() == -9


def _too_many() -> NoReturn:
    raise OSError(24, "Too many open files")
