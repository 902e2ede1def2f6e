"""python -m tests.mutation: takes each guard of the promise away, one at a time, and wants the test that must fail.

Exit status 1: a guard is not missed, so a test is missing, or the guard is needless. 2: the list is out of date.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from typing import TYPE_CHECKING

from tests.mutation.guards import IN_MEMORY, MUTANTS, TABLE
from tests.mutation.mutant import Trial, tried

if TYPE_CHECKING:
    from tests.mutation.guard import Guard
    from tests.mutation.mutant import Outcome


def main() -> int:
    """Run as told; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutation", description=__doc__)
    parser.add_argument(
        "pattern", nargs="?", default="", help="only guards, files and tests in whose names this occurs"
    )
    jobs = 3 * (os.cpu_count() or 1)  # a third of them only waits
    parser.add_argument("--jobs", type=int, metavar="J", default=jobs, help="at once")
    parser.add_argument("--tests-passed", action="store_true", help="all tests have just passed: do not run them first")
    args = parser.parse_args()
    chosen = [each for each in MUTANTS if _is_named(each, args.pattern)]
    in_memory = [f"{IN_MEMORY}[{each.keeps}]" for each in TABLE if _is_named(each, args.pattern)]
    if not chosen and not in_memory:
        parser.error(f"no guard is named like {args.pattern!r}")
    for each in chosen:
        try:
            each.check()
        except ValueError as error:
            print(f"error: {error}: bring tests/mutation up to date", file=sys.stderr)
            return 2
    began = time.monotonic()
    if not args.tests_passed and not _pass_unpatched(sorted({each.test for each in chosen}), args.jobs):
        return 1
    chosen.sort(key=lambda each: each.test)  # cluster/ and process/ wait, so they begin
    trials = (Trial([each.test], each) for each in chosen)
    survived = sum(_told(trial, outcome) for trial, outcome in tried(trials, args.jobs))
    killed = len(chosen) - survived
    if in_memory and args.tests_passed:
        killed += len(in_memory)
        print(f"of the step function, in memory: {IN_MEMORY} has passed, so it has killed {len(in_memory)}")
    elif in_memory:
        [(_, found)] = tried([Trial(in_memory)], 1)
        survived += len(found.failed)
        killed += len(found.passed)
        print(f"of the step function, in memory: {len(found.passed)} killed; {IN_MEMORY}; {found.seconds:.1f} s")
        print(*(f"SURVIVED {name}" for name in found.failed), sep="\n", end="")
    print(f"{killed + survived} guards: {killed} killed, {survived} survived; {time.monotonic() - began:.0f} s")
    return 1 if survived else 0


def _is_named(guard: Guard, pattern: str) -> bool:
    return any(pattern in text for text in (guard.keeps, guard.file, guard.test))


def _pass_unpatched(tests: list[str], jobs: int) -> bool:
    """Whether all of them pass with every guard in place: else their failures mean nothing."""
    begun = time.monotonic()
    lean = [test for test in tests if not test.startswith("cluster")]  # beside no server that is theirs to find
    parts = [part for part in (sorted({*tests} - {*lean}), *(lean[first::jobs] for first in range(jobs))) if part]
    bad = [outcome for _, outcome in tried(map(Trial, parts), jobs) if not outcome.good]
    print(*(outcome.text for outcome in bad), sep="\n", end="")
    print(f"{len(tests)} tests with every guard in place: {time.monotonic() - begun:.0f} s", flush=True)
    return not bad


def _told(trial: Trial, outcome: Outcome) -> bool:
    """Print a row of the table. Whether the mutant lives, or shows nothing."""
    word = f"BROKEN: {outcome.broken}" if outcome.broken else "killed" if outcome.failed else "SURVIVED"
    guard = trial.guard
    assert guard
    print(f"{word:8} {outcome.seconds:5.1f} s  {guard.keeps}  ({guard.file}; {guard.test})", flush=True)
    if word != "killed":
        print(outcome.text)
    return word != "killed"


sys.exit(main())
