"""In any order of events: no spinning, no endless wait, and deadlines move only forward."""

from __future__ import annotations

import random
from math import inf
from typing import TYPE_CHECKING

import pytest

from kleader.election import events as e
from kleader.election.events import Failure, Kind, Observed
from kleader.election.record import SECOND, Record
from kleader.election.state import Phase, State, resume_waiting
from tests.support.chance import EFFORT
from tests.support.election import ME, START, TERM, WALL, Story, candidate, resumed

if TYPE_CHECKING:
    from tests.conftest import Trials

STORIES = 100 * EFFORT
LONG = 150  # events


def beginning(rng: random.Random) -> Story:
    me = candidate(
        wait_until=rng.choice((inf, START + rng.uniform(0, 60))), one_try=rng.random() < 0.1, live=rng.random() < 0.1
    )
    return Story(
        rng.choice(
            (
                State(me, TERM),
                State(me, TERM),
                resume_waiting(me, TERM, START),
                resumed(me, START - rng.uniform(0, 12), acquired=WALL, transitions=1),
            )
        )
    )


def anything_seen(rng: random.Random, story: Story) -> Observed | None:
    """A state of the lock that may have nothing to do with what was written."""
    known = [None, story.state.observed, story.lock(""), story.lock("other"), story.lock(ME, "term-0")]
    known += [story.lock(ME, TERM), Observed(Record(), "", "9", "spec is not an object")]
    known += [story.lock("other", duration=1), story.lock("", renewed=WALL + 10**6 * SECOND)]
    return rng.choice(known)


def answer(rng: random.Random, story: Story) -> e.Event:
    """Any answer to what is under way; TimerFired where nothing is."""
    request = story.state.pending
    if request is None:
        return e.TimerFired()
    if rng.random() < 0.4:
        return e.RequestFailed(request, Failure(rng.choice(list(Kind)), "it failed", rng.choice((0, 1, 30))))
    if isinstance(request, e.Get):
        return e.GetDone(request, anything_seen(rng, story))
    lie = anything_seen(rng, story) if rng.random() < 0.2 else None
    return e.WriteDone(request, lie or story.landed())


def anything(rng: random.Random, story: Story) -> e.Event:
    return rng.choice(
        (
            e.TimerFired(),
            e.WatchEvent(anything_seen(rng, story)),
            e.WatchEvent(anything_seen(rng, story)),
            e.WatchEnded("it ended", rng.random() < 0.1, rng.random() < 0.8, rng.choice((0, 0, 30))),
            rng.choice(
                (
                    e.AllProcessesExited(rng.random() < 0.5),
                    e.SupervisorUnresponsive("nobody there"),
                    e.Restart(f"term-{rng.random()}"),
                )
            ),
        )
    )


def test_no_order_of_events_causes_spinning_an_endless_wait_or_an_invalid_request(trials: Trials) -> None:
    """Story checks after each step that the next one is due later than now."""
    for seed in range(STORIES):
        rng = random.Random(seed)  # noqa: S311 - replayed from its seed
        story = beginning(rng)
        stop_at = story.state.stop_at
        for _ in range(LONG):
            event = answer(rng, story) if rng.random() < 0.7 else anything(rng, story)
            if event == e.TimerFired() and story.state.wake_at < inf:
                story.now = max(story.now, story.state.wake_at)
            story.now += rng.choice((0.0, 0.0, 0.01, rng.expovariate(1)))
            story.luck = rng.random()
            story.tell(event)
            state = story.state
            assert len(story.requests) <= 1, f"seed {seed}"
            assert all(request.timeout > 0 for request in story.requests), f"seed {seed}"  # type: ignore[union-attr]
            if state.phase in (Phase.FOLLOWING, Phase.LEADING, Phase.RELEASING) and not state.pending:
                assert state.wake_at < inf, f"seed {seed}: waits for ever"
            if state.phase is Phase.LEADING:
                assert state.wake_at <= state.stop_at, f"seed {seed}: would miss its deadline"
            deadlines: list[e.Acquired | e.Renewed] = [*story.all(e.Acquired), *story.all(e.Renewed)]
            for told in deadlines:
                assert told.stop_at >= stop_at, f"seed {seed}: a deadline moved back"
                assert told.stop_at < told.kill_at
                stop_at = told.stop_at
    trials.count(STORIES, "random stories of one candidate")


@pytest.mark.parametrize("seed", range(20))
def test_an_api_server_that_answers_nonsense_at_once_is_asked_at_a_bounded_rate(seed: int) -> None:
    rng = random.Random(seed)  # noqa: S311 - replayed from its seed
    story = beginning(rng)
    asked = 0
    while story.now < START + 60 and (story.state.pending or story.state.wake_at < inf):
        if not story.state.pending:
            story.now = max(story.now, story.state.wake_at)
        story.tell(answer(rng, story))
        asked += len(story.requests)
        assert asked < 60 * 12
