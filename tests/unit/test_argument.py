"""The argument for the promise (kleader.election) and CONTRIBUTING.md point at code and at guards that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from kleader import election
from tests.mutation.guards import MUTANTS, TABLE

KLEADER = Path(__file__).parents[2] / "kleader"
TEXT = " ".join((election.__doc__ or "").split())
LINES = re.findall(r"(\d)\. (.*?)(?= \d\. |$)", TEXT)
POINTERS = re.findall(r'``(\S+): (\w+)``, guard "([^"]*)"', TEXT)
#: In CONTRIBUTING.md: a module, and functions in it.
NAMED = re.findall(
    r"`(\w+/\w+\.py): ([\w, ]+)`", " ".join((KLEADER.parent / "CONTRIBUTING.md").read_text("utf-8").split())
)
KNOWN = {row.keeps for row in (*MUTANTS, *TABLE)}


def test_each_of_six_lines_has_a_pointer() -> None:
    assert [number for number, _ in LINES] == list("123456")
    assert all("``, guard" in line for _, line in LINES)


@pytest.mark.parametrize(("file", "name", "guard"), POINTERS)
def test_each_pointer_resolves(file: str, name: str, guard: str) -> None:
    assert re.search(rf"^(?:def|class) {name}\b", (KLEADER / file).read_text("utf-8"), re.MULTILINE)
    assert guard in KNOWN


@pytest.mark.parametrize(("file", "names"), NAMED)
def test_each_function_that_contributing_names_exists(file: str, names: str) -> None:
    source = (KLEADER / file).read_text("utf-8")
    for name in names.split(", "):
        assert re.search(rf"^ *(?:async )?def {name}\b", source, re.MULTILINE), name
