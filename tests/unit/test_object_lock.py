"""What is written of a lock, and which answers are of it, without a server: tests/cluster has a real one."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from kleader.election.events import Kind, Observed
from kleader.election.record import Record
from kleader.kube.errors import LockError
from kleader.locks import run_history
from kleader.locks.annotation_lock import ConfigMapLock, EndpointsLock
from kleader.locks.base import Place
from kleader.locks.lease import LeaseLock
from kleader.locks.lock_annotations import POD, RECOMMENDED, pod_of
from kleader.locks.run_history import Run

if TYPE_CHECKING:
    from kleader.locks.object_lock import ObjectLock

KINDS: list[type[ObjectLock]] = [LeaseLock, ConfigMapLock, EndpointsLock]
HELD = Record("me", 15, 1_000_000, 1_000_000, 0)


class Server:
    """Stands for an Api: keeps what it is sent, and answers with what it has."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, str, dict[str, Any] | None]] = []
        self.has: dict[str, Any] = {}

    async def call(self, method: str, target: str, body: dict[str, Any] | None, _timeout: float) -> dict[str, Any]:
        """As ApiClient does."""
        self.sent.append((method, target, body))
        return self.has

    def unreadable(self, what: str) -> LockError:
        """Likewise."""
        return LockError(Kind.UNREACHABLE, what)


def made(kind: type[ObjectLock], pod: str = "") -> tuple[Server, Any]:
    server: Any = Server()
    lock = kind(Place(server, "n", "x", force=True, pod=pod))
    metadata = {"name": "x", "namespace": "n", "uid": "the uid", "resourceVersion": "7"}
    server.has = {"apiVersion": lock.api_version, "kind": lock.kind, "metadata": metadata}
    return server, lock


@pytest.mark.parametrize("kind", KINDS)
def test_update_names_uid_and_resource_version_of_the_observation(kind: type[ObjectLock]) -> None:
    """Without the uid a PUT recreates a deleted object; without the version it overwrites writes of others."""
    server, lock = made(kind)
    base = asyncio.run(lock.get(1))
    asyncio.run(lock.write(base, HELD, "i", 1))
    method, target, body = server.sent[-1]
    assert body
    assert (method, target.rpartition("/")[2]) == ("PUT", "x")
    assert (body["metadata"]["uid"], body["metadata"]["resourceVersion"]) == ("the uid", "7")


@pytest.mark.parametrize(("kind", "method"), [(LeaseLock, "PUT"), (ConfigMapLock, "POST"), (EndpointsLock, "POST")])
def test_creation_never_overwrites_an_object(kind: type[ObjectLock], method: str) -> None:
    """The server refuses a PUT without a version for Leases alone."""
    server, lock = made(kind)
    asyncio.run(lock.write(None, HELD, "i", 1))
    sent, _, body = server.sent[-1]
    assert body
    assert sent == method
    assert not {"uid", "resourceVersion"} & set(body["metadata"])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("wrong", [
    {"kind": "Status"}, {"metadata": {"name": "y", "uid": "u", "resourceVersion": "1"}},
    {"metadata": {"name": "x", "resourceVersion": "1"}}, {"metadata": {"name": "x", "uid": "u"}},
    {"metadata": {"name": "x", "uid": "u", "resourceVersion": ""}}, {"metadata": []},
], ids=str)  # fmt: skip
def test_response_with_another_object_is_an_error(kind: type[ObjectLock], wrong: dict[str, Any]) -> None:
    server, lock = made(kind)
    server.has |= wrong
    with pytest.raises(LockError) as error:
        asyncio.run(lock.get(1))
    assert error.value.failure.kind is Kind.UNREACHABLE


# --- the latest runs

RUN = Run("me", "7", "", 5_000_000, 6_000_000, 0, "exited")
FREE = Record("", 1, 2_000_000, 2_000_000, 0)


