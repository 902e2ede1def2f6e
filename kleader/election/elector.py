"""The election: acquire, renew and release as client-go's leaderelection has them, within the promise.

``step(state, event, now)`` returns the next state and what is to be done. It is pure: what happened, when, and a number
drawn for the occasion are its arguments, so that a run can be replayed from its events. At most one answer is waited
for; a watch goes on beside it, and only wakes.

Where this departs from client-go, on purpose:

- A term counts from before its request was sent; another's record from after it arrived. Two stamps, never one.
- "Mine" means identity and incarnation. The same identity under another incarnation is somebody else.
- A write counts only if its answer shows the very write. An acquiring write whose answer never came is followed by a
  fresh one before anything is started.
- An object that was seen and then vanished is not free: a lease duration is waited out before it is created anew, and
  another one after that, because a creation has no version to prove that nobody did so before.
- A leader that sees another holder has lost at once, without grace.
- A leader can be asked, on the lock itself, to end its term, and to name the next. It does so when its command is dead;
  who was named leads after a write of its own, like everybody.

A lock that does not expire (:mod:`kleader.election.for_life`) has acquire and renew of its own.
"""

from __future__ import annotations

from math import inf
from typing import Protocol

from kleader.election import acquire, for_life, look, release, renew
from kleader.election import events as e
from kleader.election.events import Action, Event, Failure, Instant, Kind, Observed
from kleader.election.state import Candidate, Phase, State, resume, resume_waiting
from kleader.election.transition import Transition

__all__ = ["Candidate", "Phase", "State", "resume", "resume_waiting", "step"]


class _Part(Protocol):
    """What acquire, renew and release are to a step: how each takes answers, and what it then does at this instant."""

    def got(self, turn: Transition, seen: Observed | None, /) -> None: ...
    def wrote(self, turn: Transition, write: e.Write, seen: Observed, /) -> None: ...
    def failed(self, turn: Transition, request: e.Get | e.Write, failure: Failure, /) -> None: ...
    def proceed(self, turn: Transition, /) -> None: ...


_PARTS: dict[Phase, _Part] = {Phase.FOLLOWING: acquire, Phase.LEADING: renew, Phase.RELEASING: release}


def step(state: State, event: Event, now: Instant) -> tuple[State, tuple[Action, ...]]:
    """What follows from ``event`` at ``now``. Events that came too late to matter change nothing."""
    turn = Transition(state.copy(), now)
    match event:
        case e.GetDone() | e.WriteDone() | e.RequestFailed():
            _answered(turn, event)
        case e.WatchEvent(seen):
            (for_life if turn.s.me.lasting else acquire).saw(turn, seen)
        case e.WatchEnded():
            look.watch_ended(turn, event)
        case e.AllProcessesExited(wanted, to):
            turn.s.again = ""  # no new candidacy follows the last one, if that is still being given up
            release.close(turn, release=wanted or for_life.owes(turn.s), to=to)
        case e.SupervisorUnresponsive(reason):
            if turn.s.phase is Phase.LEADING:
                renew.lose(turn, reason, kill_now=turn.s.me.lasting)  # else its end comes by the deadline
        case e.Restart():
            _again(turn, event)
    phase = None
    while phase is not turn.s.phase and (part := _part(turn.s)):  # a release may end in a new candidacy
        phase = turn.s.phase
        part.proceed(turn)
    return turn.s, tuple(turn.actions)


def _part(s: State) -> _Part | None:
    lasting = s.me.lasting and s.phase in {Phase.FOLLOWING, Phase.LEADING}
    return for_life if lasting else _PARTS.get(s.phase)


def _answered(turn: Transition, event: e.GetDone | e.WriteDone | e.RequestFailed) -> None:
    s, part = turn.s, _part(turn.s)
    if part is None or s.pending is None or s.pending.serial != event.request.serial:
        return
    mute_since, s.pending, s.trouble, s.mute_since = s.mute_since, None, "", inf
    match event:
        case e.GetDone(_, seen):
            part.got(turn, seen)
        case e.RequestFailed(e.Get(), Failure(Kind.MISSING)):
            part.got(turn, None)
        case e.WriteDone(write, seen) if _counts(s, write, seen):
            part.wrote(turn, write, seen)
        case e.WriteDone(write):
            message = "the API server's answer does not show what was written"
            _failed(turn, part, write, Failure(Kind.UNREACHABLE, message))
        case e.RequestFailed(request, failure):
            _failed(turn, part, request, failure)
    if turn.s.trouble:
        turn.s.mute_since = min(mute_since, s.sent_at)


def _counts(s: State, write: e.Write, seen: Observed) -> bool:
    """Whether an answer proves that the write happened, and that challengers' clocks moved."""
    moved = write.base is None or seen.version != write.base.version
    if s.me.lasting:
        shown = s.mine(seen) if write.record.holder else not seen.record.holder
    else:
        shown = seen.record == write.record and seen.incarnation == write.incarnation and not seen.fault
    return shown and moved and bool(seen.version)


def _failed(turn: Transition, part: _Part, request: e.Get | e.Write, failure: Failure) -> None:
    if failure.kind not in (Kind.CONFLICT, Kind.MISSING):
        turn.s.trouble = failure.message
        turn.do(e.Report("lock_request_failed", failure.message))
    part.failed(turn, request, failure)


def _again(turn: Transition, event: e.Restart) -> None:
    """Start anew, whatever went before: the supervisor may have been the first to judge the term lost."""
    if event.release and turn.s.phase is Phase.LEADING:
        turn.s.again, turn.s.aside = event.incarnation, event.aside
        release.close(turn, release=True, to=event.to)
    else:
        turn.unwatch()
        turn.begin_anew(event.incarnation, aside=event.aside)
