"""Being named: in coordinated election (KEP-4355) the control plane names the leader, by its own wall clock.

It may do so while whoever led before still runs, so being named is only the right to write: a claim. A term begins when
nobody who held the lock before can run any more, as this candidate itself has seen it.
"""

from __future__ import annotations

from kleader.election import events as e
from kleader.election.duration import text
from kleader.election.events import Observed  # noqa: TC001 - as everywhere here
from kleader.election.transition import Transition  # noqa: TC001 - as everywhere here


def anew(turn: Transition, seen: Observed, *, unseen: bool) -> bool:
    """Whether it may have named this candidate since the lock was last seen; each naming has a renewTime of its own.

    ``unseen``: more may have happened in between, also that an earlier naming was put back.
    """
    s, before = turn.s, turn.s.seen
    return s.named(seen) and (unseen or before is None or before.record != seen.record)


def by_control_plane(turn: Transition, before: Observed, seen: Observed) -> bool:
    """Whether a change is its doing, and so no sign of life from the holder."""
    record = seen.record
    return turn.s.me.coordinated and (record == before.record or (bool(record.holder) and record.acquired is None))


def unwanted(turn: Transition, seen: Observed) -> bool:
    """Whether the lock is ours to have, but another is preferred by now: it is given back rather than led with."""
    s = turn.s
    return (s.mine(seen) or s.named(seen)) and seen.preferred not in {"", s.me.identity}


def to_lead(turn: Transition, seen: Observed, *, told: bool) -> None:
    """Work out from when on a term may begin.

    Unless what was there before is known for certain, a whole lease duration from now. ``told``: by a watch, which
    leaves nothing out between what was seen last and this.
    """
    s, now, before = turn.s, turn.now.boot, turn.s.seen
    if told and s.known and before is None and not s.gone_wait and seen.untouched:
        ready = (
            now  # it was missing, and the watch saw nobody write it: in a gap another may have led, and been deleted
        )
    elif before is None:
        ready = now + max(s.gone_wait, s.me.timing.lease_duration)
    elif told and before.given_up:
        ready = now
    else:
        ready = s.held_until
    s.ready_at = max(s.ready_at, ready)
    if s.ready_at > now:
        wait = text(round(s.ready_at - now, 1))
        turn.do(
            e.Report(
                "waiting_for_previous_leader",
                f"named to lead; who led before may still run: waiting {wait}",
                usual=True,
            )
        )
