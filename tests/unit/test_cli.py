"""The plan that the command line makes of options and environment, or the usage error with a valid form."""

from __future__ import annotations

import os
import re
import signal
import tempfile
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner, Result

from kleader import launch
from kleader.cli.command_line import ALIASES
from kleader.cli.commands import cli
from kleader.cli.run import run
from kleader.cli.status import status
from kleader.ipc.plan import Pod
from kleader.locks.file_lock import LockFileError
from tests.support.log import lines

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import click

    from kleader.ipc.plan import Plan

    Parse = Callable[..., Plan]
    Refuse = Callable[..., str]

USAGE = 2
OPTIONS = [param for param in run.params if not getattr(param, "hidden", False)]  # the others are klog's, and ignored
LOCKS = "lease, configmap, endpoints, configmapsleases, endpointsleases, leader-for-life, file"
LONG = "9" * 5000  # more digits than int() takes
SPELLINGS = {
    "--leader-elect-resource-lock": "--lock",
    "--leader-elect-lock": "--lock",
    "--leader-elect-resource-name": "--name",
    "--leader-elect-resource-namespace": "--namespace",
    "--leader-elect-lease-duration": "--lease-duration",
    "--leader-elect-renew-deadline": "--renew-deadline",
    "--leader-elect-retry-period": "--retry-period",
}


