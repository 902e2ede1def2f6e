"""The simulator finds broken promises: without a guard of the promise, some schedule soon breaks it.

Each guard is held by a unit test besides (tests/unit/test_election_guards.py). Its row names a schedule that was seen
to fail without it, where the search begins, or says why there is none.
"""

from __future__ import annotations

from contextlib import ExitStack
from itertools import chain
from typing import TYPE_CHECKING

import pytest

from tests.mutation.guards import TABLE
from tests.simulation.runs import schedule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.mutation.guard import Guard

ENOUGH = 1000  # schedules


@pytest.mark.timeout(900)
@pytest.mark.parametrize("row", [row for row in TABLE if row.schedule], ids=lambda row: row.keeps)
def test_some_schedule_breaks_a_promise_without(row: Guard) -> None:
    assert row.schedule
    with ExitStack() as taken_away:
        for each in TABLE:
            if each.keeps in {row.keeps, row.beside}:
                taken_away.enter_context(each.taken_away())
        assert any(_failures(*row.schedule)), f"{ENOUGH} schedules do not need it"


def _failures(kind: str, known: int) -> Iterator[AssertionError | None]:
    return (schedule(seed, kind).play_or_fail() for seed in chain([known], range(1, ENOUGH)))
