"""The whole list. The step function's guards are taken away in memory, by a unit test of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.mutation import (
    beside,
    election,
    elector,
    exporter,
    killing,
    locks,
    succession,
    supervisor,
    system,
    watchdog,
    whereabouts,
)

if TYPE_CHECKING:
    from tests.mutation.guard import Guard

IN_MEMORY = "unit/test_election_guards.py::test_each_guard_of_the_table_is_held_by_its_test"
_ROOMS = (supervisor, succession, elector, watchdog, killing, beside, system, locks, exporter, whereabouts)
#: Rows whose guards are taken away in memory are not among them: `IN_MEMORY` takes them all away.
MUTANTS: list[Guard] = [each for room in _ROOMS for each in room.MUTANTS]
TABLE: list[Guard] = [each for each in election.TABLE if each.in_memory]
