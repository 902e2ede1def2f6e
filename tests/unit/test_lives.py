"""Whatever happens, no command starts and no lock is released beside a living process, and each run ends.

A life is one run of the supervisor: a plan, then turns. Hypothesis draws lives, and shows a failing one as the fewest
turns that still fail.
"""

from __future__ import annotations

import itertools
import signal
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st

from kleader.election import protocol as p
from kleader.ipc import messages as m
from kleader.supervisor.states import ENDING, RunState
from tests.support.chance import EFFORT, SEED
from tests.support.lives import Kernel, World, simulate_kernel
from tests.support.plans import plan_of

if TYPE_CHECKING:
    from collections.abc import Callable

    import pytest

    from kleader.ipc.plan import Plan

LIVES, MAX_TURNS = 400 * EFFORT, 90
WHY = "for a reason"


def instants(world: World, age: float = 0.0) -> tuple[float, float, float]:
    """t0, stop_at and kill_at of a term that was renewed by a request sent so many seconds ago."""
    plan, sent_at = world.plan, world.now - age
    return sent_at, plan.timing.stop_at(sent_at), plan.timing.kill_at(sent_at)


def elector_succeeds(world: World, age: float = 0.0, done: str = "") -> None:
    """It leads, renews or has released."""
    if world.state is RunState.WAITING:
        age = min(age, world.plan.timing.renew_deadline)
        world.send(p.Acquired(*instants(world, age), "1", 0, 1, done))
    elif world.state in ENDING:
        world.send(p.Released(released=True))
    else:
        world.send(p.Renewed(*instants(world)))


def elector_fails(world: World, *, kill_now: bool = False) -> None:
    """It cannot acquire the lock, or has lost it."""
    if world.state is RunState.WAITING:
        world.send(p.AcquireFailed(WHY, 125))
    else:
        world.send(p.Lost(WHY, kill_now=kill_now))


def elector_stops(world: World) -> None:
    if world.elector:
        world.elector.stopped = True


def elector_ends(world: World) -> None:
    if world.elector:
        world.elector.dies_at = world.now


def process_ends(world: World, which: int) -> None:
    for pid in world.tree()[which : which + 1]:
        world.processes[pid].dies_at = world.now


def room(world: World, *, elector: bool, link: bool) -> None:
    """Whether there is room for another elector, and on the link of the present one."""
    world.room = elector
    world.set_link_room(room=link)


def signalled(number: int) -> Callable[[World], None]:
    return lambda world: world.signals.append((number, False))


#: What happens in a turn; and how often, beside the others.
HAPPENINGS: dict[str, tuple[int, Callable[[World], None]]] = {
    "nothing": (6, lambda _: None),
    "elector succeeds": (12, elector_succeeds),
    "elector succeeds late": (3, lambda world: elector_succeeds(world, 1.0)),
    "elector succeeds at its deadline": (1, lambda world: elector_succeeds(world, 100.0)),
    "elector finds the job done": (1, lambda world: elector_succeeds(world, done="" if world.plan.standby else "yes")),
    "elector renews": (2, lambda world: world.send(p.Renewed(*instants(world)))),
    "elector fails": (2, elector_fails),
    "elector fails, kill now": (1, lambda world: elector_fails(world, kill_now=True)),
    "elector steps down": (1, lambda world: world.send(p.StepDown(WHY, asked=False, to=""))),
    "elector steps down as asked": (1, lambda world: world.send(p.StepDown(WHY, asked=True, to=""))),
    "elector sends a heartbeat": (2, lambda world: world.send(m.Heartbeat())),
    "elector ends": (3, elector_ends),
    "elector stops": (1, elector_stops),
    "first process ends": (3, lambda world: process_ends(world, 0)),
    "second process ends": (2, lambda world: process_ends(world, 1)),
    "third process ends": (1, lambda world: process_ends(world, 2)),
    "TERM": (3, signalled(signal.SIGTERM)),
    "INT": (1, signalled(signal.SIGINT)),
    "INT from the terminal": (1, lambda world: world.signals.append((signal.SIGINT, True))),
    "HUP": (1, signalled(signal.SIGHUP)),
    "TSTP": (1, signalled(signal.SIGTSTP)),
    "USR1": (1, signalled(signal.SIGUSR1)),
    "room": (2, lambda world: room(world, elector=True, link=True)),
    "no room for an elector": (2, lambda world: room(world, elector=False, link=True)),
    "no room on the link": (1, lambda world: room(world, elector=True, link=False)),
}


