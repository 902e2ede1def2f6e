"""A lock as it was read once, and what an observer can say of it at an instant: plain values."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from kleader.election.record import SECOND, Record

if TYPE_CHECKING:
    from kleader.kube.errors import LockError
    from kleader.locks.candidate_registry import Registered
    from kleader.locks.run_history import Run

LockKey = tuple[str, str, str]  # kind, namespace, name


class ObjectRef(NamedTuple):
    """An object at the API that keeps a lock's record."""

    api_version: str
    kind: str
    name: str
    uid: str
    resource_version: str
    writer: str  # the field manager of the last write; "" if the object does not say


@dataclass(frozen=True, slots=True)
class LockSnapshot:
    """One lock as it was read."""

    kind: str  # as --lock names it
    namespace: str
    name: str
    record: Record = field(default_factory=Record)
    incarnation: str = ""
    fault: str = ""  # why the record cannot be read; such a lock counts as held
    non_expiring: bool = False  # the holder keeps it until the holder's Pod or process is gone
    preferred_holder: str = ""  # coordinated election: the candidate that the control plane wants to lead instead
    objects: tuple[ObjectRef, ...] = ()
    path: str = ""  # of a lock file
    handed_over: bool = False  # the previous leader named the holder, which has not written the record yet
    runs: tuple[Run, ...] = ()  # the latest runs of the command, the newest first
    pod: str = ""  # of the holder; "": not known
    last_ended: int | None = None  # the transitions of the last term that ended in order; None: not known
    last_holder: str = ""  # of a lock without a holder; "": not known
    free_since: int | None = None  # microseconds since the epoch; None: it has a holder, or that is not known
    candidates: tuple[Registered, ...] | None = None  # that wait for the lock, the best first; None: not known

    @property
    def key(self) -> LockKey:
        """What identifies the lock."""
        return self.kind, self.namespace, self.name

    @property
    def term(self) -> tuple[str, str, int | None]:
        """What changes with each new leadership, also where the same holder leads again."""
        return self.record.holder, self.incarnation, self.record.acquired

    @property
    def unrecorded(self) -> int | None:
        """How many terms ended after that without a record: the leader crashed, lost the lock, or is not kleader."""
        if self.last_ended is None:
            return None
        return max(0, self.record.transitions - bool(self.record.holder) - self.last_ended)

    def is_older_than(self, other: LockSnapshot) -> bool:
        """Whether ``other`` is a later state of the same objects: a response and a watch event may overtake each other.

        resourceVersions are compared as decimal numbers of any length; others prove nothing.
        """
        for mine, its in zip(self.objects, other.objects, strict=False):
            numbers = mine.resource_version, its.resource_version
            if mine.uid == its.uid and all(map(str.isdecimal, numbers)) and int(numbers[0]) < int(numbers[1]):
                return True
        return False


class LockState(Enum):
    """What an observer can say of a lock."""

    FREE = "free"
    HELD = "held"
    OVERDUE = "overdue"  # expired by the record's times; one read cannot prove that, because clocks differ
    EXPIRED = "expired"  # observed unchanged for its whole lease duration: every observer may acquire it
    MALFORMED = "malformed"  # counts as held


class LockStatus(NamedTuple):
    """A lock at an instant."""

    snapshot: LockSnapshot
    state: LockState
    seconds_left: float | None  # until it expires; None where it does not expire, or where that is unknown
    at: int  # microseconds since the epoch
    from_watch: bool  # judged by this observer's own clock, and not by the record's times


def status_from_read(snapshot: LockSnapshot, at: int) -> LockStatus:
    """What one read shows at ``at``, by the record's own times: no proof of anything, because clocks differ."""
    state, left = _state_without_clock(snapshot), None
    if state is None:
        state = LockState.HELD
        if snapshot.record.renewed is not None:
            age = max(0.0, (at - snapshot.record.renewed) / SECOND)  # client-go's renewTime may be in the future
            left = snapshot.record.duration - age
            state = LockState.OVERDUE if left <= 0 else LockState.HELD
    return LockStatus(snapshot, state, left, at, from_watch=False)


def status_from_watch(snapshot: LockSnapshot, unchanged_for: float, at: int) -> LockStatus:
    """What follows from a record that was observed unchanged for so many seconds, as every candidate judges it."""
    state, left = _state_without_clock(snapshot), None
    if state is None:
        left = snapshot.record.duration - unchanged_for
        state = LockState.EXPIRED if left <= 0 else LockState.HELD
    return LockStatus(snapshot, state, left, at, from_watch=True)


def _state_without_clock(snapshot: LockSnapshot) -> LockState | None:
    """The state where no clock matters; None: it depends on the lease duration."""
    if snapshot.fault:
        return LockState.MALFORMED
    if not snapshot.record.holder:
        return LockState.FREE
    return LockState.HELD if snapshot.non_expiring else None


class SourceUpdate(NamedTuple):
    """What a source of locks reports: changed locks, None for one that is gone; or an error, and no locks."""

    snapshots: dict[LockKey, LockSnapshot | None]
    is_complete: bool = False  # all locks of the source, and not only those that changed
    error: LockError | None = None
