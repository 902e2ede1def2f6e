"""The rules of kleader.locks.rbac are enough for each lock, and none of them is too much."""

from __future__ import annotations

import re
import sys
import time
from typing import TYPE_CHECKING

import pytest

from kleader.locks.rbac import (
    Permission,
    event_permissions,
    lock_permissions,
    registration_permissions,
    role_rules,
)
from tests.cluster.contract import COORDINATED, LOCKS, NOON, OBJECTS, SECOND, Entry, Place
from tests.support.objects import lease_candidate, owned_by
from tests.support.processes import wait_until

if TYPE_CHECKING:
    from tests.conftest import Trials
    from tests.support.controlplane import ControlPlane
    from tests.support.plane import Plane
    from tests.support.processes import Process, Processes

FAILED = 125
QUICK = ["--retry-period=1s", "--renew-deadline=4s", "--lease-duration=6s"]
PATIENT = ["--retry-period=1s", "--renew-deadline=20s", "--lease-duration=30s"]
POLLS = "polling instead"


@pytest.fixture(params=LOCKS)
def lock(request: pytest.FixtureRequest) -> str:
    kind: str = request.param
    return kind


def run(processes: Processes, place: Place, config: object, *options: str) -> Process:
    timings = QUICK if place.coordinated else PATIENT
    argv = [sys.executable, "-m", "kleader", "run", *place.options, *timings, *options]
    return processes.start([*argv, f"--kubeconfig={config}", "--", "echo", "ran"], name=place.name)


def held_by_another() -> Entry:
    """For ten minutes from now, by everybody's clock."""
    now = time.time() - NOON / SECOND
    return Entry("somebody", 600, now, now, 3)


def without(plane: ControlPlane, place: Place, missing: Permission) -> tuple[str, object]:
    """A user who may do all that the lock and its Events need but this; and its kubeconfig."""
    user = plane.new_bare_user()
    all_of_them = (*place.needed(), *registration_permissions(place.name), *event_permissions())
    plane.grant(user, place.namespace, role_rules(each for each in all_of_them if each != missing))
    return user, plane.kubeconfig(user, place.namespace)


@pytest.mark.parametrize("lock", OBJECTS)
def test_each_missing_permission_is_reported_in_a_line_and_ends_no_term(
    own_plane: ControlPlane, namespace: str, lock: str, processes: Processes, trials: Trials
) -> None:
    """One after the other: with it taken away alone the lock is not had, or something is said once and it is."""
    started: list[tuple[Permission, Place, str, Process]] = []
    for number, missing in enumerate(lock_permissions(lock, "x")):
        place = Place(own_plane, namespace, lock, f"x{number}")
        permission = next(each for each in lock_permissions(lock, place.name) if each[:3] == missing[:3])
        if permission.verb == "watch":
            place.plant(Entry("somebody", 600, 0, 0, 3))
        elif permission.verb == "update":
            place.plant(Entry("", 1, 0, 0, 3), metadata={"labels": {"kept": "1"}})
        user, config = without(own_plane, place, permission)
        patience = "--wait=60s" if permission.verb == "watch" else "--no-wait"
        started.append((permission, place, user, run(processes, place, config, patience)))
    for permission, place, user, process in started:
        if permission.verb == "watch":  # which the record must outlive
            process.wait_log("watch_failed")
            place.write(Entry("", 1, 0, 0, 3))
        status = process.wait()
        assert "Traceback" not in process.err
        said = [line for line in process.err.splitlines() if "cannot " in line]
        verbs = {permission.verb, "update"} if permission.verb == "create" else {permission.verb}  # a PUT is either
        assert len(said) == 1, process.err
        assert re.search(rf'User "{user}" cannot ({"|".join(verbs)}) resource "{permission.resource}"', said[0]), said
        assert "grant it in a Role" in said[0]
        if permission.without:
            assert (status, process.out) == (0, "ran\n"), process.err
            assert (POLLS in said[0]) == (permission.verb == "watch")
        else:
            assert (status, process.out) == (FAILED, ""), process.err
        if permission.verb == "update":
            assert all(thing["metadata"]["labels"] == {"kept": "1"} for thing in place.objects())
    trials.count(len(started), "permissions taken away")


