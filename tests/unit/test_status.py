"""The options of `kleader status` and `kleader wait`, and what they print."""

from __future__ import annotations

import asyncio
import io
import json
import os
import re
from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import click
import pytest
import yaml
from click.testing import CliRunner, Result

from kleader.cli import formatters, status_view, waiting
from kleader.cli.command_line import Option
from kleader.cli.commands import cli
from kleader.cli.locate import Clock
from kleader.cli.run import run
from kleader.cli.status import status
from kleader.cli.wait import wait
from kleader.election.events import Kind
from kleader.election.record import SECOND, UNKNOWN, Record, micro_time, parse_time
from kleader.kube.client import ApiClient
from kleader.kube.errors import ForbiddenError, LockError
from kleader.kube.responses import ClockSkew
from kleader.locks.candidate_registry import READY, UNHEALTHY, Registered
from kleader.locks.run_history import Run
from kleader.observe.kube_source import LEASES, KubeSource, Scope
from kleader.observe.snapshot import LockSnapshot, ObjectRef, status_from_read, status_from_watch
from kleader.observe.tracker import Change

if TYPE_CHECKING:
    from kleader.observe.snapshot import LockStatus

USAGE = 2
WALL = parse_time("2026-11-21T09:00:00Z")
REF = ObjectRef("coordination.k8s.io/v1", "Lease", "x", "u", "7", "manager")


