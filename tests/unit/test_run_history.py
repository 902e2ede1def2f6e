"""What the lock remembers of its latest runs, and which of them makes another one needless."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kleader.locks import run_history
from kleader.locks.run_history import MAX_HISTORY_BYTES, MAX_RUNS, Once, Run

SECOND = 1_000_000
NOW = 1_795_000_000 * SECOND
DONE = Run("host-b", "7", "", NOW - 50 * SECOND, NOW - 9 * SECOND, 0, "exited")


def ended(seconds_ago: float, took: float = 1.0, **more: Any) -> Run:  # noqa: ANN401 - fields
    end = NOW - round(seconds_ago * SECOND)
    return DONE._replace(started=end - round(took * SECOND), ended=end, **more)


def done_by(run: Run, *, key: str = "", per: float = 0.0, after_any: bool = False, waited: float = 0.0) -> bool:
    since = NOW - round(waited * SECOND)
    return Once(key, per, after_any).done_by([run], NOW, since, 60 * SECOND) is not None


def test_a_success_that_began_within_the_duration_makes_a_run_needless() -> None:
    assert done_by(ended(8, took=1), per=10)
    assert not done_by(ended(9, took=2), per=10)


def test_a_success_that_ended_while_the_candidate_waited_counts_however_long_it_took() -> None:
    assert done_by(ended(5, took=3600), per=10, waited=6)
    assert not done_by(ended(7, took=3600), per=10, waited=6)


def test_a_key_needs_no_clock_and_counts_however_old_it_is() -> None:
    run = DONE._replace(key="2026-11-23", started=None, ended=None)
    assert Once("2026-11-23", 0, after_any=False).done_by([run], None, 0, 0) == run
    assert Once("2026-11-24", 0, after_any=False).done_by([run], None, 0, 0) is None


@pytest.mark.parametrize("lack", ["the candidate's", "the run's"])
def test_a_run_without_a_time_makes_no_run_needless(lack: str) -> None:
    run = DONE if lack == "the candidate's" else DONE._replace(started=None, ended=None)
    now = None if lack == "the candidate's" else NOW
    assert Once("", 1e9, after_any=False).done_by([run], now, 0, 60 * SECOND) is None


@pytest.mark.parametrize("how", [{"status": 1}, {"reason": "stopped"}, {"reason": "stepped-down"}, {"reason": "lost"}])
def test_a_failed_or_stopped_run_counts_only_with_any(how: dict[str, Any]) -> None:
    run = ended(1, key="k", **how)
    assert not done_by(run, key="k", per=10)
    assert done_by(run, key="k", after_any=True)
    assert done_by(run, per=10, after_any=True)


def test_a_run_in_the_future_counts_only_within_the_clock_skew() -> None:
    """A step back of the clock that dates runs makes a command run again, rather than never."""
    assert done_by(ended(-59), per=10)
    assert not done_by(ended(-61), per=10)
    assert Once("", 10, after_any=False).done_by([ended(-1)], NOW, NOW, 0) is None


def test_ten_runs_are_kept_the_newest_first() -> None:
    runs: list[Run] = []
    for i in range(25):
        runs = run_history.add(runs, DONE._replace(token=str(i)))
    assert [run.token for run in runs] == [str(i) for i in range(24, 14, -1)]
    assert len(runs) == MAX_RUNS


def test_the_latest_success_is_kept_however_many_failures_follow() -> None:
    runs = run_history.add([], DONE)
    for i in range(25):
        runs = run_history.add(runs, DONE._replace(token=f"1{i}", status=1))
    assert len(runs) == MAX_RUNS
    assert runs[-1] == DONE


def test_a_run_that_is_recorded_twice_is_listed_once() -> None:
    """A release is repeated where its answer was lost."""
    runs = run_history.add([DONE._replace(token="6")], DONE)
    assert run_history.add(runs, DONE) == runs


def test_the_annotation_is_bounded_whatever_its_names() -> None:
    runs: list[Run] = []
    for i in range(12):
        long: dict[str, Any] = {"identity": "\N{SNOWMAN}" * 1024, "key": "\ud800" * 9999, "detail": "\ud800" * 999}
        runs = run_history.add(runs, DONE._replace(**long, token=str(i)))
        assert len(run_history.write(runs).encode()) <= MAX_HISTORY_BYTES
    assert runs[0].token == "11"


def test_a_written_history_is_read_back() -> None:
    run = DONE._replace(key="a \N{SNOWMAN}", started=NOW + 1234, ended=None, detail="asked to resign")
    assert run_history.read(run_history.write([run, DONE])) == [run, DONE]


@pytest.mark.parametrize("change", [
    {"identity": 1}, {"token": ""}, {"key": None}, {"status": True}, {"status": 256}, {"status": "0"}, {"reason": []},
    {"startTime": 5}, {"endTime": "yesterday"}, {"endTime": "2026-11-23T03:00:00"}, {"startTime": "9999-99-99Z"},
], ids=str)  # fmt: skip
def test_a_run_that_cannot_be_read_is_left_out_and_the_others_are_not(change: dict[str, Any]) -> None:
    first, second = run_history.as_json([DONE, DONE._replace(token="8")])
    assert run_history.read(json.dumps([{**first, **change}, second])) == [DONE._replace(token="8")]


@pytest.mark.parametrize("text", [None, 5, "", "{", "{}", "[]", "[null]", "[[]]", "[" * 99_999, "1" * 9999])
def test_a_missing_annotation_has_no_runs(text: object) -> None:
    assert run_history.read(text) == []
