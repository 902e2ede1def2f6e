"""What every lock that the elector can keep offers, and how it fails."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

from kleader.election.events import Failure, Kind, Observed, WatchEnded

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Sequence

    from kleader.election.record import Record


class LockError(Exception):
    """A request that did not do what it was asked; ``failure`` says which way, in a sentence with the mend."""

    def __init__(self, kind: Kind, message: str, retry_after: float = 0.0, held: int = 0) -> None:
        super().__init__(message)
        self.failure = Failure(kind, message, retry_after, held)


class WatchError(Exception):
    """A watch that is over."""

    def __init__(
        self,
        reason: str,
        *,
        denied: bool = False,
        begun: bool = True,
        retry_after: float = 0.0,
        moved: bool = False,
    ) -> None:
        super().__init__(reason)
        self.ended = WatchEnded(reason, denied=denied, begun=begun, retry_after=retry_after, moved=moved)


class SetUpError(Exception):
    """The road to the lock cannot be found: waiting does not help. The message is one line with the mend."""


class Traits(NamedTuple):
    """What one kind of lock is like; a Candidate's fields of the same names say what follows from it."""

    tick: int = 1  # microseconds that its records are kept to
    rivals_expire: bool = False  # rivals may be older than client-go 0.27, and expire a record by their own duration
    coordinated: bool = False  # the control plane names the leader
    twofold: bool = False  # it is kept in two objects: a watch tells of one at a time
    lasting: bool = False  # it does not expire


class Lock(Protocol):
    """One lock. Timeouts are seconds for the whole call; every method raises LockError, a watch WatchError."""

    namespace: str

    @property
    def traits(self) -> Traits:
        """What the election has to know of this kind of lock."""

    async def get(self, timeout: float) -> Observed:
        """The lock as it is now; Kind.MISSING if there is none."""

    async def write(self, base: Observed | None, record: Record, incarnation: str, timeout: float) -> Observed:
        """Update exactly the state ``base``, or create where nothing is (None). Kind.CONFLICT: somebody was first."""

    def watch(self, after: Observed | None, timeout: float) -> AsyncGenerator[Observed | None, None]:
        """Each later state, None: deleted; ``timeout`` is for its beginning. After None: first the present state."""

    def references(self, seen: Observed) -> Sequence[dict[str, str]]:
        """The objects that ``seen`` shows, as an Event names what it is about (core/v1 ObjectReference)."""

    def enter(self) -> None:
        """Be a candidate again, who may have left."""

    async def leave(self, timeout: float) -> None:
        """Be no candidate any more, where that is known to others; called before the last release."""
