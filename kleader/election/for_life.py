"""A lock without expiry (operator-lib's leader-for-life): it is its owner's until that is proven to be gone.

There are no deadlines and no renewals. A leader writes nothing, it looks on: it has lost at once, without grace, when
it sees the lock gone, or another's, or its own owner gone. What it cannot see changes nothing: it goes on leading.

"Gone is not free" here means that a lock which vanished is its last owner's still, until that is proven to be gone, or
has given it up in so many words. The lock tells (``Observed.dead``, an empty holder); here is decided.
"""

from __future__ import annotations

from math import inf

from kleader.election import acquire, look, renew
from kleader.election import events as e
from kleader.election.duration import text
from kleader.election.events import Failure, Kind, Observed
from kleader.election.record import Record
from kleader.election.state import Phase, State
from kleader.election.transition import Transition  # noqa: TC001 - as everywhere here
from kleader.exits import NOT_ACQUIRED

_OWNER_GONE = "what owns this candidate's locks is gone itself"


def proceed(turn: Transition) -> None:
    """Read, and before there is a term give up or take: what the instant calls for."""
    state, now = turn.state, turn.now.boot
    if state.phase is Phase.FOLLOWING:
        acquire.contend(turn, _acquire, _give_up)
    elif not state.pending and now >= max(state.resync_at, state.next_request_at):
        turn.send(e.Get(state.serial, state.me.request_timeout))


def got(turn: Transition, observed: Observed | None) -> None:
    """What was read."""
    state = turn.state
    state.consecutive_failures = 0 if state.phase is Phase.LEADING else state.consecutive_failures
    _observe(turn, observed)
    if state.phase is Phase.FOLLOWING and observed and state.held_by_me(observed):  # by a write whose answer was lost
        _lead(turn, observed)
    elif state.phase in {Phase.FOLLOWING, Phase.LEADING}:
        look.follow(turn)


def saw(turn: Transition, observed: Observed | None) -> None:
    """A watch event. It ends a term at once, but begins none: the conflict check of a write, or a read, does."""
    state, pending = turn.state, turn.state.pending
    if not look.note_event(turn):
        return
    if state.stale and observed and state.observed and observed.version == state.observed.version:
        state.pending, state.resync_at = pending, turn.now.boot  # of the owner's Pod alone: a conflict says more
    else:
        _observe(turn, observed)


def wrote(turn: Transition, write: e.Write, observed: Observed) -> None:
    """The lock is held. If the watch has shown otherwise since, a read must show it first."""
    state = turn.state
    if state.observed is not write.base and not state.held_by_me(state.observed):
        state.t0, state.resync_at = state.sent_at, turn.now.boot
    else:
        _lead(turn, observed)


def failed(turn: Transition, request: e.Get | e.Write, failure: Failure) -> None:
    """A leader looks again later, unless it was told that there is nothing to look for."""
    if turn.state.phase is Phase.FOLLOWING:
        acquire.failed(turn, request, failure)
    elif failure.kind is Kind.HOPELESS:
        renew.lose(turn, failure.message, kill_now=True)
    else:
        turn.pause(failure)


def owes(state: State) -> bool:
    """Whether what may be ours is given up although nobody asked: it would last, and there was no term."""
    return state.me.non_expiring and state.phase is Phase.FOLLOWING


def _observe(turn: Transition, observed: Observed | None) -> None:
    if turn.state.phase is Phase.LEADING:
        turn.state.stale = 0
        _keep(turn, observed)
    else:
        _follow(turn, observed)


# --- leading


def _lead(turn: Transition, observed: Observed) -> None:
    state = turn.state
    turn.unwatch()
    state.phase, state.lost_races, state.consecutive_failures, state.polls = Phase.LEADING, 0, 0, 0
    state.observed, state.t0, state.acquire_at = observed, inf, inf
    turn.do(e.Acquired(state.t0, state.stop_at, state.kill_at, observed.version, 0, turn.wall))
    turn.observe_leader(state.me.identity)
    look.follow(turn)
    renew.check_request(turn, observed)  # nothing writes it away, and it is told of once


