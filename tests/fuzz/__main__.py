"""python -m tests.fuzz: tries fresh bytes until the time is over; exit status 1 where some did harm.

What did is printed by the test that it broke, with the fewest bytes that do: keep these in tests/fuzz/corpus/.
"""

from __future__ import annotations

import argparse
import os
import secrets
import subprocess
import sys
import time

EXAMPLES = 500  # of each test, in one round


def main() -> int:
    """Round after round, each with a seed of its own."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--minutes", type=float, default=5.0, metavar="M", help="for how long (default: 5)")
    parser.add_argument("--seed", type=int, metavar="S", help="of the first round; default: a fresh one")
    args, more = parser.parse_known_args()
    seed = secrets.randbits(32) if args.seed is None else args.seed
    end, rounds = time.monotonic() + 60 * args.minutes, 0
    while rounds == 0 or time.monotonic() < end:
        print(f"seed {seed + rounds}", flush=True)
        argv = [sys.executable, "-m", "pytest", "-q", "tests/fuzz", "--timeout=0"]
        argv += [f"--hypothesis-seed={seed + rounds}", *more]
        env = {**os.environ, "KLEADER_FUZZ_EXAMPLES": str(EXAMPLES)}
        if subprocess.run(argv, env=env, check=False).returncode:
            return 1
        rounds += 1
    print(f"{rounds} rounds of {EXAMPLES} examples for each test, from seed {seed} on")
    return 0


if __name__ == "__main__":
    sys.exit(main())
