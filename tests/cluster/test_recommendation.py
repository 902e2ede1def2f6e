"""A leader that ends recommends the best standby, at a real API server: a rolling update costs one handover."""

from __future__ import annotations

import re
import signal
from typing import TYPE_CHECKING

import pytest

from kleader.locks.lock_annotations import RECOMMENDED
from kleader.locks.rbac import event_permissions, lock_permissions, registration_permissions, role_rules
from tests.cluster.fleet import PATIENT, History, kill_whole
from tests.support.api import path
from tests.support.objects import owned_by

if TYPE_CHECKING:
    from tests.cluster.fleet import Fleet
    from tests.support.controlplane import ControlPlane
    from tests.support.plane import Plane
    from tests.support.processes import Process

SLOW = ("--term-delay=1",)
OLD, NEW = "web-6b7f9c5d48", "web-79d8fb6c4f"
REVISION = "deployment.kubernetes.io/revision"


def end(leader: Process, expected: str) -> None:
    """TERM, once the leader knows that this standby is the best one."""
    leader.wait_log("standby_chosen", rf"should be {expected}$")
    leader.signal(signal.SIGTERM)
    assert leader.wait() == 0, leader.err


def recommended(history: History) -> list[str]:
    """What the releases that the Lease has shown recommend."""
    notes = (seen["metadata"]["annotations"].get(RECOMMENDED, "") for _, seen in history.states)
    return [text.partition(" ")[2] for text in notes if text]


def replica_sets(plane: Plane, namespace: str, revisions: dict[str, int]) -> None:
    """Create those of a Deployment that is there: a garbage collector of another test may run."""
    labels = {"app": "web"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "main", "image": "none"}]}}
    spec = {"replicas": 0, "selector": {"matchLabels": labels}, "template": template}
    made = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"namespace": namespace, "name": "web"}}
    deployment = plane.api.create({**made, "spec": {**spec, "paused": True}})
    for name, revision in revisions.items():
        metadata = {"namespace": namespace, "name": name, "annotations": {REVISION: str(revision)}}
        owners = [{**owned_by(deployment), "controller": True}]
        plane.api.create(
            {**made, "kind": "ReplicaSet", "metadata": {**metadata, "ownerReferences": owners}, "spec": spec}
        )


def in_pod(name: str) -> dict[str, str]:
    return {"POD_NAME": name}


def test_the_lock_of_a_leader_that_ends_goes_to_the_standby_of_highest_priority(fleet: Fleet) -> None:
    first = fleet.start("a", "-v", timings=PATIENT)
    fleet.witness.wait_start()
    for identity, priority in (("b", 0), ("c", 2), ("d", 1)):
        fleet.registered(identity, f"--priority={priority}", behind="a", timings=PATIENT)
    history = History(fleet)
    end(first, "c")
    assert fleet.witness.wait_start(2).identity == "c"
    assert recommended(history) == ["c"]
    fleet.wait_renewals()
    assert RECOMMENDED not in fleet.lease()["metadata"]["annotations"]
    fleet.witness.check(terms=2)


def test_a_standby_that_dies_as_it_is_recommended_costs_a_retry_period(fleet: Fleet) -> None:
    """Nothing is known of its death: it is listed, and the leader recommends it."""
    first = fleet.start("a", "-v", timings=PATIENT)
    fleet.witness.wait_start()
    other = fleet.registered("b", behind="a", timings=PATIENT)
    dead = fleet.registered("c", "--priority=1", behind="a", timings=PATIENT)
    first.wait_log("standby_chosen", "should be c$")
    kill_whole(dead)
    end(first, "c")
    assert fleet.witness.wait_start(2).identity == "b"
    (waited,) = re.findall(r"the lock (\d+\.?\d*)s after a released it", other.wait_log("acquired").message)
    assert 1 <= float(waited) < 15, "a retry period of 1 s, and no lease duration of 30 s"
    fleet.witness.check(terms=2)


@pytest.mark.parametrize("template", ["new", "rolled back"])
def test_of_equal_standbys_the_one_of_the_newest_template_leads_next(fleet: Fleet, template: str) -> None:
    """Though another one waits for longer. A rollback while the standbys wait makes the old template the newest."""
    replica_sets(fleet.plane, fleet.namespace, {OLD: 1, NEW: 2})
    admin = fleet.plane.kubeconfig(namespace=fleet.namespace)
    pod = in_pod(f"{OLD}-aaaaa")
    first = fleet.start("a", "-v", does=SLOW, timings=PATIENT, env=pod, kubeconfig=admin)
    fleet.witness.wait_start()
    fleet.registered("old-1", behind="a", timings=PATIENT, env=in_pod(f"{OLD}-bbbbb"))
    fleet.registered("new", behind="a", timings=PATIENT, env=in_pod(f"{NEW}-ccccc"))
    fleet.registered("old-2", behind="a", timings=PATIENT, env=in_pod(f"{OLD}-ddddd"))
    first.wait_log("standby_chosen", "should be new$")
    if template == "rolled back":
        old = path("apps/v1", "ReplicaSet", fleet.namespace, OLD)
        fleet.plane.api.merge(old, {"metadata": {"annotations": {REVISION: "3"}}})
    history = History(fleet)
    end(first, "new")
    expected = "new" if template == "new" else "old-1"
    assert fleet.witness.wait_start(2).identity == expected
    assert recommended(history) == [expected]
    fleet.witness.check(terms=2)


def test_a_leader_without_replica_set_permission_warns_once_and_uses_the_list(
    own_plane: ControlPlane, fleet: Fleet
) -> None:
    user = own_plane.new_bare_user()
    permissions = (*lock_permissions("lease", "x"), *registration_permissions("x"), *event_permissions())
    own_plane.grant(user, fleet.namespace, role_rules(permissions))
    config = own_plane.kubeconfig(user, fleet.namespace)
    first = fleet.start("a", "-v", timings=PATIENT, kubeconfig=config)
    fleet.witness.wait_start()
    fleet.registered("old", behind="a", timings=PATIENT, env=in_pod(f"{OLD}-bbbbb"))
    fleet.registered("new", behind="a", timings=PATIENT, env=in_pod(f"{NEW}-ccccc"))
    first.wait_err("warning: grant get on replicasets, so that a rolling update changes the leader only once")
    end(first, "old")
    assert fleet.witness.wait_start(2).identity == "old"
    assert len(first.logged("recommendation_failed", level="WARNING")) == 1
    fleet.witness.check(terms=2)
