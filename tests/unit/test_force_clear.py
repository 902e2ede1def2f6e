"""Which holders ``resign --force`` takes for dead."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from kleader.cli import force_clear
from kleader.cli.followed_lock import FollowedLock, TimeIsUpError
from kleader.election.events import Observed
from kleader.election.record import Record
from kleader.exits import NOT_DONE
from kleader.locks.lease import LeaseLock
from kleader.observe.snapshot import LockSnapshot, LockState, status_from_watch

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from kleader.observe.snapshot import LockStatus

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


LOCK = LockSnapshot("lease", "n", "x", HELD.record, HELD.incarnation)
QUERY: Any = SimpleNamespace(kind=LeaseLock.kind, name="x")


class Shown(Stale):
    """A lock that shows this status, and has no holder from its second read on."""

    def __init__(self, status: LockStatus | None) -> None:
        super().__init__()
        self.status, self.reads, self.namespace = status, 0, "n"
        self.query = SimpleNamespace(request_timeout=1.0, kind="lease", name="x")

    fail_missing = FollowedLock.fail_missing

    async def statuses(self) -> AsyncGenerator[tuple[Any, list[Any]], None]:
        """It alone."""
        yield self.status, []

    async def get(self, _timeout: float) -> Observed:
        """The record, and then none."""
        self.reads += 1
        return HELD if self.reads == 1 else replace(HELD, record=Record("", 1))


@pytest.mark.parametrize("record", [Record(), HELD.record], ids=["free", "released just now"])
def test_a_lock_without_a_holder_is_not_written(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], record: Record
) -> None:
    shown = Shown(status_from_watch(replace(LOCK, record=record), 0, 0))
    monkeypatch.setattr(force_clear, "followed", lambda *_: shown)
    asyncio.run(force_clear.clear(QUERY, 1.0, "", now=True, yes=True))
    assert shown.reads == 2 * bool(record.holder)
    assert ("cleared: other held it" in capsys.readouterr().out) == bool(record.holder)


def test_a_missing_lock_is_not_cleared(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(force_clear, "followed", lambda *_: Shown(None))
    with pytest.raises(SystemExit) as ended:
        asyncio.run(force_clear.clear(QUERY, 1.0, "", now=True, yes=True))
    assert ended.value.code == NOT_DONE
    assert capsys.readouterr().err == "kleader: error: there is no lease lock x in the namespace n\n"


def test_only_a_record_read_unchanged_for_its_whole_lease_duration_is_cleared(monkeypatch: pytest.MonkeyPatch) -> None:
    """A record written after the first read was not observed unchanged yet."""
    monkeypatch.setattr(force_clear, "followed", Stale)
    with pytest.raises(SystemExit) as ended:
        asyncio.run(force_clear.clear(QUERY, 1.0, "", now=False, yes=True))
    assert ended.value.code == NOT_DONE
