"""Each guard of the step function is held by a test: without the guard, that test fails."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.mutation.guards import TABLE

if TYPE_CHECKING:
    from tests.mutation.guard import Guard


@pytest.mark.parametrize("row", TABLE, ids=lambda row: row.keeps)
def test_each_guard_of_the_table_is_held_by_its_test(row: Guard) -> None:
    row.run_test()
    with row.taken_away(), pytest.raises((AssertionError, pytest.fail.Exception)):
        row.run_test()