class Invocation:
    """Invokes the command line up to the point where it becomes the supervisor."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.plans: list[Plan] = []
        monkeypatch.setattr(launch, "become_supervisor", self.plans.append)
        for name in [name for name in os.environ if name.startswith(("KLEADER_", "POD_"))]:
            monkeypatch.delenv(name)

    def __call__(self, *args: str, **environ: str) -> Result:
        return CliRunner().invoke(cli, ["run", *args], env=environ, prog_name="kleader")


@pytest.fixture
def invoke(monkeypatch: pytest.MonkeyPatch) -> Invocation:
    return Invocation(monkeypatch)


@pytest.fixture
def parse(invoke: Invocation) -> Parse:
    """The plan of ``run OPTIONS --name t -- true``, or of the arguments alone if they contain ``--``."""

    def plan(*args: str, **environ: str) -> Plan:
        whole = args if "--" in args else (*args, "--name", "t", "--", "true")
        result = invoke(*whole, **environ)
        assert result.exit_code == 0, result.output
        return invoke.plans[-1]

    return plan


@pytest.fixture
def refuse(invoke: Invocation) -> Refuse:
    """The error line of a ``run`` that exits with 2, below its usage."""

    def sentence(*args: str, **environ: str) -> str:
        whole = args if "--" in args else (*args, "--name", "t", "--", "true")
        result = invoke(*whole, **environ)
        assert (result.exit_code, invoke.plans) == (USAGE, []), result.output
        last = result.output.splitlines()[-1]
        assert last.startswith("kleader: error: ")
        return last.removeprefix("kleader: error: ")

    return sentence


# --- where the options end and the command begins


@pytest.mark.parametrize(
    "command",
    [
        ["true"],
        ["true", "--name", "other"],
        ["true", "--", "a", "--", "b"],
        ["true", "--help"],
        ["true", "-v=4", "--lock=file", "", " ", "é", "\udcff"],
    ],
)
def test_everything_after_the_first_separator_is_the_command_unchanged(parse: Parse, command: list[str]) -> None:
    assert parse("--name", "t", "--", *command).command == command


@pytest.mark.parametrize(
    ("args", "sentence"),
    [
        (["--"], "no command given: kleader run [OPTIONS] -- COMMAND [ARG]..."),
        (["--", ""], "the command after -- is empty"),
        (["worker", "--", "true"], "'worker' before -- belongs to no option"),
        (["worker", "--lock", "file", "--", "true"], "'worker' before -- belongs to no option"),
        (["--name", "--", "true"], "option '--name' requires an argument"),
        (["--xyzzy", "--", "true"], "no such option"),  # click's words differ from version to version
        (["--name", "t", "-x", "--", "true"], "no such option"),
    ],
)
def test_only_options_may_stand_before_the_separator(refuse: Refuse, args: list[str], sentence: str) -> None:
    assert refuse(*args).startswith(sentence)


@pytest.mark.parametrize(
    ("args", "sentence"),
    [
        ([], "no command given: kleader run [OPTIONS] -- COMMAND [ARG]..."),
        (["true"], "write -- before the command: kleader run [OPTIONS] -- true"),
        (["-n", "jobs", "ls", "-l", "a b"], "write -- before the command: kleader run [OPTIONS] -- ls -l 'a b'"),
    ],
)
def test_a_command_without_the_separator_is_refused(invoke: Invocation, args: list[str], sentence: str) -> None:
    result = invoke(*args)
    assert result.exit_code == USAGE
    assert result.output.splitlines()[-1] == f"kleader: error: {sentence}"


@pytest.mark.parametrize(
    ("typed", "meant"),
    [("--leas-duration", "--lease-duration"), ("--no-wiat", "--no-wait"), ("--stop-timout", "--stop-timeout")],
)
def test_a_mistyped_option_is_answered_with_the_most_similar_one(refuse: Refuse, typed: str, meant: str) -> None:
    sentence = refuse(typed)
    assert sentence.startswith("no such option")
    assert typed in sentence
    assert meant in sentence.partition(typed)[2]


@pytest.mark.parametrize("typed", ["resing", "resigne", "transfe", "transfers"])
def test_no_suggestion_for_a_mistyped_command_ends_a_term(typed: str) -> None:
    result = CliRunner().invoke(cli, [typed], prog_name="kleader")
    assert result.exit_code == USAGE
    assert result.output.endswith(f"kleader: error: no such command '{typed}'\n")


@pytest.mark.parametrize("typed", ["versoin", "verson", "versin", "vresion", "ersion"])
def test_a_command_that_ends_a_term_is_not_suggested_beside_a_more_similar_one(typed: str) -> None:
    result = CliRunner().invoke(cli, [typed], prog_name="kleader")
    assert result.exit_code == USAGE
    assert result.output.endswith(f"kleader: error: no such command '{typed}'; did you mean 'version'?\n")


def test_version_and_help_are_commands_too() -> None:
    """They print what the options of these names print, for the program and for one of its commands."""

    def output(*args: str) -> str:
        result = CliRunner().invoke(cli, args, prog_name="kleader")
        assert result.exit_code == 0
        return result.output

    assert output("version") == output("--version")
    assert output("help") == output("--help")
    assert output("help", "run") == output("run", "--help")
    assert CliRunner().invoke(cli, ["help", "rum"]).exit_code == USAGE


def test_a_mistyped_command_is_answered_with_the_most_similar_one() -> None:
    result = CliRunner().invoke(cli, ["rum"], prog_name="kleader")
    assert result.exit_code == USAGE
    assert result.output.endswith("kleader: error: no such command 'rum'; did you mean 'run'?\n")


# --- values

NAMED = ["--coordinated", "--binary-version=1.36.0"]
REFUSED: list[tuple[list[str], str]] = [
    (
        ["--lock", "bogus"],
        f"'bogus' is not a lock type: choose {LOCKS} or file:PATH",
    ),
    (
        ["--lock", "file:"],
        f"'file:' is not a lock type: choose {LOCKS} or file:PATH",
    ),
    (
        ["--lock", "lease:x"],
        f"'lease:x' is not a lock type: choose {LOCKS} or file:PATH",
    ),
    (
        ["--lock", "endpoints:x"],
        f"'endpoints:x' is not a lock type: choose {LOCKS} or file:PATH",
    ),
    (
        ["--name", "candidates.t", "--", "true"],
        "--name candidates.t names the list of the candidates for the lock t: choose another name",
    ),
    (["-n", "A"], "--namespace 'A' is not a namespace: lower case letters, digits and - only, 63 at most"),
    (["-n", "a.b"], "--namespace 'a.b' is not a namespace"),
    (["-n", "-a"], "--namespace '-a' is not a namespace"),
    (["-n", "a" * 64], "is not a namespace"),
    (["--identity", ""], "--identity '' is not an identity: give 1 to 1024 printable characters"),
    (["--identity", " "], "is not an identity: give 1 to 1024 printable characters"),
    (["--identity", "a\nb"], "is not an identity: give 1 to 1024 printable characters"),
    (["--identity", "\udcff"], "is not an identity: give 1 to 1024 printable characters"),
    (["--identity", "a" * 1025], "is not an identity: give 1 to 1024 printable characters"),
    (["--lock-label", "x"], "'x' is not a label: write KEY=VALUE, such as app.kubernetes.io/name=worker"),
    (["--lock-label", "=x"], "'=x' is not a label"),
    (["--lock-label", "a b=x"], "'a b=x' is not a label"),
    (["--lock-label", "/a=x"], "'/a=x' is not a label"),
    (["--lock-label", "A_/a=x"], "'A_/a=x' is not a label"),
    (["--lock-label", "a=-"], "'a=-' is not a label"),
    (["--lock-label", f"a={'x' * 64}"], "is not a label"),
    (["--as", "a\nb"], "is not a user: give at most 1024 printable ASCII characters"),
    (["--as", "é"], "is not a user: give at most 1024 printable ASCII characters"),
    (
        ["--request-timeout", "0"],
        "--request-timeout 0s: it must be more than 0s, and at most",
    ),
    (
        ["--request-timeout", "6s"],
        "--request-timeout 6s: it must be more than 0s, and at most half the renew deadline",
    ),
    (["--request-timeout", "-1s"], "'-1s' is negative"),
    (["--wait", "soon"], "'soon' is not a duration: write it as 15s, 500ms or 1m30s, or \"live\""),
    (["--wait", "5"], "'5' is not a duration: write it as 15s, 500ms or 1m30s, or \"live\""),
    (["--wait", "-5s"], "'-5s' is negative"),
    (["--wait", "5s", "--no-wait"], "--wait and --no-wait exclude each other: leave one out"),
    (["-v", "-q"], "-v and -q exclude each other: leave one out"),
    (["--health", "x 'y"], '"x \'y" is not a command: No closing quotation'),
    (["--health", "true", "--health-period", "0s"], "--health-period 0s must be more than 0s"),
    (["--lock", "file", "--pod-label", "role=leader"], "--pod-label needs a cluster: leave it out"),
    (["-v=high"], "'high' is not a level: write -v, -vv or -v=4"),
    (["-v="], "'' is not a level"),
    (["--leader-elect="], "'' is neither true nor false"),
    (["--leader-elect=maybe"], "'maybe' is neither true nor false"),
    (["--on-loss", "die"], "'die' is not one of 'exit', 'wait'"),
    (["--loss-exit-code", "256"], "256 is not in the range 0<=x<=255"),
    (["--busy-exit-code", "-1"], "-1 is not in the range 0<=x<=255"),
    (["--loss-exit-code", "x"], "'x' is not a whole number"),
    (["--restart", "yes"], "'yes' is not one of 'no', 'on-failure', 'always'"),
    (["--stop-signal", "FOO"], "'FOO' is not a signal: write it as TERM, SIGTERM or 15"),
    (["--stop-signal", "0"], "'0' is not a signal"),
    (["--stop-signal", "999"], "'999' is not a signal"),
    (["--stop-signal", "KILL"], "--stop-signal SIGKILL: a process cannot handle it"),
    (["--stop-signal", "19"], "--stop-signal SIGSTOP: a process cannot handle it"),
    (["--stop-signal-to", "all"], "'all' is not one of 'main', 'group'"),
    (["--stop-timeout", "x"], "'x' is not a duration: write it as 15s, 500ms or 1m30s"),
    (["--log-format", "xml"], "'xml' is not one of 'text', 'json'"),
    (["--lock", "file", "--no-release"], "--no-release: a file lock ends with its processes; leave"),
    (["--kubeconfig"], "option '--kubeconfig' requires an argument"),
    (["--coordinated"], "--coordinated needs --binary-version: the control plane chooses the leader by versions"),
    (["--coordinated", "--emulation-version=1.2.3"], "--coordinated needs --binary-version"),
    *(
        ([f"--lock={lock}", *NAMED], f"--coordinated does not work with --lock {lock}: ")
        for lock in ("configmap", "endpoints", "configmapsleases", "endpointsleases")
    ),
    (["--lock=file:/x", *NAMED], "--coordinated does not work with --lock file: "),
    *(
        (["--coordinated", f"--binary-version={version}"], "is not a whole semantic version: write it as 1.36.0")
        for version in ("1.2", "v1.2.3", "1.2.3.4", "01.2.3", "1.2.3-", "1.2.3-01", "1.2.3+", "0.0.0", "é", "9" * 99)
    ),
    (["--coordinated-strategy=Newest", *NAMED], "'Newest' is not a strategy: write OldestEmulationVersion or example"),
    (["--coordinated-strategy=/x", *NAMED], "'/x' is not a strategy"),
    (["--emulation-version=1.2", *NAMED], "'1.2' is not a whole semantic version: write it as 1.36.0"),
    (["--emulation-version=1.36.1", *NAMED], "--emulation-version 1.36.1 is newer than --binary-version 1.36.0"),
    (["--emulation-version=1.2.3", "--binary-version=1.2.3-rc.1", "--coordinated"], "is newer than --binary-version"),
    (["--emulation-version=1.2.3-10", "--binary-version=1.2.3-9", "--coordinated"], "is newer than --binary-version"),
    (["--emulation-version=1.2.3-a", "--binary-version=1.2.3-9", "--coordinated"], "is newer than --binary-version"),
    *(
        ([f"--identity={identity}", *NAMED], "cannot name a LeaseCandidate, as --coordinated requires")
        for identity in ("a b", "a/b", "é", ".", "..", "..a", "a" * 254)
    ),
]


@pytest.mark.parametrize(("args", "sentence"), REFUSED, ids=[" ".join(args)[:40] for args, _ in REFUSED])
def test_an_invalid_value_is_refused_with_a_valid_form(refuse: Refuse, args: list[str], sentence: str) -> None:
    assert sentence in refuse("--name", "t", *args, "--", "true")


@pytest.mark.parametrize("emulation", ["1.35.9", "1.36.0", "1.36.0-rc.1", "1.36.0+build.7", "1.4.0"])
@pytest.mark.parametrize("identity", ["a", "A-z_0.9", ".a", "a" * 253])
def test_versions_and_identities_that_the_api_server_accepts_are_accepted(
    parse: Parse, emulation: str, identity: str
) -> None:
    plan = parse(*NAMED, f"--identity={identity}", f"--emulation-version={emulation}", "--name=t", "--", "true")
    assert (plan.coordinated, plan.binary_version, plan.emulation_version) == (True, "1.36.0", emulation)
    assert parse(*NAMED, "--name=t", "--", "true").emulation_version == "1.36.0"


def test_a_namespace_is_checked_wherever_it_comes_from(refuse: Refuse, parse: Parse) -> None:
    assert refuse(POD_NAMESPACE="../x").startswith("POD_NAMESPACE '../x' is not a namespace: ")
    assert parse(POD_NAMESPACE="jobs").namespace == "", "a kubeconfig's context comes before: the elector finds out"
    assert parse("--lock=file", POD_NAMESPACE="jobs").namespace == "jobs"
    assert parse("-n", "mine", POD_NAMESPACE="jobs").namespace == "mine"
    assert parse("--lock", "file").namespace == "default"


def test_without_a_directory_for_the_lock_file_a_path_is_required(
    invoke: Invocation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 4711)
    result = invoke("--lock", "file", "--name", "t", "--", "true")
    assert isinstance(result.exception, LockFileError)  # main() prints it, and exits with 125
    assert result.exception.strerror == (
        "user 4711 has no home directory to keep the lock file in: give --lock file:PATH"
    )
    assert invoke.plans == []


@pytest.mark.parametrize("name", ["A", "a_b", "-a", "a-", "a..b", "a.-b", "a/b", "é", "a" * 254, "\udcff"])
def test_a_name_that_no_object_can_have_is_refused(refuse: Refuse, name: str) -> None:
    sentence = refuse("--name", name, "--", "true")
    assert "is not an object name: lower case letters, digits, - and . only, 253 at most" in sentence
    assert len(sentence) < 250


@pytest.mark.parametrize(
    ("timings", "sentence"),
    [
        ("-d 10s", "lease duration 10s must be greater than renew deadline 10s"),
        ("-d 900ms -r 800ms", "lease duration 900ms: whole seconds are advertised, so it must be at least 1s"),
        ("-p 999ms", "retry period 999ms must be at least 1s: records are compared at whole seconds"),
        ("-r 2.4s", "renew deadline 2.4s must be greater than 1.2 x retry period 2s = 2.4s"),
        ("-d 11s", "renew deadline 10s + loss grace 0s + kill budget 500ms + skew 1.1s = 11.6s exceeds the lease"),
        ("-g 3.1s", "renew deadline 10s + loss grace 3.1s + kill budget 500ms + skew 1.5s = 15.1s exceeds the lease"),
        ("-k 4s", "renew deadline 10s + loss grace 0s + kill budget 4s + skew 1.5s = 15.5s exceeds the lease"),
        ("-k 0", "kill budget 0s is too short, because SIGKILL takes time: the default is 500ms"),
        ("-s 5s", "renew deadline 10s + loss grace 0s + kill budget 500ms + skew 5s = 15.5s exceeds the lease"),
        ("-d 9000h", "lease duration 9000h0m0s is longer than a year: 8784h0m0s at most"),
        ("-d 300y", "'300y' is not a duration: write it as 15s, 500ms or 1m30s"),
    ],
)
def test_timings_that_break_the_rule_are_refused_with_the_sum(refuse: Refuse, timings: str, sentence: str) -> None:
    options = {"-d": "--lease-duration", "-r": "--renew-deadline", "-p": "--retry-period"}
    options |= {"-g": "--loss-grace", "-k": "--kill-budget", "-s": "--clock-skew"}
    assert sentence in refuse(*(options.get(word, word) for word in timings.split()))


@pytest.mark.parametrize("param", OPTIONS, ids=lambda p: p.name)
def test_every_invalid_value_gives_an_error_in_one_line(invoke: Invocation, param: click.Option) -> None:
    """Every option accepts a long, empty or binary value, or refuses it in a line of bounded length."""
    for value in (LONG, "", "\udcff", "{}", "-1", "\N{ARABIC-INDIC DIGIT THREE}", "nan", "a=b=c"):
        option = max(param.opts, key=len)
        result = invoke("--name", "t", f"{option}={value}", "--", "true")
        assert result.exception is None or isinstance(result.exception, SystemExit), (option, value, result.exception)
        if result.exit_code:
            assert len(result.output.splitlines()) <= 4, result.output


# --- the environment


VALUES: dict[str, tuple[str, str, Any]] = {  # by parameter: what is given, and the field of the plan that shows it
    "lock": ("file:/x.lock", "file", "/x.lock"),
    "name": ("n", "name", "n"),
    "namespace": ("jobs", "namespace", "jobs"),
    "identity": ("me", "identity", "me"),
    "force": ("true", "force", True),
    "coordinated": ("true", "coordinated", True),
    "binary_version": ("1.36.0", "binary_version", "1.36.0"),
    "emulation_version": ("1.35.0", "emulation_version", "1.35.0"),
    "coordinated_strategy": ("example.com/first", "strategy", "example.com/first"),
    "lock_label": ("a=b", "labels", {"a": "b"}),
    "priority": ("7", "priority", 7),
    "no_register": ("true", "registers", False),
    "kubeconfig": ("k", "api", {"kubeconfig": "k"}),
    "context": ("c", "api", {"context": "c"}),
    "cluster": ("c", "api", {"cluster": "c"}),
    "user": ("u", "api", {"user": "u"}),
    "server": ("https://x", "api", {"server": "https://x"}),
    "as": ("you", "api", {"as": "you"}),
    "request_timeout": ("1s", "request_timeout", 1.0),
    "lease_duration": ("20s", "lease_duration", 20),
    "renew_deadline": ("9s", "renew_deadline", 9.0),
    "retry_period": ("3s", "retry_period", 3.0),
    "loss_grace": ("1s", "grace", 1.0),
    "kill_budget": ("1s", "kill", 1.0),
    "clock_skew": ("1s", "skew", 1.0),
    "leader_elect": ("false", "lock", ""),
    "wait": ("20s", "wait", 20.0),
    "no_wait": ("true", "wait", 0.0),
    "once_per": ("12h", "once_per", 43200.0),
    "once": ("2026-11-23", "once", "2026-11-23"),
    "once_after": ("any", "once_after_any", True),
    "once_exit_code": ("9", "once_exit_code", 9),
    "busy_exit_code": ("0", "busy_exit_code", 0),
    "on_loss": ("wait", "on_loss", "wait"),
    "loss_exit_code": ("1", "loss_exit_code", 1),
    "no_release": ("true", "release", False),
    "release": ("true", "release", True),
    "restart": ("always", "restart", "always"),
    "until_empty": ("1", "until_empty", True),
    "stop_signal": ("INT", "stop_signal", signal.SIGINT),
    "stop_signal_to": ("group", "stop_group", True),
    "stop_timeout": ("1m", "stop_timeout", 60.0),
    "standby": ("true x", "standby", ["true", "x"]),
    "pod_label": ("a/k=l,s", "pod_label", ["a/k", "l", "s"]),
    "on_new_leader": ("true 'the others'", "on_new_leader", ["true", "the others"]),
    "health": ("true 'a b' c\\ d", "health", ["true", "a b", "c d"]),
    "health_period": ("5s", "health_period", 5.0),
    "health_failures": ("2", "health_failures", 2),
    "http": ("127.0.0.1:0", "http", "127.0.0.1:0"),
    "metrics_file": (f"{tempfile.gettempdir()}/x.prom", "metrics_file", f"{tempfile.gettempdir()}/x.prom"),
    "notify": ("command", "notify", "command"),
    "on_end": ("true now", "on_end", ["true", "now"]),
    "state_file": (f"{tempfile.gettempdir()}/state", "state_file", f"{tempfile.gettempdir()}/state"),
    "log_format": ("json", "log_format", "json"),
    "v": ("4", "verbosity", 5),
    "quiet": ("true", "verbosity", 0),
}

FOR_LIFE = {"KLEADER_RUN_LOCK": "leader-for-life", "POD_NAME": "p"}
# By parameter: the surroundings in which it makes a difference.
BESIDE = {"release": FOR_LIFE, "pod_label": {"POD_NAME": "p"}}


NEEDS = {"coordinated": ["--binary-version=1.36.0"]}  # options that are not given alone


def shown(plan: Plan, field: str, value: object) -> bool:
    found = getattr(plan, field) if field in plan._fields else getattr(plan.timing, field)
    return bool(found.items() >= value.items()) if isinstance(value, dict) else bool(found == value)


def variable(param: click.Parameter) -> str:
    """The variable: KLEADER_RUN_ and the longest name of the option."""
    own = [name for name in param.opts if not name.startswith((ALIASES, "--master"))]
    return "KLEADER_RUN_" + max(own, key=len).lstrip("-").replace("-", "_").upper()


def test_of_two_options_that_exclude_each_other_the_command_lines_counts(parse: Parse) -> None:
    """A manifest sets one by its variable, and somebody tries the other."""
    command = ("--name", "t", "--", "true")
    assert parse("--no-wait", *command, KLEADER_RUN_WAIT="5s").wait == parse("--no-wait", *command).wait
    assert parse("--wait", "5s", *command, KLEADER_RUN_NO_WAIT="true").wait == parse("--wait", "5s", *command).wait


def test_every_option_has_a_row_in_the_table_of_values() -> None:
    assert set(VALUES) == {param.name for param in OPTIONS}


@pytest.mark.parametrize("param", OPTIONS, ids=lambda param: param.name)
def test_every_option_and_its_variable_reach_the_plan(parse: Parse, param: click.Option) -> None:
    """Each spelling on the command line and KLEADER_RUN_OPTION give the same plan."""
    assert param.name
    value, field, expected = VALUES[param.name]
    beside = BESIDE.get(param.name, {})
    command = (*NEEDS.get(param.name, ()), *([] if param.name == "name" else ["--name", "t"]), "--", "true")
    assert not shown(parse("--name", "t", "--", "true", **beside), field, expected)
    for spelling in param.opts:
        given = [spelling] if param.is_flag else [spelling, value]
        assert shown(parse(*given, *command, **beside), field, expected), spelling
    assert shown(parse(*command, **{variable(param): value}, **beside), field, expected)


@pytest.mark.parametrize("param", OPTIONS, ids=lambda param: param.name)
def test_an_empty_variable_counts_as_unset(parse: Parse, param: click.Option) -> None:
    assert param.name
    _, field, expected = VALUES[param.name]
    command = ("--", "true") if param.name == "name" else ("--name", "t", "--", "true")
    assert not shown(parse(*command, **{variable(param): ""}, **BESIDE.get(param.name, {})), field, expected)


def test_a_bad_variable_is_a_usage_error_that_names_it(refuse: Refuse) -> None:
    sentence = refuse(KLEADER_RUN_LEASE_DURATION="long")
    assert sentence.startswith("KLEADER_RUN_LEASE_DURATION 'long' is not a duration")


def test_the_command_line_wins_over_the_environment(parse: Parse) -> None:
    assert parse("--retry-period", "3s", KLEADER_RUN_RETRY_PERIOD="4s").timing.retry_period == 3
    assert parse("--wait", "20s", KLEADER_RUN_NO_WAIT="1").wait == 20
    assert parse("--no-wait", KLEADER_RUN_WAIT="20s").wait == 0
    assert parse("-q", KLEADER_RUN_V="4").verbosity == 0
    assert parse("-v", KLEADER_RUN_QUIET="1").verbosity == 2


def test_several_labels_fit_into_one_variable(parse: Parse) -> None:
    assert parse(KLEADER_RUN_LOCK_LABEL="a=b c.d/e=").labels == {"a": "b", "c.d/e": ""}
    assert parse("--lock-label", "a=b", "--lock-label", "c.d/e=").labels == {"a": "b", "c.d/e": ""}


@pytest.mark.parametrize("name", ["KLEADER_VERSION", "KLEADER_HELP", "KLEADER_RUN_HELP", "KLEADER_RUN_COMMAND"])
def test_variables_that_images_and_services_set_are_no_options(parse: Parse, name: str) -> None:
    assert parse(**{name: "0.1.0"}).command == ["true"]


@pytest.mark.parametrize("name", ["KLEADER_RUN_LEASE_DURATON", "KLEADER_RUN_COMMAND", "KLEADER_RUN_PORT"])
def test_a_variable_that_looks_like_an_option_but_is_unknown_gives_a_warning(
    parse: Parse, capfd: pytest.CaptureFixture[str], name: str
) -> None:
    """The warning does not show its value. An empty variable counts as unset."""
    parse(**{name: "secret"})
    (warning,) = capfd.readouterr().err.splitlines()
    (line,) = lines(warning)
    assert line.level == "WARNING"
    assert line.message.startswith(f"ignored the variable {name}")
    assert "secret" not in warning
    assert ("did you mean KLEADER_RUN_LEASE_DURATION?" in warning) == (name == "KLEADER_RUN_LEASE_DURATON")
    parse(**{name: ""})
    assert not capfd.readouterr().err


@pytest.mark.parametrize("service", ["KLEADER_RUN", "KLEADER_RUN_EAST"])
def test_the_kubelets_variables_of_a_service_named_kleader_run_give_no_warning(
    parse: Parse, capfd: pytest.CaptureFixture[str], service: str
) -> None:
    """All variables that https://kubernetes.io/docs/concepts/services-networking/service/ lists."""
    port = f"{service}_PORT_6379_TCP"
    names = [f"{service}_SERVICE_HOST", f"{service}_SERVICE_PORT", f"{service}_SERVICE_PORT_HTTP", f"{service}_PORT"]
    parse(**dict.fromkeys([*names, port, *(f"{port}_{part}" for part in ("PROTO", "PORT", "ADDR"))], "10.0.0.11"))
    assert not capfd.readouterr().err


