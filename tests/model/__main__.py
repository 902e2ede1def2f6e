"""`make model`: the lock delay, checked by TLC within stated bounds, and each wrong variant of it found."""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

from tests.model.runs import DEEP, FAST, REACHED, VARIANTS, Run

HERE = Path(__file__).parent
WORK = Path("build/model")
JAR = Path("..") / "tla2tools.jar"  # as each run sees it
HEAP = "-Xmx4g"


class Result(NamedTuple):
    """What TLC said of one run."""

    violated: str  # the invariant; "": none
    complete: bool  # every state within the bounds was visited, or every trace that was asked for
    states: str  # generated, and distinct ones
    seconds: float
    output: Path

    @property
    def outcome(self) -> str:
        """In a word or two."""
        if self.violated:
            return f"{self.violated} violated"
        return "holds" if self.complete else "TLC failed"


def check(run: Run, seed: int) -> Result:
    """Run TLC once, at the lowest priority and with one worker; its output stays under build/model/."""
    place = WORK / re.sub(r"\W+", "-", run.name)
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    for module in HERE.glob("*.tla"):
        shutil.copy(module, place)
    (place / "Check.cfg").write_text(run.config())
    simulate = f"-simulate num={run.traces} -depth {run.depth}" if run.traces else ""
    command = f"nice -n 19 java -XX:+UseSerialGC {HEAP} -cp {JAR} tlc2.TLC -deadlock -nowarning"
    options = f"-workers 1 -seed {seed} -metadir states {simulate} Check"
    start, output = time.monotonic(), place / "output.txt"
    with output.open("w") as file:
        subprocess.run(f"{command} {options}".split(), cwd=place, stdout=file, stderr=subprocess.STDOUT, check=False)
    shutil.rmtree(place / "states", ignore_errors=True)
    return read(output, time.monotonic() - start, simulated=bool(run.traces))


def read(output: Path, seconds: float, *, simulated: bool) -> Result:
    """Find the verdict in what TLC printed."""
    text = output.read_text()
    violated = re.search(r"Invariant (\w+) is violated", text)
    counted = re.findall(r"([\d,]+) states generated.*?, ([\d,]+) distinct", text)
    walked = re.findall(r"([\d,]+) states checked", text)  # at random
    failed = "Error:" in text and not violated
    complete = not failed and ("Finished in" in text if simulated else "No error has been found" in text)
    states = f"{counted[-1][0]} / {counted[-1][1]}" if counted else (walked or ["?"])[-1]
    return Result(violated[1] if violated else "", complete, states.replace(",", " "), seconds, output)


def main() -> int:
    """Print a line for each run, and where to read those that are not as they must be."""
    parser = argparse.ArgumentParser(prog="make model", description=__doc__)
    parser.add_argument("--deep", action="store_true", help="wider bounds: an hour or more")
    parser.add_argument("--seed", type=int, default=time.time_ns() % 2**31, help="of the runs at random")
    parser.add_argument("pattern", nargs="?", default="", help="only the runs with this in their name")
    given = parser.parse_args()
    if not shutil.which("java"):
        sys.stderr.write("error: no java: TLC needs Java 8 or newer (Debian: apt-get install default-jre-headless)\n")
        return 1
    runs = [run for run in (*REACHED, *VARIANTS, *(DEEP if given.deep else FAST)) if given.pattern in run.name]
    print(f"{'run':48} {'states generated / distinct':>28} {'seconds':>8}  outcome (seed {given.seed})")
    wrong = 0
    for run in runs:
        result = check(run, given.seed)
        expected = bool(result.violated) if run in (*REACHED, *VARIANTS) else result.complete and not result.violated
        wrong += not expected
        mark = "" if expected else f"  <- NOT AS EXPECTED: {result.output}"
        print(f"{run.name:48} {result.states:>28} {result.seconds:8.0f}  {result.outcome}{mark}", flush=True)
    print(f"{len(runs)} runs, {wrong} not as expected; the counterexamples are in {WORK}/*/output.txt")
    return 1 if wrong or not runs else 0


if __name__ == "__main__":
    sys.exit(main())
