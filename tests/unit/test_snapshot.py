"""What an observer makes of objects at the API, of any client."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from kleader.election.record import SECOND, UNKNOWN, Record, micro_time, parse_time
from kleader.locks import lock_annotations, run_history
from kleader.locks.lock_annotations import INCARNATION
from kleader.locks.run_history import LAST_ENDED, LAST_RUN, Run
from kleader.observe import decode
from kleader.observe.assemble import assemble
from kleader.observe.snapshot import LockSnapshot, LockState, ObjectRef, status_from_read, status_from_watch
from tests.support.api import lease
from tests.support.objects import config_map, endpoints, record

if TYPE_CHECKING:
    from collections.abc import Mapping

WALL = parse_time("2026-11-21T09:00:00Z")
RUN = Run("host-b", "48213", "", WALL, WALL, 0, "exited", released=7)
POD: dict[str, Any] = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "pod-0", "uid": "u"}}


def held(kind: str = "lease", holder: str = "a", name: str = "x", **fields: Any) -> LockSnapshot:  # noqa: ANN401 - a record's
    defaults = {"duration": 15, "acquired": WALL, "renewed": WALL}
    return LockSnapshot(kind, "ns", name, Record(holder, **{**defaults, **fields}))


# --- decoding


def test_a_lease_of_client_go_is_read_with_the_field_manager_of_its_last_write() -> None:
    found = lease("ns", "x", "a", 15, leaseTransitions=3)
    found["metadata"] |= {"uid": "u", "resourceVersion": "7"}
    found["metadata"]["managedFields"] = [
        {"manager": "old", "time": "2026-01-01T00:00:00Z"},
        {"manager": "kube-controller-manager", "time": "2026-01-02T00:00:00Z"},
    ]
    snapshot = decode.lease(found)
    assert snapshot
    assert (snapshot.record.holder, snapshot.record.transitions, snapshot.fault) == ("a", 3, "")
    assert snapshot.objects == (ObjectRef("coordination.k8s.io/v1", "Lease", "x", "u", "7", "kube-controller-manager"),)


@pytest.mark.parametrize(
    ("spec", "runs", "known"),
    [
        ({}, [RUN], ("host-b", WALL)),
        ({}, [], ("", WALL)),
        ({}, [RUN._replace(released=None)], ("", WALL)),
        ({"leaseTransitions": 8}, [RUN], ("", WALL)),
        ({"acquireTime": "2026-11-21T08:00:00Z"}, [RUN], ("", None)),
        ({"holderIdentity": "a"}, [RUN], ("", None)),
    ],
    ids=["kleader released it", "client-go did", "no release", "another term since", "emptied by hand", "it is held"],
)
def test_a_free_lock_names_its_last_leader_only_if_the_release_recorded_it(
    spec: dict[str, object], runs: list[Run], known: tuple[str, int | None]
) -> None:
    times = dict.fromkeys(("acquireTime", "renewTime"), micro_time(WALL))
    found = lease("ns", "x", "", 1, **{"leaseTransitions": 7, **times, **spec})
    found["metadata"]["annotations"] = {LAST_RUN: run_history.write(runs)}
    snapshot = decode.lease(found)
    assert snapshot
    assert (snapshot.last_holder, snapshot.free_since) == known


@pytest.mark.parametrize(
    ("holder", "transitions", "ended", "unrecorded"),
    [
        ("b", 8, "7", 0), ("b", 9, "7", 1), ("b", 12, "7", 4), ("", 7, "7", 0), ("", 8, "7", 1),
        ("a", 7, "7", 0), ("b", 0, "7", 0), ("b", 9, None, None), ("b", 9, "-1", None), ("b", 9, "9" * 99, None),
    ],
)  # fmt: skip
def test_terms_that_ended_without_a_record_are_counted(
    holder: str, transitions: int, ended: str | None, unrecorded: int | None
) -> None:
    """Of a lock that is held, free, kept to the end of its lease by the last leader, or that was created again."""
    found = lease("ns", "x", holder, 15, leaseTransitions=transitions)
    found["metadata"]["annotations"] = {LAST_ENDED: ended} if ended else {}
    snapshot = decode.lease(found)
    assert snapshot
    assert snapshot.unrecorded == unrecorded


def test_a_term_that_an_earlier_kleader_released_and_recorded_ended_in_order() -> None:
    """In a fleet of both: that one writes LAST_RUN alone, and keeps what this one wrote into LAST_ENDED."""
    found = lease("ns", "x", "", 1, leaseTransitions=7)
    found["metadata"]["annotations"] = {LAST_RUN: run_history.write([RUN]), LAST_ENDED: "6"}
    snapshot = decode.lease(found)
    assert snapshot
    assert snapshot.unrecorded == 0


@pytest.mark.parametrize("pod", ["p", "p" * 254, "p q", "p b"])
def test_an_annotation_without_the_name_of_a_pod_is_ignored(pod: str) -> None:
    """A client that may write the lock may write any annotation."""
    found = lease("ns", "x", "b", 15)
    found["metadata"]["annotations"] = {lock_annotations.POD: f"{pod} b"}
    snapshot = decode.lease(found)
    assert snapshot
    assert snapshot.pod == ("p" if pod == "p" else "")


def test_the_lenient_record_of_the_python_client_is_read() -> None:
    text = json.dumps(
        {"holderIdentity": "p", "leaseDurationSeconds": "17", "acquireTime": "2026-11-21 09:00:00.5", "renewTime": None}
    )
    snapshot = decode.config_map(config_map("ns", "x", text))
    assert snapshot
    assert snapshot.record == Record("p", 17, WALL + SECOND // 2, None, 0)


@pytest.mark.parametrize("plural", ["configmaps", "endpoints"])
def test_an_object_without_a_record_is_no_lock(plural: str) -> None:
    assert (decode.config_map if plural == "configmaps" else decode.endpoints)(config_map("ns", "x")) is None


def test_a_config_map_that_one_pod_owns_is_a_leader_for_life_lock() -> None:
    snapshot = decode.config_map(config_map("ns", "x", owners=[POD]))
    assert snapshot
    assert (snapshot.kind, snapshot.record.holder, snapshot.non_expiring) == ("leader-for-life", "pod-0", True)


@pytest.mark.parametrize("owners", [[], [POD, POD], [{**POD, "kind": "Node"}]])
def test_a_config_map_of_kleader_without_an_owning_pod_is_a_malformed_lock(
    owners: list[dict[str, Any]],
) -> None:
    found = config_map("ns", "x", owners=owners)
    assert decode.config_map(found) is None
    found["metadata"]["annotations"] = {INCARNATION: "i"}
    snapshot = decode.config_map(found)
    assert snapshot
    assert "and not one Pod" in snapshot.fault


def test_a_leader_for_life_lock_that_was_released_is_free() -> None:
    found = config_map("ns", "x", owners=[POD])
    found["metadata"]["annotations"] = {INCARNATION: ""}
    snapshot = decode.config_map(found)
    assert snapshot
    assert status_from_read(snapshot, WALL).state is LockState.FREE


MALFORMED = {
    "nothing": "",
    "no JSON": "rubbish",
    "a list": "[]",
    "deep": "{" * 100_000,
    "holder": '{"holderIdentity":7}',
    "no duration": '{"holderIdentity":"a"}',
    "negative": record("a", -1),
    "absurd": record("a", 10**12),
    "1 MB": record("a" * (1 << 20)),
    "time": record("a", renewTime="yesterday"),
    "transitions": record("a", leaderTransitions=-1),
}


@pytest.mark.parametrize("text", MALFORMED.values(), ids=MALFORMED)
def test_a_malformed_record_counts_as_held_and_the_fault_names_object_and_field(text: str) -> None:
    for found in (decode.config_map(config_map("ns", "x", text)), decode.endpoints(endpoints("ns", "x", text))):
        assert found
        assert found.fault.startswith(f"the {found.objects[0].kind} ns/x: its annotation control-plane.alpha.")
        assert len(found.fault) < 300
        assert status_from_read(found, WALL).state is status_from_watch(found, 1e9, WALL).state is LockState.MALFORMED


@pytest.mark.parametrize("spec", [None, [], "x", {"holderIdentity": "a"}, {"holderIdentity": []}])
def test_a_lease_is_shown_whatever_its_spec(spec: object) -> None:
    found = {**lease("ns", "x", "a", 15), "spec": spec}
    snapshot = decode.lease(found)
    assert snapshot
    assert bool(snapshot.fault) is (spec is not None)


@pytest.mark.parametrize("key", ["annotations", "labels", "ownerReferences", "managedFields", "uid", "namespace"])
@pytest.mark.parametrize("value", [None, 7, "x", [7], {"a": 7}])
def test_unexpected_metadata_raises_no_error(key: str, value: object) -> None:
    for read in (decode.lease, decode.config_map, decode.endpoints):
        found = config_map("ns", "x", record("a"))
        found["metadata"][key] = value
        read(found)


# --- what can be said of it


def test_one_read_shows_an_expired_record_as_overdue() -> None:
    snapshot = held()
    assert status_from_read(snapshot, WALL + 14 * SECOND).state is LockState.HELD
    assert status_from_read(snapshot, WALL + 14 * SECOND).seconds_left == 1
    status = status_from_read(snapshot, WALL + 60 * SECOND)
    assert (status.state, status.seconds_left) == (LockState.OVERDUE, -45)


def test_a_watched_lock_expires_by_the_observers_clock_alone() -> None:
    snapshot = held(renewed=0, acquired=None)
    assert status_from_watch(snapshot, 14.9, WALL).state is LockState.HELD
    assert status_from_watch(snapshot, 15, WALL).state is LockState.EXPIRED


def test_one_read_of_a_record_without_times_shows_it_as_held() -> None:
    status = status_from_read(held(renewed=None), WALL)
    assert (status.state, status.seconds_left) == (LockState.HELD, None)


# --- pairs


def arranged(
    *objects: LockSnapshot, kind: str = "", by_name: bool = False, known: Mapping[Any, Any] | None = None
) -> list[str]:
    locks = assemble(objects, kind, by_name=by_name, known=known or {})
    return sorted(f"{snapshot.kind} {snapshot.record.holder}" for snapshot in locks)


def test_two_objects_with_one_holder_are_one_lock() -> None:
    assert arranged(held("configmap"), held()) == ["configmapsleases a"]
    assert arranged(held("endpoints"), held()) == ["endpointsleases a"]
    assert arranged(held("endpoints"), held(), held("configmap", "b")) == ["configmap b", "endpointsleases a"]


def test_two_objects_with_two_holders_are_two_locks_unless_they_were_one() -> None:
    objects = held("configmap"), held(holder="b")
    assert arranged(*objects) == ["configmap a", "lease b"]
    assert arranged(*objects, known={("configmapsleases", "ns", "x"): 1}) == [f"configmapsleases {UNKNOWN}"]


def test_objects_of_two_names_are_two_locks() -> None:
    assert arranged(held("configmap"), held(name="y")) == ["configmap a", "lease a"]


def test_a_multilock_kind_selects_multilocks_and_by_name_also_one_of_two_objects() -> None:
    assert arranged(held("configmap"), held(holder="b"), kind="configmapsleases") == [f"configmapsleases {UNKNOWN}"]
    assert arranged(held("configmap"), kind="configmapsleases") == []
    assert arranged(held("configmap"), kind="configmapsleases", by_name=True) == ["configmap a"]


def test_a_kind_selects_locks_of_that_kind_alone() -> None:
    assert arranged(held("configmap"), held("leader-for-life", name="y"), kind="configmap") == ["configmap a"]


def test_a_multilock_has_the_longer_lease_duration_and_is_malformed_if_either_object_is() -> None:
    (both,) = assemble((held("configmap", duration=60), held()), "", by_name=False)
    assert both.record.duration == 60
    broken = LockSnapshot("configmap", "ns", "x", fault="broken")
    (both,) = assemble((broken, held()), "configmapsleases", by_name=False)
    assert both.fault == "broken"


def test_the_later_of_two_states_of_an_object_has_the_greater_resource_version() -> None:
    """Versions are decimal numbers of any length."""
    first, later = (
        LockSnapshot("lease", "ns", "x", objects=(ObjectRef("v1", "Lease", "x", "u", v, ""),)) for v in ("99", "100")
    )
    assert first.is_older_than(later)
    assert not later.is_older_than(first)
    other = LockSnapshot("lease", "ns", "x", objects=(ObjectRef("v1", "Lease", "x", "another", "5", ""),))
    assert not other.is_older_than(later)
