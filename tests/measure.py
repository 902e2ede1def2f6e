"""python -m tests.measure: how long `make test` takes here, and how slow the machine is meanwhile.

Runs `make test` --runs times. A bare Python does the same sums before each run, and every few seconds while it lasts:
their time tells two machines apart, and two hours of a shared one. --load starts as many busy processes, which last as
long as the run. Prints a row for each run. Exit status 1: a run failed; the output of all is in build/measure/.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import statistics
import subprocess
import sys
import threading
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from tests.bench.table import load, machine

if TYPE_CHECKING:
    from collections.abc import Sequence

ROOT = Path(__file__).parents[1]
PLACE = ROOT / "build" / "measure"
WORK = "sum(range(20_000_000))"
EVERY = 5.0  # seconds between two of them
BUSY = [
    sys.executable,
    str(ROOT / "tests/support/die_with_parent.py"),
    str(os.getpid()),
    *(sys.executable, "-c", "while True: pass"),
]
SUMMARY = re.compile(r"(\d+) (passed|failed|errors?)\b")


class Took(NamedTuple):
    """What a command took, in seconds: by the clock, and of processors, with all that it started and waited for."""

    wall: float
    processor: float
    status: int


class Run(NamedTuple):
    """One run of the tests, and the fixed work before it and while it lasted."""

    took: Took
    passed: int
    failed: int
    before: Took
    during: Sequence[Took]


def counts(output: str) -> tuple[int, int]:
    """How many tests passed, and how many failed or had an error, by pytest's last line; (0, 0) without one."""
    last = next((line for line in reversed(output.splitlines()) if SUMMARY.search(line)), "")
    found = {what: int(number) for number, what in SUMMARY.findall(last)}
    passed = found.pop("passed", 0)
    return passed, sum(found.values())


def table(runs: Sequence[Run]) -> str:
    """A row for each run, and the median of all."""
    lines = [
        f"{'':>6}  {'make test':^16}  {'tests':^13}  {'work before':^16}  {'work during':^16}",
        f"{'run':>6}  {'wall':>7} {'cpu':>8}  {'passed':>6} {'failed':>6}" + 2 * f"  {'wall':>7} {'cpu':>8}",
    ]
    rows = [[*run.took[:2], *run.before[:2], *_medians(run.during)] for run in runs]
    for number, (run, row) in enumerate(zip(runs, rows, strict=True), 1):
        lines.append(_line(str(number), row, f"{run.passed:6} {run.failed:6}"))
    lines.append(_line("median", [statistics.median(column) for column in zip(*rows, strict=True)], f"{'':13}"))
    return "\n".join([*lines, "", "seconds"])


def _medians(took: Sequence[Took]) -> list[float]:
    return [statistics.median(each[at] for each in took) if took else float("nan") for at in (0, 1)]


def _line(name: str, row: Sequence[float], tests: str) -> str:
    wall, cpu, *work = row
    return f"{name:>6}  {wall:7.1f} {cpu:8.1f}  {tests}" + "".join(
        f"  {work[at]:7.2f} {work[at + 1]:8.2f}" for at in (0, 2)
    )


def _take(process: subprocess.Popen[bytes], began: float) -> Took:
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return Took(time.monotonic() - began, usage.ru_utime + usage.ru_stime, process.returncode)


def _work() -> Took:
    began = time.monotonic()
    return _take(subprocess.Popen([sys.executable, "-I", "-S", "-c", WORK]), began)


def _run(number: int, busy: int) -> Run:
    before, during, over = _work(), [], threading.Event()

    def work() -> None:
        while not over.wait(EVERY):
            during.append(_work())

    beside = threading.Thread(target=work)
    with (PLACE / f"{number}.log").open("wb") as log, ExitStack() as ended:
        for _ in range(busy):
            process = subprocess.Popen(BUSY)
            ended.callback(process.wait)
            ended.callback(process.kill)
        began = time.monotonic()
        tests = subprocess.Popen(["make", "test"], cwd=ROOT, stdout=log, stderr=subprocess.STDOUT)
        beside.start()
        took = _take(tests, began)
    over.set()
    beside.join()
    return Run(took, *counts((PLACE / f"{number}.log").read_text(errors="replace")), before, during)


def main() -> int:
    """Measure, and print the table; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.measure", description=__doc__)
    parser.add_argument("--runs", type=int, default=5, help="how often (%(default)s)")
    parser.add_argument("--load", type=int, default=0, help="busy processes meanwhile (%(default)s)")
    given = parser.parse_args()
    shutil.rmtree(PLACE, ignore_errors=True)
    PLACE.mkdir(parents=True)
    print(f"{machine()}, load average {load()}, {given.load} busy processes", flush=True)  # noqa: T201
    runs = [_run(number, given.load) for number in range(1, given.runs + 1)]
    print(table(runs))  # noqa: T201
    return int(any(run.took.status or run.failed or not run.passed for run in runs))


if __name__ == "__main__":
    sys.exit(main())
