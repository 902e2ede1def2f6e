"""One loop, one place for every signal, fact and deadline.

Each turn first hears the elector, so that a supervisor that slept knows of every renewal before it looks at its
deadlines; then takes signals; then reaps; then acts on what the clock says.
"""

from __future__ import annotations

from kleader import platform
from kleader.supervisor import child as children
from kleader.supervisor.life import Life
from kleader.supervisor.signals import wanted
from kleader.supervisor.wakeup import Wakeup

TYPE_CHECKING = False
if TYPE_CHECKING:
    from kleader.link.plan import Plan
    from kleader.log import Log
    from kleader.supervisor.elector import Elector
    from kleader.supervisor.reporter import Starter

_MOST_REAPED = 500  # in one turn, so that processes that die all the time cannot keep a deadline waiting


class Supervisor:
    """Runs one plan to its exit status."""

    def __init__(
        self,
        plan: Plan,
        log: Log,
        signals: platform.Signals,
        elector: Elector,
        reporter: Starter | None = None,
    ) -> None:
        self._log, self._signals = log, signals
        self._wakeup = Wakeup(signals)
        self._life = Life(plan, log, signals, elector, reporter)

    def run(self) -> int:
        """Everything; returns the exit status. Whatever is raised, nothing of the command is left."""
        try:
            return self._run()
        except BaseException:
            self._life.end_blindly()
            raise

    def _run(self) -> int:
        platform.adopt_orphans()
        if platform.MISSING:
            self._log.warning(platform.MISSING)
        life, more_to_reap = self._life, False
        life.begin()
        while True:
            life.act(platform.clock())
            if life.over:
                return life.status()
            self._wakeup.wait(life.due(), life.links, at_once=more_to_reap)
            life.hear(platform.clock())
            for each in wanted(self._signals):
                life.on_signal(each.number, platform.clock(), terminal=each.terminal)
            reaped = children.reap(_MOST_REAPED)
            more_to_reap = len(reaped) == _MOST_REAPED
            now = platform.clock()
            for pid, status in reaped:
                life.reaped(pid, status, now)
