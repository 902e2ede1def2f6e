"""The table of guards that python -m tests.mutation takes away is up to date."""

from __future__ import annotations

import ast
import re
from collections import Counter
from functools import cache

import pytest

from tests.mutation import guard
from tests.mutation.guard import Guard
from tests.mutation.guards import IN_MEMORY, MUTANTS, TABLE
from tests.mutation.mutant import ROOT

ROWS = (*MUTANTS, *TABLE)


@cache
def claims_in(path: str) -> dict[str, ast.FunctionDef | ast.AsyncFunctionDef]:
    """A file's tests, by name."""
    module = ast.parse((ROOT / "tests" / path).read_text())
    functions = (node for node in ast.walk(module) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)))
    return {each.name: each for each in functions if each.name.startswith("test_")}


def out_of_date() -> list[str]:
    """What is wrong with the table's rows."""
    wrong = []
    for row in ROWS:
        try:
            row.check()
        except ValueError as error:
            wrong.append(str(error))
    return wrong


def test_each_row_finds_its_guard_once() -> None:
    assert out_of_date() == []


def test_each_row_names_a_test_that_is_there() -> None:
    named = [(row.keeps, *row.test.partition("::")[::2]) for row in ROWS]
    assert [keeps for keeps, path, name in named if re.split(r"[\[(]", name)[0] not in claims_in(path)] == []


class _Renamed(ast.NodeTransformer):
    """Every local variable and every argument has another name."""

    def __init__(self, fixed: set[str]) -> None:
        self._fixed = fixed

    def _other(self, name: str) -> str:
        return name if name in self._fixed else f"renamed_{name}"

    def visit_Name(self, node: ast.Name) -> ast.Name:
        return ast.Name(self._other(node.id), node.ctx)

    def visit_arg(self, node: ast.arg) -> ast.arg:
        return ast.arg(self._other(node.arg), node.annotation)


def test_renaming_every_local_variable_of_a_module_breaks_no_row(monkeypatch: pytest.MonkeyPatch) -> None:
    @cache
    def renamed(file: str) -> ast.Module:
        module = ast.parse((ROOT / "kleader" / file).read_text())
        return _Renamed(guard.fixed_names(module)).visit(module)  # type: ignore[no-any-return]

    monkeypatch.setattr(guard, "_tree", renamed)
    assert out_of_date() == []


def test_no_guard_is_there_twice() -> None:
    assert [keeps for keeps, times in Counter(row.keeps for row in ROWS).items() if times > 1] == []


def test_quick_tests_kill_each_mutant_that_is_made_in_memory() -> None:
    """None of these tests is marked slow, nor is the one test that takes their guards away, one by one."""
    path, _, name = IN_MEMORY.partition("::")
    files = {path, *(row.test.partition("::")[0] for row in TABLE)}
    tests = [test for path in files for test in claims_in(path).values()]
    assert [test.name for test in tests if any("slow" in ast.unparse(mark) for mark in test.decorator_list)] == []
    assert [path for path in files if "pytestmark" in (ROOT / "tests" / path).read_text()] == []
    assert name in claims_in(path)


def test_a_row_that_is_out_of_date_is_an_error() -> None:
    row = Guard("a guard", "election.timing:Timing.stop_at", "t0 + never_there()", "t0", "unit/test_mutants.py::test")
    with pytest.raises(ValueError, match=r"a guard: kleader/election/timing.py: .* says 0 times, not once"):
        row.check()
