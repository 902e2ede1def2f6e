"""Two locks held as one say what a challenger must believe, which is not what client-go's MultiLock says."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from kleader.election.events import Kind, Observed
from kleader.election.record import UNKNOWN, Record
from kleader.kube.errors import LockError
from kleader.locks.annotation_lock import EndpointsLock
from kleader.locks.base import Place
from kleader.locks.lease import LeaseLock
from kleader.locks.lock_annotations import RECOMMENDED
from kleader.locks.multilock import MultiLock
from kleader.locks.run_history import LAST_RUN, Run
from tests.support.pair import World

if TYPE_CHECKING:
    from collections.abc import Callable


MINE = 15
HELD, FREE = Record("m", 15, 0, 0, 3), Record("", 1, 0, 0, 3)


class Server:
    """Answers by the kind of object; ``found`` is by the last part but one of a path."""

    def __init__(self) -> None:
        self.found: dict[str, dict[str, Any]] = {}
        self.asked: list[tuple[str, str]] = []
        self.sent: list[dict[str, Any]] = []
        self.version = 100
        self.refusal = Kind.CONFLICT
        self.refuses: Callable[[str, str], bool] = lambda _method, _kind: False
        self.deaf = False  # it answers with what there was

    async def call(self, method: str, target: str, body: dict[str, Any] | None, _timeout: float) -> dict[str, Any]:
        """One request."""
        kind = "leases" if "/leases" in target else "endpoints"
        self.asked.append((method, kind))
        if self.refuses(method, kind):
            raise LockError(self.refusal, "somebody was first")
        if method == "GET":
            if kind not in self.found:
                raise LockError(Kind.MISSING, "not found")
            return self.found[kind]
        assert body
        self.sent.append(body)
        if self.deaf and kind in self.found:
            return self.found[kind]
        self.version += 1
        metadata = {**body["metadata"], "uid": "u", "resourceVersion": str(self.version)}
        self.found[kind] = {**body, "metadata": metadata}
        return self.found[kind]

    def create_bare(self, kind: str) -> None:
        """By who is no candidate: without a record."""
        self.version += 1
        lock = {"leases": LeaseLock, "endpoints": EndpointsLock}[kind]
        metadata = {"name": "x", "namespace": "n", "uid": "u", "resourceVersion": str(self.version)}
        self.found[kind] = {"apiVersion": lock.api_version, "kind": lock.kind, "metadata": metadata}


@pytest.fixture
def server() -> Server:
    return Server()


def multi(server: Any) -> MultiLock:  # noqa: ANN401 - stands for an Api
    primary, secondary = EndpointsLock(Place(server, "n", "x")), LeaseLock(Place(server, "n", "x"))
    return MultiLock(primary, secondary, MINE)


def put(server: Any, lock: type[EndpointsLock | LeaseLock], record: Record) -> None:  # noqa: ANN401
    """Somebody who knows one of both writes to it."""
    version = str(server.version)
    found = server.found.get(lock.plural)
    if found:
        base = Observed(record, version=version, base=found)
        asyncio.run(lock(Place(server, "n", "x")).write(base, record, "", 1))
    else:
        asyncio.run(lock(Place(server, "n", "x")).write(None, record, "", 1))


def get(lock: MultiLock) -> Observed:
    return asyncio.run(lock.get(1))


def test_two_objects_with_one_holder_are_one_record(server: Server) -> None:
    put(server, EndpointsLock, HELD)
    put(server, LeaseLock, HELD)
    seen = get(multi(server))
    assert (seen.record, seen.some_object_lacks_record, seen.fault) == (HELD, False, "")


@pytest.mark.parametrize(("first", "second"), [(HELD, FREE), (FREE, HELD), (replace(HELD, holder="e"), HELD)])
def test_a_multilock_with_two_holders_is_held_for_the_longer_duration(
    server: Server, first: Record, second: Record
) -> None:
    """client-go takes the primary's duration, which after a release is 1 s."""
    put(server, EndpointsLock, first)
    put(server, LeaseLock, second)
    seen = get(multi(server))
    assert (seen.record.holder, seen.record.duration) == (UNKNOWN, 15)


