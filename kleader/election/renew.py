"""Leading: client-go's renew, with its fast path, in a term that counts from before each request was sent."""

from __future__ import annotations

from kleader.election import events as e
from kleader.election.duration import text
from kleader.election.events import Failure, Kind, Observed
from kleader.election.lock_delay import note, raise_safe_at
from kleader.election.record import Record
from kleader.election.state import Phase
from kleader.election.transition import Transition  # noqa: TC001 - as everywhere here


def proceed(turn: Transition) -> None:
    """Renew, as long as there is time."""
    if turn.now.boot >= turn.state.stop_at:
        deadline = text(turn.state.me.timing.renew_deadline)
        lose(turn, f"not renewed within the renew deadline of {deadline}", kill_now=False)
    else:
        renew(turn)


def renew(turn: Transition) -> None:
    """Update what was last written; read it first only after a failure."""
    state, now = turn.state, turn.now.boot
    if state.pending or now < state.next_request_at:
        return
    if state.stale:
        turn.send(e.Get(state.serial, min(state.me.request_timeout, state.stop_at - now)))
    else:
        write(turn, min(state.me.request_timeout, state.stop_at - now))


def write(turn: Transition, timeout: float) -> None:
    """Over what was observed; where the object is gone, it is created: t0 moves only with the answer (rule 6)."""
    state, base = turn.state, turn.state.observed
    renewed = turn.fresh_time(base.record.renewed if base else max(state.renew_times or (), default=None))
    own = state.own_record
    record = Record(
        state.me.identity, state.me.timing.lease_duration, own.acquired or renewed, renewed, own.transitions
    )
    if state.renew_times is not None:
        state.renew_times |= {renewed}
    turn.send(e.Write(state.serial, timeout, base, record, state.incarnation))


def wrote(turn: Transition, _write: e.Write, observed: Observed) -> None:
    """Renewed."""
    count(turn, observed)
    turn.do(e.Renewed(turn.state.t0, turn.state.stop_at, turn.state.kill_at))


def count(turn: Transition, observed: Observed) -> None:
    """Let the term count from before the request whose answer this is."""
    state = turn.state
    state.t0, state.next_request_at = state.sent_at, state.sent_at + state.me.timing.retry_period
    state.observed, state.own_record, state.consecutive_failures = observed, observed.record, 0
    state.renew_times = frozenset({observed.record.renewed or 0})


def begin_term(turn: Transition, write: e.Write) -> None:
    """Lead, if no process of an earlier holder is alive (rule 4). Otherwise hold the lock, and renew it.

    A renewal that is sent at ``safe_at`` or later permits it to lead.

    A creation has no version to prove that the object was not there before, and deleted: it raises ``safe_at``.
    """
    state, now = turn.state, turn.now.boot
    if creates(write.base) and not state.proof:
        raise_safe_at(turn)
    if state.permitted:
        state.phase, own = Phase.LEADING, state.own_record
        token = state.observed.token if state.observed else ""
        turn.do(e.Acquired(state.t0, state.stop_at, state.kill_at, token, own.transitions, own.acquired or 0))
        turn.observe_leader(state.me.identity)
        return
    state.next_request_at = min(state.next_request_at, max(state.safe_at, now))
    if state.phase is not Phase.HOLDING:
        wait = text(round(max(0.0, state.safe_at - now), 1))
        what = f"acquired the lock; processes of an earlier holder may still run: the command starts in {wait}"
        turn.do(e.Report("waiting_for_previous_leader", what, usual=True))
    state.phase = Phase.HOLDING


def creates(base: Observed | None) -> bool:
    """Whether a write over it creates the object, or one object of a multilock."""
    return base is None or base.lacks_component


def failed(turn: Transition, request: e.Get | e.Write, failure: Failure) -> None:
    """It counts as not renewed, though it may have happened: read before the next write."""
    turn.pause(failure)
    if isinstance(request, e.Write) and (failure.kind is not Kind.THROTTLED or failure.half_done):
        turn.state.stale = 2 if failure.kind is Kind.CONFLICT else 1


def got(turn: Transition, observed: Observed | None) -> None:
    """After a renewal that failed: whether the term still holds the lock (rule 6)."""
    state = turn.state
    if observed is None:
        renew_from(turn, None)  # the leader is the first to recreate what was deleted
    elif observed.pristine and observed.record.holder == state.me.identity:
        _check_preference(turn, observed)
        renew_from(turn, observed)  # deleted, and created again by the control plane for this candidate
    elif is_mine(turn, observed):
        _check_preference(turn, observed)
        check_request(turn, observed)
        state.own_record = observed.record
        renew_from(turn, observed)
    else:
        note(state, observed)
        lose(turn, _why_lost(turn, observed), kill_now=True)


def renew_from(turn: Transition, observed: Observed | None) -> None:
    """Renew over what was read, unless it is the version that a conflict was about: that is read once more."""
    state, before, now = turn.state, turn.state.observed, turn.now.boot
    same = observed is not None and before is not None and observed.version == before.version
    state.observed, state.stale = observed, state.stale - 1 if same else 0
    if state.stale:
        state.next_request_at = max(state.next_request_at, now + state.me.timing.retry_period / 10)


def is_mine(turn: Transition, observed: Observed) -> bool:
    """Whether it shows a write of this very process: a clone of the machine has the same incarnation."""
    state = turn.state
    is_own_write = state.renew_times is None or observed.record.renewed in state.renew_times
    return state.held_by_me(observed) and is_own_write


def _why_lost(turn: Transition, observed: Observed) -> str:
    state, holder = turn.state, observed.record.holder
    if observed.fault:
        return f"the lock was overwritten: {observed.fault}"
    if state.held_by_me(observed):
        return "another process uses this identity and incarnation, as a clone of this machine would"
    if not holder:
        return "the lock was cleared, by hand or by kleader resign --force"
    if holder == state.me.identity:
        return "another candidate with the same --identity holds the lock: give each its own"
    return f"the lock is held by {holder[:256]}"


def _check_preference(turn: Transition, observed: Observed) -> None:
    """client-go's end of term (KEP-4355): another is preferred. Unlike there the lock is renewed until it is released.

    It is said each time that it is seen: a message may get lost. The supervisor acts on the first.
    """
    if turn.state.prefers_another(observed):
        turn.do(e.StepDown(f"the control plane prefers {observed.preferred[:256]} as the leader"))


def check_request(turn: Transition, observed: Observed) -> None:
    """End the term in good order if that is requested of this very one. It is said each time, as above."""
    if is_asked_to_end(turn, observed):
        to = observed.request.to if observed.request else ""
        what = f"hand the lock to {to[:256]}" if to else "resign"
        turn.do(e.StepDown(f"asked to {what}", asked=True, to=to))


def is_asked_to_end(turn: Transition, observed: Observed) -> bool:
    """Whether the end of this very term is requested. One to another term is ignored; the next write removes it."""
    state, request = turn.state, observed.request
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
    turn.do(e.Report("request_ignored", why))
    return False


def lose(turn: Transition, reason: str, *, kill_now: bool) -> None:
    """End the term. Nothing is released: the lock runs out, or is another candidate's."""
    turn.unwatch()
    turn.state.phase, turn.state.pending = Phase.LOST, None
    turn.do(e.Lost(reason, kill_now))
