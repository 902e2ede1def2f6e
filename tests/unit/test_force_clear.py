"""Which holders ``resign --force`` takes for dead."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from kleader.cli import force_clear
from kleader.cli.followed_lock import FollowedLock, TimeIsUpError
from kleader.election.events import Observed
from kleader.election.record import Record
from kleader.exits import NOT_DONE
from kleader.locks.lease import LeaseLock
from kleader.observe.snapshot import LockState

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

HELD = Observed(Record("other", 600, 1, 1), "term", "7", base={"metadata": {"uid": "u"}, "spec": {}})


SHOWN = SimpleNamespace(record=HELD.record, incarnation=HELD.incarnation, non_expiring=False)


class Stale:
    """A lock whose watch is stale: it shows a record as expired that was written meanwhile."""

    properties = LeaseLock.properties

    def __init__(self, *_: object) -> None:
        self.query = SimpleNamespace(request_timeout=1.0)
        self.seconds, self.end, self.objects = 1.0, 0.0, [self]

    fail_late, retry = FollowedLock.fail_late, FollowedLock.retry

    async def statuses(self) -> AsyncGenerator[tuple[Any, list[Any]], None]:
        """The statuses of the record before that one."""
        for state in (LockState.HELD, LockState.EXPIRED):
            yield SimpleNamespace(state=state, snapshot=SHOWN, at=0), []
        raise TimeIsUpError

    async def get(self, _timeout: float) -> Observed:
        """The later record."""
        return HELD

    async def write(self, *_: object) -> Observed:
        """Fail: the record must not be overwritten."""
        raise AssertionError


def test_only_a_record_read_unchanged_for_its_whole_lease_duration_is_cleared(monkeypatch: pytest.MonkeyPatch) -> None:
    """A record written after the first read was not observed unchanged yet."""
    monkeypatch.setattr(force_clear, "followed", Stale)
    query: Any = SimpleNamespace(kind=LeaseLock.kind, name="x")
    with pytest.raises(SystemExit) as ended:
        asyncio.run(force_clear.clear(query, 1.0, "", now=False, yes=True))
    assert ended.value.code == NOT_DONE
