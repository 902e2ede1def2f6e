"""What `kleader manifest` prints, as a reader of YAML finds it."""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING, Any

import click
import pytest
import yaml
from click.testing import CliRunner, Result

from kleader.cli.main import cli
from kleader.cli.manifest import NOT_IN_A_POD
from kleader.cli.option import Option
from kleader.cli.output import as_yaml
from kleader.cli.run import make_plan, run
from kleader.locks import permissions

if TYPE_CHECKING:
    from collections.abc import Iterator

Object = dict[str, Any]
API_LOCKS = ["lease", "configmap", "endpoints", "configmapsleases", "endpointsleases", "leader-for-life"]


@pytest.fixture(autouse=True)
def _nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("POD_NAME", "POD_NAMESPACE", "XDG_RUNTIME_DIR"):
        monkeypatch.delenv(name, raising=False)


def invoke(*args: str, **env: str) -> Result:
    return CliRunner().invoke(cli, ["manifest", *args], env=env, prog_name="kleader")


def printed(*args: str, **env: str) -> dict[str, Object]:
    """The objects by kind, of ``manifest ARGS -- ./worker``."""
    result = invoke(*args, *(() if "--" in args else ("--", "./worker")), **env)
    assert result.exit_code == 0, result.output
    return {each["kind"]: each for each in yaml.safe_load_all(result.stdout)}


def container(found: dict[str, Object]) -> Object:
    (only,) = found["Deployment"]["spec"]["template"]["spec"]["containers"]
    assert isinstance(only, dict)
    return only


def keys(value: object) -> Iterator[list[str]]:
    """The keys of each mapping, in the order of the document."""
    if isinstance(value, dict):
        yield list(value)
    for each in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from keys(each)


def test_there_is_what_a_run_needs_and_all_of_it_carries_its_name() -> None:
    found = printed("-n", "jobs")
    assert list(found) == ["ServiceAccount", "Role", "RoleBinding", "Deployment", "PodDisruptionBudget"]
    assert {each["metadata"]["name"] for each in found.values()} == {"worker"}
    assert {each["metadata"]["namespace"] for each in found.values()} == {"jobs"}


def test_the_namespace_is_always_written() -> None:
    assert printed()["RoleBinding"]["subjects"][0]["namespace"] == "default"
    assert printed(POD_NAMESPACE="jobs")["Role"]["metadata"]["namespace"] == "jobs"


@pytest.mark.parametrize("lock", API_LOCKS)
def test_the_role_is_what_the_table_of_permissions_says(lock: str) -> None:
    needed = (*permissions.needed(lock, "worker"), *permissions.events())
    assert printed("--lock", lock)["Role"]["rules"] == permissions.rules(needed)


def test_coordinated_candidates_may_have_any_lease_candidate_of_the_namespace() -> None:
    rules = printed("--coordinated", "--binary-version", "1.36.0")["Role"]["rules"]
    (rule,) = [rule for rule in rules if rule["resources"] == ["leasecandidates"]]
    assert "resourceNames" not in rule


@pytest.mark.parametrize(
    ("name", "called"), [("a.b", "a-b-leader"), ("9", "l-9-leader"), ("x" * 63, f"{'x' * 56}-leader")]
)
def test_a_service_selects_the_pod_with_the_leaders_label(name: str, called: str) -> None:
    """Its name begins with a letter and has 63 characters at most; the Pods may write the label, and know theirs."""
    found = printed("--name", name, "--pod-label", "example.com/role=on,off")
    service = found["Service"]
    assert service["metadata"]["name"] == called
    assert service["spec"] == {
        "clusterIP": "None", "selector": {"app.kubernetes.io/name": name, "example.com/role": "on"},
    }  # fmt: skip
    assert {"apiGroups": [""], "resources": ["pods"], "verbs": ["patch"]} in found["Role"]["rules"]
    assert {each["name"] for each in container(found)["env"]} == {"POD_NAME", "POD_NAMESPACE", "POD_UID"}
    assert "Service" not in printed("--name", name)


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ([], ["--name=worker"]),
        (["--name", "x"], ["--name=x"]),
        (["-n", "jobs"], ["--name=worker"]),
        (["--leader-elect-lease-duration=1m", "-q"], ["--name=worker", "--lease-duration=1m", "--quiet"]),
        (["-v=4"], ["--name=worker", "--v=4"]),
        (["-v"], ["--name=worker", "--v=1"]),
        (
            ["--lock-label=a=b", "--lock-label", "c=", "--no-release"],
            ["--name=worker", "--lock-label=a=b", "--lock-label=c=", "--no-release"],
        ),
    ],
)
def test_the_options_of_run_are_passed_on_as_they_were_given(given: list[str], meant: list[str]) -> None:
    assert container(printed(*given))["command"] == ["kleader", "run", *meant, "--"]


def test_the_kubelet_asks_where_http_is_answered_and_nowhere_else() -> None:
    asked = container(printed("--http=:8080"))
    assert asked["ports"] == [{"containerPort": 8080, "name": "kleader"}]
    assert asked["livenessProbe"]["httpGet"] == {"path": "/healthz", "port": "kleader"}
    assert asked["readinessProbe"]["httpGet"] == {"path": "/readyz", "port": "kleader"}
    assert "--http=:8080" in asked["command"]
    assert not [key for key in container(printed()) if "Probe" in key or key == "ports"]
    assert container(printed("--http=[::]:80"))["ports"] == container(printed("--http=0.0.0.0:80"))["ports"]


