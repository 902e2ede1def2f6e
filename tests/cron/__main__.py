"""python -m tests.cron: a cron job on three hosts, again and again, by each line of README and kleader-run(1).

Starts are spread over 0 to 3 s, jobs take 0.1, 1 and 5 s, the hosts' wall clocks are an hour behind, right, and a day
ahead. In every second trial of --once-per the first leader is killed at some instant of its job, or just after it.

Exit status 1: two jobs ran at once, or --once-per did not bring about exactly one success, but for a leader that was
killed between the end of its job and the record of that.
"""

from __future__ import annotations

import argparse
import random
import secrets
import sys
import tempfile
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

from tests.cron.trial import LINES, Morning, Outcome
from tests.support.controlplane import ControlPlane
from tests.support.processes import Processes, adopt_orphans, sweep

if TYPE_CHECKING:
    from collections.abc import Sequence

JOBS = (0.1, 1.0, 5.0)  # seconds
HEAD = f"{'line':14} {'job':>5} {'killed':>7} {'trials':>7} {'overlaps':>9} {'in window':>10}  successes: trials"


def main(arguments: Sequence[str]) -> int:
    """Run as told; the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.cron", description=__doc__)
    parser.add_argument("--trials", type=int, metavar="N", default=50, help="of each line and job (default: 50)")
    parser.add_argument("--line", choices=list(LINES), action="append", help="only this one; may be repeated")
    parser.add_argument("--job", type=float, metavar="S", action="append", help="only jobs of so many seconds")
    parser.add_argument("--at-once", type=int, metavar="K", default=2, help="so many trials at once (default: 2)")
    parser.add_argument("--seed", type=int, metavar="S", help="of starts and kills; default: fresh")
    args = parser.parse_args(arguments)
    seed = secrets.randbits(32) if args.seed is None else args.seed
    print(f"seed {seed}\n{HEAD}", flush=True)
    adopt_orphans()
    with tempfile.TemporaryDirectory(prefix="kleader-cron-") as directory, ControlPlane() as plane:
        try:
            kubeconfig = plane.kubeconfig()
            held = [
                _play((line, job, kill), args, seed, Path(directory), kubeconfig)
                for line in args.line or LINES
                for job in args.job or JOBS
                for kill in ([False, True] if line == "--once-per" else [False])
            ]
        finally:
            sweep()
    return 0 if all(held) else 1


def _play(row: tuple[str, float, bool], args: argparse.Namespace, seed: int, directory: Path, kubeconfig: Path) -> bool:
    """One row of the table, of line, job and whether leaders are killed; whether its promise held."""
    line, job, kill = row

    def one(number: int) -> Outcome:
        name = f"t{list(LINES).index(line)}-{round(job * 10)}-{kill:d}-{number}"
        config = None if line == "one host" else kubeconfig
        draw = random.Random(f"{seed} {name}")  # noqa: S311 - whims
        return Morning(Processes(directory), directory, config, name).play(line, job, draw, kill=kill)

    count = args.trials // 2 if line == "--once-per" else args.trials
    with ThreadPoolExecutor(args.at_once) as pool:
        outcomes = list(pool.map(one, range(max(1, count))))
    overlaps, window = sum(each.overlaps for each in outcomes), sum(each.in_window for each in outcomes)
    killed = sum(each.killed for each in outcomes)
    successes = ", ".join(f"{n}: {k}" for n, k in sorted(Counter(each.successes for each in outcomes).items()))
    print(f"{line:14} {job:5g} {killed:7} {len(outcomes):7} {overlaps:9} {window:10}  {successes}", flush=True)
    return not overlaps and (line != "--once-per" or all(each.once for each in outcomes))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
