"""Pauses between attempts that fail one after another."""

from __future__ import annotations

import math


class Backoff:
    """The first pause is ``initial`` seconds long, each further one twice the one before, none longer than ``maximum``.

    An attempt that lasted ``steady`` seconds before it failed starts the pauses over. There is no jitter: the only
    attempts that many processes make at the same instant are the election's, which has its own.
    """

    def __init__(self, initial: float, maximum: float, steady: float = math.inf) -> None:
        self._initial, self._maximum, self._steady = initial, maximum, steady
        self._next = initial

    def reset(self) -> None:
        """An attempt succeeded: the next pause is the first one again."""
        self._next = self._initial

    def pause(self, lasted: float = 0.0) -> float:
        """An attempt failed after ``lasted`` seconds: seconds until the next one."""
        if lasted >= self._steady:
            self.reset()
        pause, self._next = self._next, min(self._maximum, 2 * self._next)
        return pause
