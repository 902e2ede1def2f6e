"""Renewals of a LeaseCandidate and answers to pings; the rest is in tests/cluster."""

from __future__ import annotations

import asyncio
from math import inf
from typing import TYPE_CHECKING, Any, cast

import pytest

from kleader.election.events import Kind
from kleader.kube.errors import LockError
from kleader.locks import lease_candidate as candidates
from kleader.locks.lease_candidate import Description, LeaseCandidate

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from typing_extensions import Self

    from kleader.kube.client import ApiClient


LATER = "2126-11-21T12:00:00.000000Z"
LATEST = "2127-11-21T12:00:00.000000Z"


class Server:
    """Stands for an Api; it keeps each answer to a PUT for as long as ``answering`` is clear."""

    skew = None

    def __init__(self) -> None:
        self.puts: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self.events: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self.kept: dict[str, Any] = {}
        self.answering = asyncio.Event()
        self.answering.set()

    async def call(self, method: str, _target: str, body: dict[str, Any] | None, _timeout: float) -> dict[str, Any]:
        """As ApiClient does."""
        if method == "PUT" and body:
            self.kept = body
            self.puts.put_nowait(body)
            await self.answering.wait()
        return body or self.kept

    def ping(self, at: str) -> None:
        """The control plane asks for a sign of life."""
        self.kept = {**self.kept, "spec": {**self.kept["spec"], "pingTime": at}}
        self.events.put_nowait(self.kept)

    async def watch_object(self, *_: object) -> AsyncGenerator[dict[str, Any], None]:
        """Likewise."""
        while True:
            yield await self.events.get()


class Deleting(Server):
    """Its object has a version, and is deleted once it was created."""

    async def call(self, method: str, target: str, body: dict[str, Any] | None, timeout: float) -> dict[str, Any]:
        """A write over a version fails, and so does a read."""
        if method == "GET" or (body and "resourceVersion" in body["metadata"]):
            raise LockError(Kind.MISSING, "it is gone")
        found = await super().call(method, target, body, timeout)
        return {**found, "metadata": {**found["metadata"], "resourceVersion": "1"}}


class Pinged:
    """A candidate that is asked for a sign of life, and whose answer is under way."""

    def __init__(self) -> None:
        self.server = Server()
        about = Description("me", "x", "1.36.0", "1.36.0")
        self.candidate = LeaseCandidate(cast("ApiClient", self.server), "v1beta1", "n", about, 9, 2, print)

    async def __aenter__(self) -> Self:
        await self.candidate.ensure_registered(9)
        await self.server.puts.get()
        self.server.answering.clear()
        self.server.ping(LATER)
        assert (await self.server.puts.get())["spec"]["renewTime"] == LATER
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.candidate.unregister(9)

    async def answered(self) -> None:
        """The answer is there, and what it leads to has happened, unless it waits for time."""
        self.server.answering.set()
        await self.settled()

    async def settled(self) -> None:
        """What can happen by now has."""
        for _ in range(200):
            await asyncio.sleep(0)


@pytest.mark.parametrize(("told", "signs"), [(inf, 0), (0.0, 2), (None, 1)], ids=["led", "named", "nothing"])
def test_observation_during_the_answer_to_a_ping_decides_on_further_renewals(
    monkeypatch: pytest.MonkeyPatch, told: float | None, signs: int
) -> None:
    """With a leader: no more renewals. With a nomination: two. With neither: one, to wake the control plane."""
    monkeypatch.setattr(candidates, "PING_TIMEOUT", 0.0)
    monkeypatch.setattr(candidates, "_SLACK", 0.0)

    async def story() -> int:
        async with Pinged() as pinged:
            if told is not None:
                pinged.candidate.schedule_renewals(told)
            await pinged.answered()
            return pinged.server.puts.qsize()

    assert asyncio.run(story()) == signs


@pytest.mark.parametrize(
    ("told", "due"), [(inf, candidates.RENEWAL), (None, candidates.PING_TIMEOUT)], ids=["led", "not"]
)
def test_extra_renewal_is_cancelled_once_there_is_a_leader(told: float | None, due: float) -> None:
    async def story() -> float:
        async with Pinged() as pinged:
            began = asyncio.get_running_loop().time()
            await pinged.answered()
            if told is not None:
                pinged.candidate.schedule_renewals(told)
            return pinged.candidate._due_at - began

    assert abs(asyncio.run(story()) - due) < candidates.PING_TIMEOUT


def test_ping_before_the_response_to_an_earlier_renewal_is_answered_too() -> None:
    """Two connections: the watch event is the later state, even if a response arrives after it."""

    async def story() -> str:
        async with Pinged() as pinged:
            pinged.server.ping(LATEST)
            await pinged.settled()
            await pinged.answered()
            return str(pinged.server.puts.get_nowait()["spec"]["renewTime"])

    assert asyncio.run(story()) == LATEST


def test_a_deleted_lease_candidate_is_created_again() -> None:
    async def story() -> dict[str, Any]:
        server, about = Deleting(), Description("me", "x", "1.36.0", "1.36.0")
        candidate = LeaseCandidate(cast("ApiClient", server), "v1beta1", "n", about, 9, 2, print)
        await candidate.ensure_registered(9)
        await server.puts.get()
        candidate.schedule_renewals(0)
        created = await server.puts.get()
        await candidate.unregister(9)
        return created

    assert "resourceVersion" not in asyncio.run(story())["metadata"]


def test_registration_that_waits_for_another_write_fails_when_its_time_is_over() -> None:
    """A read of the lock waits for the registration, and the write of a watch may have begun later than the read."""

    async def story() -> None:
        async with Pinged() as pinged:
            await pinged.candidate.unregister(0.0)
            pinged.candidate.register()
            first = asyncio.create_task(pinged.candidate.ensure_registered(9))
            await pinged.server.puts.get()
            second = asyncio.create_task(pinged.candidate.ensure_registered(0.0))
            await pinged.settled()
            assert second.done()
            assert isinstance(second.exception(), LockError)
            await pinged.answered()
            await first

    asyncio.run(story())
