"""Two locks held as one say what a challenger must believe, which is not what client-go's MultiLock says."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import pytest

from kleader.election.events import Kind, Observed
from kleader.election.record import UNKNOWN, Record
from kleader.locks.annotation import EndpointsLock
from kleader.locks.base import LockError
from kleader.locks.lease import Lease
from kleader.locks.multi import MultiLock

if TYPE_CHECKING:
    from collections.abc import Callable

    from kleader.locks.api import Api

MINE = 15
HELD, FREE = Record("m", 15, 0, 0, 3), Record("", 1, 0, 0, 3)


class Server:
    """Answers by the kind of object; ``found`` is by the last part but one of a path."""

    def __init__(self) -> None:
        self.found: dict[str, dict[str, Any]] = {}
        self.asked: list[tuple[str, str]] = []
        self.sent: list[dict[str, Any]] = []
        self.version = 100
        self.refuses: Callable[[str, str], bool] = lambda _method, _kind: False
        self.deaf = False  # it answers with what there was

    async def call(self, method: str, target: str, body: dict[str, Any] | None, _timeout: float) -> dict[str, Any]:
        """One request."""
        kind = "leases" if "/leases" in target else "endpoints"
        self.asked.append((method, kind))
        if self.refuses(method, kind):
            raise LockError(Kind.CONFLICT, "somebody was first")
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


@pytest.fixture
def server() -> Server:
    return Server()


def multi(server: Any, *, replaces: bool = False) -> MultiLock:  # noqa: ANN401 - stands for an Api
    primary, secondary = EndpointsLock(server, "n", "x", {}), Lease(server, "n", "x", {})
    return MultiLock(primary, secondary, MINE, replaces=replaces)


def put(server: Any, lock: type[EndpointsLock | Lease], record: Record) -> None:  # noqa: ANN401
    """Somebody who knows one of both writes to it."""
    version = str(server.version)
    found = server.found.get(lock.plural)
    if found:
        base = Observed(record, version=version, base=found)
        asyncio.run(lock(server, "n", "x", {}).write(base, record, "", 1))
    else:
        asyncio.run(lock(server, "n", "x", {}).write(None, record, "", 1))


def get(lock: MultiLock) -> Observed:
    return asyncio.run(lock.get(1))


def test_both_that_agree_are_one_record(server: Server) -> None:
    put(server, EndpointsLock, HELD)
    put(server, Lease, HELD)
    seen = get(multi(server))
    assert (seen.record, seen.torn, seen.fault) == (HELD, False, "")


@pytest.mark.parametrize(("first", "second"), [(HELD, FREE), (FREE, HELD), (replace(HELD, holder="e"), HELD)])
def test_holders_that_differ_are_held_for_the_longest_that_anybody_may_lead(
    server: Server, first: Record, second: Record
) -> None:
    """client-go takes the primary's duration, which after a release is 1 s."""
    put(server, EndpointsLock, first)
    put(server, Lease, second)
    seen = get(multi(server))
    assert (seen.record.holder, seen.record.duration) == (UNKNOWN, 15)


def test_holders_that_differ_are_held_for_ones_own_duration_at_least(server: Server) -> None:
    put(server, EndpointsLock, Record("e", 4, 0, 0, 0))
    put(server, Lease, FREE)
    assert get(multi(server)).record.duration == MINE


def test_a_change_of_either_starts_the_wait_anew(server: Server) -> None:
    """Also of the one whose clock is behind."""
    put(server, EndpointsLock, replace(HELD, renewed=20_000_000))
    put(server, Lease, replace(HELD, holder="l"))
    lock = multi(server)
    before = get(lock)
    put(server, Lease, replace(HELD, holder="l", renewed=9_000_000))
    assert not get(lock).same_record(before)


def test_a_lease_that_was_never_there_is_not_missed(server: Server) -> None:
    """The fleet is of candidates that know the annotation only."""
    put(server, EndpointsLock, FREE)
    seen = get(multi(server))
    assert (seen.record.holder, seen.torn) == ("", False)


@pytest.mark.parametrize("gone", ["leases", "endpoints"])
def test_one_that_was_there_and_is_gone_does_not_make_the_lock_free(server: Server, gone: str) -> None:
    put(server, EndpointsLock, FREE)
    put(server, Lease, FREE)
    lock = multi(server)
    get(lock)
    del server.found[gone]
    seen = get(lock)
    assert (seen.torn, seen.record.duration) == (True, MINE)


def test_the_successor_of_an_elector_misses_one_that_it_has_never_seen(server: Server) -> None:
    put(server, EndpointsLock, FREE)
    assert get(multi(server, replaces=True)).torn


def test_the_second_is_not_created_where_the_decision_saw_it(server: Server) -> None:
    put(server, EndpointsLock, FREE)
    lock = multi(server)
    base = get(lock)
    put(server, Lease, replace(HELD, holder="l"))
    server.refuses = lambda method, kind: (method, kind) == ("PUT", "leases")
    with pytest.raises(LockError) as error:
        asyncio.run(lock.write(base, HELD, "i", 1))
    assert error.value.failure.kind is Kind.CONFLICT
    server.refuses = lambda _method, _kind: False
    assert get(lock).record.holder == UNKNOWN


