"""Looking on: what was read is watched; where that is not allowed, or does not last, it is read again and again."""

from __future__ import annotations

from math import inf

from kleader.election import events as e
from kleader.election.state import Phase
from kleader.election.transition import Transition  # noqa: TC001 - as everywhere here

SILENCE = 300.0  # seconds after which the lock is read although its watch says nothing: it may have gone deaf


def on(turn: Transition) -> None:
    """Watch from what was read; poll where that is not allowed, or while the lock is about to be taken."""
    s, now = turn.s, turn.now.boot
    if s.denied or (s.phase is Phase.FOLLOWING and (s.me.one_try or s.turn_at <= now)):
        s.read_at = now + turn.poll_period()
    else:
        s.watching, s.watched_at, s.read_at = True, now, now + SILENCE
        # without a version it begins with what the API server's cache has; who never saw the lock has nobody to forget
        s.behind = s.gone_wait > 0 and (s.seen is None or (s.me.twofold and None in (s.seen.beside or ())))
        turn.do(e.Watch(s.seen))


def told(turn: Transition) -> bool:
    """Take note that the watch tells something; False: of what is not watched any more."""
    s = turn.s
    if s.watching:
        s.trouble, s.mute_since, s.news, s.read_at = "", inf, True, turn.now.boot + SILENCE
    return s.watching


def watch_ended(turn: Transition, event: e.WatchEnded) -> None:
    """A watch ends now and then: look, and watch again. One that did not last means polling before the next one.

    That is told once: again only after one has lasted.
    """
    s, now = turn.s, turn.now.boot
    if not s.watching:
        return
    s.watching, s.denied = False, event.denied
    if event.moved or (event.begun and now >= s.watched_at + s.me.timing.retry_period):
        s.told, s.read_at, s.polls = False, now, 0
        return
    if not s.told:
        turn.do(e.Report("watch_failed", f"{event.reason}; polling instead"))
    s.told, s.read_at = True, now + turn.poll_period()
    if event.retry_after:
        turn.retry_after(event.retry_after)
