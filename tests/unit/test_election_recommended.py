"""A released lock may recommend a candidate: it comes first, the others a retry period later; it permits nothing."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kleader.election import events as e
from kleader.election.state import Phase
from tests.support.election import ME, START, TERM, TIMING, Story

PERIOD = TIMING.retry_period


def released(story: Story, to: str) -> Story:
    """The leader that the candidate watches releases the lock, and recommends a candidate."""
    return story.sees(replace(story.lock(), recommended=to))


def test_the_recommended_candidate_writes_at_once_also_in_a_crowd() -> None:
    story = Story().follows()
    story.luck, story.state.lost_races = 0.9, 99
    write = released(story, ME).asked(e.Write)
    assert (write.record.holder, write.incarnation) == (ME, TERM)
    assert story.writes().state.phase is Phase.LEADING


def test_the_other_candidates_wait_a_retry_period_for_the_recommended_one() -> None:
    story = Story().follows()
    released(story, "best").idles(PERIOD - 0.01)
    assert story.waits(0.02).asked(e.Write).record.holder == ME
    assert story.writes().state.phase is Phase.LEADING


def test_once_it_has_the_lock_the_others_follow_it() -> None:
    story = Story().follows()
    released(story, "best")
    story.sees(story.lock("best", "its"))
    story.idles(PERIOD + 1)


def test_a_new_version_with_the_same_recommendation_does_not_put_the_others_off_again() -> None:
    story = Story().follows()
    seen = replace(story.lock(), recommended="best")
    story.sees(seen).idles(PERIOD - 0.1)
    story.sees(story.relabelled(seen))
    assert story.waits(0.2).asked(e.Write).record.holder == ME


def test_a_candidate_that_finds_a_free_lock_takes_it_at_once_whatever_was_recommended() -> None:
    """The release may be a year old, and the recommended candidate gone; --no-wait has no time."""
    story = Story().wakes()
    story.reads(replace(story.lock(), recommended="best"))
    assert story.asked(e.Write).record.holder == ME
    assert story.now == START


def test_a_candidate_whose_wait_ends_within_that_period_takes_the_free_lock_at_once() -> None:
    """It would give up beside a free lock if the recommended candidate is dead."""
    story = Story(wait_until=START + PERIOD).follows()
    assert released(story, "best").asked(e.Write).record.holder == ME


@pytest.mark.parametrize("recommended", [ME, "best"])
def test_a_recommendation_does_not_shorten_the_wait_for_a_lock_that_is_not_free(recommended: str) -> None:
    """An object that vanished, a holder that crashed, and a record that cannot be read are waited for as ever."""
    story = Story().follows()
    story.sees(replace(story.lock("other", "its"), recommended=recommended)).idles(14)
    story.sees(replace(story.lock(), fault="malformed", recommended=recommended)).idles(60)
