"""What the command line makes of options and their environment: a plan, or a refusal that says what would do."""

from __future__ import annotations

import os
import re
import signal
import tempfile
from typing import TYPE_CHECKING, Any

import click
import pytest
from click.testing import CliRunner, Result

from kleader import boot
from kleader.cli.main import cli
from kleader.cli.option import ALIASES
from kleader.cli.run import run

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from kleader.link.plan import Plan

    Parse = Callable[..., Plan]
    Refuse = Callable[..., str]

USAGE = 2
LOCKS = "lease, configmap, endpoints, configmapsleases, endpointsleases, leader-for-life, file"
LONG = "9" * 5000  # more digits than int() takes
SPELLINGS = {
    "--leader-elect-resource-lock": "--lock",
    "--leader-elect-resource-name": "--name",
    "--leader-elect-resource-namespace": "--namespace",
    "--leader-elect-lease-duration": "--lease-duration",
    "--leader-elect-renew-deadline": "--renew-deadline",
    "--leader-elect-retry-period": "--retry-period",
}


class Invocation:
    """The command line, up to where it would become the supervisor."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.plans: list[Plan] = []
        monkeypatch.setattr(boot, "become_supervisor", self.plans.append)
        for name in [name for name in os.environ if name.startswith(("KLEADER_", "POD_"))]:
            monkeypatch.delenv(name)

    def __call__(self, *args: str, **environ: str) -> Result:
        return CliRunner().invoke(cli, ["run", *args], env=environ, prog_name="kleader")


@pytest.fixture
def invoke(monkeypatch: pytest.MonkeyPatch) -> Invocation:
    return Invocation(monkeypatch)


@pytest.fixture
def parse(invoke: Invocation) -> Parse:
    """The plan of ``run OPTIONS --name t -- true``, or of the arguments as they are where they have a ``--``."""

    def plan(*args: str, **environ: str) -> Plan:
        whole = args if "--" in args else (*args, "--name", "t", "--", "true")
        result = invoke(*whole, **environ)
        assert result.exit_code == 0, result.output
        return invoke.plans[-1]

    return plan


@pytest.fixture
def refuse(invoke: Invocation) -> Refuse:
    """What ``run`` says where it exits with 2; it says it below the usage, in a line."""

    def sentence(*args: str, **environ: str) -> str:
        whole = args if "--" in args else (*args, "--name", "t", "--", "true")
        result = invoke(*whole, **environ)
        assert (result.exit_code, invoke.plans) == (USAGE, []), result.output
        last = result.output.splitlines()[-1]
        assert last.startswith("Error: ")
        return last.removeprefix("Error: ")

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
def test_what_follows_the_first_separator_is_the_command_to_the_letter(parse: Parse, command: list[str]) -> None:
    assert parse("--name", "t", "--", *command).command == command


@pytest.mark.parametrize(
    ("args", "sentence"),
    [
        (["--"], "no command given: kleader run [OPTIONS] -- COMMAND [ARG]..."),
        (["--", ""], "the command after -- is empty"),
        (["worker", "--", "true"], "'worker' stands before -- and belongs to no option"),
        (["worker", "--lock", "file", "--", "true"], "'worker' stands before -- and belongs to no option"),
        (["--name", "--", "true"], "Option '--name' requires an argument."),
        (["--xyzzy", "--", "true"], "No such option '--xyzzy'."),
        (["--name", "t", "-x", "--", "true"], "No such option '-x'."),
    ],
)
def test_before_the_separator_stand_options_alone(refuse: Refuse, args: list[str], sentence: str) -> None:
    assert refuse(*args) == sentence


@pytest.mark.parametrize(
    ("args", "sentence"),
    [
        ([], "no command given: kleader run [OPTIONS] -- COMMAND [ARG]..."),
        (["true"], "write -- before the command: kleader run [OPTIONS] -- true"),
        (["-n", "jobs", "ls", "-l", "a b"], "write -- before the command: kleader run [OPTIONS] -- ls -l 'a b'"),
    ],
)
def test_a_command_without_the_separator_is_not_guessed_at(invoke: Invocation, args: list[str], sentence: str) -> None:
    result = invoke(*args)
    assert result.exit_code == USAGE
    assert result.output.splitlines()[-1] == f"Error: {sentence}"


@pytest.mark.parametrize(
    ("typed", "meant"),
    [("--leas-duration", "--lease-duration"), ("--no-wiat", "--no-wait"), ("--stop-timout", "--stop-timeout")],
)
def test_a_mistyped_option_is_answered_with_the_one_that_was_meant(refuse: Refuse, typed: str, meant: str) -> None:
    sentence = refuse(typed)
    assert sentence.startswith(f"No such option '{typed}'. ")
    assert f"'{meant}'" in sentence


def test_a_mistyped_subcommand_is_answered_with_the_one_that_was_meant() -> None:
    result = CliRunner().invoke(cli, ["rum"], prog_name="kleader")
    assert result.exit_code == USAGE
    assert result.output.endswith("Error: No such command 'rum'. Did you mean 'run'?\n")


# --- values

NAMED = ["--coordinated", "--binary-version=1.36.0"]
REFUSED: list[tuple[list[str], str]] = [
    (
        ["--lock", "bogus"],
        f"'bogus' is not a lock: choose {LOCKS} or file:PATH",
    ),
    (
        ["--lock", "file:"],
        f"'file:' is not a lock: choose {LOCKS} or file:PATH",
    ),
    (
        ["--lock", "lease:x"],
        f"'lease:x' is not a lock: choose {LOCKS} or file:PATH",
    ),
    (
        ["--lock", "endpoints:x"],
        f"'endpoints:x' is not a lock: choose {LOCKS} or file:PATH",
    ),
    (["-n", "A"], "--namespace 'A' is not a namespace: lower case letters, digits and - only, 63 at most"),
    (["-n", "a.b"], "--namespace 'a.b' is not a namespace"),
    (["-n", "-a"], "--namespace '-a' is not a namespace"),
    (["-n", "a" * 64], "is not a namespace"),
    (["--identity", ""], "--identity must be 1 to 1024 printable characters, and unlike every other candidate's"),
    (["--identity", " "], "--identity must be 1 to 1024 printable characters"),
    (["--identity", "a\nb"], "--identity must be 1 to 1024 printable characters"),
    (["--identity", "\udcff"], "--identity must be 1 to 1024 printable characters"),
    (["--identity", "a" * 1025], "--identity must be 1 to 1024 printable characters"),
    (["--lock-label", "x"], "'x' is not a label: write KEY=VALUE, such as app.kubernetes.io/name=worker"),
    (["--lock-label", "=x"], "'=x' is not a label"),
    (["--lock-label", "a b=x"], "'a b=x' is not a label"),
    (["--lock-label", "/a=x"], "'/a=x' is not a label"),
    (["--lock-label", "A_/a=x"], "'A_/a=x' is not a label"),
    (["--lock-label", "a=-"], "'a=-' is not a label"),
    (["--lock-label", f"a={'x' * 64}"], "is not a label"),
    (["--as", "a\nb"], "--as must be at most 1024 printable ASCII characters"),
    (["--as", "é"], "--as must be at most 1024 printable ASCII characters"),
    (["--request-timeout", "0"], "--request-timeout 0s must be more than 0s, and at most half the renew deadline, 5s"),
    (["--request-timeout", "6s"], "--request-timeout 6s must be more than 0s, and at most half the renew deadline, 5s"),
    (["--request-timeout", "-1s"], "'-1s' is negative"),
    (["--wait", "soon"], "'soon' is not a duration: write it as 15s, 500ms or 1m30s, or live"),
    (["--wait", "5"], "'5' is not a duration: write it as 15s, 500ms or 1m30s, or live"),
    (["--wait", "-5s"], "'-5s' is negative"),
    (["--wait", "5s", "--no-wait"], "--wait and --no-wait exclude each other: leave one out"),
    (["-v", "-q"], "-v and -q exclude each other: leave one out"),
    (["-v=high"], "'high' is not a level: write -v, -vv or -v=4"),
    (["-v="], "'' is not a level"),
    (["--leader-elect="], "'' is neither true nor false"),
    (["--leader-elect=maybe"], "'maybe' is neither true nor false"),
    (["--on-loss", "die"], "'die' is not one of 'exit', 'wait'"),
    (["--loss-exit-code", "256"], "256 is not in the range 0<=x<=255"),
    (["--loss-exit-code", "x"], "'x' is not a valid integer"),
    (["--restart", "yes"], "'yes' is not one of 'no', 'on-failure', 'always'"),
    (["--stop-signal", "FOO"], "'FOO' is not a signal: write it as TERM, SIGTERM or 15"),
    (["--stop-signal", "0"], "'0' is not a signal"),
    (["--stop-signal", "999"], "'999' is not a signal"),
    (["--stop-signal", "KILL"], "--stop-signal: KILL and STOP are no way to ask; leave the option out"),
    (["--stop-signal", "19"], "--stop-signal: KILL and STOP are no way to ask"),
    (["--stop-signal-to", "all"], "'all' is not one of 'main', 'group'"),
    (["--stop-timeout", "x"], "'x' is not a duration: write it as 15s, 500ms or 1m30s"),
    (["--log-format", "xml"], "'xml' is not one of 'text', 'json'"),
    (["--lock", "file", "--no-release"], "--no-release: a file lock lasts no longer than its processes; leave"),
    (["--kubeconfig"], "Option '--kubeconfig' requires an argument."),
    (["--coordinated"], "--coordinated needs --binary-version: the control plane chooses by versions"),
    (["--coordinated", "--emulation-version=1.2.3"], "--coordinated needs --binary-version"),
    *(
        ([f"--lock={lock}", *NAMED], f"names the leaders of Leases alone, not with --lock {lock}")
        for lock in ("configmap", "endpoints", "configmapsleases", "endpointsleases")
    ),
    (["--lock=file:/x", *NAMED], "--coordinated: the control plane names the leaders of Leases alone, not with --lock"),
    *(
        (["--coordinated", f"--binary-version={version}"], "is not a whole semantic version: write it as 1.36.0")
        for version in ("1.2", "v1.2.3", "1.2.3.4", "01.2.3", "1.2.3-", "1.2.3-01", "1.2.3+", "0.0.0", "é", "9" * 99)
    ),
    (["--emulation-version=1.2", *NAMED], "'1.2' is not a whole semantic version: write it as 1.36.0"),
    (["--emulation-version=1.36.1", *NAMED], "--emulation-version 1.36.1 is newer than --binary-version 1.36.0"),
    (["--emulation-version=1.2.3", "--binary-version=1.2.3-rc.1", "--coordinated"], "is newer than --binary-version"),
    (["--emulation-version=1.2.3-10", "--binary-version=1.2.3-9", "--coordinated"], "is newer than --binary-version"),
    (["--emulation-version=1.2.3-a", "--binary-version=1.2.3-9", "--coordinated"], "is newer than --binary-version"),
    *(
        ([f"--identity={identity}", *NAMED], "cannot be the name of a LeaseCandidate, as --coordinated needs it")
        for identity in ("a b", "a/b", "é", ".", "..", "..a", "a" * 254)
    ),
]


@pytest.mark.parametrize(("args", "sentence"), REFUSED, ids=[" ".join(args)[:40] for args, _ in REFUSED])
def test_a_value_that_cannot_be_meant_is_refused_with_what_would_do(
    refuse: Refuse, args: list[str], sentence: str
) -> None:
    assert sentence in refuse("--name", "t", *args, "--", "true")


@pytest.mark.parametrize("emulation", ["1.35.9", "1.36.0", "1.36.0-rc.1", "1.36.0+build.7", "1.4.0"])
@pytest.mark.parametrize("identity", ["a", "A-z_0.9", ".a", "a" * 253])
def test_versions_and_identities_that_the_api_server_takes_are_taken(
    parse: Parse, emulation: str, identity: str
) -> None:
    plan = parse(*NAMED, f"--identity={identity}", f"--emulation-version={emulation}", "--name=t", "--", "true")
    assert (plan.coordinated, plan.binary_version, plan.emulation_version) == (True, "1.36.0", emulation)
    assert parse(*NAMED, "--name=t", "--", "true").emulation_version == "1.36.0"


def test_a_namespace_is_checked_wherever_it_comes_from(refuse: Refuse, parse: Parse) -> None:
    assert refuse(POD_NAMESPACE="../x").startswith("POD_NAMESPACE '../x' is not a namespace: ")
    assert parse(POD_NAMESPACE="jobs").namespace == "jobs"
    assert parse("-n", "mine", POD_NAMESPACE="jobs").namespace == "mine"
    assert parse("--lock", "file").namespace == "default"


def test_without_a_place_for_the_lock_file_a_path_is_asked_for(
    invoke: Invocation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    result = invoke("--lock", "file", "--name", "t", "--", "true")
    assert (result.exit_code, invoke.plans) == (125, [])
    assert result.output == (
        "kleader: error: XDG_RUNTIME_DIR is not set, so there is no place of yours for the lock file:"
        " give --lock file:PATH\n"
    )


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
        ("-k 0", "kill budget 0s: SIGKILL needs some time to end a process; 500ms is the default"),
        ("-s 5s", "renew deadline 10s + loss grace 0s + kill budget 500ms + skew 5s = 15.5s exceeds the lease"),
        ("-d 9000h", "lease duration 9000h0m0s is longer than a year: 8784h0m0s at most"),
        ("-d 300y", "'300y' is not a duration: write it as 15s, 500ms or 1m30s"),
    ],
)
def test_timings_that_break_the_rule_are_refused_with_the_sum(refuse: Refuse, timings: str, sentence: str) -> None:
    options = {"-d": "--lease-duration", "-r": "--renew-deadline", "-p": "--retry-period"}
    options |= {"-g": "--loss-grace", "-k": "--kill-budget", "-s": "--clock-skew"}
    assert sentence in refuse(*(options.get(word, word) for word in timings.split()))


@pytest.mark.parametrize("param", [param for param in run.params if param.name != "help"], ids=lambda p: p.name)
def test_no_value_provokes_more_than_a_line(invoke: Invocation, param: click.Option) -> None:
    """Long, empty, binary: every option takes it or refuses it in a line of bounded length."""
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
    "lock_label": ("a=b", "labels", {"a": "b"}),
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
    found = getattr(plan, field)
    return bool(found.items() >= value.items()) if isinstance(value, dict) else bool(found == value)


def variable(param: click.Parameter) -> str:
    """KLEADER_RUN_ and the option's own, longest name."""
    own = [name for name in param.opts if not name.startswith((ALIASES, "--master"))]
    return "KLEADER_RUN_" + max(own, key=len).lstrip("-").replace("-", "_").upper()


