"""Two locks held as one say what a challenger must believe, which is not what client-go's MultiLock says."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import pytest

from kleader.election.events import Kind, Observed
from kleader.election.record import UNKNOWN, Record
from kleader.kube.errors import LockError
from kleader.locks.annotation_lock import EndpointsLock
from kleader.locks.lease import LeaseLock
from kleader.locks.multilock import MultiLock
from kleader.locks.run_history import LAST_RUN, Run
from tests.support.pair import World

if TYPE_CHECKING:
    from collections.abc import Callable

    from kleader.kube.client import ApiClient


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


def multi(server: Any, held: int = 0) -> MultiLock:  # noqa: ANN401 - stands for an Api
    primary, secondary = EndpointsLock(server, "n", "x", {}), LeaseLock(server, "n", "x", {})
    return MultiLock(primary, secondary, MINE, held)


def put(server: Any, lock: type[EndpointsLock | LeaseLock], record: Record) -> None:  # noqa: ANN401
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
    put(server, LeaseLock, HELD)
    seen = get(multi(server))
    assert (seen.record, seen.torn, seen.fault) == (HELD, False, "")


@pytest.mark.parametrize(("first", "second"), [(HELD, FREE), (FREE, HELD), (replace(HELD, holder="e"), HELD)])
def test_holders_that_differ_are_held_for_the_longest_that_anybody_may_lead(
    server: Server, first: Record, second: Record
) -> None:
    """client-go takes the primary's duration, which after a release is 1 s."""
    put(server, EndpointsLock, first)
    put(server, LeaseLock, second)
    seen = get(multi(server))
    assert (seen.record.holder, seen.record.duration) == (UNKNOWN, 15)


def test_holders_that_differ_are_held_for_ones_own_duration_at_least(server: Server) -> None:
    put(server, EndpointsLock, Record("e", 4, 0, 0, 0))
    put(server, LeaseLock, FREE)
    assert get(multi(server)).record.duration == MINE


def test_one_that_cannot_be_read_any_more_is_held_for_as_long_as_it_was(server: Server) -> None:
    put(server, EndpointsLock, replace(HELD, duration=4))
    put(server, LeaseLock, replace(HELD, holder="l", duration=60))
    lock = multi(server)
    durations = [get(lock).record.duration]
    server.found["leases"]["spec"]["leaseDurationSeconds"] = "odd"
    durations += [get(lock).record.duration for _ in range(2)]
    assert durations == [60, 60, 60]


def test_a_change_of_either_starts_the_wait_anew(server: Server) -> None:
    """Also of the one whose clock is behind."""
    put(server, EndpointsLock, replace(HELD, renewed=20_000_000))
    put(server, LeaseLock, replace(HELD, holder="l"))
    lock = multi(server)
    before = get(lock)
    put(server, LeaseLock, replace(HELD, holder="l", renewed=9_000_000))
    assert not get(lock).same_record(before)


def test_a_lease_that_was_never_there_is_not_missed(server: Server) -> None:
    """The fleet is of candidates that know the annotation only."""
    put(server, EndpointsLock, FREE)
    seen = get(multi(server))
    assert (seen.record.holder, seen.torn) == ("", False)


@pytest.mark.parametrize("gone", ["leases", "endpoints"])
def test_one_that_was_there_and_is_gone_does_not_make_the_lock_free(server: Server, gone: str) -> None:
    put(server, EndpointsLock, FREE)
    put(server, LeaseLock, FREE)
    lock = multi(server)
    get(lock)
    del server.found[gone]
    seen = get(lock)
    assert (seen.torn, seen.record.duration) == (True, MINE)


@pytest.mark.parametrize("anew", ["leases", "endpoints"])
def test_one_that_was_there_and_is_created_anew_without_a_record_does_not_make_the_lock_free(
    server: Server, anew: str
) -> None:
    """Whoever keeps to that one alone may run; the other is as its last holder left it."""
    long = replace(HELD, duration=40)
    put(server, EndpointsLock, long if anew == "endpoints" else FREE)
    put(server, LeaseLock, long if anew == "leases" else FREE)
    lock = multi(server)
    assert get(lock).record.holder == UNKNOWN
    server.create_bare(anew)
    for _ in range(2):
        seen = get(lock)
        assert (seen.torn, seen.gone, seen.record.duration) == (True, True, 40)


