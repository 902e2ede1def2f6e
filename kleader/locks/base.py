"""What every lock that the elector can keep offers, and how it fails."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from kleader.election.events import Failure, Kind, Observed, WatchEnded

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from kleader.election.record import Record


class LockError(Exception):
    """A request that did not do what it was asked; ``failure`` says which way, in a sentence with the mend."""

    def __init__(self, kind: Kind, message: str, retry_after: float = 0.0) -> None:
        super().__init__(message)
        self.failure = Failure(kind, message, retry_after)


class WatchError(Exception):
    """A watch that is over."""

    def __init__(self, reason: str, *, denied: bool = False, begun: bool = True, retry_after: float = 0.0) -> None:
        super().__init__(reason)
        self.ended = WatchEnded(reason, denied=denied, begun=begun, retry_after=retry_after)


class SetUpError(Exception):
    """The road to the lock cannot be found: waiting does not help. The message is one line with the mend."""


class Lock(Protocol):
    """One lock object. Timeouts are seconds for the whole call; every method raises LockError, a watch WatchError."""

    namespace: str

    async def get(self, timeout: float) -> Observed:
        """The object as it is now; Kind.MISSING if there is none."""

    async def write(self, base: Observed | None, record: Record, incarnation: str, timeout: float) -> Observed:
        """Update exactly the state ``base``, or create where nothing is (None). Kind.CONFLICT: somebody was first."""

    def watch(self, version: str, timeout: float) -> AsyncGenerator[Observed | None, None]:
        """Each later state, None: deleted; ``timeout`` is for its beginning. From ``""``: first the present state."""
