"""What an election remembers, and when it wants to be woken."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from enum import Enum
from math import inf
from operator import attrgetter
from typing import TYPE_CHECKING

from kleader.election.events import AcquireFailed, Get, Observed, Write
from kleader.election.timing import FIRST_TRY, Timing

if TYPE_CHECKING:
    from kleader.election.record import Record


class Phase(Enum):
    """Where a candidacy stands."""

    FOLLOWING = "following"
    LEADING = "leading"
    LOST = "lost"  # the supervisor is emptying the tree
    RELEASING = "releasing"
    OVER = "over"


@dataclass(frozen=True, slots=True)
class Candidate:
    """What does not change during a candidacy."""

    identity: str
    timing: Timing
    request_timeout: float  # seconds; at most half the renew deadline
    wait_until: float = inf  # give up acquiring then (boot clock)
    one_try: bool = False  # --no-wait
    live: bool = False  # --wait live: give up on the first renewal seen
    tick: int = 1  # microseconds that the lock's records are kept to
    rivals_expire: bool = False  # rivals may be older than client-go 0.27, and expire a record by their own duration
    coordinated: bool = False  # the control plane names the leader (KEP-4355)
    twofold: bool = False  # the lock is kept in two objects: a watch tells of one at a time
    lasting: bool = False  # the lock does not expire


@dataclass(slots=True)
class State:
    """All that an election remembers; ``step`` never changes one that it was given, but returns the next.

    Instants are seconds on the boot clock; inf: never.
    """

    me: Candidate
    incarnation: str
    phase: Phase = Phase.FOLLOWING

    # the lock
    known: bool = False  # it has been read
    seen: Observed | None = None  # as last seen; None: not known, or known to be missing
    seen_at: float = 0.0  # when its record last changed
    spent: bool = False  # a conflict showed that what was seen is outdated
    gone_wait: float = 0.0  # how long a lock that was seen, and then is missing, is waited for; 0: it was never seen
    leader: str = ""  # whom Observe last told of
    losses: int = 0  # handovers to others since one to oneself
    shortest: int = 0  # the shortest lease duration of a rival that was warned of

    # when to do what
    read_at: float = 0.0  # read the lock, if no watch event comes first
    turn_at: float = inf  # take it, if nothing changes
    ready_at: float = 0.0  # no term begins before, though the lock is one's own: whoever had it may still run
    held_until: float = 0.0  # nobody who was seen to hold the lock runs after; no later than gone_wait from now
    call_at: float = 0.0  # no request before; a leader's next renewal
    release_by: float = inf  # no try to release after

    # the watch
    watching: bool = False
    watched_at: float = 0.0  # when it began
    denied: bool = False  # it is not allowed: poll
    behind: bool = False  # it may tell what was before the last look, so that no release that it tells is the last word
    told: bool = False  # a person knows that it does not last
    polls: int = 0  # in a row, of a lock that does not expire

    # the request under way
    pending: Get | Write | None = None
    serial: int = 0
    sent_at: float = 0.0  # before it was sent
    news: bool = False  # the watch has told something since
    stumbles: int = 0  # failures in a row
    trouble: str = ""  # why the last request failed
    mute_since: float = inf  # when the first of those that failed in a row was sent

    # the term
    t0: float = 0.0  # sent_at of the last write that counted; inf: the term does not expire
    sent: frozenset[int] | None = frozenset()  # renewTimes written since then, its own included; None: a predecessor's
    acquired: int = 0
    transitions: int = 0
    claims: frozenset[tuple[int, float]] = frozenset()  # renewTime and sent_at of each write that might begin a term
    renewed: int | None = None  # the latest of these renewTimes so far
    doubt: bool = False  # one of them without an answer may have happened
    led: bool = False  # what is released was a term, not a claim only
    parted: bool = False  # a release was sent
    left: Observed | None = None  # over what it was that was not answered
    yielding: bool = False  # the end of the term was asked for
    verdict: AcquireFailed | None = None
    to: str = ""  # who is to have what is given up; "": whoever takes it
    again: str = ""  # the incarnation under which to contend once more, when the lock has been given up
    aside: bool = False  # and not at once

    @property
    def stop_at(self) -> float:
        """When the term is given up unless it is renewed."""
        return self.me.timing.stop_at(self.t0)

    @property
    def kill_at(self) -> float:
        """When the term's command is dead at the latest."""
        return self.me.timing.kill_at(self.t0)

    @property
    def give_up_at(self) -> float:
        """When patience ends. A first try, a read and a write, is made in any case, and has a second."""
        if self.serial == 0:
            return inf
        if self.serial == 1 and not self.trouble and (not self.known or self.turn_at <= self.sent_at + FIRST_TRY):
            return max(self.me.wait_until, self.sent_at + FIRST_TRY)
        mute = self.mute_since + self.me.timing.lease_duration if self.me.live else inf
        return min(self.me.wait_until, mute)

    @property
    def wake_at(self) -> float:
        """When the next step is due even if nothing happens: after a step, always later than that step."""
        match self.phase, self.pending:
            case Phase.FOLLOWING, None:
                due = self.read_at if self.spent else min(self.read_at, self.turn_at)
                return min(max(due, self.call_at), self.give_up_at)
            case Phase.FOLLOWING, Get():
                return self.give_up_at
            case Phase.LEADING, None:
                return max(self.read_at, self.call_at) if self.me.lasting else min(self.stop_at, self.call_at)
            case Phase.LEADING, _:
                return self.stop_at
            case Phase.RELEASING, None:
                return min(self.call_at, self.release_by)
        return inf

    def copy(self) -> State:
        """One that may be changed while this one stays: each step begins with it, so it is made without ceremony."""
        return State(*_all_of(self))

    def mine(self, seen: Observed) -> bool:
        """Whether the lock shows this very candidacy as its holder: the identity alone could be another process.

        The control plane leaves the annotation as it finds it when it names somebody, and takes the acquireTime away,
        which each write of ours has; it may do so although this candidate finds plain election only.
        """
        named = not self.me.lasting and seen.record.acquired is None
        held = seen.ours if self.me.lasting else seen.record.holder == self.me.identity
        return held and seen.incarnation == self.incarnation and not named

    def wholly_mine(self, seen: Observed | None) -> bool:
        """Likewise, of a multilock in both of its objects."""
        return seen is not None and self.mine(seen) and not seen.torn

    def has(self, half: tuple[Record, str] | None) -> bool:
        """Whether half a multilock shows this very candidacy."""
        return half is not None and (half[0].holder, half[1]) == (self.me.identity, self.incarnation)

    def named(self, seen: Observed) -> bool:
        """Whether the control plane has named this candidate: it does so without an acquireTime."""
        me, record = self.me, seen.record
        return me.coordinated and record.holder == me.identity and record.acquired is None and not seen.fault

    def lately(self, now: float) -> frozenset[tuple[int, float]]:
        """The claims by which a term could still last."""
        return frozenset(each for each in self.claims if now < self.me.timing.kill_at(each[1]))

    def given(self, seen: Observed) -> bool:
        """Whether the last leader has named this candidate as the next: the right to write, like an empty holder."""
        named = seen.given and seen.record.holder == self.me.identity and not seen.incarnation
        return named and not (seen.torn or self.me.coordinated or self.me.lasting)


