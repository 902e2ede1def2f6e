"""Ending a term: client-go's release, over the candidate's own record, when no process of the term is alive."""

from __future__ import annotations

from math import inf

from kleader.election import events as e
from kleader.election import renew
from kleader.election.events import Failure, Kind, Observed
from kleader.election.lock_delay import note
from kleader.election.record import Record
from kleader.election.state import Phase, State
from kleader.election.step import Step  # noqa: TC001 - as everywhere here

DURATION = 1  # seconds; client-go writes it because Lease validation rejects 0
_UNPROVEN = "a process of an earlier holder may still run"
_KEPT = "asked not to"


def close(step: Step, *, release: bool, to: str = "", record: bool = False) -> None:
    """No process of this candidate's command is alive. Release what is, or may be, its own (rule 7).

    After a loss it may be another candidate's. ``to``: the candidate that a term is handed over to. ``record``: a
    leader's last write records the run, also one that does not release the lock.
    """
    state, now = step.state, step.now.boot
    leading = state.phase is Phase.LEADING
    if state.phase is Phase.RELEASING:
        return  # the end was reported before
    if not (release or (record and leading)):
        step.end(released=False, why=_KEPT)
    elif leading or (state.phase is Phase.FOLLOWING and _may_hold(state)):
        step.unwatch()
        state.reads_before_write = state.reads_before_write or int(not state.held_by_me(state.observed))
        state.phase, state.next_request_at, state.consecutive_failures = Phase.RELEASING, now, 0
        timeout = state.me.request_timeout * (2 if state.pending else 1)  # what is under way may use up one of them
        state.release_by = min(now + timeout, inf if state.me.non_expiring else state.kill_at)
        state.successor, state.keeps_lock = to if leading else "", not release
        if state.keeps_lock and isinstance(state.pending, e.Write):
            state.pending, state.reads_before_write = None, 1  # it does not record the run
        advance(step)
    elif state.phase is Phase.FOLLOWING:
        step.end(released=False, why="the lock is not held")
    elif state.phase is Phase.HOLDING:
        step.end(released=False, why=_UNPROVEN)
    elif state.phase is Phase.LOST:
        step.end(released=False, why="the term was lost")


def _may_hold(state: State) -> bool:
    """Whether an acquiring write has no answer, and its answer would have permitted the command to start."""
    if state.me.non_expiring:
        return state.t0 > -inf or state.held_by_me(state.observed)
    creates_again = renew.creates(state.observed) and not state.proof
    return state.t0 > -inf and state.may_start and not creates_again


def advance(step: Step) -> None:
    """Release, or hand over to the successor, over exactly what was last observed to be this candidate's own."""
    state, now = step.state, step.now.boot
    if state.pending:
        return
    timeout = min(state.me.request_timeout, state.release_by - now)
    if timeout <= 0:
        _fail(step, state.last_error or "the API server has not answered in time")
    elif now < state.next_request_at:
        return
    elif state.reads_before_write or state.observed is None:
        step.send(e.Get(state.serial, timeout))
    elif state.keeps_lock:
        renew.write(step, timeout)
    elif state.observed.some_object_lacks_record:
        step.end(released=False, why=_UNPROVEN)  # another candidate may have had the missing object
    else:
        (_hand_over if state.successor else _release)(step, state.observed, timeout)


def decline_nomination(step: Step, base: Observed) -> None:
    """Release a lock for which the control plane nominated this candidate, and now prefers another.

    At ``safe_at``, when this candidate could lead and start its command.
    """
    _release(step, base, step.state.me.request_timeout)


def _hand_over(step: Step, base: Observed, timeout: float) -> None:
    """Name the next holder, which has a lease duration to write the lock; never by way of an empty holder.

    Without an incarnation, for the next term has none yet. If the successor does not write, the lock runs out.
    """
    state, renewed = step.state, step.fresh_time(base.record.renewed)
    record = Record(state.successor, state.me.timing.lease_duration, renewed, renewed, base.record.next_transition)
    step.send(e.Write(state.serial, timeout, base, record, ""))


def _release(step: Step, base: Observed, timeout: float) -> None:
    renewed = step.fresh_time(base.record.renewed)
    record = Record("", DURATION, renewed, renewed, base.record.transitions)
    step.send(e.Write(step.state.serial, timeout, base, record, ""))


def write_done(step: Step, write: e.Write, observed: Observed) -> None:
    """Released, or renewed for the last time; or the answer to what was under way when the end came."""
    if step.state.keeps_lock:
        step.end(released=False, why=_KEPT)
    elif write.incarnation:
        step.state.observed, step.state.reads_before_write = observed, 0
    else:
        step.end(released=True, why=_successor(step))


def request_failed(step: Step, request: e.Get | e.Write, failure: Failure) -> None:
    """The release may have happened, and another candidate may have led since: read before the next write."""
    step.pause(failure)
    if isinstance(request, e.Get):
        return
    if failure.kind is not Kind.THROTTLED or failure.partly_done:
        step.state.reads_before_write = 1
    if not request.incarnation and (failure.kind is Kind.UNREACHABLE or failure.partly_done):
        step.state.unanswered_release_base = request.base


def get_done(step: Step, observed: Observed | None) -> None:
    """Whether the lock is still this candidate's to release.

    A release without an answer is repeated over the version that it was first sent over, and no other: under another
    version the candidate's own record may have been put back over the next leader's. Only a lock that does not expire
    is released under any version that shows this candidacy.
    """
    state, sent_over = step.state, step.state.unanswered_release_base
    if observed is None:
        step.end(released=True, why="the lock object is gone")
    elif sent_over and not state.me.non_expiring and observed.shares_version(sent_over):
        state.observed, state.reads_before_write = sent_over, 0
    elif _is_mine(step, observed) and (sent_over is None or state.me.non_expiring):
        state.observed, state.reads_before_write = observed, 0
    else:
        note(state, observed)
        done = (observed.record.holder == state.successor) and not (observed.fault or observed.some_object_lacks_record)
        may_have_sent = sent_over is not None or bool(state.successor) or state.renew_times is None
        if done and may_have_sent:  # renew_times: a previous elector, which has died, may have sent it
            step.end(released=True, why=_successor(step))
        else:
            _fail(step, _UNPROVEN if state.held_by_me(observed) else "the lock is no longer this candidate's")


def _fail(step: Step, why: str) -> None:
    """End the term without its last write."""
    if step.state.keeps_lock:
        step.do(e.Report("run_not_recorded", f"did not record the run: {why}"))
    step.end(released=False, why=why)


def _is_mine(step: Step, observed: Observed) -> bool:
    if step.state.me.non_expiring:
        return step.state.held_by_me(observed)
    return renew.is_mine(step, observed)


def _successor(step: Step) -> str:
    return f"{step.state.successor[:256]} leads next" if step.state.successor else ""
