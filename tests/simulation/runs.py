"""Many schedules and their totals, and a failing one with the fewest faults that make it fail."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tests.simulation.asked import AskedSchedule
from tests.simulation.control_plane import NamedSchedule
from tests.simulation.pods import Pods
from tests.simulation.schedule import FLEETS, Schedule
from tests.simulation.warm import WarmSchedule
from tests.simulation.world import OverlapError

if TYPE_CHECKING:
    from collections.abc import Iterable

OTHERS: dict[str, type[Schedule]] = {"coordinated": NamedSchedule, "leader-for-life": Pods, "asked": AskedSchedule}
OTHERS |= {"standbys": WarmSchedule}
KINDS = (*FLEETS, *OTHERS)
STORY_LINES = 60  # lines at the end of a story


def schedule(seed: int, kind: str = "") -> Schedule:
    """The schedule of a seed; without a kind, seeds take turns."""
    kind = kind or KINDS[seed % len(KINDS)]
    return OTHERS[kind](seed) if kind in OTHERS else Schedule(seed, kind)


@dataclass
class Failure:
    """One schedule that broke a promise. ``faults`` are the fewest that make it do so."""

    seed: int
    kind: str
    error: str
    overlap: bool
    faults: list[str]
    story: str

    def __str__(self) -> str:
        return f"{self.story}\nseed {self.seed}, {self.kind}: {self.error}"


@dataclass
class Tally:
    """What schedules came to."""

    schedules: int = 0
    starts: int = 0
    kinds: Counter[str] = field(default_factory=Counter)  # schedules of each
    times: Counter[str] = field(default_factory=Counter)  # that each fault occurred
    within: Counter[str] = field(default_factory=Counter)  # schedules that had it
    failures: list[Failure] = field(default_factory=list)

    def add(self, other: Tally) -> None:
        """Both together."""
        self.schedules += other.schedules
        self.starts += other.starts
        self.kinds += other.kinds
        self.times += other.times
        self.within += other.within
        self.failures += other.failures


def play(seeds: Iterable[int], kind: str = "") -> Tally:
    """Play the schedule of each seed."""
    tally = Tally()
    for seed in seeds:
        world = schedule(seed, kind)
        if error := world.play_or_fail():
            tally.failures.append(told(seed, kind, error))
        tally.schedules += 1
        tally.starts += len(world.starts)
        tally.kinds[kind or KINDS[seed % len(KINDS)]] += 1
        tally.times.update(world.occurred)
        tally.within.update(world.occurred.keys())
    return tally


def told(seed: int, kind: str, error: AssertionError) -> Failure:
    """A failure with the fewest faults that lead to it, and its story."""
    numbers = fewest(seed, kind, type(error))
    world = schedule(seed, kind)
    named = [f"{each.when:9.3f} {each.host.name}: {each.name}" for each in (world.plan[number] for number in numbers)]
    last: AssertionError = _failure(world, numbers) or error
    lines = ["the fewest faults:", *named, "what happened at last:", *world.story.splitlines()[-STORY_LINES:]]
    blamed = [world.plan[number].name for number in numbers]
    return Failure(
        seed, kind or KINDS[seed % len(KINDS)], str(last), isinstance(last, OverlapError), blamed, "\n".join(lines)
    )


def fewest(seed: int, kind: str, broken: type[AssertionError]) -> list[int]:
    """Which of the plan's faults are needed for a schedule to fail in the same way: leaving out ever smaller parts.

    (Zeller's ddmin, by complements.)
    """
    world = schedule(seed, kind)
    world.play_or_fail()
    needed = [number for number, fault in enumerate(world.plan) if fault.when <= world.now]
    size = len(needed)
    while size:
        at, before = 0, len(needed)
        while at < len(needed):
            fewer = needed[:at] + needed[at + size :]
            if type(_failure(schedule(seed, kind), fewer)) is broken:
                needed = fewer
            else:
                at += size
        if size > 1 or len(needed) == before:
            size //= 2
    return needed


def _failure(world: Schedule, numbers: Iterable[int]) -> AssertionError | None:
    """How it fails with nothing but these faults."""
    return world.play_or_fail(frozenset(range(len(world.plan))).difference(numbers))
