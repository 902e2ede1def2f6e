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
from kleader.election.step import Step  # noqa: TC001 - as everywhere here


def advance(step: Step) -> None:
    """Renew, as long as there is time; --wait goes on meanwhile."""
    state, now = step.state, step.now.boot
    if now >= state.stop_at:
        _end(step)
    elif now >= state.give_up_at or state.me.one_try:
        acquire.give_up(step)
    else:
        renew.renew(step)


def write_done(step: Step, write: e.Write, observed: Observed) -> None:
    """Renewed: lead, if this was sent at ``safe_at`` or later."""
    renew.count(step, observed)
    renew.begin_term(step, write)


def request_failed(step: Step, request: e.Get | e.Write, failure: Failure) -> None:
    """As a leader's."""
    renew.request_failed(step, request, failure)
    if acquire.is_permanent(failure):
        acquire.exit_failed(step, failure.message)


def get_done(step: Step, observed: Observed | None) -> None:
    """A version that no answer of this candidate's own has shown may have been put back over another's (rule 5).

    Where the control plane prefers another candidate by now, this one stops renewing. So does one that is asked to
    resign, and stands aside.
    """
    state = step.state
    if observed is None:
        renew.renew_from(step, None)
    elif renew.is_mine(step, observed) and renew.is_asked_to_end(step, observed):
        _end(step)
        step.stand_aside()
        acquire.get_done(step, observed)
    elif renew.is_mine(step, observed) and not state.prefers_another(observed):
        if state.observed is None or observed.version != state.observed.version:
            raise_safe_at(step)
        renew.renew_from(step, observed)
    else:
        _end(step)
        acquire.get_done(step, observed)


def _end(step: Step) -> None:
    """End a term that started nothing: a new incarnation, and ``safe_at`` raised (rule 5).

    There is no proof to take back: with one the term would be LEADING.
    """
    state = step.state
    state.phase, state.pending, state.incarnation = Phase.FOLLOWING, None, next_incarnation(state.incarnation)
    state.t0 = -inf
    raise_safe_at(step)
    state.reads_before_write, state.resync_at, state.acquire_at = 1, step.now.boot, acquire.acquire_at(step)
