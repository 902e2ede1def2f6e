"""What an election remembers, and when it wants to be woken."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from enum import Enum
from math import inf
from operator import attrgetter

from kleader.election.events import AcquireFailed, Get, Observed, Write
from kleader.election.record import Record
from kleader.election.timing import FIRST_TRY, Timing

_NO_RECORD = Record()
EVERY_OBJECT = frozenset({0, 1})  # of a lock: the only one, or the primary; and the secondary of a multilock


class Phase(Enum):
    """Where a candidacy stands."""

    FOLLOWING = "following"  # another candidate holds the lock, or none does
    HOLDING = "holding"  # this candidate holds it, but processes of an earlier holder may be alive: nothing starts
    LEADING = "leading"
    LOST = "lost"  # the supervisor kills the command
    RELEASING = "releasing"
    OVER = "over"


@dataclass(frozen=True, slots=True)
class Candidate:
    """What does not change during a candidacy. Durations are in seconds."""

    identity: str
    timing: Timing
    request_timeout: float  # at most half the renew deadline
    wait_until: float = inf  # give up acquiring then (CLOCK_BOOTTIME)
    one_try: bool = False  # --no-wait
    live: bool = False  # --wait live: give up when the holder is seen to renew
    tick: int = 1  # microseconds: the resolution of the record's times
    rivals_expire: bool = False  # rivals may be older than client-go 0.27, and expire a record by their own duration
    coordinated: bool = False  # the control plane nominates the leader (KEP-4355)
    is_multilock: bool = False  # the lock is kept in two objects: a watch event shows a change of one
    non_expiring: bool = False


@dataclass(slots=True)
class State:
    """All that an election remembers. ``step`` never changes one that it was given: it returns the next.

    Instants are seconds on CLOCK_BOOTTIME; inf: never. The five that decide, in their order in a term:

    ============  =================================================================================================
    safe_at       Before it a process of an earlier holder may be alive. It never decreases (lock_delay).
    acquire_at    The candidate writes the lock, if nothing changes: at once over a proof, otherwise at ``safe_at``.
    t0            The last write that counted was sent: the term counts from here. While following, see below.
    stop_at       t0 + R: without a renewal until then the term ends, and the command is asked to stop.
    kill_at       t0 + D - K - S: no process of the command is alive that was not sent SIGKILL.
    ============  =================================================================================================
    """

    me: Candidate
    incarnation: str
    phase: Phase = Phase.FOLLOWING

    # the lock delay: kept from one candidacy to the next, and from one elector to the next
    safe_at: float = 0.0
    longest: int = 0  # seconds: the longest lease duration that was seen on this lock
    # the objects of the lock that this kleader has observed with a record, or written to. Such an object may be missing
    # or empty because it was deleted: it is not free. Each other one was never held, as far as this kleader knows
    ever_held: frozenset[int] = frozenset()

    # the lock
    observed: Observed | None = None  # the last observation; None: none yet, or there is no object
    observed_at: float = -inf  # when its record last changed; -inf: there was no observation
    # a write has failed: how many more reads must show this version before it is written over (rule 2). 0: it may be
    # written now. A newer version sets it to 0
    reads_before_write: int = 0
    after_release: bool = False  # coordinated: an unbroken watch has shown a release, then nominations only
    leader: str = ""  # of the last NewLeader
    lost_races: int = 0  # times in a row that another candidate acquired the lock
    shortest: int = 0  # seconds: the shortest lease duration of a rival that was warned of

    # when to do what
    resync_at: float = 0.0  # read the lock, if no watch event comes first
    acquire_at: float = inf
    next_request_at: float = 0.0  # no request before; the next renewal of a term
    release_by: float = inf  # no try to release after

    # the watch
    watch_began_at: float = inf  # inf: there is none
    watch_denied: bool = False  # poll
    watch_warned: bool = False  # of a watch that did not last
    polls: int = 0  # in a row, of a lock that does not expire

    # the request under way
    pending: Get | Write | None = None
    serial: int = 0
    sent_at: float = 0.0  # before it was sent
    consecutive_failures: int = 0
    last_error: str = ""  # of the last request; "" if it succeeded
    unreachable_since: float = inf  # when the first of the requests that failed in a row was sent

    # the term
    # The instant before the last write that counted was sent (`renew.count` sets it, from `sent_at`). -inf: there is no
    # term; inf: the term does not expire. While FOLLOWING no write has counted: then `acquire` keeps here when it sent
    # the write that has no answer yet, because that write may have acquired the lock, and `release` must know its age
    # before it releases a lock that may be this candidate's. `count` sets the same instant once the answer counts
    t0: float = -inf
    # What the acquiring write was sent over (`is_proof`) proves that every process of an earlier holder is dead: a
    # release, a handover to this candidate, or an object that is not in `ever_held`. So the command may start before
    # `safe_at`. It ends with the term
    proof: bool = False
    own_record: Record = _NO_RECORD  # the one that counted last
    renew_times: frozenset[int] | None = frozenset()  # of own_record and all records sent since; None: not known
    unanswered_release_base: Observed | None = None  # a release may have been written over it
    exit_reason: AcquireFailed | None = None
    successor: str = ""  # the candidate that the lock is handed over to; "": any
    keeps_lock: bool = False  # the last write is a renewal, which records the run

    @property
    def has_observed(self) -> bool:
        """Whether this candidacy has read the lock, or a watch event of it."""
        return self.observed_at > -inf

    @property
    def watching(self) -> bool:
        """Whether there is a watch."""
        return self.watch_began_at < inf

    @property
    def stop_at(self) -> float:
        """When the term ends unless it is renewed."""
        return self.me.timing.stop_at(self.t0)

    @property
    def kill_at(self) -> float:
        """When no process of the term's command is alive any more."""
        return self.me.timing.kill_at(self.t0)

    @property
    def may_start(self) -> bool:
        """Whether every process of an earlier holder is dead, so that the command may start (rule 4).

        That now is past ``safe_at`` is not enough: the lock must have been this candidate's then.
        """
        return self.proof or self.t0 >= self.safe_at

    @property
    def give_up_at(self) -> float:
        """When --wait ends. A first try, a read and a write, is made in any case, and has a second."""
        if self.serial == 0:
            return inf
        if (
            self.serial == 1
            and not self.last_error
            and (not self.has_observed or self.acquire_at <= self.sent_at + FIRST_TRY)
        ):
            return max(self.me.wait_until, self.sent_at + FIRST_TRY)
        unreachable_until = self.unreachable_since + self.me.timing.lease_duration if self.me.live else inf
        return min(self.me.wait_until, unreachable_until)

    @property
    def wake_at(self) -> float:  # noqa: PLR0911 - a table
        """When the next step is due even if nothing happens: after a step, always later than that step."""
        match self.phase, self.pending:
            case Phase.FOLLOWING, None:
                due = self.resync_at if self.reads_before_write else min(self.resync_at, self.acquire_at)
                return min(max(due, self.next_request_at), self.give_up_at)
            case Phase.FOLLOWING, Get():
                return self.give_up_at
            case Phase.HOLDING, pending:
                return min(self.stop_at, self.give_up_at, inf if pending else self.next_request_at)
            case Phase.LEADING, None:
                due = max(self.resync_at, self.next_request_at)
                return due if self.me.non_expiring else min(self.stop_at, self.next_request_at)
            case Phase.LEADING, _:
                return self.stop_at
            case Phase.RELEASING, None:
                return min(self.next_request_at, self.release_by)
        return inf

    def copy(self) -> State:
        """A copy that may be changed. Each step begins with one, so that it is made fast."""
        return State(*_all_of(self))

    def held_by_me(self, observed: Observed | None) -> bool:
        """Whether the lock shows this candidacy as its holder: the identity alone could be another process.

        The control plane leaves the incarnation as it is when it nominates a candidate, and removes the acquireTime; it
        may do so although this candidate finds plain election only. Of a multilock one object may be missing.
        """
        if observed is None:
            return False
        if self.me.non_expiring:
            return observed.owned_by_me and observed.incarnation == self.incarnation
        record = observed.record
        is_mine = (record.holder, observed.incarnation) == (self.me.identity, self.incarnation)
        return is_mine and record.acquired is not None

    def shows_me(self, observed: Observed) -> bool:
        """Whether the lock, or one object of a multilock, shows this candidacy as its holder."""
        return self.held_by_me(observed) or (
            self.me.is_multilock and any(map(self.is_component_mine, observed.components))
        )

    def is_component_mine(self, component: tuple[Record, str] | None) -> bool:
        """Whether this object of a multilock shows this candidacy: its record and incarnation; None: it is missing."""
        return component is not None and (component[0].holder, component[1]) == (self.me.identity, self.incarnation)

    def is_released(self, observed: Observed) -> bool:
        """Whether it is released, and all of it: an object of a multilock that was there and is missing may be held."""
        return observed.is_release and not (observed.objects_without_record & self.ever_held)

    def is_nominated(self, observed: Observed) -> bool:
        """Whether the control plane has nominated this candidate, which has not written the lock yet."""
        return self.me.coordinated and observed.is_nomination and observed.record.holder == self.me.identity

    def is_handed_to_me(self, observed: Observed) -> bool:
        """Whether the last leader, whose command was dead, has named this candidate as the next holder."""
        marked = observed.handed_over and not observed.incarnation and observed.record.holder == self.me.identity
        return marked and not (observed.some_object_lacks_record or self.me.coordinated or self.me.non_expiring)

    def is_proof(self, observed: Observed | None) -> bool:
        """Whether a write over it proves that no process of an earlier holder is alive."""
        if observed is None or observed.is_blank:
            return not self.ever_held
        return (
            self.is_released(observed)
            or self.is_handed_to_me(observed)
            or (self.is_nominated(observed) and self.after_release)
        )

    def prefers_another(self, observed: Observed) -> bool:
        """Whether the control plane wants another candidate to lead."""
        return observed.preferred not in {"", self.me.identity}