def test_one_that_was_created_anew_without_a_record_is_taken_as_one_that_was_created(server: Server) -> None:
    """Somebody may have had it, and it have been created anew once more, since that was seen."""
    put(server, EndpointsLock, FREE)
    put(server, LeaseLock, FREE)
    lock = multi(server)
    get(lock)
    server.create_bare("leases")
    base = get(lock)
    assert asyncio.run(lock.write(base, HELD, "i", 1)).created


@pytest.mark.parametrize("bare", [("endpoints",), ("leases",), ("endpoints", "leases")])
def test_both_that_never_had_a_record_are_led_on_at_once(server: Server, bare: tuple[str, ...]) -> None:
    """A Service has made the Endpoints, and somebody's manifest the Lease: the first write shows in its answer."""
    server.version = 0
    for kind in bare:
        server.create_bare(kind)
    world = World()
    world.server.found |= server.found
    asyncio.run(world.until_led_by(world.enter("one", world.both())))


def test_one_that_never_had_a_record_is_not_missed(server: Server) -> None:
    put(server, EndpointsLock, FREE)
    server.create_bare("leases")
    lock = multi(server)
    for _ in range(2):
        assert not get(lock).torn


def test_the_successor_of_an_elector_misses_one_that_it_has_never_seen(server: Server) -> None:
    put(server, EndpointsLock, FREE)
    assert get(multi(server, held=MINE)).torn


def test_the_second_is_not_created_where_the_decision_saw_it(server: Server) -> None:
    put(server, EndpointsLock, FREE)
    lock = multi(server)
    base = get(lock)
    put(server, LeaseLock, replace(HELD, holder="l"))
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
    put(server, LeaseLock, FREE)
    lock = multi(server)
    get(lock)
    del server.found[missing]
    taken = asyncio.run(lock.write(get(lock), HELD, "i", 1))
    assert (taken.record, taken.created) == (HELD, True)
    renewed = asyncio.run(lock.write(taken, HELD, "i", 1))
    assert (renewed.record, renewed.created) == (HELD, False)


@pytest.mark.parametrize("held", [0, MINE])
def test_one_that_was_never_there_is_ones_own_from_its_creation_on(server: Server, held: int) -> None:
    """Unless an elector before this one may have seen it."""
    put(server, EndpointsLock, FREE)
    lock = multi(server, held)
    taken = asyncio.run(lock.write(get(lock), HELD, "i", 1))
    assert (taken.created, get(lock).created) == (held > 0, held > 0)


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


def test_one_that_was_created_late_and_without_an_answer_may_have_been_anothers_meanwhile(server: Server) -> None:
    put(server, EndpointsLock, FREE)
    lock = multi(server)
    base = get(lock)
    server.refuses, server.refusal = lambda method, kind: (method, kind) == ("PUT", "leases"), Kind.UNREACHABLE
    with pytest.raises(LockError):
        asyncio.run(lock.write(base, HELD, "i", 1))
    server.refuses = lambda _method, _kind: False
    asyncio.run(LeaseLock(server, "n", "x", {}).write(None, replace(HELD, transitions=0), "i", 1))  # type: ignore[arg-type]
    assert get(lock).created


def test_one_that_may_have_been_created_without_an_answer_was_there(server: Server) -> None:
    put(server, LeaseLock, FREE)
    lock = multi(server)
    base = get(lock)
    server.refuses, server.refusal = lambda method, _kind: method == "POST", Kind.UNREACHABLE
    with pytest.raises(LockError):
        asyncio.run(lock.write(base, HELD, "i", 1))
    assert get(lock).gone


