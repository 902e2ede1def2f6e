"""Real Pods on the cluster of $KLEADER_TEST_KUBECONFIG, which must be a disposable one.

$KLEADER_TEST_IMAGE: the image of `make image`, as the node knows it. $KLEADER_TEST_FOREIGN_IMAGE: an image without
Python whose program is /pause, as that of every kubelet is.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
import yaml  # type: ignore[import-untyped,unused-ignore]

from tests.support.api import lease_path, path
from tests.support.controlplane import given_kubeconfig
from tests.support.plane import GivenPlane

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.api import Object

LOCK = "job"
FAST = ("--lease-duration=5s", "--renew-deadline=3s", "--retry-period=1s")


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
        self.apply(*(each for each in self.manifest("--image=none", "--", "true") if each["kind"] in ACCOUNT))

    def manifest(self, *arguments: str) -> list[Object]:
        """What `kleader manifest` prints for the lock."""
        argv = [sys.executable, "-m", "kleader", "manifest", "-q", f"-n={self.name}", f"--name={LOCK}", *arguments]
        printed = subprocess.run(argv, capture_output=True, text=True, check=True).stdout
        return list(yaml.safe_load_all(printed))

    def apply(self, *objects: Object) -> None:
        for each in objects:
            self.api.apply(each)

    def pod(self, name: str, *command: str, options: tuple[str, ...] = (), **spec: Any) -> str:  # noqa: ANN401
        """Start a Pod of kleader's image as a restricted namespace would have it; return its path."""
        fields = {"POD_NAME": "name", "POD_NAMESPACE": "namespace", "POD_UID": "uid"}
        confined = {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
        }
        container = {
            "name": "main",
            "image": os.environ["KLEADER_TEST_IMAGE"],
            "imagePullPolicy": "Never",
            "args": ["run", f"--name={LOCK}", f"--identity={name}", *FAST, *options, "--", *command],
            "env": [
                {"name": key, "valueFrom": {"fieldRef": {"fieldPath": f"metadata.{field}"}}}
                for key, field in fields.items()
            ],
            "securityContext": confined,
            **spec.pop("container", {}),
        }
        thing = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"namespace": self.name, "name": name},
            "spec": {
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
            },
        }
        self.api.create(thing)
        return path("v1", "Pod", self.name, name)

    def log(self, pod: str) -> str:
        return self.api.request("GET", f"{pod}/log")[1]

    def exit_of(self, pod: str) -> int:
        """Wait for the end of the Pod's container; its exit status."""
        done = self.api.wait(pod, lambda thing: thing and _ended(thing), "the end of its container")
        assert done
        return int(_ended(done)["exitCode"])

    def leader(self, *not_one_of: str) -> str:
        """Wait for a holder of the lock that is none of these."""
        found = self.api.wait(
            lease_path(self.name, LOCK),
            lambda thing: thing and thing["spec"].get("holderIdentity") not in {"", None, *not_one_of},
            "a leader",
        )
        assert found
        return str(found["spec"]["holderIdentity"])

    @property
    def holder(self) -> str:
        return str(self.api.get(lease_path(self.name, LOCK))["spec"].get("holderIdentity") or "")


ACCOUNT = {"ServiceAccount", "Role", "RoleBinding"}


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
    made = Namespace(plane)
    yield made
    for pod in made.api.list(path("v1", "Pod", made.name)):
        name = pod["metadata"]["name"]
        print(name, json.dumps(pod.get("status", {}).get("containerStatuses")))  # noqa: T201 - shown where it failed
        print(made.log(path("v1", "Pod", made.name, name)))  # noqa: T201
    plane.api.delete(f"/api/v1/namespaces/{made.name}")
