"""The objects that `kleader manifest` prints, parsed."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import pytest
import yaml
from click.testing import CliRunner, Result

from kleader.cli.command_line import Option
from kleader.cli.commands import cli
from kleader.cli.manifest import NOT_IN_A_POD
from kleader.cli.plan_from_params import make_plan
from kleader.cli.run import run
from kleader.cli.yaml_output import as_yaml
from kleader.locks import rbac
from tests.support.documented import command_lines

if TYPE_CHECKING:
    from collections.abc import Iterator

Object = dict[str, Any]
ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text("utf-8")
API_LOCKS = ["lease", "configmap", "endpoints", "configmapsleases", "endpointsleases", "leader-for-life"]


@pytest.fixture(autouse=True)
def _nowhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("POD_NAME", "POD_NAMESPACE", "XDG_RUNTIME_DIR", "KUBECONFIG", "KUBERNETES_SERVICE_HOST"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))


def invoke(*args: str, **env: str) -> Result:
    return CliRunner().invoke(cli, ["manifest", *args], env=env, prog_name="kleader")


def printed(*args: str, **env: str) -> dict[str, Object]:
    """The objects by kind, of ``manifest ARGS -- ./worker``."""
    result = invoke(*args, *(() if "--" in args else ("--", "./worker")), **env)
    assert result.exit_code == 0, result.output
    return {each["kind"]: each for each in yaml.safe_load_all(result.stdout)}


def documented_manifests() -> list[str]:
    """The arguments of each `kleader manifest` with a command in README, pages and help, up to a pipe."""
    return [args for line in command_lines() for args in re.findall(r"kleader manifest ([^|]+ -- [^|]+)", line.text)]


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


def test_the_namespace_is_that_of_the_kubeconfigs_context(tmp_path: Path) -> None:
    """No credential plugin runs for that; an unusable kubeconfig gives a warning."""
    asked, path = tmp_path / "asked", tmp_path / "config"
    plugin = {"apiVersion": "client.authentication.k8s.io/v1", "interactiveMode": "Never", "command": "touch"}
    config = {
        "current-context": "x",
        "contexts": [{"name": "x", "context": {"cluster": "x", "user": "x", "namespace": "jobs"}}],
        "clusters": [{"name": "x", "cluster": {"server": "https://h"}}],
        "users": [{"name": "x", "user": {"exec": {**plugin, "args": [str(asked)]}}}],
    }
    path.write_text(json.dumps(config))
    found = printed(KUBECONFIG=str(path), POD_NAMESPACE="pod")
    assert {each["metadata"]["namespace"] for each in found.values()} == {"jobs"}
    assert not asked.exists()
    assert printed("-n", "given", KUBECONFIG=str(path))["Role"]["metadata"]["namespace"] == "given"
    path.write_text("[")
    result = invoke("--", "./worker", KUBECONFIG=str(path))
    assert result.exit_code == 0
    assert "it is not YAML" in result.stderr
    assert "the namespace is therefore default: give -n to choose" in result.stderr


def test_all_objects_that_a_run_needs_are_printed_with_its_name() -> None:
    found = printed("-n", "jobs")
    assert list(found) == ["ServiceAccount", "Role", "RoleBinding", "Deployment", "PodDisruptionBudget"]
    assert {each["metadata"]["name"] for each in found.values()} == {"worker"}
    assert {each["metadata"]["namespace"] for each in found.values()} == {"jobs"}


def test_the_namespace_is_always_written() -> None:
    assert printed()["RoleBinding"]["subjects"][0]["namespace"] == "default"
    assert printed(POD_NAMESPACE="jobs")["Role"]["metadata"]["namespace"] == "jobs"


@pytest.mark.parametrize("lock", API_LOCKS)
def test_the_role_equals_the_table_of_permissions(lock: str) -> None:
    needed = (*rbac.lock_permissions(lock, "worker"), *rbac.event_permissions())
    assert printed("--lock", lock, "--no-register")["Role"]["rules"] == rbac.role_rules(needed)
    rollout = rbac.rollout_permissions() if lock != "leader-for-life" else ()
    needed = (*needed[:-1], *rbac.registration_permissions("worker"), *rollout, needed[-1])
    assert printed("--lock", lock)["Role"]["rules"] == rbac.role_rules(needed)


def test_coordinated_candidates_may_have_any_lease_candidate_of_the_namespace() -> None:
    rules = printed("--coordinated", "--binary-version", "1.36.0")["Role"]["rules"]
    (rule,) = [rule for rule in rules if rule["resources"] == ["leasecandidates"]]
    assert "resourceNames" not in rule


@pytest.mark.parametrize(
    ("name", "called"), [("a.b", "a-b-leader"), ("9", "l-9-leader"), ("x" * 63, f"{'x' * 56}-leader")]
)
def test_a_service_selects_the_pod_with_the_leaders_label(name: str, called: str) -> None:
    """The Service's name is a DNS label. The Pods may patch, and know their names."""
    found = printed("--name", name, "--pod-label", "example.com/role=on,off")
    service = found["Service"]
    assert service["metadata"]["name"] == called
    labels = {"app.kubernetes.io/instance": name, "app.kubernetes.io/name": name, "example.com/role": "on"}
    assert service["spec"] == {"clusterIP": "None", "selector": labels}
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


