"""Giving up: --wait, --no-wait and --wait live."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kleader.election import events as e
from kleader.election.events import Kind, Observed
from kleader.election.record import SECOND, UNKNOWN, Record
from kleader.election.state import Phase
from tests.support.election import ME, START, TERM, WALL, Story


def test_the_end_of_wait_names_the_holder_its_age_and_a_sufficient_wait() -> None:
    story = Story(wait_until=START + 8)
    story.follows(story.lock("other", renewed=WALL - 3 * SECOND))
    gave_up = story.waits(8).asked(e.AcquireFailed)
    assert gave_up.status == 124
    assert gave_up.reason == (
        "held by other, last renewed 11s ago by its own clock, watched unchanged for 8s;"
        " a --wait of more than 15s acquires it from a dead holder"
    )
    assert story.state.phase is Phase.OVER


def test_a_wait_is_over_in_time_though_a_read_is_unanswered() -> None:
    story = Story(wait_until=START + 3).wakes().waits(3)
    assert story.asked(e.AcquireFailed).status == 125
    assert story.asked(e.AcquireFailed).reason.startswith(
        "the API server has not answered in the time given by --wait: check"
    )


def test_a_wait_ends_with_125_when_the_lock_cannot_be_read() -> None:
    story = Story(wait_until=START + 3).wakes().fails(Kind.DENIED).waits(3)
    assert story.asked(e.AcquireFailed) == e.AcquireFailed("it was denied", 125)


def test_a_write_under_way_when_the_wait_ends_may_still_acquire() -> None:
    story = Story(wait_until=START + 1).wakes().reads(None)
    assert story.waits(2).actions == []
    story.writes().asked(e.Acquired)


def test_a_candidate_that_ends_with_an_unanswered_acquisition_first_releases_it() -> None:
    story = Story(wait_until=START + 5)
    story.wakes().reads(story.lock(""))
    landed = story.landed()
    story.fails(Kind.UNREACHABLE, after=5)
    assert not story.all(e.AcquireFailed)
    story.asked(e.Get)
    write = story.reads(landed).asked(e.Write)
    assert (write.base, write.record.holder) == (landed, "")
    assert story.writes().asked(e.AcquireFailed).status == 125


def test_a_candidate_that_ends_in_doubt_tries_for_at_most_one_request_timeout() -> None:
    story = Story(wait_until=START + 1).wakes().reads(None)
    story.fails(Kind.UNREACHABLE, after=2)
    assert story.asked(e.Get).timeout == 5
    story.fails(Kind.UNREACHABLE, after=5)
    story.asked(e.AcquireFailed)


def test_no_wait_gives_up_on_a_held_lock_at_once() -> None:
    story = Story(one_try=True)
    story.wakes().reads(story.lock("other"))
    assert story.asked(e.AcquireFailed).status == 124
    assert story.requests == []
    assert not story.all(e.Watch)


def test_no_wait_takes_a_free_lock() -> None:
    story = Story(one_try=True)
    story.wakes().reads(story.lock("")).writes().asked(e.Acquired)


def test_no_wait_gives_up_after_a_lost_race() -> None:
    story = Story(one_try=True).wakes().reads(None).fails(Kind.CONFLICT)
    assert story.asked(e.AcquireFailed) == e.AcquireFailed("the lock could not be acquired in time", 124)


def test_no_wait_without_a_read_ends_with_125() -> None:
    assert Story(one_try=True).wakes().fails(Kind.UNREACHABLE).asked(e.AcquireFailed).status == 125


def test_a_multilock_with_two_holders_is_reported_without_a_holder() -> None:
    story = Story(wait_until=START + 8)
    story.follows(story.lock(UNKNOWN))
    assert story.waits(8).asked(e.AcquireFailed).reason.startswith("held by an unknown candidate, last renewed ")


def test_no_wait_fails_on_a_malformed_record() -> None:
    broken = Observed(Record(), "", "7", "spec.holderIdentity is not a string")
    story = Story(one_try=True).wakes().reads(broken)
    gave_up = story.asked(e.AcquireFailed)
    assert gave_up == e.AcquireFailed("the lock counts as held: spec.holderIdentity is not a string", 125)
    assert story.asked(e.Report).message == gave_up.reason  # which the loop then says once


def test_wait_live_gives_up_on_the_first_observed_renewal() -> None:
    story = Story(live=True).follows()
    gave_up = story.sees(story.lock("other", renewed=WALL + 2 * SECOND)).asked(e.AcquireFailed)
    assert gave_up == e.AcquireFailed("held by other, which is alive: it has just renewed the lock", 124)


def test_wait_live_does_not_take_a_label_for_a_renewal() -> None:
    story = Story(live=True)
    held = story.lock("other")
    assert not story.follows(held).sees(story.relabelled(held)).all(e.AcquireFailed)


OTHERS = Story().lock("other").record, ""


def pair(story: Story, *components: tuple[Record, str] | None, holder: str = UNKNOWN) -> Observed:
    """Both objects of a multilock, and its holder by them."""
    some_object_lacks_record = any(each is None or each[0].is_blank for each in components)
    return replace(story.lock(holder), components=components, some_object_lacks_record=some_object_lacks_record)


def both(story: Story) -> Observed:
    """Both are another's."""
    return pair(story, OTHERS, OTHERS, holder="other")


