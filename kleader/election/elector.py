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

from kleader.election import acquire, for_life, hold, look, release, renew
from kleader.election import events as e
from kleader.election.events import Action, Event, Failure, Instant, Kind, Observed
from kleader.election.state import Candidate, Phase, State, begin_candidacy
from kleader.election.transition import Transition

__all__ = ["Candidate", "Phase", "State", "step"]


class _Part(Protocol):
    """What acquire, renew and release are to a step: how each takes answers, and what it then does at this instant."""

    def got(self, turn: Transition, observed: Observed | None, /) -> None: ...
    def wrote(self, turn: Transition, write: e.Write, observed: Observed, /) -> None: ...
    def failed(self, turn: Transition, request: e.Get | e.Write, failure: Failure, /) -> None: ...
    def proceed(self, turn: Transition, /) -> None: ...


_PARTS: dict[Phase, _Part] = {
    Phase.FOLLOWING: acquire,
    Phase.HOLDING: hold,
    Phase.LEADING: renew,
    Phase.RELEASING: release,
}


def step(state: State, event: Event, now: Instant) -> tuple[State, tuple[Action, ...]]:
    """What follows from ``event`` at ``now``. Events that came too late to matter change nothing."""
    turn = Transition(state.copy(), now)
    match event:
        case e.GetDone() | e.WriteDone() | e.RequestFailed():
            _answered(turn, event)
        case e.WatchEvent(observed):
            (for_life if turn.state.me.non_expiring else acquire).saw(turn, observed)
        case e.WatchEnded():
            look.watch_ended(turn, event)
        case e.AllProcessesExited(wanted, to, record):
            release.close(turn, release=wanted or for_life.owes(turn.state), to=to, record=record)
        case e.SupervisorUnresponsive(reason):
            if turn.state.phase is Phase.LEADING:
                renew.lose(turn, reason, kill_now=turn.state.me.non_expiring)  # else its end comes by the deadline
        case e.Restart(incarnation):  # whatever went before: the supervisor may be the first to judge a term lost
            turn.unwatch()
            turn.state = begin_candidacy(turn.state, incarnation)
    phase = None
    while phase is not turn.state.phase and (part := _part(turn.state)):
        phase = turn.state.phase
        part.proceed(turn)
    return turn.state, tuple(turn.actions)


def _part(state: State) -> _Part | None:
    lasting = state.me.non_expiring and state.phase in {Phase.FOLLOWING, Phase.LEADING}
    return for_life if lasting else _PARTS.get(state.phase)


def _answered(turn: Transition, event: e.GetDone | e.WriteDone | e.RequestFailed) -> None:
    state, part = turn.state, _part(turn.state)
    if part is None or state.pending is None or state.pending.serial != event.request.serial:
        return
    unreachable_since, state.pending, state.last_error, state.unreachable_since = state.unreachable_since, None, "", inf
    match event:
        case e.GetDone(_, observed):
            part.got(turn, observed)
        case e.RequestFailed(e.Get(), Failure(Kind.MISSING)):
            part.got(turn, None)
        case e.WriteDone(write, observed) if _counts(state, write, observed):
            part.wrote(turn, write, observed)
        case e.WriteDone(write):
            message = "the API server's answer does not show what was written"
            _failed(turn, part, write, Failure(Kind.UNREACHABLE, message))
        case e.RequestFailed(request, failure):
            _failed(turn, part, request, failure)
    if turn.state.last_error:
        turn.state.unreachable_since = min(unreachable_since, state.sent_at)


def _counts(state: State, write: e.Write, observed: Observed) -> bool:
    """Whether an answer proves that the write happened, and that challengers' clocks moved."""
    moved = write.base is None or observed.version != write.base.version
    if state.me.non_expiring:
        shown = state.held_by_me(observed) if write.record.holder else not observed.record.holder
    else:
        shown = observed.record == write.record and observed.incarnation == write.incarnation and not observed.fault
    return shown and moved and bool(observed.version)


def _failed(turn: Transition, part: _Part, request: e.Get | e.Write, failure: Failure) -> None:
    if failure.kind not in (Kind.CONFLICT, Kind.MISSING):
        turn.state.last_error = failure.message
        turn.do(e.Report("lock_request_failed", failure.message))
    part.failed(turn, request, failure)
