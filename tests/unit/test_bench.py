"""The figures of the benchmark mean what its table says."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import psutil
import pytest

from tests import measure
from tests.bench import memory, plot, table
from tests.bench.journal import Journal
from tests.support.processes import wait_until

ROOT = Path(__file__).parents[2]


def test_p99_is_the_nearest_rank() -> None:
    values = [float(value) for value in range(1, 101)]
    assert table.quantile(values, 0.99) == 99
    assert table.quantile(values, 0.991) == 100
    assert table.quantile([7.0], 0.99) == 7


def test_a_row_shows_p99_only_where_a_hundred_trials_give_one() -> None:
    assert table.row("x", [0.001] * 99).split() == ["x", "99", "1.0", "1.0"]
    assert table.row("x", [0.001] * 100).split() == ["x", "100", "1.0", "1.0", "1.0"]


def test_a_run_that_failed_or_ended_early_is_not_counted_as_passed() -> None:
    summary = "==== 2 failed, 3817 passed, 376 deselected, 1 error in 57.12s ====\nmake: *** [test] Error 1\n"
    assert measure.counts(f"E  1 passed\n{summary}") == (3817, 3)
    assert measure.counts("==== 3821 passed in 57.12s ====\n") == (3821, 0)
    assert measure.counts("error: no python3\n") == (0, 0)


def test_a_row_of_the_measured_runs_shows_what_the_machine_was_like_before_and_meanwhile() -> None:
    took = [measure.Took(wall, wall * 2, 0) for wall in (50.0, 60.0, 0.5, 1.0, 3.0, 9.0)]
    runs = [measure.Run(whole, 3821, 0, took[2], took[3:]) for whole in took[:2]]
    rows = [line.split() for line in measure.table(runs).splitlines()]
    assert rows[2] == ["1", "50.0", "100.0", "3821", "0", "0.50", "1.00", "3.00", "6.00"]
    assert rows[4] == ["median", "55.0", "110.0", "0.50", "1.00", "3.00", "6.00"]


def test_a_command_that_begins_before_another_has_ended_is_an_overlap(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal")
    journal.path.write_text("start 100 1 a\nend 200 1 a\nstart 300 2 b\nstart 350 3 c\nend 400 2 b\nstart 500 4 d\n")
    assert journal.overlaps() == 1
    assert [run.pid for run in journal.runs] == [1, 2, 3, 4]


def test_a_line_that_is_not_whole_yet_is_read_later(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal")
    journal.path.write_text("start 100 1")
    assert journal.look() == []
    journal.path.write_text("start 100 1 a\n")
    assert len(journal.look()) == 1


def test_memory_alone_counts_each_page_once_and_no_less_than_the_shared_pss() -> None:
    """Two processes of one program share its pages; who may not see page frames is told None."""
    sleepers = [subprocess.Popen(["sleep", "60"]) for _ in range(2)]
    try:
        one, two = (sleeper.pid for sleeper in sleepers)
        for each in (one, two):
            wait_until(lambda pid=each: _sleeps(pid), "a sleeper asleep")  # type: ignore[misc]
        once = memory.alone([one])
        if once is None:
            assert os.geteuid() != 0
            return
        assert memory.alone([one, one]) == once
        assert once < (memory.alone([one, two]) or 0) < 2 * once
        assert once > memory.pss([one])
    finally:
        for sleeper in sleepers:
            sleeper.kill()
            sleeper.wait()


def _sleeps(pid: int) -> bool:
    process = psutil.Process(pid)
    return process.name() == "sleep" and process.status() == psutil.STATUS_SLEEPING


def test_the_plot_shows_the_figures_of_the_readme() -> None:
    """The table and the picture are of one run."""
    planned, crash = (
        [int(cell.replace(",", "")) for cell in re.findall(r"\| ([\d,]+) ms", line)]
        for title in (plot.PLANNED, plot.CRASH)
        for line in re.findall(rf"^\| {title} .*$", (ROOT / "README.md").read_text("utf-8"), re.MULTILINE)
    )
    figures = {
        plot.PLANNED: {"floor": planned[2], "kleader": planned[0], "client-go": planned[1]},
        plot.CRASH: {"kleader": crash[0], "client-go": crash[1]},
    }
    assert (ROOT / "docs/bench.svg").read_text("utf-8") == plot.svg(figures)


@pytest.mark.parametrize("page", ["#ffffff", "#0d1117"])
def test_the_plot_is_readable_on_a_light_and_on_a_dark_page(page: str) -> None:
    """The contrast is at least 3, which WCAG asks of graphics."""

    def luminance(colour: str) -> float:
        parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
        linear = [part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2] + 0.05

    for colour in (plot.INK, plot.OURS, plot.OTHERS):
        dark, light = sorted((luminance(colour), luminance(page)))
        assert light / dark >= 3
