"""What `kleader status` and `kleader wait` understand, and how they print."""

from __future__ import annotations

import io
import json
import os
import re
from typing import TYPE_CHECKING

import pytest
import yaml
from click.testing import CliRunner, Result

from kleader.cli import forms, live, words
from kleader.cli.main import cli
from kleader.cli.run import run
from kleader.cli.status import status
from kleader.cli.wait import wait
from kleader.election.record import SECOND, UNKNOWN, Record, parse_time
from kleader.watching.board import Change
from kleader.watching.seen import Ref, Seen, at_a_look, watched

if TYPE_CHECKING:
    import click

    from kleader.watching.seen import Look

USAGE = 2
WALL = parse_time("2026-11-21T09:00:00Z")
REF = Ref("coordination.k8s.io/v1", "Lease", "x", "u", "7", "manager")


@pytest.fixture
def ask(monkeypatch: pytest.MonkeyPatch) -> CliRunner:
    for name in [name for name in os.environ if name.startswith(("KLEADER_", "POD_", "KUBE"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", "/nowhere")
    return CliRunner()


def invoke(ask: CliRunner, *args: str, **env: str) -> Result:
    return ask.invoke(cli, args, env=env, prog_name="kleader")


def look(holder: str = "a", **fields: object) -> Look:
    seen = Seen("lease", "ns", "x", Record(holder, 15, WALL - 200 * SECOND, WALL - 2 * SECOND, 3), objects=(REF,))
    return at_a_look(seen, WALL) if not fields else at_a_look(Seen("lease", "ns", "x", **fields), WALL)  # type: ignore[arg-type]


# --- what is understood


@pytest.mark.parametrize(
    ("args", "sentence"),
    [
        (["status", "a", "--name", "b"], "NAME a and --name b are two locks: leave one out"),
        (["status", "-n", "a", "-A"], "-n and -A exclude each other: leave one out"),
        (["status", "A"], "--name 'A' is not an object name"),
        (["status", "-n", "../x"], "--namespace '../x' is not a namespace"),
        (["status", "-o", "xml"], "'xml' is not one of 'wide', 'json', 'yaml', 'name'"),
        (["status", "--lock", "bogus"], "'bogus' is not a lock: choose lease,"),
        (["status", "--request-timeout", "0"], "--request-timeout must be more than 0s"),
        (["status", "--as", "\n"], "--as must be at most"),
        (["status", "a", "b"], "Got unexpected extra argument (b)"),
        (["wait", "a"], "Missing option '--for'"),
        (["wait", "--for", "free"], "which lock? give its NAME"),
        (["wait", "--for", " ", "a"], "--for: give leader, free, change or an identity"),
        (["wait", "--for", "free", "a", "--timeout", "soon"], "'soon' is not a duration"),
    ],
)
def test_what_cannot_be_meant_is_refused_with_what_would_do(ask: CliRunner, args: list[str], sentence: str) -> None:
    result = invoke(ask, *args)
    assert result.exit_code == USAGE
    assert sentence in result.output.splitlines()[-1]


def test_the_environment_is_read_and_the_command_line_wins(ask: CliRunner) -> None:
    result = invoke(ask, "status", KLEADER_STATUS_OUTPUT="xml")
    assert (result.exit_code, "'xml' is not one of" in result.output) == (USAGE, True)
    result = invoke(ask, "status", "b", KLEADER_STATUS_NAME="a", KLEADER_STATUS_ALL_NAMESPACES="true")
    assert (result.exit_code, result.output.partition(":")[0]) == (125, "kleader")
    result = invoke(ask, "status", "-n", "jobs", KLEADER_STATUS_ALL_NAMESPACES="true")
    assert result.exit_code == 125


@pytest.mark.parametrize("command", [status, wait], ids=lambda command: command.name)
def test_an_option_that_run_has_too_is_declared_once(command: click.Command) -> None:
    """The same names, the same type of value."""
    of_run = {param.name: param for param in run.params}
    shared = [param for param in command.params if param.name in of_run and param.name != "wait"]
    assert {param.name for param in shared} >= {"lock", "name", "namespace", "kubeconfig", "context", "server", "as"}
    for param in shared:
        assert param.opts == of_run[param.name].opts
        assert type(param.type) is type(of_run[param.name].type)


@pytest.mark.parametrize("name", ["", *cli.commands])
def test_help_fits_eighty_columns_and_names_every_variable(ask: CliRunner, name: str) -> None:
    text = ask.invoke(cli, [name, "-h"] if name else ["-h"], prog_name="kleader", terminal_width=80).output
    assert max(map(len, text.splitlines())) <= 80
    command = cli.commands[name] if name else cli
    for param in command.params:
        variable = rf"KLEADER_(RUN|{name.replace('-', '_').upper()})_{str(param.name).upper()}\b"
        is_told = param.param_type_name == "argument" or not getattr(param, "allow_from_autoenv", True)
        assert is_told or re.search(variable, text), variable


def test_without_a_cluster_there_is_one_line_with_the_mend(ask: CliRunner) -> None:
    for args in (["status"], ["status", "--watch"], ["wait", "--for", "free", "x"]):
        result = invoke(ask, *args)
        assert result.exit_code == 125
        assert result.output.startswith("kleader: error: no Kubernetes cluster is configured: give --kubeconfig")
        assert len(result.output.splitlines()) == 1


# --- how it is printed


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (-1, "0s"), (1, "1s"), (70, "70s"), (119, "119s"), (120, "2m"), (125, "2m5s"), (599, "9m59s"), (601, "10m"),
        (179 * 60 + 1, "179m"), (3 * 3600, "3h"), (3 * 3600 + 60, "3h1m"), (7 * 3600 + 59 * 60, "7h59m"),
        (8 * 3600 + 60, "8h"), (47 * 3600, "47h"), (48 * 3600, "2d"), (49 * 3600, "2d1h"), (8 * 86400 + 3600, "8d"),
        (729 * 86400, "729d"), (731 * 86400, "2y1d"), (8 * 365 * 86400 + 86400, "8y"),
    ],
)  # fmt: skip
def test_ages_are_kubectls(seconds: float, said: str) -> None:
    """Values of duration_test.go in k8s.io/apimachinery, and where its units change."""
    assert words.human(seconds) == said


def test_a_table_is_kubectls(capsys: pytest.CaptureFixture[str]) -> None:
    forms.show([look()], "", everywhere=False)
    assert capsys.readouterr().out == (
        "NAME   TYPE    STATE   HOLDER   SINCE   RENEWED   EXPIRES   TRANSITIONS\n"
        "x      lease   held    a        3m20s   2s        in 13s    3\n"
    )


def test_of_a_pair_that_differs_nobody_is_shown_to_hold_it_and_why(capsys: pytest.CaptureFixture[str]) -> None:
    """client-go's word for that says nothing to people; programs get it as it is."""
    torn = look(UNKNOWN)
    forms.show([torn], "", everywhere=False)
    assert "   <unknown>   " in capsys.readouterr().out
    assert forms.faults([torn]) == [
        "ns/x names different holders in its two objects: it is held until one of them has both"
    ]
    forms.answer(torn, [], "")
    assert capsys.readouterr().out == "lease.coordination.k8s.io/x held by somebody unknown\n"
    forms.show([torn], "json", everywhere=False)
    assert json.loads(capsys.readouterr().out)["items"][0]["holder"] == UNKNOWN


@pytest.mark.parametrize("form", ["", "json", "yaml", "name"])
def test_that_there_is_no_lock_is_told_in_every_form(capsys: pytest.CaptureFixture[str], form: str) -> None:
    forms.answer(None, [], form)
    said = capsys.readouterr().out
    if form in {"json", "yaml"}:
        found = yaml.safe_load(said)
        assert (found["kind"], found["event"], found["lock"]) == ("LockChange", "absent", None)
    else:
        assert said == ("" if form else "there is no such lock\n")


def test_the_keys_are_always_the_same_and_what_is_not_known_is_null(capsys: pytest.CaptureFixture[str]) -> None:
    """Programs read them: a key that is renamed or taken away breaks those."""
    looks = [look(), look(""), look(fault="broken"), look(path="/x"), look(lasting=True, record=Record("pod"))]
    forms.show(looks, "json", everywhere=False)
    printed = capsys.readouterr().out
    found = json.loads(printed)
    assert [list(each) for each in found["items"]] == [
        [
            *("type", "namespace", "name", "path", "state", "watched", "holder", "incarnation", "preferredHolder"),
            *("acquireTime", "renewTime", "leaseDurationSeconds", "transitions", "renewedSecondsAgo"),
            *("expiresInSeconds", "fault", "objects"),
        ]
    ] * len(looks)
    assert found["items"][0]["renewTime"] == "2026-11-21T08:59:58.000000Z"
    assert found["items"][0]["objects"] == [
        {"apiVersion": REF[0], "kind": "Lease", "name": "x", "uid": "u", "resourceVersion": "7", "writer": "manager"}
    ]
    forms.show(looks, "yaml", everywhere=False)
    assert yaml.safe_load(capsys.readouterr().out) == found


@pytest.mark.parametrize("holder", ["\x1b[2J", "a\nb", "\u202e", "\udcff", "yes", "1e3", "", "é" * 300])
@pytest.mark.parametrize("form", ["", "wide", "json", "yaml", "name"])
def test_no_holder_moves_the_cursor_or_breaks_a_form(
    capsys: pytest.CaptureFixture[str], holder: str, form: str
) -> None:
    forms.show([look(holder)], form, everywhere=True)
    forms.show_change(Change("acquired", f"{holder} leads", look(holder)), form, "now")
    printed = capsys.readouterr().out
    assert "\x1b" not in printed
    assert "\u202e" not in printed or form == "yaml"
    if form in {"", "wide"}:
        assert len(printed.splitlines()) == 3


@pytest.mark.parametrize("instant", [-(10**18), -1, 10**18, 253_402_300_800 * SECOND - 1])
def test_a_time_beyond_the_calendar_breaks_nothing(capsys: pytest.CaptureFixture[str], instant: int) -> None:
    for form in ("", "wide", "json", "yaml"):
        forms.show([look(record=Record("a", 15, instant, instant))], form, everywhere=False)
    assert capsys.readouterr().out


def test_the_live_view_fits_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many locks there are, and however long their holders' names."""
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("LINES", "10")
    out = io.StringIO()
    monkeypatch.setattr("sys.stdout", out)
    view = live.View(everywhere=True)
    seen = Seen("lease", "ns", "x" * 20, Record("h" * 500, 15, WALL, WALL))
    many = [watched(seen, passed, WALL) for passed in range(40)]
    view.draw(["something happened"], many, "trouble")
    view.draw([], many)
    first, second = out.getvalue().split("\x1b[J")[1:]
    assert first.splitlines()[0] == "something happened"
    assert len(first.splitlines()) - 1 <= 10
    assert second.splitlines()[-1] == "and 33 more"
    assert all(len(line) < 80 for line in first.splitlines() + second.splitlines())
    assert out.getvalue().count("\x1b[") == 3  # up, and twice down to the end of the screen
