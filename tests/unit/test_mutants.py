"""The list of guards that python -m tests.mutation takes away is up to date."""

from __future__ import annotations

import ast
import re
from collections import Counter
from functools import cache
from typing import TYPE_CHECKING

import pytest

from tests.mutation.guards import IN_MEMORY, MUTANTS, TABLE
from tests.mutation.mutant import ROOT, Mutant

if TYPE_CHECKING:
    from tests.mutation.guard import Guard


@cache
def claims_of(path: str) -> set[str]:
    """The names of a file's tests."""
    tree = ast.parse((ROOT / "tests" / path).read_text())
    functions = (node for node in ast.walk(tree) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)))
    return {each.name for each in functions if each.name.startswith("test_")}


@pytest.mark.parametrize("mutant", [*MUTANTS, *TABLE], ids=lambda mutant: mutant.guard)
def test_a_mutant_can_be_made_and_its_test_is_there(mutant: Mutant | Guard) -> None:
    mutant.check()
    path, _, name = mutant.test.partition("::")
    assert re.split(r"[\[(]", name)[0] in claims_of(path)


def test_no_guard_is_there_twice() -> None:
    assert [guard for guard, times in Counter(each.guard for each in (*MUTANTS, *TABLE)).items() if times > 1] == []


def test_those_in_memory_are_of_the_list() -> None:
    assert "test_a_guard_of_the_table_that_is_taken_away_is_missed" in claims_of(IN_MEMORY)


def test_a_list_that_is_out_of_date_is_an_error() -> None:
    gone = Mutant("a guard", "__init__.py", "what nobody ever said", "", "unit/test_mutants.py::test")
    with pytest.raises(ValueError, match="says 0 times, not once"):
        gone.applied()
    broken = Mutant("a guard", "__init__.py", "__version__ =", "=", "unit/test_mutants.py::test")
    with pytest.raises(ValueError, match="is no Python any more"):
        broken.applied()