def test_every_option_is_tried() -> None:
    assert set(VALUES) == {param.name for param in run.params}


@pytest.mark.parametrize("param", run.params, ids=lambda param: param.name)
def test_every_option_and_its_variable_reach_the_plan(parse: Parse, param: click.Option) -> None:
    """Each spelling on the command line, and KLEADER_RUN_OPTION, do the same; help names the variable."""
    assert param.name
    value, field, expected = VALUES[param.name]
    beside = BESIDE.get(param.name, {})
    command = (*NEEDS.get(param.name, ()), *([] if param.name == "name" else ["--name", "t"]), "--", "true")
    assert not shown(parse("--name", "t", "--", "true", **beside), field, expected)
    for spelling in param.opts:
        given = [spelling] if param.is_flag else [spelling, value]
        assert shown(parse(*given, *command, **beside), field, expected), spelling
    assert shown(parse(*command, **{variable(param): value}, **beside), field, expected)
    context = click.Context(run, info_name="run", auto_envvar_prefix="KLEADER_RUN", help_option_names=["-h", "--help"])
    _, text = param.get_help_record(context) or ("", "")
    assert f"[env var: {variable(param)}" in text


@pytest.mark.parametrize("param", run.params, ids=lambda param: param.name)
def test_an_empty_variable_is_none(parse: Parse, param: click.Option) -> None:
    assert param.name
    _, field, expected = VALUES[param.name]
    command = ("--", "true") if param.name == "name" else ("--name", "t", "--", "true")
    assert not shown(parse(*command, **{variable(param): ""}, **BESIDE.get(param.name, {})), field, expected)


