"""The leader before, as the log reports it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest

from kleader.election.events import Observed
from kleader.election.record import UNKNOWN, Record
from kleader.elector.previous_holder import PreviousHolder

if TYPE_CHECKING:
    from kleader.election.state import State


def state(holder: str, seen_at: float, *, non_expiring: bool = False) -> State:
    seen = Observed(Record(holder))
    me = SimpleNamespace(identity="me", non_expiring=non_expiring)

    def mine(_: object) -> bool:
        return non_expiring and holder == "my-pod"

    return cast("State", SimpleNamespace(observed=seen, has_observed=True, me=me, observed_at=seen_at, held_by_me=mine))


def sentences(earlier: PreviousHolder) -> list[str]:
    """What is logged of the acquisitions of two terms."""
    return [found.sentence for found in (earlier.succession(4.0), earlier.succession(4.0)) if found]


@pytest.mark.parametrize(
    ("holders", "told"),
    [
        (["a", "", "me"], ["acquired the lock 3s after a released it"]),
        (["a", "me"], ["acquired the lock 4s after a was last observed to renew it"]),
        (["a", UNKNOWN, "", "me"], ["acquired the lock 2s after a released it"]),
        (["a", "", UNKNOWN, "me"], ["acquired the lock 3s after a released it"]),
        ([UNKNOWN, "me"], []),
    ],
    ids=str,
)
def test_the_predecessor_in_the_log_is_a_known_holder(holders: list[str], told: list[str]) -> None:
    """Two objects of one lock that differ for a moment are not a term."""
    earlier = PreviousHolder()
    for at, holder in enumerate(holders):
        earlier.note(state(holder, float(at)), float(at))
    assert sentences(earlier) == told


@pytest.mark.parametrize(
    ("pod", "told"), [("my-pod", []), ("other", ["acquired the lock 4s after other was last observed to hold it"])]
)
def test_a_holder_for_life_is_logged_by_its_pod_without_a_renewal(pod: str, told: list[str]) -> None:
    earlier = PreviousHolder()
    earlier.note(state(pod, 0.0, non_expiring=True), 0.0)
    earlier.note(state("my-pod", 4.0, non_expiring=True), 4.0)
    assert sentences(earlier) == told
