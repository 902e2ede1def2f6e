"""Earlier leaders: until when they may still run, whatever the lock shows by now.

`State.held_until` and `State.gone_wait` say so, and `State.ready_at` where one's own record is no proof. They grow with
whoever is seen or may have been there unseen, and only who is known to have made sure that all before are dead ends it.
"""

from __future__ import annotations

from kleader.election import events as e
from kleader.election.duration import text
from kleader.election.events import Failure, Observed  # noqa: TC001 - as everywhere here
from kleader.election.transition import Transition  # noqa: TC001 - as everywhere here


def mind_holder(turn: Transition, before: Observed | None, seen: Observed, *, told: bool = False) -> None:
    """Remember until when somebody who was seen to hold the lock may run, and how long to wait when it is gone.

    A shorter record over one who may still run shortens neither. ``told`` by a watch, which leaves nothing out.
    """
    s = turn.s
    _mind_holder(turn, before, seen, told=told)
    s.gone_wait = max(seen.record.duration, s.me.timing.lease_duration, s.held_until - turn.now.boot)


def _mind_holder(turn: Transition, before: Observed | None, seen: Observed, *, told: bool) -> None:
    """One who has been named may not run yet: it has to write first, client-go's candidates too."""
    s, record = turn.s, seen.record
    if s.named(seen) or (before is not None and (before.record, before.beside) == (record, seen.beside)):
        return
    changed_hands = told and not s.me.twofold and before is not None and before.record.holder != record.holder
    if changed_hands and record.holder and record.acquired is None and not seen.fault:
        return
    if seen.given_up:
        all_dead(turn)
    elif not record.unwritten or seen.fault or seen.gone:
        s.held_until = max(s.held_until, turn.now.boot + longest(turn, seen))


def all_dead(turn: Transition) -> None:
    """Whoever empties the lock, or names the next, has made sure of that; told late, it says nothing of those since."""
    if not turn.s.behind:
        turn.s.held_until = 0.0


def mind_gap(turn: Transition, seen: Observed | None) -> None:
    """What is read leaves out what was there since the last look: who held the lock then may have renewed until now.

    So may one like this candidate that was not seen at all. Not where it was given up since: whoever does that has seen
    to it that all before are dead.
    """
    s, before = turn.s, turn.s.seen
    if seen and (seen.given_up or seen.given or s.wholly_mine(seen)):
        return
    unseen = s.gone_wait
    if before and before.record.holder and not (s.mine(before) or s.named(before)):
        unseen = max(longest(turn, before), s.me.timing.lease_duration, unseen if s.behind else 0.0)
    s.gone_wait, s.held_until = max(s.gone_wait, unseen), max(s.held_until, turn.now.boot + unseen)


def mind_half(turn: Transition, request: e.Get | e.Write, failure: Failure) -> None:
    """Likewise of the half of a multilock that was read, or written by oneself, when the other was not."""
    s = turn.s
    if failure.held:
        s.gone_wait = max(s.gone_wait, failure.held, s.me.timing.lease_duration)
        s.held_until = max(s.held_until, turn.now.boot + failure.held * isinstance(request, e.Get))


def mind_claim(turn: Transition, seen: Observed | None) -> None:
    """One's own record is no proof where nobody knows when it came: it may be there again, by hands, over a leader.

    It is one for as long as a term by that very write could last, if nobody else was seen to hold the lock since; and
    while it is the very version that was seen before.
    """
    s, now = turn.s, turn.now.boot
    if seen is None or not s.mine(seen):
        return
    if not _anew(turn, seen) <= {renewed for renewed, _ in s.lately(now)}:
        s.gone_wait = max(s.gone_wait, s.me.timing.lease_duration)  # one like this candidate may have had it unseen
        _distrust(turn)


def claims_left(turn: Transition, before: Observed | None, seen: Observed) -> frozenset[tuple[int, float]]:
    """None, where another has the lock; but a watch tells of one's own write to a multilock half by half."""
    s = turn.s
    if not (s.me.twofold and before and before.beside and seen.beside):
        return frozenset()
    return s.claims if all(s.has(half) for half in seen.changed_halves(before)) else frozenset()


def _anew(turn: Transition, seen: Observed) -> set[int | None]:
    """The renewTimes that are there since the lock was last seen to be one's own.

    Of both halves of a multilock: one may be what was just written, the other there again over a leader.
    """
    s = turn.s
    known = (s.seen.version, s.seen.second) if s.seen and s.mine(s.seen) else (None, None)
    parts = seen.beside if s.me.twofold and seen.beside else ((seen.record,),)
    versions = zip(parts, (seen.version, seen.second), known, strict=False)
    return {part[0].renewed for part, version, was in versions if part and version != was}


def mind_creation(turn: Transition, seen: Observed) -> None:
    """Of one's own that was found, an update shows by its version that nobody held it since it was seen to be free.

    A creation, which alone has no transitions, does not: the lock may have been there meanwhile, and its holder not
    have noticed the deletion yet.
    """
    if seen.created or not seen.record.transitions:
        _distrust(turn)


def _distrust(turn: Transition) -> None:
    s = turn.s
    if s.gone_wait and not s.me.lasting:
        told = text(round(s.gone_wait, 1))
        turn.do(
            e.Report(
                "waiting_for_previous_leader",
                f"the lock is ours; whoever held it before may still run: waiting {told}",
                usual=True,
            )
        )
        s.ready_at = max(s.ready_at, turn.now.boot + s.gone_wait)


def longest(turn: Transition, seen: Observed) -> float:
    """For how long from now on its holder may run, or, where that was only named, whoever led before."""
    duration = seen.record.duration
    return duration if seen.record.acquired is not None else max(duration, turn.s.me.timing.lease_duration)
