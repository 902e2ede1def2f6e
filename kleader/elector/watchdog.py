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
    """Armed while a command may run. ``ring`` is to be called at ``due``; ``ask`` asks for a sign of life."""

    def __init__(self, orphans: Orphans, log: Log, kill_budget: float, ask: Callable[[], None]) -> None:
        self._orphans, self._log, self._ask = orphans, log, ask
        self._margin = max(kill_budget / 2, 0.05)
        self._asked_at = -math.inf
        self.kill_at = math.inf
        self.heard_at = platform.clock()

    @property
    def due(self) -> float:
        """When to look next: at kill_at, then once in a while until the term is over."""
        return max(self.kill_at, self._asked_at + self._margin)

    def heard(self) -> None:
        """The supervisor is awake."""
        self.heard_at = platform.clock()

    def hurry(self) -> None:
        """The command must be dead now: somebody else may lead already."""
        self.kill_at = min(self.kill_at, platform.clock())
        self.ring()

    def ring(self) -> None:
        """From kill_at on ask the supervisor whether it is awake, and so is sweeping; it gets a moment to answer."""
        now = platform.clock()
        if now < self.due:
            return
        if self._asked_at >= self.kill_at and self.heard_at < self._asked_at:
            self._strike()
        self._asked_at = now
        self._ask()

    def _strike(self) -> None:
        """Kill the supervisor first, so that it cannot wake up and start anything.

        As PID 1 it cannot be killed from here: then what is below it is, until it answers.
        """
        self._orphans.look()  # while they are below it: afterwards they are nobody's
        try:
            self._orphans.kill_supervisor()
            self._orphans.sweep()
        except (OSError, MemoryError):  # likewise: again in a moment
            pass
        self._log.repeated("the supervisor did not act on its deadline: killed it and the command")
