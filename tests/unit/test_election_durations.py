"""Rivals on annotation locks may expire a record by their own duration, so a shorter one than ours is warned of.

Who takes part in plain election where one API server serves no LeaseCandidates may have rivals that another one names.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kleader.election import events as e
from kleader.election.record import UNKNOWN
from tests.support.election import Story

if TYPE_CHECKING:
    from kleader.election.events import Observed


def warnings(story: Story, seen: Observed) -> list[str]:
    return [report.message for report in story.sees(seen).all(e.Report)]


def test_a_rivals_shorter_duration_is_warned_of_once_and_again_when_it_shrinks() -> None:
    story = Story(rivals_expire=True)
    (said,) = story.wakes().reads(story.lock("a", duration=10)).all(e.Report)
    assert said.message == (
        "a leads with a lease duration of 10s, less than this candidate's 15s: a client-go before 0.27 would take"
        " the lock too early; give --lease-duration 10s"
    )
    assert not warnings(story, story.lock("a", duration=10))
    assert not warnings(story, story.lock("b", duration=10))
    assert not warnings(story, story.lock("c", duration=12))
    (again,) = warnings(story, story.lock("d", duration=8))
    assert again.startswith("d leads with a lease duration of 8s")


def test_no_shorter_duration_is_warned_of_on_a_released_differing_or_lease_lock() -> None:
    story = Story(rivals_expire=True).follows()
    assert not warnings(story, story.lock(UNKNOWN, duration=5))
    assert not warnings(story, story.lock("", duration=1))
    story = Story().follows()
    assert not warnings(story, story.lock("a", duration=10))


def test_the_longest_observed_duration_is_waited_out_after_a_shorter_record() -> None:
    """A shorter one may have been put over a holder that still runs."""
    story = Story().follows(Story().lock("long", duration=60)).waits(1)
    story.sees(story.lock("named", duration=5, acquired=None)).waits(1)
    story.sees(story.lock("named", duration=5)).idles(59.9)
    story.waits(0.1).asked(e.Write)
