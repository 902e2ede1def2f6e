"""How a request for a lock, or a watch, fails. Each error carries the value that the election works with."""

from __future__ import annotations

from kleader.election.events import Failure, Kind, WatchEnded


class LockError(Exception):
    """A request failed. ``failure`` has the kind, one sentence with a hint what to do, and seconds to wait."""

    def __init__(self, kind: Kind, message: str, retry_after: float = 0.0, partly_done: bool = False) -> None:  # noqa: FBT001, FBT002 - as Failure
        super().__init__(message)
        self.failure = Failure(kind, message, retry_after, partly_done)


class ForbiddenError(LockError):
    """A permission is missing."""

    def __init__(self, message: str) -> None:
        super().__init__(Kind.DENIED, message)


class WatchError(Exception):
    """A watch ended; ``ended`` says how."""

    def __init__(
        self, reason: str, *, denied: bool = False, begun: bool = True, retry_after: float = 0.0, moved: bool = False
    ) -> None:
        super().__init__(reason)
        self.ended = WatchEnded(reason, denied=denied, begun=begun, retry_after=retry_after, moved=moved)


class SetUpError(Exception):
    """The configuration names no usable API server, user or file; waiting does not help. One line with a hint."""
