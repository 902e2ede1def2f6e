"""Rows of the table of guards: what they find, and what may change without a row's being out of date."""

from __future__ import annotations

import ast
import re
from textwrap import dedent

import pytest

from kleader.election.timing import choose
from tests.mutation.guard import Guard, replace

SOURCE = """
import math

LIMIT = 3

class Lock:
    def renewed(self, step, seen):
        if seen and seen.mine(step.now) and step.now < LIMIT:
            self.t0 = step.now
            return max(step.sent_at, self.t0)
        elif step:
            self.note(step)
        return math.inf
"""


def without(old: str, new: str, function: str = "Lock.renewed", source: str = SOURCE) -> str:
    module = ast.parse(dedent(source))
    replace(module, function, old, new)
    return ast.unparse(module)


def test_names_of_local_variables_layout_and_comments_are_free() -> None:
    renamed = SOURCE.replace("step", "turn").replace("seen", "found")
    renamed = renamed.replace("self.t0 = turn.now", "self.t0 = (\n                turn.now)  # a comment")
    for old, new in [("max(step.sent_at, self.t0)", "self.t0"), ("step.now < LIMIT", "True"), ("self.note(step)", "")]:
        other = without(old, new, source=renamed)
        assert re.sub(r"\bturn\b", "step", other).replace("found", "seen") == without(old, new)


@pytest.mark.parametrize("old", ["step.now < MAXIMUM", "cmath.inf", "step.then < LIMIT", "step.now < step"])
def test_globals_attributes_and_equal_names_are_not_free(old: str) -> None:
    with pytest.raises(ValueError, match="says 0 times, not once"):
        without(old, "0")


def test_a_pattern_that_is_found_twice_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"Lock\.renewed says 3 times, not once: 'step\.now'"):
        without("step.now", "0")


def test_a_function_that_is_gone_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"there is no Lock\.released"):
        without("step.now", "0", "Lock.released")


def test_a_local_variable_that_the_old_code_does_not_name_is_an_error() -> None:
    """Somebody may rename it."""
    with pytest.raises(ValueError, match="reads seen, which is no global variable and is not in"):
        without("step.now < LIMIT", "seen or step.now < LIMIT")
    assert "[it for it in step]" in without("step.now < LIMIT", "[it for it in step]")


def test_an_ellipsis_matches_any_code_and_keeps_it() -> None:
    kept = "if True:\n            self.t0 = step.now\n            return max"
    assert kept in without("if ...:\n ...\nelif t:\n self.note(t)", "if True:\n ...")
    assert "return max(0, self.t0)" in without("max(..., self.t0)", "max(0, self.t0)")


def test_an_emptied_body_is_valid() -> None:
    assert "elif step:\n            pass\n" in without("self.note(step)", "")


def test_a_guard_is_taken_away_in_this_process_and_restored() -> None:
    guard = Guard(
        "R", "election.timing:Timing.stop_at", "t + self.renew_deadline", "t", "unit/test_guards.py::holds(5)"
    )
    guard.run_test()
    with guard.taken_away(), pytest.raises(AssertionError):
        guard.run_test()
    guard.run_test()


def holds(t0: float) -> None:
    assert choose(15, 10, 2).stop_at(t0) == t0 + 10


def test_a_row_makes_the_file_without_its_guard() -> None:
    guard = Guard("R", "election.timing:Timing.stop_at", "t + self.renew_deadline", "t", "unit/test_guards.py::test_x")
    assert guard.file == "election/timing.py"
    assert "        return t0\n" in guard.applied()
    assert not guard.in_memory
    with pytest.raises(ValueError, match=r"R: kleader/election/timing\.py: Timing\.kill_at says 0 times, not once"):
        guard._replace(function="election.timing:Timing.kill_at").applied()
