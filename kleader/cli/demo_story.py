"""The story of the demo: three candidates for one lock; the leader is killed, the next one is stopped."""

from __future__ import annotations

import contextlib
import os
import sys
from typing import TYPE_CHECKING, Protocol

from kleader.cli.demo_picture import Bar, Picture
from kleader.cli.demo_stage import Candidate, Stage, clock_ns

if TYPE_CHECKING:
    from collections.abc import Sequence

NAMES = ("ada", "bob", "cyd")
_ACT_SECONDS = 2.2  # between two events
_MS = 1_000_000


class Place(Protocol):
    """Where the lock of the demo is kept."""

    title: str
    remarks: Sequence[str]

    def options(self) -> list[str]:
        """The options of ``kleader run`` for this lock."""

    def free_at(self) -> int | None:
        """The instant of ``clock_ns`` at which a dead leader's lock is free; None if that is at its death."""


class FilePlace:
    """A lock file in the demo's directory."""

    title = "three candidates for one lock, a file on this machine"
    remarks: Sequence[str] = ()

    def __init__(self, directory: str) -> None:
        self._path = f"{directory}/demo.lock"

    def options(self) -> list[str]:
        """See Place."""
        return ["--lock", f"file:{self._path}", "--name", "demo"]

    def free_at(self) -> int | None:
        """See Place."""
        return None


def play(place: Place, directory: str, picture: Picture) -> bool:
    """Play and show the story, in about ten seconds; False if two workers were alive at once."""
    # An installed kleader is on the path of its launcher alone.
    program = (
        f"import sys; sys.path[:] = {[*map(os.path.abspath, sys.path)]}; from kleader.cli.main import main; main()"
    )

    def command(name: str, worker: list[str]) -> list[str]:
        options = [*place.options(), "--identity", name, "--log-format", "json"]
        return [sys.executable, "-I", "-c", program, "run", *options, "--", *worker]

    with contextlib.closing(Stage(directory, command)) as stage:
        return _Story(place, stage, picture).play()


class _Story:
    def __init__(self, place: Place, stage: Stage, picture: Picture) -> None:
        self._place, self._stage, self._picture = place, stage, picture
        self._killed: set[str] = set()

    def play(self) -> bool:
        picture, stage = self._picture, self._stage
        picture.title(
            f"kleader: {self._place.title}",
            *self._place.remarks,
            "Each is `kleader run -- worker`. A worker runs only where its kleader leads.",
        )
        picture.zero(clock_ns())
        first = self._start()
        free_at = self._kill(first)
        second = self._successor(first)
        stage.play(_ACT_SECONDS)
        picture.event(clock_ns(), second.name, "SIGTERM to its kleader, which stops its worker")
        stage.hold_jobs()
        second.stop()
        stage.wait(lambda: second.worker_ended, f"the end of {second.name}'s worker")
        picture.event(second.worker_ended or 0, second.name, "its worker has finished its job and ended")
        third = self._successor(second)
        stage.play(_ACT_SECONDS)
        third.stop()
        stage.wait(lambda: third.worker_ended, f"the end of {third.name}'s worker")
        self._chart()
        return self._judge(first, second, third, free_at)

    def _start(self) -> Candidate:
        stage, picture = self._stage, self._picture
        leader = stage.start(NAMES[0])
        stage.wait(lambda: leader.worker_began, f"{leader.name} leads", leader)
        picture.leads(leader.worker_began or 0, leader.name)
        others = [stage.start(name) for name in NAMES[1:]]
        stage.wait(lambda: all(each.waits for each in others), "the others wait", *others)
        picture.waits(clock_ns(), "{} and {}".format(*NAMES[1:]))
        stage.show_jobs(picture.job)
        stage.play(_ACT_SECONDS)
        return leader

    def _kill(self, leader: Candidate) -> int | None:
        self._stage.hold_jobs()
        number = leader.kill()
        self._killed.add(leader.name)
        at = leader.worker_ended or 0
        self._picture.killed(at, leader.name, f"KILLED: kleader and worker at once, {number} processes")
        free_at = self._place.free_at()
        if free_at is not None:
            self._picture.event(clock_ns(), "   ", "no candidate can know that: the Lease has to expire")
        return free_at

    def _successor(self, earlier: Candidate) -> Candidate:
        others = [each for each in self._stage.candidates if each is not earlier and each.worker_ended is None]
        self._stage.wait(lambda: any(each.worker_began for each in others), f"a successor of {earlier.name}", *others)
        leader = next(each for each in others if each.worker_began)
        self._picture.leads(leader.worker_began or 0, leader.name)
        self._stage.show_jobs(self._picture.job)
        return leader

    def _chart(self) -> None:
        self._picture.chart(
            [
                Bar(
                    each.name, each.began, each.worker_began, each.worker_ended or clock_ns(), each.name in self._killed
                )
                for each in self._stage.candidates
            ]
        )

    def _judge(self, first: Candidate, second: Candidate, third: Candidate, free_at: int | None) -> bool:
        picture, arrow = self._picture, self._picture.signs.arrow
        start = free_at if free_at is not None else first.worker_ended or 0
        event = f"{first.name} was killed" if free_at is None else f"{first.name}'s Lease expired"
        picture.measured(f"{event} {arrow} {second.name}'s worker runs", _ms((second.worker_began or 0) - start))
        if free_at is not None:
            gap = (second.worker_began or 0) - (first.worker_ended or 0)
            picture.measured(f"{first.name} was killed {arrow} {second.name}'s worker runs", _ms(gap))
        gap = (third.worker_began or 0) - (second.worker_ended or 0)
        picture.measured(f"{second.name}'s worker had ended {arrow} {third.name}'s worker runs", _ms(gap))
        overlaps = sum(each.clashes for each in self._stage.candidates)
        text = f"Overlaps: {overlaps} of {len(self._stage.candidates) - 1} handovers"
        picture.verdict(f"{text}; each worker held a lock that would have shown one.", good=not overlaps)
        return not overlaps


def _ms(ns: int) -> str:
    return f"{ns / _MS:.1f} ms" if ns < 1000 * _MS else f"{ns / _MS / 1000:.2f} s"
