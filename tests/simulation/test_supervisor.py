"""The model of the supervisor takes as long as the real one may, and no longer."""

from __future__ import annotations

import heapq
import itertools
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest

from kleader.election.events import Acquired
from tests.simulation.supervisor import KILLS_FOR, NOTICED_AFTER, Supervisor

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.simulation.machine import Machine

K = 0.5


class Slowest:
    """A machine on which everything takes as long as it may."""

    def __init__(self) -> None:
        self.boot, self.warm = 0.0, False
        self.me = SimpleNamespace(timing=SimpleNamespace(kill=K))
        self.fortune = SimpleNamespace(random=lambda: 1.0, choice=lambda many: many[0], uniform=lambda _, most: most)
        self.state, self.paused, self.world = object(), False, self
        self.deaths: list[float] = []
        self._serial = itertools.count()
        self._todo: list[tuple[float, int, Callable[[], None]]] = []
        self.supervisor = Supervisor(cast("Machine", self))

    @property
    def now(self) -> float:
        return self.boot

    def after(self, seconds: float, what: Callable[[], None]) -> None:
        heapq.heappush(self._todo, (self.boot + seconds, next(self._serial), what))

    def until(self, instant: float) -> None:
        while self._todo and self._todo[0][0] <= instant:
            self.boot, _, what = heapq.heappop(self._todo)
            what()
        self.boot = instant

    def ended(self, _machine: object) -> None:
        self.deaths.append(self.boot)

    def started(self, token: str) -> None: ...

    def emptied(self, command: object) -> None: ...

    def over(self) -> None: ...


def leading() -> Slowest:
    machine = Slowest()
    machine.supervisor.receive(Acquired(t0=0, stop_at=4, kill_at=6, token="1", transitions=0, acquired=1))
    machine.until(0)
    return machine


def test_a_supervisor_stopped_while_it_kills_leaves_no_process_past_its_kill_budget() -> None:
    """The kernel's timer, then the elector kills the rest: all within the kill budget."""
    machine = leading()
    machine.until(6 + K * KILLS_FOR - 0.001)
    machine.supervisor.pause(5)
    machine.until(20)
    assert machine.deaths == [pytest.approx(6 + K, abs=0.002)]


def test_the_tree_of_a_killed_or_stopped_supervisor_is_dead_within_the_kill_budget() -> None:
    machine = leading()
    machine.until(1)
    machine.supervisor.die()
    machine.until(20)
    assert machine.deaths == [1 + K * KILLS_FOR]
    machine = leading()
    machine.until(1)
    machine.supervisor.pause(60)
    machine.until(20)
    assert machine.deaths == [6 + K * (NOTICED_AFTER + KILLS_FOR)]
