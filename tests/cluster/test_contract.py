"""The contract of every lock at the real API server, as a user with exactly the permissions of that lock."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest

from kleader.election.events import Kind
from kleader.election.record import UNKNOWN, Record
from kleader.kube.errors import WatchError
from tests.cluster.contract import (
    INCARNATION,
    LEADER,
    LOCKS,
    OBJECTS,
    VERSIONS,
    Client,
    Entry,
    Place,
    annotation,
    entry_of,
    first,
    refused,
    spec,
)
from tests.support import faults
from tests.support.httpproxy import HttpProxy

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.api import Object
    from tests.support.controlplane import ControlPlane
    from tests.support.httpproxy import Request
    from tests.support.plane import Plane

LED = Entry("somebody", 15, -60, -2, 3)
MINE = Entry("me", 15, 1, 1, 4)
LATER = MINE._replace(renewed=3)
FREED = Entry("", 1, 5, 5, 4)
APPLY = "application/apply-patch+yaml"  # JSON is YAML


@pytest.fixture(params=LOCKS)
def place(request: pytest.FixtureRequest, plane: Plane, namespace: str) -> Place:
    return Place(plane, namespace, request.param)


def each(place: Place) -> Iterator[tuple[Place, str, str]]:
    """A place of its own for each of the lock's objects, that object's path, and how it is called in paths."""
    for which, kind in enumerate(place.kinds):
        there = place.named(f"x{which}")
        yield there, there.paths[which], f"/{kind.lower().removesuffix('s')}s"


def a_write(request: Request) -> bool:
    return request.method in {"PUT", "POST"}


# --- created, read, updated, released


def test_created_objects_equal_those_of_client_go(place: Place, client: Client) -> None:
    """Beside the record there is the incarnation, and nothing else."""
    lock = client.lock(place)
    assert refused(lock.get).kind is Kind.MISSING
    written = lock.write(None, MINE.record)
    assert (written.record, written.incarnation, written.fault, written.some_object_lacks_record) == (
        MINE.record,
        "term",
        "",
        False,
    )
    for thing, kind in zip(place.objects(), place.kinds, strict=True):
        kept = {INCARNATION: "term"} | ({} if kind == "Lease" else {LEADER: annotation(MINE)})
        assert thing["metadata"]["annotations"] == kept
        assert thing["metadata"].keys() == {
            *("name", "namespace", "uid", "resourceVersion", "creationTimestamp", "annotations", "managedFields")
        }
        assert thing.keys() == {"apiVersion", "kind", "metadata"} | ({"spec"} if kind == "Lease" else set())
        assert thing.get("spec") == (spec(MINE) if kind == "Lease" else None)
    assert written.token == place.versions()[0]
    assert lock.get().same_record(written)


def test_an_update_writes_the_same_record_as_client_go(place: Place, client: Client) -> None:
    before = place.plant(LED)
    lock = client.lock(place)
    seen = lock.get()
    assert (seen.record, seen.incarnation, seen.fault, seen.some_object_lacks_record) == (LED.record, "", "", False)
    written = lock.write(seen, MINE.record)
    again = lock.write(written, LATER.record)
    assert len({seen.version, written.version, again.version}) == 3
    for thing, old in zip(place.objects(), before, strict=True):
        assert thing["metadata"]["uid"] == old["metadata"]["uid"]
        assert thing["metadata"]["annotations"][INCARNATION] == "term"
        if thing["kind"] == "Lease":
            assert thing["spec"] == spec(LATER)
        else:
            assert thing["metadata"]["annotations"][LEADER] == annotation(LATER)


def test_a_release_empties_the_holder_and_removes_the_incarnation(place: Place, client: Client) -> None:
    place.plant(MINE, "term")
    lock = client.lock(place)
    freed = lock.write(lock.get(), FREED.record, "")
    assert (freed.record, freed.incarnation) == (FREED.record, "")
    assert place.entry() == FREED
    assert all(INCARNATION not in thing["metadata"].get("annotations", {}) for thing in place.objects())


def test_object_without_a_record_is_a_free_lock(place: Place, client: Client) -> None:
    place.plant()
    lock = client.lock(place)
    seen = lock.get()
    assert (seen.record, seen.incarnation, seen.fault) == (Record(), "", "")
    lock.write(seen, MINE.record)
    assert place.entry() == MINE


def test_each_lock_reports_the_objects_for_its_events(place: Place, client: Client) -> None:
    things = place.plant(LED)
    lock = client.lock(place)
    assert lock.lock.references(lock.get()) == [
        {
            "apiVersion": VERSIONS[thing["kind"]],
            "kind": thing["kind"],
            "namespace": place.namespace,
            "name": place.name,
            "uid": thing["metadata"]["uid"],
            "resourceVersion": thing["metadata"]["resourceVersion"],
        }
        for thing in things
    ]


# --- what else the objects hold

FOREIGN: dict[str, Object] = {
    "Lease": {},
    "ConfigMap": {"data": {"a": "é\n", "a.b": "x" * 5000}, "binaryData": {"b": "AAECAw=="}, "immutable": True},
    "Endpoints": {
        "subsets": [
            {
                "addresses": [{"ip": "10.9.8.7", "hostname": "h"}],
                "notReadyAddresses": [{"ip": "10.9.8.6"}],
                "ports": [{"name": "web", "port": 80, "protocol": "TCP", "appProtocol": "http"}],
            }
        ]
    },
}


def test_foreign_data_in_lock_objects_survives_acquisition_renewal_and_release(place: Place, client: Client) -> None:
    """Data, subsets, labels, annotations, owners, finalizers, and who manages which field; the owner is told once."""
    api = place.plane.api
    owner = api.create(place.named("owner").body("ConfigMap", None))
    reference = {key: owner[key] for key in ("apiVersion", "kind")}
    metadata = {
        "labels": {"example.org/l": "1"},
        "annotations": {"example.org/a": "2", "kubectl.kubernetes.io/last-applied-configuration": "{}"},
        "finalizers": ["example.org/stays"],
        "ownerReferences": [{**reference, "name": "owner", "uid": owner["metadata"]["uid"]}],
    }
    for kind, path in zip(place.kinds, place.paths, strict=True):
        body = place.body(kind, None, **FOREIGN[kind], metadata=metadata)
        api.call("PATCH", f"{path}?fieldManager=ci", body, mime=APPLY)
    before = place.objects()
    lock = client.lock(place)
    seen = lock.get()
    for entry in (MINE, LATER, FREED):
        seen = lock.write(seen, entry.record, "term" if entry.holder else "")
    assert place.entry() == FREED
    assert [foreign(thing) for thing in place.objects()] == [foreign(thing) for thing in before]
    assert lock.warnings == [
        f"the {kind} {place.namespace}/x belongs to the ConfigMap owner: it is deleted when that is"
        for kind in place.kinds
    ]
    for path in place.paths:
        api.merge(path, {"metadata": {"finalizers": None}})


def foreign(thing: Object) -> Object:
    """All of an object but its version and what a lock keeps in it."""
    metadata = {key: value for key, value in thing["metadata"].items() if key != "resourceVersion"}
    metadata["annotations"] = {
        key: value for key, value in metadata["annotations"].items() if key not in {LEADER, INCARNATION}
    }
    metadata["managedFields"] = [one for one in metadata["managedFields"] if one["manager"] != "kleader"]
    assert metadata["managedFields"]
    return {key: value for key, value in thing.items() if key != "spec"} | {"metadata": metadata}


@pytest.mark.parametrize("there", [None, {}, {"a": "0", "c": "3"}], ids=["no object", "no labels", "labels"])
def test_labels_are_merged_with_existing_ones(place: Place, client: Client, there: dict[str, str] | None) -> None:
    lock = client.lock(place, labels={"a": "1", "b": "2"})
    if there is not None:
        place.plant(metadata={"labels": there})
    lock.write(None if there is None else lock.get(), MINE.record)
    for thing in place.objects():
        assert thing["metadata"]["labels"] == {**(there or {}), "a": "1", "b": "2"}


# --- somebody was first


def test_existing_object_is_not_overwritten_by_a_creation(place: Place, client: Client) -> None:
    for there, path, _ in each(place):
        kind = there.kinds[there.paths.index(path)]
        old = there.plant_one(kind, LED, **FOREIGN[kind])
        assert refused(client.lock(there).write, None, MINE.record).kind is Kind.CONFLICT
        assert there.plane.api.get(path) == old


def test_object_changed_since_it_was_read_is_not_overwritten(place: Place, client: Client) -> None:
    for there, path, _ in each(place):
        there.plant(LED)
        lock = client.lock(there)
        seen = lock.get()
        now = there.plane.api.merge(path, {"metadata": {"labels": {"somebody": "was-first"}}})
        assert refused(lock.write, seen, MINE.record).kind is Kind.CONFLICT
        assert there.plane.api.get(path) == now


def test_update_does_not_create_a_deleted_object(place: Place, client: Client) -> None:
    for there, path, _ in each(place):
        there.plant(LED)
        lock = client.lock(there)
        seen = lock.get()
        there.plane.api.delete(path)
        failure = refused(lock.write, seen, MINE.record)
        assert failure.kind in {Kind.CONFLICT, Kind.MISSING}
        assert there.plane.api.find(path) is None


def test_an_object_of_another_uid_is_not_overwritten(place: Place, client: Client) -> None:
    for there, path, _ in each(place):
        there.plant(LED)
        lock = client.lock(there)
        seen = lock.get()
        there.plane.api.delete(path)
        other = there.plant_one(there.kinds[there.paths.index(path)], LED)
        assert refused(lock.write, seen, MINE.record).kind is Kind.CONFLICT
        assert there.plane.api.get(path) == other


def test_object_created_between_read_and_creation_is_not_overwritten(
    place: Place, client: Client, own_plane: ControlPlane
) -> None:
    """Between the read that found nothing and the creation."""
    for there, path, resource in each(place):
        with HttpProxy(own_plane) as proxy:
            lock = client.lock(there, server=proxy.url)
            kind = there.kinds[there.paths.index(path)]
            proxy.on(first(partial(there.plant_one, kind, LED)), path=f"{resource}(/|$)", where=a_write)
            assert refused(lock.write, None, MINE.record).kind is Kind.CONFLICT
            assert there.plane.api.get(path).get("spec", spec(LED)) == spec(LED)
            assert there.plane.api.get(path)["metadata"].get("annotations", {}).get(LEADER) in {None, annotation(LED)}


# --- answers that are lost


@pytest.mark.parametrize("base", [None, LED], ids=["created", "updated"])
@pytest.mark.parametrize("then", ["reset", "close", "silent"])
def test_a_write_without_a_response_is_unknown_until_the_next_read(
    place: Place, client: Client, own_plane: ControlPlane, base: Entry | None, then: str
) -> None:
    """A multilock with the handover in its primary alone has an unknown holder."""
    for there, path, resource in each(place):
        with HttpProxy(own_plane) as proxy:
            lock = client.lock(there, server=proxy.url)
            if base:
                there.plant(base)
            seen = lock.get() if base else None
            proxy.on(faults.lose(then), path=f"{resource}(/|$)", where=a_write)
            timeout = 2 if then == "silent" else 10
            failure = refused(lock.write, seen, MINE.record, "t", timeout)
            assert failure.kind is Kind.UNREACHABLE
            now = lock.get()
            if path == there.paths[-1]:
                assert (now.record, now.incarnation, now.some_object_lacks_record) == (MINE.record, "t", False)
            elif base:
                assert now.record.holder == UNKNOWN
            else:
                assert now.some_object_lacks_record


# --- records that say something, but not beyond doubt


def test_malformed_record_is_reported_with_object_and_field(place: Place, client: Client) -> None:
    """In either of the lock's objects. unit/test_record.py has each field."""
    lock = client.lock(place)
    place.plant(LED)
    for kind, path in zip(place.kinds, place.paths, strict=True):
        good = place.plane.api.get(path)
        bad, sentence = (
            ({"spec": {"leaseDurationSeconds": None}}, "spec.leaseDurationSeconds is missing")
            if kind == "Lease"
            else ({"metadata": {"annotations": {LEADER: "me"}}}, f"its annotation {LEADER}: it is not JSON")
        )
        place.plane.api.merge(path, bad)
        assert lock.get().fault.startswith(f"the {kind} {place.namespace}/x is malformed: {sentence}")
        mended = {"metadata": {"annotations": good["metadata"].get("annotations")}}
        place.plane.api.merge(path, mended | {key: good[key] for key in ("spec",) if key in good})
    assert lock.get().fault == ""


