"""Within small bounds, nothing that may become of one lock and two candidates lets two commands run."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING

import pytest

from tests.explore.runs import DEEP, RUNS
from tests.explore.search import explore
from tests.explore.values import NOW, later
from tests.explore.world import TICK
from tests.mutation.guards import TABLE
from tests.support.chance import EFFORT
from tests.support.election import Story

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from tests.conftest import Trials
    from tests.explore.world import Bounds

ENOUGH = 2_000 * EFFORT**2  # worlds: 32,000 in `make test-all`

#: Guards of the election, and where their lack is found.
FOUND = {
    "a term counts from before its request": "acquired, late",
    "record counts from after its answer": "never held, late",
}


def without(guard: str) -> AbstractContextManager[None]:
    guards = {row.keeps: row.taken_away for row in TABLE}
    if find_spec("tests.support.guards"):
        guards |= import_module("tests.support.guards").GUARDS
    return next(taken_away for keeps, taken_away in guards.items() if guard in keeps)()


def holds(name: str, bounds: Bounds, trials: Trials) -> None:
    found = explore(bounds, most=ENOUGH)
    trials.count(found.worlds, "worlds of two candidates")
    assert not found.breach, "\n".join([f"{name}: {found.breach}", *found.story])


@pytest.mark.parametrize("name", RUNS)
def test_no_two_commands_run_and_no_lock_is_released_beside_one(name: str, trials: Trials) -> None:
    holds(name, RUNS[name], trials)


@pytest.mark.slow
@pytest.mark.parametrize("name", DEEP)
def test_no_two_commands_run_with_more_faults(name: str, trials: Trials) -> None:
    holds(name, DEEP[name], trials)


@pytest.mark.parametrize("guard", FOUND)
def test_the_explorer_finds_a_breach_without(guard: str) -> None:
    with without(guard):
        found = explore(RUNS[FOUND[guard]], most=60_000)
    assert found.breach
    assert found.story


def test_a_state_reached_later_has_less_left_to_wait() -> None:
    """The explorer changes one thing in a state: instants count from now. The wait that is left is the same."""
    story = Story()
    story.now = NOW
    story.follows()
    left = story.state.wake_at - NOW
    assert later(story.state, TICK).wake_at - NOW == min(left - TICK, 100.0)
