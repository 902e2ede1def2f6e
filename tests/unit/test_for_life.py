"""A lock without expiry: whose it is, when it may be taken, and what a leader does that cannot observe it."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from math import inf

import pytest

from kleader.election import events as e
from kleader.election.events import Kind, Observed
from kleader.election.record import Record
from kleader.election.state import Phase, resume_waiting
from tests.support.election import ME, START, TERM, Story, candidate, resumed


def story(**fields: object) -> Story:
    return Story(None, non_expiring=True, **fields)


def owned(tale: Story, holder: str = "other", incarnation: str = "term-9", **fields: object) -> Observed:
    """The lock, owned by the Pod `holder`; by this candidate's own if that is `me`."""
    return Observed(Record(holder), incarnation, tale.version(), owned_by_me=holder == ME, **fields)  # type: ignore[arg-type]


# --- taking it


def test_a_free_lock_is_created_and_its_term_has_no_deadlines() -> None:
    tale = story().wakes().reads(None)
    write = tale.asked(e.Write)
    assert (write.base, write.record.holder, write.incarnation) == (None, ME, TERM)
    landed = tale.landed()
    tale.tell(e.WriteDone(write, landed))
    lead = tale.asked(e.Acquired)
    assert (lead.stop_at, lead.kill_at, lead.token) == (inf, inf, landed.version)
    assert tale.asked(e.NewLeader).leader == ME


def test_a_leader_for_life_writes_nothing() -> None:
    tale = story().leads()
    assert tale.asked(e.Watch).after is tale.state.observed
    asked = tale.waits(3600).requests
    assert not [each for each in asked if isinstance(each, e.Write)]
    assert tale.state.phase is Phase.LEADING


def test_a_silent_owner_keeps_the_lock() -> None:
    tale = story().follows(owned(story()))
    assert tale.asked(e.NewLeader).leader == "other"
    asked = tale.waits(7 * 86400).requests
    assert not [each for each in asked if isinstance(each, e.Write)]


def test_a_dead_owners_lock_is_taken_over_at_the_observed_version() -> None:
    tale = story()
    tale.follows(owned(tale)).sees(dead := owned(tale, owner_gone=True))
    assert tale.asked(e.Write).base is dead
    tale.writes().asked(e.Acquired)


def test_a_released_lock_is_taken_at_once() -> None:
    tale = story()
    tale.follows(owned(tale)).sees(free := Observed(Record(), "", tale.version()))
    assert tale.asked(e.Write).base is free


def test_a_lock_that_is_proven_deleted_is_created_at_once() -> None:
    """That its owner is gone too is the lock's to find out: it tells of nothing only then."""
    tale = story()
    tale.follows(owned(tale)).sees(None)
    assert tale.asked(e.Write).base is None
    tale.writes().asked(e.Acquired)


@pytest.mark.parametrize("dead", [False, True])
def test_an_invalid_owner_counts_as_held_and_is_reported_once(dead: bool) -> None:  # noqa: FBT001
    tale = story()
    odd = owned(tale, "", "", fault="it has 2 owners", owner_gone=dead)
    tale.wakes().reads(odd)
    assert tale.asked(e.Report).message == "the lock counts as held: it has 2 owners"
    tale.sees(tale.relabelled(odd)).idles(60)
    assert not tale.all(e.Report)


def test_a_lock_of_an_earlier_process_of_the_same_pod_is_taken_over_at_once() -> None:
    tale = story().wakes()
    tale.reads(owned(tale, ME, "term-0"))
    assert "taking it over" in tale.asked(e.Report).message
    tale.writes().asked(e.Acquired)


def test_a_candidate_whose_own_pod_is_gone_gives_up() -> None:
    tale = story().wakes()
    assert tale.reads(owned(tale, ME, "term-0", owner_gone=True)).asked(e.AcquireFailed).status == 125
    assert not tale.requests
    tale = story().wakes()
    assert tale.fails(Kind.PERMANENT).asked(e.AcquireFailed).status == 125


def test_a_candidate_that_loses_the_race_to_create_the_lock_reads_it() -> None:
    tale = story().wakes().reads(None).fails(Kind.CONFLICT)
    tale.reads(owned(tale))
    tale.asked(e.Watch)
    tale.idles(60)


