"""Acquiring: client-go's behaviours, and where the promise departs from them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from kleader.election import events as e
from kleader.election.events import Kind, Observed
from kleader.election.record import SECOND, Record
from kleader.election.state import Phase, resume_waiting
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


def test_a_held_lock_is_not_taken_when_first_seen_however_old_its_times_are() -> None:
    story = Story()
    stale = story.lock("other", renewed=WALL - 3600 * SECOND, acquired=WALL - 7200 * SECOND)
    assert story.wakes().reads(stale).waits(14.9).requests == []


def test_a_held_lock_is_taken_when_its_own_duration_has_passed_unchanged() -> None:
    story = Story()
    held = story.lock("other", duration=40)
    assert story.wakes().reads(held).waits(39.9).requests == []
    write = story.waits(0.1).asked(e.Write)
    assert write.base is held
    assert (write.record.holder, write.record.duration, write.record.transitions) == (ME, 15, 4)
    assert write.record.acquired == story.wall


def test_each_renewal_seen_starts_the_wait_anew() -> None:
    story = Story().follows()
    for _ in range(5):
        assert story.waits(10).requests == []
        story.sees(story.lock("other"))
    assert story.waits(14.9).requests == []
    story.waits(0.1).asked(e.Write)


def test_a_lock_freed_under_watch_is_taken_at_once_on_the_very_object_watched_without_a_read() -> None:
    story = Story().follows()
    free = story.lock("")
    assert story.sees(free).asked(e.Write).base is free


def test_a_write_that_is_answered_makes_a_leader() -> None:
    story = Story()
    free = story.lock("")
    story.wakes().reads(free).writes(after=0.25)
    lead = story.asked(e.Lead)
    assert (lead.stop_at, lead.kill_at) == (START + 10, START + 15 - 0.5 - 1.5)
    assert (lead.token, lead.transitions, lead.acquired) == (story.state.seen.version, 4, WALL)  # type: ignore[union-attr]
    assert story.state.phase is Phase.LEADING


def test_the_leader_is_told_of_once_for_each_change_and_never_when_the_lock_is_free() -> None:
    story = Story()
    first = story.lock("a")
    story.wakes().reads(first)
    told = [story.asked(e.Observe).leader]
    for holder in ("a", "", "b", "b"):
        told += [action.leader for action in story.sees(story.lock(holder)).all(e.Observe)]
        if story.state.pending:
            story.fails(Kind.CONFLICT)
    assert told == ["a", "b"]


# --- two stamps


def test_a_term_counts_from_before_its_request_was_sent() -> None:
    story = Story().wakes().reads(None)
    assert story.writes(after=4.0).asked(e.Lead).stop_at == START + 10


def test_anothers_record_counts_from_after_its_answer_arrived() -> None:
    story = Story().wakes()
    story.now += 4
    assert story.reads(story.lock("other")).waits(14.9).requests == []
    story.waits(0.1).asked(e.Write)


def test_a_write_answered_after_its_own_renew_deadline_starts_nothing_but_a_fresh_write() -> None:
    story = Story().wakes().reads(None).writes(after=10)
    assert not story.all(e.Lead)
    story.asked(e.Write)
    assert story.writes(after=0.1).asked(e.Lead).stop_at == START + 20


# --- a write whose answer never came


def test_a_holder_by_a_lost_answer_leads_only_after_a_fresh_write_and_from_that_one() -> None:
    story = Story().wakes().reads(None)
    landed = story.landed()
    story.fails(Kind.UNREACHABLE, after=5)
    story.reads(landed)
    assert not story.all(e.Lead)
    write = story.asked(e.Write)
    assert write.base is landed
    assert write.record.transitions == landed.record.transitions, "its transition is counted already"
    assert write.record.acquired == landed.record.acquired
    lead = story.writes().asked(e.Lead)
    assert lead.stop_at == START + 5 + 10
    assert lead.token == story.state.seen.version  # type: ignore[union-attr]


def test_the_watch_may_be_the_one_to_tell_that_a_lost_write_has_happened() -> None:
    story = Story().follows()
    story.sees(story.lock(""))
    landed = story.landed()
    story.sees(landed)
    assert not story.actions, "the answer is still to come"
    story.fails(Kind.UNREACHABLE)
    assert story.asked(e.Write).base is landed


def test_the_event_of_the_write_under_way_changes_nothing_when_its_answer_follows() -> None:
    story = Story().follows()
    story.sees(story.lock(""))
    landed = story.landed()
    story.sees(landed).tell(e.Wrote(story.pending(e.Write), landed)).asked(e.Lead)


def test_a_lost_write_that_did_not_happen_is_made_again() -> None:
    story = Story()
    free = story.lock("")
    story.wakes().reads(free).fails(Kind.UNREACHABLE)
    story.asked(e.Get)
    assert story.reads(free).asked(e.Write).base is free


def test_a_write_is_a_fresh_one_when_the_watch_has_shown_another_holder_before_its_answer() -> None:
    story = Story().follows()
    story.sees(story.lock(""))
    landed = story.landed()
    story.sees(story.lock("edited-by-hand"))
    story.tell(e.Wrote(story.pending(e.Write), landed))
    assert not story.all(e.Lead)
    assert story.asked(e.Write).base is landed
    assert not story.fails(Kind.CONFLICT).requests


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
def test_an_answer_that_does_not_show_the_very_write_is_a_lost_one(
    wrong: Callable[[Observed, Observed], Observed],
) -> None:
    story = Story()
    free = story.lock("")
    story.wakes().reads(free)
    story.tell(e.Wrote(story.pending(e.Write), wrong(story.landed(), free)))
    assert not story.all(e.Lead)
    story.asked(e.Get)


# --- mine means identity and incarnation


@pytest.mark.parametrize("incarnation", ["term-0", ""])
def test_ones_own_identity_under_another_incarnation_is_somebody_else(incarnation: str) -> None:
    story = Story()
    assert story.wakes().reads(story.lock(ME, incarnation)).waits(14.9).requests == []
    assert story.waits(0.1).asked(e.Write).record.transitions == 4


def test_ones_own_lock_is_renewed_without_a_transition() -> None:
    story = Story(resume_waiting(candidate(), TERM))
    own = story.lock(ME, TERM)
    write = story.wakes().reads(own).asked(e.Write)
    assert write.record == replace(own.record, renewed=own.record.renewed + SECOND)  # type: ignore[operator]


# --- renewTime


def test_a_renew_time_is_a_second_after_the_one_it_replaces_where_the_clock_does_not_give_it() -> None:
    story = Story()
    ahead = story.lock("", renewed=WALL + 30 * SECOND)
    assert story.wakes().reads(ahead).asked(e.Write).record.renewed == WALL + 31 * SECOND


# --- gone is not free


def test_a_lock_seen_held_and_then_deleted_is_created_only_after_the_holders_duration() -> None:
    story = Story().follows(Story().lock("other", duration=40))
    story.waits(30).sees(None)
    assert "waiting 40s" in story.asked(e.Report).message
    assert story.waits(39.9).requests == []
    write = story.waits(0.1).asked(e.Write)
    assert (write.base, write.record.transitions) == (None, 0)


def test_a_shorter_duration_on_a_vanished_lock_does_not_shorten_the_wait_below_ones_own() -> None:
    """A holder that was not seen could have taken it meanwhile."""
    story = Story().follows()
    free = story.lock("")
    story.sees(free).fails(Kind.THROTTLED, retry_after=3)
    assert story.sees(None).waits(14.9).requests == []
    assert story.waits(0.1).asked(e.Write).base is None


def test_a_wait_for_a_vanished_lock_is_not_started_anew_by_reading_again_that_it_is_missing() -> None:
    story = Story().follows().sees(None)
    story.waits(4).tell(e.WatchEnded("the connection was reset"))
    story.asked(e.Get)
    assert story.reads(None).waits(10.9).requests == []
    story.waits(0.1).asked(e.Write)


def test_a_vanished_lock_that_its_leader_recreates_is_held() -> None:
    story = Story().follows().sees(None).waits(3)
    assert story.sees(story.lock("other")).waits(14.9).requests == []


def test_a_lock_that_vanished_under_the_write_is_not_free() -> None:
    story = Story().follows().waits(15)
    story.fails(Kind.MISSING)
    story.asked(e.Get)
    assert story.reads(None).waits(14.9).requests == []
    assert story.waits(0.1).asked(e.Write).base is None


def test_a_lock_that_somebody_created_first_and_that_vanished_is_not_free() -> None:
    story = Story().wakes().reads(None).fails(Kind.CONFLICT)
    story.asked(e.Get)
    assert story.reads(None).waits(14.9).requests == []
    assert story.waits(0.1).asked(e.Write).base is None


def test_the_successor_of_a_waiting_elector_does_not_take_a_missing_lock_for_free() -> None:
    story = Story(resume_waiting(candidate(), TERM)).wakes().reads(None)
    assert story.waits(14.9).requests == []
    assert story.waits(0.1).asked(e.Write).base is None


# --- conflicts


def test_a_conflict_unheard_of_by_the_watch_is_looked_into_after_a_retry_period() -> None:
    story = Story().follows().waits(15)
    story.fails(Kind.CONFLICT)
    assert story.waits(1.9).requests == []
    story.waits(0.1).asked(e.Get)
    story.reads(story.lock("other"))
    assert story.asked(e.Watch).version == story.state.seen.version, "the old one may be deaf"  # type: ignore[union-attr]


def test_who_loses_a_race_asks_for_nothing_more_until_the_winner_is_seen_to_stop() -> None:
    story = Story().follows()
    story.sees(story.lock("")).fails(Kind.CONFLICT)
    assert story.sees(story.lock("winner")).waits(14.9).requests == []


def test_a_conflict_that_was_a_label_takes_the_new_version_at_once_without_waiting_anew() -> None:
    story = Story()
    held = story.lock("other")
    story.follows(held).waits(15)
    story.fails(Kind.CONFLICT)
    labelled = story.relabelled(held)
    assert story.sees(labelled).asked(e.Write).base is labelled


def test_a_label_seen_while_waiting_does_not_start_the_wait_anew() -> None:
    story = Story()
    held = story.lock("other")
    story.follows(held).waits(10)
    labelled = story.relabelled(held)
    assert story.sees(labelled).waits(4.9).requests == []
    assert story.waits(0.1).asked(e.Write).base is labelled


def test_a_conflict_that_the_watch_has_explained_needs_no_read() -> None:
    story = Story().follows()
    story.sees(story.lock(""))
    story.sees(story.lock("winner")).fails(Kind.CONFLICT)
    assert story.waits(14.9).requests == []


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


# --- faults


def test_a_malformed_record_is_held_for_ever_and_the_error_says_why() -> None:
    story = Story()
    broken = Observed(Record(), "", "7", "the Lease default/x is malformed: spec.leaseDurationSeconds is -1")
    story.wakes().reads(broken)
    assert "leaseDurationSeconds is -1: the lock counts as held" in story.asked(e.Report).message
    story.waits(299)
    assert story.requests == []


def test_a_malformed_record_that_was_mended_is_taken() -> None:
    story = Story().follows(Observed(Record(), "", "7", "malformed"))
    story.sees(story.lock("")).asked(e.Write)


def test_a_candidate_honours_a_throttling_in_full() -> None:
    story = Story()
    free = story.lock("")
    story.wakes().reads(free).fails(Kind.THROTTLED, retry_after=20)
    assert story.waits(19.9).requests == []
    story.waits(0.1).asked(e.Get)


@pytest.mark.parametrize("kind", [Kind.DENIED, Kind.REFUSED, Kind.UNREACHABLE])
def test_a_failing_read_is_repeated_at_the_retry_period_and_told(kind: Kind) -> None:
    story = Story().wakes().fails(kind)
    assert story.asked(e.Report).message == f"it was {kind.value}"
    if kind is Kind.UNREACHABLE:  # maybe only a connection that had gone stale
        story.asked(e.Get)
        story.fails(kind)
    assert story.waits(1.9).requests == []
    story.waits(0.1).asked(e.Get)


def test_a_missing_permission_to_write_is_tried_again_at_the_retry_period() -> None:
    story = Story().wakes().reads(None).fails(Kind.DENIED)
    assert story.waits(1.9).requests == []
    assert story.waits(0.1).requests


# --- the watch


def test_a_waiting_candidate_asks_for_nothing_but_its_watch() -> None:
    story = Story()
    held = story.lock("other")
    story.follows(held)
    assert story.asked(e.Watch).version == held.version
    for _ in range(1000):
        assert story.waits(2).actions == []
        story.sees(story.lock("other"))


def test_a_watch_that_says_nothing_for_long_is_checked_and_begun_anew() -> None:
    story = Story().follows(Story().lock("other", duration=3600))
    assert story.waits(299.9).requests == []
    story.waits(0.1).asked(e.Get)
    story.reads(story.lock("other")).asked(e.Watch)


def test_a_watch_that_ends_after_a_while_is_begun_anew_from_a_fresh_read() -> None:
    story = Story().follows().waits(10)
    story.tell(e.WatchEnded("the server ended it")).asked(e.Get)
    assert not story.all(e.Report)
    again = story.lock("other")
    assert story.reads(again).asked(e.Watch).version == again.version


def test_a_watch_that_does_not_last_means_polling() -> None:
    story = Story().follows()
    for _ in range(5):
        story.tell(e.WatchEnded("410 Gone"))
        assert story.waits(1.9).requests == []
        story.waits(0.1).asked(e.Get)
        story.reads(story.lock("other")).asked(e.Watch)


def test_a_denied_watch_means_polling_as_client_go_does_with_its_jitter() -> None:
    story = Story().follows()
    story.luck = 0.5
    story.tell(e.WatchEnded("watch is forbidden", denied=True))
    assert story.asked(e.Report).message == "watch is forbidden; polling instead"
    for _ in range(5):
        assert story.waits(3.1).requests == []
        story.waits(0.1).asked(e.Get)
        story.reads(story.lock("other"))
        assert not story.all(e.Watch)


def test_a_poller_takes_a_dead_holders_lock_at_the_exact_instant() -> None:
    story = Story()
    held = story.lock("other")
    story.follows(held).tell(e.WatchEnded("denied", denied=True))
    while story.now + 2 < START + 15:
        story.waits(2).reads(held)
    assert story.waits(START + 15 - story.now).asked(e.Write).base is held


def test_an_answer_that_the_watch_has_overtaken_is_not_followed() -> None:
    story = Story().follows().waits(15)
    story.fails(Kind.CONFLICT).waits(2)
    old = story.lock("other")
    story.sees(story.lock("")).reads(old)
    assert story.asked(e.Write).base is not old


# --- giving up


def test_a_wait_that_is_over_tells_the_holder_its_age_and_the_wait_that_would_have_done() -> None:
    story = Story(wait_until=START + 8)
    story.follows(story.lock("other", renewed=WALL - 3 * SECOND))
    gave_up = story.waits(8).asked(e.GiveUp)
    assert gave_up.status == 124
    assert gave_up.reason == (
        "held by other, last renewed 11s ago by its own clock, watched unchanged for 8s;"
        " a wait of more than 15s takes it from a dead holder"
    )
    assert story.state.phase is Phase.OVER


def test_a_wait_is_over_in_time_though_a_read_is_unanswered() -> None:
    story = Story(wait_until=START + 3).wakes().waits(3)
    assert story.asked(e.GiveUp) == e.GiveUp("the API server has not answered in time", 125)


def test_a_wait_ends_with_125_when_the_lock_cannot_be_read() -> None:
    story = Story(wait_until=START + 3).wakes().fails(Kind.DENIED).waits(3)
    assert story.asked(e.GiveUp) == e.GiveUp("it was denied", 125)


def test_a_write_under_way_when_the_wait_ends_may_still_acquire() -> None:
    story = Story(wait_until=START + 1).wakes().reads(None)
    assert story.waits(2).actions == []
    story.writes().asked(e.Lead)


def test_who_gives_up_with_an_acquiring_write_unanswered_first_releases_what_may_be_its_own() -> None:
    story = Story(wait_until=START + 5)
    story.wakes().reads(story.lock(""))
    landed = story.landed()
    story.fails(Kind.UNREACHABLE, after=5)
    assert not story.all(e.GiveUp)
    story.asked(e.Get)
    write = story.reads(landed).asked(e.Write)
    assert (write.base, write.record.holder) == (landed, "")
    assert story.writes().asked(e.GiveUp).status == 125


def test_who_gives_up_in_doubt_tries_no_longer_than_one_request_may_take() -> None:
    story = Story(wait_until=START + 1).wakes().reads(None)
    story.fails(Kind.UNREACHABLE, after=2)
    assert story.asked(e.Get).timeout == 5
    story.fails(Kind.UNREACHABLE, after=5)
    story.asked(e.GiveUp)


def test_one_try_gives_up_on_a_held_lock_at_once() -> None:
    story = Story(one_try=True)
    story.wakes().reads(story.lock("other"))
    assert story.asked(e.GiveUp).status == 124
    assert story.requests == []
    assert not story.all(e.Watch)


def test_one_try_takes_a_free_lock() -> None:
    story = Story(one_try=True)
    story.wakes().reads(story.lock("")).writes().asked(e.Lead)


def test_one_try_that_loses_its_race_gives_up() -> None:
    story = Story(one_try=True).wakes().reads(None).fails(Kind.CONFLICT)
    assert story.asked(e.GiveUp) == e.GiveUp("the lock could not be taken in time", 124)


def test_one_try_that_cannot_read_gives_up_with_125() -> None:
    assert Story(one_try=True).wakes().fails(Kind.UNREACHABLE).asked(e.GiveUp).status == 125


def test_one_try_counts_a_malformed_record_as_held() -> None:
    broken = Observed(Record(), "", "7", "spec.holderIdentity is not a string")
    gave_up = Story(one_try=True).wakes().reads(broken).asked(e.GiveUp)
    assert gave_up == e.GiveUp("the lock counts as held: spec.holderIdentity is not a string", 124)


def test_wait_live_gives_up_on_the_first_renewal_seen() -> None:
    story = Story(live=True).follows()
    gave_up = story.sees(story.lock("other", renewed=WALL + 2 * SECOND)).asked(e.GiveUp)
    assert gave_up == e.GiveUp("held by other, which is alive: it was seen to renew", 124)


def test_wait_live_does_not_take_a_label_for_a_renewal() -> None:
    story = Story(live=True)
    held = story.lock("other")
    assert not story.follows(held).sees(story.relabelled(held)).all(e.GiveUp)


def test_wait_live_takes_a_dead_holders_lock_at_expiry_and_a_freed_one_at_once() -> None:
    Story(live=True).follows().waits(15).asked(e.Write)
    story = Story(live=True).follows()
    story.sees(story.lock("")).asked(e.Write)


# --- a new candidacy


def test_a_new_candidacy_waits_out_what_the_last_one_left_behind() -> None:
    story = Story().leads()
    left = story.state.seen
    story.tell(e.Again("term-2"))
    story.asked(e.Get)
    assert story.reads(left).waits(14.9).requests == []
    write = story.waits(0.1).asked(e.Write)
    assert write.incarnation == "term-2"


def test_a_new_candidacy_does_not_take_a_missing_lock_for_free() -> None:
    story = Story().follows().tell(e.Again("term-2")).reads(None)
    assert story.waits(14.9).requests == []


def test_a_new_candidacy_ignores_the_answers_of_the_last_one() -> None:
    story = Story().wakes().reads(None)
    old = story.pending(e.Write)
    landed = story.landed()
    story.tell(e.Again("term-2"))
    assert story.tell(e.Wrote(old, landed)).actions == []


def test_a_new_candidacy_may_follow_an_end() -> None:
    story = Story().leads().tell(e.Emptied(release=True)).writes()
    assert story.asked(e.Done).released
    story.tell(e.Again("term-2", wait_until=story.now + 60)).asked(e.Get)
    story.reads(story.lock("")).writes().asked(e.Lead)
