"""Following: client-go's tryAcquireOrRenew for a candidate that does not hold the lock, woken by a watch.

The numbers of the parts, from 1 (in ``contend``) to 4, are client-go's.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

from kleader.election import events as e
from kleader.election import release, renew, watch
from kleader.election.duration import text
from kleader.election.events import Failure, Kind, Observed
from kleader.election.lock_delay import observe
from kleader.election.record import SECOND, UNKNOWN, Record, display_name
from kleader.election.state import EVERY_OBJECT, Phase, State
from kleader.election.step import Step  # noqa: TC001 - as everywhere here
from kleader.exits import FAILED, NOT_ACQUIRED

if TYPE_CHECKING:
    from collections.abc import Callable

MIN_CONTENDED_RACES = 4  # races lost in a row, after which a candidate spreads its tries
SPREAD_SECONDS = 1.0  # in contention
NO_ANSWER = "the API server has not answered in the time given by --wait: check the network to it, or wait longer"


def advance(step: Step) -> None:
    """Give up, read, or acquire, whichever is due."""
    contend(step, _acquire, give_up)


def contend(step: Step, acquire: Callable[[Step], None], give_up: Callable[[Step], None]) -> None:
    """The same for every type of lock; ``acquire`` and ``give_up`` are those of the type."""
    state, now = step.state, step.now.boot
    out_of_time = now >= state.give_up_at
    if isinstance(state.pending, e.Get) and out_of_time:
        state.pending = None
    if state.pending:
        return
    tried = state.last_error or (
        state.has_observed and (state.reads_before_write or state.acquire_at > now + spread(step))
    )
    if out_of_time or (state.me.one_try and tried):
        give_up(step)
    elif now < state.next_request_at:
        return
    elif now >= state.resync_at:
        step.send(e.Get(state.serial, state.me.request_timeout))  # 1. obtain the record
    elif now >= state.acquire_at and not state.reads_before_write:
        acquire(step)


# --- 2. observe the record, and when it last changed


def get_done(step: Step, observed: Observed | None) -> None:
    """Observe what was read."""
    _observe(step, observed, from_watch=False)
    if step.state.phase is Phase.FOLLOWING:
        watch.follow(step)


def watch_event(step: Step, observed: Observed | None) -> None:
    """Observe a watch event. It wakes the candidate: the conflict check of a write decides.

    Ignored: the event of the candidate's own write, whose answer, or the next read, shows more; and a late event of the
    version that is being written over.
    """
    state = step.state
    if not watch.note_event(step):
        return
    if not (isinstance(state.pending, e.Write) and observed and _is_expected(state, observed)):
        _observe(step, observed, from_watch=True)


def _is_expected(state: State, observed: Observed) -> bool:
    """Whether an event shows what the write under way is sent over, or the write itself."""
    is_base = state.observed is not None and observed.version == state.observed.version
    return is_base or state.shows_me(observed)


def _observe(step: Step, observed: Observed | None, *, from_watch: bool) -> None:
    state, before = step.state, step.state.observed
    state.t0, state.proof = -inf, False  # what was written without an answer is seen here, or was overtaken
    changed = observe(step, observed, from_watch=from_watch)
    if changed or (observed and before and observed.preferred != before.preferred):
        state.acquire_at = acquire_at(step)
    if not changed or observed is None:
        return
    holder = observed.record.holder
    state.consecutive_failures = 0 if holder else state.consecutive_failures
    if holder and not _is_for_me(state, observed):
        state.lost_races += holder not in {state.leader, UNKNOWN}
        step.observe_leader(holder)
        _warn_of_duration(step, observed)
    if state.me.live and before and before.record.holder and _is_sign_of_life(step, before, observed):
        reason = f"held by {display_name(holder)[:256]}, which is alive: it has just renewed the lock"
        if not holder:
            reason = (
                f"{display_name(before.record.holder)[:256]} has just finished and released the lock; not running again"
            )
        exit_failed(step, reason, NOT_ACQUIRED)


def _is_sign_of_life(step: Step, before: Observed, observed: Observed) -> bool:
    """Whether the holder made the change: not the control plane, a manual edit, or this candidate."""
    state, record = step.state, observed.record
    if state.is_handed_to_me(observed) or state.held_by_me(observed):
        return False
    if state.me.coordinated and (record == before.record or observed.is_nomination):
        return False
    if not state.me.is_multilock:
        return not (record.is_blank or before.same_record(observed))
    pairs = zip(before.components, observed.components, strict=True)
    changed = [now for was, now in pairs if now != was]
    return any(each and not each[0].is_blank and not state.is_component_mine(each) for each in changed)


def _warn_of_duration(step: Step, observed: Observed) -> None:
    """Once for each shorter one: each renewal of the holder shows it again."""
    state, own, theirs = step.state, step.state.me.timing.lease_duration, observed.record.duration
    if state.me.rivals_expire and observed.record.holder != UNKNOWN and theirs < (state.shortest or own):
        state.shortest = theirs
        step.do(
            e.Report(
                "lease_duration_mismatch",
                f"{observed.record.holder[:256]} leads with a lease duration of {text(theirs)}, less than this"
                f" candidate's {text(own)}: a client-go before 0.27 would take the lock too early;"
                f" give --lease-duration {text(theirs)}",
            )
        )


# --- 3. when to write (rule 3)


def acquire_at(step: Step) -> float:
    """When to acquire: at once over a proof or a nomination; never over what cannot be read; else at ``safe_at``."""
    state, now, observed = step.state, step.now, step.state.observed
    later = now.jitter * spread(step)
    if observed and observed.fault:
        step.do(e.Report("lock_malformed", f"the lock counts as held: {observed.fault}"))
        return inf
    if observed and state.is_nominated(observed) and not state.prefers_another(observed):
        return now.boot
    if state.me.coordinated and (observed is None or observed.record.holder != state.me.identity):
        return inf  # the control plane nominates the next leader, and creates the object
    if state.is_proof(observed):
        return now.boot + (later if observed is None else _give_precedence(step, observed, later))
    if observed is None or observed.is_blank:
        what = "is gone" if observed is None else "was created again"
        wait = text(round(max(0.0, state.safe_at - now.boot), 1))
        step.do(
            e.Report(
                "waiting_for_previous_leader",
                f"the lock object {what}; its holder may still run: acquiring it in {wait}",
            )
        )
    return max(state.safe_at, now.boot) + later


def _give_precedence(step: Step, observed: Observed, later: float) -> float:
    """Seconds for which a released lock is left to the candidate that the last leader has recommended.

    None for a candidate that has observed no leader: the recommendation may be as old as the release. None for one
    whose --wait would end meanwhile, although the lock is free.
    """
    me, delayed = step.state.me, step.state.me.timing.retry_period + later
    if observed.recommended and step.state.leader and step.now.boot + delayed < me.wait_until:
        return 0.0 if observed.recommended == me.identity else delayed
    return later


def spread(step: Step) -> float:
    """Seconds over which a candidate spreads its tries: 0 until it has lost several races in a row.

    Winning a race ends that, so that among a few candidates one nearly always tries at once. Among a hundred the first
    tries after about 10 ms, and only candidates that try before its watch event arrives waste a request.
    """
    return 0.0 if step.state.lost_races < MIN_CONTENDED_RACES else SPREAD_SECONDS


# --- 4. update exactly what was observed, or create what was observed to be missing


def _acquire(step: Step) -> None:
    state, base = step.state, step.state.observed
    if base and state.prefers_another(base):  # at ``safe_at`` no process of an earlier holder is alive
        release.decline_nomination(step, base)
        return
    previous = base.record if base else Record()
    renewed = step.fresh_time(previous.renewed)
    acquired, transitions = step.wall, previous.next_transition if base else 0
    if base and (state.held_by_me(base) or state.is_handed_to_me(base)):  # that write has counted the transition
        acquired, transitions = previous.acquired or acquired, previous.transitions
    record = Record(state.me.identity, state.me.timing.lease_duration, acquired, renewed, transitions)
    # Before the answer: the write may acquire the lock although no answer comes (`State.t0`).
    state.proof, state.t0, state.ever_held = state.is_proof(base), step.now.boot, EVERY_OBJECT
    state.renew_times = frozenset({renewed})
    step.send(e.Write(state.serial, state.me.request_timeout, base, record, state.incarnation))


def write_done(step: Step, write: e.Write, observed: Observed) -> None:
    """The candidate holds the lock, unless it was overtaken since, or the answer is late: then it reads."""
    state = step.state
    if state.observed is not write.base or step.now.boot >= state.me.timing.stop_at(state.sent_at):
        state.reads_before_write, state.resync_at = 1, step.now.boot
        return
    if not write.record.holder:
        get_done(step, observed)
        return
    step.unwatch()
    state.lost_races = 0
    renew.count(step, observed)
    renew.begin_term(step, write)


def request_failed(step: Step, request: e.Get | e.Write, failure: Failure) -> None:
    """The lock was not acquired, as far as the candidate knows: try again, unless waiting cannot help."""
    step.pause(failure)
    if isinstance(request, e.Write):
        _write_failed(step, request, failure)
    if is_permanent(failure):
        exit_failed(step, failure.message)


def _write_failed(step: Step, write: e.Write, failure: Failure) -> None:
    """Another candidate was faster, or the outcome is not known: observe before the next write (rule 2)."""
    state, now = step.state, step.now.boot
    is_current = state.observed is write.base  # no watch event has shown a newer version meanwhile
    # Refused: nothing was written, so an object that was never held (`_acquire` counts it as held) still was not.
    if _is_refusal(failure) and state.proof and is_current:
        state.ever_held -= _objects_without_record(write.base)
    # Only a write without an answer, over the version that is still the last one observed, may hold the lock.
    if not is_current or failure.kind is not Kind.UNREACHABLE:
        state.t0, state.proof = -inf, False
    # A multilock: the watch may have shown what this write did to the primary, and that event was ignored.
    if state.me.is_multilock:
        step.unwatch()
        state.reads_before_write, state.resync_at = 1, now
    # A conflict: the watch is about to show the newer version; the lock is read only if it does not.
    elif is_current and failure.kind is Kind.CONFLICT:
        state.reads_before_write = 1 if state.me.non_expiring else 2
        state.resync_at = now + state.me.timing.retry_period if state.watching else now
    elif is_current and failure.kind in {Kind.UNREACHABLE, Kind.MISSING}:
        state.reads_before_write, state.resync_at = 1, now


def _objects_without_record(base: Observed | None) -> frozenset[int]:
    """The objects that a write over ``base`` gives their first record."""
    return EVERY_OBJECT if base is None or base.is_blank else base.objects_without_record


def _is_refusal(failure: Failure) -> bool:
    """Whether the API server has refused the write, and so has written nothing."""
    return failure.kind in {Kind.THROTTLED, Kind.DENIED, Kind.REFUSED} and not failure.partly_done


def is_permanent(failure: Failure) -> bool:
    """Whether waiting cannot help. A candidate that may write only one object of a multilock would delay the others."""
    denied = failure.kind in {Kind.DENIED, Kind.REFUSED}
    return failure.kind is Kind.PERMANENT or (denied and failure.partly_done)


# --- giving up


def exit_failed(step: Step, message: str, status: int = FAILED) -> None:
    """End the candidacy: it cannot work, or, with NOT_ACQUIRED, another candidate has the lock."""
    step.state.exit_reason = e.AcquireFailed(message, status)
    release.close(step, release=True)


def give_up(step: Step) -> None:
    """End the candidacy: --wait is over."""
    state = step.state
    if state.last_error or not state.has_observed:
        exit_failed(step, state.last_error or NO_ANSWER)
    elif state.observed and state.observed.fault:  # no holder will release it
        exit_failed(step, f"the lock counts as held: {state.observed.fault}")
    else:
        exit_failed(step, _why_not(step), NOT_ACQUIRED)


def _why_not(step: Step) -> str:
    state, observed = step.state, step.state.observed
    if state.me.coordinated and (observed is None or not observed.record.holder):
        return "the control plane has not named this candidate in time"
    if observed is None or not observed.record.holder or _is_for_me(state, observed):
        return "the lock could not be acquired in time"
    age = ""
    if observed.record.renewed is not None:
        age = f", last renewed {text(max(0, (step.now.wall - observed.record.renewed) // SECOND))} ago by its own clock"
    unchanged = text(round(step.now.boot - state.observed_at, 1))
    return (
        f"held by {display_name(observed.record.holder)[:256]}{age}, watched unchanged for {unchanged};"
        f" a --wait of more than {text(observed.record.duration)} acquires it from a dead holder"
    )


def _is_for_me(state: State, observed: Observed) -> bool:
    """Whether no other candidate is the holder: this one is, or was named as the next."""
    return state.held_by_me(observed) or state.is_handed_to_me(observed) or state.is_nominated(observed)
