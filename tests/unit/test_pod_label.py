"""The Pod's label: the leader's value is not the last one written, even if requests are late or not answered."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest

from kleader.backoff import Backoff
from kleader.election.state import Phase
from kleader.elector import pod_label as labels
from kleader.elector.pod_label import PodLabel
from kleader.ipc.plan import Pod
from kleader.kube.timeout import within
from kleader.log import Log

if TYPE_CHECKING:
    from kleader.election.state import State
    from kleader.kube.credentials import Credentials

LEADS, WAITS = (cast("State", SimpleNamespace(phase=phase)) for phase in (Phase.LEADING, Phase.RELEASING))


class Scripted(PodLabel):
    """Its requests are recorded; those of the values in ``lost`` are not answered, once each."""

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
        """Begin a term, and the command."""
        self.follow(LEADS)
        self.command(runs=True)


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(labels, "_UNCERTAIN_SECONDS", 0.02)
    monkeypatch.setattr(Backoff, "pause", lambda _self: 0.02)


@pytest.mark.parametrize("end", ["the phase", "the stop"])
def test_a_term_that_ends_at_once_never_writes_the_leaders_value(end: str) -> None:
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
            label.command(runs=False)
        await label.settle(60)
        assert label.sent.empty()

    asyncio.run(story())


def test_an_unanswered_leaders_label_is_overwritten_once_it_can_no_longer_arrive() -> None:
    async def story() -> list[str]:
        label = Scripted("leader")
        label.leads()
        first = await label.sent.get()
        label.follow(WAITS)
        second = await label.sent.get()
        async with within(10):
            return [first, second, await label.sent.get()]

    assert asyncio.run(story()) == ["leader", "standby", "standby"]
