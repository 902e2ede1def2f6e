"""The dead-man's timer: when the term is given up, and when its tree must be dead, with no help from anyone."""

from __future__ import annotations

import math

TYPE_CHECKING = False
if TYPE_CHECKING:
    from kleader.platform import KillTimer


class Deadline:
    """``stop_at`` and ``kill_at`` of the term, on the boot clock; both infinite without a term or without expiry.

    The kernel's timer is kept a little after kill_at: should this process be stopped or stuck then, it is killed, so
    that it can neither wake up later and start anything nor hold a lock that it does not serve.
    """

    def __init__(self, guard: KillTimer | None, kill_budget: float) -> None:
        self._guard, self._budget = guard, kill_budget
        self.margin = max(kill_budget / 4, 0.02)  # seconds; the sweep must come round more often
        self.stop_at = self.kill_at = math.inf

    def begin(self, stop_at: float, kill_at: float, now: float) -> None:
        """A new term. One that is heard of too late, after a sleep, is for the loop to judge, which is awake now."""
        self.stop_at, self.kill_at = stop_at, kill_at
        self._arm(max(kill_at, now) + self.margin)

    def extend(self, stop_at: float, kill_at: float, now: float) -> None:
        """The term was renewed: deadlines only ever move forward."""
        self.begin(max(stop_at, self.stop_at), max(kill_at, self.kill_at), now)

    def kill_by(self, alone_since: float) -> float:
        """When the tree is killed: a kill budget before kill_at by who is alone then, and may be late.

        The kernel's timer takes no account of why: it would end us, and leave the command's descendants behind.
        """
        return min(self.kill_at, max(self.kill_at - self._budget, alone_since))

    def awake(self, now: float) -> None:
        """Said by who is past kill_at and is killing: its own death would only leave the rest without a parent."""
        if now >= self.kill_at:
            self._arm(now + self.margin)

    def end(self) -> None:
        """Nothing of the term is alive."""
        self.stop_at = self.kill_at = math.inf
        self._arm(math.inf)

    def _arm(self, at: float) -> None:
        if self._guard:
            self._guard.arm(at)
