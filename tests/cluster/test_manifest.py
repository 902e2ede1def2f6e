"""The real API server accepts what `kleader manifest` prints, and a run uses its service account."""

from __future__ import annotations

import http.client
import ssl
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
import yaml

from tests.cluster.contract import OBJECTS, Place
from tests.support.api import Api, Object, lease_path, path_of
from tests.support.processes import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.checker import Witness
    from tests.support.controlplane import ControlPlane
    from tests.support.plane import Plane
    from tests.support.processes import Processes

KLEADER = [sys.executable, "-m", "kleader"]
QUICK = ["--retry-period=1s", "--renew-deadline=4s", "--lease-duration=6s"]
COORDINATED = ["--coordinated", "--binary-version=1.36.0"]
FOR_LIFE = ["--lock=leader-for-life", "--release"]
KINDS = [*([f"--lock={lock}"] for lock in OBJECTS if f"--lock={lock}" not in FOR_LIFE), COORDINATED, FOR_LIFE]
LABEL, HTTP = "--pod-label=a/role=leader,standby", "--http=:8080"
BESIDE = ["--standby=sleep 600", "--on-new-leader=true", "--health=true", "--restart=always", "--until-empty"]
KINDS += [[LABEL], ["--lock=configmapsleases", LABEL, *BESIDE]]
COMBINED = [
    [HTTP],
    ["--inject=registry.example/kleader", HTTP],
    ["--inject=registry.example/kleader", "--image-volume"],
    [*COORDINATED, HTTP, LABEL, *BESIDE, "--replicas=3"],
    [*FOR_LIFE, HTTP, LABEL, "--standby=sh -c 'echo $HOME; exec sleep 9'", "--on-loss=wait"],
    ["--state-file=/tmp/state", "--stop-timeout=2m", "--log-format=json", "-v=2", "--stop-signal=INT", HTTP, *BESIDE],
]
ODD = [
    "y",
    "n",
    "no",
    "1",
    "1e3",
    "0o17",
    ".5",
    "~",
    "",
    " a ",
    "a: b",
    "-",
    "#",
    "é",
    "\t\n",
    "\x07",
    "$(A)",
    "'",
    "=",
]


def account_token(plane: Plane, namespace: str, name: str = "x") -> str:
    """A token as the kubelet would put it into a Pod."""
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token"
    token: str = plane.api.call("POST", path, request)["status"]["token"]
    return token


def manifest(*args: str) -> str:
    argv = [*KLEADER, "manifest", *args]
    return subprocess.run(argv, check=True, capture_output=True, text=True).stdout


@pytest.fixture
def made(plane: Plane) -> Iterator[list[Object]]:
    """Objects to be deleted that no namespace takes with it."""
    objects: list[Object] = []
    yield objects
    for each in objects:
        plane.api.delete(path_of(each))


def post(api: Api, document: str) -> Object:
    """Have Go's YAML read it, as `kubectl apply` does, with no field or key let pass that is not known."""
    target = path_of(yaml.safe_load(document), named=False)
    return api.call("POST", f"{target}?fieldValidation=Strict", document, mime="application/yaml")


@pytest.mark.parametrize("kind", [*KINDS, *COMBINED], ids=" ".join)
def test_the_api_server_accepts_every_object_with_strict_validation(
    plane: Plane, namespace: str, kind: list[str], made: list[Object]
) -> None:
    text = manifest(*kind, "-n", namespace, "--flow-schema", "--lock-label=a=b", "--", "./worker")
    for document in text.split("---\n"):
        answer = post(plane.api, document)
        if answer["kind"] == "FlowSchema":
            made.append(answer)
        wanted = yaml.safe_load(document)
        assert wanted["metadata"].items() <= answer["metadata"].items()
    assert "PodDisruptionBudget" in text
    (flow,) = [plane.api.get(path_of(each)) for each in made]
    level = flow["spec"]["priorityLevelConfiguration"]["name"]
    assert plane.api.find(f"/apis/flowcontrol.apiserver.k8s.io/v1/prioritylevelconfigurations/{level}")