def test_a_bad_variable_is_a_usage_error_that_names_it(refuse: Refuse) -> None:
    sentence = refuse(KLEADER_RUN_LEASE_DURATION="long")
    assert "'--lease-duration'" in sentence
    assert "'long' is not a duration" in sentence


def test_the_command_line_wins_over_the_environment(parse: Parse) -> None:
    assert parse("--retry-period", "3s", KLEADER_RUN_RETRY_PERIOD="4s").retry_period == 3
    assert parse("--wait", "20s", KLEADER_RUN_NO_WAIT="1").wait == 20
    assert parse("--no-wait", KLEADER_RUN_WAIT="20s").wait == 0
    assert parse("-q", KLEADER_RUN_V="4").verbosity == 0
    assert parse("-v", KLEADER_RUN_QUIET="1").verbosity == 2


def test_several_labels_fit_into_one_variable(parse: Parse) -> None:
    assert parse(KLEADER_RUN_LOCK_LABEL="a=b c.d/e=").labels == {"a": "b", "c.d/e": ""}
    assert parse("--lock-label", "a=b", "--lock-label", "c.d/e=").labels == {"a": "b", "c.d/e": ""}


@pytest.mark.parametrize("name", ["KLEADER_VERSION", "KLEADER_HELP", "KLEADER_RUN_HELP", "KLEADER_RUN_COMMAND"])
def test_variables_that_images_and_services_set_are_not_taken_for_options(parse: Parse, name: str) -> None:
    assert parse(**{name: "0.1.0"}).command == ["true"]