# --- the watch


def test_a_watch_reports_changes_after_its_version_of_this_object_alone(place: Place, client: Client) -> None:
    place.plant(LED)
    lock = client.lock(place)
    seen = lock.get()
    with lock.watch(seen) as watch:
        place.named("other").plant(LED)
        place.label(somebody="else")
        labels = [watch.next() for _ in place.kinds]
        assert all(label and label.same_record(seen) for label in labels)
        written = lock.write(lock.get(), MINE.record)
        told = [watch.next() for _ in place.kinds]
        assert told[-1]
        assert told[-1].same_record(written)
        assert told[-1].version == written.version
        place.delete()
        told = [watch.next() for _ in place.kinds]
        assert told[-1] is None
        assert all(state is None or state.some_object_lacks_record for state in told)
        place.plant(LED)
        told = [watch.next() for _ in place.kinds]
        assert told[-1]
        assert told[-1].record == LED.record


def test_a_watch_without_a_version_reports_the_present_state_first(place: Place, client: Client) -> None:
    lock = client.lock(place)
    with lock.watch(None) as from_the_start:
        place.plant(LED)
        with lock.watch(None) as later:
            for watch in (from_the_start, later):
                told = [watch.next() for _ in place.kinds]
                assert told[-1]
                assert (told[-1].record, told[-1].some_object_lacks_record) == (LED.record, False)