def test_the_probes_are_at_the_address_of_http() -> None:
    asked = container(printed("--http=:8080"))
    assert asked["ports"] == [{"containerPort": 8080, "name": "kleader"}]
    assert asked["livenessProbe"]["httpGet"] == {"path": "/healthz", "port": "kleader"}
    assert asked["readinessProbe"]["httpGet"] == {"path": "/readyz", "port": "kleader"}
    assert "--http=:8080" in asked["command"]
    assert not [key for key in container(printed()) if "Probe" in key or key == "ports"]
    assert container(printed("--http=[::]:80"))["ports"] == container(printed("--http=0.0.0.0:80"))["ports"]


@pytest.mark.parametrize("address", ["127.0.0.1:8080", "[::1]:8080", ":0", "10.1.2.3:8080"])
def test_an_http_address_that_the_kubelet_cannot_reach_is_refused(address: str) -> None:
    result = invoke(f"--http={address}", "--", "./worker")
    assert result.exit_code == 2
    assert "give it as :8080" in result.output


def test_options_from_the_environment_are_written_out() -> None:
    command = container(printed(KLEADER_RUN_RETRY_PERIOD="3s", KLEADER_RUN_UNTIL_EMPTY="1"))["command"]
    assert command == ["kleader", "run", "--name=worker", "--retry-period=3s", "--until-empty", "--"]


def test_every_option_of_run_is_accepted_except_those_of_this_machine() -> None:
    mine = {param.name for param in cli.commands["manifest"].params if isinstance(param, Option) and param.of_run}
    assert mine | NOT_IN_A_POD.keys() == {param.name for param in run.params if isinstance(param, Option)}
    assert not mine & NOT_IN_A_POD.keys()


def test_the_command_line_in_the_pods_is_valid() -> None:
    given = ["--lock=configmapsleases", "--stop-timeout=40s", "--stop-signal=INT", "--restart=always", "-v=2"]
    command = container(printed(*given))["command"]
    context = click.Context(run, info_name="run", parent=click.Context(cli))
    run.parse_args(context, [*command[2:], "true"])
    with context:
        plan, remarks = make_plan(["true"], dict(context.params))
    assert (plan.lock, plan.name, plan.stop_timeout, plan.verbosity) == ("configmapsleases", "worker", 40, 3)
    assert remarks == []


@pytest.mark.parametrize(
    ("word", "written"), [("$HOME", "$HOME"), ("$(A)", "$$(A)"), ("$$", "$$$"), ("a$$(A)$", "a$$$$(A)$")]
)
def test_variables_that_the_kubelet_would_expand_are_escaped(word: str, written: str) -> None:
    """The kubelet expands `$$` to `$`, and `$(NAME)` to a variable."""
    assert container(printed("--", "./worker", word))["args"] == ["./worker", written]
    assert re.sub(r"\$\$", "$", written) == word


