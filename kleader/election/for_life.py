"""A lock without expiry (operator-lib's leader-for-life): it is its owner's until that is proven to be gone.

There are no deadlines and no renewals. A leader writes nothing and watches: it has lost at once, without grace, when
the lock is gone, or another candidate's, or its own owner is gone. While it cannot read the lock it goes on leading.

A lock that has vanished still belongs to its last owner, until that owner has released it (an empty holder) or is
proven to be gone (``Observed.owner_gone``).
"""

from __future__ import annotations

from math import inf

from kleader.election import acquire, renew, watch
from kleader.election import events as e
from kleader.election.duration import text
from kleader.election.events import Failure, Kind, Observed
from kleader.election.record import Record
from kleader.election.state import Phase, State
from kleader.election.step import Step  # noqa: TC001 - as everywhere here
from kleader.exits import NOT_ACQUIRED

_OWNER_GONE = "what owns this candidate's locks is gone itself"


def advance(step: Step) -> None:
    """Read, and before there is a term give up or acquire, whichever is due."""
    state, now = step.state, step.now.boot
    if state.phase is Phase.FOLLOWING:
        acquire.contend(step, _acquire, _give_up)
    elif not state.pending and now >= max(state.resync_at, state.next_request_at):
        step.send(e.Get(state.serial, state.me.request_timeout))


def get_done(step: Step, observed: Observed | None) -> None:
    """Observe what was read."""
    state = step.state
    state.consecutive_failures = 0 if state.phase is Phase.LEADING else state.consecutive_failures
    _observe(step, observed)
    if state.phase is Phase.FOLLOWING and observed and state.held_by_me(observed):  # by a write whose answer was lost
        _lead(step, observed)
    elif state.phase in {Phase.FOLLOWING, Phase.LEADING}:
        watch.follow(step)


def watch_event(step: Step, observed: Observed | None) -> None:
    """A watch event. It ends a term at once, but begins none: the conflict check of a write, or a read, does."""
    state, pending = step.state, step.state.pending
    if not watch.note_event(step):
        return
    if state.reads_before_write and observed and state.observed and observed.version == state.observed.version:
        state.pending, state.resync_at = pending, step.now.boot  # of the owner's Pod alone: a conflict says more
    else:
        _observe(step, observed)


def write_done(step: Step, write: e.Write, observed: Observed) -> None:
    """The lock is held. If the watch has shown otherwise since, a read must show it first."""
    state = step.state
    if state.observed is not write.base and not state.held_by_me(state.observed):
        state.t0, state.resync_at = state.sent_at, step.now.boot
    else:
        _lead(step, observed)


def request_failed(step: Step, request: e.Get | e.Write, failure: Failure) -> None:
    """A leader reads again later, unless waiting cannot help."""
    if step.state.phase is Phase.FOLLOWING:
        acquire.request_failed(step, request, failure)
    elif failure.kind is Kind.PERMANENT:
        renew.lose(step, failure.message, kill_now=True)
    else:
        step.pause(failure)


def releases_unasked(state: State) -> bool:
    """Whether a candidate that has not led releases the lock without being asked: it may hold it, and it would last."""
    return state.me.non_expiring and state.phase is Phase.FOLLOWING


def _observe(step: Step, observed: Observed | None) -> None:
    if step.state.phase is Phase.LEADING:
        step.state.reads_before_write = 0
        _keep(step, observed)
    else:
        _follow(step, observed)


# --- leading


def _lead(step: Step, observed: Observed) -> None:
    state = step.state
    step.unwatch()
    state.phase, state.lost_races, state.consecutive_failures, state.polls = Phase.LEADING, 0, 0, 0
    state.observed, state.t0, state.acquire_at = observed, inf, inf
    step.do(e.Acquired(state.t0, state.stop_at, state.kill_at, observed.version, 0, step.wall))
    step.observe_leader(state.me.identity)
    watch.follow(step)
    renew.check_request(step, observed)  # no write removes it, and it is reported once