def test_an_event_of_the_owners_pod_repeats_no_write_over_an_outdated_version() -> None:
    tale = story()
    tale.follows(owned(tale)).sees(dead := owned(tale, owner_gone=True)).fails(Kind.CONFLICT)
    tale.sees(replace(dead, owner_gone=False))
    tale.asked(e.Get)
    tale.reads(owned(tale, "third")).idles(60)


def test_a_conflict_that_the_watch_explains_is_followed_by_no_read() -> None:
    tale = story()
    tale.follows(owned(tale)).sees(owned(tale, owner_gone=True)).fails(Kind.CONFLICT)
    tale.sees(owned(tale, "third")).idles(60)


# --- answers that never came


def test_an_acquiring_write_without_a_response_begins_a_term_once_read() -> None:
    tale = story().wakes().reads(None)
    landed = tale.landed()
    tale.fails(Kind.UNREACHABLE)
    assert not tale.all(e.Acquired)
    assert tale.reads(landed).asked(e.Acquired).token == landed.version


def test_an_acquiring_write_of_a_deleted_pod_begins_no_term() -> None:
    """No other candidate takes that for held, and the garbage collector deletes it."""
    tale = story().wakes().reads(None)
    landed = tale.landed()
    tale.fails(Kind.UNREACHABLE).reads(replace(landed, owner_gone=True))
    assert not tale.all(e.Acquired)
    assert tale.asked(e.Write).record.holder == ""
    assert tale.writes().asked(e.AcquireFailed).status == 125


def test_a_watch_event_alone_begins_no_term() -> None:
    """A duplicate of an earlier write may have made it; a read shows how it is now."""
    tale = story()
    tale.follows(owned(tale)).sees(owned(tale, ME, TERM))
    assert not tale.all(e.Acquired)
    tale.reads(owned(tale, ME, TERM)).asked(e.Acquired)


def test_a_response_older_than_the_last_watch_event_is_followed_by_a_read() -> None:
    tale = story()
    tale.follows(owned(tale)).sees(None)
    landed = tale.landed()
    write = tale.pending(e.Write)
    tale.sees(owned(tale, "third")).tell(e.WriteDone(write, landed))
    assert not tale.all(e.Acquired)
    tale.reads(owned(tale, "third")).idles(60)
    assert tale.state.phase is Phase.FOLLOWING


@pytest.mark.parametrize("lie", ["no-op", "another's"])
def test_an_answer_that_does_not_show_the_write_begins_no_term(lie: str) -> None:
    tale = story()
    tale.follows(owned(tale)).sees(dead := owned(tale, owner_gone=True))
    write, landed = tale.pending(e.Write), tale.landed()
    answer = replace(landed, version=dead.version) if lie == "no-op" else replace(landed, owned_by_me=False)
    tale.tell(e.WriteDone(write, answer))
    assert not tale.all(e.Acquired)
    tale.pending(e.Get)


# --- losing it


def sights(tale: Story) -> dict[str, Observed | None]:
    """What a leader may see that ends its term."""
    return {
        "gone": None,
        "another's": owned(tale, "other"),
        "another incarnation's": owned(tale, ME, "term-2"),
        "nobody's": Observed(Record(), "", tale.version()),
        "nobody can tell whose": owned(tale, "", "", fault="it has 2 owners"),
        "one's own, who is gone": owned(tale, ME, TERM, owner_gone=True),
    }


@pytest.mark.parametrize("sight", sights(story()))
def test_a_leader_whose_lock_or_pod_is_gone_or_replaced_has_lost_without_grace(sight: str) -> None:
    tale = story().leads()
    tale.sees(sights(tale)[sight])
    assert tale.asked(e.Lost).kill_now
    assert tale.state.phase is Phase.LOST
    assert tale.waits(60).actions == []


@pytest.mark.parametrize("sight", sights(story()))
def test_a_read_ends_a_term_as_a_watch_event_does(sight: str) -> None:
    tale = story().leads().tell(e.WatchEnded("reset", begun=False)).waits(2)
    if (seen := sights(tale)[sight]) is None:
        tale.fails(Kind.MISSING)
    else:
        tale.reads(seen)
    assert tale.asked(e.Lost).kill_now