@dataclass(frozen=True)
class When:
    """A turn comes at what is due or after `pause` seconds, then `late` seconds and so many kill budgets later."""

    pause: float = 0.0
    late: float = 0.0
    late_budgets: int = 0
    with_next: bool = False  # what happens is taken in by the next turn


LATE = [(0.0, 0), (0.0, 0), (0.0, 0), (0.05, 0), (0.2, 0), (0.0, 1), (0.0, 2)]
WHEN = [
    *(When(pause, late, budgets) for late, budgets in LATE for pause in (0.0, 0.001, 0.01, 0.1, 0.3, 1.0, 3.0)),
    *[When(with_next=True)] * 20,
]
NO_ROOM, TERM_TAKES, KILL_TAKES, HOOK_RUNS = (*[False] * 15, True), (0.0, 0.3, 1.0, 5.0), (0.0, 0.05, 0.3), (0, 5, 100)
KERNEL = [
    Kernel(*choice)
    for choice in itertools.product(NO_ROOM, (False, True), (False, True), TERM_TAKES, KILL_TAKES, HOOK_RUNS)
]
TURN = st.tuples(
    st.sampled_from([name for name, (weight, _) in HAPPENINGS.items() for _ in range(weight)]),
    st.sampled_from(WHEN),
    st.sampled_from(KERNEL),
)


FIXED: dict[str, Any] = {"command": ["x"], "path": [], "started": 100.0, "identity": "me", "wait": None}
FIXED |= {"request_timeout": 5.0, "health_period": 1.0, "loss_exit_code": 255, "once_exit_code": 9, "stop_signal": 0}


def make_plan(timing: tuple[int, float], **given: Any) -> Plan:  # noqa: ANN401
    duration, deadline = timing
    return plan_of(**FIXED, lease_duration=duration, renew_deadline=deadline, skew=duration / 10, **given)


PLANS = st.builds(
    make_plan,
    timing=st.sampled_from([(15, 10.0), (5, 4.0), (3, 2.0), (15, 13.0)]),
    kill=st.sampled_from([0.5, 0.5, 0.2, 2.0, 5.0]),
    grace=st.sampled_from([0.0, 0.5, 3.0]),
    lock=st.sampled_from(["lease", "leader-for-life"]),
    release=st.sampled_from([True, True, True, True, False]),
    on_loss=st.sampled_from(["exit", "wait"]),
    restart=st.sampled_from(["no", "always", "on-failure"]),
    until_empty=st.sampled_from([False, False, True]),
    stop_timeout=st.sampled_from([0.0, 1.0, 25.0]),
    standby=st.sampled_from([[], [], ["standby"]]),
    on_end=st.sampled_from([[], ["on-end"]]),
)


def live(plan: Plan, number: int, turns: st.DataObject) -> None:
    """One run, to its end."""
    world = World(plan)
    for _ in range(number):
        if not world.joined and not world.act():
            return
        happens, when, world.kernel = turns.draw(TURN)
        world.advance(when.pause, when.late + when.late_budgets * plan.timing.kill)
        HAPPENINGS[happens][1](world)
        world.joined = when.with_next
        if not world.joined:
            world.take_in()
    world.end()


def test_no_command_starts_and_no_lock_is_released_beside_a_living_process(monkeypatch: pytest.MonkeyPatch) -> None:
    simulate_kernel(monkeypatch)
    lives = settings(max_examples=LIVES, deadline=None, database=None, suppress_health_check=[*HealthCheck])
    lives(seed(SEED)(given(plan=PLANS, number=st.integers(0, MAX_TURNS), turns=st.data())(live)))()
