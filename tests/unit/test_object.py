"""What is written of a lock, and which answers are of it, without a server: tests/cluster has a real one."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from kleader.election.events import Kind
from kleader.election.record import Record
from kleader.locks.annotation import ConfigMapLock, EndpointsLock
from kleader.locks.base import LockError
from kleader.locks.lease import Lease

if TYPE_CHECKING:
    from kleader.locks.object import ObjectLock

KINDS: list[type[ObjectLock]] = [Lease, ConfigMapLock, EndpointsLock]
HELD = Record("me", 15, 1_000_000, 1_000_000, 0)


class Server:
    """Stands for an Api: keeps what it is sent, and answers with what it has."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, str, dict[str, Any] | None]] = []
        self.has: dict[str, Any] = {}

    async def call(self, method: str, target: str, body: dict[str, Any] | None, _timeout: float) -> dict[str, Any]:
        """As the road to an API server has it."""
        self.sent.append((method, target, body))
        return self.has

    def unreadable(self, what: str) -> LockError:
        """Likewise."""
        return LockError(Kind.UNREACHABLE, what)


def made(kind: type[ObjectLock]) -> tuple[Server, Any]:
    server: Any = Server()
    lock = kind(server, "n", "x", {})
    metadata = {"name": "x", "namespace": "n", "uid": "the uid", "resourceVersion": "7"}
    server.has = {"apiVersion": lock.api_version, "kind": lock.kind, "metadata": metadata}
    if isinstance(lock, EndpointsLock):
        lock.force = True
    return server, lock


@pytest.mark.parametrize("kind", KINDS)
def test_an_update_names_the_object_and_the_version_that_the_decision_saw(kind: type[ObjectLock]) -> None:
    """Without the uid a PUT makes a deleted object anew; without the version it overwrites what others wrote."""
    server, lock = made(kind)
    base = asyncio.run(lock.get(1))
    asyncio.run(lock.write(base, HELD, "i", 1))
    method, target, body = server.sent[-1]
    assert body
    assert (method, target.rpartition("/")[2]) == ("PUT", "x")
    assert (body["metadata"]["uid"], body["metadata"]["resourceVersion"]) == ("the uid", "7")


@pytest.mark.parametrize(("kind", "method"), [(Lease, "PUT"), (ConfigMapLock, "POST"), (EndpointsLock, "POST")])
def test_a_creation_overwrites_nothing(kind: type[ObjectLock], method: str) -> None:
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
def test_what_is_not_the_object_is_no_answer(kind: type[ObjectLock], wrong: dict[str, Any]) -> None:
    server, lock = made(kind)
    server.has |= wrong
    with pytest.raises(LockError) as error:
        asyncio.run(lock.get(1))
    assert error.value.failure.kind is Kind.UNREACHABLE
