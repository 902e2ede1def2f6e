"""Real Pods on the cluster of $KLEADER_TEST_KUBECONFIG, which must be a disposable one.

Its one node is this machine: the Pods write the witness's log into a directory that is read here, by a hostPath.
$KLEADER_TEST_IMAGE: the image of `make image`, as the node knows it. $KLEADER_TEST_FOREIGN_IMAGE: an image without
Python whose program is /pause, as that of every kubelet is.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml  # type: ignore[import-untyped,unused-ignore]

from tests.support import checker
from tests.support.api import lease_path, path
from tests.support.controlplane import given_kubeconfig
from tests.support.plane import GivenPlane

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.api import Object

LOCK = "job"
IMAGE = os.environ.get("KLEADER_TEST_IMAGE", "")
SHARED = "/shared"
PYTHON = ("/kleader/bin/python3", "-IS")


def pytest_collection_modifyitems(config: pytest.Config) -> None:
    """Refuse, instead of failing each test."""
    if config.option.collectonly:
        return
    for name in ("KLEADER_TEST_KUBECONFIG", "KLEADER_TEST_IMAGE", "KLEADER_TEST_FOREIGN_IMAGE"):
        if not os.environ.get(name):
            pytest.exit(f"{name} is not set: these tests need a disposable cluster and images on its node", 1)


class Namespace:
    """One test's namespace, with the service account and the Role that `kleader manifest` prints for the lock."""

    def __init__(self, plane: GivenPlane) -> None:
        self.api, self.name = plane.api, plane.new_namespace("node")
        self.shared = Path(tempfile.mkdtemp(prefix="kleader-node-"))
        self.shared.chmod(0o777)
        shutil.copy(checker.PROGRAM, self.shared)
        self.witness = checker.Witness(self.shared / "log")
        self.lock = lease_path(self.name, LOCK)
        self.apply(*(each for each in self.manifest("--image=none", "--", "true") if each["kind"] in ACCOUNT))

    def manifest(self, *arguments: str) -> list[Object]:
        """What `kleader manifest` prints for the lock."""
        argv = [sys.executable, "-m", "kleader", "manifest", f"-n={self.name}", f"--name={LOCK}", *arguments]
        printed = subprocess.run(argv, capture_output=True, text=True, check=True).stdout
        return list(yaml.safe_load_all(printed))

    def apply(self, *objects: Object) -> None:
        for each in objects:
            self.api.apply(each)

    def command(self, *options: str) -> tuple[str, ...]:
        """The witness, as a Pod with the tree runs it."""
        return (*PYTHON, f"{SHARED}/{checker.PROGRAM.name}", f"{SHARED}/{self.witness.path.name}", *options)

    def pod(self, name: str, *command: str, options: tuple[str, ...] = (), **spec: Any) -> str:  # noqa: ANN401
        """Start a Pod of kleader's image as a restricted namespace would have it; return its path.

        Its command is the witness unless another one is given.
        """
        fields = {"POD_NAME": "name", "POD_NAMESPACE": "namespace", "POD_UID": "uid"}
        confined = {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
        }
        lock = ["run", f"--name={LOCK}", f"--identity={name}", "--log-format=json", *options]
        container = {
            "name": "main",
            "image": IMAGE,
            "imagePullPolicy": "Never",
            "args": [*lock, "--", *(command or self.command())],
            "env": [
                {"name": key, "valueFrom": {"fieldRef": {"fieldPath": f"metadata.{field}"}}}
                for key, field in fields.items()
            ],
            "securityContext": confined,
            **spec.pop("container", {}),
        }
        template = {
            "serviceAccountName": LOCK,
            "automountServiceAccountToken": True,
            "restartPolicy": "Never",
            "containers": [container],
            "securityContext": {
                "runAsUser": 1_000_777,
                "runAsNonRoot": True,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            **spec,
        }
        self.share(template)
        metadata = {"namespace": self.name, "name": name}
        self.api.create({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template})
        return path("v1", "Pod", self.name, name)

    def deploy(self, *arguments: str) -> str:
        """Apply what `kleader manifest` prints, wait until it is rolled out, and return the Deployment's path."""
        objects = self.manifest("--log-format=json", *arguments)
        (deployment,) = (each for each in objects if each["kind"] == "Deployment")
        self.share(deployment["spec"]["template"]["spec"])
        self.apply(*objects)
        place = path("apps/v1", "Deployment", self.name, LOCK)
        self.api.wait(place, rolled_out, "its Pods available")
        return place

    def share(self, spec: Object) -> None:
        """Let the Pod write into the shared directory."""
        spec.setdefault("volumes", []).append({"name": "shared", "hostPath": {"path": str(self.shared)}})
        (container,) = spec["containers"]
        container.setdefault("volumeMounts", []).append({"name": "shared", "mountPath": SHARED})

    def pod_of(self, lease: Object) -> str:
        """The path of the Pod that holds the lock."""
        pods = path("v1", "Pod", self.name)
        names = [each["metadata"]["name"] for each in self.api.list(pods)]
        (name,) = [each for each in names if holder(lease) == each or holder(lease).startswith(f"{each}_")]
        return f"{pods}/{name}"

    def evict(self, pod: str) -> int:
        """Ask for an eviction, as a drain does; the status of the answer."""
        metadata = {"namespace": self.name, "name": pod.rpartition("/")[2]}
        eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": metadata}
        return self.api.request("POST", f"{pod}/eviction", eviction)[0]

    def log(self, pod: str) -> str:
        return self.api.request("GET", f"{pod}/log")[1]

    def logs(self, pod: str, event: str) -> bool:
        """Whether the Pod's kleader has logged this event."""
        return f'"event":"{event}"' in self.log(pod).replace('": "', '":"')

    def exit_of(self, pod: str) -> int:
        """Wait for the end of the Pod's container; its exit status."""
        done = self.api.wait(pod, lambda thing: thing and _ended(thing), "the end of its container")
        assert done
        return int(_ended(done)["exitCode"])

    def leader(self) -> Object:
        """Wait until the lock is held; its Lease."""
        found = self.api.wait(self.lock, lambda thing: thing and holder(thing), "a leader")
        assert found
        return found

    def handed_over(self, lease: Object) -> Object:
        """Wait for the next leader since the lock was like this, and claim that the lock was released before."""
        return self._next(lease, released=True)

    def taken_over(self, lease: Object) -> Object:
        """Wait for the next leader since the lock was like this, and claim that the lock was never released."""
        return self._next(lease, released=False)

    def _next(self, lease: Object, *, released: bool) -> Object:
        seen = [holder(lease)]
        for _, thing in self.api.watch(self.lock, version=lease["metadata"]["resourceVersion"]):
            if holder(thing) == seen[-1]:
                continue
            seen.append(holder(thing))
            if seen[-1]:
                assert ("" in seen) is released, f"the holders were {seen}"
                return thing
        raise AssertionError("the watch has ended")


ACCOUNT = {"ServiceAccount", "Role", "RoleBinding"}


def holder(lease: Object) -> str:
    return str(lease["spec"].get("holderIdentity") or "")


def rolled_out(thing: Object | None) -> bool:
    """Whether every Pod of the Deployment is of its newest template and available, and no other is left."""
    if not thing:
        return False
    status, wanted = thing.get("status", {}), thing["spec"]["replicas"]
    counts = {status.get(name, 0) for name in ("replicas", "updatedReplicas", "readyReplicas", "availableReplicas")}
    return counts == {wanted} and status.get("observedGeneration", 0) >= thing["metadata"]["generation"]


def _ended(pod: Object) -> Object:
    states: list[Object] = [each["state"] for each in pod.get("status", {}).get("containerStatuses", [])]
    return next((state["terminated"] for state in states if "terminated" in state), {})


@pytest.fixture(scope="session")
def plane() -> Iterator[GivenPlane]:
    kubeconfig = given_kubeconfig()
    assert kubeconfig
    cluster = GivenPlane(kubeconfig)
    cluster.start()
    yield cluster
    cluster.stop()


@pytest.fixture
def namespace(plane: GivenPlane) -> Iterator[Namespace]:
    """A namespace; at the end of the test, the witness's verdict: no two commands lived at once."""
    made = Namespace(plane)
    yield made
    for pod in made.api.list(path("v1", "Pod", made.name)):
        name = pod["metadata"]["name"]
        print(name, json.dumps(pod.get("status", {}).get("containerStatuses")))  # noqa: T201 - shown where it failed
        print(made.log(path("v1", "Pod", made.name, name)))  # noqa: T201
    print(made.witness.story())  # noqa: T201
    plane.api.delete(f"/api/v1/namespaces/{made.name}")
    try:
        made.witness.check()
    finally:
        shutil.rmtree(made.shared, ignore_errors=True)
