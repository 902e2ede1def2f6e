"""What the election needs of a lock."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Mapping, Sequence

    from kleader.election.events import Observed
    from kleader.election.record import Record
    from kleader.kube.client import ApiClient
    from kleader.locks.run_history import Run


CANDIDATES = "candidates."  # and the name of a lock: that of the Lease with the list of its candidates
# client-go's locks in two objects, to migrate from one kind to the other: the kinds of both, the primary first
MULTILOCKS = {"configmapsleases": ("configmap", "lease"), "endpointsleases": ("endpoints", "lease")}


class Place(NamedTuple):
    """Where a lock is, and with what its objects are written. ``warn`` gets sentences for a person."""

    api: ApiClient
    namespace: str
    name: str
    labels: Mapping[str, str] = MappingProxyType({})
    warn: Callable[[str], None] = lambda _: None
    force: bool = False  # permits an Endpoints that a Service would lose
    pod: str = ""  # of this candidate, for status


class LockProperties(NamedTuple):
    """What distinguishes a kind of lock for the election: fields of its Candidate."""

    tick: int = 1  # resolution of the record's times, in microseconds
    rivals_expire: bool = False  # rivals may be older than client-go 0.27, and expire a record by their own duration
    coordinated: bool = False  # the control plane nominates the leader
    is_multilock: bool = False  # two objects: a watch event shows one of them
    non_expiring: bool = False


class Lock(Protocol):
    """One lock, for one candidate. ``timeout``: seconds for a whole call.

    Every method that waits raises LockError; a watch ends with WatchError (kleader.kube.errors).
    """

    namespace: str
    ended_run: Run | None  # recorded by each later write
    recommended: str  # the candidate that a later release recommends; "": any
    ends_term: bool  # the next write is the last one of a term, no process of which is alive

    @property
    def properties(self) -> LockProperties:
        """The properties of this kind of lock."""

    async def get(self, timeout: float) -> Observed:
        """The lock now; Kind.MISSING if there is none."""

    async def write(self, base: Observed | None, record: Record, incarnation: str, timeout: float) -> Observed:
        """Write over exactly the observation ``base``, or create (None); the lock after that.

        Kind.CONFLICT: it was written since, or there is one.
        """

    def watch(self, after: Observed | None, timeout: float) -> AsyncGenerator[Observed | None, None]:
        """Each state after ``after``, None for a deletion; after None the present state first.

        ``timeout``: for the watch to begin.
        """

    @property
    def server_time(self) -> int | None:
        """The time by the lock's own clock, in microseconds since the epoch; None if it is not known yet."""

    def runs(self, seen: Observed) -> list[Run]:
        """The latest runs that the lock's objects keep, newest first."""

    def requested_by(self, seen: Observed) -> str:
        """The user and the host that the request comes from; "" if it does not say."""

    def references(self, seen: Observed) -> Sequence[dict[str, str]]:
        """The objects of the lock, as an Event refers to them (core/v1 ObjectReference)."""

    def register(self) -> None:
        """Compete again after :meth:`unregister`."""

    async def unregister(self, timeout: float) -> None:
        """Make known that this candidate stops competing, where others see candidates; before the last release."""
