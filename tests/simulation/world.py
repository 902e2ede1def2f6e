"""A schedule: some machines, one API server, and what befalls them, all drawn from one seed."""

from __future__ import annotations

import heapq
import random
from collections import deque
from math import inf
from typing import TYPE_CHECKING

from kleader.election import events as e
from kleader.election.record import Record
from kleader.election.state import Candidate
from kleader.election.timing import choose
from tests.simulation.machine import Machine, Road
from tests.simulation.server import Server

if TYPE_CHECKING:
    from collections.abc import Callable

TROUBLED = 90.0  # seconds in which things go wrong
HEALED = 75.0  # and in which they do not, after which there must be a leader
CALM = 15.0  # the last of them, in which nobody may ask for more than is due
TIMINGS = (choose(15, 10, 2), choose(6, 3, 1), choose(4, 2, 1))


class BrokenPromise(AssertionError):
    """Two commands at once, or another thing that may never happen."""


class World:
    """Runs one schedule. ``now`` is a clock that no machine can see."""

    def __init__(self, seed: int) -> None:
        self.rng = rng = random.Random(seed)  # noqa: S311 - replayed from its seed
        self.now = 0.0
        self._agenda: list[tuple[float, int, Callable[[], None]]] = []
        self._count = 0
        self._log: deque[tuple[float, tuple[object, ...]]] = deque(maxlen=400)
        self.down = False  # the API server
        self.server = Server()
        self.deleted_at = -inf
        self.running: Machine | None = None
        self.starts = 0
        self.token = 0
        timing = rng.choice(TIMINGS)
        self.lease = timing.lease_duration
        shared = rng.random() < 0.2  # noqa: PLR2004 - some schedules have two machines of one identity
        self.machines = [
            Machine(
                self,
                name,
                Candidate("twin" if shared and name in "ab" else name, timing, timing.request_timeout),
                rng.choice((0.95, 1.05, rng.uniform(0.95, 1.05))),
            )
            for name in "abcd"[: rng.choice((2, 3, 3, 4))]
        ]

    # --- the clock

    def at(self, when: float, what: Callable[[], None]) -> None:
        """Do something then."""
        self._count += 1
        heapq.heappush(self._agenda, (max(when, self.now), self._count, what))

    def after(self, seconds: float, what: Callable[[], None]) -> None:
        """Do something in so many seconds."""
        self.at(self.now + seconds, what)

    def _run(self, until: float) -> None:
        while self._agenda and self._agenda[0][0] <= until:
            self.now, _, what = heapq.heappop(self._agenda)
            what()
        self.now = until

    def log(self, *what: object) -> None:
        """For whoever looks at a failure."""
        self._log.append((self.now, what))

    @property
    def story(self) -> str:
        """The last of what happened."""
        return "\n".join(f"{when:9.3f} {' '.join(_short(each) for each in what)}" for when, what in self._log)

    @property
    def just_deleted(self) -> bool:
        """Whether there is no lock, by somebody's hand, while its holder may still run."""
        return self.server.stored is None and self.now < self.deleted_at + 1.1 * self.lease

    # --- the promise

    def started(self, machine: Machine) -> None:
        """A command starts: no other may be alive, and its fencing token is greater than all before."""
        assert machine.command
        self.log(machine.name, "STARTS with token", machine.command.lead.token)
        if self.running:
            raise BrokenPromise(f"{machine.name} starts while the command of {self.running.name} is alive")
        if int(machine.command.lead.token) <= self.token:
            raise BrokenPromise(f"token {machine.command.lead.token} after {self.token}")
        self.running, self.token, self.starts = machine, int(machine.command.lead.token), self.starts + 1

    def ended(self, machine: Machine) -> None:
        """The command of a machine is dead."""
        self.log(machine.name, "ENDS")
        assert self.running is machine
        self.running = None

    # --- the schedule

    def play(self) -> None:
        """Trouble, then none; AssertionError if anything comes of it that may not."""
        for machine in self.machines:
            machine.road = self._road()
            machine.coarse = self.rng.random() < 0.3  # noqa: PLR2004
            self.after(self.rng.choice((0.0, self.rng.uniform(0, 20))), machine.start)
        self._misfortune()
        self._run(TROUBLED)
        self._heal()
        self._run(TROUBLED + HEALED)
        self._judge()

    def _road(self) -> Road:
        bad = self.rng.choice((0.0, 0.05, 0.3))
        return Road(
            fault=bad,
            watch_fault=self.rng.choice((0.0, bad)),
            latency=self.rng.choice((0.002, 0.05, 0.5)),
            watch_denied=self.rng.random() < 0.1,  # noqa: PLR2004
        )

    def _misfortune(self) -> None:
        self.after(self.rng.expovariate(1 / 5), self._misfortune)
        if self.now > TROUBLED:
            return
        machine = self.rng.choice(self.machines)
        if self.rng.random() < 0.5 and self.running:  # noqa: PLR2004
            machine = self.running
        what = self.rng.choice(MISFORTUNES)
        self.log(machine.name, "befallen by", what.__name__)
        what(self, machine)

    def _heal(self) -> None:
        self.log("healed")
        self.down = False
        for machine in self.machines:
            machine.road = Road(watch_denied=machine.road.watch_denied)

    def _judge(self) -> None:
        if not self.running:
            raise BrokenPromise("nobody leads, though nothing hinders")
        for machine in self.machines:
            asked = sum(1 for when in machine.asked if when > self.now - CALM)
            if machine is self.running:
                due = CALM * 1.06 / machine.me.timing.retry_period + 1
            elif machine.state and machine.state.denied:
                due = CALM * 1.06 / machine.me.timing.retry_period + 1
            else:
                due = 0
            if asked > due:
                raise BrokenPromise(f"{machine.name} made {asked} requests in {CALM} s of calm")


