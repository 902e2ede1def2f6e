"""Requests to a leader and handovers on the objects of a lock, at the real API server."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kleader.election.request import Request
from kleader.locks import base, factory
from tests.cluster.contract import LEADER, OBJECTS, Client, Entry, Place, annotation, entry_of, spec
from tests.cluster.test_contract import foreign

if TYPE_CHECKING:
    from kleader.locks.object_lock import ObjectLock
    from tests.support.plane import Plane

HELD = Entry("somebody", 15, -60, -2, 3)
GIVEN = Entry("heir", 15, 1, 1, 4)
TAKEN = GIVEN._replace(renewed=2)
REQUEST, REQUESTED_BY, NOTE = "kleader/request", "kleader/requested-by", "kleader/given"


@pytest.fixture(params=OBJECTS)
def place(request: pytest.FixtureRequest, plane: Plane, namespace: str) -> Place:
    return Place(plane, namespace, request.param)


def objects(client: Client, place: Place) -> list[ObjectLock]:
    """Each of the lock's objects by itself, as the commands that ask have them."""
    api = client.api(place.plane, place.namespace, place.user())
    return factory.component_locks(place.lock, base.Place(api, place.namespace, place.name))


@pytest.mark.parametrize("to", ["", "heir"], ids=["resign", "transfer"])
def test_a_request_changes_no_other_field_and_the_next_write_removes_it(place: Place, client: Client, to: str) -> None:
    before = place.plant(HELD, "term")
    lock = client.lock(place)
    held = lock.get()
    first, request = objects(client, place)[0], Request("somebody", "term", to)
    client.run(first.leave_request(client.run(first.get(5)), request, "root@ops", 5))
    seen = lock.get()
    assert (seen.request, lock.lock.requested_by(seen)) == (request, "root@ops")
    assert seen.same_record(held)
    assert seen.version != held.version
    assert [foreign(thing) | {"spec": thing.get("spec")} for thing in map(_bare, place.objects())] == [
        foreign(thing) | {"spec": thing.get("spec")} for thing in map(_bare, before)
    ]
    after = lock.write(seen, HELD._replace(renewed=0).record)
    assert (after.request, lock.lock.requested_by(after)) == (None, "")
    assert all(not {REQUEST, REQUESTED_BY} & {*thing["metadata"]["annotations"]} for thing in place.objects())


def _bare(thing: dict[str, object]) -> dict[str, object]:
    """Without the request and its sender, and with somebody who manages fields, for `foreign`."""
    metadata, asked = dict(thing["metadata"]), {REQUEST, REQUESTED_BY}  # type: ignore[call-overload]
    metadata["annotations"] = {key: text for key, text in metadata["annotations"].items() if key not in asked}
    metadata["managedFields"] = [{"manager": "somebody"}]
    return {**thing, "metadata": metadata}


def test_a_request_is_not_written_over_another_version(place: Place, client: Client) -> None:
    place.plant(HELD, "term")
    first = objects(client, place)[0]
    seen = client.run(first.get(5))
    place.label(somebody="was-first")
    with pytest.raises(Exception, match="the object has been modified"):
        client.run(first.leave_request(seen, Request("somebody", "term"), "root@ops", 5))
    assert REQUEST not in place.objects()[0]["metadata"]["annotations"]


def test_named_successor_is_read_until_the_next_write(place: Place, client: Client) -> None:
    """Also one that keeps all annotations and writes within the same second, as a client-go candidate may."""
    place.plant(HELD, "term")
    lock = client.lock(place)
    written = lock.write(lock.get(), GIVEN.record, "")
    assert (written.handed_over, written.incarnation, written.record) == (True, "", GIVEN.record)
    assert lock.get().handed_over
    for path, thing in zip(place.paths, place.objects(), strict=True):
        anew = GIVEN._replace(renewed=1.000001)
        assert entry_of(thing) == GIVEN
        patch = {"spec": spec(anew)} if thing["kind"] == "Lease" else {}
        place.plane.api.merge(path, patch or {"metadata": {"annotations": {LEADER: annotation(anew)}}})
    seen = lock.get()
    assert (seen.handed_over, seen.incarnation) == (False, "")
    assert seen.record.holder == "heir"


def test_label_or_request_does_not_cancel_a_handover(place: Place, client: Client) -> None:
    place.plant(HELD, "term")
    lock = client.lock(place)
    lock.write(lock.get(), GIVEN.record, "")
    place.label(somebody="else")
    assert lock.get().handed_over


def test_named_successor_removes_the_annotation_when_it_acquires_the_lock(place: Place, client: Client) -> None:
    place.plant(HELD, "term")
    lock = client.lock(place)
    taken = lock.write(lock.write(lock.get(), GIVEN.record, ""), TAKEN.record, "term-2")
    assert (taken.handed_over, taken.incarnation) == (False, "term-2")
    for thing in place.objects():
        assert NOTE not in thing["metadata"]["annotations"]
        assert NOTE not in thing["metadata"]["annotations"].get(LEADER, "")


def test_multilock_handed_over_in_one_object_alone_names_no_successor(
    plane: Plane, namespace: str, client: Client
) -> None:
    for kind in ("configmapsleases", "endpointsleases"):
        place = Place(plane, namespace, kind, kind)
        place.plant(HELD, "term")
        lock = client.lock(place)
        lock.write(lock.get(), GIVEN.record, "")
        for path in place.paths:
            other = place.plane.api.get(path)
            place.plane.api.delete(path)
            assert not lock.get().handed_over
            del other["metadata"]["resourceVersion"], other["metadata"]["uid"]
            place.plane.api.create(other)
