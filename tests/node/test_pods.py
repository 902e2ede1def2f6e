"""Kleader in real Pods: as PID 1 of an image that has nothing else, and injected into an image without Python."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import pytest

from tests.node.conftest import FAST, LOCK, rolled_out
from tests.support.api import path
from tests.support.processes import wait_until

if TYPE_CHECKING:
    from tests.node.conftest import Namespace

PYTHON = ("/kleader/bin/python3", "-IS", "-c")
SLEEP = (*PYTHON, "import time; time.sleep(1000)")
SEEN = """
import json, os
print(json.dumps({"env": dict(os.environ), "ppid": os.getppid(), "uid": os.getuid(), "tmp": os.path.exists("/tmp"),
    "passwd": os.path.exists("/etc/passwd"), "seccomp": "Seccomp:\\t2" in open("/proc/self/status").read()}))
"""
SLOW_TO_STOP = "import signal, time; signal.signal(15, lambda *_: (time.sleep(3), exit(9))); time.sleep(1000)"
EATER = "x = []\nwhile True: x.append(bytearray(1 << 20))"


def test_kleader_leads_as_pid_1_of_a_scratch_image(namespace: Namespace) -> None:
    """A uid without a passwd entry, a read-only root, no /tmp, no HOME, seccomp's RuntimeDefault, no capability."""
    pod = namespace.pod("a", *PYTHON, SEEN)
    assert namespace.exit_of(pod) == 0, namespace.log(pod)
    seen = next(json.loads(line) for line in namespace.log(pod).splitlines() if line.startswith("{"))
    uid = namespace.api.get(pod)["metadata"]["uid"]
    assert [seen[name] for name in ("ppid", "uid", "tmp", "passwd", "seccomp")] == [1, 1_000_777, False, False, True]
    assert (seen["env"]["POD_NAME"], seen["env"]["POD_NAMESPACE"], seen["env"]["POD_UID"]) == ("a", namespace.name, uid)
    assert seen["env"]["KLEADER_NAMESPACE"] == namespace.name
    assert not namespace.holder


def test_kleader_leads_in_a_pod_with_a_shared_process_namespace(namespace: Namespace) -> None:
    pod = namespace.pod("a", *PYTHON, "import os; print('ppid', os.getppid())", shareProcessNamespace=True)
    assert namespace.exit_of(pod) == 0, namespace.log(pod)
    assert "ppid 1\n" not in namespace.log(pod)


def test_a_deleted_pod_stops_its_command_releases_and_the_next_one_leads(namespace: Namespace) -> None:
    """The command takes three seconds to stop; the status of the container is the command's."""
    first = namespace.pod("a", *PYTHON, SLOW_TO_STOP)
    namespace.leader()
    namespace.pod("b", *SLEEP)
    namespace.api.delete(first)
    assert namespace.leader("a") == "b"
    assert namespace.api.wait(first, lambda thing: thing is None, "the end of the Pod") is None


def test_a_candidate_that_is_deleted_while_it_waits_ends_at_once(namespace: Namespace) -> None:
    namespace.pod("a", *SLEEP)
    namespace.leader()
    waiting = namespace.pod("b", *SLEEP)
    wait_until(lambda: "the leader is a" in namespace.log(waiting), "the candidate")
    namespace.api.delete(waiting)
    assert namespace.api.wait(waiting, lambda thing: thing is None, "the end of the Pod") is None
    assert namespace.holder == "a"


def test_a_command_that_the_oom_killer_kills_ends_with_137_and_frees_the_lock(namespace: Namespace) -> None:
    """Where the kubelet has one process killed (singleProcessOOMKill, or cgroup version 1)."""
    limited = {"resources": {"limits": {"memory": "96Mi"}}}
    pod = namespace.pod("a", *PYTHON, EATER, container=limited)
    assert namespace.exit_of(pod) == 137
    assert "killed" in namespace.log(pod) or "137" in namespace.log(pod) or not namespace.holder
    assert not namespace.holder


def test_an_evicted_leader_releases_and_the_next_one_leads(namespace: Namespace) -> None:
    first = namespace.pod("a", *SLEEP)
    namespace.leader()
    namespace.pod("b", *SLEEP)
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"namespace": namespace.name, "name": "a"}}
    namespace.api.call("POST", f"{first}/eviction", eviction)
    assert namespace.leader("a") == "b"


@pytest.mark.timeout(600)
@pytest.mark.parametrize("form", ["copied", "mounted"])
def test_an_image_without_python_leads_rolls_and_hands_over_under_an_injected_kleader(
    namespace: Namespace, form: str
) -> None:
    """`kleader manifest --inject`, by an init container or as an image volume: applied as it is printed."""
    images = [f"--inject={os.environ['KLEADER_TEST_IMAGE']}", f"--image={os.environ['KLEADER_TEST_FOREIGN_IMAGE']}"]
    mounted = ["--image-volume"] if form == "mounted" else []
    objects = namespace.manifest(*images, *mounted, "--http=:8080", *FAST, "--", "/pause")
    namespace.apply(*objects)
    deployment = path("apps/v1", "Deployment", namespace.name, LOCK)
    namespace.api.wait(deployment, rolled_out, "its two Pods ready")
    first = namespace.leader()
    pods = path("v1", "Pod", namespace.name)
    named = next(each["metadata"]["name"] for each in namespace.api.list(pods) if each["metadata"]["name"] in first)
    namespace.api.delete(f"{pods}/{named}")
    second = namespace.leader(first)
    namespace.api.wait(deployment, rolled_out, "its two Pods ready")
    again = {"spec": {"template": {"metadata": {"annotations": {"again": "1"}}}}}
    namespace.api.merge(deployment, again)
    third = namespace.leader(first, second)
    namespace.api.wait(deployment, rolled_out, "the new Pods ready")
    assert third.startswith(LOCK)
