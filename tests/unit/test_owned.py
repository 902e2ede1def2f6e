"""Whose a lock without expiry is, as one candidate sees it: what it saw before is not forgotten."""

from __future__ import annotations

import asyncio
import os
import socket
from typing import TYPE_CHECKING, Any

import pytest

from kleader.election.events import Kind, Observed
from kleader.election.record import Record
from kleader.locks.base import LockError, WatchError
from kleader.locks.owned import Home, OwnedLock
from kleader.locks.pod import gone

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Iterator

NAME = f"x-{os.getpid()}"  # other tests run beside these on this machine, which has the names that keep out others
LOCK, PODS = f"/api/v1/namespaces/n/configmaps/{NAME}", "/api/v1/namespaces/n/pods/"


class Server:
    """Stands for an Api: answers with what is there, and tells of each change to who watches the ConfigMap."""

    def __init__(self, *pods: str) -> None:
        self.found: dict[str, dict[str, Any]] = {}
        self.news: list[dict[str, Any] | None] = []
        self.mute = False  # about Pods
        for name in pods:
            self.found[PODS + name] = {"kind": "Pod", "metadata": _metadata(name)}

    def owned(self, pod: str) -> dict[str, Any]:
        """The ConfigMap is that Pod's."""
        owner = {"apiVersion": "v1", "kind": "Pod", "name": pod, "uid": f"uid of {pod}"}
        annotations = {"kleader/incarnation": f"term of {pod}"}
        metadata = {**_metadata(NAME), "ownerReferences": [owner], "annotations": annotations}
        self.found[LOCK] = {"kind": "ConfigMap", "metadata": metadata}
        return self.found[LOCK]

    async def call(self, method: str, target: str, _body: object, _timeout: float) -> dict[str, Any]:
        """As the road to an API server has it."""
        assert method == "GET"
        if self.mute and target == PODS + "second":
            raise LockError(Kind.UNREACHABLE, "no answer")
        if target not in self.found:
            raise LockError(Kind.MISSING, "there is none")
        return self.found[target]

    async def changes(
        self, collection: str, _name: str, _version: str, _timeout: float
    ) -> AsyncGenerator[dict[str, Any] | None, None]:
        """Likewise."""
        for each in self.news if collection.endswith("/configmaps") else ():
            yield each
        await asyncio.Event().wait()


def _metadata(name: str) -> dict[str, Any]:
    return {"name": name, "namespace": "n", "uid": f"uid of {name}", "resourceVersion": "7"}


@pytest.fixture
def claim() -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
        yield sock


def lock(
    server: Any,  # noqa: ANN401 - stands for an Api
    claim: socket.socket,
    remember: Callable[[str], None] = lambda _: None,
    memory: str = "",
) -> OwnedLock:
    home = Home("me", "", claim, lambda _spared, _doomed: False, memory=memory, remember=remember)
    return OwnedLock(server, "n", NAME, {}, lambda _: None, home)


def test_an_owner_that_only_a_watch_has_told_of_has_the_lock_when_it_vanishes(claim: socket.socket) -> None:
    """Between the word of it and the read that follows the ConfigMap was deleted; who got it runs."""
    server = Server("me", "second")
    server.owned("first")

    async def tell() -> Observed:
        mine = lock(server, claim)
        before = await mine.get(1)
        assert before.dead
        server.news = [None, server.owned("second")]
        with pytest.raises(WatchError) as ended:
            async for _ in mine.watch(before, 1):
                pass
        assert ended.value.ended.moved
        del server.found[LOCK]
        return await mine.get(1)

    seen = asyncio.run(tell())
    assert (seen.record.holder, seen.dead) == ("second", False)


def test_an_owner_whose_pod_could_not_be_looked_at_has_the_lock_when_it_vanishes(claim: socket.socket) -> None:
    server = Server("me", "second")
    server.owned("second")
    server.mute = True

    async def tell() -> Observed:
        mine = lock(server, claim)
        with pytest.raises(LockError):
            await mine.get(1)
        server.mute = False
        del server.found[LOCK]
        return await mine.get(1)

    seen = asyncio.run(tell())
    assert (seen.record.holder, seen.dead) == ("second", False)


