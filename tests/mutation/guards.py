"""The whole list. The step function's guards are taken away in memory, by a unit test of their own."""

from __future__ import annotations

from tests.mutation import beside, elector, locks, succession, supervisor, system, watchdog, watching

IN_MEMORY = "unit/test_election_guards.py"
_ROOMS = (supervisor, succession, elector, watchdog, beside, system, locks, watching)
MUTANTS = [each for room in _ROOMS for each in room.MUTANTS]
