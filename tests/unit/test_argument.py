"""The argument for the promise (kleader.election) and CONTRIBUTING.md point at code and at guards that exist."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from kleader import election
from kleader.election import lock_delay, timing
from tests.mutation.guards import MUTANTS, TABLE

KLEADER = Path(__file__).parents[2] / "kleader"
TEXT = " ".join((election.__doc__ or "").split())
LINES = re.findall(r"(\d)\. (.*?)(?= \d\. |$)", TEXT)
POINTERS = re.findall(r'``(\S+): (\w+)``, guard "([^"]*)"', TEXT)
PAGE = (KLEADER.parent / "CONTRIBUTING.md").read_text("utf-8")
#: In CONTRIBUTING.md: a module, and functions in it.
NAMED = sorted(set(re.findall(r"`(\w+/\w+\.py): ([\w, ]+)`", " ".join(PAGE.split()))))
FILE_OF = {row.keeps: row.file for row in (*MUTANTS, *TABLE)}


def test_each_of_six_lines_has_a_pointer() -> None:
    assert [number for number, _ in LINES] == list("123456")
    assert all("``, guard" in line for _, line in LINES)


@pytest.mark.parametrize(("file", "name", "guard"), POINTERS)
def test_each_pointer_resolves(file: str, name: str, guard: str) -> None:
    assert re.search(rf"^(?:def|class) {name}\b", (KLEADER / file).read_text("utf-8"), re.MULTILINE)
    assert FILE_OF[guard] == file


@pytest.mark.parametrize(("file", "names"), NAMED)
def test_each_function_that_contributing_names_exists(file: str, names: str) -> None:
    assert set(names.split(", ")) == {each.name for each in functions(file, names)}


def test_the_argument_and_the_code_that_it_names_fit_in_800_lines() -> None:
    """That much can be read in ten minutes."""
    section = PAGE.partition("## The life of a term")[2].partition("## The rules")[0]
    pages = (section, *(module.__doc__ or "" for module in (election, lock_delay, timing)))
    code = {
        (file, each.lineno): (each.end_lineno or 0) - each.lineno + 1
        for file, names in NAMED
        for each in functions(file, names)
    }
    assert sum(page.count("\n") for page in pages) + sum(code.values()) <= 800


def functions(file: str, names: str) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    tree = ast.parse((KLEADER / file).read_text("utf-8"))
    found = (each for each in ast.walk(tree) if isinstance(each, (ast.FunctionDef, ast.AsyncFunctionDef)))
    return [each for each in found if each.name in names.split(", ")]