def _keep(turn: Transition, observed: Observed | None) -> None:
    """Whether the lock is still this term'state. Whoever owns it instead may run already."""
    state = turn.state
    if observed is None:
        renew.lose(turn, "the lock object is gone", kill_now=True)
    elif not state.held_by_me(observed):
        renew.lose(turn, f"the lock is not this term's any more: {_whose(observed)}", kill_now=True)
    elif observed.dead:
        renew.lose(turn, _OWNER_GONE, kill_now=True)
    else:
        if observed.fault and not (state.observed and state.observed.fault == observed.fault):
            turn.do(e.Report("lock_request_failed", observed.fault))
        if not (state.observed and state.observed.request == observed.request):
            renew.check_request(turn, observed)
        state.observed = observed


def _whose(observed: Observed) -> str:
    if observed.ours:
        return "another candidate beside this one has it"
    if observed.fault:
        return observed.fault
    return f"it is held by {observed.record.holder[:256]}" if observed.record.holder else "it was given up"


# --- following


def _follow(turn: Transition, observed: Observed | None) -> None:
    state, now = turn.state, turn.now.boot
    same = (
        state.known and not state.stale and state.observed is None
        if observed is None
        else state.observed and state.observed.same_record(observed)
    )
    state.stale, state.observed = 0, observed
    if not same:
        state.observed_at = now
        state.acquire_at = _acquire_at(turn, observed)


def _acquire_at(turn: Transition, observed: Observed | None) -> float:
    """When to take it: at once what is free or this owner's from before, else never until something changes."""
    state, now = turn.state, turn.now
    soon = now.boot + now.luck * acquire.spread(turn)
    if observed is None:
        return soon
    if state.held_by_me(observed) and not observed.dead:
        state.resync_at = now.boot
        return inf
    state.t0 = -inf
    if observed.ours and observed.dead:
        acquire.exit_failed(turn, _OWNER_GONE)
        return inf
    if observed.record.holder and not observed.ours:
        state.consecutive_failures = 0
        state.lost_races += state.known and observed.record.holder != state.leader
        turn.observe_leader(observed.record.holder)
    if observed.fault:
        turn.do(e.Report("lock_malformed", f"the lock counts as held: {observed.fault}"))
        return inf
    if observed.ours:
        turn.do(
            e.Report(
                "taking_over", "an earlier process of this Pod held the lock and is dead: taking it over", usual=True
            )
        )
    if observed.ours or observed.dead or not observed.record.holder:
        return soon
    if state.me.live:
        acquire.exit_failed(turn, f"held by {observed.record.holder[:256]}, which is there", NOT_ACQUIRED)
    return inf


def _acquire(turn: Transition) -> None:
    state = turn.state
    state.t0 = turn.now.boot
    turn.send(
        e.Write(
            state.serial,
            state.me.request_timeout,
            state.observed,
            Record(state.me.identity, acquired=turn.wall),
            state.incarnation,
        )
    )


def _give_up(turn: Transition) -> None:
    """End the candidacy: --wait is over."""
    state = turn.state
    if state.last_error or not state.known:
        acquire.exit_failed(turn, state.last_error or acquire.SILENT)
    else:
        acquire.exit_failed(turn, _why_not(turn), NOT_ACQUIRED)


def _why_not(turn: Transition) -> str:
    state, observed = turn.state, turn.state.observed
    if observed and observed.fault:  # perhaps of a process of this Pod, which ends
        return f"the lock counts as held: {observed.fault}"
    if observed is None or observed.ours or observed.dead or not observed.record.holder:
        return "the lock could not be taken in time"
    watched = text(round(turn.now.boot - state.observed_at, 1))
    return f"held by {observed.record.holder[:256]}, watched unchanged for {watched}; it has the lock until it is gone"