# --- kube-controller-manager's spellings, and klog's


@pytest.mark.parametrize(
    "flags",
    [
        ["--logtostderr"],
        ["--logtostderr=true", "--alsologtostderr", "-v=0"],
        ["--stderrthreshold=2", "--vmodule", "leaderelection=4", "--log_dir=/var/log", "--log-file=x"],
        ["--skip_headers", "--skip-log-headers", "--add_dir_header=false", "--one-output", "--log-file-max-size=8"],
        ["--log_backtrace_at=x.go:1", "--log-flush-frequency=5s", "--legacy_stderr_threshold_behavior=true"],
    ],
)
def test_klogs_flags_are_ignored_with_one_warning(
    parse: Parse, capfd: pytest.CaptureFixture[str], flags: list[str]
) -> None:
    parse(*flags)
    (warning,) = capfd.readouterr().err.splitlines()
    assert "ignored klog's flags: kleader logs to standard error" in warning


def test_klogs_flags_are_not_in_help_completion_or_manifests() -> None:
    given = ["--logtostderr", "--name=t", "--image=i", "--", "true"]
    assert "logtostderr=" not in CliRunner().invoke(cli, ["run", "--help"]).output
    assert "logtostderr" not in CliRunner().invoke(cli, ["completion", "bash"]).output
    assert "logtostderr" not in CliRunner().invoke(cli, ["manifest", *given]).stdout