def _keep(step: Step, observed: Observed | None) -> None:
    """Check whether the lock is still this term's. Another owner may run its command already."""
    state = step.state
    if observed is None:
        renew.lose(step, "the lock object is gone", kill_now=True)
    elif not state.held_by_me(observed):
        renew.lose(step, f"the lock is not this term's any more: {_whose(observed)}", kill_now=True)
    elif observed.owner_gone:
        renew.lose(step, _OWNER_GONE, kill_now=True)
    else:
        if observed.fault and not (state.observed and state.observed.fault == observed.fault):
            step.do(e.Report("lock_request_failed", observed.fault))
        if not (state.observed and state.observed.request == observed.request):
            renew.check_request(step, observed)
        state.observed = observed


def _whose(observed: Observed) -> str:
    if observed.owned_by_me:
        return "another candidate beside this one has it"
    if observed.fault:
        return observed.fault
    return f"it is held by {observed.record.holder[:256]}" if observed.record.holder else "it was given up"


# --- following


def _follow(step: Step, observed: Observed | None) -> None:
    state, now = step.state, step.now.boot
    same = (
        state.has_observed and not state.reads_before_write and state.observed is None
        if observed is None
        else state.observed and state.observed.same_record(observed)
    )
    state.reads_before_write, state.observed = 0, observed
    if not same:
        state.observed_at = now
        state.acquire_at = _acquire_at(step, observed)


def _acquire_at(step: Step, observed: Observed | None) -> float:
    """When to acquire it: at once if it is free or this owner's from before; else not until something changes."""
    state, now = step.state, step.now
    soon = now.boot + now.jitter * acquire.spread(step)
    if observed is None:
        return soon
    if state.held_by_me(observed) and not observed.owner_gone:
        state.resync_at = now.boot
        return inf
    state.t0 = -inf
    if observed.owned_by_me and observed.owner_gone:
        acquire.exit_failed(step, _OWNER_GONE)
        return inf
    if observed.record.holder and not observed.owned_by_me:
        state.consecutive_failures = 0
        state.lost_races += state.has_observed and observed.record.holder != state.leader
        step.observe_leader(observed.record.holder)
    if observed.fault:
        step.do(e.Report("lock_malformed", f"the lock counts as held: {observed.fault}"))
        return inf
    if observed.owned_by_me:
        step.do(
            e.Report(
                "taking_over", "an earlier process of this Pod held the lock and is dead: taking it over", info=True
            )
        )
    if observed.owned_by_me or observed.owner_gone or not observed.record.holder:
        return soon
    if state.me.live:
        acquire.exit_failed(step, f"held by {observed.record.holder[:256]}, which is there", NOT_ACQUIRED)
    return inf


def _acquire(step: Step) -> None:
    state = step.state
    state.t0 = step.now.boot
    step.send(
        e.Write(
            state.serial,
            state.me.request_timeout,
            state.observed,
            Record(state.me.identity, acquired=step.wall),
            state.incarnation,
        )
    )


def _give_up(step: Step) -> None:
    """End the candidacy: --wait is over."""
    state = step.state
    if state.last_error or not state.has_observed:
        acquire.exit_failed(step, state.last_error or acquire.NO_ANSWER)
    else:
        acquire.exit_failed(step, _why_not(step), NOT_ACQUIRED)


def _why_not(step: Step) -> str:
    state, observed = step.state, step.state.observed
    if observed and observed.fault:  # perhaps of a process of this Pod, which ends
        return f"the lock counts as held: {observed.fault}"
    if observed is None or observed.owned_by_me or observed.owner_gone or not observed.record.holder:
        return "the lock could not be taken in time"
    watched = text(round(step.now.boot - state.observed_at, 1))
    return f"held by {observed.record.holder[:256]}, watched unchanged for {watched}; it has the lock until it is gone"