def _short(what: object) -> str:
    match what:
        case e.Write():
            base = what.base.version if what.base else "nothing"
            return f"Write({what.serial}, over {base}: {what.record}, {what.incarnation!r})"
        case e.Get():
            return f"Get({what.serial})"
    return str(what)


# --- what may befall a machine, or the lock


def kill_elector(_: World, machine: Machine) -> None:
    machine.crash_elector()


def stop_elector(world: World, machine: Machine) -> None:
    machine.pause(world.rng.choice((0.5, 5, 30)) * world.rng.random())


def crash(_: World, machine: Machine) -> None:
    machine.crash()


def planned_stop(world: World, machine: Machine) -> None:
    machine.stop(world.rng.choice((0.0, 3 * world.rng.random())))


def partition(world: World, machine: Machine) -> None:
    machine.road.cut = True

    def end() -> None:
        machine.road.cut = False

    world.after(world.rng.uniform(0, 2 * world.lease), end)


def outage(world: World, _: Machine) -> None:
    world.down = True

    def end() -> None:
        world.down = False

    world.after(world.rng.uniform(0, world.lease), end)


def clock_set(world: World, machine: Machine) -> None:
    """The wall clock only: it decides nothing."""
    machine.skew += world.rng.choice((-1, 1)) * world.rng.choice((0.5, 60, 1e5))


def label(world: World, _: Machine) -> None:
    if world.server.stored:
        world.server.edit(label=world.server.stored.label + 1)


def delete(world: World, _: Machine) -> None:
    """Promised once in a lease, and among those that have seen the lock: one that has not would create it at once."""
    seen = all(machine.state is None or machine.state.gone_wait for machine in world.machines)
    if world.server.stored and seen and world.now > world.deleted_at + 1.5 * world.lease:
        world.server.delete()
        world.deleted_at = world.now


def steal(world: World, _: Machine) -> None:
    """An edit by hand to a holder that does not exist, the incarnation left where it was."""
    if world.server.stored:
        wall = world.server.stored.record.renewed
        world.server.edit(record=Record("nobody", world.lease, wall, wall, 7), fault="")


def garble(world: World, _: Machine) -> None:
    """An edit by hand that no one can read, and that is mended when a leader must have noticed."""
    fault = f"garbled at {world.now}"
    world.server.edit(record=Record(), fault=fault)

    def mend() -> None:
        if world.server.stored and world.server.stored.fault == fault:
            world.server.edit(record=Record("", 1), incarnation="", fault="")

    world.after(1.2 * world.lease, mend)


MISFORTUNES: tuple[Callable[[World, Machine], None], ...] = (
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