@pytest.mark.parametrize("first", sights(story()))
@pytest.mark.parametrize("later", sights(story()))
def test_an_observation_after_a_loss_does_not_disarm_the_elector(first: str, later: str) -> None:
    """The supervisor is emptying the tree, and may need to be struck."""
    tale = story(live=True).leads()
    seen = sights(tale)
    assert tale.sees(seen[first]).sees(seen[later]).actions == []
    assert tale.state.phase is Phase.LOST


def test_a_leader_whose_pod_is_reported_gone_has_lost() -> None:
    tale = story().leads().tell(e.WatchEnded("reset", begun=False)).waits(2).fails(Kind.PERMANENT)
    assert tale.asked(e.Lost).kill_now


def test_an_unreadable_pod_ends_no_term_and_is_reported_once() -> None:
    tale = story().leads()
    unsure = owned(tale, ME, TERM, fault="the Pod me may not be read")
    assert tale.sees(unsure).asked(e.Report).message == unsure.fault
    assert tale.sees(tale.relabelled(unsure)).actions == []
    assert tale.state.phase is Phase.LEADING


@pytest.mark.parametrize("kind", [Kind.UNREACHABLE, Kind.DENIED, Kind.THROTTLED, Kind.REFUSED])
def test_a_leader_that_cannot_read_leads_on_and_retries_each_period(kind: Kind) -> None:
    tale = story().leads().waits(10).tell(e.WatchEnded("reset"))
    times = []
    while tale.now < START + 3600:
        if isinstance(tale.state.pending, e.Get):
            times.append(tale.now)
            tale.fails(kind, retry_after=30)
            assert not tale.all(e.Lost)
        else:
            tale.waits(tale.state.wake_at - tale.now)
    assert tale.state.phase is Phase.LEADING
    assert min(later - earlier for earlier, later in pairwise(times[1:])) >= 1.8
    tale.waits(2).reads(tale.state.observed).asked(e.Watch)


def test_a_leader_that_may_not_watch_reads_once_in_a_retry_period() -> None:
    tale = story().leads().tell(e.WatchEnded("forbidden", denied=True, begun=False))
    assert "polling instead" in tale.asked(e.Report).message
    for _ in range(20):
        tale.idles(1.9)
        tale.waits(0.1).asked(e.Get)
        tale.reads(tale.state.observed)
        assert not tale.all(e.Watch)


def test_a_supervisor_that_does_not_answer_loses_the_term_without_grace() -> None:
    """There is no deadline at which it would be killed otherwise."""
    assert story().leads().tell(e.SupervisorUnresponsive("silent")).asked(e.Lost).kill_now


# --- an elector that replaces another


def test_a_replacement_elector_reads_first_and_leads_on_without_a_write() -> None:
    tale = Story(resumed(candidate(non_expiring=True), inf, acquired=5, transitions=0))
    tale.wakes().reads(owned(tale, ME, TERM))
    tale.asked(e.Watch)
    assert not tale.all(e.Acquired)
    tale.idles(200)
    assert tale.state.phase is Phase.LEADING


def test_a_replacement_elector_that_cannot_read_leads_on() -> None:
    tale = Story(resumed(candidate(non_expiring=True), inf, acquired=5, transitions=0)).wakes()
    tale.fails(Kind.UNREACHABLE).fails(Kind.UNREACHABLE).waits(600)
    assert tale.state.phase is Phase.LEADING


def test_a_replacement_elector_finds_its_predecessors_acquisition() -> None:
    tale = Story(resume_waiting(candidate(non_expiring=True), TERM, START)).wakes()
    tale.reads(owned(tale, ME, TERM)).asked(e.Acquired)


# --- polling


def test_a_candidate_without_watch_permission_polls_with_growing_pauses() -> None:
    tale = story()
    tale.follows(owned(tale)).tell(e.WatchEnded("forbidden", denied=True, begun=False))
    for pause in (1, 2, 4, 8, 16, 16, 16):
        tale.idles(pause - 0.1)
        tale.waits(0.1).asked(e.Get)
        tale.reads(tale.state.observed)


