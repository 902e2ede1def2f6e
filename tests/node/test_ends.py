"""How a Pod ends, and what the next leader finds: each time the command is dead before the lock is released."""

from __future__ import annotations

import time
from http import HTTPStatus
from typing import TYPE_CHECKING

import pytest

from tests.node.conftest import IMAGE, PYTHON, SHARED, holder, rolled_out
from tests.support.api import path
from tests.support.processes import wait_until

if TYPE_CHECKING:
    from tests.node.conftest import Namespace

HOOK_SECONDS = 3
HOOK = f"""
import time
time.sleep({HOOK_SECONDS})
open("{SHARED}/hook", "w").write(str(time.clock_gettime_ns(time.CLOCK_BOOTTIME)))
"""


def test_a_deleted_leader_stops_its_command_and_then_releases_the_lock(namespace: Namespace) -> None:
    """The command takes three seconds to stop."""
    first = namespace.pod("a", *namespace.command("--term-delay=3", "--status=9"))
    lease = namespace.leader()
    namespace.pod("b")
    namespace.witness.wait_start()
    namespace.api.delete(first)
    assert namespace.exit_of(first) == 9
    assert holder(namespace.handed_over(lease)) == "b"
    namespace.witness.wait_start(2)
    assert namespace.witness.terms()[0].main.ended


def test_a_deleted_candidate_ends_at_once_with_143(namespace: Namespace) -> None:
    namespace.pod("a")
    lease = namespace.leader()
    waiting = namespace.pod("b")
    wait_until(lambda: namespace.logs(waiting, "leader_observed"), "the candidate")
    namespace.api.delete(waiting)
    assert namespace.exit_of(waiting) == 143
    now = namespace.api.get(namespace.lock)
    assert (holder(now), now["spec"]["leaseTransitions"]) == ("a", lease["spec"]["leaseTransitions"])


def test_a_deleted_candidate_without_an_api_server_ends_at_once_with_143(namespace: Namespace) -> None:
    """No host has the address."""
    pod = namespace.pod("a", options=("--server=https://198.18.0.250",))
    wait_until(lambda: namespace.logs(pod, "lock_request_failed"), "a request that fails")
    namespace.api.delete(pod)
    assert namespace.exit_of(pod) == 143


def test_an_evicted_leader_stops_its_command_and_then_releases_the_lock(namespace: Namespace) -> None:
    first = namespace.pod("a", *namespace.command("--term-delay=1"))
    lease = namespace.leader()
    namespace.pod("b")
    namespace.witness.wait_start()
    assert namespace.evict(first) == HTTPStatus.CREATED
    assert holder(namespace.handed_over(lease)) == "b"
    namespace.witness.wait_start(2)
    assert namespace.witness.terms()[0].main.ended


@pytest.mark.timeout(600)
def test_a_drain_never_takes_the_last_pod_that_can_lead(namespace: Namespace) -> None:
    """With what `kleader manifest` prints. The Pod that replaces the first one finds no node, so the second stays."""
    deployment = namespace.deploy("--http=:8080", f"--image={IMAGE}", "--", *namespace.command())
    lease = namespace.leader()
    first = namespace.pod_of(lease)
    node = path("v1", "Node", "", namespace.api.get(first)["spec"]["nodeName"])
    namespace.api.merge(node, {"spec": {"unschedulable": True}})
    try:
        assert namespace.evict(first) == HTTPStatus.CREATED
        lease = namespace.handed_over(lease)
        second = namespace.pod_of(lease)
        assert namespace.evict(second) == HTTPStatus.TOO_MANY_REQUESTS
    finally:
        namespace.api.merge(node, {"spec": {"unschedulable": None}})
    namespace.api.wait(deployment, rolled_out, "its two Pods ready")
    assert namespace.evict(second) == HTTPStatus.CREATED
    namespace.handed_over(lease)
    namespace.witness.wait_start(3)


@pytest.mark.timeout(600)
def test_the_manifests_grace_period_suffices_to_kill_the_command_and_release(
    namespace: Namespace,
) -> None:
    """The command has the whole --stop-timeout; the kubelet does not kill kleader before the lock is released."""
    deaf = namespace.command("--ignore-term")
    namespace.deploy("--stop-timeout=4s", f"--image={IMAGE}", "--", *deaf)
    lease = namespace.leader()
    namespace.witness.wait_start()
    asked = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
    namespace.api.delete(namespace.pod_of(lease))
    namespace.handed_over(lease)
    namespace.witness.wait_start(2)
    first = namespace.witness.terms()[0]
    assert not first.main.ended
    assert first.last - asked > 3.9e9


def test_a_prestop_hook_ends_before_the_command_is_stopped(namespace: Namespace) -> None:
    """The command runs while the hook does."""
    hook = {"preStop": {"exec": {"command": [*PYTHON, "-c", HOOK]}}}
    first = namespace.pod("a", container={"lifecycle": hook}, terminationGracePeriodSeconds=31 + HOOK_SECONDS)
    lease = namespace.leader()
    namespace.pod("b")
    namespace.witness.wait_start()
    namespace.api.delete(first)
    namespace.handed_over(lease)
    namespace.witness.wait_start(2)
    ended = int((namespace.shared / "hook").read_text())
    assert namespace.witness.terms()[0].last > ended


def test_a_leader_that_the_kubelet_kills_leaves_no_process_and_its_lease_expires(
    namespace: Namespace,
) -> None:
    """The grace period is shorter than the command's stop: kleader, PID 1, is killed and everything with it."""
    deaf = namespace.command("--ignore-term", "--descendant")
    first = namespace.pod("a", *deaf, terminationGracePeriodSeconds=1)
    lease = namespace.leader()
    namespace.witness.wait_descendant()
    namespace.pod("b")
    namespace.api.delete(first)
    assert holder(namespace.taken_over(lease)) == "b"
    namespace.witness.wait_start(2)