@pytest.mark.parametrize(
    ("given", "least"),
    [([], 25.5), (["--stop-timeout=2m"], 120.5), (["--stop-timeout=0"], 0.5), (["--kill-budget=1s"], 26)],
)
def test_the_grace_period_outlasts_the_stop_the_kill_and_the_release(given: list[str], least: float) -> None:
    grace = printed(*given)["Deployment"]["spec"]["template"]["spec"]["terminationGracePeriodSeconds"]
    assert least + 5 <= grace < least + 6


def test_systemd_unit_of_the_readme_waits_as_long_as_the_kubelet_does() -> None:
    (seconds,) = re.findall(r"^TimeoutStopSec=(\d+)$", README, re.MULTILINE)
    assert int(seconds) == printed()["Deployment"]["spec"]["template"]["spec"]["terminationGracePeriodSeconds"]


# --- how the Pods are made


def pod(*args: str, **env: str) -> Object:
    found = printed(*args, **env)["Deployment"]["spec"]["template"]["spec"]
    assert isinstance(found, dict)
    return found


def test_each_celery_beat_of_the_pages_keeps_its_schedule_where_its_pod_can_write() -> None:
    """Celery's beat writes ./celerybeat-schedule unless -s gives another file, and exits if it cannot."""
    lines = [line for line in documented_manifests() if "beat" in line.split()]
    assert lines
    for line in lines:
        (only,) = pod(*shlex.split(line))["containers"]
        written = only["args"][only["args"].index("-s") + 1]
        assert [mount for mount in only["volumeMounts"] if written.startswith(f"{mount['mountPath']}/")]
        assert only["securityContext"]["readOnlyRootFilesystem"]


def test_the_root_file_system_can_be_made_writable() -> None:
    root = container(printed("--writable-root"))["securityContext"]
    assert root["readOnlyRootFilesystem"] is False
    assert root["capabilities"] == {"drop": ["ALL"]}


@pytest.mark.parametrize(
    ("given", "user"),
    [
        ([], {"runAsUser": 65532, "runAsGroup": 65532, "runAsNonRoot": True}),
        (["--run-as-user=1000"], {"runAsUser": 1000, "runAsGroup": 1000, "runAsNonRoot": True}),
        (["--run-as-user=0"], {"runAsUser": 0, "runAsGroup": 0, "runAsNonRoot": False}),
        (["--run-as-user=none"], {}),
    ],
)
def test_the_containers_user_is_a_number_or_the_images_own(given: list[str], user: Object) -> None:
    assert pod(*given)["securityContext"] == {**user, "seccompProfile": {"type": "RuntimeDefault"}}


def test_requests_are_modest_unless_given_so_that_no_pod_is_best_effort() -> None:
    """A quota refuses Pods without requests. There are no limits, at which the kubelet would kill the command."""
    assert container(printed())["resources"] == {"requests": {"cpu": "50m", "memory": "128Mi"}}
    given = container(printed("--cpu=1.5", "--memory=2Gi"))["resources"]
    assert given == {"requests": {"cpu": "1.5", "memory": "2Gi"}}


def test_selectors_have_name_and_instance_and_labels_the_manager_too() -> None:
    """A Deployment's selector is immutable, so it contains no label that may change."""
    found = printed("--name=x", "--pod-label=role=on", "--flow-schema")
    selected = {"app.kubernetes.io/instance": "x", "app.kubernetes.io/name": "x"}
    labels = {**selected, "app.kubernetes.io/managed-by": "kleader"}
    assert all(each["metadata"]["labels"] == labels for each in found.values())
    spec = found["Deployment"]["spec"]
    assert spec["template"]["metadata"]["labels"] == labels
    assert spec["selector"] == found["PodDisruptionBudget"]["spec"]["selector"] == {"matchLabels": selected}
    assert found["Service"]["spec"]["selector"] == {**selected, "role": "on"}


