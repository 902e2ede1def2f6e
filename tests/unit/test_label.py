"""The Pod's label: whatever comes late or is not answered, the leader's value is not the last that is written."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest

from kleader.election.state import Phase
from kleader.elector import label as labels
from kleader.elector.label import Label, Pod
from kleader.locks.within import within
from kleader.log import Log

if TYPE_CHECKING:
    from kleader.election.state import State
    from kleader.locks.credentials import Credentials

LEADS, WAITS = (cast("State", SimpleNamespace(phase=phase)) for phase in (Phase.LEADING, Phase.RELEASING))


class Scripted(Label):
    """Its requests are noted; the first of them that are in ``lost`` are not answered."""

    def __init__(self, *lost: str) -> None:
        super().__init__(cast("Credentials", None), Log(verbosity=-1), Pod("ns", "a", ""), ["key", "leader", "standby"])
        self.sent: asyncio.Queue[str] = asyncio.Queue()
        self._lost = list(lost)

    async def _write(self, value: str) -> bool:
        self.sent.put_nowait(value)
        await asyncio.sleep(0)
        if value in self._lost:
            self._lost.remove(value)
            return False
        return True

    def leads(self) -> None:
        """A term begins, and the command."""
        self.follow(LEADS)
        self.runs(well=True)


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("_FIRST_PAUSE", "_DOUBT"):
        monkeypatch.setattr(labels, name, 0.02)


@pytest.mark.parametrize("end", ["the phase", "the stop"])
def test_a_term_that_ends_before_its_value_is_written_leaves_no_trace(end: str) -> None:
    async def story() -> None:
        label = Scripted()
        label.follow(WAITS)
        assert await label.sent.get() == "standby"
        await label.settle(60)
        label.leads()
        await asyncio.sleep(0)
        if end == "the phase":
            label.follow(WAITS)
        else:
            label.runs(well=False)
        await label.settle(60)
        assert label.sent.empty()

    asyncio.run(story())


def test_a_value_that_nobody_has_confirmed_may_come_late_and_is_written_over_once_more() -> None:
    async def story() -> list[str]:
        label = Scripted("leader")
        label.leads()
        first = await label.sent.get()
        label.follow(WAITS)
        second = await label.sent.get()
        async with within(10):
            return [first, second, await label.sent.get()]

    assert asyncio.run(story()) == ["leader", "standby", "standby"]