@pytest.mark.parametrize("second", [None, FREE])
def test_one_that_was_created_where_the_other_could_not_be_written_was_there(
    server: Server, second: Record | None
) -> None:
    if second:
        put(server, LeaseLock, second)
    lock = multi(server)
    base = get(lock) if second else None
    server.refuses = lambda method, kind: (method, kind) == ("PUT", "leases")
    with pytest.raises(LockError, match="first") as error:
        asyncio.run(lock.write(base, HELD, "i", 1))
    assert error.value.failure.held == MINE
    server.refuses = lambda _method, _kind: False
    del server.found["endpoints"]
    put(server, LeaseLock, FREE)
    assert get(lock).gone


def test_what_was_read_of_one_where_the_other_could_not_be_was_there(server: Server) -> None:
    put(server, EndpointsLock, HELD)
    put(server, LeaseLock, FREE)
    lock = multi(server)
    server.refuses = lambda method, kind: (method, kind) == ("GET", "leases")
    with pytest.raises(LockError, match="first") as error:
        get(lock)
    assert error.value.failure.held == HELD.duration
    server.refuses = lambda _method, _kind: False
    del server.found["endpoints"]
    assert get(lock).gone


def test_nothing_is_held_that_could_not_be_read(server: Server) -> None:
    put(server, LeaseLock, HELD)
    server.refuses = lambda method, _kind: method == "GET"
    with pytest.raises(LockError) as error:
        get(multi(server))
    assert error.value.failure.held == 0


def test_what_client_go_has_taken_was_anothers_though_it_leaves_the_incarnation_there(server: Server) -> None:
    put(server, EndpointsLock, FREE)
    lock, lease = multi(server), LeaseLock(cast("ApiClient", server), "n", "x", {})
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
    put(server, LeaseLock, replace(HELD, holder="l"))
    put(server, EndpointsLock, replace(HELD, holder="e"))
    asyncio.run(lock.write(base, HELD, "i", 1))
    first, second = (body["metadata"] for body in server.sent[-2:])
    assert first["resourceVersion"] == base.version
    assert not {"uid", "resourceVersion"} & set(second)


def test_an_answer_that_does_not_show_the_write_is_none(server: Server) -> None:
    put(server, EndpointsLock, FREE)
    put(server, LeaseLock, FREE)
    lock = multi(server)
    base = get(lock)
    server.deaf = True
    with pytest.raises(LockError) as error:
        asyncio.run(lock.write(base, HELD, "i", 1))
    assert error.value.failure.kind is Kind.UNREACHABLE


def test_the_fencing_token_is_the_first_ones_version(server: Server) -> None:
    put(server, EndpointsLock, FREE)
    put(server, LeaseLock, FREE)
    lock = multi(server)
    seen = asyncio.run(lock.write(get(lock), HELD, "i", 1))
    assert seen.version == server.found["endpoints"]["metadata"]["resourceVersion"]
    assert [each["uid"] for each in lock.references(seen)] == ["u", "u"]


RUN = Run("m", "7", "", 5_000_000, 6_000_000, 0, "exited")


def test_a_run_is_recorded_in_both_halves_and_read_from_either(server: Server) -> None:
    """A release may come half through, and either object may be created anew."""
    lock = multi(server)
    for kind in (EndpointsLock, LeaseLock):
        put(server, kind, HELD)
    lock.ended_run = RUN
    asyncio.run(lock.write(asyncio.run(lock.get(1)), FREE, "", 1))
    assert all(LAST_RUN in found["metadata"]["annotations"] for found in server.found.values())
    for gone in ("endpoints", "leases"):
        other = multi(server)
        server.found[gone]["metadata"]["annotations"].pop(LAST_RUN)
        assert other.runs(asyncio.run(other.get(1))) == ([RUN] if gone == "endpoints" else [])


def test_half_a_release_has_recorded_the_run(server: Server) -> None:
    lock = multi(server)
    for kind in (EndpointsLock, LeaseLock):
        put(server, kind, HELD)
    base = asyncio.run(lock.get(1))
    lock.ended_run = RUN
    server.refuses = lambda method, kind: (method, kind) == ("PUT", "leases")
    with pytest.raises(LockError):
        asyncio.run(lock.write(base, FREE, "", 1))
    assert multi(server).runs(asyncio.run(multi(server).get(1))) == [RUN]