def test_a_multilock_with_two_holders_is_held_for_at_least_the_candidates_own_duration(server: Server) -> None:
    put(server, EndpointsLock, Record("e", 4, 0, 0, 0))
    put(server, LeaseLock, FREE)
    assert get(multi(server)).record.duration == MINE


def test_a_change_of_either_object_restarts_the_wait(server: Server) -> None:
    """Also of the one whose clock is behind."""
    put(server, EndpointsLock, replace(HELD, renewed=20_000_000))
    put(server, LeaseLock, replace(HELD, holder="l"))
    lock = multi(server)
    before = get(lock)
    put(server, LeaseLock, replace(HELD, holder="l", renewed=9_000_000))
    assert not get(lock).same_record(before)


@pytest.mark.parametrize("record", [FREE, HELD])
def test_a_multilock_with_a_missing_object_is_neither_released_nor_held_by_the_candidate(
    server: Server, record: Record
) -> None:
    """Also where it was never there: the fleet is of candidates that know the annotation only."""
    put(server, EndpointsLock, record)
    seen = get(multi(server))
    assert (seen.some_object_lacks_record, seen.objects_without_record) == (True, frozenset({1}))
    assert seen.record.holder == record.holder, "the leader that has the other one creates this one"


@pytest.mark.parametrize("gone", ["leases", "endpoints"])
def test_a_deleted_object_does_not_make_a_multilock_free(server: Server, gone: str) -> None:
    put(server, EndpointsLock, FREE)
    put(server, LeaseLock, FREE)
    lock = multi(server)
    get(lock)
    del server.found[gone]
    seen = get(lock)
    assert (seen.some_object_lacks_record, seen.objects_without_record) == (
        True,
        frozenset({["endpoints", "leases"].index(gone)}),
    )


@pytest.mark.parametrize("anew", ["leases", "endpoints"])
def test_an_object_recreated_without_a_record_does_not_make_a_multilock_free(server: Server, anew: str) -> None:
    """A candidate that uses that object alone may run; the other object is as its last holder left it."""
    put(server, EndpointsLock, FREE)
    put(server, LeaseLock, FREE)
    lock = multi(server)
    assert get(lock).is_release
    server.create_bare(anew)
    seen = get(lock)
    missing = frozenset({["endpoints", "leases"].index(anew)})
    assert (seen.some_object_lacks_record, seen.objects_without_record, seen.is_blank) == (True, missing, False)


@pytest.mark.parametrize("bare", [("endpoints",), ("leases",), ("endpoints", "leases")])
def test_a_multilock_that_never_had_a_record_is_led_at_once(server: Server, bare: tuple[str, ...]) -> None:
    """A Service created the Endpoints, and a manifest the Lease: the response shows the first write."""
    server.version = 0
    for kind in bare:
        server.create_bare(kind)
    world = World()
    world.server.found |= server.found
    asyncio.run(world.until_led_by(world.enter("one", world.both())))


def test_an_observed_secondary_is_not_created(server: Server) -> None:
    put(server, EndpointsLock, FREE)
    lock = multi(server)
    base = get(lock)
    put(server, LeaseLock, replace(HELD, holder="l"))
    server.refuses = lambda method, kind: (method, kind) == ("PUT", "leases")
    with pytest.raises(LockError) as error:
        asyncio.run(lock.write(base, HELD, "i", 1))
    assert error.value.failure.kind is Kind.CONFLICT
    assert error.value.failure.partly_done, "the primary was written"
    server.refuses = lambda _method, _kind: False
    assert get(lock).record.holder == UNKNOWN


def test_a_write_that_the_primary_refuses_is_not_sent_to_the_secondary(server: Server) -> None:
    """Else a candidate would put the others off that may write one of both alone."""
    server.refuses, server.refusal = lambda method, _kind: method == "POST", Kind.THROTTLED
    with pytest.raises(LockError) as error:
        asyncio.run(multi(server).write(None, HELD, "i", 1))
    assert (error.value.failure.kind, error.value.failure.partly_done) == (Kind.THROTTLED, False)
    assert server.asked == [("POST", "endpoints")] or server.asked[-1][1] == "endpoints"