_all_of = attrgetter(*(each.name for each in fields(State)))


def anew(s: State, incarnation: str, call_at: float = 0.0) -> State:
    """The state of a new candidacy. Gone is not free to it either; patience was of the first candidacy."""
    return State(
        replace(s.me, wait_until=inf, one_try=False, live=False),
        incarnation,
        gone_wait=max(s.gone_wait, s.me.timing.lease_duration),
        leader=s.leader,
        losses=s.losses,
        shortest=s.shortest,
        denied=s.denied,
        serial=s.serial,
        call_at=call_at,
    )


def resume(me: Candidate, incarnation: str, t0: float, *, acquired: int, transitions: int) -> State:
    """The state of an elector that replaces one that died in the middle of a term: read the lock, then renew at once.

    The predecessor must have been killed and reaped; what it sent may still arrive. ``t0`` is that of its last renewal
    that is known.
    """
    return State(
        me,
        incarnation,
        phase=Phase.LEADING,
        gone_wait=me.timing.lease_duration,
        t0=t0,
        sent=None,
        acquired=acquired,
        transitions=transitions,
    )


def resume_waiting(me: Candidate, incarnation: str, *, held: float = 0.0) -> State:
    """The state of an elector that replaces one that died while waiting.

    Its predecessor may have seen the lock held, for ``held`` seconds from now on, so a missing one is not free; and
    may have written to it, over whomever.
    """
    return State(me, incarnation, gone_wait=max(held, me.timing.lease_duration), doubt=True)
