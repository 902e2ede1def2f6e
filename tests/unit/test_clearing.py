"""What ``resign --force`` takes for dead."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from kleader.cli import clearing
from kleader.cli.asking import NOT_DONE, TimeIsUpError
from kleader.election.events import Observed
from kleader.election.record import Record
from kleader.locks.lease import Lease
from kleader.watching.seen import State

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

HELD = Observed(Record("other", 600, 1, 1), "term", "7", base={"metadata": {"uid": "u"}, "spec": {}})


SHOWN = SimpleNamespace(record=HELD.record, incarnation=HELD.incarnation, lasting=False)


class Stale:
    """A lock whose watch has gone deaf: it shows a record as expired that was written meanwhile."""

    traits = Lease.traits

    def __init__(self, *_: object) -> None:
        self.what = SimpleNamespace(timeout=1.0)
        self.timeout, self.end, self.objects = 1.0, 0.0, [self]

    async def looks(self) -> AsyncGenerator[tuple[Any, list[Any]], None]:
        """The record before that one."""
        for state in (State.HELD, State.EXPIRED):
            yield SimpleNamespace(state=state, seen=SHOWN, wall=0), []
        raise TimeIsUpError

    async def get(self, _timeout: float) -> Observed:
        """The later one."""
        return HELD

    async def write(self, *_: object) -> Observed:
        """Must not be."""
        raise AssertionError


def test_what_is_cleared_was_read_unchanged_for_its_whole_duration(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of what was written after the first look at the lock nobody has seen that it stays so."""
    monkeypatch.setattr(clearing, "Errand", Stale)
    what: Any = SimpleNamespace(kind=Lease.kind, name="x")
    with pytest.raises(SystemExit) as ended:
        asyncio.run(clearing.clear(what, 1.0, "", now=False, yes=True))
    assert ended.value.code == NOT_DONE