# --- kube-controller-manager's spellings, and klog's


def test_every_spelling_of_kube_controller_manager_is_an_option() -> None:
    found = {name: param.opts for param in run.params for name in param.opts if name.startswith(ALIASES)}
    assert found.keys() == SPELLINGS.keys()
    assert all(SPELLINGS[name] in names for name, names in found.items())


@pytest.mark.parametrize("value", ["false", "False", "FALSE", "f", "F", "0"])
def test_leader_elect_false_runs_without_an_election(parse: Parse, value: str) -> None:
    plan = parse(f"--leader-elect={value}", "--", "python3")
    assert (plan.lock, plan.name) == ("", "")


@pytest.mark.parametrize("given", [["--leader-elect"], ["--leader-elect=true"], ["--leader-elect=1"], []])
def test_leader_elect_alone_means_true(parse: Parse, given: list[str]) -> None:
    assert parse(*given).lock == "lease"


def test_resource_lock_leases_is_the_lease(parse: Parse) -> None:
    assert parse("--leader-elect-resource-lock=leases").lock == "lease"


@pytest.mark.parametrize(
    ("given", "level"),
    [([], 1), (["-v"], 2), (["-vv"], 3), (["-v=4"], 5), (["-v4"], 5), (["--v=4"], 5), (["-v=0"], 1), (["-q"], 0)],
)
def test_verbosity_is_written_as_here_or_as_klog_has_it(parse: Parse, given: list[str], level: int) -> None:
    assert parse(*given).verbosity == level


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
def test_an_interpreter_shell_or_wrapper_gives_no_name(refuse: Refuse, command: str) -> None:
    assert refuse("--", f"/usr/bin/{command}", "x.py") == (
        f"give --name: a lock named after {command} would be shared by unrelated jobs, or change with an upgrade"
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
def test_the_name_is_the_commands_made_valid_and_a_change_is_said(
    invoke: Invocation, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], command: str, name: str
) -> None:
    monkeypatch.setattr("kleader.cli.beside.check_command", lambda _name: None)
    result = invoke("--", command)
    assert result.exit_code == 0, result.output
    assert invoke.plans[0].name == name
    base = os.path.basename(command)  # noqa: PTH119 - a path would lose what this keeps
    said = f"the lock's name is {name}, made from the command {base}: give --name to choose another"
    assert (said in capfd.readouterr().err) == (base != name)


