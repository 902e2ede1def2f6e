"""Code and tests use the words of their field: no word of an earlier private language is left."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.mutation.guards import MUTANTS, TABLE

KLEADER = Path(__file__).parents[2] / "kleader"
# The private word, and the word of the field. None of them has another meaning here: names, docstrings, comments, logs.
STANDARD = {
    "anew": "again",
    "bereft": "pod_gone",
    "blindly": "after a fault",
    "claim": "instance lock, provisional acquisition",
    "clearance": "wait until clear",
    "condemned": "kill marker",
    "deaf": "ignores TERM",
    "deserted": "supervisor unresponsive",
    "desk": "status server",
    "doomed": "kill marker",
    "drowsy": "suspend requested",
    "errand": "best-effort call",
    "everybody": "every process",
    "fate": "outcome",
    "guard": "elector, kernel's timer",
    "guards": "safeguards",
    "guest": "shared connection",
    "hear": "receive",
    "heard": "received",
    "hears": "receives",
    "hindrance": "blocked reason",
    "hopeless": "permanent",
    "hurry": "kill now",
    "impatient": "at the end of the wait",
    "keeper": "subreaper",
    "keepers": "subreapers",
    "likewise": "the fact, once more",
    "luck": "jitter",
    "mind": "check, note",
    "minded": "checked",
    "minder": "elector process",
    "mute": "unreachable",
    "newcomer": "new candidate",
    "newcomers": "new candidates",
    "nobody": "no process, no candidate",
    "owed": "release pending",
    "parted": "release sent",
    "patience": "timeout",
    "polite": "termination signal",
    "pristine": "written by the control plane alone",
    "prevail": "last option wins",
    "proceed": "advance",
    "pursue": "advance",
    "quit": "shutdown signal",
    "rehearse": "dry run",
    "remark": "warning",
    "road": "connection",
    "roll": "ping of the candidates",
    "shelf": "resource kind",
    "somebody": "another process, an operator",
    "spared": "excluded",
    "strike": "kill",
    "struck": "signalled",
    "stumbles": "consecutive failures",
    "sweep": "kill the tree",
    "sweeps": "kills the tree",
    "swept": "killed",
    "torn": "incomplete",
    "traits": "properties",
    "trouble": "last error",
    "twofold": "multilock",
    "unwanted": "not preferred",
    "unwritten": "blank",
    "vacant": "free",
    "whoever": "the process, the candidate",
    "whom": "the process, the candidate",
}
EXCEPTIONS = {"cli/workload.py": {"nobody"}, "cli/manifest.py": {"nobody"}}  # the user of that name
EXCEPTIONS["election/__init__.py"] = {"guard"}  # a row of tests/mutation
PATHS = sorted(str(path.relative_to(KLEADER)) for path in KLEADER.rglob("*.py"))


TESTS = [*Path(__file__).parents[1].rglob("test_*.py")]
#: In the name of a test they hide who does what; "hands over" is a verb.
RIDDLES = {"anew", "anybody", "everybody", "hands", "mend", "naming", "nobody", "somebody", "tells", "told", "whomever"}
GUARDS = {"guard", "guards"}  # the rows of tests/mutation have that name
NO_ACTOR = ("test_who_", "test_what_", "test_whatever_", "test_whose_", "test_where_", "test_it_", "test_our_")


def words(text: str) -> set[str]:
    """Every word, also of names in snake_case and CamelCase, in lower case."""
    return {word.lower() for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+", text)}


@pytest.mark.parametrize("name", PATHS)
def test_no_private_word_is_left(name: str) -> None:
    found = words((KLEADER / name).read_text("utf-8")) & STANDARD.keys() - EXCEPTIONS.get(name, set())
    assert not found, {word: STANDARD[word] for word in found}


def test_each_tests_name_says_who_does_what() -> None:
    names = {
        name for path in TESTS for name in re.findall(r"^(?:async )?def (test_\w+)", path.read_text(), re.MULTILINE)
    }
    private = RIDDLES | STANDARD.keys() - GUARDS
    assert not {name for name in names if words(name.replace("hands_over", "")) & private or name.startswith(NO_ACTOR)}
    assert not {name for name in names if name.count("_") > 15}, "a docstring has room for more"


def test_each_guards_name_says_who_does_what() -> None:
    private = STANDARD.keys() | {"gate", "hurries", "looked", "newcomers", "somebody", "strikes", "tells"}
    names = {row.keeps for row in (*MUTANTS, *TABLE)}
    assert not {name for name in names if words(name) & private or re.match("(who|what|it|and|nor|where) ", name)}


def test_a_private_word_is_found_in_a_name_a_comment_and_a_sentence() -> None:
    assert words("class FileKeeper:\n    def _hear(self): ...  # likewise\n'Nobody leads'") >= {
        "keeper",
        "hear",
        "nobody",
    }
    assert "mind" not in words("a reminder")
