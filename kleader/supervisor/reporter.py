"""The process that tells others over HTTP and in a file: started, told, and started again. It decides nothing."""

from __future__ import annotations

import math
import os
import signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from kleader.link.channel import Channel
    from kleader.link.messages import Status
    from kleader.log import Log

    Starter = Callable[[], tuple[int, Channel]]

_LONGEST_PAUSE = 30.0  # seconds
_STEADY = 60.0  # seconds; one that lived so long is started again at once
_AGAIN = 1.0  # seconds until it is told again what found no room


class Reporter:
    """At most one process. ``spared``: who is none of the command's, whom it joins while it lives."""

    def __init__(self, starter: Starter | None, log: Log, spared: set[int]) -> None:
        self._starter, self._log, self._spared = starter, log, spared
        self._channel: Channel | None = None
        self._pid = 0
        self._born = -math.inf
        self._pause = 0.0
        self._start_at = math.inf if starter is None else 0.0
        self._told: Status | None = None
        self._again_at = math.inf  # when to try anew what found no room

    @property
    def wanted(self) -> bool:
        """Whether there is to be one at all."""
        return self._starter is not None

    @property
    def due(self) -> float:
        """When to call ``tell`` though nothing happens."""
        return self._again_at if self._pid else self._start_at

    def retire(self) -> None:
        """Start no other: kleader ends, and what is still there ends by that."""
        self._start_at = math.inf

    def tell(self, status: Status, now: float) -> None:
        """Let it know. One that has died is started again when its pause is over, and told all."""
        if not self._pid and now >= self._start_at:
            self._start(now)
        same = self._told is not None and status._replace(at=self._told.at) == self._told
        if self._channel and (now >= self._again_at or not same):
            self._told = status
            self._again_at = math.inf if self._channel.send(status) else now + _AGAIN

    def ended(self, pid: int, status: int, now: float) -> bool:
        """What waitpid said of a child; whether it was this one."""
        if not self._pid or pid != self._pid:
            return False
        if os.WIFSTOPPED(status):
            os.kill(pid, signal.SIGKILL)
            return True
        self._spared.discard(pid)
        self._hang_up()
        self._rest("the reporter died", now)
        return True

    def _start(self, now: float) -> None:
        assert self._starter  # noqa: S101 - else it is never due
        try:
            self._pid, self._channel = self._starter()
        except OSError as error:
            self._rest(f"cannot start the reporter: {error.strerror}", now)
            return
        self._spared.add(self._pid)
        self._born, self._told, self._again_at = now, None, math.inf

    def _rest(self, why: str, now: float) -> None:
        self._pause = 0.1 if now - self._born > _STEADY else min(_LONGEST_PAUSE, max(0.1, self._pause * 2))
        self._start_at = now + self._pause
        self._log.repeated(f"{why}: starting it again; the command goes on")

    def _hang_up(self) -> None:
        self._pid = 0
        if self._channel:
            self._channel.close()
            self._channel = None
