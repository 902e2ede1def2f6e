"""The argument for the promise (kleader.election) and CONTRIBUTING.md point at code and at guards that exist."""

from __future__ import annotations

import re

import pytest

from kleader import election
from tests import tour
from tests.mutation.guards import MUTANTS, TABLE
from tests.tour import KLEADER

TEXT = " ".join((election.__doc__ or "").split())
LINES = re.findall(r"(\d)\. (.*?)(?= \d\. |$)", TEXT)
POINTERS = re.findall(r'``(\S+): (\w+)``, guard "([^"]*)"', TEXT)
FILE_OF = {row.keeps: row.file for row in (*MUTANTS, *TABLE)}


def test_each_of_six_lines_has_a_pointer() -> None:
    assert [number for number, _ in LINES] == list("123456")
    assert all("``, guard" in line for _, line in LINES)


@pytest.mark.parametrize(("file", "name", "guard"), POINTERS)
def test_each_pointer_resolves(file: str, name: str, guard: str) -> None:
    assert re.search(rf"^(?:def|class) {name}\b", (KLEADER / file).read_text("utf-8"), re.MULTILINE)
    assert FILE_OF[guard] == file


@pytest.mark.parametrize(("file", "names"), tour.everywhere())
def test_each_function_that_contributing_names_exists(file: str, names: list[str]) -> None:
    assert set(names) == {each.name for each in tour.functions(file, names)}


def test_the_argument_and_the_code_that_it_names_fit_in_800_lines() -> None:
    """That much can be read in ten minutes."""
    assert len(list(tour.lines())) <= 800
