"""Looking on: what a waiting candidate asks for, and what it does when that fails."""

from __future__ import annotations

import pytest

from kleader.election import events as e
from kleader.election.events import Kind, Observed
from kleader.election.record import Record
from tests.support.election import START, Story

# --- faults


def test_a_malformed_record_is_held_for_ever_and_the_error_says_why() -> None:
    story = Story()
    broken = Observed(Record(), "", "7", "the Lease default/x is malformed: spec.leaseDurationSeconds is -1")
    story.wakes().reads(broken)
    assert story.asked(e.Report).message == f"the lock counts as held: {broken.fault}"
    story.waits(299)
    assert story.requests == []


def test_a_malformed_record_that_was_corrected_is_taken() -> None:
    story = Story().follows(Observed(Record(), "", "7", "malformed"))
    story.sees(story.lock("")).asked(e.Write)


@pytest.mark.parametrize("kind", [Kind.THROTTLED, Kind.UNREACHABLE])
def test_a_candidate_makes_no_request_for_as_long_as_the_api_server_asks(kind: Kind) -> None:
    """By a Retry-After, of a 429 or, as client-go has it, of a 5xx."""
    story = Story()
    free = story.lock("")
    story.wakes().reads(free).fails(kind, retry_after=12)
    story.idles(11.9)
    story.waits(0.1).asked(e.Get)


@pytest.mark.parametrize("luck", [0.0, 0.99])
def test_a_candidate_throttled_for_an_hour_retries_within_its_lease_duration(luck: float) -> None:
    """No other candidate may be left by then. Candidates that are throttled together do not all return together."""
    story = Story()
    story.luck = luck
    story.wakes().reads(story.lock("")).fails(Kind.THROTTLED, retry_after=3600)
    comes_at = story.state.wake_at - story.now
    assert 13.6 < comes_at <= 15
    assert luck == 0 or comes_at > 14.9
    story.waits(comes_at).asked(e.Get)


@pytest.mark.parametrize("kind", [Kind.DENIED, Kind.REFUSED, Kind.UNREACHABLE])
def test_a_failing_read_is_repeated_at_the_retry_period_and_reported(kind: Kind) -> None:
    story = Story().wakes().fails(kind)
    assert story.asked(e.Report).message == f"it was {kind.value}"
    if kind is Kind.UNREACHABLE:  # maybe only a connection that had gone stale
        story.asked(e.Get)
        story.fails(kind)
    story.idles(1.9)
    story.waits(0.1).asked(e.Get)


def test_a_missing_permission_to_write_is_tried_again_at_the_retry_period() -> None:
    story = Story().wakes().reads(None).fails(Kind.DENIED)
    story.idles(1.9)
    assert story.waits(0.1).requests


# --- the watch


def test_a_waiting_candidate_sends_no_request_besides_its_watch() -> None:
    story = Story()
    held = story.lock("other")
    story.follows(held)
    assert story.asked(e.Watch).after == held
    for _ in range(1000):
        assert story.waits(2).actions == []
        story.sees(story.lock("other"))


def test_a_silent_watch_is_checked_and_restarted() -> None:
    story = Story().follows(Story().lock("other", duration=3600))
    story.idles(299.9)
    story.waits(0.1).asked(e.Get)
    story.reads(story.lock("other")).asked(e.Watch)


def test_a_watch_that_ends_after_a_while_is_restarted_from_a_fresh_read() -> None:
    story = Story().follows().waits(10)
    story.tell(e.WatchEnded("the server ended it")).asked(e.Get)
    assert not story.all(e.Report)
    again = story.lock("other")
    assert story.reads(again).asked(e.Watch).after == again


def test_a_watch_that_does_not_last_means_polling() -> None:
    story = Story().follows()
    for _ in range(5):
        story.tell(e.WatchEnded("410 Gone"))
        story.idles(1.9)
        story.waits(0.1).asked(e.Get)
        story.reads(story.lock("other")).asked(e.Watch)


def test_a_watch_that_cannot_begin_means_polling_however_long_that_took() -> None:
    story = Story().follows().waits(5)
    story.tell(e.WatchEnded("the watch is silent", begun=False))
    assert story.asked(e.Report).message == "the watch is silent; polling instead"
    story.idles(1.9)
    story.waits(0.1).asked(e.Get)


def test_a_throttled_watch_delays_polls_and_the_write_at_an_expiry() -> None:
    story = Story().follows().waits(10)
    story.luck = 0.5
    story.tell(e.WatchEnded("too many requests", begun=False, retry_after=10))
    story.idles(10.4)
    story.waits(0.1).asked(e.Get)


def test_a_watch_throttled_for_an_hour_is_restarted_within_a_lease_duration() -> None:
    story = Story().follows()
    story.luck = 0.99
    story.tell(e.WatchEnded("too many requests", begun=False, retry_after=3600))
    story.idles(14.9)
    story.waits(0.1).asked(e.Get)


def test_a_throttled_watch_delays_the_requests_after_a_pending_write() -> None:
    story = Story().follows().waits(15)
    story.tell(e.WatchEnded("too many requests", begun=False, retry_after=10))
    story.fails(Kind.CONFLICT).idles(9.9)
    story.waits(0.1).asked(e.Get)


def test_a_short_watch_is_reported_once_and_again_only_after_a_long_one() -> None:
    story = Story().follows()
    for number in range(20):
        story.tell(e.WatchEnded("410 Gone", begun=number % 2 == 0))
        assert len(story.all(e.Report)) == (number == 0)
        story.waits(2).reads(story.lock("other")).asked(e.Watch)
    story.waits(10).tell(e.WatchEnded("the server ended it"))
    assert not story.all(e.Report)
    story.reads(story.lock("other")).tell(e.WatchEnded("410 Gone")).asked(e.Report)


def test_a_denied_watch_means_polling_as_client_go_does_with_its_jitter() -> None:
    story = Story().follows()
    story.luck = 0.5
    story.tell(e.WatchEnded("watch is forbidden", denied=True))
    assert story.asked(e.Report).message == "watch is forbidden; polling instead"
    for _ in range(5):
        story.idles(3.1)
        story.waits(0.1).asked(e.Get)
        story.reads(story.lock("other"))
        assert not story.all(e.Watch)


def test_a_polling_candidate_takes_an_expired_lock_at_the_exact_instant() -> None:
    story = Story()
    held = story.lock("other")
    story.follows(held).tell(e.WatchEnded("denied", denied=True))
    while story.now + 2 < START + 15:
        story.waits(2).reads(held)
    assert story.waits(START + 15 - story.now).asked(e.Write).base is held


def test_a_response_older_than_the_last_watch_event_is_ignored() -> None:
    story = Story().follows().waits(15)
    story.fails(Kind.CONFLICT).waits(2)
    request, old, free = story.pending(e.Get), story.lock("other"), story.lock("")
    assert story.sees(free).asked(e.Write).base is free
    assert not story.tell(e.GetDone(request, old)).actions
