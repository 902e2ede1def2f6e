"""What an elector records of a run on a lock at the API, and when it finds the command's work done."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, cast

import pytest

from kleader import system
from kleader.election.events import Failure, Kind, Observed
from kleader.election.record import Record
from kleader.elector.api_run_record import RunRecord
from kleader.ipc import messages as m
from kleader.ipc.plan import Plan
from kleader.kube.errors import LockError
from kleader.log import Log

if TYPE_CHECKING:
    from kleader.locks.base import Lock
    from kleader.locks.run_history import Run

SECOND = 1_000_000
SERVER_TIME = 1_000_000_000 * SECOND  # years from this machine's
MINE = Observed(Record("me", 15, 1, 1, 0), "i", "8")


class Kept:
    """Stands for a lock: keeps the runs."""

    namespace = "n"
    ended_run: Run | None = None
    server_time: int | None = SERVER_TIME

    def __init__(self, *seen: Observed) -> None:
        self.kept: list[Run] = []
        self.seen = list(seen)
        self.conflicts = 0

    def runs(self, _seen: Observed) -> list[Run]:
        return self.kept

    async def get(self, _timeout: float) -> Observed:
        return self.seen.pop(0)

    async def add_run(self, _base: Observed, run: Run, _timeout: float) -> None:
        if self.conflicts:
            self.conflicts -= 1
            raise LockError(Kind.CONFLICT, "somebody was first")
        self.kept = [run]


def record(**options: Any) -> RunRecord:  # noqa: ANN401
    known: dict[str, Any] = {"identity": "me", "lock": "lease", "once": "", "once_per": 10.0, "started": system.clock()}
    known |= {"once_after_any": False} | options
    made = RunRecord(Plan(**{name: known.get(name, "") for name in Plan.__annotations__}), Log(verbosity=-1))
    now = system.clock()
    made.ran = m.Ran(1, "7", 0, "exited", now - 3, now - 1)
    return made


def prepared(made: RunRecord, lock: Kept) -> Run:
    made.prepare(cast("Lock", lock))
    assert lock.ended_run
    return lock.ended_run


def test_a_run_is_dated_by_the_api_server() -> None:
    """The time between the run's end and its record is counted on this machine, whose wall clock is not asked."""
    run = prepared(record(), Kept())
    assert run.started is not None
    assert run.ended is not None
    assert run.started == pytest.approx(SERVER_TIME - 3 * SECOND, abs=SECOND / 2)
    assert run.ended - run.started == pytest.approx(2 * SECOND, abs=10_000)


def test_a_server_that_tells_no_time_leaves_the_run_without_one() -> None:
    lock = Kept()
    lock.server_time = None
    run = prepared(record(), lock)
    assert (run.started, run.ended) == (None, None)
    lock.kept = [run]
    assert record().done(cast("Lock", lock), MINE) == ""


def test_a_run_of_another_host_is_judged_by_the_api_server_s_clock_alone() -> None:
    lock = Kept()
    lock.kept = [prepared(record(), Kept())]
    assert record().done(cast("Lock", lock), MINE).startswith("already done by me at 2001-09-09T01:46:3")
    lock.server_time = SERVER_TIME + 20 * SECOND
    assert record().done(cast("Lock", lock), MINE) == ""
    assert record(started=system.clock() - 30).done(cast("Lock", lock), MINE)  # it waited for that very run


def test_without_once_no_run_is_needless() -> None:
    lock = Kept()
    lock.kept = [prepared(record(), Kept())]
    assert record(once_per=0.0).done(cast("Lock", lock), MINE) == ""


def test_a_lock_for_life_is_given_no_run_to_record() -> None:
    lock = Kept()
    record(lock="leader-for-life").prepare(cast("Lock", lock))
    assert lock.ended_run is None


@pytest.mark.parametrize("kind", list(Kind))
def test_a_release_that_the_server_refuses_is_repeated_without_the_run(kind: Kind) -> None:
    """The object may be full. Whatever else fails may succeed the next time."""
    made, lock = record(), Kept()
    prepared(made, lock)
    made.refused(cast("Lock", lock), Failure(kind, "the lock's object is full"))
    lock.ended_run = None
    made.prepare(cast("Lock", lock))
    assert (lock.ended_run is None) is (kind is Kind.REFUSED)


def test_a_new_candidacy_records_nothing_of_the_last_one() -> None:
    made, lock = record(), Kept()
    prepared(made, lock)
    made.forget(cast("Lock", lock))
    assert lock.ended_run is None
    made.prepare(cast("Lock", lock))
    assert lock.ended_run is None


def test_with_no_release_the_run_is_recorded_over_the_term_s_own_record() -> None:
    lock = Kept(MINE, MINE)
    lock.conflicts = 1  # a request to resign, or a renewal that was under way
    asyncio.run(record().add(cast("Lock", lock), "i", 1.0))
    assert [run.token for run in lock.kept] == ["7"]


@pytest.mark.parametrize("seen", [
    Observed(Record("other", 15, 1, 1, 1), "i", "9"), Observed(Record("me", 15, 1, 1, 1), "another", "9"),
    Observed(Record("", 1, 1, 1, 1), "", "9"),
], ids=["another's", "another term's", "free"])  # fmt: skip
def test_with_no_release_nothing_is_written_over_what_is_not_the_term_s_own(seen: Observed) -> None:
    lock = Kept(seen)
    asyncio.run(record().add(cast("Lock", lock), "i", 1.0))
    assert lock.kept == []