@pytest.fixture
def ask(monkeypatch: pytest.MonkeyPatch) -> CliRunner:
    for name in [name for name in os.environ if name.startswith(("KLEADER_", "POD_", "KUBE"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", "/nowhere")
    return CliRunner()


def invoke(ask: CliRunner, *args: str, **env: str) -> Result:
    return ask.invoke(cli, args, env=env, prog_name="kleader")


def look(holder: str = "a", **fields: object) -> LockStatus:
    seen = LockSnapshot(
        "lease", "ns", "x", Record(holder, 15, WALL - 200 * SECOND, WALL - 2 * SECOND, 3), objects=(REF,)
    )
    if fields:
        seen = LockSnapshot("lease", "ns", "x", **fields)  # type: ignore[arg-type]
    return status_from_read(seen, WALL)


# --- what is understood


@pytest.mark.parametrize(
    ("args", "sentence"),
    [
        (["status", "a", "--name", "b"], "NAME a and --name b are different locks: give one"),
        (["status", "-n", "a", "-A"], "-n and -A exclude each other: leave one out"),
        (["status", "A"], "'A' is not an object name"),
        (["status", "-n", "../x"], "--namespace '../x' is not a namespace"),
        (["status", "-o", "xml"], "'xml' is not one of 'wide', 'json', 'yaml', 'name'"),
        (["status", "--lock", "bogus"], "'bogus' is not a lock type: choose lease,"),
        (["status", "--request-timeout", "0"], "--request-timeout must be more than 0s"),
        (["status", "--as", "\n"], "is not a user: give at most"),
        (["status", "a", "b"], "got unexpected extra argument (b)"),
        (["wait", "a"], "missing option '--for'"),
        (["wait", "--for", "free"], "which lock? give its NAME"),
        (["wait", "--for", " ", "a"], "--for: give leader, free, change or an identity"),
        (["wait", "--for", "free", "a", "--timeout", "soon"], "'soon' is not a duration"),
    ],
)
def test_invalid_options_are_refused_with_valid_ones(ask: CliRunner, args: list[str], sentence: str) -> None:
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
def test_options_that_run_also_has_are_declared_once(command: click.Command) -> None:
    """The same names, the same type of value."""
    of_run = {param.name: param for param in run.params}
    shared = [param for param in command.params if param.name in of_run and param.name != "wait"]
    assert {param.name for param in shared} >= {"lock", "name", "namespace", "kubeconfig", "context", "server", "as"}
    for param in shared:
        assert param.opts == of_run[param.name].opts
        assert type(param.type) is type(of_run[param.name].type)


@pytest.mark.parametrize("name", cli.commands)
def test_help_fits_eighty_columns_and_has_the_rule_for_variable_names(ask: CliRunner, name: str) -> None:
    """The variable is the prefix that help names, and the long option in capitals."""
    brief, text = (
        ask.invoke(cli, [name, spelling], prog_name="kleader", terminal_width=80).output
        for spelling in ("-h", "--help")
    )
    assert max(map(len, (brief + text).splitlines())) <= 80
    context = click.Context(cli.commands[name], auto_envvar_prefix=f"KLEADER_{name.replace('-', '_').upper()}")
    for param in cli.commands[name].params:
        if isinstance(param, Option):
            option = param.long.removeprefix("--").replace("-", "_").upper()
            assert param.variable(context).endswith(f"_{option}")
            prefix = param.variable(context).removesuffix(option)
            assert re.search(rf"\b{prefix}[A-Z_]+ is --", " ".join(text.split())), param.name


def test_help_of_the_program_fits_a_terminal_and_lists_every_command(ask: CliRunner) -> None:
    """80 columns, 24 lines with the prompt; run comes first."""
    texts = {ask.invoke(cli, args, prog_name="kleader", terminal_width=80).output for args in ([], ["-h"], ["--help"])}
    assert len(texts) == 1
    lines = texts.pop().splitlines()
    assert max(map(len, lines)) <= 80
    assert len(lines) <= 23
    told = [line.split()[0] for line in lines if line.startswith("  ")]
    assert told[0] == "run"
    assert set(told) == cli.commands.keys() - {"help", "version"}


def test_without_a_cluster_one_line_says_how_to_fix_it(ask: CliRunner) -> None:
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
def test_ages_are_formatted_as_by_kubectl(seconds: float, said: str) -> None:
    """Values of duration_test.go in k8s.io/apimachinery, and those at which its units change."""
    assert formatters.human_duration(seconds) == said


def test_a_table_is_formatted_as_by_kubectl(capsys: pytest.CaptureFixture[str]) -> None:
    formatters.print_locks([look()], "", with_namespace=False)
    assert capsys.readouterr().out == (
        "NAME   TYPE    STATE   HOLDER   SINCE   RENEWED   EXPIRES   STANDBY     LAST RUN\n"
        "x      lease   held    a        3m20s   2s        in 13s    <unknown>   <none>\n"
    )


def test_a_table_wider_than_the_terminal_is_printed_as_blocks(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kleader.cli.formatters.os.get_terminal_size", lambda _: os.terminal_size((80, 24)))
    monkeypatch.setattr("sys.stdout.fileno", lambda: 1, raising=False)
    formatters.print_locks([look()], "", with_namespace=False)
    assert len(capsys.readouterr().out.splitlines()) == 2
    formatters.print_locks([look(), look()], "wide", with_namespace=False)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "NAME          x"
    assert lines[lines.index("") + 1 :] == lines[: lines.index("")]
    assert max(map(len, lines)) <= 80


RUN = Run("host-b", "7", "k", WALL - 50 * SECOND, WALL - 9 * SECOND, 0, "exited")


@pytest.mark.parametrize(("run", "said"), [
    (RUN, "9s"), (RUN._replace(status=3), "9s, status 3"), (RUN._replace(reason="stopped"), "9s, stopped"),
    (RUN._replace(started=None, ended=None), "<unknown>"),
])  # fmt: skip
def test_the_last_run_is_shown_of_a_free_lock_too(capsys: pytest.CaptureFixture[str], run: Run, said: str) -> None:
    formatters.print_locks([look(runs=(run, RUN))], "", with_namespace=False)
    head, row = capsys.readouterr().out.splitlines()
    assert row[head.index("LAST RUN") :] == said
    assert row.split()[2] == "free"


@pytest.mark.parametrize(("unrecorded", "runs", "said", "line"), [
    (0, (RUN,), "9s", []), (1, (RUN,), "9s, then 1 unrecorded", ["1 later term ended"]),
    (2, (RUN._replace(status=3),), "9s, status 3, then 2 unrecorded", ["2 later terms ended"]),
    (1, (), "1 unrecorded", ["1 later term ended"]),
])  # fmt: skip
def test_the_last_run_is_not_taken_for_that_of_a_leader_that_crashed(
    capsys: pytest.CaptureFixture[str], unrecorded: int, runs: tuple[Run, ...], said: str, line: list[str]
) -> None:
    record = Record("a", 15, WALL - 200 * SECOND, WALL, transitions=4 + unrecorded)
    formatters.print_locks([look(record=record, runs=runs, last_ended=3)], "", with_namespace=False)
    head, row, *rest = capsys.readouterr().out.splitlines()
    assert row[head.index("LAST RUN") :] == said
    assert [sentence.partition(" without a record")[0] for sentence in rest] == line


def test_the_latest_runs_of_one_lock_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    """One that was asked to step down says by whom, and for which candidate."""
    asked = RUN._replace(token="6", key="", status=255, started=None, reason="stepped-down", detail="asked to resign")
    one = look(runs=(RUN, asked))
    formatters.print_locks([one], "wide", with_namespace=False)
    assert capsys.readouterr().out.partition("\n\n")[2] == (
        "STARTED                TOOK        STATUS   REASON                          KEY      IDENTITY\n"
        "2026-11-21T08:59:10Z   41s         0        exited                          k        host-b\n"
        "<unknown>              <unknown>   255      stepped-down: asked to resign   <none>   host-b\n"
    )
    formatters.print_locks([one, look()], "wide", with_namespace=False)
    assert "\n\n" not in capsys.readouterr().out
    formatters.print_locks([one], "json", with_namespace=False)
    first, second = json.loads(capsys.readouterr().out)["items"][0]["runs"]
    assert first == {
        "identity": "host-b",
        "token": "7",
        "key": "k",
        "status": 0,
        "reason": "exited",
        "startTime": "2026-11-21T08:59:10.000000Z",
        "endTime": "2026-11-21T08:59:51.000000Z",
        "released": None,
        "detail": None,
    }
    assert (second["startTime"], second["detail"]) == (None, "asked to resign")


@pytest.mark.parametrize(("released", "shown"), [(WALL + 9 * SECOND, WALL), (WALL - 9 * SECOND, WALL - 9 * SECOND)])
def test_no_lock_is_free_since_an_instant_in_the_future(
    capsys: pytest.CaptureFixture[str], released: int, shown: int
) -> None:
    """Each write advances the renewTime by a second or more, so that of a release may lie in the future."""
    formatters.print_locks([look(free_since=released)], "", with_namespace=False)
    assert capsys.readouterr().out.splitlines()[2:] == [f"free since {formatters.timestamp(shown)}"]
    formatters.print_locks([look(free_since=released)], "json", with_namespace=False)
    assert json.loads(capsys.readouterr().out)["items"][0]["freeSince"] == micro_time(shown)


def test_of_each_candidate_its_pod_and_its_last_write_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    """A standby that was killed is listed as ready until its entry is six minutes old."""
    waiting = Registered("b", "lease", READY, WALL - 7200 * SECOND, WALL - 340 * SECOND, 5, "pod-b", "0.1.0")
    status = look()
    lock = replace(status.snapshot, candidates=(waiting,), pod="pod-a")
    formatters.print_locks([status._replace(snapshot=lock)], "", with_namespace=False)
    assert capsys.readouterr().out.partition("\n\n")[2] == (
        "CANDIDATE   STATE    PRIORITY   WAITING   SEEN    POD     VERSION\n"
        "a           leader   <none>     <none>    2s      pod-a   <none>\n"
        "b           ready    5          120m      5m40s   pod-b   0.1.0\n"
    )


def test_a_pair_with_different_holders_is_shown_without_a_holder_and_explained(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """People get an explanation instead of client-go's value; programs get the value."""
    torn = look(UNKNOWN)
    formatters.print_locks([torn], "", with_namespace=False)
    assert "   <unknown>   " in capsys.readouterr().out
    assert formatters.faults([torn]) == [
        "ns/x: its two objects name different holders, and it counts as held until both name the same one"
    ]
    formatters.print_result(torn, [], "")
    assert capsys.readouterr().out == "lease.coordination.k8s.io/x held by an unknown candidate\n"
    formatters.print_locks([torn], "json", with_namespace=False)
    assert json.loads(capsys.readouterr().out)["items"][0]["holder"] == UNKNOWN


@pytest.mark.parametrize("form", ["", "json", "yaml", "name"])
def test_a_missing_lock_is_reported_in_every_form(capsys: pytest.CaptureFixture[str], form: str) -> None:
    formatters.print_result(None, [], form)
    said = capsys.readouterr().out
    if form in {"json", "yaml"}:
        found = yaml.safe_load(said)
        assert (found["kind"], found["event"], found["lock"]) == ("LockChange", "absent", None)
    else:
        assert said == ("" if form else "there is no such lock\n")


def test_the_json_keys_are_always_the_same_and_unknown_values_are_null(capsys: pytest.CaptureFixture[str]) -> None:
    """Programs read the keys: a renamed or missing key breaks them."""
    looks = [look(), look(""), look(fault="broken"), look(path="/x"), look(non_expiring=True, record=Record("pod"))]
    formatters.print_locks(looks, "json", with_namespace=False)
    printed = capsys.readouterr().out
    found = json.loads(printed)
    assert [list(each) for each in found["items"]] == [
        [
            *("type", "namespace", "name", "path", "state", "watched", "holder", "lastHolder", "freeSince"),
            "unrecordedTerms",
            *("pod", "incarnation", "preferredHolder"),
            *("acquireTime", "renewTime", "leaseDurationSeconds", "transitions", "renewedSecondsAgo"),
            *("expiresInSeconds", "fault", "runs", "candidates", "objects"),
        ]
    ] * len(looks)
    assert found["items"][0]["renewTime"] == "2026-11-21T08:59:58.000000Z"
    assert found["items"][0]["objects"] == [
        {"apiVersion": REF[0], "kind": "Lease", "name": "x", "uid": "u", "resourceVersion": "7", "writer": "manager"}
    ]
    formatters.print_locks(looks, "yaml", with_namespace=False)
    assert yaml.safe_load(capsys.readouterr().out) == found


@pytest.mark.parametrize("holder", ["\x1b[2J", "a\nb", "\u202e", "\udcff", "\x7f\x9b", "yes", "1e3", "", "é" * 300])
@pytest.mark.parametrize("form", ["", "wide", "json", "yaml", "name"])
def test_no_holders_name_moves_the_cursor_or_breaks_the_output(
    capsys: pytest.CaptureFixture[str], holder: str, form: str
) -> None:
    formatters.print_locks([look(holder)], form, with_namespace=True)
    formatters.print_change(Change("acquired", f"{holder} leads", look(holder)), form)
    printed = capsys.readouterr().out
    assert printed.replace("\n", "").isprintable(), ascii(printed)
    if form in {"", "wide"}:
        assert len(printed.splitlines()) == 3


@pytest.mark.parametrize("instant", [-(10**18), -1, 10**18, 253_402_300_800 * SECOND - 1])
def test_a_time_beyond_the_calendar_is_printed(capsys: pytest.CaptureFixture[str], instant: int) -> None:
    for form in ("", "wide", "json", "yaml"):
        formatters.print_locks([look(record=Record("a", 15, instant, instant))], form, with_namespace=False)
    assert capsys.readouterr().out


def test_the_live_view_of_one_lock_names_its_standbys_and_reads_them_rarely(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of several locks, and of a lock file, it shows none."""
    standby = Registered("a", "lease", READY, 1, 2)
    found = [(standby, standby._replace(identity="b", state=UNHEALTHY)), (), None]

    async def read(_query: object, _namespace: str, _sources: object, locks: list[LockSnapshot]) -> object:
        return [replace(locks[0], candidates=found.pop(0))], ""

    def line(*statuses: LockStatus, kind: str = "") -> str:
        shown._query = SimpleNamespace(name="x", kind=kind)  # type: ignore[assignment]
        return asyncio.run(shown.line(statuses))

    monkeypatch.setattr(waiting, "with_candidates", read)
    shown = status_view._Standbys(SimpleNamespace(), "ns", [])  # type: ignore[arg-type]
    assert line(look("a"), look("b")) == line(look("a"), kind="file") == ""
    assert line(look("a")) == line(look("a")) == "standby: a ready, b unhealthy"
    for later in ("standby: none", ""):
        shown._read_at = 0
        assert line(look("a")) == later


def test_the_live_view_shows_locks_that_are_not_held_or_do_not_expire(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    out = io.StringIO()
    monkeypatch.setattr("sys.stdout", out)
    monkeypatch.setattr(status_view, "takes_colours", lambda _: True)
    held = LockSnapshot("leader-for-life", "ns", "pods", Record("p", 15), non_expiring=True)
    shown = [held, LockSnapshot("lease", "ns", "free"), LockSnapshot("lease", "ns", "odd", fault="it is broken")]
    status_view.LiveView(with_namespace=False).show([], [status_from_watch(each, 0, WALL) for each in shown], None)
    _, *lines = out.getvalue().strip().split("\n")
    rows = [re.sub(r"\x1b\[[0-9;]*m|-{2,}|#{2,}", "", line).split() for line in lines]
    assert rows == [
        ["pods", "for", "life", "<unknown>", "p"],
        ["free", "free"],
        ["odd", "malformed:", "it", "is", "broken"],
    ]
    assert len({re.match(r"\x1b\[[0-9;]+m", line)[0] for line in lines}) == len(shown)  # type: ignore[index]


def test_a_clock_that_is_clearly_another_than_the_servers_is_reported(capsys: pytest.CaptureFixture[str]) -> None:
    for seconds, sentence in ((30, "is 30s behind"), (-30, "is 30s ahead of"), (1, "")):
        source: Any = SimpleNamespace(skew=ClockSkew(seconds, 0.5))
        status_view._explain([], Clock([source]))
        told = f"kleader: this machine's clock {sentence} the API server's, by which times are shown\n"
        assert capsys.readouterr().err == (told if sentence else "")


def test_candidates_that_cannot_be_read_are_reported_and_the_lock_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    async def refuse(*_: object) -> None:
        raise ForbiddenError("no")

    monkeypatch.setattr("kleader.locks.candidate_registry.read_registry", refuse)
    query: Any = SimpleNamespace(kind="lease", name="x", request_timeout=1.0)
    source = KubeSource(ApiClient(cast("Any", None)), LEASES, Scope("ns", "x"), 1.0)
    found = asyncio.run(waiting.with_candidates(query, "ns", [source], [look().snapshot]))
    assert found == ([look().snapshot], "the candidates that wait are not shown: no")


def test_the_live_view_fits_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """The number of locks and the length of their holders' names do not matter."""
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("LINES", "10")
    out = io.StringIO()
    monkeypatch.setattr("sys.stdout", out)
    view = status_view.LiveView(with_namespace=True)
    seen = LockSnapshot("lease", "ns", "x" * 20, Record("h" * 500, 15, WALL, WALL))
    many = [status_from_watch(seen, passed, WALL) for passed in range(40)]
    event = Change("acquired", "something happened", many[0])
    view.show([event], many, LockError(Kind.UNREACHABLE, "an error"))
    view.show([event], many, None, "standby: " + "s" * 500)
    first, second = out.getvalue().split("\x1b[J")[1:]
    assert first.splitlines()[0].endswith("something happened")
    assert len(first.splitlines()) - 1 <= 10
    assert second.splitlines()[-2:] == ["and 34 more", "standby: " + "s" * 70]
    assert len(second.splitlines()) - 1 <= 10
    assert all(len(line) < 80 for line in first.splitlines() + second.splitlines())
    assert out.getvalue().count("\x1b[") == 3  # up, and twice down to the end of the screen