def test_a_watched_version_can_be_written_over(place: Place, client: Client) -> None:
    place.plant(LED)
    lock = client.lock(place)
    with lock.watch(lock.get()) as watch:
        place.write(FREED)
        told = [watch.next() for _ in place.kinds]
        assert lock.write(told[-1], MINE.record).record == MINE.record


def test_a_watch_from_a_forgotten_version_ends_if_the_object_has_changed(
    own_plane: ControlPlane, namespace: str, client: Client
) -> None:
    """A server that has just started knows no history: a holder in between is unknown."""
    places = [Place(own_plane, namespace, lock, lock) for lock in LOCKS]
    locks = [(place, client.lock(place)) for place in places]
    seen = []
    for place, lock in locks:
        place.plant(LED)
        seen.append(lock.get())
    for place, _ in locks:
        place.label(one="more")
    own_plane.apiserver.stop()
    own_plane.apiserver.start()
    for (place, lock), old in zip(locks, seen, strict=True):
        with lock.watch(old) as watch:
            with pytest.raises(WatchError, match="has changed before the watch began") as error:
                watch.next()
            assert not error.value.ended.denied, place.lock


# --- locks of two objects


@pytest.fixture(params=[lock for lock, objects in OBJECTS.items() if len(objects) > 1])
def double(request: pytest.FixtureRequest, plane: Plane, namespace: str) -> Place:
    return Place(plane, namespace, request.param)


def test_multilock_reads_the_record_of_a_candidate_that_uses_one_object(double: Place, client: Client) -> None:
    """Its record counts, and the other object is created beside it."""
    for number, kind in enumerate(double.kinds):
        there = double.named(f"x{number}")
        there.plant_one(kind, LED)
        lock = client.lock(there)
        seen = lock.get()
        assert (seen.record, seen.some_object_lacks_record) == (LED.record, True)
        written = lock.write(seen, MINE.record)
        assert [entry_of(each) for each in there.objects()][1 - number] == MINE
        lock.write(written, LATER.record)
        assert there.entry() == LATER