def test_an_owner_that_an_elector_before_saw_has_the_lock_when_it_vanishes(claim: socket.socket) -> None:
    """Unless it was seen dead since, or to give the lock up."""
    server, told = Server("me", "second"), [""]
    server.owned("second")
    assert asyncio.run(lock(server, claim, told.append).get(1)).record.holder == "second"
    del server.found[LOCK]
    second = lock(server, claim, told.append, told[-1])
    assert asyncio.run(second.get(1)).record.holder == "second"
    del server.found[PODS + "second"]
    for candidate in (second, lock(server, claim, memory=told[-1])):
        with pytest.raises(LockError) as error:
            asyncio.run(candidate.get(1))
        assert error.value.failure.kind is Kind.MISSING
    assert told[-1] == ""


def test_who_is_told_of_another_owner_before_it_creates_the_lock_does_not(claim: socket.socket) -> None:
    """It may be gone again, and its owner run."""
    server = Server("me", "second")
    candidate = lock(server, claim)

    async def write_after_news() -> None:
        with pytest.raises(LockError):
            await candidate.get(1)
        server.news = [server.owned("second")]
        del server.found[LOCK]
        with pytest.raises(WatchError):
            await anext(candidate.watch(None, 1))
        await candidate.write(None, Record("me"), "term", 1)

    with pytest.raises(LockError) as error:
        asyncio.run(write_after_news())
    assert error.value.failure.kind is Kind.CONFLICT


def pod(status: dict[str, Any] | None = None, uid: str = "u") -> dict[str, Any]:
    containers = {"spec": {"containers": [{"name": "main"}, {"name": "side"}]}}
    return {"metadata": {"uid": uid}, **containers, "status": status or {"phase": "Running"}}


def ended(phase: str, reason: str, *names: str) -> dict[str, Any]:
    statuses = [{"name": name, "state": {"terminated": {"exitCode": 0}}} for name in names]
    return {"phase": phase, "reason": reason, "containerStatuses": statuses}


@pytest.mark.parametrize(("found", "dead"), [
    (None, True),
    (pod(uid="another's"), True),
    (pod(), False),
    (pod(ended("Failed", "Evicted", "main", "side")), True),
    (pod(ended("Failed", "NodeLost", "main", "side")), False),
    (pod(ended("Running", "Evicted", "main", "side")), False),
    (pod(ended("Failed", "Evicted", "main")), False),
    (pod({**ended("Failed", "Evicted", "main", "side"), "ephemeralContainerStatuses": [{"state": {"running": {}}}]}),
     False),
], ids=["no Pod", "another of its name", "a living one", "evicted", "a lost node's", "a phase that is none",
        "a container that nobody knows of", "a container that runs"])  # fmt: skip
def test_a_pod_is_dead_where_it_is_gone_or_was_evicted_and_all_of_it_has_ended(
    found: dict[str, Any] | None, *, dead: bool
) -> None:
    assert gone(found, "u") is dead


def test_another_uid_under_ones_own_name_is_another_pod(claim: socket.socket) -> None:
    """A StatefulSet's, which came back under its name while the old one lives on a node that was lost."""
    server = Server("me")
    server.owned("me")["metadata"]["ownerReferences"][0]["uid"] = "uid of the one before"
    server.found[PODS + "me"]["metadata"]["uid"] = "uid of me"
    seen = asyncio.run(lock(server, claim).get(1))
    assert not seen.ours


def test_another_process_of_ones_own_pod_is_not_ones_own_term(claim: socket.socket) -> None:
    server = Server("me")
    server.owned("me")
    seen = asyncio.run(lock(server, claim).get(1))
    assert seen.ours
    assert seen.incarnation == "term of me", "which the election compares with its own"


def test_of_two_of_one_pod_the_second_waits(claim: socket.socket) -> None:
    server = Server("me")
    server.owned("me")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as other:
        assert not asyncio.run(lock(server, claim).get(1)).fault
        seen = asyncio.run(lock(server, other).get(1))
        assert "another kleader of this Pod contends for it" in seen.fault


def test_what_is_left_of_an_earlier_term_keeps_the_lock(claim: socket.socket) -> None:
    server: Any = Server("me")
    server.owned("me")
    home = Home("me", "", claim, lambda _spared, _doomed: True)
    seen = asyncio.run(OwnedLock(server, "n", NAME, {}, lambda _: None, home).get(1))
    assert "processes of an earlier term still run here" in seen.fault