def test_every_spelling_of_kube_controller_manager_is_an_option() -> None:
    found = {name: param.opts for param in OPTIONS for name in param.opts if name.startswith(ALIASES)}
    assert found.keys() == SPELLINGS.keys()
    assert all(SPELLINGS[name] in names for name, names in found.items())


@pytest.mark.parametrize("value", ["false", "False", "FALSE", "f", "F", "0"])
def test_leader_elect_false_runs_without_an_election(parse: Parse, value: str) -> None:
    plan = parse(f"--leader-elect={value}", "--", "python3")
    assert (plan.lock, plan.name) == ("", "")


@pytest.mark.parametrize("given", [["--leader-elect"], ["--leader-elect=true"], ["--leader-elect=1"], []])
def test_leader_elect_without_a_value_is_true(parse: Parse, given: list[str]) -> None:
    assert parse(*given).lock == "lease"


def test_resource_lock_leases_is_the_lease_lock(parse: Parse) -> None:
    assert parse("--leader-elect-resource-lock=leases").lock == "lease"


@pytest.mark.parametrize(
    ("environment", "given", "suffix"),
    [
        ({}, [], ""),
        ({}, ["--identity=worker-a"], "a"),
        ({"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, [], "x7k2p"),
        ({"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, ["--identity=a-very-long_one"], "long"),
        ({}, ["--identity=averyveryverylongname"], "verylongname"),
    ],
)
def test_log_lines_end_with_part_of_the_pods_name_or_the_identity(
    parse: Parse, monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], given: list[str], suffix: str
) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    monkeypatch.setattr("socket.gethostname", lambda: "beat-7f9c4-x7k2p")
    assert parse(*given, **environment).log_suffix == suffix


@pytest.mark.parametrize(
    ("given", "level"),
    [([], 1), (["-v"], 2), (["-vv"], 3), (["-v=4"], 5), (["-v4"], 5), (["--v=4"], 5), (["-v=0"], 1), (["-q"], 0)],
)
def test_verbosity_takes_kleaders_and_klogs_spellings(parse: Parse, given: list[str], level: int) -> None:
    assert parse(*given).verbosity == level


def flags(err: str) -> dict[str, str]:
    shown = (re.fullmatch(r'FLAG: --([a-z-]+)="(.*)"', line.message) for line in lines(err) if line.level == "DEBUG")
    return {each[1]: each[2] for each in shown if each}


def test_with_v_every_effective_option_is_logged_once_at_the_start(
    parse: Parse, capfd: pytest.CaptureFixture[str]
) -> None:
    """kube-controller-manager logs its flags in the same way: given, default and derived values."""
    parse("-v", "--renew-deadline=9s", KLEADER_RUN_RETRY_PERIOD="3s")
    found = flags(capfd.readouterr().err)
    assert found.keys() == {next(name for name in param.opts if name.startswith("--"))[2:] for param in OPTIONS}
    expected = {"lock": "lease", "name": "t", "lease-duration": "15s", "renew-deadline": "9s", "retry-period": "3s"}
    expected |= {"loss-grace": "3s", "clock-skew": "1.5s", "request-timeout": "4.5s", "wait": "", "no-wait": "false"}
    assert found.items() >= expected.items()
    parse()
    assert not flags(capfd.readouterr().err)


@pytest.mark.parametrize(
    ("server", "shown"),
    [
        ("https://me:secret@host:6443", "https://host:6443"),
        ("me:secret@host:6443", "https://host:6443"),
        ("https://me:a/secret@host:6443", "host:6443"),
    ],
)
def test_no_credential_is_logged_with_the_options(
    parse: Parse, capfd: pytest.CaptureFixture[str], server: str, shown: str
) -> None:
    """Neither a password in an URL nor an argument of a hook is logged."""
    parse("-v", f"--server={server}", "--on-new-leader=curl -H secret")
    err = capfd.readouterr().err
    assert "secret" not in err
    assert flags(err).items() >= {"server": shown, "on-new-leader": "curl ..."}.items()


# --- what is derived


@pytest.mark.parametrize(
    "command",
    [
        "python",
        "python3",
        "python3.11",
        "pythonw",
        "pypy3",
        "node",
        "node18",
        "nodejs",
        "java",
        "sh",
        "bash",
        "dash",
        "zsh",
        "fish",
        "bash5.2",
        "env",
        "sudo",
        "nice",
        "ionice",
        "nohup",
        "setsid",
        "timeout",
        "xargs",
        "perl5.36",
        "ruby3.1",
        "php8.2",
        "busybox",
        "docker",
        "npx",
        "uv",
        "make",
        "go",
        "tini",
        "kleader",
        "gosu",
    ],
)
def test_an_interpreter_shell_or_wrapper_does_not_name_a_lock(refuse: Refuse, command: str) -> None:
    assert refuse("--", f"/usr/bin/{command}", "x.py") == (
        f"give --name: unrelated jobs would share a lock named {command}, or an upgrade would change that name"
    )


@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("worker", "worker"),
        ("/opt/x/nightly-report.sh", "nightly-report.sh"),
        ("./My_Job", "my-job"),
        ("node_exporter", "node-exporter"),
        ("a..b", "a.b"),
        ("a-.-b", "a.b"),
        ("-x-", "x"),
        ("x" * 260, "x" * 253),
        ("käse", "k-se"),
    ],
)
def test_the_lock_is_named_after_the_command_and_a_changed_name_gives_a_warning(
    invoke: Invocation, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], command: str, name: str
) -> None:
    monkeypatch.setattr("kleader.cli.run._check_command", lambda _name: None)
    result = invoke("--", command)
    assert result.exit_code == 0, result.output
    assert invoke.plans[0].name == name
    base = os.path.basename(command)  # noqa: PTH119 - a path would lose what this keeps
    said = f"the lock is named {name}, after the command {base}: give --name to choose another"
    assert (said in capfd.readouterr().err) == (base != name)


