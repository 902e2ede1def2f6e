"""Leading: client-go's renew, with its fast path, in a term that counts from before each request was sent."""

from __future__ import annotations

from kleader.election import events as e
from kleader.election.duration import text
from kleader.election.events import Failure, Kind, Observed
from kleader.election.lock_delay import note, raise_safe_at
from kleader.election.record import Record
from kleader.election.state import Phase
from kleader.election.step import Step  # noqa: TC001 - as everywhere here


def advance(step: Step) -> None:
    """Renew, as long as there is time."""
    if step.now.boot >= step.state.stop_at:
        deadline = text(step.state.me.timing.renew_deadline)
        lose(step, f"not renewed within the renew deadline of {deadline}", kill_now=False)
    else:
        renew(step)


def renew(step: Step) -> None:
    """Update what was last written; read it first only after a failure."""
    state, now = step.state, step.now.boot
    if state.pending or now < state.next_request_at:
        return
    if state.reads_before_write:
        step.send(e.Get(state.serial, min(state.me.request_timeout, state.stop_at - now)))
    else:
        write(step, min(state.me.request_timeout, state.stop_at - now))


def write(step: Step, timeout: float) -> None:
    """Over what was observed; where the object is gone, it is created: t0 moves only with the answer (rule 6)."""
    state, base = step.state, step.state.observed
    renewed = step.fresh_time(base.record.renewed if base else max(state.renew_times or (), default=None))
    own = state.own_record
    record = Record(
        state.me.identity, state.me.timing.lease_duration, own.acquired or renewed, renewed, own.transitions
    )
    if state.renew_times is not None:
        state.renew_times |= {renewed}
    step.send(e.Write(state.serial, timeout, base, record, state.incarnation))


def write_done(step: Step, _write: e.Write, observed: Observed) -> None:
    """Renewed."""
    count(step, observed)
    step.do(e.Renewed(step.state.t0, step.state.stop_at, step.state.kill_at))


def count(step: Step, observed: Observed) -> None:
    """Count the write whose answer this is: the term counts from before that write was sent."""
    state = step.state
    state.t0, state.next_request_at = state.sent_at, state.sent_at + state.me.timing.retry_period
    state.observed, state.own_record, state.consecutive_failures = observed, observed.record, 0
    state.renew_times = frozenset({observed.record.renewed or 0})


def begin_term(step: Step, write: e.Write) -> None:
    """Lead, if no process of an earlier holder is alive (rule 4). Otherwise hold the lock, and renew it.

    A renewal that is sent at ``safe_at`` or later permits it to lead.

    A creation has no version to prove that the object was not there before, and deleted: it raises ``safe_at``.
    """
    state, now = step.state, step.now.boot
    if creates(write.base) and not state.proof:
        raise_safe_at(step)
    if state.may_start:
        state.phase, own = Phase.LEADING, state.own_record
        token = state.observed.token if state.observed else ""
        step.do(e.Acquired(state.t0, state.stop_at, state.kill_at, token, own.transitions, own.acquired or 0))
        step.observe_leader(state.me.identity)
        return
    state.next_request_at = min(state.next_request_at, max(state.safe_at, now))
    if state.phase is not Phase.HOLDING:
        wait = text(round(max(0.0, state.safe_at - now), 1))
        what = f"acquired the lock; processes of an earlier holder may still run: the command starts in {wait}"
        step.do(e.Report("waiting_for_previous_leader", what, info=True))
    state.phase = Phase.HOLDING


def creates(base: Observed | None) -> bool:
    """Whether a write over ``base`` creates the object, or one object of a multilock."""
    return base is None or base.some_object_is_missing


def request_failed(step: Step, request: e.Get | e.Write, failure: Failure) -> None:
    """The renewal may have happened, but does not count: read before the next write."""
    step.pause(failure)
    if isinstance(request, e.Write) and (failure.kind is not Kind.THROTTLED or failure.partly_done):
        step.state.reads_before_write = 2 if failure.kind is Kind.CONFLICT else 1


