"""python -m tests.simulation: plays many schedules and prints which faults occurred, and with what result.

Exit status 1: a promise was broken. Each failure is printed with its seed and the fewest faults that lead to it.
"""

from __future__ import annotations

import argparse
import gc
import os
import platform
import secrets
import sys
import time
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from itertools import islice
from typing import TYPE_CHECKING

from tests.simulation.runs import KINDS, Tally, play, schedule

if TYPE_CHECKING:
    from collections.abc import Iterator

PART = 10  # schedules that are played in one go, and collected while the cache still has what they leave


def main() -> int:
    """Run as told; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--schedules", type=int, metavar="N", help="how many (default: 10000, or as time allows)")
    parser.add_argument("--minutes", type=float, metavar="M", help="for how long at most")
    parser.add_argument("--seed", type=int, metavar="S", help="of the first one, the next ones' follow; default: fresh")
    parser.add_argument("--kind", choices=KINDS, default="", help="play these alone")
    parser.add_argument(
        "--jobs", type=int, metavar="J", default=os.cpu_count() or 1, help="processes (default: all cores)"
    )
    parser.add_argument("--tell", action="store_true", help="tell what happens in each, whatever comes of it")
    args = parser.parse_args()
    first = secrets.randbits(40) if args.seed is None else args.seed
    if args.tell:
        return tell(first, args.schedules or 1, args.kind)
    print(f"seed {first}", flush=True)
    begun = time.monotonic()
    end = begun + 60 * args.minutes if args.minutes else float("inf")
    wanted = args.schedules or (sys.maxsize if args.minutes else 10_000)
    tally = Tally()
    parts = _parts(first, wanted, end)
    with ProcessPoolExecutor(args.jobs, initializer=_collect_between) as pool:
        under_way = {pool.submit(_play, part, args.kind) for part in islice(parts, 2 * args.jobs)}
        while under_way:
            done, under_way = wait(under_way, return_when=FIRST_COMPLETED)
            under_way |= {pool.submit(_play, part, args.kind) for part in islice(parts, len(done))}
            _take_in(tally, [each.result() for each in done])
    print(table(tally))
    took = time.monotonic() - begun
    used = sum(os.times()[:4])  # less than the time it took: other work had the cores
    speed = f"{tally.schedules / took:.0f} schedules a second, {tally.schedules / used:.0f} a second of a core"
    print(f"{speed}; {took:.0f} s, {args.jobs} processes, Python {platform.python_version()}")
    return 1 if tally.failures else 0


def tell(first: int, wanted: int, kind: str) -> int:
    """The whole story of each."""
    failed = 0
    for seed in range(first, first + wanted):
        world = schedule(seed, kind)
        error = world.play_or_fail()
        failed += bool(error)
        print(f"{world.story}\nseed {seed}: {error or 'no promise was broken'}")
    return 1 if failed else 0


def _collect_between() -> None:
    """What is imported is no garbage, and what one schedule leaves is little: a sixteenth of the time is saved."""
    if platform.python_implementation() == "CPython":
        gc.freeze()
        gc.disable()


def _play(part: range, kind: str) -> Tally:
    if not gc.isenabled():
        gc.collect()
    return play(part, kind)


def _take_in(tally: Tally, parts: list[Tally]) -> None:
    for part in parts:
        tally.add(part)
        for failure in part.failures:
            print(f"\n{failure}", flush=True)


def _parts(first: int, wanted: int, end: float) -> Iterator[range]:
    for start in range(first, first + wanted, PART):
        if time.monotonic() >= end:
            return
        yield range(start, min(start + PART, first + wanted))


def table(tally: Tally) -> str:
    """Each fault: how often it came, in how many schedules, and in how many of them two led because of it."""
    overlaps = [failure for failure in tally.failures if failure.overlap]
    lines = [f"{'fault':32} {'times':>10} {'schedules':>10} {'overlaps':>9} {'bound':>9}"]

    def line(name: str, times: int, within: int, found: int) -> str:
        bound = f"{3 / within:9.1e}" if within and not found else f"{'-':>9}"
        return f"{name:32} {times:10} {within:10} {found:9} {bound}"

    for name, within in sorted(tally.within.items()):
        found = sum(name in failure.faults for failure in overlaps)
        lines.append(line(name, tally.times[name], within, found))
    for kind, within in sorted(tally.kinds.items()):
        found = sum(failure.kind == kind for failure in overlaps)
        lines.append(line(f"({kind})", within, within, found))
    lines.append(line("all", tally.times.total(), tally.schedules, len(overlaps)))
    others = len(tally.failures) - len(overlaps)
    lines.append(f"{tally.starts} commands were started; {others} schedules failed in other ways")
    lines.append("bound: 3/n, n schedules: the rate of overlaps is below it with a confidence of 95 %")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
