"""A world of machines and one API server, in which only one command may run."""

from __future__ import annotations

import heapq
import random
from collections import deque
from typing import TYPE_CHECKING

from kleader.election import events as e
from tests.simulation.server import Server

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from tests.simulation.host import Host
    from tests.simulation.server import Kept


class BrokenPromiseError(AssertionError):
    """Two commands at once, or another thing that may never happen."""


class World:
    """Draws everything from one seed. ``now`` is a clock that no machine can see."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)  # noqa: S311 - replayed from its seed
        self.now = 0.0
        self._agenda: list[tuple[float, int, Callable[[], None]]] = []
        self._count = 0
        self._log: deque[tuple[float, tuple[object, ...]]] = deque(maxlen=400)
        self.server = Server()
        self.hosts: list[Host] = []
        self.running: Host | None = None
        self.starts: list[float] = []
        self.ends: list[float] = []
        self.token = 0

    @property
    def lease(self) -> int:
        """Everybody's lease duration, in seconds."""
        return self.hosts[0].me.timing.lease_duration

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

    def end(self) -> None:
        """Coroutines are ended in good order."""
        self._agenda.clear()
        for host in self.hosts:
            host.life += 1
            host.loop.end()
        self.run(self.now)

    def log(self, *what: object) -> None:
        """For whoever looks at a failure."""
        self._log.append((self.now, what))

    @property
    def story(self) -> str:
        """The last of what happened."""
        return "\n".join(f"{when:9.3f} {' '.join(_short(each) for each in what)}" for when, what in self._log)

    def just_deleted(self, kept: Iterable[Kept]) -> bool:
        """Whether one of these is gone, by somebody's hand, while its holder may still run."""
        return any(each.stored is None and self.now < each.deleted_at + 1.1 * self.lease for each in kept)

    # --- the promise

    def started(self, host: Host, token: str = "") -> None:
        """A command starts: no other may be alive, and its fencing token, if any, is greater than all before."""
        self.log(host.name, "STARTS with token", token)
        if self.running:
            raise BrokenPromiseError(f"{host.name} starts while the command of {self.running.name} is alive")
        if token and int(token) <= self.token:
            raise BrokenPromiseError(f"token {token} after {self.token}")
        self.running, self.token = host, int(token or self.token)
        self.starts.append(self.now)

    def ended(self, host: Host) -> None:
        """The command of a host is dead."""
        self.log(host.name, "ENDS")
        assert self.running is host
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
