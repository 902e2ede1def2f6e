"""The manual pages and the command line have the same options, variables and exit statuses."""

from __future__ import annotations

import ast
import os
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import click
import pytest

from kleader.cli.check import EPILOG as CHECKS
from kleader.cli.command_line import Option
from kleader.cli.commands import cli
from kleader.cli.ignored import SWITCHES, VALUES
from kleader.cli.run import run
from kleader.election.protocol import Acquired
from kleader.ipc.messages import MARKER
from kleader.ipc.status_socket import RUNTIME_DIR
from kleader.supervisor.environment import environment
from kleader.supervisor.term import Term

LEVELS = "error|warning|info|debug"
MAN = Path(__file__).parents[2] / "man"


def of_run(param: click.Parameter) -> bool:
    """Whether it is an option of run, which only the page of run explains."""
    return isinstance(param, Option) and param.of_run


WITHOUT_PAGE = {"help", "version"}  # kleader(1) says all of them
PAGES = {
    "kleader": cli,
    **{f"kleader-{name}": command for name, command in cli.commands.items() if name not in WITHOUT_PAGE},
}
BESIDE_RUN = [name for name, command in cli.commands.items() if any(map(of_run, command.params)) and command is not run]


def page(name: str) -> str:
    return (MAN / f"{name}.1").read_text("utf-8")


def entries(text: str) -> dict[tuple[str, ...], str]:
    """The text of a page about each option, by the option's names."""
    parts = re.split(r"^\.It (Fl .*)$", text, flags=re.MULTILINE)
    return {
        tuple("-" + name for name in re.findall(r"Fl (\S+)", heads)): re.split(r"^\.S[hs] ", body, flags=re.MULTILINE)[
            0
        ]
        for heads, body in zip(parts[1::2], parts[2::2], strict=True)
    }


def options(command: click.Command) -> list[click.Parameter]:
    params = command.get_params(click.Context(command))
    return [param for param in params if not getattr(param, "hidden", False)]


def plain(mdoc: str) -> str:
    """The words of a piece of a page, without its macros and line breaks."""
    return " ".join(re.sub(r"^\.[A-Z][a-z] ", "", mdoc, flags=re.MULTILINE).split())


def variables(command: str) -> str:
    """The prefix of the variables of its options."""
    return f"KLEADER_{command.replace('-', '_').upper()}_"


@pytest.mark.parametrize("name", PAGES)
def test_a_page_has_every_option_by_all_its_names_and_no_other(name: str) -> None:
    told = {frozenset(names) for names in entries(page(name))}
    every = [param for param in options(PAGES[name]) if isinstance(param, click.Option)]
    own = [param for param in every if not of_run(param) or PAGES[name] is run]
    assert told == {frozenset(param.opts) for param in own}


@pytest.mark.parametrize("name", BESIDE_RUN)
def test_a_page_refers_to_the_options_of_run_and_lists_its_exceptions(name: str) -> None:
    text = page(f"kleader-{name}").partition(".Sh DESCRIPTION\n")[2].partition("\n.Bl -tag -width Ds\n.It Fl")[0]
    assert "The options are those of\n.Xr kleader-run 1 ,\n" in text
    taken = {param.name for param in cli.commands[name].params}
    for param in run.params:
        assert (
            getattr(param, "hidden", False)
            or param.name in taken
            or any(f"\n.Fl {name[1:]}" in text for name in param.opts)
        )


def test_there_is_a_page_for_every_command() -> None:
    assert {path.stem for path in MAN.glob("*.1")} == set(PAGES)
    assert all(f".It Cm {name}\n" in page("kleader") for name in cli.commands)


OWN = [
    (name, param)
    for name, command in cli.commands.items()
    for param in command.params
    if isinstance(param, click.Option) and (not of_run(param) or command is run) and not param.hidden
]


@pytest.mark.parametrize(("name", "param"), OWN, ids=lambda value: getattr(value, "name", value))
def test_the_page_names_the_default_of_each_option_and_its_variable_by_one_rule(
    name: str, param: click.Parameter
) -> None:
    """The rule: the prefix of the command, and the first long name of the option in capitals."""
    names, said = next(item for item in entries(page(f"kleader-{name}")).items() if set(item[0]) == set(param.opts))
    first = next((each for each in names if each.startswith("--")), names[0])
    assert str(param.name) == first.lstrip("-").replace("-", "_")
    assert f".Ev {variables(name)}" in page(f"kleader-{name}").partition(".Sh DESCRIPTION\n")[2]
    default = param.to_info_dict()["default"]
    if default not in (None, "", False, (), "0") and not getattr(param, "multiple", False):
        assert f"Default: {default}" in plain(said)