def test_a_command_without_a_usable_name_is_refused(refuse: Refuse) -> None:
    assert refuse("--", "..") == "give --name: '..' cannot be turned into the name of a lock"


def test_a_lock_file_with_a_path_needs_no_name(parse: Parse, tmp_path: Path) -> None:
    plan = parse("--lock", f"file:{tmp_path}/jobs.lock", "--", "env")
    assert (plan.file, plan.name) == (f"{tmp_path}/jobs.lock", "jobs")


def test_two_candidates_never_have_the_same_default_identity(parse: Parse) -> None:
    assert parse().identity != parse().identity


@pytest.mark.parametrize(
    ("args", "remark"),
    [
        (
            ["--wait", "15s"],
            "--wait 15s is not longer than the lease duration 15s: the lock of a leader that crashed cannot be",
        ),
        (["--lease-duration", "12s"], "the grace on loss is shortened to 300ms: no more fits into the lease duration"),
        (["--wait", "16s"], ""),
        (["--no-wait"], ""),
        (["--lock", "file", "--wait", "1s"], ""),
        (["--lease-duration", "12s", "--loss-grace", "200ms"], ""),
        (["--lease-duration", "12s", "--lock", "file"], ""),
        (["--lease-duration", "12s", "-q"], ""),
        (
            ["--lock=file", "--kubeconfig=/k", "-s", "x", "--as=a", "--request-timeout=1s", "--lock-label=a=b"],
            "--lock file uses no cluster: leave out --lock-label, --kubeconfig, --server, --as, --request-timeout, or",
        ),
        (["--leader-elect=false", "--context=x"], ""),
        (["--force"], "--force does nothing with --lock lease: it is for endpoints and endpointsleases"),
        (["--lock", "endpointsleases", "--force"], ""),
        (["--leader-elect=false", "--force"], ""),
        (["--binary-version=1.2.3"], "--binary-version does nothing without --coordinated"),
        (["--emulation-version=1.2.3"], "--emulation-version does nothing without --coordinated"),
        (["--coordinated-strategy=a.b/c"], "--coordinated-strategy does nothing without --coordinated"),
        (["--leader-elect=false", "--emulation-version=1.2.3", "--coordinated"], ""),
    ],
)
def test_a_surprising_combination_of_options_gives_a_warning(
    parse: Parse, capfd: pytest.CaptureFixture[str], args: list[str], remark: str
) -> None:
    parse(*args)
    said = capfd.readouterr().err
    assert (remark in said) if remark else not said


