"""A lock without expiry (operator-lib's leader-for-life): it is its owner's until that is proven to be gone.

There are no deadlines and no renewals. A leader writes nothing, it looks on: it has lost at once, without grace, when
it sees the lock gone, or another's, or its own owner gone. What it cannot see changes nothing: it goes on leading.

"Gone is not free" here means that a lock which vanished is its last owner's still, until that is proven to be gone, or
has given it up in so many words. The lock tells (``Observed.dead``, an empty holder); here is decided.
"""

from __future__ import annotations

from math import inf

from kleader.election import acquire, look, release, renew
from kleader.election import events as e
from kleader.election.duration import text
from kleader.election.events import Failure, Kind, Observed
from kleader.election.record import Record
from kleader.election.state import Phase, State
from kleader.election.transition import Transition  # noqa: TC001 - as everywhere here
from kleader.exits import FAILED, NOT_ACQUIRED

_BEREFT = "what owns this candidate's locks is gone itself"


def proceed(turn: Transition) -> None:
    """Read, and before there is a term give up or take: what the instant calls for."""
    s, now = turn.s, turn.now.boot
    if s.phase is Phase.FOLLOWING:
        acquire.pursue(turn, _take, _why_not)
    elif not s.pending and now >= max(s.read_at, s.call_at):
        turn.send(e.Get(s.serial, s.me.request_timeout))


def got(turn: Transition, seen: Observed | None) -> None:
    """What was read; unless the watch has told something since, which is then followed further."""
    s = turn.s
    s.stumbles = 0 if s.phase is Phase.LEADING else s.stumbles
    if s.news:
        return
    _observe(turn, seen)
    if s.phase is Phase.FOLLOWING and seen and s.mine(seen):  # by a write whose answer was lost, or a predecessor's
        _lead(turn, seen)
    elif s.phase in {Phase.FOLLOWING, Phase.LEADING}:
        look.on(turn)


def saw(turn: Transition, seen: Observed | None) -> None:
    """A watch event. It ends a term at once, but begins none: the conflict check of a write, or a read, does."""
    s = turn.s
    if not look.told(turn):
        return
    if s.spent and seen and s.seen and seen.version == s.seen.version:
        s.read_at, s.news = turn.now.boot, False  # of the owner's Pod alone: a conflict has shown that it is outdated
    else:
        _observe(turn, seen)


def wrote(turn: Transition, _write: e.Write, seen: Observed) -> None:
    """The lock is ours. If the watch has told otherwise since, a read must show it first."""
    s = turn.s
    if s.news and not (s.seen and s.mine(s.seen)):
        s.doubt, s.read_at = True, turn.now.boot
    else:
        _lead(turn, seen)


def failed(turn: Transition, request: e.Get | e.Write, failure: Failure) -> None:
    """A leader looks again later, unless it was told that there is nothing to look for."""
    if turn.s.phase is Phase.FOLLOWING:
        acquire.failed(turn, request, failure)
    elif failure.kind is Kind.HOPELESS:
        renew.lose(turn, failure.message, kill_now=True)
    else:
        turn.pause(failure)


def owes(s: State) -> bool:
    """Whether what may be ours is given up although nobody asked: it would last, and there was no term."""
    return s.me.lasting and s.phase is Phase.FOLLOWING


def _observe(turn: Transition, seen: Observed | None) -> None:
    if turn.s.phase is Phase.LEADING:
        _keep(turn, seen)
    else:
        _follow(turn, seen)


# --- leading


def _lead(turn: Transition, seen: Observed) -> None:
    s = turn.s
    turn.unwatch()
    s.phase, s.losses, s.doubt, s.stumbles, s.polls = Phase.LEADING, 0, False, 0, 0
    s.seen, s.t0, s.turn_at, s.news, s.acquired = seen, inf, inf, False, turn.wall
    turn.do(e.Acquired(s.stop_at, s.kill_at, seen.version, s.transitions, s.acquired))
    turn.observe_leader(s.me.identity)
    look.on(turn)
    renew.mind_request(turn, seen)  # nothing writes it away, and it is told of once


def _keep(turn: Transition, seen: Observed | None) -> None:
    """Whether the lock is still this term's. Whoever owns it instead may run already."""
    s = turn.s
    if seen is None:
        renew.lose(turn, "the lock object is gone", kill_now=True)
    elif not s.mine(seen):
        renew.lose(turn, f"the lock is not this term's any more: {_whose(seen)}", kill_now=True)
    elif seen.dead:
        renew.lose(turn, _BEREFT, kill_now=True)
    else:
        if seen.fault and not (s.seen and s.seen.fault == seen.fault):
            turn.do(e.Report("lock_request_failed", seen.fault))
        if not (s.seen and s.seen.request == seen.request):
            renew.mind_request(turn, seen)
        s.seen = seen


def _whose(seen: Observed) -> str:
    if seen.ours:
        return "another candidate beside this one has it"
    if seen.fault:
        return seen.fault
    return f"it is held by {seen.record.holder[:256]}" if seen.record.holder else "it was given up"


# --- following


def _follow(turn: Transition, seen: Observed | None) -> None:
    s, now = turn.s, turn.now.boot
    same = s.known and not s.spent and s.seen is None if seen is None else s.seen and s.seen.same_record(seen)
    s.known, s.spent, s.seen = True, False, seen
    if not same:
        s.seen_at = now
        s.turn_at = _turn_at(turn, seen)


def _turn_at(turn: Transition, seen: Observed | None) -> float:
    """When to take it: at once what is free or this owner's from before, else never until something changes."""
    s, now = turn.s, turn.now
    soon = now.boot + now.luck * acquire.spread(turn)
    if seen is None:
        return soon
    if s.mine(seen) and not seen.dead:
        s.read_at = now.boot
        return inf
    s.doubt = False
    if seen.ours and seen.dead:
        s.verdict = e.AcquireFailed(_BEREFT, FAILED)
        release.close(turn, release=True)
        return inf
    if seen.record.holder and not seen.ours:
        s.stumbles = 0
        s.losses += s.known and seen.record.holder != s.leader
        turn.observe_leader(seen.record.holder)
    if seen.fault:
        turn.do(e.Report("lock_malformed", f"the lock counts as held: {seen.fault}"))
        return inf
    if seen.ours:
        turn.do(
            e.Report("taking_over", "an earlier process had the lock here, and is dead: taking it over", usual=True)
        )
    if seen.ours or seen.dead or not seen.record.holder:
        return soon
    if s.me.live:
        s.verdict = e.AcquireFailed(f"held by {seen.record.holder[:256]}, which is there", NOT_ACQUIRED)
        release.close(turn, release=True)
    return inf


def _take(turn: Transition) -> None:
    s = turn.s
    turn.send(e.Write(s.serial, s.me.request_timeout, s.seen, Record(s.me.identity, acquired=turn.wall), s.incarnation))


def _why_not(turn: Transition) -> str:
    s, seen = turn.s, turn.s.seen
    if seen and seen.fault:  # perhaps of a process of this Pod, which ends
        return f"the lock counts as held: {seen.fault}"
    if seen is None or seen.ours or seen.dead or not seen.record.holder:
        return "the lock could not be taken in time"
    watched = text(round(turn.now.boot - s.seen_at, 1))
    return f"held by {seen.record.holder[:256]}, watched unchanged for {watched}; it has the lock until it is gone"
