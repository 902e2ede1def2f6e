"""The process that holds the lock for the supervisor: started, listened to, replaced when it dies."""

from __future__ import annotations

import math
import os
import signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Protocol

    from kleader.link.channel import Channel
    from kleader.link.messages import Assign, Message

    class Starter(Protocol):
        """Makes an elector or a guard."""

        releases: bool  # the lock has to be given up by asking; else it goes with our end

        @property
        def inherited(self) -> tuple[int, ...]:
            """Descriptors that the command inherits."""

        def start(self, *, leading: bool) -> tuple[int, Channel]:
            """The pid and the link of a new one."""

        def holder(self) -> str:
            """Who holds the lock, where no elector can tell while it waits; "" if nobody does, or it is told."""

        def let_go(self) -> None:
            """Hold nothing on behalf of an elector that has ended."""


class Nobody:
    """Null: no election is wanted."""

    releases = False
    inherited: tuple[int, ...] = ()

    def start(self, *, leading: bool) -> tuple[int, Channel]:  # noqa: ARG002
        """Is never called."""
        raise AssertionError

    def holder(self) -> str:
        """Nobody."""
        return ""

    def let_go(self) -> None:
        """Nothing is held."""


_TRIES = 5  # early deaths in a row, after which another try is hopeless
_EARLY = 10.0  # seconds
_LONGEST_PAUSE = 2.0


class Elector:
    """At most one process at a time: a successor starts only after its predecessor has been killed and reaped.

    A stopped predecessor that woke up would release its successor's term.
    """

    def __init__(self, starter: Starter, silence: float = math.inf) -> None:
        self.starter = starter
        self._silence = silence
        self._channel: Channel | None = None
        self._last_words: list[Message] = []
        self._deaths = 0
        self._born = 0.0
        self.pid = 0
        self.restarts = 0  # after one that failed
        self.start_at = 0.0  # when the next one may be started
        self.heard_at = math.inf
        self.gone_at = 0.0  # when nobody was left to listen to

    @property
    def fd(self) -> int | None:
        """For poll; None while there is nobody to listen to."""
        return self._channel.fd if self._channel else None

    @property
    def hopeless(self) -> bool:
        """Whether electors keep failing early."""
        return self._deaths >= _TRIES

    def start(self, now: float, assign: Assign) -> None:
        """Start one, and tell it all it has to know.

        OSError: no room for another process, or (the file lock) the lock cannot be opened.
        """
        self.pid, self._channel = self.starter.start(leading=assign.leading)
        self.restarts += self._deaths > 0
        replaces, self._born = self._born > 0, now
        self.heard_at = now
        self.tell(assign._replace(replaces=replaces))

    def tell(self, message: Message) -> None:
        """Tell it a fact. One whose queue is full has been stopped for long: it is replaced."""
        if self._channel and not self._channel.send(message):
            self.kill()

    def hear(self, now: float) -> list[Message]:
        """What it said since. After its death, or once it is replaced: its last words, then nothing."""
        if not self._channel:
            last_words, self._last_words = self._last_words, []
            return last_words
        messages = self._channel.receive()
        if messages:
            self.heard_at = now
        if not self._channel.open:
            self.kill()  # first, as below
            self._hang_up(now)
        return messages

    def silent_until(self) -> float:
        """When it counts as hung unless it says something."""
        return self.heard_at + self._silence if self._channel else math.inf

    def kill(self) -> None:
        """SIGKILL; its end is told by :meth:`reaped`. It is not reaped yet, so the pid is still its own."""
        if self.pid:
            os.kill(self.pid, signal.SIGKILL)

    def reaped(self, now: float, *, failed: bool) -> None:
        """It is gone for good, and its pid is nobody's. What it said last may still be waiting to be heard."""
        self.pid = 0
        early = now - self._born < _EARLY
        self._deaths = (self._deaths if early else 0) + 1 if failed else 0
        self.start_at = now + (min(_LONGEST_PAUSE, 0.05 * 2**self._deaths) if self._deaths > 1 else 0.0)

    def replace(self, now: float) -> None:
        """It hangs: end it, and listen no more. In this order, or it would take us for dead and kill the command."""
        self.kill()
        if self._channel:
            self._last_words += self._channel.receive()
        self._hang_up(now)

    def _hang_up(self, now: float) -> None:
        if self._channel:
            self._channel.close()
            self._channel, self.gone_at = None, now
