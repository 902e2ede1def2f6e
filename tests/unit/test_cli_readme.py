"""Commands, options, targets and links in the README exist."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import click
import pytest

from kleader.cli.main import cli
from kleader.cli.run import EPILOG, run

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text("utf-8")
HEADINGS = {
    re.sub(r"[^a-z0-9 -]", "", line.lstrip("# ").lower()).replace(" ", "-")
    for line in README.splitlines()
    if line.startswith("#")
}


@pytest.mark.parametrize("target", sorted(set(re.findall(r"\]\(([^)]+)\)", README))))
def test_a_link_leads_somewhere(target: str) -> None:
    assert target.removeprefix("#") in HEADINGS if target.startswith("#") else (ROOT / target).is_file()


def test_every_option_that_is_named_exists() -> None:
    named = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", README))
    assert named <= {name for each in cli.commands.values() for param in each.params for name in param.opts} | {
        "--help"
    }


def test_every_command_has_its_row() -> None:
    assert set(re.findall(r"^\| `kleader ([a-z-]+)", README, re.MULTILINE)) == set(cli.commands)


def test_every_make_target_that_is_named_exists() -> None:
    targets = re.findall(r"^([a-z-]+):.*## ", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)
    assert set(re.findall(r"\bmake ([a-z-]+)", README)) <= set(targets)


def test_every_exit_status_is_listed() -> None:
    rows = [re.findall(r"\d+", cell) for cell in re.findall(r"^\| (\d[\d, ]*) \|", README, re.MULTILINE)]
    assert [status for row in rows for status in row] == re.findall(r"^  (\d+) ", EPILOG, re.MULTILINE)


def test_the_command_lines_are_ones_that_would_be_understood() -> None:
    """Each `kleader run` of the README and the manual page parses; nothing is started."""
    man = (ROOT / "man" / "kleader-run.1").read_text("utf-8")
    lines = re.findall(r"kleader run (.+ -- .+)$", README + man, re.MULTILINE)
    assert len(lines) >= 9
    for line in lines:
        context = click.Context(run, info_name="run")
        run.parse_args(context, line.replace("COMMAND`", "true").split())


@pytest.mark.parametrize("name", ["check", "completion", "manifest"])
def test_the_command_lines_of_the_other_commands_are_understood_too(name: str) -> None:
    """The command lines of README, pages and help, up to the shell's own syntax."""
    command = cli.commands[name]
    pages = "".join(path.read_text("utf-8") for path in (ROOT / "man").glob("*.1"))
    told = README + pages.replace("\\e\n    ", "").replace("\\-", "-") + str(command.epilog)
    lines = re.findall(rf"kleader {name}( [^|)>`\n]+?)(?:$| [|>]|\)|   )", told, re.MULTILINE)
    assert len(lines) >= 2
    for line in lines:
        command.make_context(name, shlex.split(line))  # click keeps the first
