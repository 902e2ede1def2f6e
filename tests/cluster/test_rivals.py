"""The real client-go candidates are what the other tests take them for."""

from __future__ import annotations

import json
import signal
from typing import TYPE_CHECKING

import pytest

from tests.support.api import path

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support.api import Object
    from tests.support.checker import Witness
    from tests.support.clientgo import Lock, Version
    from tests.support.plane import Plane
    from tests.support.processes import Process, Processes

ANNOTATION = "control-plane.alpha.kubernetes.io/leader"
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
        timing = {"lease_duration": "4s", "renew_deadline": "3s", "retry_period": "500ms", "stop_first": True}
        kubeconfig = plane.kubeconfig(namespace=namespace)
        argv = clientgo(kubeconfig, namespace, "x", identity, witness.command("--term-delay=0.2"), **{**timing, **more})
        return processes.start(argv, name=identity)

    return begin


def holder(thing: Object) -> str:
    if thing["kind"] == "Lease":
        return str(thing["spec"]["holderIdentity"])
    return str(json.loads(thing["metadata"]["annotations"][ANNOTATION])["holderIdentity"])


def on_the_objects(plane: Plane, namespace: str, lock: Lock) -> set[str]:
    versions = {"Lease": "coordination.k8s.io/v1"}
    return {holder(plane.api.get(path(versions.get(kind, "v1"), kind, namespace, "x"))) for kind in KINDS[lock]}


@pytest.mark.parametrize(("version", "lock"), [("current", "leases"), *(("legacy", lock) for lock in KINDS)])
def test_a_candidate_leads_on_each_lock_that_its_client_go_has_and_hands_over(
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
    assert sorted(said) == sorted((kind, "LeaderElection", "x", text) for kind in KINDS[lock] for text in texts)