def test_a_command_without_a_usable_name_is_refused(refuse: Refuse) -> None:
    assert refuse("--", "..") == "give --name: '..' cannot be made a lock's name"


def test_a_lock_file_of_ones_own_needs_no_name(parse: Parse, tmp_path: Path) -> None:
    plan = parse("--lock", f"file:{tmp_path}/jobs.lock", "--", "env")
    assert (plan.file, plan.name) == (f"{tmp_path}/jobs.lock", "jobs")


def test_two_candidates_are_never_called_the_same(parse: Parse) -> None:
    assert parse().identity != parse().identity


@pytest.mark.parametrize(
    ("args", "remark"),
    [
        (
            ["--wait", "15s"],
            "--wait 15s is not longer than the lease duration 15s: the lock of a leader that crashed can never be",
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
            "--lock file asks no cluster: leave out --lock-label, --kubeconfig, --server, --as, --request-timeout, or",
        ),
        (["--leader-elect=false", "--context=x"], ""),
        (["--force"], "--force does nothing with --lock lease: only endpoints and endpointsleases refuse a lock"),
        (["--lock", "endpointsleases", "--force"], ""),
        (["--leader-elect=false", "--force"], ""),
        (["--binary-version=1.2.3"], "--binary-version does nothing without --coordinated"),
        (["--emulation-version=1.2.3"], "--emulation-version does nothing without --coordinated"),
        (["--leader-elect=false", "--emulation-version=1.2.3", "--coordinated"], ""),
    ],
)
def test_what_is_allowed_but_surprises_is_said(
    parse: Parse, capfd: pytest.CaptureFixture[str], args: list[str], remark: str
) -> None:
    parse(*args)
    said = capfd.readouterr().err
    assert (remark in said) if remark else not said


