"""The events and actions of an election: plain values, so that a run can be replayed from them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any, NamedTuple

from kleader.election.protocol import (
    Acquired,
    AcquireFailed,
    AllProcessesExited,
    Lost,
    NewLeader,
    Released,
    Renewed,
    Restart,
    StepDown,
)
from kleader.election.record import Record  # noqa: TC001 - dataclass fields
from kleader.election.request import Request  # noqa: TC001 - dataclass fields


class Instant(NamedTuple):
    """When something happened, by this machine's clocks, and a number in [0, 1) drawn for it."""

    boot: float  # seconds that also count suspend: decides
    wall: int  # microseconds since the epoch: is written into records, decides nothing
    jitter: float = 0.0  # spreads rivals


@dataclass(frozen=True, slots=True)
class Observed:
    """One state of the lock object, as an answer or a watch event showed it."""

    record: Record
    incarnation: str = ""
    version: str = ""  # resourceVersion; of a multilock both, "PRIMARY/SECONDARY", "" for one that is missing
    fault: str = ""  # why the record cannot be read: such a lock is held
    base: Any = None  # the object itself, which the next write starts from
    components: Any = ()  # a multilock's: record and incarnation of each object, None for one that is missing
    # a multilock: at least one of its objects is missing or blank. Such a lock is neither released nor handed over
    some_object_lacks_record: bool = False
    handed_over: bool = False  # a leader whose command was dead has named the holder, which has not written it yet
    recommended: str = ""  # of a released lock: the candidate that the last leader found to be the best
    preferred: str = ""  # coordinated: the candidate that the control plane wants to lead instead
    # coordinated: the control plane created the object, and no candidate has written it since
    only_control_plane_wrote: bool = False
    owned_by_me: bool = False  # without expiry: owned by what this candidate lives in
    owner_gone: bool = False  # without expiry: its owner is proven to be gone
    request: Request | None = None  # a request to its holder; the next write removes it

    def same_record(self, other: Observed) -> bool:
        """Whether nothing changed but the version: a label, or the candidate that the control plane prefers."""
        return self._comparison_key == other._comparison_key

    def shares_version(self, other: Observed) -> bool:
        """Whether the object, or one object of a multilock, was not written since."""
        mine, others = self.version.split("/"), other.version.split("/")
        return any(version and version == was for version, was in zip(mine, others, strict=False))

    @property
    def token(self) -> str:
        """The fencing token of a term that this write began: the resourceVersion, of a multilock the primary's."""
        return self.version.partition("/")[0]

    @property
    def is_blank(self) -> bool:
        """Whether there is an object, on which no candidate has left a record. That is no release."""
        return self.record.is_blank and not self.fault

    @property
    def is_release(self) -> bool:
        """Whether a holder has released it: no process of its command, or of an earlier holder's, is alive.

        Of a multilock this looks at the objects that have a record alone; :meth:`State.is_released` at the others too.
        """
        return not (self.record.holder or self.record.is_blank or self.fault)

    @property
    def objects_without_record(self) -> frozenset[int]:
        """The objects of a multilock that are missing or blank: 0 is the primary, 1 the secondary."""
        components = self.components if isinstance(self.components, tuple) else ()
        return frozenset(i for i, each in enumerate(components) if each is None or each[0].is_blank)

    @property
    def is_nomination(self) -> bool:
        """Whether the control plane has written the holder: without an acquireTime, which each candidate writes."""
        return bool(self.record.holder) and self.record.acquired is None and not self.fault

    @property
    def some_object_is_missing(self) -> bool:
        """Whether an object of a multilock is missing: a write creates it. A blank object is there."""
        return isinstance(self.components, tuple) and None in self.components

    @property
    def _comparison_key(self) -> tuple[Any, ...]:
        fields = self.record, self.incarnation, self.fault, self.handed_over, self.some_object_lacks_record
        return *fields, self.components, self.owned_by_me, self.owner_gone


class Kind(Enum):
    """What became of a request that did not do what it was asked."""

    MISSING = "missing"  # no such object
    CONFLICT = "conflict"  # another client wrote first, or the object is another one
    DENIED = "denied"  # 401, 403
    REFUSED = "refused"  # 400, 422, no such namespace: the request itself is at fault
    THROTTLED = "throttled"  # 429
    UNREACHABLE = "unreachable"  # no answer, or one that cannot be trusted: a write may have happened
    PERMANENT = "permanent"  # waiting cannot help


class Failure(NamedTuple):
    """A request that failed: its kind, a sentence for a person, and what the server asked of us."""

    kind: Kind
    message: str = ""
    retry_after: float = 0.0  # seconds
    partly_done: bool = False  # one object of a multilock was written, or may have been, and the other was not


# --- events


@dataclass(frozen=True, slots=True)
class TimerFired:
    """The instant that the state asked to be woken at has come."""


@dataclass(frozen=True, slots=True)
class GetDone:
    """The answer to a Get; None: there is no such object."""

    request: Get
    observed: Observed | None


@dataclass(frozen=True, slots=True)
class WriteDone:
    """The answer to a Write: the object as it now is."""

    request: Write
    observed: Observed


@dataclass(frozen=True, slots=True)
class RequestFailed:
    """A Get or a Write did not succeed."""

    request: Get | Write
    failure: Failure


@dataclass(frozen=True, slots=True)
class WatchEvent:
    """A watch event; None: the object was deleted, or, as the first event, is missing once the watch has begun.

    It only wakes: the conflict check of a write decides.
    """

    observed: Observed | None


@dataclass(frozen=True, slots=True)
class WatchEnded:
    """The watch is over. ``denied``: it will not be allowed next time either. ``begun``: there was one at all.

    ``moved``: there is something else to be watched, which is to be read first.
    """

    reason: str = ""
    denied: bool = False
    begun: bool = True
    retry_after: float = 0.0  # seconds for which the server wants to be left alone
    moved: bool = False


@dataclass(frozen=True, slots=True)
class SupervisorUnresponsive:
    """The supervisor does not answer: a lock must not be kept for a command without a supervisor."""

    reason: str


Event = (
    TimerFired
    | GetDone
    | WriteDone
    | RequestFailed
    | WatchEvent
    | WatchEnded
    | AllProcessesExited
    | SupervisorUnresponsive
    | Restart
)


# --- actions, to be done in this order at once. A Get or Write supersedes one that is still under way.


@dataclass(frozen=True, slots=True)
class Get:
    """Read the lock object; answered by GetDone or RequestFailed."""

    serial: int  # tells one request from the next, so that an answer finds its own
    timeout: float  # seconds for the whole call


@dataclass(frozen=True, slots=True)
class Write:
    """Create the object (base None) or update exactly the state ``base``; answered by WriteDone or RequestFailed."""

    serial: int
    timeout: float
    base: Observed | None
    record: Record
    incarnation: str


@dataclass(frozen=True, slots=True)
class Watch:
    """Watch the lock from ``after`` on (None: from whatever is there now), instead of any watch before."""

    after: Observed | None


@dataclass(frozen=True, slots=True)
class Unwatch:
    """End the watch: no event of it comes any more."""


@dataclass(frozen=True, slots=True)
class Report:
    """A line for the log, repeated only now and then while it stays the same. ``info``: it is no warning."""

    event: str  # the name in the log, as kleader-operations(7) lists it
    message: str
    info: bool = False


Action = (
    Get | Write | Watch | Unwatch | Acquired | Renewed | Lost | StepDown | NewLeader | Report | AcquireFailed | Released
)