@pytest.mark.timeout(360)
def test_each_missing_permission_is_reported_in_coordinated_election(
    own_plane: ControlPlane, namespace: str, processes: Processes, trials: Trials
) -> None:
    """Only the control plane creates the Lease; without a permission there is no fallback to plain election."""
    started: list[tuple[Permission, str, Process]] = []
    for number, missing in enumerate(Place(own_plane, namespace, COORDINATED).needed()):
        place = Place(own_plane, namespace, COORDINATED, f"x{number}")
        permission = next(each for each in place.needed() if each[:3] == missing[:3])
        if permission[1:3] == ("leasecandidates", "get"):  # a candidate of this name has crashed
            place.plant(held_by_another())
            own_plane.api.create(lease_candidate(namespace, f"c{number}", place.name))
        user, config = without(own_plane, place, permission)
        patience = "--wait=60s" if permission.without or permission[1:3] == ("leases", "create") else "--wait=20s"
        started.append((permission, user, run(processes, place, config, patience, f"--identity=c{number}")))
    for permission, user, process in started:
        status = process.wait()
        assert "Traceback" not in process.err
        assert "plain election" not in process.err
        verbs = {permission.verb, "update"} if permission.verb == "create" else {permission.verb}
        refusal = rf'User "{user}" cannot ({"|".join(verbs)}) resource "{permission.resource}"'
        said = {line.message for line in process.logged(about="cannot ") if line.role in {"candidate", "leader"}}
        if permission[1:3] == ("leases", "create"):  # it is the only candidate
            assert (status, process.out, said) == (0, "ran\n", set())
            continue
        assert len(said) == 1, process.err
        assert re.search(refusal, said.pop())
        assert (status, process.out) == ((0, "ran\n") if permission.without else (FAILED, "")), process.err
        assert permission.verb != "watch" or process.err.count(POLLS) == 1
    trials.count(len(started), "permissions taken away")


def test_printed_role_suffices_to_acquire_hand_over_and_release_each_lock(
    own_plane: ControlPlane, namespace: str, lock: str, processes: Processes
) -> None:
    place = Place(own_plane, namespace, lock)
    users = [place.user() for _ in range(2)]
    assert run(processes, place, own_plane.kubeconfig(users[0], namespace)).wait() == 0
    place.write(held_by_another())
    second = run(processes, place, own_plane.kubeconfig(users[1], namespace))
    second.wait_log("leader_observed", r"is somebody\b")

    def watched() -> int:
        return sum(request["verb"] == "watch" for request in own_plane.audit_requests(users[1]))

    wait_until(lambda: watched() >= len(place.kinds) + place.coordinated, "its watch")
    place.write(Entry("", 1, 0, 0, 3))
    assert second.wait() == 0, second.err
    entry = place.entry()
    assert entry
    assert (entry.holder, entry.duration, entry.transitions) == ("", 1, 4)
    asked = [request for user in users for request in own_plane.audit_requests(user)]
    refused = [request for request in asked if request.get("responseStatus", {}).get("code") == 403]
    assert {request["objectRef"]["resource"] for request in refused} <= {"events"}


@pytest.mark.parametrize("lock", ["lease", "configmapsleases"])
def test_a_missing_namespace_is_reported_with_the_command_that_creates_it(
    plane: Plane, lock: str, processes: Processes
) -> None:
    place = Place(plane, "nowhere", lock)
    process = run(processes, place, plane.kubeconfig(), "-n", "nowhere", "--no-wait")
    assert process.wait() == FAILED
    said = "the namespace nowhere does not exist: kubectl create namespace nowhere, or give -n"
    assert process.err.count(said) == 1
    assert process.out == ""