# --- help


def test_help_fits_eighty_columns_and_shows_every_option() -> None:
    text = CliRunner().invoke(cli, ["run", "--help"], prog_name="kleader", terminal_width=80).output
    assert max(map(len, text.splitlines())) <= 80
    words = set(text.replace(",", " ").replace(";", " ").replace("]", " ").split())
    for param in OPTIONS:
        assert words.issuperset(param.opts)
    assert text.startswith("Usage: kleader run [OPTIONS] -- COMMAND [ARG]...\n")


def test_brief_help_of_run_is_a_screen_with_ten_options() -> None:
    text = CliRunner().invoke(cli, ["run", "-h"], prog_name="kleader", terminal_width=80).output
    assert len(text.splitlines()) <= 26
    options = [line for line in text.splitlines() if line.startswith("  -")]
    assert len(options) == 10
    assert "kleader run --help" in text


def test_help_names_every_lock_type() -> None:
    text = CliRunner().invoke(cli, ["run", "--help"], prog_name="kleader").output
    said = text.partition("--lock TYPE")[2].partition("--name")[0]
    assert set(LOCKS.split(", ")) <= set(re.findall(r"[\w-]+", said))


def test_help_lists_every_exit_status() -> None:
    text = CliRunner().invoke(cli, ["run", "--help"], prog_name="kleader").output
    told = [line.split()[0] for line in text.partition("Exit status:")[2].splitlines() if line.strip()]
    assert told[1:7] == ["2", "124", "125", "126", "127", "255"]


