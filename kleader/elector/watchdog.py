"""The watchdog of the supervisor: kills the command in its place when it does not act on kill_at."""

from __future__ import annotations

import math

from kleader import system

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from kleader.log import Log
    from kleader.procs.process_tracker import ProcessTracker


class Watchdog:
    """Armed while a command may run. Call ``check`` at ``due``; ``ask`` sends the supervisor a heartbeat to answer.

    A stopped supervisor receives no renewal: the kernel's timer (kleader.supervisor.deadline) kills it a moment after
    the last kill_at that it received, and the processes below it that the elector has not seen yet are then lost. So
    the supervisor's own kill_at counts where it is the earlier one; and two questions fit between it and the timer.
    """

    def __init__(self, tracker: ProcessTracker, log: Log, kill_budget: float, ask: Callable[[], object]) -> None:
        self._tracker, self._log, self._ask = tracker, log, ask
        self._answer_timeout = max(kill_budget, 0.08) / 10  # the timer's margin is 2.5 of it
        self._margin = max(kill_budget / 2, 0.05)
        self._asked_at = self._next_at = -math.inf
        self.kill_at = math.inf
        self.supervisor_kill_at = math.inf  # the one that the supervisor acts on, by its last message
        self.answered_at = system.clock()

    @property
    def due(self) -> float:
        """When to check next: shortly before kill_at, then all the time until the term is over."""
        return max(self.deadline - self._answer_timeout, self._next_at)

    @property
    def deadline(self) -> float:
        """When every process of the command must be dead."""
        return min(self.kill_at, self.supervisor_kill_at)

    def answered(self) -> None:
        """A message came: the supervisor is awake."""
        self.answered_at = system.clock()

    def disarm(self) -> None:
        """No process of the term is alive."""
        self.kill_at = self.supervisor_kill_at = math.inf

    def kill_now(self) -> None:
        """The command must be dead now: another candidate may lead already."""
        self.kill_at = min(self.kill_at, system.clock())
        self.check()

    def check(self) -> bool:
        """Ask the supervisor for an answer; kill in its place where none came by kill_at. True if none did.

        Every message that it has sent must have been received before this call.
        """
        now = system.clock()
        if now < self.due:
            return False
        silent = self.answered_at < self._asked_at and self._asked_at >= self.deadline - self._answer_timeout
        if silent and now >= self.deadline:
            self._kill(now)
            self._next_at = system.clock() + self._margin
            return True
        self._asked_at, self._next_at = now, now + self._answer_timeout
        self._ask()
        return False

    def _kill(self, now: float) -> None:
        """Kill every process below the supervisor, and that itself only where it has not answered for long.

        Its end leaves processes without a parent by which they are found; and it may be awake, and slow.
        """
        unresponsive, killed = now >= self._asked_at + self._margin, False
        try:
            killed = self._tracker.kill_below_supervisor(self._margin)
            if not killed:
                self._tracker.kill_cgroup()
            if unresponsive:
                self._tracker.kill_supervisor()
                self._tracker.kill_once()
        except Exception:  # noqa: BLE001 - no descriptor is free, or worse: the next call may succeed
            self._tracker.kill_as_last_resort(supervisor=unresponsive)
        did = "killed the command" if killed else "kills the command, of which some processes are still alive"
        self._log.repeated(f"the supervisor missed its deadline: the elector {did}", event="supervisor_unresponsive")
