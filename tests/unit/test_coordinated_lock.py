"""The Lease of coordinated election: what the control plane keeps in it is read, and written back as client-go does."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Any, cast

import pytest

from kleader.election.record import Record
from kleader.locks.coordinated import Coordinated

if TYPE_CHECKING:
    from kleader.locks.api import Api

NAMED = {"holderIdentity": "me", "leaseDurationSeconds": 5, "renewTime": "2026-11-21T12:00:00.000000Z"}
NAMED |= {"strategy": "OldestEmulationVersion"}
WRITTEN = NAMED | {"acquireTime": "2026-11-21T12:00:01.000000Z", "leaseTransitions": 1}
RECORD = Record("me", 15, 7, 8, 1)


@pytest.fixture
def lock() -> Coordinated:
    made = Coordinated(cast("Api", None), "default", "x", {})
    made.candidate = Watched()
    return made


class Watched:
    """A candidate that remembers when it was to give another sign of life; 0: nobody leads."""

    identity = "me"

    def __init__(self) -> None:
        self.told: list[float] = []

    def enter(self) -> None: ...

    async def register(self, timeout: float) -> None: ...

    def keep(self) -> None: ...

    def again_in(self, seconds: float) -> None:
        self.told.append(seconds)

    def vacant(self) -> None:
        self.told.append(0)

    async def leave(self, timeout: float) -> None: ...


def lease(spec: object, incarnation: str = "") -> dict[str, Any]:
    annotations = {"kleader/incarnation": incarnation} if incarnation else {}
    metadata = {"name": "x", "uid": "u", "resourceVersion": "7", "annotations": annotations}
    return {"kind": "Lease", "metadata": metadata, **({} if spec is None else {"spec": spec})}


def test_the_preferred_holder_is_read(lock: Coordinated) -> None:
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
def test_only_what_nobody_but_the_control_plane_has_written_is_untouched(
    lock: Coordinated, found: dict[str, Any], *, untouched: bool
) -> None:
    assert lock.observed(found).untouched is untouched


def test_the_candidate_is_told_for_how_long_who_was_named_has_time(lock: Coordinated) -> None:
    """The end of it wakes the control plane; not where who was named has written. And that nobody leads."""
    assert isinstance(lock.candidate, Watched)
    lock.observed(lease(WRITTEN | {"holderIdentity": ""}))
    assert lock.candidate.told == [0]
    lock.observed(lease(NAMED))
    lock.observed(lease(WRITTEN))
    assert lock.candidate.told == [0, 5, inf]


def test_a_write_keeps_the_strategy_and_who_is_preferred(lock: Coordinated) -> None:
    body = lease(WRITTEN | {"preferredHolder": "other"})
    lock.encode(body, RECORD)
    assert (body["spec"]["strategy"], body["spec"]["preferredHolder"]) == ("OldestEmulationVersion", "other")
    assert body["spec"]["leaseDurationSeconds"] == 15


def test_a_release_keeps_the_strategy_alone(lock: Coordinated) -> None:
    body = lease(WRITTEN | {"preferredHolder": "other"})
    lock.encode(body, Record("", 1, 7, 8, 1))
    assert body["spec"]["strategy"] == "OldestEmulationVersion"
    assert "preferredHolder" not in body["spec"]


def test_a_lease_that_has_neither_gets_neither(lock: Coordinated) -> None:
    body: dict[str, Any] = {"metadata": {"name": "x"}}
    lock.encode(body, RECORD)
    assert set(body["spec"]) == {
        *("holderIdentity", "leaseDurationSeconds", "acquireTime", "renewTime", "leaseTransitions")
    }
