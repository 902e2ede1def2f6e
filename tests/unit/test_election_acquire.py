"""Acquiring: client-go's behaviours, and where the promise departs from them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from kleader.election import events as e
from kleader.election.events import Kind, Observed
from kleader.election.record import SECOND, Record
from kleader.election.state import Phase, resume_waiting
from kleader.exits import FAILED
from tests.support.election import ME, START, TERM, WALL, Story, candidate

if TYPE_CHECKING:
    from collections.abc import Callable

# --- client-go's own tests: tryAcquireOrRenew of one who does not lead


def test_a_missing_lock_is_created_without_transitions() -> None:
    write = Story().wakes().reads(None).asked(e.Write)
    assert (write.base, write.record, write.incarnation) == (None, Record(ME, 15, WALL, WALL, 0), TERM)


def test_a_lock_without_a_record_is_taken_as_the_first_transition() -> None:
    bare = Observed(Record(), version="7")
    write = Story().wakes().reads(bare).asked(e.Write)
    assert (write.base, write.record) == (bare, Record(ME, 15, WALL, WALL, 1))


def test_an_empty_holder_is_taken_at_once_though_its_record_was_just_written() -> None:
    story = Story()
    free = story.lock("", duration=15)
    write = story.wakes().reads(free).asked(e.Write)
    assert write.base is free
    assert write.record.transitions == free.record.transitions + 1


def test_a_held_lock_is_not_taken_at_its_first_read_whatever_its_times() -> None:
    story = Story()
    stale = story.lock("other", renewed=WALL - 3600 * SECOND, acquired=WALL - 7200 * SECOND)
    story.wakes().reads(stale).idles(14.9)


def test_a_held_lock_is_taken_when_its_own_duration_has_passed_unchanged() -> None:
    story = Story()
    held = story.lock("other", duration=40)
    story.wakes().reads(held).idles(39.9)
    write = story.waits(0.1).asked(e.Write)
    assert write.base is held
    assert (write.record.holder, write.record.duration, write.record.transitions) == (ME, 15, 4)
    assert write.record.acquired == story.wall


def test_each_observed_renewal_restarts_the_wait() -> None:
    story = Story().follows()
    for _ in range(5):
        story.idles(10)
        story.sees(story.lock("other"))
    story.idles(14.9)
    story.waits(0.1).asked(e.Write)


def test_a_watched_release_is_followed_by_a_write_without_a_read() -> None:
    story = Story().follows()
    free = story.lock("")
    assert story.sees(free).asked(e.Write).base is free


def test_an_answered_write_begins_a_term() -> None:
    story = Story()
    free = story.lock("")
    story.wakes().reads(free).writes(after=0.25)
    lead = story.asked(e.Acquired)
    assert (lead.stop_at, lead.kill_at) == (START + 10, START + 15 - 0.5 - 1.5)
    assert (lead.token, lead.transitions, lead.acquired) == (story.state.observed.version, 4, WALL)  # type: ignore[union-attr]
    assert story.state.phase is Phase.LEADING


def test_each_new_leader_is_reported_once_and_a_free_lock_never() -> None:
    story = Story()
    first = story.lock("a")
    story.wakes().reads(first)
    told = [story.asked(e.NewLeader).leader]
    for holder in ("a", "", "b", "b"):
        told += [action.leader for action in story.sees(story.lock(holder)).all(e.NewLeader)]
        if story.state.pending:
            story.fails(Kind.CONFLICT)
    assert told == ["a", "b"]


# --- two stamps


def test_a_term_counts_from_before_its_request_was_sent() -> None:
    story = Story().wakes().reads(None)
    assert story.writes(after=4.0).asked(e.Acquired).stop_at == START + 10


def test_another_holders_record_counts_from_the_arrival_of_its_response() -> None:
    story = Story().wakes()
    story.now += 4
    story.reads(story.lock("other")).idles(14.9)
    story.waits(0.1).asked(e.Write)


def test_a_write_answered_after_its_renew_deadline_begins_no_term() -> None:
    """Its record is observed like any other."""
    story = Story().wakes().reads(None)
    landed = story.landed()
    story.writes(after=10).asked(e.Get)
    assert not story.all(e.Acquired)
    story.reads(landed).idles(14.9)
    assert story.waits(0.1).writes(after=0.1).asked(e.Acquired).stop_at == START + 35


# --- a write whose answer never came


def test_a_holder_by_a_lost_response_leads_by_a_fresh_write_after_a_lease_duration() -> None:
    """What it finds may have been put back over another leader; its transition is counted already."""
    story = Story().wakes().reads(None)
    landed = story.landed()
    story.fails(Kind.UNREACHABLE, after=5)
    story.reads(landed).idles(14.9)
    write = story.waits(0.1).asked(e.Write)
    assert write.base is landed
    assert write.record.transitions == landed.record.transitions
    assert write.record.acquired == landed.record.acquired
    lead = story.writes().asked(e.Acquired)
    assert lead.stop_at == START + 20 + 10
    assert lead.token == story.state.observed.version  # type: ignore[union-attr]


def test_a_lost_write_is_read_before_its_watch_event_counts() -> None:
    story = Story().follows()
    story.sees(story.lock(""))
    landed = story.landed()
    story.sees(landed)
    assert not story.actions, "the answer is still to come"
    story.fails(Kind.UNREACHABLE).asked(e.Get)
    story.reads(landed).idles(14.9)
    assert story.waits(0.1).asked(e.Write).base is landed


def test_a_watch_event_of_a_pending_write_changes_nothing_before_its_response() -> None:
    story = Story().follows()
    story.sees(story.lock(""))
    landed = story.landed()
    story.sees(landed).tell(e.WriteDone(story.pending(e.Write), landed)).asked(e.Acquired)


def test_a_late_watch_event_of_the_overwritten_version_is_ignored() -> None:
    story = Story().follows()
    free = story.lock("")
    story.sees(free).fails(Kind.UNREACHABLE).reads(free)
    story.sees(replace(free)).writes().asked(e.Acquired)


def test_a_write_that_did_not_arrive_is_sent_again() -> None:
    story = Story()
    free = story.lock("")
    story.wakes().reads(free).fails(Kind.UNREACHABLE)
    story.asked(e.Get)
    assert story.reads(free).asked(e.Write).base is free


def test_a_response_begins_no_term_after_the_watch_has_shown_another_holder() -> None:
    story = Story().follows()
    story.sees(story.lock(""))
    landed = story.landed()
    story.sees(story.lock("edited-by-hand"))
    story.tell(e.WriteDone(story.pending(e.Write), landed))
    assert not story.all(e.Acquired)
    story.asked(e.Get)
    story.reads(story.lock("edited-by-hand")).idles(14.9)


WRONG_ANSWERS: dict[str, Callable[[Observed, Observed], Observed]] = {
    "the version that was sent": lambda right, base: replace(right, version=base.version),
    "no version": lambda right, _: replace(right, version=""),
    "another incarnation": lambda right, _: replace(right, incarnation="term-2"),
    "no incarnation": lambda right, _: replace(right, incarnation=""),
    "another holder": lambda right, _: replace(right, record=replace(right.record, holder="other")),
    "another renewTime": lambda right, _: replace(right, record=replace(right.record, renewed=WALL)),
    "another duration": lambda right, _: replace(right, record=replace(right.record, duration=5)),
    "a malformed record": lambda right, _: replace(right, fault="spec.acquireTime is not a time"),
}


@pytest.mark.parametrize("wrong", WRONG_ANSWERS.values(), ids=WRONG_ANSWERS)
def test_a_response_that_does_not_show_the_write_counts_as_lost(
    wrong: Callable[[Observed, Observed], Observed],
) -> None:
    story = Story()
    free = story.lock("")
    story.wakes().reads(free)
    story.tell(e.WriteDone(story.pending(e.Write), wrong(story.landed(), free)))
    assert not story.all(e.Acquired)
    story.asked(e.Get)


# --- mine means identity and incarnation


@pytest.mark.parametrize("incarnation", ["term-0", ""])
def test_the_candidates_identity_with_another_incarnation_is_another_holder(incarnation: str) -> None:
    story = Story()
    story.wakes().reads(story.lock(ME, incarnation)).idles(14.9)
    assert story.waits(0.1).asked(e.Write).record.transitions == 4


def test_a_record_of_the_previous_elector_is_another_holders() -> None:
    story = Story(resume_waiting(candidate(), "term-1.1", START))
    story.wakes().reads(story.lock(ME, TERM)).idles(14.9)
    story.waits(0.1).writes().asked(e.Acquired)


# --- renewTime


def test_a_renew_time_is_at_least_a_second_later_than_the_last() -> None:
    story = Story()
    ahead = story.lock("", renewed=WALL + 30 * SECOND)
    assert story.wakes().reads(ahead).asked(e.Write).record.renewed == WALL + 31 * SECOND


# --- conflicts


def test_a_conflict_that_the_watch_does_not_explain_is_read_after_a_retry_period() -> None:
    story = Story().follows().waits(15)
    story.fails(Kind.CONFLICT)
    story.idles(1.9)
    story.waits(0.1).asked(e.Get)
    story.reads(story.lock("other"))
    assert story.asked(e.Watch).after == story.state.observed, "the old one may be deaf"


def test_a_candidate_that_loses_a_race_sends_no_request_until_the_winner_expires() -> None:
    story = Story().follows()
    story.sees(story.lock("")).fails(Kind.CONFLICT)
    story.sees(story.lock("winner")).idles(14.9)


@pytest.mark.parametrize(("races", "pause"), [(3, 0.0), (4, 0.9)])
def test_a_candidate_spreads_its_tries_once_it_has_lost_four_races_in_a_row(races: int, pause: float) -> None:
    """Few candidates do not wait for each other; many do not all ask the API server at once."""
    story = Story().follows()
    story.luck = 0.9  # of a second
    for number in range(1, races):  # the leader that it follows has won the first
        story.waits(1).sees(story.lock("")).sees(story.lock(f"winner-{number}")).fails(Kind.CONFLICT)
    story.waits(1).sees(story.lock(""))
    if pause:
        assert not story.requests
        story.waits(pause)
    story.asked(e.Write)


def test_a_conflict_with_a_label_is_written_again_at_once_without_a_new_wait() -> None:
    story = Story()
    held = story.lock("other")
    story.follows(held).waits(15)
    story.fails(Kind.CONFLICT)
    labelled = story.relabelled(held)
    assert story.sees(labelled).asked(e.Write).base is labelled


def test_a_label_does_not_restart_the_wait() -> None:
    story = Story()
    held = story.lock("other")
    story.follows(held).waits(10)
    labelled = story.relabelled(held)
    story.sees(labelled).idles(4.9)
    assert story.waits(0.1).asked(e.Write).base is labelled


def test_a_conflict_that_the_watch_has_explained_needs_no_read() -> None:
    story = Story().follows()
    story.sees(story.lock(""))
    story.sees(story.lock("winner")).fails(Kind.CONFLICT)
    story.idles(14.9)


def test_an_unexplained_conflict_stops_no_candidate_for_ever() -> None:
    """The same version twice counts: a proxy may have sent the write twice, an admission webhook have refused it."""
    story = Story()
    free = story.lock("")
    story.wakes().reads(free).fails(Kind.CONFLICT).reads(free)
    assert not story.all(e.Write)
    story.waits(2).asked(e.Get)
    assert story.reads(free).asked(e.Write).base is free


def test_conflicts_without_end_do_not_spin() -> None:
    story = Story()
    free = story.lock("")
    story.wakes()
    asked = 0
    while story.now < START + 60:
        asked += len(story.requests)
        if isinstance(story.state.pending, e.Get):
            story.reads(free)
        elif story.state.pending:
            story.fails(Kind.CONFLICT)
        else:
            story.waits(story.state.wake_at - story.now)
        assert asked < 60 * 12


def test_a_multilock_watch_event_before_a_failed_write_is_read_again() -> None:
    """It may be this write's own change of the first object: no candidate would ever observe both as they are."""
    story = Story(is_multilock=True).follows().waits(15)
    story.sees(story.lock("other")).fails(Kind.CONFLICT)
    story.asked(e.Unwatch)
    story.asked(e.Get)


def test_a_multilock_whose_watch_has_ended_is_read_before_the_next_write() -> None:
    story = Story(is_multilock=True).follows().waits(15).fails(Kind.THROTTLED, retry_after=8)
    story.idles(7.9)
    story.waits(1).asked(e.Get)


def test_a_candidate_that_may_write_only_one_object_of_a_multilock_ends() -> None:
    """A half done write restarts the wait of the others: the first to try would keep every candidate from the lock."""
    story = Story(is_multilock=True).follows().waits(15).fails(Kind.DENIED, partly_done=True)
    assert story.asked(e.AcquireFailed).status == FAILED


def test_a_candidate_that_may_write_no_object_of_a_multilock_keeps_trying() -> None:
    story = Story(is_multilock=True).follows().waits(15).fails(Kind.DENIED)
    story.waits(5).asked(e.Get)
