"""How long `make prove` causes faults, and the table that it prints."""

from __future__ import annotations

import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest

from tests.prove import on_plane, on_request
from tests.prove.__main__ import ROOMS
from tests.prove.driver import Chaos
from tests.prove.on_processes import Killed
from tests.prove.table import Table

if TYPE_CHECKING:
    from tests.prove.fault import Trial

NAMES = [fault.name for room in ROOMS for fault in room.FAULTS] + [fault.name for fault in on_plane.FAULTS]


@pytest.fixture
def table() -> Table:
    return Table(["kill", "stop", "step"], {"step": "no clock"})


def row(table: Table, name: str) -> list[str]:
    return next(line for line in table.text().splitlines() if line.startswith(name)).split()


def test_a_row_has_trials_bound_smallest_gap_and_longest_pause(table: Table) -> None:
    table.trial("kill", [0.5, 0.75], 3.25, 9, late=False, counts=True)
    table.trial("kill", [0.02], 0.02, 8, late=True, counts=True)
    table.trial("kill", [], 0, 8, late=False, counts=False)
    assert row(table, "kill") == ["kill", "2", "3", "0", "1.5e+00", "20", "ms", "3.2", "s", "of", "9.0", "s", "1"]
    assert table.problems(0) == []


def test_an_overlap_counts_once_and_leaves_no_bound(table: Table) -> None:
    table.trial("kill", [], 0, 8, late=False, counts=True)
    assert table.news("fleet", "kill", {("a", "b"): "for 1 ms"}) == ["for 1 ms"]
    assert table.news("fleet", "stop", {("a", "b"): "for 9 ms"}) == []
    assert table.news("other", "kill", {("a", "b"): "for 2 ms"}) == ["for 2 ms"]
    assert row(table, "kill")[1:5] == ["1", "1", "2", "-"]
    assert table.problems(0) == ["2 overlaps"]


def test_outcomes_of_requests_are_counted_and_a_false_answer_is_no_proof(table: Table) -> None:
    table.trial("kill", [], 0, 8, late=False, counts=True)
    for outcome in ("transfers done", "transfers done", "transfers reported as failed"):
        table.came(outcome)
    assert "came of what was asked: 2 transfers done, 1 transfers reported as failed" in table.text().splitlines()
    assert table.problems(0) == []
    table.broken("kill", "b led before")
    assert table.problems(0) == ["kill: b led before"]


@pytest.mark.parametrize(
    ("holders", "found"),
    [
        (["x", "a", "a", "b"], set()),
        (["a", "", "b", "c"], set()),
        (["a", "c", "", "b"], {"c"}),
        (["a", "c", "a", "b"], set()),
        (["b", "a", "a"], None),
        (["b", "c"], None),
    ],
    ids=str,
)
def test_a_leader_between_the_asked_and_the_named_candidate_is_found(
    holders: list[str], found: set[str] | None
) -> None:
    assert on_request.between(holders, "a", "b") == found


def test_a_fault_that_failed_or_was_tried_too_seldom_is_no_proof(table: Table) -> None:
    assert table.problems(0) == ["nothing was tried"]
    table.trial("kill", [], 0, 8, late=False, counts=True)
    table.failed("kill", "it would not die")
    table.failed("stop", "nothing to stop")
    assert "not brought about: kill: it would not die" in table.text()
    assert table.problems(2) == [
        "kill: 1 trials, fewer than 2",
        "stop: 0 trials, fewer than 2",
        "stop: could not be brought about 1 times",
    ]


def test_faults_go_on_beyond_their_time_where_a_class_came_too_seldom(table: Table) -> None:
    past, future = time.monotonic() - 1, time.monotonic() + 600
    chaos = Chaos(0, Path(), Path(), [], [], (), False, False, 0, past, future, 1, table, print)  # noqa: FBT003
    table.trial("kill", [], 0, 8, late=False, counts=True)
    assert not chaos.over
    table.trial("stop", [], 0, 8, late=False, counts=True)
    assert chaos.over


def test_a_fault_that_this_machine_cannot_cause_is_reported_without_a_row(table: Table) -> None:
    assert "not tried on this machine: step: no clock" in table.text()
    assert not any(line.startswith("step") for line in table.text().splitlines())


def test_the_classes_of_faults_have_names_of_their_own_that_fit_the_table() -> None:
    assert len(set(NAMES)) == len(NAMES) >= 30
    assert max(map(len, NAMES)) <= 52


def test_a_leader_is_killed_from_the_bottom_of_its_tree() -> None:
    """Of descendants that outlive supervisor and elector nothing is promised, so nothing is proven by them."""
    killed: list[str] = []

    class Victim:
        def __init__(self, name: str) -> None:
            self.name = name

        def send_signal(self, number: int) -> None:
            assert number == signal.SIGKILL
            killed.append(self.name)

    victims: Any = [Victim(name) for name in ("supervisor", "elector", "command", "descendant")]
    Killed("whole leader", lambda _: victims).inject(cast("Trial", None))
    assert killed == ["descendant", "command", "elector", "supervisor"]
