"""Who led before, as the log tells it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from kleader.election.record import UNKNOWN, Record
from kleader.elector.predecessor import Predecessor

if TYPE_CHECKING:
    from kleader.election.state import State
    from kleader.log import Log


def state(holder: str, seen_at: float) -> State:
    seen = SimpleNamespace(record=Record(holder), given=False)
    me = SimpleNamespace(identity="me")
    return cast("State", SimpleNamespace(seen=seen, known=True, me=me, seen_at=seen_at))


class Told(list[str]):
    """A log."""

    def info(self, message: str, **_: Any) -> None:  # noqa: ANN401
        self.append(message)


@pytest.mark.parametrize(
    ("holders", "told"),
    [
        (["a", "", "me"], ["acquired the lock 3s after a gave it up"]),
        (["a", "me"], ["acquired the lock 4s after a was last seen to renew it"]),
        (["a", UNKNOWN, "", "me"], ["acquired the lock 2s after a gave it up"]),
        (["a", "", UNKNOWN, "me"], ["acquired the lock 3s after a gave it up"]),
        ([UNKNOWN, "me"], []),
    ],
    ids=str,
)
def test_it_is_somebody_whom_people_know(holders: list[str], told: list[str]) -> None:
    """Two objects of one lock that differ for a moment are nobody's term."""
    earlier, log = Predecessor(), Told()
    for at, holder in enumerate(holders):
        earlier.note(state(holder, float(at)), float(at))
    earlier.tell(cast("Log", log), 4.0)
    assert log == told
