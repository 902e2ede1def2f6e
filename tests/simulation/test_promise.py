"""The promise under schedules drawn from seeds.

KLEADER_SIMULATION_SCHEDULES is how many are played, KLEADER_SIMULATION_SEED the first one's seed, each next one's is
greater by one. A failure names its seed: with that and one schedule it is replayed exactly.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from tests.simulation.schedule import Schedule

if TYPE_CHECKING:
    from tests.conftest import Trials

SCHEDULES = int(os.environ.get("KLEADER_SIMULATION_SCHEDULES", "2000"))
SEED = int(os.environ.get("KLEADER_SIMULATION_SEED", "1"))


@pytest.mark.timeout(60 + SCHEDULES)
def test_no_command_starts_while_another_is_alive_and_somebody_leads_once_nothing_hinders(trials: Trials) -> None:
    starts = 0
    for seed in range(SEED, SEED + SCHEDULES):
        world = Schedule(seed)
        try:
            world.play()
        except AssertionError as error:
            pytest.fail(f"{world.story}\nseed {seed}: {error}", pytrace=False)
        starts += len(world.starts)
    trials.count(SCHEDULES, "simulated schedules")
    trials.count(starts, "simulated starts")


def test_a_seed_replays_its_schedule_exactly() -> None:
    first, second = Schedule(SEED), Schedule(SEED)
    first.play()
    second.play()
    assert first.story == second.story