def test_each_argument_of_the_command_arrives_unchanged(plane: Plane, namespace: str) -> None:
    """But for `$(`, which the kubelet sees twice."""
    text = manifest("-n", namespace, "--name=x", "--", "./worker", *ODD)
    (document,) = [each for each in text.split("---\n") if "\nkind: Deployment\n" in each]
    (container,) = post(plane.api, document)["spec"]["template"]["spec"]["containers"]
    assert container["args"] == ["./worker", *(each.replace("$(", "$$(") for each in ODD)]


@pytest.mark.parametrize("kind", KINDS, ids=" ".join)
def test_a_run_with_the_printed_service_account_leads_and_releases(
    own_plane: ControlPlane, namespace: str, kind: list[str], processes: Processes, witness: Witness
) -> None:
    objects = list(yaml.safe_load_all(manifest(*kind, *QUICK, "-n", namespace, "--name=x", "--", *witness.command())))
    for each in objects:
        own_plane.api.create(each)
    account = f"system:serviceaccount:{namespace}:x"
    role = next(each for each in objects if each["kind"] == "Role")
    own_plane.wait_allowed(namespace, role["rules"][-1], user=account)
    config = own_plane.kubeconfig(namespace=namespace, token=account_token(own_plane, namespace))
    deployment = next(each for each in objects if each["kind"] == "Deployment")
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    argv = [*KLEADER, *container["command"][1:], *container["args"]]
    pod = own_plane.new_pod(namespace, "x-0")
    fields = {"metadata.name": "x-0", "metadata.namespace": namespace, "metadata.uid": pod["metadata"]["uid"]}
    env = {each["name"]: fields[each["valueFrom"]["fieldRef"]["fieldPath"]] for each in container["env"]}
    candidate = processes.start(argv, env={**env, "KUBECONFIG": str(config)})
    witness.wait_start()

    def asked() -> list[Object]:
        return own_plane.audit_requests(account)

    def told() -> int:
        return sum(request.get("objectRef", {}).get("resource") == "events" for request in asked())

    wait_until(told, "its Event")
    candidate.signal(15)
    assert candidate.wait() == 0, candidate.err
    if kind is FOR_LIFE:
        assert own_plane.api.find(f"/api/v1/namespaces/{namespace}/configmaps/x") is None
    else:
        lock = kind[0].partition("=")[2] if kind[0].startswith("--lock=") else "lease"
        entry = Place(own_plane, namespace, lock).entry()
        assert entry
        assert entry.holder == ""
    codes = {request.get("responseStatus", {}).get("code") for request in asked()}
    assert 403 not in codes
    assert "cannot" not in candidate.err


def test_the_flow_schema_matches_only_the_lock_requests_of_the_service_account(
    own_plane: ControlPlane, namespace: str, made: list[Object]
) -> None:
    """As the API server says beside each answer (X-Kubernetes-PF-FlowSchema-UID)."""
    for each in yaml.safe_load_all(manifest("-n", namespace, "--name=x", "--flow-schema", "--", "./worker")):
        answer = own_plane.api.create(each)
        if each["kind"] == "FlowSchema":
            made.append(answer)
    token = account_token(own_plane, namespace)
    trust = ssl.create_default_context(cafile=str(own_plane.ca_file))

    def taken(path: str, token: str) -> bool:
        connection = http.client.HTTPSConnection(own_plane.api.host, own_plane.api.port, context=trust)
        connection.request("GET", path, headers={"Authorization": f"Bearer {token}"})
        found = connection.getresponse().headers["X-Kubernetes-PF-FlowSchema-UID"]
        connection.close()
        return bool(found == made[0]["metadata"]["uid"])

    lock = lease_path(namespace, "x")
    wait_until(lambda: taken(lock, token), "the FlowSchema to be in force")
    assert not taken(f"/api/v1/namespaces/{namespace}/configmaps/x", token)
    assert not taken(lock, own_plane.token(own_plane.new_user()))
