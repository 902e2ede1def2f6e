"""Whose a lock without expiry is, as one candidate sees it: what it saw before is not forgotten."""

from __future__ import annotations

import asyncio
import os
import socket
from typing import TYPE_CHECKING, Any

import pytest

from kleader.election.events import Kind, Observed
from kleader.election.record import Record
from kleader.kube.errors import LockError, WatchError
from kleader.kube.pod_owner import is_dead
from kleader.locks import instance_lock
from kleader.locks.base import Place
from kleader.locks.leader_for_life import LeaderForLifeLock, PodContext

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
        """As ApiClient does."""
        assert method == "GET"
        if self.mute and target == PODS + "second":
            raise LockError(Kind.UNREACHABLE, "no answer")
        if target not in self.found:
            raise LockError(Kind.MISSING, "there is none")
        return self.found[target]

    async def watch_object(
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
) -> LeaderForLifeLock:
    home = PodContext("me", "", claim, lambda _spared, _doomed: False, resume_state=memory, save=remember)
    return LeaderForLifeLock(Place(server, "n", NAME), home)


def test_vanished_lock_belongs_to_an_owner_that_only_the_watch_has_shown(claim: socket.socket) -> None:
    """Between the watch event and the read that follows the ConfigMap was deleted; its owner runs."""
    server = Server("me", "second")
    server.owned("first")

    async def tell() -> Observed:
        mine = lock(server, claim)
        before = await mine.get(1)
        assert before.owner_gone
        server.news = [None, server.owned("second")]
        with pytest.raises(WatchError) as ended:
            async for _ in mine.watch(before, 1):
                pass
        assert ended.value.ended.moved
        del server.found[LOCK]
        return await mine.get(1)

    seen = asyncio.run(tell())
    assert (seen.record.holder, seen.owner_gone) == ("second", False)


def test_vanished_lock_belongs_to_an_owner_whose_pod_could_not_be_read(claim: socket.socket) -> None:
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
    assert (seen.record.holder, seen.owner_gone) == ("second", False)


def test_vanished_lock_belongs_to_the_owner_that_an_earlier_elector_observed(claim: socket.socket) -> None:
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


def test_lock_is_not_created_after_the_watch_has_shown_another_owner(claim: socket.socket) -> None:
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


TERMINATED: dict[str, Any] = {"terminated": {"exitCode": 0}}
RUNNING: dict[str, Any] = {"running": {}}
WAITING: dict[str, Any] = {"waiting": {}}
LISTS = {"containers": "containerStatuses", "initContainers": "initContainerStatuses"} | {
    "ephemeralContainers": "ephemeralContainerStatuses"
}


def pod(phase: str = "Failed", uid: str = "u", **more: Any) -> dict[str, Any]:  # noqa: ANN401 - of its status
    """A Pod of this phase with a container of each kind, all of which have terminated."""
    spec = {kind: [{"name": f"{kind}-{number}"} for number in range(2)] for kind in LISTS}
    statuses = {key: [{**each, "state": TERMINATED} for each in spec[kind]] for kind, key in LISTS.items()}
    return {"metadata": {"uid": uid}, "spec": spec, "status": {"phase": phase, **statuses, **more}}


def with_state(kind: str, state: object) -> dict[str, Any]:
    """One container of this kind is in another state than the rest; None: it has no status at all."""
    found = pod()
    statuses = found["status"][LISTS[kind]]
    statuses[1:] = [] if state is None else [{**statuses[1], "state": state}]
    return found


def disrupted(reason: str) -> list[dict[str, str]]:
    ready = {"type": "Ready", "status": "False", "reason": "PodFailed"}
    return [ready, {"type": "DisruptionTarget", "status": "True", "reason": reason}]


