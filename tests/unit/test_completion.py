"""What a Tab offers, and that it offers nothing that a shell would expand."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click
import pytest
from click.testing import CliRunner

from kleader.cli import completion
from kleader.cli.command_line import ALIASES
from kleader.cli.commands import cli

if TYPE_CHECKING:
    from pathlib import Path

    from click.shell_completion import ShellComplete

BROKEN = ["", "[]", "contexts: 7", "contexts: [7]", "contexts: [{}]", "\t", "{", "contexts: [{name: x}, 7]", "\x00"]


def offered(*words: str, shell: str = "fish") -> list[str]:
    """The candidates for the last of the words."""
    complete: ShellComplete = completion._SHELLS[shell](cli, {}, "kleader", "")
    return [item.value for item in complete.get_completions([*words[:-1]], words[-1])]


def in_bash(monkeypatch: pytest.MonkeyPatch, *parts: str) -> list[str]:
    """The answer to bash for the last of the words, as COMP_WORDBREAKS splits them."""
    monkeypatch.setenv("COMP_WORDS", "\n".join(["kleader", *parts]))
    monkeypatch.setenv("COMP_CWORD", str(len(parts)))
    return completion._Bash(cli, {}, "kleader", "").complete().split()


@pytest.fixture
def contexts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A kubeconfig with a name that clouds give, and with hostile names."""
    names = ["arn:aws:eks/one", "$(touch pwned)", "two words", "two\nlines", "esc\x1b[2J"]
    (tmp_path / "config").write_text(json.dumps({"contexts": [{"name": name} for name in names]}))
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "config"))


@pytest.mark.parametrize(
    ("typed", "wanted"),
    [
        (["run", "--lease-d"], ["--lease-duration"]),
        (["run", "--leader-elect-lease"], ["--leader-elect-lease-duration"]),
        (["run", "--lock", "le"], ["lease", "leader-for-life"]),
        (["run", "--lock=le"], ["lease", "leader-for-life"]),
        (["run", "--leader-elect", "f"], ["false"]),
        (["run", "--wait", ""], ["live"]),
        (["check", "--stop-signal", "WIN"], ["WINCH"]),
        (["wait", "--for", "fr"], ["free"]),
        (["status", "-o", "y"], ["yaml"]),
        (["completion", ""], ["bash", "zsh", "fish"]),
        (["run", ""], ["--"]),
        (["run", "--no-wait", "x"], []),
        (["run", "--name", "x", "--", "--lea"], []),
        (["status", "--", "unsha"], []),
        (["nothing", ""], []),
    ],
    ids=" ".join,
)
def test_a_tab_offers_the_valid_words(typed: list[str], wanted: list[str]) -> None:
    assert offered(*typed) == wanted


@pytest.mark.parametrize("name", sorted(cli.commands))
def test_every_option_of_every_command_is_offered(name: str) -> None:
    params = cli.commands[name].get_params(click.Context(cli.commands[name]))
    named = [each for param in params if isinstance(param, click.Option) and not param.hidden for each in param.opts]
    assert set(offered(name, "-")) - {"--"} == {each for each in named if not each.startswith(ALIASES)}


@pytest.mark.usefixtures("contexts")
def test_a_name_that_a_shell_would_expand_is_not_offered() -> None:
    assert offered("run", "--context", "") == ["arn:aws:eks/one"]


@pytest.mark.usefixtures("contexts")
def test_bash_gets_the_part_after_the_last_word_break(monkeypatch: pytest.MonkeyPatch) -> None:
    assert in_bash(monkeypatch, "run", "--context", "arn") == ["plain,arn:aws:eks/one"]
    assert in_bash(monkeypatch, "run", "--context", "arn", ":") == ["plain,aws:eks/one"]
    assert in_bash(monkeypatch, "run", "--context", "arn", ":", "aw") == ["plain,aws:eks/one"]
    assert in_bash(monkeypatch, "run", "--context", "=", "arn", ":", "aw") == ["plain,aws:eks/one"]
    assert in_bash(monkeypatch, "run", "--lock", "=") == [f"plain,{word}" for word in offered("run", "--lock", "")]
    assert in_bash(monkeypatch, "run", "--lock", "=", "leader") == ["plain,leader-for-life"]


def test_after_the_separator_programs_are_offered_and_then_files(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "unique-command").touch()
    monkeypatch.setenv("PATH", f"/none:{tmp_path}")
    assert offered("run", "--", "unique") == ["unique-command"]
    assert offered("run", "--", "x", "--restart", "on") == ["on"]  # for files
    assert offered("check", "--", "./x") == ["./x"]


@pytest.mark.parametrize("kind", ["context", "cluster", "user"])
def test_the_names_of_all_kubeconfigs_are_offered_once_each(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, kind: str
) -> None:
    for file, names in {"a": ["one", "two"], "b": ["two", "three"]}.items():
        (tmp_path / file).write_text(json.dumps({f"{kind}s": [{"name": name} for name in names]}))
    monkeypatch.setenv("KUBECONFIG", f"{tmp_path}/a:{tmp_path}/missing:{tmp_path}/b")
    assert offered("status", f"--{kind}", "") == ["one", "two", "three"]
    assert offered("status", f"--kubeconfig={tmp_path}/b", f"--{kind}", "") == ["two", "three"]


@pytest.mark.parametrize("content", BROKEN)
def test_a_broken_kubeconfig_has_no_names(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, content: str) -> None:
    (tmp_path / "config").write_text(content)
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "config"))
    assert offered("run", "--context", "") == []


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_completion_script_is_the_same_on_every_machine(shell: str) -> None:
    """It depends on no cluster and on no variable."""
    made = [
        CliRunner().invoke(cli, ["completion", shell], env={"KUBECONFIG": config, "KLEADER_RUN_LOCK": lock})
        for config, lock in (("/none", "file"), (None, None))
    ]
    assert (made[0].exit_code, made[0].stdout) == (0, made[1].stdout)
    assert "_KLEADER_COMPLETE" in made[0].stdout


def test_an_unknown_shell_is_a_usage_error() -> None:
    result = CliRunner().invoke(cli, ["completion", "tcsh"])
    assert result.exit_code == 2
    assert "'tcsh' is not one of" in result.output
