"""What an election is told and what it asks for: plain values, so that a run can be replayed from them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any, NamedTuple

from kleader.election.record import Record  # noqa: TC001 - dataclass fields
from kleader.election.request import Request  # noqa: TC001 - likewise


class Instant(NamedTuple):
    """When something happened, by this machine's clocks, and a number in [0, 1) drawn for it."""

    boot: float  # seconds that also count suspend: decides
    wall: int  # microseconds since the epoch: is written into records, decides nothing
    luck: float = 0.0  # spreads rivals


@dataclass(frozen=True, slots=True)
class Observed:
    """One state of the lock object, as an answer or a watch event showed it."""

    record: Record
    incarnation: str = ""
    version: str = ""  # resourceVersion
    fault: str = ""  # why the record cannot be read: such a lock is held
    base: Any = None  # the object itself, which the next write starts from
    torn: bool = False  # one of a multilock's two objects is missing: held, and one's own only to who leads already
    gone: bool = False  # torn, and it was there before
    created: bool = False  # one of a multilock's two objects may have been another's, and then its holder created it
    beside: Any = None  # what else the lock is kept in, as far as a change of it starts a challenger's wait anew
    preferred: str = ""  # coordinated: whom the control plane wants to lead instead
    untouched: bool = False  # coordinated: as the control plane created it, no candidate has written it since
    ours: bool = False  # without expiry: owned by what this candidate lives in
    dead: bool = False  # without expiry: its owner is proven to be gone
    request: Request | None = None  # what somebody wants of its holder; the next write removes it
    given: bool = False  # a leader whose command was dead has named the holder, who has not written it yet
    second: str = ""  # the resourceVersion of a multilock's second object

    def same_record(self, other: Observed) -> bool:
        """Whether nothing changed but the version (somebody else's label), so that a challenger's wait goes on."""
        return self._told == other._told

    def same_version(self, other: Observed) -> bool:
        """Whether nobody has written since: not so with the same record again, in another version or another object."""
        return (self.version, self.second) == (other.version, other.second)

    def changed_halves(self, before: Observed) -> list[Any]:
        """Of a multilock, whichever is not as it was: its record and incarnation, or None where it is missing."""
        return [half for was, half in zip(before.beside, self.beside, strict=True) if half != was]

    @property
    def given_up(self) -> bool:
        """Whether a holder has emptied it; a lock without a record was not given up by anybody."""
        return not (self.record.holder or self.record.unwritten or self.fault or self.gone)

    @property
    def _told(self) -> tuple[Any, ...]:
        record = self.record, self.incarnation, self.fault, self.given
        return *record, self.torn, self.gone, self.beside, self.preferred, self.ours, self.dead


class Kind(Enum):
    """What became of a request that did not do what it was asked."""

    MISSING = "missing"  # no such object
    CONFLICT = "conflict"  # somebody wrote first, or the object is another one
    DENIED = "denied"  # 401, 403
    REFUSED = "refused"  # 400, 422, no such namespace: the request itself is at fault
    THROTTLED = "throttled"  # 429
    UNREACHABLE = "unreachable"  # no answer, or one that cannot be trusted: a write may have happened
    HOPELESS = "hopeless"  # waiting cannot help


class Failure(NamedTuple):
    """A request that failed: its kind, a sentence for a person, and what the server asked of us."""

    kind: Kind
    message: str = ""
    retry_after: float = 0.0  # seconds
    held: int = 0  # seconds for which that half of a multilock may be held that was read or written, the other not


# --- events


@dataclass(frozen=True, slots=True)
class TimerFired:
    """The instant that the state asked to be woken at has come."""


@dataclass(frozen=True, slots=True)
class GetDone:
    """The answer to a Get; None: there is no such object."""

    request: Get
    seen: Observed | None


@dataclass(frozen=True, slots=True)
class WriteDone:
    """The answer to a Write: the object as it now is."""

    request: Write
    seen: Observed


@dataclass(frozen=True, slots=True)
class RequestFailed:
    """A Get or a Write did not succeed."""

    request: Get | Write
    failure: Failure


@dataclass(frozen=True, slots=True)
class WatchEvent:
    """A watch event; None: the object was deleted. It only wakes: the conflict check of a write decides."""

    seen: Observed | None


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
class AllProcessesExited:
    """No process of this term is alive. With ``release`` give the lock up, if it may be ours; then end.

    ``to``: to this candidate, and to nobody else.
    """

    release: bool
    to: str = ""


@dataclass(frozen=True, slots=True)
class SupervisorUnresponsive:
    """The supervisor does not answer: a lock must not be kept for a command that nobody minds."""

    reason: str


@dataclass(frozen=True, slots=True)
class Restart:
    """Become a candidate once more, under a new incarnation. Nothing of the last one is alive; what it did is void.

    With ``release`` the term ended in good order: the lock is given up first, ``to`` as in AllProcessesExited.
    ``aside``: somebody wants another to lead, so for a lease duration nothing is done to do so again.
    """

    incarnation: str
    release: bool = False
    to: str = ""
    aside: bool = False


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
    """Watch the lock from after what was seen (None: from whatever is there now), instead of any watch before."""

    seen: Observed | None


@dataclass(frozen=True, slots=True)
class Unwatch:
    """End the watch; nothing of it is told any more."""


@dataclass(frozen=True, slots=True)
class Acquired:
    """The lock is held. ``token`` is the version of the write that acquired it. Without expiry the instants are inf."""

    stop_at: float
    kill_at: float
    token: str
    transitions: int
    acquired: int


@dataclass(frozen=True, slots=True)
class Renewed:
    """The lock was renewed."""

    stop_at: float
    kill_at: float


@dataclass(frozen=True, slots=True)
class Lost:
    """The lock is, or must be taken to be, no longer held; ``kill_now``: somebody else may lead already."""

    reason: str
    kill_now: bool


@dataclass(frozen=True, slots=True)
class StepDown:
    """The term is to end in good order: the command stopped as by TERM, then the lock released.

    ``asked``: by a person, who wants it released whatever the options say, and ``to`` this candidate if one is named.
    """

    reason: str
    asked: bool = False
    to: str = ""


@dataclass(frozen=True, slots=True)
class NewLeader:
    """Somebody else, or oneself, was seen to lead: client-go's OnNewLeader, but never told of an empty holder."""

    leader: str


@dataclass(frozen=True, slots=True)
class Report:
    """Something a person wants to know; told at most every so often while it stays the same. ``usual``: no warning."""

    event: str  # the name in the log, as kleader(7) lists it
    message: str
    usual: bool = False


@dataclass(frozen=True, slots=True)
class AcquireFailed:
    """Ends the candidacy without having led; ``status`` is the exit status."""

    reason: str
    status: int


@dataclass(frozen=True, slots=True)
class Released:
    """Nothing more to do; ``released`` tells whether the lock was given up, ``why`` not otherwise."""

    released: bool
    why: str = ""


Action = (
    Get | Write | Watch | Unwatch | Acquired | Renewed | Lost | StepDown | NewLeader | Report | AcquireFailed | Released
)