DEAD: dict[str, dict[str, Any] | None] = {
    "no Pod": None,
    "another Pod of its name": pod(uid="another's"),
    "failed without a reason": pod(),
    "graceful node shutdown": pod(reason="Terminated", conditions=disrupted("TerminationByKubelet")),
    "evicted": pod(reason="Evicted"),
    "preempted": pod(reason="Preempting", conditions=disrupted("PreemptionByScheduler")),
    "succeeded": pod("Succeeded"),
}
ALIVE: dict[str, dict[str, Any]] = {
    "phase Running": pod("Running"),
    "being deleted": {**pod("Running"), "metadata": {"uid": "u", "deletionTimestamp": "2026-01-01T00:00:00Z"}},
    "phase Unknown": pod("Unknown", reason="NodeLost"),
    "phase Pending": pod("Pending", reason="Evicted"),
    "no phase": pod(""),
    "no container status": {**pod(), "status": {"phase": "Failed", "reason": "Evicted"}},
    "deleted by pod GC": pod(conditions=disrupted("DeletionByPodGC")),
    "conditions that cannot be read": pod(conditions="DeletionByPodGC"),
    **{f"one of {kind} runs": with_state(kind, RUNNING) for kind in LISTS},
    **{f"one of {kind} waits": with_state(kind, WAITING) for kind in LISTS},
    **{f"one of {kind} has no status": with_state(kind, None) for kind in LISTS},
}


@pytest.mark.parametrize("name", DEAD)
def test_owner_is_dead_if_its_pod_is_gone_or_all_containers_have_terminated(name: str) -> None:
    """For any reason: a node that is shut down gracefully says Terminated, others give none."""
    assert is_dead(DEAD[name], "u")


@pytest.mark.parametrize("name", ALIVE)
def test_owner_is_alive_while_a_container_may_run(name: str) -> None:
    """Pod garbage collection fails the Pods of nodes that are lost: their last statuses prove nothing."""
    assert not is_dead(ALIVE[name], "u")


def test_pod_of_the_same_name_with_another_uid_is_another_pod(claim: socket.socket) -> None:
    """A StatefulSet's, which came back under its name while the old one lives on a node that was lost."""
    server = Server("me")
    server.owned("me")["metadata"]["ownerReferences"][0]["uid"] = "uid of the one before"
    server.found[PODS + "me"]["metadata"]["uid"] = "uid of me"
    seen = asyncio.run(lock(server, claim).get(1))
    assert not seen.owned_by_me


def test_term_of_another_process_of_the_same_pod_is_not_this_candidate_s(claim: socket.socket) -> None:
    server = Server("me")
    server.owned("me")
    seen = asyncio.run(lock(server, claim).get(1))
    assert seen.owned_by_me
    assert seen.incarnation == "term of me", "which the election compares with its own"


def test_second_candidate_of_a_pod_waits(claim: socket.socket) -> None:
    server = Server("me")
    server.owned("me")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as other:
        assert not asyncio.run(lock(server, claim).get(1)).fault
        seen = asyncio.run(lock(server, other).get(1))
        assert "another kleader of this Pod competes for it" in seen.fault


def test_a_lock_name_of_any_length_excludes_a_second_candidate_of_the_pod() -> None:
    """From this lock alone. An abstract address has 107 bytes, which a Pod's uid and a long name exceed."""
    names = [f"pod/{os.getpid()}/{'x' * 252}{last}".encode() for last in "ab"]
    addresses = [instance_lock.address(name) for name in names]
    with socket.socket(socket.AF_UNIX) as first, socket.socket(socket.AF_UNIX) as second:
        assert instance_lock.acquire(first, addresses[0])
        assert instance_lock.acquire(first, addresses[0]), "a replacement elector has the socket already"
        assert not instance_lock.acquire(second, addresses[0])
        assert instance_lock.acquire(second, addresses[1])


def test_lock_is_not_acquired_while_processes_of_an_earlier_term_run(claim: socket.socket) -> None:
    server: Any = Server("me")
    server.owned("me")
    home = PodContext("me", "", claim, lambda _spared, _doomed: True)
    seen = asyncio.run(LeaderForLifeLock(Place(server, "n", NAME), home).get(1))
    assert "processes of an earlier term still run here" in seen.fault