def test_a_namespace_being_deleted_is_not_reported_as_a_missing_permission(
    plane: Plane, namespace: str, lock: str, processes: Processes
) -> None:
    place = Place(plane, namespace, lock)
    place.named("stays").plant_one(place.kinds[0], metadata={"finalizers": ["example.org/stays"]})
    plane.api.delete(f"/api/v1/namespaces/{namespace}")
    process = run(processes, place, plane.kubeconfig(namespace=namespace), "--no-wait")
    assert process.wait() == FAILED
    assert len(re.findall("the namespace is being deleted: ", process.err)) == 1
    assert "grant" not in process.err
    for path in place.named("stays").paths:
        if plane.api.find(path):
            plane.api.merge(path, {"metadata": {"finalizers": None}})


def test_an_object_of_another_program_gives_one_warning_and_stays_unchanged(
    plane: Plane, namespace: str, lock: str, processes: Processes
) -> None:
    """Taken, renewed and released: with its owner, which takes it along some day, and all else that it holds."""
    place = Place(plane, namespace, lock)
    owner = plane.api.create(place.named("owner").body("ConfigMap", None))
    metadata = {"ownerReferences": [owned_by(owner)], "labels": {"kept": "1"}, "annotations": {"example.org/a": "2"}}
    nobody = Entry("", 1) if place.coordinated else None  # kube-apiserver 1.36 panics where there is no holder at all
    place.plant(nobody, metadata=metadata)
    process = run(processes, place, place.kubeconfig())
    assert process.wait() == 0, process.err
    assert process.out == "ran\n"
    for kind, thing in zip(place.kinds, place.objects(), strict=True):
        said = f"the {kind} {namespace}/x belongs to the ConfigMap owner: it is deleted when that is"
        assert process.err.count(said) == 1
        assert thing["metadata"]["ownerReferences"] == metadata["ownerReferences"]
        assert thing["metadata"]["labels"] == {"kept": "1"}
        assert thing["metadata"]["annotations"]["example.org/a"] == "2"
    entry = place.entry()
    assert entry
    assert (entry.holder, entry.transitions) == ("", 1)


def test_a_rivals_shorter_duration_gives_a_warning_on_annotations(
    plane: Plane, namespace: str, lock: str, processes: Processes
) -> None:
    place = Place(plane, namespace, lock)
    place.plant(Entry("rival", 5))
    process = run(processes, place, place.kubeconfig(), "--no-wait")
    assert process.wait() == 124
    said = "rival leads with a lease duration of 5s, less than this candidate's 30s"
    assert process.err.count(said) == (lock not in {"lease", COORDINATED})


@pytest.mark.parametrize("lock", ["configmap", "configmapsleases"])
def test_a_config_map_of_a_mebibyte_is_taken_and_keeps_its_data(
    plane: Plane, namespace: str, processes: Processes, lock: str
) -> None:
    place = Place(plane, namespace, lock)
    data = {"a": "x" * ((1 << 20) - 1)}
    place.plant_one("ConfigMap", data=data)
    process = run(processes, place, place.kubeconfig())
    assert process.wait() == 0, process.err
    assert process.out == "ran\n"
    assert place.objects()[0]["data"] == data


@pytest.mark.parametrize("lock", OBJECTS)
def test_object_with_full_annotations_is_reported_in_one_line_and_left_unchanged(
    plane: Plane, namespace: str, processes: Processes, lock: str
) -> None:
    """Each of the lock's objects."""
    full = {"annotations": {"a": "x" * (256 * 1024 - 10)}, "labels": {"kept": "1"}}
    for number, kind in enumerate(OBJECTS[lock]):
        place = Place(plane, namespace, lock, f"x{number}")
        before = place.plant_one(kind, metadata=full)
        process = run(processes, place, place.kubeconfig(), "--no-wait")
        assert process.wait() == FAILED
        assert process.out == ""
        said = [line for line in process.err.splitlines() if "the lock's object is full" in line]
        assert len(said) == 1, process.err
        assert said[0].endswith("remove something from it, or give another --name")
        assert plane.api.get(place.paths[number]) == before
