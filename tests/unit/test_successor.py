"""What an elector tells the supervisor for the elector that may replace it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from kleader.election import events as e
from kleader.election.events import Kind
from kleader.election.state import EVERY_OBJECT, Phase, State
from kleader.elector import successor
from kleader.ipc import messages as m
from tests.support.election import START, TERM, Story, candidate

if TYPE_CHECKING:
    from kleader.ipc.messages import Message

WAITING = m.Assign(1, TERM, False, True, 0.0, 0, 0, [], "")  # noqa: FBT003 - it has these fields


def remembered(before: State, story: Story) -> Message | None:
    """By the step, or the steps, that led from one to the other."""
    return successor.remember(1, before, story.state)


def test_the_longest_lease_duration_that_was_seen_is_told_and_waited_for() -> None:
    story = Story()
    before = story.state
    assert remembered(before, story.follows(story.lock("other", duration=60))) == m.Remember(1, f"60 {TERM}")
    state = successor.resumed(candidate(), WAITING._replace(memory=f"60 {TERM}"), START)
    assert (state.safe_at, state.touched, state.phase) == (START + 60, EVERY_OBJECT, Phase.FOLLOWING)
    Story(state).wakes().reads(None).idles(59.9)


def test_what_was_told_is_not_told_again() -> None:
    story = Story().follows()
    before = story.state
    assert remembered(before, story.waits(1).sees(story.lock("other", renewed=1))) is None


@pytest.mark.parametrize("memory", ["", f"5 {TERM}"])
def test_ones_own_lease_duration_is_waited_for_at_the_least(memory: str) -> None:
    assert successor.resumed(candidate(), WAITING._replace(memory=memory), START).safe_at == START + 15


def test_a_candidate_whose_elector_is_replaced_has_another_incarnation_and_a_leader_has_its_own() -> None:
    """What the previous elector wrote is another candidate's to the next one; a term goes on."""
    waiting = WAITING._replace(memory=f"15 {TERM}.2")
    assert successor.resumed(candidate(), waiting, START).incarnation == f"{TERM}.3"
    assert successor.resumed(candidate(), waiting._replace(leading=True), START).incarnation == f"{TERM}.2"


def test_the_incarnation_of_an_earlier_candidacy_is_not_that_of_this_one() -> None:
    leading = WAITING._replace(leading=True, memory="15 term-0.2")
    assert successor.resumed(candidate(), leading, START).incarnation == TERM


def test_a_new_incarnation_is_told_before_anything_is_written_under_it() -> None:
    story = Story().follows().sees(None).waits(15).writes().waits(2).fails(Kind.CONFLICT)
    before = story.state
    assert remembered(before, story.reads(story.lock("other"))) == m.Remember(1, f"15 {TERM}.1")
    assert not story.all(e.Write)


def test_a_replacement_elector_tells_its_incarnation_before_its_first_request() -> None:
    """Else the elector that replaces it in a term would take that term for another candidate's."""
    state = successor.resumed(candidate(), WAITING._replace(memory=f"15 {TERM}"), START)
    assert successor.remember(1, None, state) == m.Remember(1, f"15 {TERM}.1")


def test_a_lock_that_does_not_expire_has_a_memory_of_its_own() -> None:
    me = candidate(non_expiring=True)
    state = State(me, TERM)
    assert successor.remember(1, state, replace(state, longest=60)) is None
    resumed = successor.resumed(me, WAITING._replace(memory='["ns", "pod", "uid"]'), START)
    assert resumed.incarnation == TERM
