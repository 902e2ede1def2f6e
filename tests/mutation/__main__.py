"""python -m tests.mutation: takes each guard of the promise away, one at a time, and wants the test that must fail.

Exit status 1: a guard is not missed, so a test is missing, or the guard is needless. 2: the list is out of date.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from tests.mutation.guards import IN_MEMORY, MUTANTS
from tests.mutation.mutant import judge, whole

if TYPE_CHECKING:
    from tests.mutation.guard import Guard


def main() -> int:
    """Run as told; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutation", description=__doc__)
    parser.add_argument(
        "pattern", nargs="?", default="", help="only guards, files and tests in whose names this occurs"
    )
    jobs = min(4, 1 + (os.cpu_count() or 1))  # many only wait
    parser.add_argument("--jobs", type=int, metavar="J", default=jobs, help="at once")
    parser.add_argument("--tests-passed", action="store_true", help="all tests have just passed: do not run them first")
    args = parser.parse_args()
    os.nice(10)
    chosen = [each for each in MUTANTS if any(args.pattern in text for text in (each.keeps, each.file, each.test))]
    in_memory = args.pattern in IN_MEMORY
    if not chosen and not in_memory:
        parser.error(f"no guard is named like {args.pattern!r}")
    for each in chosen:
        try:
            each.applied()
        except ValueError as error:
            print(f"error: {error}: bring tests/mutation up to date", file=sys.stderr)
            return 2
    began = time.monotonic()
    with ThreadPoolExecutor(args.jobs) as pool:
        if not args.tests_passed and not _pass_unpatched(pool, sorted({each.test for each in chosen}), args.jobs):
            return 1
        survived = sum([_told(each, verdict) for each, verdict in zip(chosen, pool.map(_verdict, chosen), strict=True)])
        killed = len(chosen) - survived
        if in_memory:
            found = whole([IN_MEMORY])
            survived += len(found.failed)
            killed += sum("taken_away" in name for name in found.passed)
            print(f"of the step function, in memory: {len(found.passed)} killed; {IN_MEMORY}; {found.seconds:.1f} s")
            print(*(f"SURVIVED {name}" for name in found.failed), sep="\n", end="")
    print(f"{killed + survived} guards: {killed} killed, {survived} survived; {time.monotonic() - began:.0f} s")
    return 1 if survived else 0


def _pass_unpatched(pool: ThreadPoolExecutor, tests: list[str], jobs: int) -> bool:
    """Whether all of them pass with every guard in place: else their failures mean nothing."""
    begun = time.monotonic()
    lean = [test for test in tests if not test.startswith("cluster")]  # beside no server that is theirs to find
    parts = [part for part in (*(lean[first::jobs] for first in range(jobs)), sorted({*tests} - {*lean})) if part]
    good = True
    for found in pool.map(whole, parts):
        good = good and found.good
        if not found.good:
            print(found.text)
    print(f"{len(tests)} tests with every guard in place: {time.monotonic() - begun:.0f} s", flush=True)
    return good


def _verdict(guard: Guard) -> tuple[str, float, str]:
    """killed, SURVIVED or BROKEN; the seconds that it took; what there is to be read about it."""
    found = judge(guard)
    if found.broken:
        return f"BROKEN: {found.broken}", found.seconds, found.text
    return ("killed", found.seconds, "") if found.failed else ("SURVIVED", found.seconds, found.text)


def _told(guard: Guard, verdict: tuple[str, float, str]) -> bool:
    """Print a row of the table. Whether the mutant lives."""
    word, seconds, text = verdict
    print(f"{word:8} {seconds:5.1f} s  {guard.keeps}  ({guard.file}; {guard.test})", flush=True)
    if text:
        print(text)
    return word != "killed"


sys.exit(main())
