"""Watching the lock from what was read; where a watch is not allowed, or does not last, polling it."""

from __future__ import annotations

from math import inf

from kleader.election import events as e
from kleader.election.state import Phase
from kleader.election.step import Step  # noqa: TC001 - as everywhere here

MAX_SILENT_SECONDS = 300.0  # seconds after which the lock is read although its watch shows nothing: it may be dead


def follow(step: Step) -> None:
    """Watch from what was read; poll where that is not allowed, or while the lock is about to be acquired."""
    state, now = step.state, step.now.boot
    about_to_acquire = state.phase is Phase.FOLLOWING and (state.me.one_try or state.acquire_at <= now)
    if state.watch_denied or about_to_acquire or state.reads_before_write:
        state.resync_at = now + step.poll_period()
    else:
        state.watch_began_at, state.resync_at = now, now + MAX_SILENT_SECONDS
        step.do(e.Watch(state.observed))


def note_event(step: Step) -> bool:
    """Take note of a watch event. False: it is of a watch that is over."""
    state = step.state
    if state.watching:
        state.last_error, state.unreachable_since, state.resync_at = "", inf, step.now.boot + MAX_SILENT_SECONDS
        if isinstance(state.pending, e.Get):
            state.pending = None  # the watch has shown what was to be read
    return state.watching


def watch_ended(step: Step, event: e.WatchEnded) -> None:
    """A watch ends now and then: read, and watch again. One that did not last means polling before the next one.

    That is reported once, and again only after one has lasted.
    """
    state, now = step.state, step.now.boot
    if not state.watching:
        return
    lasted = event.begun and now >= state.watch_began_at + state.me.timing.retry_period
    state.watch_began_at, state.watch_denied = inf, event.denied
    if event.moved or lasted:
        state.watch_warned, state.resync_at, state.polls = False, now, 0
        return
    if not state.watch_warned:
        step.do(e.Report("watch_failed", f"{event.reason}; polling instead"))
    state.watch_warned, state.resync_at = True, now + step.poll_period()
    if event.retry_after:
        step.retry_after(event.retry_after)
