"""The Lease of coordinated election: what the control plane keeps in it is read, and written back as client-go does."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from math import inf
from typing import TYPE_CHECKING, Any, cast

import pytest

from kleader.election.events import Kind
from kleader.election.record import Record
from kleader.kube.errors import LockError
from kleader.locks.base import Place
from kleader.locks.coordinated_lease import CoordinatedLease

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from kleader.kube.client import ApiClient
    from kleader.locks.lease_candidate import LeaseCandidate

NAMED = {"holderIdentity": "me", "leaseDurationSeconds": 5, "renewTime": "2026-11-21T12:00:00.000000Z"}
NAMED |= {"strategy": "OldestEmulationVersion"}
WRITTEN = NAMED | {"acquireTime": "2026-11-21T12:00:01.000000Z", "leaseTransitions": 1}
RECORD = Record("me", 15, 7, 8, 1)


@pytest.fixture
def lock() -> CoordinatedLease:
    made = CoordinatedLease(Place(cast("ApiClient", None), "default", "x"))
    made.candidate = cast("LeaseCandidate", Watched())
    return made


class Watched:
    """A candidate that remembers in how many seconds it was to be renewed."""

    identity = "me"

    def __init__(self) -> None:
        self.told: list[float] = []
        self.registered: list[float] = []

    def register(self) -> None: ...

    async def ensure_registered(self, timeout: float) -> None:
        self.registered.append(timeout)

    def keep_registered(self) -> None: ...

    def schedule_renewals(self, seconds: float) -> None:
        self.told.append(seconds)

    async def unregister(self, timeout: float) -> None: ...


def lease(spec: object, incarnation: str = "") -> dict[str, Any]:
    annotations = {"kleader/incarnation": incarnation} if incarnation else {}
    metadata = {"name": "x", "uid": "u", "resourceVersion": "7", "annotations": annotations}
    return {"kind": "Lease", "metadata": metadata, **({} if spec is None else {"spec": spec})}


def test_preferred_holder_is_read(lock: CoordinatedLease) -> None:
    assert lock.observed(lease(WRITTEN | {"preferredHolder": "other"})).preferred == "other"
    assert lock.observed(lease(WRITTEN)).preferred == ""
    assert lock.observed(lease(WRITTEN | {"preferredHolder": ""})).preferred == ""


@pytest.mark.parametrize(
    ("found", "untouched"),
    [
        (lease(NAMED), True),
        (lease(NAMED | {"preferredHolder": "other"}), True),
        (lease(WRITTEN), False),
        (lease(NAMED | {"leaseTransitions": 0}), False),  # as client-go's coordinated leader has it: no acquireTime
        (lease(NAMED | {"acquireTime": "2026-11-21T12:00:01.000000Z"}), False),
        (lease(NAMED, "term"), False),
        (lease(NAMED | {"leaseDurationSeconds": None}), False),  # it cannot be read
        (lease(None), False),
    ],
    ids=["named", "another preferred", "led", "client-go", "acquired", "kleader", "malformed", "no spec"],
)
def test_lease_was_never_held_only_if_no_candidate_has_written_it(
    lock: CoordinatedLease, found: dict[str, Any], *, untouched: bool
) -> None:
    assert lock.observed(found).only_control_plane_wrote is untouched


def test_candidate_is_renewed_when_a_nominated_one_does_not_lead_in_time(lock: CoordinatedLease) -> None:
    """After a nomination without a write the candidate wakes the control plane; not while a candidate leads."""
    candidate = cast("Watched", lock.candidate)
    lock.observed(lease(WRITTEN | {"holderIdentity": ""}))
    assert candidate.told == []
    lock.observed(lease(NAMED))
    lock.observed(lease(WRITTEN))
    assert candidate.told == [5, inf]


def test_write_keeps_strategy_and_preferred_holder(lock: CoordinatedLease) -> None:
    body = lease(WRITTEN | {"preferredHolder": "other"})
    lock.encode(body, RECORD)
    assert (body["spec"]["strategy"], body["spec"]["preferredHolder"]) == ("OldestEmulationVersion", "other")
    assert body["spec"]["leaseDurationSeconds"] == 15


def test_release_keeps_only_the_strategy(lock: CoordinatedLease) -> None:
    body = lease(WRITTEN | {"preferredHolder": "other"})
    lock.encode(body, Record("", 1, 7, 8, 1))
    assert body["spec"]["strategy"] == "OldestEmulationVersion"
    assert "preferredHolder" not in body["spec"]


def test_write_adds_no_strategy_and_no_preferred_holder(lock: CoordinatedLease) -> None:
    body: dict[str, Any] = {"metadata": {"name": "x"}}
    lock.encode(body, RECORD)
    assert set(body["spec"]) == {
        *("holderIdentity", "leaseDurationSeconds", "acquireTime", "renewTime", "leaseTransitions")
    }


class WithoutLease:
    """An API server without the Lease."""

    async def call(self, *_: object) -> dict[str, Any]:
        raise LockError(Kind.MISSING, "there is none")

    async def watch_object(self, *_: object, reads_missing: bool) -> AsyncGenerator[dict[str, Any] | None, None]:
        assert reads_missing
        yield None
        await asyncio.Event().wait()


def test_candidate_that_tries_once_is_registered_by_its_read(lock: CoordinatedLease) -> None:
    """It watches nothing; what is wrong with its LeaseCandidate is said."""
    lock._api, lock.registers_at_once = cast("ApiClient", WithoutLease()), True
    with pytest.raises(LockError):
        asyncio.run(lock.get(1))
    assert len(cast("Watched", lock.candidate).registered) == 1


def test_candidate_is_registered_when_a_watch_has_shown_that_there_is_no_lease(lock: CoordinatedLease) -> None:
    """Or, where there is no watch, by the second read."""
    lock._api = cast("ApiClient", WithoutLease())
    candidate = cast("Watched", lock.candidate)

    async def story() -> None:
        with pytest.raises(LockError):
            await lock.get(1)
        assert len(candidate.registered) == 0
        async with aclosing(lock.watch(None, 1)) as states:
            assert await anext(states) is None
            assert len(candidate.registered) == 0
            following = asyncio.ensure_future(anext(states))
            await asyncio.sleep(0)
            assert len(candidate.registered) == 1
            following.cancel()
            await asyncio.wait({following})
        with pytest.raises(LockError):
            await lock.get(1)
        assert len(candidate.registered) == 2

    asyncio.run(story())
