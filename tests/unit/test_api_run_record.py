"""What an elector records of a run on a lock at the API, and when it finds the command's work done."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import pytest

from kleader import system
from kleader.election.events import Failure, Get, Kind, Observed, Write
from kleader.election.record import Record
from kleader.elector.api_run_record import RunRecord
from kleader.ipc import messages as m
from kleader.ipc.plan import Plan
from kleader.log import Log

if TYPE_CHECKING:
    from kleader.locks.base import Lock
    from kleader.locks.run_history import Run

SECOND = 1_000_000
SERVER_TIME = 1_000_000_000 * SECOND  # years from this machine's
MINE = Observed(Record("me", 15, 1, 1, 0), "i", "8")
WRITE = Write(1, 1.0, MINE, Record("", 1, 1, 2, 0), "")


class Kept:
    """Stands for a lock: keeps the runs."""

    namespace = "n"
    ended_run: Run | None = None
    recommended = "best"
    server_time: int | None = SERVER_TIME

    def __init__(self) -> None:
        self.kept: list[Run] = []

    def runs(self, _seen: Observed) -> list[Run]:
        return self.kept


def record(**options: Any) -> RunRecord:  # noqa: ANN401
    known: dict[str, Any] = {"identity": "me", "lock": "lease", "once": "", "once_per": 10.0, "started": system.clock()}
    known |= {"once_after_any": False} | options
    made = RunRecord(Plan(**{name: known.get(name, "") for name in Plan.__annotations__}), Log(verbosity=-1))
    now = system.clock()
    made.ran = m.Ran("7", 0, "exited", now - 3, now - 1)
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
    assert run.ended - run.started == pytest.approx(2 * SECOND, abs=2)


def test_a_run_has_no_time_if_the_server_sends_no_date() -> None:
    lock = Kept()
    lock.server_time = None
    run = prepared(record(), lock)
    assert (run.started, run.ended) == (None, None)
    lock.kept = [run]
    assert record().done(cast("Lock", lock), MINE) == ""


def test_a_run_of_another_host_is_dated_by_the_api_servers_clock_alone() -> None:
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


@pytest.mark.parametrize("kind", list(Kind))
def test_a_release_that_the_server_refuses_is_repeated_without_the_run_and_the_recommendation(kind: Kind) -> None:
    """The object may be full. Whatever else fails may succeed the next time."""
    made, lock = record(), Kept()
    prepared(made, lock)
    made.refused(cast("Lock", lock), WRITE, Failure(kind, "the lock's object is full"))
    lock.ended_run = None
    made.prepare(cast("Lock", lock))
    assert (lock.ended_run is None) is (kind is Kind.REFUSED)
    assert (lock.recommended == "") is (kind is Kind.REFUSED)


def test_a_refused_read_or_a_refused_renewal_of_the_running_command_forgets_no_run() -> None:
    made, lock = record(), Kept()
    full = Failure(Kind.REFUSED, "the lock's object is full")
    made.refused(cast("Lock", lock), WRITE, full)  # it was sent before the run had ended
    prepared(made, lock)
    made.refused(cast("Lock", lock), Get(2, 1.0), full)
    lock.ended_run = None
    assert prepared(made, lock).token == "7"
