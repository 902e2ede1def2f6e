"""A world of machines and one API server, in which only one command may run."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from functools import cached_property
from heapq import heappop, heappush
from random import Random
from typing import TYPE_CHECKING

from kleader.election import events as e
from tests.simulation.server import Server

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.simulation.host import Host
    from tests.simulation.server import Stored

REMEMBERED = 400  # lines of the story


class BrokenPromiseError(AssertionError):
    """What may never happen."""


class OverlapError(BrokenPromiseError):
    """Two commands at once."""


class World:
    """Draws everything from one seed. ``now`` is a clock that no machine can see."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.rng = Random(seed)  # noqa: S311 - replayed from its seed
        self.now = 0.0
        self._agenda: list[tuple[float, int, Callable[[], None]]] = []
        self._soon: deque[Callable[[], None]] = deque()
        self.soon = self._soon.append  # do something after what happens now, before anything else does
        self._count = 0
        self._log: deque[tuple[float, tuple[object, ...]]] = deque(maxlen=REMEMBERED)
        self.server = Server()
        self.hosts: list[Host] = []
        self.running: Host | None = None
        self.starts: list[float] = []
        self.ends: list[float] = []
        self.occurred: Counter[str] = Counter()
        self.hindered_until = 0.0  # by what was done to it, at most
        self._latest: tuple[Host | None, int] = None, 0  # who started last, with which token

    def fork(self) -> Random:
        """A source of its own, so that what one draws does not change what another does."""
        return Random(self.rng.getrandbits(64))  # noqa: S311 - replayed from its seed

    @cached_property
    def lease(self) -> int:
        """The longest lease duration of all, in seconds; not asked for before all have joined."""
        return max(host.me.timing.lease_duration for host in self.hosts)

    # --- the clock

    def at(self, when: float, what: Callable[[], None]) -> None:
        """Do something then, which is not past."""
        assert when >= self.now
        self._count += 1
        heappush(self._agenda, (when, self._count, what))

    def after(self, seconds: float, what: Callable[[], None]) -> None:
        """Do something in so many seconds."""
        self.at(self.now + seconds, what)

    def run(self, until: float) -> None:
        """Let time pass."""
        agenda, soon = self._agenda, self._soon
        while True:
            while soon:
                soon.popleft()()
            if not agenda or agenda[0][0] > until:
                break
            self.now, _, what = heappop(agenda)
            what()
        self.now = until
        asyncio._set_running_loop(None)

    def end(self) -> None:
        """Coroutines are ended in good order."""
        self._agenda.clear()
        for host in self.hosts:
            host.life += 1
            host.loop.end()
        self.run(self.now)

    # --- the story

    def log(self, *what: object) -> None:
        """Add a line to the story of a failure."""
        self._log.append((self.now, what))

    def note_fault(self, host: Host, what: str) -> None:
        """Count a fault of this host."""
        self.occurred[what] += 1
        self.log(host.name, "fault:", what)

    @property
    def story(self) -> str:
        """The last of what happened."""
        return "\n".join(f"{when:9.3f} {' '.join(_short(each) for each in what)}" for when, what in self._log)

    def just_robbed(self, newcomer: Host) -> bool:
        """Whether a recent edit of one of its objects hides how long to wait."""
        return any(
            self.now < each.robbed_at + 1.1 * self.lease and self._hides(each.stored, newcomer.me.timing.lease_duration)
            for each in newcomer.kept
        )

    def _hides(self, stored: Stored | None, own: int) -> bool:
        if stored is None or stored.record.is_blank:
            return True
        told = stored.record.duration if stored.record.acquired else max(own, stored.record.duration)
        least = self.running.me.timing.lease_duration if self.running else self.lease
        return bool(stored.record.holder) and told < least

    # --- the promise

    def started(self, host: Host, token: str = "") -> None:
        """A command starts: no other may be alive, and its token, if any, is greater than that of all other terms."""
        self.log(host.name, "STARTS with token", token)
        if self.running:
            msg = f"{host.name} starts while the command of {self.running.name} is alive"
            raise OverlapError(msg)
        last = self._latest[1]
        if token and (int(token) < last or (int(token) == last and self._latest[0] is not host)):
            msg = f"token {token} after {last}"
            raise BrokenPromiseError(msg)
        self.running, self._latest = host, (host, int(token or last))
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
        case e.Watch():
            return f"Watch(from {what.after.version if what.after else 'now'})"
    return str(what)