@pytest.mark.parametrize("refusal", [Kind.CONFLICT, Kind.UNREACHABLE, Kind.THROTTLED])
def test_a_release_is_sent_to_the_secondary_even_if_the_primary_fails(server: Server, refusal: Kind) -> None:
    """The primary may have been released by a try before, whose answer was lost."""
    put(server, EndpointsLock, FREE)
    put(server, LeaseLock, FREE)
    lock = multi(server)
    term = asyncio.run(lock.write(get(lock), HELD, "i", 1))
    server.refuses, server.refusal = lambda method, kind: (method, kind) == ("PUT", "endpoints"), refusal
    with pytest.raises(LockError) as error:
        asyncio.run(lock.write(term, FREE, "", 1))
    assert (error.value.failure.kind, error.value.failure.partly_done) == (refusal, True)
    assert server.found["leases"]["spec"]["holderIdentity"] == ""


def test_a_multilock_that_its_leader_recreates_keeps_its_transitions(server: Server) -> None:
    """Its lock is known to be its own; that both answers show the write is what its term counts by."""
    assert asyncio.run(multi(server).write(None, HELD, "i", 1)).record == HELD


def test_no_object_is_written_over_another_version_than_the_observed_one(server: Server) -> None:
    """One that came since is met by a creation, which overwrites nothing; one that changed, by the version before."""
    put(server, EndpointsLock, FREE)
    lock = multi(server)
    base = get(lock)
    put(server, LeaseLock, replace(HELD, holder="l"))
    put(server, EndpointsLock, replace(HELD, holder="e"))
    asyncio.run(lock.write(base, HELD, "i", 1))
    first, second = (body["metadata"] for body in server.sent[-2:])
    assert first["resourceVersion"] == base.token
    assert not {"uid", "resourceVersion"} & set(second)


def test_a_response_that_does_not_show_the_write_is_no_success(server: Server) -> None:
    put(server, EndpointsLock, FREE)
    put(server, LeaseLock, FREE)
    lock = multi(server)
    base = get(lock)
    server.deaf = True
    with pytest.raises(LockError) as error:
        asyncio.run(lock.write(base, HELD, "i", 1))
    assert error.value.failure.kind is Kind.UNREACHABLE


def test_the_fencing_token_is_the_version_of_the_primary(server: Server) -> None:
    put(server, EndpointsLock, FREE)
    put(server, LeaseLock, FREE)
    lock = multi(server)
    seen = asyncio.run(lock.write(get(lock), HELD, "i", 1))
    assert seen.token == server.found["endpoints"]["metadata"]["resourceVersion"]
    assert [each["uid"] for each in lock.references(seen)] == ["u", "u"]


RUN = Run("m", "7", "", 5_000_000, 6_000_000, 0, "exited")
RELEASED = RUN._replace(released=FREE.transitions)


def test_a_run_is_recorded_in_both_objects_and_read_from_either(server: Server) -> None:
    """A release may be half done, and either object may be recreated."""
    lock = multi(server)
    for kind in (EndpointsLock, LeaseLock):
        put(server, kind, HELD)
    lock.ended_run = RUN
    asyncio.run(lock.write(asyncio.run(lock.get(1)), FREE, "", 1))
    assert all(LAST_RUN in found["metadata"]["annotations"] for found in server.found.values())
    for gone in ("endpoints", "leases"):
        other = multi(server)
        server.found[gone]["metadata"]["annotations"].pop(LAST_RUN)
        assert other.runs(asyncio.run(other.get(1))) == ([RELEASED] if gone == "endpoints" else [])


def test_a_release_of_both_objects_recommends_a_candidate(server: Server) -> None:
    lock = multi(server)
    for kind in (EndpointsLock, LeaseLock):
        put(server, kind, HELD)
    lock.recommended = "best"
    assert asyncio.run(lock.write(asyncio.run(lock.get(1)), FREE, "", 1)).recommended == "best"
    assert all(RECOMMENDED in found["metadata"]["annotations"] for found in server.found.values())


def test_a_half_done_release_has_recorded_the_run(server: Server) -> None:
    lock = multi(server)
    for kind in (EndpointsLock, LeaseLock):
        put(server, kind, HELD)
    base = asyncio.run(lock.get(1))
    lock.ended_run = RUN
    server.refuses = lambda method, kind: (method, kind) == ("PUT", "leases")
    with pytest.raises(LockError):
        asyncio.run(lock.write(base, FREE, "", 1))
    assert multi(server).runs(asyncio.run(multi(server).get(1))) == [RELEASED]
