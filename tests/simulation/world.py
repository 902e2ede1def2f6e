"""A world of machines and one API server, in which only one command may run."""

from __future__ import annotations

import heapq
import random
from collections import deque
from math import inf
from typing import TYPE_CHECKING

from kleader.election import events as e
from tests.simulation.machine import Machine
from tests.simulation.server import Server

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from kleader.election.state import Candidate


class BrokenPromiseError(AssertionError):
    """Two commands at once, or another thing that may never happen."""


class World:
    """Draws everything from one seed. ``now`` is a clock that no machine can see."""

    machine: type[Machine] = Machine

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)  # noqa: S311 - replayed from its seed
        self.now = 0.0
        self._agenda: list[tuple[float, int, Callable[[], None]]] = []
        self._count = 0
        self._log: deque[tuple[float, tuple[object, ...]]] = deque(maxlen=400)
        self.down = False  # the API server
        self.server = Server()
        self.deleted_at = -inf
        self.machines: list[Machine] = []
        self.running: Machine | None = None
        self.starts: list[float] = []
        self.ends: list[float] = []
        self.token = 0

    def populate(self, candidates: Iterable[Candidate]) -> None:
        """A machine for each, its clock up to 5 % off, often by just that."""
        for me in candidates:
            rate = self.rng.choice((0.95, 1.05, self.rng.uniform(0.95, 1.05)))
            name = chr(ord("a") + len(self.machines))
            self.machines.append(self.machine(self, name, me, rate))

    @property
    def lease(self) -> int:
        """Everybody's lease duration, in seconds."""
        return self.machines[0].me.timing.lease_duration

    # --- the clock

    def at(self, when: float, what: Callable[[], None]) -> None:
        """Do something then."""
        self._count += 1
        heapq.heappush(self._agenda, (max(when, self.now), self._count, what))

    def after(self, seconds: float, what: Callable[[], None]) -> None:
        """Do something in so many seconds."""
        self.at(self.now + seconds, what)

    def run(self, until: float) -> None:
        """Let time pass."""
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
            raise BrokenPromiseError(f"{machine.name} starts while the command of {self.running.name} is alive")
        if int(machine.command.lead.token) <= self.token:
            raise BrokenPromiseError(f"token {machine.command.lead.token} after {self.token}")
        self.running, self.token = machine, int(machine.command.lead.token)
        self.starts.append(self.now)

    def ended(self, machine: Machine) -> None:
        """The command of a machine is dead."""
        self.log(machine.name, "ENDS")
        assert self.running is machine
        self.running = None
        self.ends.append(self.now)


def _short(what: object) -> str:
    match what:
        case e.Write():
            base = what.base.version if what.base else "nothing"
            return f"Write({what.serial}, over {base}: {what.record}, {what.incarnation!r})"
        case e.Get():
            return f"Get({what.serial})"
    return str(what)
