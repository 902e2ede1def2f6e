"""The model of the lock delay; `make model` checks it, which takes minutes and Java."""

from __future__ import annotations

import re
from pathlib import Path

from tests.model.runs import DEEP, FAST, REACHED, VARIANTS

MODEL = Path(__file__).parents[1] / "model"


def test_each_rule_that_the_model_can_take_away_is_taken_away_by_a_run() -> None:
    known = set(re.findall(r'Wrong (?:=|#) "([^"]+)"', (MODEL / "Election.tla").read_text()))
    assert known == {run.wrong for run in VARIANTS}


def test_the_models_page_says_what_each_wrong_variant_shows() -> None:
    page = (MODEL / "README.md").read_text()
    assert [run.wrong for run in VARIANTS if f"| {run.wrong} |" not in page] == []


def test_each_run_of_the_model_has_a_name_of_its_own() -> None:
    for runs in ((*FAST, *REACHED, *VARIANTS), (*DEEP, *REACHED, *VARIANTS)):
        assert len({run.name for run in runs}) == len(runs)