def test_the_pauses_between_polls_are_spread_by_up_to_a_fifth() -> None:
    tale = story()
    tale.follows(owned(tale))
    tale.luck = 0.99
    tale.tell(e.WatchEnded("forbidden", denied=True, begun=False)).idles(1.15)
    tale.waits(0.05).asked(e.Get)


def test_a_watch_whose_objects_have_changed_is_followed_by_a_silent_read() -> None:
    tale = story()
    tale.follows(owned(tale)).tell(e.WatchEnded("another owner", moved=True))
    tale.asked(e.Get)
    assert not tale.all(e.Report)


# --- giving up


def test_no_wait_tries_once() -> None:
    tale = story(one_try=True).wakes()
    give_up = tale.reads(owned(tale)).asked(e.AcquireFailed)
    assert give_up.status == 124
    assert give_up.reason == "held by other, watched unchanged for 0s; it has the lock until it is gone"


def test_no_wait_at_a_lock_that_no_pod_owns_warns_and_fails() -> None:
    tale = story(one_try=True).wakes()
    give_up = tale.reads(owned(tale, fault="it has no owner")).asked(e.AcquireFailed)
    assert give_up == e.AcquireFailed("the lock counts as held: it has no owner", 124)
    assert tale.asked(e.Report) == e.Report("lock_malformed", "the lock counts as held: it has no owner")


def test_the_end_of_wait_names_the_owner() -> None:
    tale = story(wait_until=START + 30)
    tale.follows(owned(tale))
    assert "held by other, watched unchanged for 30s" in tale.waits(30).asked(e.AcquireFailed).reason


def test_wait_live_gives_up_on_a_living_owner_and_takes_a_free_lock() -> None:
    tale = story(live=True).wakes()
    assert tale.reads(owned(tale)).asked(e.AcquireFailed) == e.AcquireFailed("held by other, which is there", 124)
    tale = story(live=True).wakes()
    tale.reads(owned(tale, owner_gone=True)).writes().asked(e.Acquired)


def test_wait_live_waits_while_the_owner_is_unknown() -> None:
    tale = story(live=True).wakes()
    tale.reads(owned(tale, "", "", fault="it has 2 owners")).idles(60)
    tale.sees(None).writes().asked(e.Acquired)


# --- releasing


def test_a_lock_for_life_is_released_only_on_request() -> None:
    tale = story().leads().tell(e.AllProcessesExited(release=False))
    assert tale.asked(e.Released) == e.Released(released=False, why="asked not to")
    assert not tale.requests


def test_a_release_is_written_over_the_observed_version() -> None:
    tale = story().leads()
    seen = tale.state.observed
    write = tale.tell(e.AllProcessesExited(release=True)).asked(e.Write)
    assert (write.base, write.record.holder, write.incarnation) == (seen, "", "")
    assert tale.writes().asked(e.Released).released


def test_a_release_without_a_response_is_read() -> None:
    tale = story().leads().tell(e.AllProcessesExited(release=True)).fails(Kind.UNREACHABLE)
    assert tale.fails(Kind.MISSING).asked(e.Released).released


def test_an_acquisition_without_a_term_is_released_without_a_request() -> None:
    """It would last: no other Pod could lead until this Pod is gone."""
    tale = story().wakes().reads(None)
    landed = tale.landed()
    tale.fails(Kind.UNREACHABLE).tell(e.AllProcessesExited(release=False))
    tale.reads(landed) if isinstance(tale.state.pending, e.Get) else None
    assert tale.asked(e.Write).record.holder == ""
    assert tale.writes().asked(e.Released).released


def test_a_lost_lock_is_not_released() -> None:
    tale = story().leads()
    tale.sees(None).tell(e.AllProcessesExited(release=True))
    assert not tale.requests


def test_a_new_candidacy_after_a_loss_takes_a_free_lock() -> None:
    tale = story().leads()
    tale.sees(None).tell(e.Restart("term-2")).reads(None)
    assert tale.asked(e.Write).incarnation == "term-2"
    tale.writes().asked(e.Acquired)
