"""The second guard: acts on kill_at when the supervisor does not."""

from __future__ import annotations

import math

from kleader import platform

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from kleader.elector.orphans import Orphans
    from kleader.log import Log


class Watchdog:
    """Armed while a command may run. ``ring`` is to be called at ``due``; ``ask`` asks for a sign of life.

    A supervisor that is stopped hears of no renewal: the kernel's timer (kleader.supervisor.deadline) kills it a moment
    after the kill_at that it heard of last, and whatever nobody knows below it is then lost to everybody. So that one
    counts, ``told``, as long as it is not later than ours; and two questions fit between it and the timer.
    """

    def __init__(self, orphans: Orphans, log: Log, kill_budget: float, ask: Callable[[], None]) -> None:
        self._orphans, self._log, self._ask = orphans, log, ask
        self._patience = max(kill_budget, 0.08) / 10  # for an answer; the timer's margin is 2.5 of it
        self._margin = max(kill_budget / 2, 0.05)
        self._asked_at = self._next = -math.inf
        self.kill_at = math.inf
        self.told = math.inf  # by the supervisor: the kill_at that it keeps to
        self.heard_at = platform.clock()

    @property
    def due(self) -> float:
        """When to look next: shortly before kill_at, then all the time until the term is over."""
        return max(self._at - self._patience, self._next)

    @property
    def _at(self) -> float:
        return min(self.kill_at, self.told)

    def heard(self) -> None:
        """The supervisor is awake."""
        self.heard_at = platform.clock()

    def disarm(self) -> None:
        """Nothing of the term is alive."""
        self.kill_at = self.told = math.inf

    def hurry(self) -> None:
        """The command must be dead now: somebody else may lead already."""
        self.kill_at = min(self.kill_at, platform.clock())
        self.ring()

    def ring(self) -> bool:
        """Ask the supervisor whether it is awake: by kill_at it knows of a later one, or kills. True if it is not.

        All that it has said must have been heard before.
        """
        now = platform.clock()
        if now < self.due:
            return False
        silent = self.heard_at < self._asked_at and self._asked_at >= self._at - self._patience
        if silent and now >= self._at:
            self._strike(now)
            self._next = platform.clock() + self._margin
            return True
        self._asked_at, self._next = now, now + self._patience
        self._ask()
        return False

    def _strike(self, now: float) -> None:
        """Kill all that is below the supervisor: its own end would only leave some of it without a parent.

        It may be awake, and slow. One that has not answered for long is killed, too, unless it is PID 1, which cannot
        be from here; then whoever can be found.
        """
        try:
            self._orphans.clear(self._margin)
            if now >= self._asked_at + self._margin:
                self._orphans.kill_supervisor()
                self._orphans.sweep()
        except (OSError, MemoryError):  # too many open files on this machine: again in a moment
            pass
        self._log.repeated("the supervisor did not act on its deadline: killed the command in its place")