def test_pods_are_spread_over_nodes_and_zones_but_scheduled_anyway() -> None:
    found = pod("--name=x")
    (zones,) = found["topologySpreadConstraints"]
    assert (zones["topologyKey"], zones["whenUnsatisfiable"]) == ("topology.kubernetes.io/zone", "ScheduleAnyway")
    (nodes,) = found["affinity"]["podAntiAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"]
    assert nodes["podAffinityTerm"]["topologyKey"] == "kubernetes.io/hostname"
    assert nodes["podAffinityTerm"]["labelSelector"] == zones["labelSelector"]


def test_a_pod_that_is_not_ready_holds_up_no_drain() -> None:
    assert printed()["PodDisruptionBudget"]["spec"]["unhealthyPodEvictionPolicy"] == "AlwaysAllow"


@pytest.mark.parametrize(("version", "known"), [("1.21", False), ("v1.25.16-eks-1", False), ("1.26", True)])
def test_an_old_cluster_gets_no_field_that_it_refuses(version: str, *, known: bool) -> None:
    spec = printed(f"--kube-version={version}")["PodDisruptionBudget"]["spec"]
    assert ("unhealthyPodEvictionPolicy" in spec) is known


@pytest.mark.parametrize(
    ("given", "why"),
    [
        (["--kube-version=1.28", "--flow-schema"], "--flow-schema needs Kubernetes 1.29"),
        (["--kube-version=1.20"], "a PodDisruptionBudget of policy/v1 needs Kubernetes 1.21"),
        (["--kube-version=new"], "'new' is not a Kubernetes version: write it as 1.25"),
    ],
)
def test_an_object_that_an_old_cluster_refuses_is_not_printed(given: list[str], why: str) -> None:
    refused = invoke(*given, "--", "./worker")
    assert refused.exit_code == 2
    assert why in refused.output
    assert refused.stdout == ""


def test_the_token_is_mounted_into_these_pods_alone_and_no_services_variables_are_set() -> None:
    assert printed()["ServiceAccount"]["automountServiceAccountToken"] is False
    assert pod()["automountServiceAccountToken"] is True
    assert pod()["enableServiceLinks"] is False


def test_tmp_has_a_size_limit() -> None:
    (volume,) = pod()["volumes"]
    assert volume["emptyDir"]["sizeLimit"] == "256Mi"


def test_the_kubelet_gives_a_slow_node_five_seconds_to_answer_a_probe() -> None:
    assert container(printed("--http=:8080"))["livenessProbe"]["timeoutSeconds"] == 5


def test_the_broad_permission_of_pod_label_gives_a_warning() -> None:
    said = invoke("--pod-label=role=on", "--image=i", "--", "./worker")
    assert "the Role may patch every Pod of the namespace" in said.stderr
    assert len(said.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("timings", "seconds"),
    [
        ((), 5),
        (("--lease-duration=6s", "--renew-deadline=3s", "--retry-period=1s"), 5),
        (("--lease-duration=60s", "--renew-deadline=30s"), 15),
    ],
)
def test_a_rollout_takes_no_pod_before_the_next_one_is_in_the_list(timings: tuple[str, ...], seconds: int) -> None:
    """Nor before its first request has failed, which takes up to half the renew deadline."""
    spec = printed("--replicas=1", *timings)["Deployment"]["spec"]
    assert spec["replicas"] == 1
    assert spec["strategy"]["rollingUpdate"] == {"maxSurge": 1, "maxUnavailable": 0}
    assert spec["minReadySeconds"] == seconds


def test_the_page_has_the_kubernetes_version_of_each_recent_object_kind() -> None:
    """All other kinds are older than Leases."""
    section = (
        (ROOT / "man/kleader-locks.7").read_text("utf-8").partition(".Sh KUBERNETES VERSIONS\n")[2].partition(".Sh ")[0]
    )
    told = dict(re.findall(r"^\.It ([0-9.]+) , Cm (\S+)$", section, re.MULTILINE))
    objects = printed("--flow-schema", "--pod-label=role=on").values()
    late = {each["apiVersion"] for each in objects} - {"v1", "apps/v1", "rbac.authorization.k8s.io/v1"}
    assert late | {"coordination.k8s.io/v1"} == set(told.values())
    assert {"1.21", "1.29"} < told.keys()


