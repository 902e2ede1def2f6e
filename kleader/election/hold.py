"""Holding the lock before the command may start: a process of an earlier holder may be alive.

A term like a leader's, with its renewals, deadline and incarnation (rule 5); nothing is started, and nothing released.
"""

from __future__ import annotations

from math import inf

from kleader.election import acquire, renew
from kleader.election import events as e
from kleader.election.events import Failure, Observed  # noqa: TC001 - as everywhere here
from kleader.election.lock_delay import raise_safe_at
from kleader.election.state import Phase, next_incarnation
from kleader.election.transition import Transition  # noqa: TC001 - as everywhere here


def proceed(turn: Transition) -> None:
    """Renew, as long as there is time; --wait goes on meanwhile."""
    state, now = turn.state, turn.now.boot
    if now >= state.stop_at:
        _end(turn)
    elif now >= state.give_up_at or state.me.one_try:
        acquire.give_up(turn)
    else:
        renew.renew(turn)


def wrote(turn: Transition, write: e.Write, observed: Observed) -> None:
    """Renewed: lead, if this was sent at ``safe_at`` or later."""
    renew.count(turn, observed)
    renew.begin_term(turn, write)


def failed(turn: Transition, request: e.Get | e.Write, failure: Failure) -> None:
    """As a leader's."""
    renew.failed(turn, request, failure)
    if acquire.is_permanent(failure):
        acquire.exit_failed(turn, failure.message)


def got(turn: Transition, observed: Observed | None) -> None:
    """A version that no answer of this candidate's own has shown may have been put back over another's (rule 5).

    Where the control plane prefers another candidate by now, this one stops renewing. So does one that is asked to
    resign, and stands aside.
    """
    state = turn.state
    if observed is None:
        renew.renew_from(turn, None)
    elif renew.is_mine(turn, observed) and renew.is_asked_to_end(turn, observed):
        _end(turn)
        turn.stand_aside()
        acquire.got(turn, observed)
    elif renew.is_mine(turn, observed) and not state.prefers_another(observed):
        if state.observed is None or observed.version != state.observed.version:
            raise_safe_at(turn)
        renew.renew_from(turn, observed)
    else:
        _end(turn)
        acquire.got(turn, observed)


def _end(turn: Transition) -> None:
    """End a term that started nothing: a new incarnation, and ``safe_at`` raised (rule 5)."""
    state = turn.state
    state.phase, state.pending, state.incarnation = Phase.FOLLOWING, None, next_incarnation(state.incarnation)
    state.t0 = -inf
    raise_safe_at(turn)
    state.stale, state.resync_at, state.acquire_at = 1, turn.now.boot, acquire.acquire_at(turn)
