"""Kleader in real Pods: as PID 1 of an image that has nothing else, and injected into an image without Python."""

from __future__ import annotations

import json
import os
import shlex
from typing import TYPE_CHECKING

import pytest

from tests.node.conftest import IMAGE, LOCK, PYTHON, holder, rolled_out
from tests.support.api import Api, path
from tests.support.processes import wait_until

if TYPE_CHECKING:
    from pathlib import Path

    from tests.node.conftest import Namespace
    from tests.support.api import Object
    from tests.support.plane import GivenPlane

SEEN = """
import json, os
print(json.dumps({"env": dict(os.environ), "ppid": os.getppid(), "uid": os.getuid(), "tmp": os.path.exists("/tmp"),
    "passwd": os.path.exists("/etc/passwd"), "seccomp": "Seccomp:\\t2" in open("/proc/self/status").read()}))
"""
EATER = "x = []\nwhile True: x.append(bytearray(1 << 20))"
ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"


def test_kleader_leads_as_pid_1_of_a_scratch_image(namespace: Namespace) -> None:
    """A uid without a passwd entry, a read-only root, no /tmp, no HOME, seccomp's RuntimeDefault, no capability."""
    pod = namespace.pod("a", *PYTHON, "-c", SEEN)
    assert namespace.exit_of(pod) == 0, namespace.log(pod)
    seen = next(json.loads(line) for line in namespace.log(pod).splitlines() if line.startswith('{"env"'))
    uid = namespace.api.get(pod)["metadata"]["uid"]
    assert [seen[name] for name in ("ppid", "uid", "tmp", "passwd", "seccomp")] == [1, 1_000_777, False, False, True]
    assert (seen["env"]["POD_NAME"], seen["env"]["POD_NAMESPACE"], seen["env"]["POD_UID"]) == ("a", namespace.name, uid)
    assert "HOME" not in seen["env"] or seen["env"]["HOME"] == "/"
    assert seen["env"]["KLEADER_NAMESPACE"] == namespace.name
    assert not holder(namespace.api.get(namespace.lock))


def test_a_daemon_dies_before_the_next_leader_in_a_pod_with_a_shared_process_namespace(
    namespace: Namespace,
) -> None:
    """Kleader is not PID 1 there. A hook keeps the container past the release, whose end would kill the daemon too."""
    lingers = f"--on-end={shlex.join((*PYTHON, '-c', 'import time; time.sleep(10)'))}"
    daemon = namespace.command("--descendant")
    first = namespace.pod("a", *daemon, options=(lingers,), shareProcessNamespace=True)
    lease = namespace.leader()
    namespace.witness.wait_descendant()
    namespace.pod("b", shareProcessNamespace=True)
    namespace.api.delete(first)
    namespace.handed_over(lease)
    namespace.witness.wait_start(2)
    assert namespace.witness.terms()[0].pid != 1


def test_a_command_that_the_oom_killer_kills_ends_with_137_and_frees_the_lock(namespace: Namespace) -> None:
    """Where the kubelet has one process killed (singleProcessOOMKill, or cgroup version 1): kleader releases."""
    limited = {"resources": {"limits": {"memory": "96Mi"}}}
    pod = namespace.pod("a", *PYTHON, "-c", EATER, container=limited)
    lease = namespace.leader()
    assert namespace.exit_of(pod) == 137
    assert namespace.logs(pod, "released"), namespace.log(pod)
    assert not holder(namespace.api.get(namespace.lock))
    assert holder(lease) == "a"


def test_a_leader_whose_token_is_replaced_keeps_the_lock(namespace: Namespace, plane: GivenPlane) -> None:
    """As the kubelet replaces it, in a directory behind a link. A token is refused once its Secret is deleted."""
    write_token(namespace, "1")
    account = {"name": "account", "hostPath": {"path": f"{namespace.shared}/account"}}
    mounts = [{"name": "account", "mountPath": ACCOUNT, "readOnly": True}]
    namespace.pod("a", automountServiceAccountToken=False, volumes=[account], container={"volumeMounts": mounts})
    lease = namespace.leader()
    old = Api(plane.url, plane.ca_file, token=(namespace.shared / "account" / "token").read_text())
    assert old.request("GET", namespace.lock)[0] == 200
    write_token(namespace, "2")
    namespace.api.delete(path("v1", "Secret", namespace.name, "bound-1"))
    wait_until(lambda: old.request("GET", namespace.lock)[0] == 401, "the refusal of the old token")
    refused = namespace.api.get(namespace.lock)["spec"]["renewTime"]
    renewed = namespace.api.wait(
        namespace.lock,
        lambda thing: (thing and thing["spec"]["renewTime"] > refused) or not holder(thing or lease),
        "a renewal",
    )
    assert renewed
    assert (holder(renewed), renewed["spec"]["leaseTransitions"]) == ("a", lease["spec"]["leaseTransitions"])
    namespace.witness.wait_beats()