def half_taken(story: Story, holder: str, incarnation: str, second: tuple[Record, str] = OTHERS) -> Observed:
    """The first of both objects is this holder's now; the second is as it was."""
    return pair(story, (story.lock(holder).record, incarnation), second)


def test_wait_live_does_not_take_a_missing_object_of_a_multilock_for_a_renewal() -> None:
    for bare in (None, (Record(), "")):
        story = Story(live=True, is_multilock=True).follows(both(Story())).waits(5)
        story.sees(pair(story, bare, OTHERS, holder="other"))
        assert not story.all(e.AcquireFailed)
        assert story.waits(15).all(e.Write)


def test_wait_live_does_not_take_its_own_half_done_write_for_a_renewal() -> None:
    """However often."""
    story = Story(live=True, is_multilock=True).follows(both(Story())).waits(15)
    for _ in range(2):
        story.fails(Kind.UNREACHABLE).waits(2).reads(half_taken(story, ME, TERM)).idles(14.9)
        story.waits(0.1).asked(e.Write)
    story.writes().asked(e.Acquired)


def test_wait_live_gives_up_when_the_holder_of_one_object_renews_it() -> None:
    story = Story(live=True, is_multilock=True).follows(both(Story())).waits(15).fails(Kind.CONFLICT)
    story.reads(mine := half_taken(story, ME, TERM)).waits(2)
    renewed = replace(mine, components=(mine.components[0], (story.lock("other").record, "")), version=story.version())
    assert story.sees(replace(renewed, record=story.lock(UNKNOWN).record)).asked(e.AcquireFailed).status == 124


def test_wait_live_gives_up_when_another_candidate_takes_one_object() -> None:
    story = Story(live=True, is_multilock=True).follows(both(Story()))
    assert story.sees(half_taken(story, "rival", "of rival")).asked(e.AcquireFailed).status == 124


@pytest.mark.parametrize("fault", ["", "it is malformed"])
def test_wait_live_does_not_take_a_missing_record_for_a_release(fault: str) -> None:
    """An operator has replaced or broken the object, and the holder may be dead."""
    story = Story(live=True).follows()
    assert not story.sees(Observed(Record(), version="900", fault=fault)).all(e.AcquireFailed)


def test_wait_live_takes_a_dead_holders_lock_at_expiry() -> None:
    Story(live=True).follows().waits(15).asked(e.Write)


def test_wait_live_gives_up_on_a_holder_that_released() -> None:
    """For cron: a job that ended meanwhile has been run."""
    story = Story(live=True).follows()
    gave_up = story.sees(story.lock("")).asked(e.AcquireFailed)
    assert gave_up == e.AcquireFailed("other has just finished and released the lock; not running again", 124)


def test_wait_live_ends_with_125_after_a_lease_duration_without_a_response() -> None:
    """Or every run of cron would leave one that waits for ever."""
    story = Story(live=True).wakes()
    while not story.all(e.AcquireFailed):
        if story.state.pending:
            story.fails(Kind.UNREACHABLE, after=1)
        else:
            story.waits(story.state.wake_at - story.now)
    assert START + 15 <= story.now <= START + 16
    assert story.asked(e.AcquireFailed) == e.AcquireFailed("it was unreachable", 125)


def test_wait_live_survives_an_outage_shorter_than_a_lease_duration() -> None:
    story = Story(live=True).wakes().fails(Kind.UNREACHABLE, after=5)
    story.waits(5).reads(story.lock("other"))
    assert not story.waits(14).all(e.AcquireFailed)
    story.waits(1).asked(e.Write)
    story.fails(Kind.UNREACHABLE, after=5)
    assert not story.all(e.AcquireFailed)


@pytest.mark.parametrize("wait", [-0.1, 0.1])
def test_a_wait_that_ends_before_the_first_response_is_one_try(wait: float) -> None:
    """It was over before the credentials were read, or while the API server was asked."""
    story = Story(wait_until=START + wait).wakes()
    assert story.waits(0.3).actions == []
    story.reads(story.lock("")).writes().asked(e.Acquired)
    story = Story(wait_until=START + wait).wakes().waits(0.3).reads(story.lock("other"))
    assert story.asked(e.AcquireFailed).status == 124
    story = Story(wait_until=START + wait).wakes().waits(1)
    assert story.asked(e.AcquireFailed).status == 125