_all_of = attrgetter(*(each.name for each in fields(State)))


def begin_candidacy(state: State, incarnation: str) -> State:
    """The state of the next candidacy of a supervisor. --wait is of the first candidacy."""
    candidacy = State(replace(state.me, wait_until=inf, one_try=False, live=False), incarnation)
    candidacy.safe_at, candidacy.longest, candidacy.ever_held = state.safe_at, state.longest, EVERY_OBJECT
    candidacy.leader, candidacy.lost_races, candidacy.shortest = state.leader, state.lost_races, state.shortest
    candidacy.watch_denied, candidacy.serial = state.watch_denied, state.serial
    return candidacy


def longest(state: State) -> int:
    """Seconds: the longest lease duration that was seen on the lock, and the candidate's own."""
    return max(state.longest, state.me.timing.lease_duration)


def resume(me: Candidate, incarnation: str, t0: float, own_record: Record, *, longest: int = 0) -> State:
    """The state of an elector that replaces one that died in the middle of a term: it reads the lock, and renews.

    The previous elector must have been killed and reaped; what it sent may still arrive. ``t0`` is that of its last
    renewal that is known. ``longest``: seconds, as ``State.longest``.
    """
    return State(
        me,
        incarnation,
        Phase.LEADING,
        longest=longest,
        ever_held=EVERY_OBJECT,
        reads_before_write=1,
        t0=t0,
        own_record=own_record,
        renew_times=None,
    )


def resume_waiting(me: Candidate, incarnation: str, now: float, *, longest: int = 0) -> State:
    """The state of an elector that replaces one that died before its candidate led.

    The previous elector may have written the lock. ``safe_at`` is at least what the previous one's was.
    """
    state = State(me, incarnation, longest=longest, ever_held=EVERY_OBJECT)
    state.safe_at = now + max(longest, me.timing.lease_duration)
    state.t0 = now if me.non_expiring else -inf
    return state


def next_incarnation(incarnation: str) -> str:
    """The incarnation after this one in one candidacy: a term that started nothing has ended."""
    root, _, number = incarnation.partition(".")
    return f"{root}.{int(number or 0) + 1}"
