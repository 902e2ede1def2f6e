"""The whole list. The step function's guards are taken away in memory, by a unit test of their own."""

from __future__ import annotations

from tests.mutation import elector, locks, supervisor, system, watching

IN_MEMORY = "unit/test_election_guards.py"
MUTANTS = [*supervisor.MUTANTS, *elector.MUTANTS, *system.MUTANTS, *locks.MUTANTS, *watching.MUTANTS]
