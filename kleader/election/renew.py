"""Leading: client-go's renew, with its fast path, in a term that counts from before each request was sent."""

from __future__ import annotations

from kleader.election import earlier
from kleader.election import events as e
from kleader.election.duration import text
from kleader.election.events import Failure, Kind, Observed
from kleader.election.record import Record
from kleader.election.state import Phase
from kleader.election.transition import Transition  # noqa: TC001 - as everywhere here


def proceed(turn: Transition) -> None:
    """Update what was last written; read it first only after a failure."""
    s, now = turn.s, turn.now.boot
    if now >= s.stop_at:
        lose(turn, f"not renewed within the renew deadline of {text(s.me.timing.renew_deadline)}", kill_now=False)
    elif s.pending or now < s.call_at:
        return
    elif s.seen:
        _write(turn, s.seen)
    else:
        turn.send(e.Get(s.serial, min(s.me.request_timeout, s.stop_at - now)))


def _write(turn: Transition, base: Observed | None) -> None:
    s = turn.s
    previous = base.record.renewed if base else max(s.sent or (), default=None)
    renewed = turn.fresh_time(previous)
    record = Record(s.me.identity, s.me.timing.lease_duration, s.acquired or renewed, renewed, s.transitions)
    if s.sent is not None:
        s.sent |= {renewed}
    timeout = min(s.me.request_timeout, s.stop_at - turn.now.boot)
    turn.send(e.Write(s.serial, timeout, base, record, s.incarnation))


def wrote(turn: Transition, _write: e.Write, seen: Observed) -> None:
    """Renewed."""
    count(turn, seen)
    turn.do(e.Renewed(turn.s.stop_at, turn.s.kill_at))


def count(turn: Transition, seen: Observed) -> None:
    """Let the term count from before the request whose answer this is."""
    s = turn.s
    s.t0, s.call_at, s.stumbles = s.sent_at, s.sent_at + s.me.timing.retry_period, 0
    s.seen, s.acquired, s.transitions = seen, seen.record.acquired or 0, seen.record.transitions
    s.sent = frozenset({seen.record.renewed or 0})


def failed(turn: Transition, request: e.Get | e.Write, failure: Failure) -> None:
    """It counts as not renewed, though it may have happened: read before writing again."""
    turn.pause(failure)
    earlier.mind_half(turn, request, failure)  # for a new candidacy
    if failure.kind is not Kind.THROTTLED:
        turn.s.seen = None


def got(turn: Transition, seen: Observed | None) -> None:
    """After a renewal that failed: whether the lock is still this term's."""
    s = turn.s
    if seen is None:
        if turn.now.boot < s.stop_at:
            _write(turn, None)  # the leader is the first to recreate what was deleted
    elif seen.untouched and seen.record.holder == s.me.identity:
        _mind_preference(turn, seen)
        if turn.now.boot < s.stop_at:
            _write(turn, seen)  # deleted, and created anew by the control plane, for us
    elif seen.fault:
        earlier.mind_holder(turn, None, seen)
        lose(turn, f"the lock was overwritten: {seen.fault}", kill_now=True)
    elif not s.mine(seen):
        earlier.mind_holder(turn, None, seen)  # a new candidacy may not see it any more
        lose(turn, f"the lock is held by {_whom(seen, s.me.identity)}", kill_now=True)
    elif s.sent is not None and seen.record.renewed not in s.sent:
        lose(turn, "somebody else writes under this very identity and incarnation", kill_now=True)
    else:
        s.seen, s.acquired, s.transitions = seen, seen.record.acquired or s.acquired, seen.record.transitions
        _mind_preference(turn, seen)
        mind_request(turn, seen)


def _mind_preference(turn: Transition, seen: Observed) -> None:
    """client-go's end of term (KEP-4355): another is preferred. Unlike there the lock is renewed until it is empty."""
    s = turn.s
    if seen.preferred not in {"", s.me.identity} and not s.yielding:
        s.yielding = True
        turn.do(e.StepDown(f"end of term: {seen.preferred[:256]} is to lead"))


def mind_request(turn: Transition, seen: Observed) -> None:
    """End the term in good order if that is asked of this very one. Told each time it is seen: a word may get lost.

    The supervisor acts on the first. A request for another term is nobody's; the next write removes it.
    """
    s, request = turn.s, seen.request
    if request is None:
        return
    if (request.holder, request.incarnation) != (seen.record.holder, s.incarnation):
        turn.do(e.Report("request_ignored", "a request on the lock is for another term than this: ignored"))
    elif request.to in {s.me.identity, seen.record.holder}:
        turn.do(e.Report("request_ignored", "a request to hand the lock to who has it: ignored"))
    elif request.to and (s.me.coordinated or s.me.lasting):
        whose = "the control plane names the next leader" if s.me.coordinated else "the lock is its Pod's"
        turn.do(
            e.Report(
                "request_ignored",
                f"a request to hand the lock to {request.to[:256]} cannot be met, as {whose}: ignored",
            )
        )
    else:
        what = f"hand the lock to {request.to[:256]}" if request.to else "resign"
        turn.do(e.StepDown(f"it was asked to {what}", asked=True, to=request.to))


def lose(turn: Transition, reason: str, *, kill_now: bool) -> None:
    """End the term. Nothing is released: the lock runs out, or is somebody else's."""
    turn.unwatch()
    turn.s.phase, turn.s.pending = Phase.LOST, None
    turn.do(e.Lost(reason, kill_now))


def _whom(seen: Observed, identity: str) -> str:
    if not seen.record.holder:
        return "nobody: it was cleared"
    if seen.record.holder == identity:
        return "another candidate under this same identity"
    return seen.record.holder[:256]
