"""The promise where the control plane names the leaders, by a clock of its own and now and then at its whim.

The schedules are chosen as in test_promise.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.simulation.control_plane import NamedSchedule
from tests.simulation.test_promise import SCHEDULES, SEED
from tests.support.guards import GUARDS

if TYPE_CHECKING:
    from tests.conftest import Trials

ENOUGH = 3000  # schedules


@pytest.mark.timeout(60 + SCHEDULES)
def test_no_command_starts_while_another_is_alive_and_the_oldest_leads_once_nothing_hinders(trials: Trials) -> None:
    starts = 0
    for seed in range(SEED, SEED + SCHEDULES):
        world = NamedSchedule(seed)
        try:
            world.play()
        except AssertionError as error:
            pytest.fail(f"{world.story}\nseed {seed}: {error}", pytrace=False)
        starts += len(world.starts)
    trials.count(SCHEDULES, "simulated schedules of a control plane that names")
    trials.count(starts, "simulated starts of named leaders")


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "guard",
    [
        "who is named waits for who led before",
        "who is named waits for who led before one that was named",
        "what was not told leaves something out",
        "a naming is known by its missing acquireTime",
        "a malformed record hides nobody",
        "over a malformed record is not over an empty holder",
        "a lock created for us is free if it was missing",
        "a claim is given back to who is preferred",
        "a claim is given back when all before must have ended",
    ],
)
def test_some_schedule_breaks_the_promise_without(guard: str) -> None:
    with GUARDS[guard](), pytest.raises(AssertionError):
        play(ENOUGH)


def play(schedules: int) -> None:
    for seed in range(1, schedules + 1):
        NamedSchedule(seed).play()