def get_done(step: Step, observed: Observed | None) -> None:
    """After a renewal that failed: whether the term still holds the lock (rule 6)."""
    state = step.state
    if observed is None:
        renew_from(step, None)  # the leader is the first to recreate what was deleted
    elif observed.only_control_plane_wrote and observed.record.holder == state.me.identity:
        _check_preference(step, observed)
        renew_from(step, observed)  # deleted, and created again by the control plane for this candidate
    elif is_mine(step, observed):
        _check_preference(step, observed)
        check_request(step, observed)
        state.own_record = observed.record
        renew_from(step, observed)
    else:
        note(state, observed)
        lose(step, _why_lost(step, observed), kill_now=True)


def renew_from(step: Step, observed: Observed | None) -> None:
    """Renew over what was read, unless it is the version that a conflict was about: that is read once more."""
    state, before, now = step.state, step.state.observed, step.now.boot
    same = observed is not None and before is not None and observed.version == before.version
    state.observed, state.reads_before_write = observed, state.reads_before_write - 1 if same else 0
    if state.reads_before_write:
        state.next_request_at = max(state.next_request_at, now + state.me.timing.retry_period / 10)


def is_mine(step: Step, observed: Observed) -> bool:
    """Whether it shows a write of this process: a clone of the machine has the same incarnation."""
    state = step.state
    is_own_write = state.renew_times is None or observed.record.renewed in state.renew_times
    return state.held_by_me(observed) and is_own_write


def _why_lost(step: Step, observed: Observed) -> str:
    state, holder = step.state, observed.record.holder
    if observed.fault:
        return f"the lock was overwritten: {observed.fault}"
    if state.held_by_me(observed):
        return "another process uses this identity and incarnation, as a clone of this machine would"
    if not holder:
        return "the lock was cleared, by hand or by kleader resign --force"
    if holder == state.me.identity:
        return "another candidate with the same --identity holds the lock: give each its own"
    return f"the lock is held by {holder[:256]}"


def _check_preference(step: Step, observed: Observed) -> None:
    """client-go's end of term (KEP-4355): another is preferred. Unlike there the lock is renewed until it is released.

    Each read that shows it sends StepDown, for a message may be lost; the supervisor acts on the first.
    """
    if step.state.prefers_another(observed):
        step.do(e.StepDown(f"the control plane prefers {observed.preferred[:256]} as the leader"))


def check_request(step: Step, observed: Observed) -> None:
    """End the term in good order if a request on the lock asks this term to. Each read sends StepDown, as above."""
    if is_asked_to_end(step, observed):
        to = observed.request.to if observed.request else ""
        what = f"hand the lock to {to[:256]}" if to else "resign"
        step.do(e.StepDown(f"asked to {what}", asked=True, to=to))


def is_asked_to_end(step: Step, observed: Observed) -> bool:
    """Whether the end of this term is requested. A request to another term is ignored; the next write removes it."""
    state, request = step.state, observed.request
    if request is None:
        return False
    if (request.holder, request.incarnation) != (observed.record.holder, state.incarnation):
        why = "ignored a request on the lock: it is for another term"
    elif request.to in {state.me.identity, observed.record.holder}:
        why = "ignored a request to hand the lock to its holder"
    elif request.to and (state.me.coordinated or state.me.non_expiring):
        whose = "the control plane names the next leader" if state.me.coordinated else "the lock belongs to a Pod"
        why = f"ignored a request to hand the lock to {request.to[:256]}: {whose}"
    else:
        return True
    step.do(e.Report("request_ignored", why))
    return False


def lose(step: Step, reason: str, *, kill_now: bool) -> None:
    """End the term. Nothing is released: the lock runs out, or is another candidate's."""
    step.unwatch()
    step.state.phase, step.state.pending = Phase.LOST, None
    step.do(e.Lost(reason, kill_now))
