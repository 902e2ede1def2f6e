"""A probe's command line is read without click, and means what click reads in it."""

from __future__ import annotations

import itertools
import subprocess
import sys

import click
import pytest

from kleader.cli import COMPLETION_VARIABLE, probe
from kleader.cli.is_leader import is_leader
from tests.unit.test_arrows import ROOT

WORDS = (
    "--name",
    "--name=a",
    "--name=",
    "--name==a",
    "--nam=a",
    "-n",
    "-n=b",
    "-nb",
    "-n=",
    "--namespace",
    "--namespace=b",
)
VALUES = ("c", "=c", "c=d", "--", "-", "", "-h", "--help")

# Of kleader, and of the standard library, with what its modules import themselves.
LOADED = "cli cli.console cli.main cli.probe exits ipc ipc.status_socket log preload"
LIBRARY = "__future__ errno itertools json os re signal socket stat struct sys time types"


def read_by_click(words: tuple[str, ...]) -> dict[str, str] | None:
    """The options that were given; None for help and usage errors."""
    try:
        params = is_leader.make_context("is-leader", [*words]).params
    except (click.UsageError, click.exceptions.Exit):
        return None
    return {name: value for name, value in params.items() if value is not None}


def test_a_command_line_that_is_read_without_click_means_what_click_reads(capsys: pytest.CaptureFixture[str]) -> None:
    read = 0
    for words in (words for number in range(4) for words in itertools.product((*WORDS, *VALUES), repeat=number)):
        options = probe.plain_options(["is-leader", *words])
        if options is not None:
            read += 1
            assert options == read_by_click(words), words
    assert read > 10
    assert not capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "options"),
    [
        ([], {}),
        (["--name=a"], {"name": "a"}),
        (["--name", "a", "-n", "b"], {"name": "a", "namespace": "b"}),
        (["-n=b", "--name", "a"], {"name": "a", "namespace": "b"}),
        (["--namespace", "b", "--name=a"], {"name": "a", "namespace": "b"}),
    ],
)
def test_usual_command_lines_of_probes_are_read_without_click(words: list[str], options: dict[str, str]) -> None:
    assert probe.plain_options(["is-leader", *words]) == options


@pytest.mark.parametrize("variable", ["KLEADER_IS_LEADER_NAME", "KLEADER_IS_LEADER_NAMESPACE", COMPLETION_VARIABLE])
def test_options_by_variables_and_completion_are_left_to_click(variable: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(variable, "a")
    assert probe.plain_options(["is-leader", "--name=a"]) is None


@pytest.mark.parametrize("words", [[], ["run", "--", "true"], ["status", "a"], ["--help"], ["help", "is-leader"]])
def test_other_commands_are_left_to_click(words: list[str]) -> None:
    assert probe.plain_options(words) is None


def test_a_probe_loads_these_modules_and_no_other() -> None:
    run = "from kleader.cli.main import main\ntry:\n main()\nexcept SystemExit:\n pass"
    loaded = modules(f"sys.path.insert(0, {str(ROOT)!r})\n{run}")
    own = {name for name in loaded if name.partition(".")[0] == "kleader"}
    assert own == {"kleader", *(f"kleader.{name}" for name in LOADED.split())}
    assert loaded - own == modules(f"import {', '.join(LIBRARY.split())}")


def modules(code: str) -> set[str]:
    """What an isolated Python has loaded after this code, with the arguments of a probe."""
    argv = [
        sys.executable,
        "-I",
        "-S",
        "-c",
        f"import sys\n{code}\nprint(*sys.modules)",
        "is-leader",
        "--name=none-of-that-name",
    ]
    done = subprocess.run(argv, capture_output=True, text=True, check=True)
    return set(done.stdout.split())
