"""Commands, options, targets and links in the README exist, and every command line of README, pages and help parses."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from kleader.cli.commands import cli
from tests.support.documented import Line, calls, command_lines, mentions

ROOT = Path(__file__).parents[2]
LINES = command_lines()
README = (ROOT / "README.md").read_text("utf-8")
HEADINGS = {
    re.sub(r"[^a-z0-9 -]", "", line.lstrip("# ").lower()).replace(" ", "-")
    for line in README.splitlines()
    if line.startswith("#")
}


@pytest.mark.parametrize("target", sorted(set(re.findall(r"\]\(([^)]+)\)", README))))
def test_every_link_in_the_readme_resolves(target: str) -> None:
    assert target.removeprefix("#") in HEADINGS if target.startswith("#") else (ROOT / target).is_file()


def test_every_option_in_the_readme_exists() -> None:
    named = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", README))
    assert named <= {name for each in cli.commands.values() for param in each.params for name in param.opts} | {
        "--help"
    }


def test_every_make_target_in_the_readme_exists() -> None:
    targets = re.findall(r"^([a-z-]+):.*## ", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)
    assert set(re.findall(r"\bmake ([a-z-]+)", README)) <= set(targets)


NO_COMMAND_LINES = {"kleader run need not give it: KLEADER_NAME is in its environment."}  # of the help: prose


def test_no_command_line_is_overlooked() -> None:
    """Whatever its form: a line that is not found is neither parsed nor run."""
    found = {place: [line.text for line in LINES if line.place == place] for place in {line.place for line in LINES}}
    missed = [each for each in mentions() if not any(each.text in text for text in found.get(each.place, ()))]
    assert {each.text for each in missed} == NO_COMMAND_LINES


def test_an_argument_list_of_a_page_is_one_that_a_test_has() -> None:
    """The entrypoint below, and the init container of `kleader manifest --inject` (test_copy_to)."""
    pages = "".join(path.read_text("utf-8") for path in (ROOT / "man").glob("*.[17]"))
    lists = re.findall(rf'kleader"?, "?(?:{"|".join(cli.commands)})\b.*?\]', README + pages)
    assert sorted(lists) == ['kleader", "run", "--name", "worker", "--"]', "kleader, copy-to, /copy]"]


PLACEHOLDERS = {"NAME", "NAMESPACE"}  # of a page: no object has such a name


@pytest.mark.parametrize("line", LINES, ids=lambda line: f"{line.place}: {line.text}")
def test_every_command_line_parses(line: Line) -> None:
    """Each call of kleader in README, pages and help parses; tests/cluster/test_readme.py runs them."""
    for command, arguments in calls(line.text):
        given = [word.lower() if word in PLACEHOLDERS else word for word in arguments]
        command.make_context(str(command.name), given)  # click keeps the first


@pytest.mark.parametrize("words", re.findall(r"`([a-z]+ [a-z]+)[^`]*…`", README))
def test_a_sentence_of_the_log_that_the_readme_quotes_is_logged(words: str) -> None:
    assert any(words in path.read_text("utf-8") for path in (ROOT / "kleader").rglob("*.py"))


def test_the_entrypoint_of_the_page_parses() -> None:
    page = (ROOT / "man/kleader-run.1").read_text("utf-8")
    entry, more = (json.loads(words) for words in re.findall(r"^(?:ENTRYPOINT|CMD) (\[.*\])$", page, re.MULTILINE))
    assert entry[0] == "kleader"
    cli.commands[entry[1]].make_context(entry[1], [*entry[2:], *more])


@pytest.mark.parametrize("place", sorted({"README.md", *(f"{path.name}" for path in (ROOT / "man").glob("*.1"))}))
def test_every_page_of_a_command_shows_a_command_line(place: str) -> None:
    """A page whose lines are not found would have none that is tested."""
    found = {line.place for line in LINES} | {"kleader-copy-to.1", "kleader-demo.1"}  # YAML; no option, no argument
    assert place in found
