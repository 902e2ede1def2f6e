"""The promise of leader-for-life under schedules drawn from seeds; as test_promise.py has it of the others."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.simulation.pods import Pods
from tests.simulation.test_promise import SCHEDULES, SEED

if TYPE_CHECKING:
    from tests.conftest import Trials


@pytest.mark.timeout(60 + SCHEDULES)
def test_no_command_starts_while_another_is_alive_and_somebody_leads_once_nothing_hinders(trials: Trials) -> None:
    starts = 0
    for seed in range(SEED, SEED + SCHEDULES):
        world = Pods(seed)
        try:
            world.play()
        except AssertionError as error:
            pytest.fail(f"{world.story}\nseed {seed}: {error}", pytrace=False)
        starts += len(world.starts)
    trials.count(SCHEDULES, "simulated schedules")
    trials.count(starts, "simulated starts")
