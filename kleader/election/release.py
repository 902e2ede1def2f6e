"""Ending: client-go's release, after nothing of the term is alive, and of one's own only."""

from __future__ import annotations

from math import inf

from kleader.election import earlier, renew
from kleader.election import events as e
from kleader.election.events import Failure, Kind, Observed
from kleader.election.record import Record
from kleader.election.state import Phase
from kleader.election.transition import Transition  # noqa: TC001 - as everywhere here

DURATION = 1  # seconds; client-go writes it because Lease validation rejects 0
_UNPROVEN = "whoever held it before may still run"


def close(turn: Transition, *, release: bool, to: str = "") -> None:
    """Nothing of ours runs. Give up what is, or may be, ours; not after a loss: it may be somebody else's.

    ``to``: whom a term is given to, and nobody else. What never was a term is given to nobody.
    """
    s, now = turn.s, turn.now.boot
    leading = s.phase is Phase.LEADING
    maybe_ours = s.doubt or isinstance(s.pending, e.Write) or (s.seen is not None and s.mine(s.seen))
    if not release:
        turn.over(released=False, why="asked not to")
    elif leading or (s.phase is Phase.FOLLOWING and maybe_ours):
        turn.unwatch()
        s.phase, s.call_at, s.stumbles = Phase.RELEASING, now, 0
        patience = s.me.request_timeout * (2 if s.pending else 1)  # what is under way may use up one of them
        s.release_by = min(now + patience, s.kill_at if leading else inf)
        s.led, s.to = leading, to if leading else ""
        s.seen = s.seen if s.seen and s.mine(s.seen) else None
        proceed(turn)
    elif s.phase is Phase.FOLLOWING:
        turn.over(released=False, why="the lock is not held")
    elif s.phase is Phase.LOST:
        turn.over(released=False, why="the term was lost")


def proceed(turn: Transition) -> None:
    """An empty holder, a duration of 1 s, the transitions kept, over exactly what was last seen to be ours."""
    s, now = turn.s, turn.now.boot
    if s.pending:
        return
    timeout = min(s.me.request_timeout, s.release_by - now)
    if timeout <= 0:
        turn.over(released=False, why=s.trouble or "the API server has not answered in time")
    elif now < s.call_at:
        return
    elif s.seen is None:
        turn.send(e.Get(s.serial, timeout))
    elif s.seen.torn or (not s.led and now < s.ready_at):
        turn.over(released=False, why=_UNPROVEN)  # an empty holder would say that all before are dead
    else:
        s.parted = True
        (_give if s.to else give_back)(turn, s.seen, timeout)


def _give(turn: Transition, seen: Observed, timeout: float) -> None:
    """Name the next holder, who has a lease duration to write that it is; never by way of an empty one.

    Without an incarnation, for nobody has that term yet. If it is not taken it runs out, for everybody.
    """
    s, renewed = turn.s, turn.fresh_time(seen.record.renewed)
    record = Record(s.to, s.me.timing.lease_duration, renewed, renewed, seen.record.next_transition)
    turn.send(e.Write(s.serial, timeout, seen, record, ""))


def give_back(turn: Transition, seen: Observed, timeout: float) -> None:
    """Empty the holder of what was seen to be ours. Everybody takes that to mean that all before are dead."""
    turn.s.claims = frozenset()  # whoever comes next has the right to lead at once
    renewed = turn.fresh_time(seen.record.renewed)
    record = Record("", DURATION, renewed, renewed, seen.record.transitions)
    turn.send(e.Write(turn.s.serial, timeout, seen, record, ""))


def wrote(turn: Transition, write: e.Write, seen: Observed) -> None:
    """Released; or the answer to what was under way when the end came."""
    if write.incarnation:
        _found(turn, seen)
    else:
        turn.over(released=True, why=_whose(turn))


def failed(turn: Transition, request: e.Get | e.Write, failure: Failure) -> None:
    """Whether a release was done is not known, nor who has led since: read before writing again."""
    maybe = failure.kind is Kind.UNREACHABLE or failure.held  # half of it, at least
    if maybe and isinstance(request, e.Write) and not request.incarnation:
        turn.s.left = request.base
    renew.failed(turn, request, failure)


def got(turn: Transition, seen: Observed | None) -> None:
    """Whether it is still ours to release. Not where it is there again: it was released, and another had it since."""
    s = turn.s
    if seen is None:
        turn.over(released=True, why="the lock object is gone")
    elif s.mine(seen) and s.left and not (s.left.same_version(seen) or s.me.lasting):
        turn.over(released=False, why=_UNPROVEN)
    elif s.mine(seen):
        _found(turn, seen)
    else:
        earlier.mind_holder(turn, None, seen)  # a new candidacy may not see it any more
        if (s.parted or s.to) and seen.record.holder == s.to and not seen.fault:
            turn.over(released=True, why=_whose(turn))  # by a write whose answer was lost, or a predecessor's
        else:
            turn.over(released=False, why="the lock is no longer ours")


def _whose(turn: Transition) -> str:
    return f"{turn.s.to[:256]} is to lead" if turn.s.to else ""


def _found(turn: Transition, seen: Observed) -> None:
    s = turn.s
    if not s.led:
        earlier.mind_claim(turn, seen)
        if not s.wholly_mine(s.seen):
            earlier.mind_creation(turn, seen)
    s.seen = seen
