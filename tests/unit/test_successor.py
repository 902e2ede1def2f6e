"""What an elector tells of the lock for the one that may replace it."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest

from kleader.election.state import State
from kleader.elector import successor
from kleader.ipc import messages as m
from kleader.ipc.plan import FOR_LIFE
from tests.support.election import TERM, Story, candidate

if TYPE_CHECKING:
    from kleader.ipc.plan import Plan

ASSIGN = m.Assign(1, TERM, False, True, 0.0, 0, 0, [], "")  # noqa: FBT003 - it has these fields


def plan(lock: str = "lease") -> Plan:
    """As far as a successor needs it."""
    return cast("Plan", SimpleNamespace(lock=lock, lease_duration=15))


def told(before: State, story: Story) -> m.Message | None:
    """By the step, or the steps, that led from one to the other."""
    return successor.told(1, before, story.state)


def test_a_holder_of_a_longer_lease_than_ones_own_is_told_of_and_waited_for() -> None:
    story = Story()
    before = story.state
    said = told(before, story.follows(story.lock("other", duration=60)))
    assert said == m.Remember(1, "60")
    assert successor.heard(plan(), ASSIGN._replace(memory="60")) == 60


def test_what_was_told_is_not_told_again() -> None:
    story = Story().follows()
    before = story.state
    assert told(before, story.waits(1).sees(story.lock("other", renewed=1))) is None


def test_who_had_the_lock_before_a_shorter_lease_is_still_waited_for() -> None:
    story = Story().follows(Story().lock("other", duration=60)).waits(9.5)
    before = story.state
    assert told(before, story.sees(story.lock("short", duration=5))) == m.Remember(1, "51")


def test_who_has_given_the_lock_up_is_not() -> None:
    story = Story().follows(Story().lock("other", duration=60)).waits(9.5)
    before = story.state
    assert told(before, story.sees(story.lock(""))) == m.Remember(1, "15")


@pytest.mark.parametrize(("memory", "seconds"), [("", 15), ("5", 15), ("60", 60)])
def test_ones_own_lease_duration_is_waited_for_at_the_least(memory: str, seconds: int) -> None:
    assert successor.heard(plan(), ASSIGN._replace(memory=memory)) == seconds


def test_who_replaces_nobody_waits_for_nobody() -> None:
    assert successor.heard(plan(), ASSIGN._replace(replaces=False)) == 0


def test_a_lock_that_does_not_expire_has_a_memory_of_its_own() -> None:
    me = candidate(lasting=True)
    state = State(me, TERM)
    assert successor.told(1, state, replace(state, gone_wait=60.0)) is None
    assert successor.heard(plan(FOR_LIFE), ASSIGN._replace(memory='["ns", "pod", "uid"]')) == 15