# --- the lock of a Pod


def test_leader_for_life_needs_the_name_of_the_pod(refuse: Refuse) -> None:
    """The name of the host need not be the Pod's."""
    said = refuse("--lock", "leader-for-life")
    assert said.startswith("--lock leader-for-life needs the variable POD_NAME, the name of the Pod")
    said = refuse("--lock", "leader-for-life", POD_NAME="P")
    assert said.startswith("POD_NAME 'P' is not an object name")


def test_leader_for_life_is_in_the_namespace_of_its_pod(parse: Parse) -> None:
    plan = parse(**FOR_LIFE, POD_NAMESPACE="here", POD_UID="u")
    assert (plan.lock, plan.namespace, plan.pod) == ("leader-for-life", "here", Pod("here", "p", "u"))
    assert parse("-n", "here", **FOR_LIFE, POD_NAMESPACE="here").namespace == "here"


def test_leader_for_life_in_another_namespace_than_its_pods_is_refused(refuse: Refuse) -> None:
    """The garbage collector would delete a lock with an owner in another namespace at once."""
    assert "--lock leader-for-life does not take -n there" in refuse("-n", "there", **FOR_LIFE, POD_NAMESPACE="here")


def test_only_leader_for_life_requires_a_pod(parse: Parse) -> None:
    plan = parse()
    assert (plan.pod, plan.release) == (Pod("", "", ""), True)
    assert parse(POD_NAME="p", POD_UID="u").pod == Pod("", "p", "u")


def test_leader_for_life_is_explained_at_the_start(parse: Parse, capfd: pytest.CaptureFixture[str]) -> None:
    assert parse("--wait", "5s", **FOR_LIFE).release is False
    (said,) = capfd.readouterr().err.splitlines()
    assert said.endswith("the lock does not expire: its holder keeps it until the holder's Pod is deleted")


def test_a_short_option_takes_its_value_after_an_equals_sign_as_in_kubectl(parse: Parse) -> None:
    plan = parse("-n=jobs", "-s=https://x?a=b", "-v=2", "--name=t", "--identity==x", "--", "true", "-n=y")
    assert (plan.namespace, plan.api["server"], plan.verbosity) == ("jobs", "https://x?a=b", 3)
    assert (plan.identity, plan.command) == ("=x", ["true", "-n=y"])
    given = status.make_context("status", ["-o=json", "-n=jobs", "-n", "=other", "x"]).params
    assert (given["output"], given["namespace"], given["name"]) == ("json", "other", None)