def test_without_http_there_are_no_probes() -> None:
    assert not [key for key in container(printed()) if key.endswith("Probe")]


def test_yaml_keys_are_in_kubectls_order_without_aliases() -> None:
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
        (["--lock=file", "--", "./worker"], "--lock file does not work between Pods"),
        (["--name", "a" * 64, "--", "./worker"], "63 characters at most"),
        (["--image", " ", "--", "./worker"], "--image ' ' is not the name of an image"),
        (["--", "./worker", "\udcff"], "the command is not UTF-8 text"),
        (["--", "python", "x.py"], "give --name"),
        (["--renew-deadline=20s", "--", "./worker"], "must be greater than renew deadline"),
        (["--identity=me", "--", "./worker"], "no such option"),
        (["--replicas=0", "--", "./worker"], "0 is not in the range"),
        (["--memory=128MB", "--", "./worker"], "'128MB' is not a quantity: write it as 250m, 0.5, 128Mi or 1Gi"),
        (["--cpu=-1", "--", "./worker"], "'-1' is not a quantity"),
        (["--cpu=", "--", "./worker"], "'' is not a quantity"),
        (["--run-as-user=root", "--", "./worker"], "'root' is not a user: give a number such as 1000, or none"),
        (["--run-as-user=2147483648", "--", "./worker"], "is not a user"),
        ([], "no command given: kleader manifest [OPTIONS] -- COMMAND"),
    ],
)
def test_options_that_cannot_work_in_a_cluster_are_refused(args: list[str], sentence: str) -> None:
    result = invoke(*args)
    assert (result.exit_code, result.stdout) == (2, "")
    assert sentence in result.stderr, shlex.join(args)


def test_a_placeholder_image_gives_a_warning_and_standard_output_stays_yaml() -> None:
    result = invoke("--", "./worker")
    assert result.stderr == "kleader: the image registry.example/worker is a placeholder: give --image\n"
    assert invoke("--image=a/b", "--", "./worker").stderr == ""


def test_inject_puts_kleader_beside_an_image_that_has_none() -> None:
    """The init container copies what the container starts, and both are as confined as a Pod without it."""
    pod = printed("--inject=example/kleader:1")["Deployment"]["spec"]["template"]["spec"]
    (copier,) = pod["initContainers"]
    (main,) = pod["containers"]
    assert (copier["image"], copier["command"]) == ("example/kleader:1", ["/kleader/bin/kleader", "copy-to", "/copy"])
    assert main["command"][:2] == ["/kleader/bin/kleader", "run"]
    assert {"mountPath": "/copy", "name": "kleader"} in copier["volumeMounts"]
    assert {"mountPath": "/kleader", "name": "kleader", "readOnly": True} in main["volumeMounts"]
    assert copier["securityContext"] == main["securityContext"]
    assert {"emptyDir": {"sizeLimit": "256Mi"}, "name": "kleader"} in pod["volumes"]


def test_inject_by_an_image_volume_copies_nothing() -> None:
    pod = printed("--inject=example/kleader:1", "--image-volume")["Deployment"]["spec"]["template"]["spec"]
    assert "initContainers" not in pod
    assert {"image": {"reference": "example/kleader:1"}, "name": "kleader"} in pod["volumes"]
    mount = {"mountPath": "/kleader", "name": "kleader", "readOnly": True, "subPath": "kleader"}
    assert mount in pod["containers"][0]["volumeMounts"]


def test_a_manifest_without_inject_has_no_init_container() -> None:
    pod = printed()["Deployment"]["spec"]["template"]["spec"]
    assert "initContainers" not in pod
    assert [volume["name"] for volume in pod["volumes"]] == ["tmp"]


@pytest.mark.parametrize("options", [["--image-volume"], ["--inject="], ["--inject= x"]])
def test_inject_is_an_image(options: list[str]) -> None:
    assert invoke(*options, "--", "./worker").exit_code == 2
