"""The election: acquire, renew and release as client-go's leaderelection has them, within the promise.

``step(state, event, now)`` returns the next state and what is to be done. It is pure: what happened, when, and a number
drawn for the occasion are its arguments, so that a run can be replayed from its events. At most one answer is waited
for; a watch goes on beside it, and only wakes.

Where this departs from client-go, on purpose:

- A term counts from before its request was sent; another candidate's record from after it arrived. Two stamps, never
  one.
- "Held by me" means identity and incarnation. The same identity under another incarnation is another candidate.
- A write counts only if its answer shows it. An acquiring write without an answer is observed like any other record.
- A candidate may hold the lock before its command may start (HOLDING): until no process of an earlier holder can be
  alive (:mod:`kleader.election.lock_delay`). So an object that was observed and then vanished is not free.
- A leader that observes another holder has lost at once, without grace.
- A leader can be asked, on the lock itself, to end its term, and to name the next. It does so when its command is dead;
  the successor leads after a write of its own, like every candidate.

A lock that does not expire (:mod:`kleader.election.for_life`) has acquire and renew of its own.
"""

from __future__ import annotations

from math import inf
from typing import Protocol

from kleader.election import acquire, for_life, hold, release, renew, watch
from kleader.election import events as e
from kleader.election.events import Action, Event, Failure, Instant, Kind, Observed
from kleader.election.state import Candidate, Phase, State, begin_candidacy
from kleader.election.step import Step

__all__ = ["Candidate", "Phase", "State", "step"]


class _Handler(Protocol):
    """What acquire, renew and release are to a step: how each takes answers, and what it then does at this instant."""

    def get_done(self, step: Step, observed: Observed | None, /) -> None: ...
    def write_done(self, step: Step, write: e.Write, observed: Observed, /) -> None: ...
    def request_failed(self, step: Step, request: e.Get | e.Write, failure: Failure, /) -> None: ...
    def advance(self, step: Step, /) -> None: ...


_HANDLERS: dict[Phase, _Handler] = {
    Phase.FOLLOWING: acquire,
    Phase.HOLDING: hold,
    Phase.LEADING: renew,
    Phase.RELEASING: release,
}


def step(state: State, event: Event, now: Instant) -> tuple[State, tuple[Action, ...]]:
    """What follows from ``event`` at ``now``. Events that came too late to matter change nothing."""
    step = Step(state.copy(), now)
    match event:
        case e.GetDone() | e.WriteDone() | e.RequestFailed():
            _answered(step, event)
        case e.WatchEvent(observed):
            (for_life if step.state.me.non_expiring else acquire).watch_event(step, observed)
        case e.WatchEnded():
            watch.watch_ended(step, event)
        case e.AllProcessesExited(wanted, to, record):
            release.close(step, release=wanted or for_life.releases_unasked(step.state), to=to, record=record)
        case e.SupervisorUnresponsive(reason):
            if step.state.phase is Phase.LEADING:
                renew.lose(step, reason, kill_now=step.state.me.non_expiring)  # else its end comes by the deadline
        case e.Restart(incarnation):  # whatever went before: the supervisor may be the first to judge a term lost
            step.unwatch()
            step.state = begin_candidacy(step.state, incarnation)
    phase = None
    while phase is not step.state.phase and (handler := _handler_of(step.state)):
        phase = step.state.phase
        handler.advance(step)
    return step.state, tuple(step.actions)


def _handler_of(state: State) -> _Handler | None:
    lasting = state.me.non_expiring and state.phase in {Phase.FOLLOWING, Phase.LEADING}
    return for_life if lasting else _HANDLERS.get(state.phase)


def _answered(step: Step, event: e.GetDone | e.WriteDone | e.RequestFailed) -> None:
    state, handler = step.state, _handler_of(step.state)
    if handler is None or state.pending is None or state.pending.serial != event.request.serial:
        return
    unreachable_since, state.pending, state.last_error, state.unreachable_since = state.unreachable_since, None, "", inf
    match event:
        case e.GetDone(_, observed):
            handler.get_done(step, observed)
        case e.RequestFailed(e.Get(), Failure(Kind.MISSING)):
            handler.get_done(step, None)
        case e.WriteDone(write, observed) if _counts(state, write, observed):
            handler.write_done(step, write, observed)
        case e.WriteDone(write):
            message = "the API server's answer does not show what was written"
            _failed(step, handler, write, Failure(Kind.UNREACHABLE, message))
        case e.RequestFailed(request, failure):
            _failed(step, handler, request, failure)
    if step.state.last_error:
        step.state.unreachable_since = min(unreachable_since, state.sent_at)


def _counts(state: State, write: e.Write, observed: Observed) -> bool:
    """Whether an answer proves that the write happened, and that challengers' clocks moved."""
    moved = write.base is None or observed.version != write.base.version
    if state.me.non_expiring:
        shown = state.held_by_me(observed) if write.record.holder else not observed.record.holder
    else:
        shown = observed.record == write.record and observed.incarnation == write.incarnation and not observed.fault
    return shown and moved and bool(observed.version)


def _failed(step: Step, handler: _Handler, request: e.Get | e.Write, failure: Failure) -> None:
    if failure.kind not in (Kind.CONFLICT, Kind.MISSING):
        step.state.last_error = failure.message
        step.do(e.Report("lock_request_failed", failure.message))
    handler.request_failed(step, request, failure)
