"""A schedule of misfortunes, drawn from one seed: trouble, then none, and a judgement."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from kleader.election.record import Record
from kleader.election.state import Candidate
from kleader.election.timing import choose
from kleader.locks.base import Traits
from tests.simulation.machine import Road
from tests.simulation.world import BrokenPromiseError, World

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.simulation.machine import Machine

TROUBLED = 90.0  # seconds in which things go wrong
HEALED = 75.0  # and in which they do not, after which there must be a leader
CALM = 15.0  # the last of them, in which nobody may ask for more than is due
TIMINGS = (choose(15, 10, 2), choose(6, 3, 1), choose(4, 2, 1))


class Schedule(World):
    """A few machines, sometimes two of one identity."""

    traits = Traits()
    spare = 1  # requests that anybody may make in the calm beyond what is due

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        timing, twins = self.rng.choice(TIMINGS), self.chance(0.2)
        names = "abcd"[: self.rng.choice((2, 3, 3, 4))]
        self.populate(
            Candidate(
                "twin" if twins and name in "ab" else name, timing, timing.request_timeout, **self.traits._asdict()
            )
            for name in names
        )

    @property
    def misfortunes(self) -> tuple[Callable[[Schedule, Machine], None], ...]:
        """What may happen; the more often it is in it, the likelier."""
        return MISFORTUNES

    def chance(self, probability: float) -> bool:
        """Whether it happens."""
        return self.rng.random() < probability

    def play(self) -> None:
        """Trouble, then none; AssertionError if anything comes of it that may not."""
        for machine in self.machines:
            machine.road = self._road()
            machine.coarse = self.chance(0.5)
            self.after(self.rng.choice((0.0, self.rng.uniform(0, 20))), machine.start)
        self._misfortune()
        self.run(TROUBLED)
        self._heal()
        self.run(TROUBLED + HEALED)
        self._judge()

    def _road(self) -> Road:
        bad = self.rng.choice((0.0, 0.05, 0.3))
        return Road(
            fault=bad,
            watch_fault=self.rng.choice((0.0, bad)),
            latency=self.rng.choice((0.002, 0.05, 0.5)),
            watch_denied=self.chance(0.1),
        )

    def _misfortune(self) -> None:
        self.after(self.rng.expovariate(1 / 5), self._misfortune)
        if self.now > TROUBLED:
            return
        machine = self.rng.choice(self.machines)
        if self.running and self.chance(0.5):
            machine = self.running
        what = self.rng.choice(self.misfortunes)
        self.log(machine.name, "befallen by", what.__name__)
        what(self, machine)

    def _heal(self) -> None:
        self.log("healed")
        self.down = False
        for machine in self.machines:
            machine.road = Road(watch_denied=machine.road.watch_denied)

    def _judge(self) -> None:
        if not self.running:
            raise BrokenPromiseError("nobody leads, though nothing hinders")
        for machine in self.machines:
            asked = sum(1 for when in machine.asked if when > self.now - CALM)
            polls = machine is self.running or (machine.state and machine.state.denied)
            due = CALM * 1.06 / machine.me.timing.retry_period + self.spare if polls else 0
            if asked > due:
                raise BrokenPromiseError(f"{machine.name} made {asked} requests in {CALM} s of calm")


# --- what may befall a machine, or the lock


def kill_elector(_: Schedule, machine: Machine) -> None:
    machine.crash_elector()


def stop_elector(world: Schedule, machine: Machine) -> None:
    machine.pause(world.rng.choice((0.5, 5, 30)) * world.rng.random())


def crash(_: Schedule, machine: Machine) -> None:
    machine.crash()


def planned_stop(world: Schedule, machine: Machine) -> None:
    machine.stop(world.rng.choice((0.0, 3 * world.rng.random())))


def partition(world: Schedule, machine: Machine) -> None:
    machine.road.cut = True

    def end() -> None:
        machine.road.cut = False

    world.after(world.rng.uniform(0, 2 * world.lease), end)


def outage(world: Schedule, _: Machine) -> None:
    world.down = True

    def end() -> None:
        world.down = False

    world.after(world.rng.uniform(0, world.lease), end)


def clock_set(world: Schedule, machine: Machine) -> None:
    """The wall clock only: it decides nothing."""
    machine.skew += world.rng.choice((-1, 1)) * world.rng.choice((0.5, 60, 1e5))


def label(world: Schedule, _: Machine) -> None:
    if world.server.stored:
        world.server.edit(label=world.server.stored.label + 1)


def delete(world: Schedule, _: Machine) -> None:
    """Promised among those that have seen the lock: one that has not would create it at once."""
    seen = all(machine.state is None or machine.state.gone_wait for machine in world.machines)
    if world.server.stored and seen:
        world.server.delete()
        world.deleted_at = world.now


def steal(world: Schedule, _: Machine) -> None:
    """An edit by hand to a holder that does not exist, the incarnation left where it was."""
    if world.server.stored:
        was = world.server.stored.record
        world.server.edit(record=replace(was, holder="nobody", duration=world.lease), fault="")


def garble(world: Schedule, _: Machine) -> None:
    """An edit by hand that no one can read, and that is mended when a leader must have noticed."""
    fault = f"garbled at {world.now}"
    world.server.edit(record=Record(), fault=fault)

    def mend() -> None:
        if world.server.stored and world.server.stored.fault == fault:
            world.server.edit(record=Record("", 1), incarnation="", fault="")

    world.after(1.2 * world.lease, mend)


MISFORTUNES: tuple[Callable[[Schedule, Machine], None], ...] = (
    kill_elector,
    kill_elector,
    stop_elector,
    stop_elector,
    crash,
    crash,
    planned_stop,
    planned_stop,
    planned_stop,
    partition,
    partition,
    outage,
    clock_set,
    label,
    delete,
    steal,
    garble,
)