def written(server: Server) -> dict[str, str]:
    body = server.sent[-1][2]
    assert body
    return dict(body["metadata"]["annotations"])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "record", [FREE, HELD, Record("next", 15, 2_000_000, 2_000_000, 1)], ids=["released", "kept", "handed over"]
)
def test_the_last_write_of_a_term_records_the_run(kind: type[ObjectLock], record: Record) -> None:
    """One write: no candidate acquires the lock between the record of the run and the release."""
    server, lock = made(kind)
    before = RUN._replace(token="5")
    server.has["metadata"]["annotations"] = {run_history.LAST_RUN: run_history.write([before]), "a": "b"}
    base = asyncio.run(lock.get(1))
    lock.ended_run = RUN
    ran = RUN._replace(released=None if record.holder else record.transitions)
    for _ in range(2):  # over the same version: its answer was lost
        asyncio.run(lock.write(base, record, "", 1))
        assert run_history.read(written(server)[run_history.LAST_RUN]) == [ran, before]
        assert written(server)["a"] == "b"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("record", "incarnation"),
    [(replace(FREE, transitions=7), ""), (replace(HELD, transitions=7), "i"), (Record("next", 15, 1, 1, 8), "")],
    ids=["released", "kept", "handed over"],
)
def test_the_last_write_of_a_term_says_that_the_term_ended_in_order(
    kind: type[ObjectLock], record: Record, incarnation: str
) -> None:
    """Every other write keeps what is said of an earlier term: the clearing of a dead leader's record, too."""
    server, lock = made(kind)
    server.has["metadata"]["annotations"] = {run_history.LAST_ENDED: "5"}
    base = asyncio.run(lock.get(1))
    for lock.ends_term, ended in ((False, "5"), (True, "7"), (False, "5")):
        asyncio.run(lock.write(base, record, incarnation, 1))
        assert written(server)[run_history.LAST_ENDED] == ended


@pytest.mark.parametrize("kind", KINDS)
def test_the_pod_of_the_holder_is_known_until_another_program_holds_the_lock(kind: type[ObjectLock]) -> None:
    """client-go keeps annotations that it does not know."""
    server, lock = made(kind, pod="pod-a")
    base = asyncio.run(lock.get(1))
    asyncio.run(lock.write(base, HELD, "i", 1))
    body = server.sent[-1][2]
    assert body
    assert pod_of(body, HELD.holder) == "pod-a"
    assert pod_of(body, "go") == pod_of(body, "") == ""
    asyncio.run(lock.write(base, FREE, "", 1))
    assert POD not in written(server)


@pytest.mark.parametrize("kind", KINDS)
def test_a_release_recommends_a_candidate_and_the_next_write_of_any_program_ends_that(kind: type[ObjectLock]) -> None:
    """client-go keeps annotations that it does not know when it acquires and releases the lock."""
    server, lock = made(kind)

    def write(base: Observed, record: Record, incarnation: str = "") -> Observed:
        asyncio.run(lock.write(base, record, incarnation, 1))
        seen: Observed = lock.observed(server.sent[-1][2])
        return seen

    base = asyncio.run(lock.get(1))
    lock.recommended = "the best one"
    assert write(base, HELD, "i").recommended == ""
    assert RECOMMENDED not in written(server)
    released = write(base, FREE)
    assert released.recommended == "the best one"
    lock.encode(released.base, Record("", 1, 2_000_000, 3_000_000, 0))
    assert lock.observed(released.base).recommended == ""
    lock.recommended = ""
    write(released, HELD, "i")
    assert RECOMMENDED not in written(server)


@pytest.mark.parametrize("kind", KINDS)
def test_every_other_write_keeps_the_runs_as_they_are(kind: type[ObjectLock]) -> None:
    server, lock = made(kind)
    server.has["metadata"]["annotations"] = {run_history.LAST_RUN: "as it is"}
    base = asyncio.run(lock.get(1))
    for record in (FREE, HELD):  # of a candidate that ran nothing, or whose command runs
        asyncio.run(lock.write(base, record, record.holder and "i", 1))
        assert written(server)[run_history.LAST_RUN] == "as it is"
