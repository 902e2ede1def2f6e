"""What an observer makes of objects at the API, whoever wrote them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from kleader.election.record import SECOND, UNKNOWN, Record, parse_time
from kleader.locks.notes import INCARNATION
from kleader.watching import decode
from kleader.watching.pairs import arrange
from kleader.watching.seen import Ref, Seen, State, at_a_look, watched
from tests.support.api import lease
from tests.support.objects import config_map, endpoints, record

if TYPE_CHECKING:
    from collections.abc import Mapping

WALL = parse_time("2026-11-21T09:00:00Z")
POD: dict[str, Any] = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "pod-0", "uid": "u"}}


def held(kind: str = "lease", holder: str = "a", name: str = "x", **fields: Any) -> Seen:  # noqa: ANN401 - a record's
    defaults = {"duration": 15, "acquired": WALL, "renewed": WALL}
    return Seen(kind, "ns", name, Record(holder, **{**defaults, **fields}))


# --- decoding


def test_a_lease_of_client_go_is_read_with_the_one_who_wrote_it() -> None:
    found = lease("ns", "x", "a", 15, leaseTransitions=3)
    found["metadata"] |= {"uid": "u", "resourceVersion": "7"}
    found["metadata"]["managedFields"] = [
        {"manager": "old", "time": "2026-01-01T00:00:00Z"},
        {"manager": "kube-controller-manager", "time": "2026-01-02T00:00:00Z"},
    ]
    seen = decode.lease(found)
    assert seen
    assert (seen.record.holder, seen.record.transitions, seen.fault) == ("a", 3, "")
    assert seen.objects == (Ref("coordination.k8s.io/v1", "Lease", "x", "u", "7", "kube-controller-manager"),)


def test_the_python_clients_lenient_record_is_understood() -> None:
    text = json.dumps(
        {"holderIdentity": "p", "leaseDurationSeconds": "17", "acquireTime": "2026-11-21 09:00:00.5", "renewTime": None}
    )
    seen = decode.config_map(config_map("ns", "x", text))
    assert seen
    assert seen.record == Record("p", 17, WALL + SECOND // 2, None, 0)


@pytest.mark.parametrize("plural", ["configmaps", "endpoints"])
def test_an_object_without_a_record_is_no_lock(plural: str) -> None:
    assert (decode.config_map if plural == "configmaps" else decode.endpoints)(config_map("ns", "x")) is None


def test_a_config_map_of_one_pod_is_a_lock_for_life() -> None:
    seen = decode.config_map(config_map("ns", "x", owners=[POD]))
    assert seen
    assert (seen.kind, seen.record.holder, seen.lasting) == ("leader-for-life", "pod-0", True)


@pytest.mark.parametrize("owners", [[], [POD, POD], [{**POD, "kind": "Node"}]])
def test_a_config_map_of_anybody_else_is_a_lock_only_if_a_kleader_wrote_it_and_then_a_malformed_one(
    owners: list[dict[str, Any]],
) -> None:
    found = config_map("ns", "x", owners=owners)
    assert decode.config_map(found) is None
    found["metadata"]["annotations"] = {INCARNATION: "i"}
    seen = decode.config_map(found)
    assert seen
    assert "and not one Pod" in seen.fault


def test_a_lock_for_life_that_was_given_up_is_free() -> None:
    found = config_map("ns", "x", owners=[POD])
    found["metadata"]["annotations"] = {INCARNATION: ""}
    seen = decode.config_map(found)
    assert seen
    assert at_a_look(seen, WALL).state is State.FREE


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
def test_a_malformed_record_is_told_by_object_and_field_and_counts_as_held(text: str) -> None:
    for found in (decode.config_map(config_map("ns", "x", text)), decode.endpoints(endpoints("ns", "x", text))):
        assert found
        assert found.fault.startswith(f"the {found.objects[0].kind} ns/x: its annotation control-plane.alpha.")
        assert len(found.fault) < 300
        assert at_a_look(found, WALL).state is watched(found, 1e9, WALL).state is State.MALFORMED


@pytest.mark.parametrize("spec", [None, [], "x", {"holderIdentity": "a"}, {"holderIdentity": []}])
def test_a_lease_whatever_its_spec_is_shown(spec: object) -> None:
    found = {**lease("ns", "x", "a", 15), "spec": spec}
    seen = decode.lease(found)
    assert seen
    assert bool(seen.fault) is (spec is not None)


@pytest.mark.parametrize("key", ["annotations", "labels", "ownerReferences", "managedFields", "uid", "namespace"])
@pytest.mark.parametrize("value", [None, 7, "x", [7], {"a": 7}])
def test_metadata_that_is_not_as_it_should_be_ends_in_no_error(key: str, value: object) -> None:
    for read in (decode.lease, decode.config_map, decode.endpoints):
        found = config_map("ns", "x", record("a"))
        found["metadata"][key] = value
        read(found)


# --- what can be said of it


def test_one_look_calls_overdue_what_should_be_over() -> None:
    seen = held()
    assert at_a_look(seen, WALL + 14 * SECOND).state is State.HELD
    assert at_a_look(seen, WALL + 14 * SECOND).left == 1
    look = at_a_look(seen, WALL + 60 * SECOND)
    assert (look.state, look.left) == (State.OVERDUE, -45)


def test_what_was_watched_expires_by_the_observers_clock_whatever_the_record_says_of_time() -> None:
    seen = held(renewed=0, acquired=None)
    assert watched(seen, 14.9, WALL).state is State.HELD
    assert watched(seen, 15, WALL).state is State.EXPIRED


def test_a_record_without_times_is_held_for_who_looks_once() -> None:
    look = at_a_look(held(renewed=None), WALL)
    assert (look.state, look.left) == (State.HELD, None)


# --- pairs


def arranged(*objects: Seen, asked: str = "", named: bool = False, known: Mapping[Any, Any] | None = None) -> list[str]:
    locks = arrange({seen.key: seen for seen in objects}, asked, named=named, known=known or {})
    return sorted(f"{seen.kind} {seen.record.holder}" for seen in locks)


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


def test_who_asks_for_a_pair_gets_pairs_and_by_name_also_half_a_pair() -> None:
    assert arranged(held("configmap"), held(holder="b"), asked="configmapsleases") == [f"configmapsleases {UNKNOWN}"]
    assert arranged(held("configmap"), asked="configmapsleases") == []
    assert arranged(held("configmap"), asked="configmapsleases", named=True) == ["configmap a"]


def test_who_asks_for_one_kind_gets_that_alone() -> None:
    assert arranged(held("configmap"), held("leader-for-life", name="y"), asked="configmap") == ["configmap a"]


def test_a_pair_lasts_as_long_as_the_longer_of_both_and_is_malformed_if_either_is() -> None:
    (both,) = arrange({s.key: s for s in (held("configmap", duration=60), held())}, "", named=False)
    assert both.record.duration == 60
    broken = Seen("configmap", "ns", "x", fault="broken")
    (both,) = arrange({s.key: s for s in (broken, held())}, "configmapsleases", named=False)
    assert both.fault == "broken"


def test_of_two_states_of_one_object_the_later_one_is_told_by_its_version() -> None:
    """Versions are decimal numbers of any length."""
    first, later = (Seen("lease", "ns", "x", objects=(Ref("v1", "Lease", "x", "u", v, ""),)) for v in ("99", "100"))
    assert first.older(later)
    assert not later.older(first)
    other = Seen("lease", "ns", "x", objects=(Ref("v1", "Lease", "x", "another", "5", ""),))
    assert not other.older(later)
