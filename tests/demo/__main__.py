"""`python -m tests.demo`: what kleader is for, in a quarter of a minute."""

from __future__ import annotations

import argparse
import contextlib
import signal
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from tests.demo.picture import Bar, Picture
from tests.demo.place import File, Lease, Place
from tests.demo.stage import Candidate, DemoError, Stage
from tests.support.checker import Witness
from tests.support.processes import adopt_orphans, sweep
from tests.support.witness import clock

if TYPE_CHECKING:
    from collections.abc import Iterator

NAMES = ("ada", "bob", "cyd")
ACT = 2.2  # seconds between two things that happen
_MS = 1_000_000


class Demo:
    """Three candidates: the leader is killed, the next one asked to stop, the last one left until the end."""

    def __init__(self, place: Place, picture: Picture, directory: Path) -> None:
        kleader = Path(sys.executable).with_name("kleader")
        start = [str(kleader)] if kleader.exists() else [sys.executable, "-m", "kleader"]
        self._place, self._picture = place, picture

        def command(name: str, worker: list[str]) -> list[str]:
            return [*start, "run", *place.options(), "--identity", name, "--", *worker]

        self._stage = Stage(directory, command)
        self._killed: set[str] = set()

    def run(self) -> bool:
        """Everything; False if two workers were alive at once."""
        picture, stage = self._picture, self._stage
        picture.title(
            f"kleader: {self._place.title}",
            *self._place.remarks,
            "Each is `kleader run -- worker`. A worker runs only where its kleader leads.",
        )
        picture.zero(clock())
        first = self._start()
        crashed, free_at = self._crash(first)
        second = self._leader(crashed)
        stage.play(ACT)
        picture.event(clock(), second.name, "asked to stop: TERM to its kleader, which asks its worker")
        stage.hold_jobs()
        second.stop()
        stage.wait(lambda: second.worker_ended, f"the end of {second.name}'s worker")
        picture.event(second.worker_ended or 0, second.name, "its worker has finished its job, and ended")
        third = self._leader(second)
        stage.play(ACT)
        third.stop()
        stage.wait(lambda: third.worker_ended, f"the end of {third.name}'s worker")
        self._chart()
        return self._judge(crashed, second, third, free_at)

    # --- the acts

    def _start(self) -> Candidate:
        stage, picture = self._stage, self._picture
        leader = stage.start(NAMES[0])
        stage.wait(lambda: leader.worker_began, f"{leader.name} leads", leader)
        picture.leads(leader.worker_began or 0, leader.name)
        others = [stage.start(name) for name in NAMES[1:]]
        stage.wait(lambda: all(each.waits for each in others), "the others wait", *others)
        picture.waits(clock(), "{} and {}".format(*NAMES[1:]))
        stage.tell_jobs(picture.job)
        stage.play(ACT)
        return leader

    def _crash(self, leader: Candidate) -> tuple[Candidate, int | None]:
        self._stage.hold_jobs()
        number = leader.kill()
        self._killed.add(leader.name)
        at = leader.worker_ended or 0
        self._picture.killed(at, leader.name, f"KILLED: all of it at once, kleader and worker, {number} processes")
        free_at = self._place.free_at()
        if free_at is not None:
            self._picture.event(clock(), "   ", "nobody can know that: its Lease has to run out")
        return leader, free_at

    def _leader(self, earlier: Candidate) -> Candidate:
        others = [each for each in self._stage.candidates if each is not earlier and each.worker_ended is None]
        began = [each for each in others if each.worker_began]

        def found() -> bool:
            began[:] = [each for each in others if each.worker_began]
            return bool(began)

        self._stage.wait(found, f"a successor of {earlier.name}", *others)
        self._picture.leads(began[0].worker_began or 0, began[0].name)
        self._stage.tell_jobs(self._picture.job)
        return began[0]

    # --- what it comes to

    def _chart(self) -> None:
        self._picture.chart(
            [
                Bar(each.name, each.began, each.worker_began, each.worker_ended or clock(), each.name in self._killed)
                for each in self._stage.candidates
            ]
        )

    def _judge(self, first: Candidate, second: Candidate, third: Candidate, free_at: int | None) -> bool:
        picture, arrow = self._picture, self._picture.signs.arrow
        start = free_at if free_at is not None else first.worker_ended or 0
        event = f"{first.name} was killed" if free_at is None else f"{first.name}'s Lease ran out"
        picture.measured(f"{event} {arrow} {second.name}'s worker runs", _ms((second.worker_began or 0) - start))
        if free_at is not None:
            gap = (second.worker_began or 0) - (first.worker_ended or 0)
            picture.measured(f"{first.name} was killed {arrow} {second.name}'s worker runs", _ms(gap))
        gap = (third.worker_began or 0) - (second.worker_ended or 0)
        picture.measured(f"{second.name}'s worker had ended {arrow} {third.name}'s worker runs", _ms(gap))
        witness = Witness(self._stage.log)
        overlaps, handovers = len(witness.overlaps()), len(witness.handovers())
        text = f"Overlaps: {overlaps} of {handovers} handovers"
        picture.verdict(f"{text}; each worker held a lock that would have shown one.", good=not overlaps)
        return not overlaps


def _ms(ns: int) -> str:
    return f"{ns / _MS:.1f} ms" if ns < 1000 * _MS else f"{ns / _MS / 1000:.2f} s"


@contextlib.contextmanager
def _place(lock: str, directory: Path) -> Iterator[Place]:
    place: Place = Lease() if lock == "lease" else File(directory)
    try:
        yield place
    finally:
        place.end()


def _stop(number: int, _frame: object) -> None:
    raise SystemExit(128 + number)


def main() -> int:
    """Show it; one line where that cannot be."""
    parser = argparse.ArgumentParser(prog="python -m tests.demo", description=__doc__)
    parser.add_argument("--lock", choices=["file", "lease"], default="file", help="default: file")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, _stop)
    adopt_orphans()
    picture = Picture()
    try:
        with tempfile.TemporaryDirectory(prefix="kleader-demo-") as name, _place(options.lock, Path(name)) as place:
            try:
                return 0 if Demo(place, picture, Path(name)).run() else 1
            finally:
                sweep()
    except DemoError as error:
        picture.finish()
        print(f"demo: error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        picture.finish()
        return 130


if __name__ == "__main__":
    sys.exit(main())
