"""The real candidates of client-go and operator-lib are what the other tests take them for."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import pytest

from tests.support.api import lease_path, path, path_of
from tests.support.objects import owned_by, read_record

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support.api import Object
    from tests.support.checker import Witness
    from tests.support.clientgo import Lock, Version
    from tests.support.controlplane import ControlPlane
    from tests.support.plane import Plane
    from tests.support.processes import Process, Processes

QUICK = {"lease_duration": "4s", "renew_deadline": "3s"}
KINDS: dict[Lock, list[str]] = {
    "leases": ["Lease"],
    "endpoints": ["Endpoints"],
    "configmaps": ["ConfigMap"],
    "endpointsleases": ["Endpoints", "Lease"],
    "configmapsleases": ["ConfigMap", "Lease"],
}


@pytest.fixture
def start(
    plane: Plane, namespace: str, processes: Processes, witness: Witness, clientgo: Callable[..., list[str]]
) -> Callable[..., Process]:
    def begin(identity: str, **more: str | bool) -> Process:
        timing = {"lease_duration": "30s", "renew_deadline": "20s", "retry_period": "500ms", "stop_first": True}
        kubeconfig = plane.kubeconfig(namespace=namespace)
        argv = clientgo(kubeconfig, namespace, "x", identity, witness.command("--term-delay=0.2"), **{**timing, **more})
        return processes.start(argv, name=identity)

    return begin


def holder(thing: Object) -> str:
    if thing["kind"] == "Lease":
        return str(thing["spec"]["holderIdentity"])
    return str(read_record(thing)["holderIdentity"])


def on_the_objects(plane: Plane, namespace: str, lock: Lock) -> set[str]:
    versions = {"Lease": "coordination.k8s.io/v1"}
    return {holder(plane.api.get(path(versions.get(kind, "v1"), kind, namespace, "x"))) for kind in KINDS[lock]}


@pytest.mark.parametrize(("version", "lock"), [("current", "leases"), *(("legacy", lock) for lock in KINDS)])
def test_a_client_go_candidate_leads_and_hands_over_on_each_of_its_locks(
    *,
    start: Callable[..., Process],
    plane: Plane,
    namespace: str,
    witness: Witness,
    version: Version,
    lock: Lock,
) -> None:
    """Both see each other lead; the Events are on every object of the lock, v0.23 tells the end of a loss alone."""
    first = start("a", lock=lock, version=version)
    witness.wait_start()
    assert on_the_objects(plane, namespace, lock) == {"a"}
    second = start("b", lock=lock, version=version)
    second.wait_err("new leader: a$")
    first.signal(signal.SIGTERM)
    assert first.wait() == 0
    assert witness.wait_start(2).identity == "b"
    witness.check(terms=2)
    assert on_the_objects(plane, namespace, lock) == {"b"}
    second.signal(signal.SIGTERM)
    assert second.wait() == 0
    said = [
        (event["involvedObject"]["kind"], event["reason"], event["source"]["component"], event["message"])
        for event in plane.api.list(path("v1", "Event", namespace))
    ]
    verbs = ["became leader"] if version == "legacy" else ["became leader", "stopped leading"]
    texts = [f"{identity} {verb}" for identity in ("a", "b") for verb in verbs]
    if version == "legacy":
        said = [each for each in said if not each[-1].endswith("stopped leading")]  # where SIGTERM met a renewal
    assert sorted(said) == sorted((kind, "LeaderElection", "x", text) for kind in KINDS[lock] for text in texts)


def test_the_candidate_with_the_oldest_emulation_version_leads(
    start: Callable[..., Process], own_plane: ControlPlane, namespace: str, witness: Witness
) -> None:
    """A better candidate ends the term of the leader: it is preferred, leads next, and there is no overlap."""
    newer = start("newer", coordinated=True, emulation_version="1.36.0", **QUICK)
    witness.wait_start()
    candidates = path("coordination.k8s.io/v1beta1", "LeaseCandidate", namespace)
    assert own_plane.api.get(f"{candidates}/newer")["spec"]["leaseName"] == "x"
    older = start("older", coordinated=True, emulation_version="1.35.0", **QUICK)
    preferred = own_plane.api.wait(
        lease_path(namespace, "x"), lambda seen: seen and seen["spec"].get("preferredHolder"), "one is preferred"
    )
    assert preferred is not None
    assert preferred["spec"]["preferredHolder"] == "older"
    assert newer.wait() == 1
    assert witness.wait_start(2).identity == "older"
    older.wait_err("new leader: older$")
    witness.check(terms=2)


@pytest.mark.usefixtures("garbage_collector")
def test_operator_lib_leads_for_as_long_as_its_pod_lives(
    plane: Plane, namespace: str, processes: Processes, witness: Witness, for_life: Callable[..., list[str]]
) -> None:
    """Its end alone hands nothing over: the second one leads once the Pod of the first is deleted."""
    config = plane.kubeconfig(namespace=namespace)
    pods = {name: plane.new_pod(namespace, name) for name in ("a", "b")}

    def start(pod: str) -> Process:
        argv = for_life(config, namespace, "x", pod, witness.command("--term-delay=0.2"), max_backoff="1s")
        return processes.start(argv, name=pod)

    first = start("a")
    witness.wait_start()
    lock = plane.api.get(path("v1", "ConfigMap", namespace, "x"))
    assert lock["metadata"]["ownerReferences"] == [owned_by(pods["a"])]
    second = start("b")
    second.wait_err("Not the leader")
    first.signal(signal.SIGTERM)
    assert first.wait() == 0
    assert plane.api.get(path_of(lock)) == lock
    again = start("a")
    again.wait_err("Continuing as the leader")
    assert witness.wait_start(2).identity == "a"
    again.signal(signal.SIGTERM)
    assert again.wait() == 0
    plane.api.delete(path_of(pods["a"]))
    assert witness.wait_start(3).identity == "b"
    witness.check(terms=3)


def test_without_the_feature_gate_there_are_no_lease_candidates(plain_plane: ControlPlane) -> None:
    assert plain_plane.api.request("GET", "/apis/coordination.k8s.io/v1beta1")[0] == 404
