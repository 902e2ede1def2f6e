"""Following the lock: what was read is watched; where that is not allowed, or does not last, it is polled."""

from __future__ import annotations

from math import inf

from kleader.election import events as e
from kleader.election.state import Phase
from kleader.election.transition import Transition  # noqa: TC001 - as everywhere here

SILENCE = 300.0  # seconds after which the lock is read although its watch shows nothing: it may be dead


def follow(turn: Transition) -> None:
    """Watch from what was read; poll where that is not allowed, or while the lock is about to be acquired."""
    state, now = turn.state, turn.now.boot
    about_to_acquire = state.phase is Phase.FOLLOWING and (state.me.one_try or state.acquire_at <= now)
    if state.watch_denied or about_to_acquire or state.stale:
        state.resync_at = now + turn.poll_period()
    else:
        state.watch_began_at, state.resync_at = now, now + SILENCE
        turn.do(e.Watch(state.observed))


def note_event(turn: Transition) -> bool:
    """Take note of a watch event. False: it is of a watch that is over."""
    state = turn.state
    if state.watching:
        state.last_error, state.unreachable_since, state.resync_at = "", inf, turn.now.boot + SILENCE
        if isinstance(state.pending, e.Get):
            state.pending = None  # the watch has shown what was to be read
    return state.watching


def watch_ended(turn: Transition, event: e.WatchEnded) -> None:
    """A watch ends now and then: read, and watch again. One that did not last means polling before the next one.

    That is reported once, and again only after one has lasted.
    """
    state, now = turn.state, turn.now.boot
    if not state.watching:
        return
    lasted = event.begun and now >= state.watch_began_at + state.me.timing.retry_period
    state.watch_began_at, state.watch_denied = inf, event.denied
    if event.moved or lasted:
        state.watch_warned, state.resync_at, state.polls = False, now, 0
        return
    if not state.watch_warned:
        turn.do(e.Report("watch_failed", f"{event.reason}; polling instead"))
    state.watch_warned, state.resync_at = True, now + turn.poll_period()
    if event.retry_after:
        turn.retry_after(event.retry_after)