def write_token(namespace: Namespace, number: str) -> None:
    """Replace the service account's files at once by those of a token that is bound to a Secret of its own."""
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"namespace": namespace.name, "name": f"bound-{number}"},
    }
    uid = namespace.api.create(secret)["metadata"]["uid"]
    bound = {"apiVersion": "v1", "kind": "Secret", "name": f"bound-{number}", "uid": uid}
    account = path("v1", "ServiceAccount", namespace.name, LOCK)
    wanted = {"spec": {"expirationSeconds": 600, "boundObjectRef": bound}}
    authority = path("v1", "ConfigMap", namespace.name, "kube-root-ca.crt")
    namespace.api.wait(authority, bool, "the cluster's CA")
    files = {
        "token": namespace.api.call("POST", f"{account}/token", wanted)["status"]["token"],
        "ca.crt": namespace.api.get(authority)["data"]["ca.crt"],
        "namespace": namespace.name,
    }
    place = namespace.shared / "account"
    data = place / f"..{number}"
    data.mkdir(parents=True)
    for name, text in files.items():
        (data / name).write_text(text)
    link(place / "..data", data.name)
    for name in files:
        link(place / name, f"..data/{name}")


def link(place: Path, to: str) -> None:
    new = place.with_name("..new")
    new.symlink_to(to)
    new.replace(place)


def test_a_readiness_probe_of_is_leader_makes_the_leaders_pod_ready_alone(namespace: Namespace) -> None:
    """A Service then selects the leader's Pod alone."""
    probe = {"exec": {"command": ["/kleader/bin/kleader", "is-leader"]}, "periodSeconds": 1, "timeoutSeconds": 30}
    first = namespace.pod("a", container={"readinessProbe": probe})
    namespace.api.wait(first, ready, "the leader ready")
    lease = namespace.leader()
    second = namespace.pod("b", container={"readinessProbe": probe})
    wait_until(lambda: unhealthy(namespace, "b"), "a probe of the waiting candidate that fails")
    assert not ready(namespace.api.get(second))
    namespace.api.delete(first)
    namespace.handed_over(lease)
    namespace.api.wait(second, ready, "the new leader ready")


def ready(pod: Object | None) -> bool:
    conditions = (pod or {}).get("status", {}).get("conditions", [])
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def unhealthy(namespace: Namespace, name: str) -> bool:
    events = namespace.api.list(path("v1", "Event", namespace.name))
    return any(
        (each["involvedObject"]["name"], each["reason"]) == (name, "Unhealthy") and "candidate" in each["message"]
        for each in events
    )


@pytest.mark.timeout(600)
@pytest.mark.parametrize("form", ["copied", "mounted"])
def test_an_image_without_python_leads_rolls_and_hands_over_under_an_injected_kleader(
    namespace: Namespace, form: str
) -> None:
    """`kleader manifest --inject`, by an init container or as an image volume: applied as it is printed."""
    images = [f"--inject={IMAGE}", f"--image={os.environ['KLEADER_TEST_FOREIGN_IMAGE']}"]
    mounted = ["--image-volume"] if form == "mounted" else []
    deployment = namespace.deploy(*images, *mounted, "--http=:8080", "--", "/pause")
    first = namespace.leader()
    namespace.api.delete(namespace.pod_of(first))
    second = namespace.handed_over(first)
    namespace.api.wait(deployment, rolled_out, "its two Pods ready")
    again = {"spec": {"template": {"metadata": {"annotations": {"again": "1"}}}}}
    namespace.api.merge(deployment, again)
    namespace.handed_over(second)
    namespace.api.wait(deployment, rolled_out, "the new Pods ready")
    assert holder(namespace.leader()) not in {holder(first), holder(second)}
