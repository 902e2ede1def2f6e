"""Being named: in coordinated election (KEP-4355) the control plane names the leader, by its own wall clock.

It may do so while whoever led before still runs, so being named is only the right to write: a claim. A term begins when
nobody who held the lock before can run any more, as this candidate itself has seen it.
"""

from __future__ import annotations

from kleader.election import events as e
from kleader.election.duration import text
from kleader.election.events import Failure, Observed  # noqa: TC001 - as everywhere here
from kleader.election.turn import Turn  # noqa: TC001 - as everywhere here


def named(turn: Turn, seen: Observed) -> bool:
    """Whether the control plane has named this candidate: it does so without an acquireTime."""
    me, record = turn.s.me, seen.record
    return me.coordinated and record.holder == me.identity and record.acquired is None and not seen.fault


def anew(turn: Turn, seen: Observed) -> bool:
    """Whether it has named this candidate since the lock was last seen; each naming has a renewTime of its own."""
    before = turn.s.seen
    return named(turn, seen) and (before is None or before.record != seen.record)


def by_control_plane(turn: Turn, before: Observed, seen: Observed) -> bool:
    """Whether a change is its doing, and so no sign of life from the holder."""
    record = seen.record
    return turn.s.me.coordinated and (record == before.record or (bool(record.holder) and record.acquired is None))


def unwanted(turn: Turn, seen: Observed) -> bool:
    """Whether the lock is ours to have, but another is preferred by now: it is given back rather than led with."""
    return (turn.s.mine(seen) or named(turn, seen)) and seen.preferred not in {"", turn.s.me.identity}


def to_lead(turn: Turn, seen: Observed, *, told: bool) -> None:
    """Work out from when on a term may begin.

    Unless what was there before is known for certain, a whole lease duration from now. ``told``: by a watch, which
    leaves nothing out between what was seen last and this.
    """
    s, now, before = turn.s, turn.now.boot, turn.s.seen
    if s.known and before is None and not s.gone_wait and seen.untouched:
        ready = now  # it was missing, and nobody has written it since
    elif before is None:
        ready = now + max(s.gone_wait, s.me.timing.lease_duration)
    elif told and given_up(before):
        ready = now
    else:
        ready = s.held_until
    s.ready_at = max(s.ready_at, ready)
    if s.ready_at > now:
        wait = text(round(s.ready_at - now, 1))
        turn.do(e.Report(f"named to lead; who led before may still run: waiting {wait}", usual=True))


def mind_gap(turn: Turn, seen: Observed | None) -> None:
    """What is read leaves out what was there since the last look: who held the lock then may have renewed until now.

    So may one like this candidate that was not seen at all. Not where it was given up since: whoever does that has seen
    to it that all before are dead.
    """
    s, before = turn.s, turn.s.seen
    if seen and (given_up(seen) or seen.given or s.wholly_mine(seen)):
        return
    unseen = s.gone_wait
    if before and before.record.holder and not (s.mine(before) or named(turn, before)):
        unseen = max(longest(turn, before), s.me.timing.lease_duration)
    s.gone_wait, s.held_until = max(s.gone_wait, unseen), max(s.held_until, turn.now.boot + unseen)


def mind_half(turn: Turn, request: e.Get | e.Write, failure: Failure) -> None:
    """Likewise of the half of a multilock that was read, or written by oneself, when the other was not."""
    s = turn.s
    if failure.held:
        s.gone_wait = max(s.gone_wait, failure.held, s.me.timing.lease_duration)
        s.held_until = max(s.held_until, turn.now.boot + failure.held * isinstance(request, e.Get))


def mind_claim(turn: Turn, seen: Observed | None, *, told: bool) -> None:
    """One's own record where one has not just written it is a claim of long ago that hands have put over a leader."""
    s, now, before = turn.s, turn.now.boot, turn.s.seen
    if seen is None or not s.mine(seen):
        return
    if before and s.mine(before):
        restored = not told and not before.same_version(seen)  # or one's own whose answer was lost: nothing tells
    else:
        restored = not (s.doubt or isinstance(s.pending, e.Write))
    if restored:
        s.ready_at = max(s.ready_at, s.held_until if told else now + s.gone_wait)


def given_up(seen: Observed) -> bool:
    """Whether a holder has emptied it; a lock without a record was not given up by anybody."""
    return not (seen.record.holder or seen.record.unwritten or seen.fault or seen.gone)


def mind_holder(turn: Turn, before: Observed | None, seen: Observed, *, told: bool = False) -> None:
    """Remember until when somebody who was seen to hold the lock may run, and how long to wait when it is gone.

    A shorter record over one who may still run shortens neither. ``told`` as in `to_lead`.
    """
    s = turn.s
    _mind_holder(turn, before, seen, told=told)
    s.gone_wait = max(seen.record.duration, s.me.timing.lease_duration, s.held_until - turn.now.boot)


def _mind_holder(turn: Turn, before: Observed | None, seen: Observed, *, told: bool) -> None:
    """One who has been named may not run yet: it has to write first, client-go's candidates too."""
    s, record = turn.s, seen.record
    if named(turn, seen) or (before is not None and (before.record, before.beside) == (record, seen.beside)):
        return
    changed_hands = told and before is not None and before.record.holder != record.holder
    if changed_hands and record.holder and record.acquired is None and not seen.fault:
        return
    if given_up(seen):
        s.held_until = s.held_until if s.behind else 0.0  # whoever does that has seen to it that all before are dead
    elif not record.unwritten or seen.fault or seen.gone:
        s.held_until = max(s.held_until, turn.now.boot + longest(turn, seen))


def longest(turn: Turn, seen: Observed) -> float:
    """For how long from now on its holder may run, or, where that was only named, whoever led before."""
    duration = seen.record.duration
    return duration if seen.record.acquired is not None else max(duration, turn.s.me.timing.lease_duration)
