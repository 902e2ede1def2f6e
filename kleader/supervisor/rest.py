"""The time in which a candidate does not contend: until it is well, and after a term that ended because it was not."""

from __future__ import annotations

import math

TYPE_CHECKING = False
if TYPE_CHECKING:
    from kleader.link.plan import Plan
    from kleader.supervisor.elector import Elector
    from kleader.supervisor.hooks import Health
    from kleader.supervisor.term import Term


class Rest:
    """There is no elector meanwhile: the last one gives up what may be ours, as at the end, and none is started."""

    def __init__(self, plan: Plan, health: Health, elector: Elector) -> None:
        self._plan, self._health, self._elector = plan, health, elector
        self._until = 0.0

    def begin(self, until: float) -> None:
        """For so long at least."""
        self._until = until

    def due(self, term: Term) -> float:
        """When it is over, or in vain."""
        if self._elector.pid:
            return math.inf
        return min(self._impatient_at(term), self._until if self._health.well else math.inf)

    def over(self, now: float) -> bool:
        """Whether to contend."""
        return self._health.well and now >= self._until

    def in_vain(self, term: Term, now: float) -> bool:
        """Whether the patience for a first term ends."""
        return now >= self._impatient_at(term)

    def _impatient_at(self, term: Term) -> float:
        if self._plan.wait is None or term.number > 1 or term.lead or not (self._plan.wait or self._health.known):
            return math.inf
        return self._plan.started + self._plan.wait