# --- help


def test_help_fits_eighty_columns_and_shows_every_option_and_variable() -> None:
    text = CliRunner().invoke(cli, ["run", "--help"], prog_name="kleader", terminal_width=80).output
    assert max(map(len, text.splitlines())) <= 80
    words = set(text.replace(",", " ").replace(";", " ").replace("]", " ").split())
    for param in run.params:
        assert words.issuperset(param.opts)
        assert variable(param) in words
    assert text.startswith("Usage: kleader run [OPTIONS] -- COMMAND [ARG]...\n")


def test_help_names_every_kind_of_lock() -> None:
    text = CliRunner().invoke(cli, ["run", "-h"], prog_name="kleader").output
    said = text.partition("--lock TYPE")[2].partition("--name")[0]
    assert set(LOCKS.split(", ")) <= set(re.findall(r"[\w-]+", said))


def test_help_tells_every_exit_status() -> None:
    text = CliRunner().invoke(cli, ["run", "-h"], prog_name="kleader").output
    told = [line.split()[0] for line in text.partition("Exit status:")[2].splitlines() if line.strip()]
    assert told[1:7] == ["2", "124", "125", "126", "127", "255"]


# --- the lock of a Pod


def test_a_lock_for_life_needs_the_name_of_the_pod(refuse: Refuse) -> None:
    """A host's name is only often the Pod's."""
    said = refuse("--lock", "leader-for-life")
    assert said.startswith("--lock leader-for-life needs the name of the Pod in POD_NAME")
    said = refuse("--lock", "leader-for-life", POD_NAME="P")
    assert said.startswith("POD_NAME 'P' is not an object name")


def test_a_lock_for_life_is_in_the_pods_namespace(parse: Parse) -> None:
    plan = parse(**FOR_LIFE, POD_NAMESPACE="here", POD_UID="u")
    assert (plan.lock, plan.namespace, plan.pod, plan.pod_uid) == ("leader-for-life", "here", "p", "u")
    assert parse("-n", "here", **FOR_LIFE, POD_NAMESPACE="here").namespace == "here"


def test_a_lock_for_life_in_another_namespace_than_the_pods_is_refused(refuse: Refuse) -> None:
    """An owner in another namespace is none: the garbage collector would delete the lock at once."""
    assert "leave -n there out" in refuse("-n", "there", **FOR_LIFE, POD_NAMESPACE="here")


def test_a_pod_is_asked_for_by_a_lock_for_life_alone(parse: Parse) -> None:
    plan = parse(POD_NAME="p", POD_UID="u")
    assert (plan.pod, plan.pod_uid, plan.release) == ("", "", True)


def test_what_a_lock_for_life_means_is_said_at_the_start_and_nothing_of_leases(
    parse: Parse, capfd: pytest.CaptureFixture[str]
) -> None:
    assert parse("--wait", "5s", **FOR_LIFE).release is False
    (said,) = capfd.readouterr().err.splitlines()
    assert said.endswith("the lock does not expire: whoever gets it keeps it until its Pod is gone")