@pytest.mark.parametrize("address", ["127.0.0.1:8080", "[::1]:8080", ":0", "10.1.2.3:8080"])
def test_an_address_at_which_no_kubelet_can_ask_is_refused(address: str) -> None:
    result = invoke(f"--http={address}", "--", "./worker")
    assert result.exit_code == 2
    assert "give it as :8080" in result.output


def test_the_variables_of_run_are_written_out() -> None:
    command = container(printed(KLEADER_RUN_RETRY_PERIOD="3s", KLEADER_RUN_UNTIL_EMPTY="1"))["command"]
    assert command == ["kleader", "run", "--name=worker", "--retry-period=3s", "--until-empty", "--"]


def test_every_option_of_run_but_those_that_have_no_place_in_a_pod_is_taken() -> None:
    mine = {param.name for param in cli.commands["manifest"].params if isinstance(param, Option) and param.of_run}
    assert mine | NOT_IN_A_POD.keys() == {param.name for param in run.params}
    assert not mine & NOT_IN_A_POD.keys()


def test_the_pods_run_understands_its_command_line() -> None:
    given = ["--lock=configmapsleases", "--stop-timeout=40s", "--stop-signal=INT", "--restart=always", "-v=2"]
    command = container(printed(*given))["command"]
    context = click.Context(run, info_name="run", help_option_names=["-h", "--help"])
    run.parse_args(context, [*command[2:], "true"])
    with context:
        plan, remarks = make_plan(["true"], dict(context.params))
    assert (plan.lock, plan.name, plan.stop_timeout, plan.verbosity) == ("configmapsleases", "worker", 40, 3)
    assert remarks == []


@pytest.mark.parametrize(
    ("word", "written"), [("$HOME", "$HOME"), ("$(A)", "$$(A)"), ("$$", "$$$"), ("a$$(A)$", "a$$$$(A)$")]
)
def test_what_the_kubelet_would_replace_is_escaped(word: str, written: str) -> None:
    """k8s.io/kubernetes' expansion: `$$` is `$`, `$(NAME)` a variable."""
    assert container(printed("--", "./worker", word))["args"] == ["./worker", written]
    assert re.sub(r"\$\$", "$", written) == word


@pytest.mark.parametrize(
    ("given", "least"),
    [([], 25.5), (["--stop-timeout=2m"], 120.5), (["--stop-timeout=0"], 0.5), (["--kill-budget=1s"], 26)],
)
def test_the_grace_period_outlasts_the_stop_the_kill_and_the_release(given: list[str], least: float) -> None:
    grace = printed(*given)["Deployment"]["spec"]["template"]["spec"]["terminationGracePeriodSeconds"]
    assert least + 5 <= grace < least + 6


def test_a_rollout_never_takes_a_pod_before_the_next_one_is_there() -> None:
    spec = printed("--replicas=1")["Deployment"]["spec"]
    assert spec["replicas"] == 1
    assert spec["strategy"]["rollingUpdate"] == {"maxSurge": 1, "maxUnavailable": 0}
    assert spec["minReadySeconds"] == 5


def test_no_probe_is_invented() -> None:
    assert not [key for key in container(printed()) if key.endswith("Probe")]


def test_the_keys_stand_in_kubectls_order_and_nothing_is_an_alias() -> None:
    text = invoke("--flow-schema", "-n", "jobs", "--", "./worker").stdout
    assert not re.search(r"[&*]id\d", text)
    for document in yaml.safe_load_all(text):
        for each in keys(document):
            assert each == sorted(each)


@pytest.mark.parametrize(
    "text",
    [
        *("", "y", "n", "yes", "no", "on", "null", "~", "1", "-1", "1e3", "0o17", "0x1f", "1_000", ".5", "+.inf"),
        *("2001-01-01", "=", "<<", "a: b", "- a", "#", " a ", "a\nb", "\t", "é", "\x1b", "'", '"', "{}", "@", "`", "%"),
        *("&a", "*a", "!a", "x" * 300, "a b " * 100),
    ],
)
def test_every_text_is_read_back_as_that_text(text: str) -> None:
    assert yaml.safe_load(as_yaml([text, {text: text}])) == [text, {text: text}]


@pytest.mark.parametrize(
    ("args", "sentence"),
    [
        (["--lock=file", "--", "./worker"], "--lock file: its candidates share one machine's file"),
        (["--name", "a" * 64, "--", "./worker"], "63 characters at most"),
        (["--image", " ", "--", "./worker"], "--image ' ' is not the name of an image"),
        (["--", "./worker", "\udcff"], "the command is not text"),
        (["--", "python", "x.py"], "give --name"),
        (["--renew-deadline=20s", "--", "./worker"], "must be greater than renew deadline"),
        (["--identity=me", "--", "./worker"], "No such option '--identity'"),
        (["--replicas=0", "--", "./worker"], "0 is not in the range"),
        ([], "no command given: kleader manifest [OPTIONS] -- COMMAND"),
    ],
)
def test_what_cannot_run_in_a_cluster_is_refused_in_a_sentence(args: list[str], sentence: str) -> None:
    result = invoke(*args)
    assert (result.exit_code, result.stdout) == (2, "")
    assert sentence in result.stderr, shlex.join(args)


def test_a_placeholder_for_the_image_is_said_to_be_one_and_standard_output_stays_yaml() -> None:
    result = invoke("--", "./worker")
    assert result.stderr == "kleader: the image registry.example/worker is a placeholder: give --image\n"
    assert invoke("--image=a/b", "--", "./worker").stderr == ""
