"""The second guard: acts on kill_at when the supervisor does not."""

from __future__ import annotations

import math

from kleader import platform

TYPE_CHECKING = False
if TYPE_CHECKING:
    from kleader.elector.orphans import Orphans
    from kleader.log import Log


class Watchdog:
    """Armed while a command may run. ``ring`` is to be called at ``due``."""

    def __init__(self, orphans: Orphans, log: Log, kill_budget: float) -> None:
        self._orphans, self._log = orphans, log
        self._margin = max(kill_budget / 2, 0.05)
        self.kill_at = math.inf
        self.heard_at = self._looked_at = platform.clock()

    @property
    def due(self) -> float:
        """When to look next."""
        return max(self.kill_at, self.heard_at, self._looked_at) + self._margin if self.kill_at < math.inf else math.inf

    def heard(self) -> None:
        """The supervisor is awake, and has acted on its deadlines by now."""
        self.heard_at = platform.clock()

    def ring(self) -> None:
        """A moment after kill_at, and no word: kill the supervisor first, so that it cannot wake up and start anything.

        As PID 1 it cannot be killed from here: then what is below it is, until it answers.
        """
        now = platform.clock()
        if now < self.due:
            return
        self._looked_at = now
        self._log.repeated("the supervisor does not act on its deadline: killing it and the command")
        self._orphans.look()  # while they are below it: afterwards they are nobody's
        supervisor = self._orphans.supervisor
        if supervisor.pid != 1:
            platform.kill(supervisor)
        self._orphans.sweep()
