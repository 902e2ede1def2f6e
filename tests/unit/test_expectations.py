"""tests/README.md: every expectation is kept somewhere, and held by tests that are there."""

from __future__ import annotations

import re

import pytest

from tests.mutation.mutant import ROOT
from tests.unit.test_mutants import claims_in

ROWS = re.findall(r"^\| (\d+) \| (.+?) \| (.+?) \| (.+) \|$", (ROOT / "tests/README.md").read_text(), re.MULTILINE)


def test_all_37_expectations_are_listed_in_order() -> None:
    assert [int(number) for number, *_ in ROWS] == list(range(1, 38))


@pytest.mark.parametrize(("places", "held_by"), [row[2:] for row in ROWS], ids=[f"{row[0]}: {row[1]}" for row in ROWS])
def test_each_expectation_has_its_place_and_its_tests(places: str, held_by: str) -> None:
    for place in re.findall("`(.+?)`", places):
        assert (ROOT / "kleader" / place).exists(), place
    tests = re.findall("`(.+?)`", held_by)
    assert tests
    for path, _, name in (test.partition("::") for test in tests):
        assert name in claims_in(path), name
