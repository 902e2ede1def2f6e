"""The simulator sees what it is for: without a guard that the promise rests on, some schedule soon breaks it."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

import pytest

from tests.simulation.runs import schedule
from tests.support.guards import GUARDS

if TYPE_CHECKING:
    from collections.abc import Iterator

ENOUGH = 1000  # schedules

#: Without which guard which kind of schedule fails, and a seed that was seen to; it is only where the search begins.
FOUND = {
    "a term counts from before its request": ("lease", 187),
    "another's record counts from after its answer": ("annotation", 1),
    "a holder's own duration is waited out": ("annotation", 1),
    "a write counts only with a new version": ("annotation", 77),
    "a write counts only if its answer shows it": ("lease", 119),
    "an answer belongs to its request": ("lease", 5),
    "a renewTime is a second after the last": ("annotation", 1),
    "a lost answer is followed by a fresh write": ("lease", 56),
    "mine means the incarnation too": ("lease", 2),
    "a change starts the wait anew": ("lease", 1),
    "a malformed record is held": ("lease", 5),
    "only one's own is released": ("lease", 91),
    "who is named waits for who led before": ("coordinated", 15),
    "who is named waits for who led before one that was named": ("coordinated", 72),
    "what was not told leaves something out": ("coordinated", 314),
    "a naming is known by its missing acquireTime": ("coordinated", 1),
    "a malformed record hides nobody": ("coordinated", 153),
    "over a malformed record is not over an empty holder": ("coordinated", 153),
    "a claim is given back to who is preferred": ("coordinated", 4),
    "a claim is given back when all before must have ended": ("coordinated", 52),
    "a pair: both must have one holder": ("to lease", 29),
    "a pair: holders that differ are held for the longest": ("to lease, client-go", 20),
    "a pair: a change of either starts the wait anew": ("from annotation", 56),
    "a pair: one that was there is missed": ("from annotation", 84),
}


@pytest.mark.timeout(300)
@pytest.mark.parametrize("guard", FOUND)
def test_some_schedule_breaks_a_promise_without(guard: str) -> None:
    kind, known = FOUND[guard]
    with GUARDS[guard]():
        assert any(_failures(kind, known)), f"{ENOUGH} schedules do not need it"


def _failures(kind: str, known: int) -> Iterator[AssertionError | None]:
    return (schedule(seed, kind).play_or_fail() for seed in chain([known], range(1, ENOUGH)))
