"""The simulator sees what it is for: without a guard that the promise rests on, some schedule soon breaks it."""

from __future__ import annotations

import pytest

from tests.simulation.schedule import Schedule
from tests.support.guards import GUARDS

ENOUGH = 3000  # schedules


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "guard",
    [
        "a term counts from before its request",
        "another's record counts from after its answer",
        "a holder's own duration is waited out",
        "a write counts only if its answer shows it",
        "an answer belongs to its request",
        "a renewTime is a second after the last",
        "a lost answer is followed by a fresh write",
        "mine means the incarnation too",
        "a change starts the wait anew",
        "a malformed record is held",
    ],
)
def test_some_schedule_breaks_the_promise_without(guard: str) -> None:
    with GUARDS[guard](), pytest.raises(AssertionError):
        play(ENOUGH)


def play(schedules: int) -> None:
    for seed in range(1, schedules + 1):
        Schedule(seed).play()