@pytest.mark.parametrize("missing", ["leases", "endpoints"])
def test_one_that_is_created_begins_without_transitions_and_the_next_write_gives_it_the_other_s(
    server: Server, missing: str
) -> None:
    """It may have been there since the decision, and its holder not have noticed that it was deleted."""
    put(server, EndpointsLock, FREE)
    put(server, Lease, FREE)
    lock = multi(server)
    get(lock)
    del server.found[missing]
    taken = asyncio.run(lock.write(get(lock), HELD, "i", 1))
    assert (taken.record, taken.created) == (HELD, True)
    renewed = asyncio.run(lock.write(taken, HELD, "i", 1))
    assert (renewed.record, renewed.created) == (HELD, False)


@pytest.mark.parametrize("replaces", [False, True])
def test_one_that_was_never_there_is_ones_own_from_its_creation_on(server: Server, *, replaces: bool) -> None:
    """Unless an elector before this one may have seen it."""
    put(server, EndpointsLock, FREE)
    lock = multi(server, replaces=replaces)
    taken = asyncio.run(lock.write(get(lock), HELD, "i", 1))
    assert (taken.created, get(lock).created) == (replaces, replaces)


def test_one_that_was_ones_own_and_went_is_anothers_until_it_is_proven(server: Server) -> None:
    put(server, EndpointsLock, FREE)
    lock = multi(server)
    asyncio.run(lock.write(get(lock), HELD, "i", 1))
    del server.found["leases"]
    assert asyncio.run(lock.write(get(lock), HELD, "i", 1)).created


def test_one_that_somebody_was_the_first_to_create_and_that_is_gone_when_it_is_read_was_there(server: Server) -> None:
    put(server, EndpointsLock, FREE)
    lock = multi(server)
    base = get(lock)
    server.refuses = lambda method, kind: (method, kind) == ("PUT", "leases")
    with pytest.raises(LockError, match="first"):
        asyncio.run(lock.write(base, HELD, "i", 1))
    assert get(lock).gone
    server.refuses = lambda _method, _kind: False
    assert asyncio.run(lock.write(base, replace(HELD, renewed=2_000_000), "i", 1)).created


def test_what_was_read_of_one_where_the_other_could_not_be_was_there(server: Server) -> None:
    put(server, EndpointsLock, HELD)
    put(server, Lease, FREE)
    lock = multi(server)
    server.refuses = lambda method, kind: (method, kind) == ("GET", "leases")
    with pytest.raises(LockError, match="first") as error:
        get(lock)
    assert error.value.failure.held == HELD.duration
    server.refuses = lambda _method, _kind: False
    del server.found["endpoints"]
    assert get(lock).gone


def test_nothing_is_held_that_could_not_be_read(server: Server) -> None:
    put(server, Lease, HELD)
    server.refuses = lambda method, _kind: method == "GET"
    with pytest.raises(LockError) as error:
        get(multi(server))
    assert error.value.failure.held == 0


def test_what_client_go_has_taken_was_anothers_though_it_leaves_the_incarnation_there(server: Server) -> None:
    put(server, EndpointsLock, FREE)
    lock, lease = multi(server), Lease(cast("Api", server), "n", "x", {})
    taken = asyncio.run(lock.write(get(lock), HELD, "i", 1))
    asyncio.run(lease.write(taken.base.second, replace(HELD, holder="go"), "i", 1))
    get(lock)
    asyncio.run(lease.write(None, replace(HELD, transitions=0), "i", 1))
    assert get(lock).created


def test_both_that_a_leader_creates_anew_keep_its_transitions(server: Server) -> None:
    """Its lock is known to be its own; that both answers show the write is what its term counts by."""
    assert asyncio.run(multi(server).write(None, HELD, "i", 1)).record == HELD


def test_neither_is_written_on_another_version_than_the_decision_saw(server: Server) -> None:
    """One that came since is met by a creation, which overwrites nothing; one that changed, by the version before."""
    put(server, EndpointsLock, FREE)
    lock = multi(server)
    base = get(lock)
    put(server, Lease, replace(HELD, holder="l"))
    put(server, EndpointsLock, replace(HELD, holder="e"))
    asyncio.run(lock.write(base, HELD, "i", 1))
    first, second = (body["metadata"] for body in server.sent[-2:])
    assert first["resourceVersion"] == base.version
    assert not {"uid", "resourceVersion"} & set(second)


def test_an_answer_that_does_not_show_the_write_is_none(server: Server) -> None:
    put(server, EndpointsLock, FREE)
    put(server, Lease, FREE)
    lock = multi(server)
    base = get(lock)
    server.deaf = True
    with pytest.raises(LockError) as error:
        asyncio.run(lock.write(base, HELD, "i", 1))
    assert error.value.failure.kind is Kind.UNREACHABLE


def test_the_fencing_token_is_the_first_ones_version(server: Server) -> None:
    put(server, EndpointsLock, FREE)
    put(server, Lease, FREE)
    lock = multi(server)
    seen = asyncio.run(lock.write(get(lock), HELD, "i", 1))
    assert seen.version == server.found["endpoints"]["metadata"]["resourceVersion"]
    assert [each["uid"] for each in lock.references(seen)] == ["u", "u"]
