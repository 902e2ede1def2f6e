"""What an elector tells the supervisor for the elector that may replace it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from kleader.election import events as e
from kleader.election.events import Kind
from kleader.election.state import EVERY_OBJECT, Phase, State
from kleader.elector import resumption
from kleader.ipc import messages as m
from tests.support.election import START, TERM, Story, candidate

if TYPE_CHECKING:
    from kleader.ipc.messages import ResumeState

WAITING = m.Assign(TERM, False, True, 0.0, 0, 0, [], "")  # noqa: FBT003 - it has these fields


def remembered(before: State, story: Story) -> ResumeState | None:
    """By the step, or the steps, that led from one to the other."""
    return resumption.resume_state(before, story.state)


def test_the_longest_observed_lease_duration_is_passed_on_and_waited_for() -> None:
    story = Story()
    before = story.state
    assert remembered(before, story.follows(story.lock("other", duration=60))) == m.ResumeState(f"60 {TERM}")
    state = resumption.resumed(candidate(), WAITING._replace(resume_state=f"60 {TERM}"), START)
    assert (state.safe_at, state.ever_held, state.phase) == (START + 60, EVERY_OBJECT, Phase.FOLLOWING)
    Story(state).wakes().reads(None).idles(59.9)


def test_an_unchanged_duration_is_not_passed_on_again() -> None:
    story = Story().follows()
    before = story.state
    assert remembered(before, story.waits(1).sees(story.lock("other", renewed=1))) is None


@pytest.mark.parametrize("memory", ["", f"5 {TERM}"])
def test_a_replacement_elector_waits_at_least_its_own_lease_duration(memory: str) -> None:
    assert resumption.resumed(candidate(), WAITING._replace(resume_state=memory), START).safe_at == START + 15


def test_a_replacement_elector_keeps_a_leaders_incarnation_and_changes_a_candidates() -> None:
    """What the previous elector wrote is another candidate's to the next one; a term goes on."""
    waiting = WAITING._replace(resume_state=f"15 {TERM}.2")
    assert resumption.resumed(candidate(), waiting, START).incarnation == f"{TERM}.3"
    assert resumption.resumed(candidate(), waiting._replace(leading=True), START).incarnation == f"{TERM}.2"


def test_a_new_candidacy_has_a_new_incarnation() -> None:
    leading = WAITING._replace(leading=True, resume_state="15 term-0.2")
    assert resumption.resumed(candidate(), leading, START).incarnation == TERM


def test_a_new_incarnation_is_passed_on_before_it_is_written() -> None:
    story = Story().follows().sees(None).waits(15).writes().waits(2).fails(Kind.CONFLICT)
    before = story.state
    assert remembered(before, story.reads(story.lock("other"))) == m.ResumeState(f"15 {TERM}.1")
    assert not story.all(e.Write)


def test_a_replacement_elector_passes_its_incarnation_on_before_its_first_request() -> None:
    """Else the elector that replaces it in a term would take that term for another candidate's."""
    state = resumption.resumed(candidate(), WAITING._replace(resume_state=f"15 {TERM}"), START)
    assert resumption.resume_state(None, state) == m.ResumeState(f"15 {TERM}.1")


def test_a_lock_that_does_not_expire_passes_on_its_own_resume_state() -> None:
    me = candidate(non_expiring=True)
    state = State(me, TERM)
    assert resumption.resume_state(state, replace(state, longest=60)) is None
    resumed = resumption.resumed(me, WAITING._replace(resume_state='["ns", "pod", "uid"]'), START)
    assert resumed.incarnation == TERM