@pytest.mark.parametrize("name", sorted(cli.commands.keys() - WITHOUT_PAGE))
def test_every_variable_of_the_page_is_an_options(name: str) -> None:
    prefix = variables(name)
    own = {f"{prefix}{str(param.name).upper()}" for command, param in OWN if command == name}
    assert set(re.findall(rf"\b{prefix}\w+", page(f"kleader-{name}"))) <= own


@pytest.mark.parametrize("name", [name for name, each in cli.commands.items() if "Exit status:" in str(each.epilog)])
def test_the_page_lists_every_exit_status_of_the_help(name: str) -> None:
    section = page(f"kleader-{name}").partition(".Sh EXIT STATUS\n")[2].partition("\n.Sh ")[0]
    told = re.findall(r"^\.It (\d+)$", section, re.MULTILINE)
    assert told == re.findall(r"^  (\d+) ", str(cli.commands[name].epilog), re.MULTILINE)


def test_the_page_of_check_lists_every_exit_status_of_the_help() -> None:
    section = page("kleader-check").partition(".Sh EXIT STATUS\n")[2].partition("\n.Sh ")[0]
    assert re.findall(r"^\.It (\d+)$", section, re.MULTILINE) == re.findall(r"^  (\d+) ", CHECKS, re.MULTILINE)


def test_the_page_of_run_names_every_klog_flag_that_is_ignored() -> None:
    assert set(re.findall(r"\bFl -([\w-]+)", page("kleader-run").partition("\n.Ss Messages\n")[2])) >= {
        name.removeprefix("--") for name in (*SWITCHES, *VALUES)
    }


def test_the_page_lists_the_variables_of_the_command() -> None:
    plan: Any = SimpleNamespace(identity="i", lock="lease", name="n", notify="kleader")
    term = Term(1, "default")
    term.lead = Acquired(0.0, 0.0, 0.0, "7", 0, 0)
    given = environment(plan, term)
    section = page("kleader-run").partition(".Sh ENVIRONMENT\n")[2].partition("\n.Sh ")[0]
    told = set(re.findall(r"\bKLEADER_[A-Z_]+\b", section))
    added = {name for name in given.keys() - os.environ.keys() if name.startswith("KLEADER_")}
    assert told - {RUNTIME_DIR} == {MARKER if name.startswith(MARKER) else name for name in added}


def test_the_page_of_run_names_each_key_of_the_log() -> None:
    """Exactly the keys that are logged anywhere."""
    logged: set[str] = set()
    for path in (MAN.parent / "kleader").rglob("*.py"):
        for call in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(call, ast.Call) and re.fullmatch(rf"(self\._)?log\.({LEVELS})", ast.unparse(call.func)):
                logged |= {str(each.arg) for each in call.keywords}
    part = re.split(r"^\.Ss ", page("kleader-run"), flags=re.MULTILINE)
    (log,) = [each for each in part if each.startswith("Log\n")]
    heads = re.findall(r"^\.It Cm (.*)$", log, flags=re.MULTILINE)
    assert {key for head in heads for key in head.split(" , ")} == logged


@pytest.mark.parametrize("path", sorted(MAN.glob("*.[17]")), ids=lambda path: path.name)
def test_the_examples_of_a_page_fit_a_terminal_of_80_columns(path: Path) -> None:
    """A line of a crontab has no continuation, so these are short enough as they are."""
    for indented, block in re.findall(
        r"^\.Bd -literal(.*)\n((?:(?!\.Ed).*\n)+)", path.read_text("utf-8"), re.MULTILINE
    ):
        margin = 11 if "indent" in indented else 5
        assert [line for line in block.replace("\\e", "\\").splitlines() if len(line) + margin > 80] == []


@pytest.mark.parametrize("path", sorted(MAN.glob("*.[17]")), ids=lambda path: path.name)
def test_man_k_shows_the_whole_description_of_a_page_at_80_columns(path: Path) -> None:
    """man-db writes the name, padded to 20 columns, a hyphen and the description, which it cuts at the margin."""
    (described,) = re.findall(r"^\.Nd (.*)$", path.read_text("utf-8"), re.MULTILINE)
    assert max(20, len(f"{path.stem} (1)")) + len(" - ") + len(described) < 80
