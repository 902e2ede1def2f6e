"""When a term is given up, and when its tree must be dead. The supervisor keeps both without help from the elector."""

from __future__ import annotations

import math

TYPE_CHECKING = False
if TYPE_CHECKING:
    from kleader.system import KillTimer


class Deadline:
    """``stop_at`` and ``kill_at`` of the term, on CLOCK_BOOTTIME; both infinite without a term or without expiry.

    The kernel's timer is set a little after kill_at. It kills a supervisor that is stopped or stuck then, so that the
    supervisor can neither go on later and start a command nor hold a lock that it does not renew.
    """

    def __init__(self, timer: KillTimer | None, kill_budget: float) -> None:
        self._timer, self._budget = timer, kill_budget
        self.margin = max(kill_budget / 4, 0.02)  # seconds; while killing, awake() is called more often
        self.stop_at = self.kill_at = math.inf

    def begin(self, stop_at: float, kill_at: float, now: float) -> None:
        """A term begins. Where kill_at has passed already, the timer leaves the loop the time to kill."""
        self.stop_at, self.kill_at = stop_at, kill_at
        self._arm(max(kill_at, now) + self.margin)

    def extend(self, stop_at: float, kill_at: float, now: float) -> None:
        """The term was renewed. Deadlines move forward only."""
        self.begin(max(stop_at, self.stop_at), max(kill_at, self.kill_at), now)

    def kill_by(self, alone_since: float) -> float:
        """When the supervisor kills the tree: a kill budget earlier while no elector would kill in its place.

        It may be late itself, and the kernel's timer would end the supervisor alone, and leave the descendants behind.
        """
        return min(self.kill_at, max(self.kill_at - self._budget, alone_since))

    def awake(self, now: float) -> None:
        """The supervisor is awake; past kill_at it is killing, and the timer would take the tree's parent."""
        if now >= self.kill_at:
            self._arm(now + self.margin)

    def end(self) -> None:
        """No process of the term is alive."""
        self.stop_at = self.kill_at = math.inf
        self._arm(math.inf)

    def _arm(self, at: float) -> None:
        if self._timer:
            self._timer.arm(at)
