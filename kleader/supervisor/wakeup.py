"""What the loop waits for: a signal, a word from the elector, or the next instant at which something is due."""

from __future__ import annotations

import select

from kleader import platform


class Wakeup:
    """One poll(2) over all of them."""

    def __init__(self, signals: platform.Signals) -> None:
        self._timer = platform.Timer()
        self._poll = select.poll()
        self._poll.register(signals.fd, select.POLLIN)
        if self._timer.fd is not None:
            self._poll.register(self._timer.fd, select.POLLIN)

    def wait(self, due: float, links: tuple[int | None, ...], *, at_once: bool) -> None:
        """Until ``due`` at the latest; ``links``: where the elector and a new command speak; ``at_once``: only look."""
        self._timer.arm(due)
        for link in links:
            if link is not None:
                self._poll.register(link, select.POLLIN)
        self._poll.poll(0 if at_once else self._timer.poll_ms)
        self._timer.drain()
        for link in links:
            if link is not None:
                self._poll.unregister(link)
