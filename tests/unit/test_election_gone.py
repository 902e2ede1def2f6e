"""A lock that was seen and then vanished is not free; nor is what a last candidacy left behind."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kleader.election import events as e
from kleader.election.events import Kind, Observed
from kleader.election.record import UNKNOWN, Record
from kleader.election.state import Phase, resume_waiting
from tests.support.election import ME, TERM, Story, candidate

# --- gone is not free


def test_a_lock_seen_held_and_then_deleted_is_created_only_after_the_holders_duration() -> None:
    story = Story().follows(Story().lock("other", duration=40))
    story.waits(30).sees(None)
    assert "waiting 40s" in story.asked(e.Report).message
    story.idles(39.9)
    write = story.waits(0.1).asked(e.Write)
    assert (write.base, write.record.transitions) == (None, 0)


def test_a_lock_created_anew_makes_a_leader_only_after_a_lease_duration_and_a_fresh_write() -> None:
    """It may have been there and been deleted again just before, and its holder not have noticed."""
    story = Story().follows().sees(None).waits(15).writes()
    assert not story.all(e.Acquired)
    assert "waiting 15s" in story.asked(e.Report).message
    claim = story.state.seen
    assert story.waits(2).asked(e.Write).base is claim, "a claim is renewed, or it would run out"
    assert not story.writes().renews(12.9).all(e.Acquired)
    assert story.state.phase is Phase.FOLLOWING
    story.waits(0.1).writes().asked(e.Acquired)


def test_a_lock_found_to_be_ones_own_creation_makes_a_leader_no_sooner() -> None:
    story = Story().follows().sees(None).waits(15)
    landed = story.landed()
    story.fails(Kind.UNREACHABLE).asked(e.Get)
    story.reads(landed).renews(14.9)
    assert story.state.phase is Phase.FOLLOWING
    story.waits(0.1).writes().asked(e.Acquired)


def test_a_claim_that_somebody_takes_is_no_more() -> None:
    story = Story().follows().sees(None).waits(15).writes()
    story.sees(story.lock("other")).idles(14.9)


def test_a_claim_is_left_to_run_out_at_the_end() -> None:
    """An empty holder would say that all who led before are dead."""
    story = Story().follows().sees(None).waits(15).writes()
    assert not story.tell(e.AllProcessesExited(release=True)).asked(e.Released).released


def test_a_creation_whose_answer_is_lost_is_no_more_than_a_claim_at_the_end() -> None:
    story = Story().follows().sees(None).waits(15)
    landed = story.landed()
    story.tell(e.AllProcessesExited(release=True)).fails(Kind.UNREACHABLE).asked(e.Get)
    assert not story.reads(landed).asked(e.Released).released


def test_a_creation_that_is_done_after_the_end_is_no_more_than_a_claim() -> None:
    story = Story().follows().sees(None).waits(15).tell(e.AllProcessesExited(release=True)).writes()
    assert not story.asked(e.Released).released


def test_a_creation_at_the_end_is_no_more_than_a_claim_after_an_earlier_claim_that_somebody_took() -> None:
    story = Story().follows().sees(None).waits(15).writes()
    for _ in range(3):
        story.sees(story.lock("other")).waits(10)
    story.sees(None).waits(15).tell(e.AllProcessesExited(release=True)).writes()
    assert not story.asked(e.Released).released


def test_a_shorter_duration_on_a_vanished_lock_does_not_shorten_the_wait_below_ones_own() -> None:
    """A holder that was not seen could have taken it meanwhile."""
    story = Story().follows()
    free = story.lock("")
    story.sees(free).fails(Kind.THROTTLED, retry_after=3)
    story.sees(None).idles(14.9)
    assert story.waits(0.1).asked(e.Write).base is None


@pytest.mark.parametrize("shown", ["edited", "malformed", "half malformed", "named"])
def test_a_shorter_record_over_who_may_still_run_does_not_shorten_the_wait_for_a_vanished_lock(shown: str) -> None:
    """Neither one edited by hand, nor one that cannot be read any more, nor a naming by the control plane."""
    story = Story().follows(Story().lock("long", duration=60)).waits(1)
    short = {"edited": story.lock("long", duration=1), "malformed": replace(story.lock(), record=Record(), fault="0 s")}
    short["named"] = story.lock("named", duration=5, acquired=None)
    short["half malformed"] = replace(story.lock(""), fault="0 s")
    story.sees(short[shown]).waits(1).sees(None).idles(57.9)
    assert story.waits(1.1).asked(e.Write).base is None


def test_a_wait_for_a_vanished_lock_is_not_started_anew_by_reading_again_that_it_is_missing() -> None:
    story = Story().follows().sees(None)
    story.waits(4).tell(e.WatchEnded("the connection was reset"))
    story.asked(e.Get)
    story.reads(None).idles(10.9)
    story.waits(0.1).asked(e.Write)


def test_who_was_read_while_the_watch_told_of_one_before_is_waited_for_when_the_lock_is_gone_then() -> None:
    story = Story().follows(Story().lock("short", duration=5)).waits(5)
    story.fails(Kind.CONFLICT).waits(2)
    story.sees(story.lock("short", duration=5)).reads(story.lock("long", duration=60))
    story.tell(e.WatchEnded()).reads(None).idles(59.9)
    assert story.waits(0.1).asked(e.Write).base is None


def test_a_vanished_lock_that_its_leader_recreates_is_held() -> None:
    story = Story().follows().sees(None).waits(3)
    story.sees(story.lock("other")).idles(14.9)


@pytest.mark.parametrize("told", [True, False])
def test_a_vanished_lock_that_is_created_anew_without_a_record_is_not_free(*, told: bool) -> None:
    """Nobody has given it up: the control plane does so with the Endpoints of a Service, and a manifest with others."""
    story = Story().follows(Story().lock("other", duration=40)).waits(30)
    bare = Observed(Record(), version="900")
    if told:
        story.sees(None).sees(bare)
    else:
        story.tell(e.WatchEnded()).reads(bare)
    assert "waiting 40s" in story.asked(e.Report).message
    story.idles(39.9)
    assert story.waits(0.1).asked(e.Write).base is bare
    story.writes().asked(e.Acquired)


def test_one_that_was_created_anew_without_a_record_once_more_is_waited_for_anew() -> None:
    """Whoever had it in between may run; a conflict alone tells of it."""
    story = Story().follows().sees(None).sees(Observed(Record(), version="900")).waits(15)
    story.fails(Kind.CONFLICT).waits(2).reads(Observed(Record(), version="902"))
    story.idles(14.9)
    assert story.waits(0.1).asked(e.Write).base is not None


def test_a_lock_that_vanished_under_the_write_is_not_free() -> None:
    story = Story().follows().waits(15)
    story.fails(Kind.MISSING)
    story.asked(e.Get)
    story.reads(None).idles(14.9)
    assert story.waits(0.1).asked(e.Write).base is None


def test_a_lock_that_may_have_been_created_without_an_answer_and_is_not_there_makes_a_leader_no_sooner() -> None:
    """Another may have taken it when it ran out, and not have noticed that it was deleted."""
    story = Story().wakes().reads(None).fails(Kind.UNREACHABLE).waits(40).reads(None)
    assert story.pending(e.Write).base is None
    story.writes()
    assert not story.all(e.Acquired)
    assert "waiting 15s" in story.asked(e.Report).message


def test_a_lock_that_may_have_been_created_without_an_answer_and_has_no_record_by_then_is_not_free() -> None:
    """Likewise, where it was replaced rather than deleted."""
    story = Story().wakes().reads(None).fails(Kind.UNREACHABLE).waits(40).reads(Observed(Record(), version="900"))
    assert "waiting 15s" in story.asked(e.Report).message
    story.idles(14.9)
    story.waits(0.1).writes().asked(e.Acquired)


def test_a_lock_that_may_have_been_created_without_an_answer_and_is_anothers_is_not_had_sooner() -> None:
    """Likewise, where hands put a shorter record over whoever took it."""
    story = Story().wakes().reads(None).fails(Kind.UNREACHABLE).waits(8)
    story.reads(story.lock("nobody", duration=5)).idles(14.9)
    story.waits(0.1).writes().asked(e.Acquired)


def test_a_conflict_on_a_lock_without_a_record_is_waited_for_once() -> None:
    """It may be of who had it; but the control plane changes the Endpoints of a Service as often as it likes."""
    story = Story().wakes().reads(bare := Observed(Record(), version="900")).fails(Kind.CONFLICT).waits(2)
    story.reads(replace(bare, version="901")).idles(9)
    story.sees(replace(bare, version="902")).idles(5.9)
    story.waits(0.1).writes().asked(e.Acquired)


def test_a_lock_that_somebody_created_first_and_that_vanished_is_not_free() -> None:
    story = Story().wakes().reads(None).fails(Kind.CONFLICT)
    story.asked(e.Get)
    story.reads(None).idles(14.9)
    assert story.waits(0.1).asked(e.Write).base is None


def test_the_successor_of_a_waiting_elector_does_not_take_a_missing_lock_for_free() -> None:
    story = Story(resume_waiting(candidate(), TERM)).wakes().reads(None)
    story.idles(14.9)
    assert story.waits(0.1).asked(e.Write).base is None


def test_the_successor_of_a_waiting_elector_waits_for_as_long_as_its_predecessor_saw_the_lock_held() -> None:
    story = Story(resume_waiting(candidate(), TERM, held=60)).wakes().reads(None)
    story.idles(59.9)
    assert story.waits(0.1).asked(e.Write).base is None


def test_whoever_has_the_lock_by_then_does_not_shorten_that() -> None:
    """Who had it may run beside a holder that hands have let in."""
    story = Story(resume_waiting(candidate(), TERM, held=60)).waits(10).reads(Story().lock("other", duration=5))
    story.idles(59.9)
    assert story.waits(0.1).asked(e.Write).base is not None


def test_a_leader_has_nobody_to_wait_for_that_was_before_it() -> None:
    """Nor has who replaces its elector, or its next candidacy."""
    story = Story()
    story.follows(story.lock("other", duration=200)).waits(200).writes()
    story.asked(e.Acquired)
    assert (story.state.gone_wait, story.state.held_until) == (15, 0)


@pytest.mark.parametrize("taken", [True, False])
def test_who_was_before_one_that_was_named_by_a_leader_is_not_waited_for(*, taken: bool) -> None:
    """It is dead, as after a release; whether the one that was named has taken the lock or not."""
    story = Story().follows(Story().lock("other", duration=600))
    story.sees(replace(story.lock("next"), given=True))
    if taken:
        story.sees(story.lock("next", "of next"))
    story.idles(14.9)
    story.waits(0.1).asked(e.Write)


def test_whoever_gives_the_lock_up_by_then_does() -> None:
    """It has seen to it that all before are dead."""
    story = Story(resume_waiting(candidate(), TERM, held=60)).wakes().reads(Story().lock(""))
    assert story.asked(e.Write).base is not None


# --- half of a multilock is gone


def half_gone(story: Story) -> Story:
    """It was held, and one of its two objects is missing now; the other is as it was."""
    return story.sees(replace(story.lock("other"), torn=True, gone=True))


def test_half_a_lock_created_anew_makes_a_leader_only_after_a_lease_duration_and_a_fresh_write() -> None:
    """It may have been there and been deleted again just before, by who keeps to the missing object alone."""
    story = half_gone(Story().follows()).waits(15)
    assert story.pending(e.Write).base is not None
    story.writes(created=True)
    assert not story.all(e.Acquired)
    assert "waiting 15s" in story.asked(e.Report).message
    story.waits(2).writes().renews(12.9)
    assert story.state.phase is Phase.FOLLOWING
    story.waits(0.1).writes().asked(e.Acquired)


def test_half_a_lock_found_to_be_ones_own_creation_makes_a_leader_no_sooner() -> None:
    story = half_gone(Story().follows()).waits(15)
    landed = story.landed(created=True)
    story.fails(Kind.UNREACHABLE).asked(e.Get)
    story.reads(landed).renews(14.9)
    assert story.state.phase is Phase.FOLLOWING
    story.waits(0.1).writes().asked(e.Acquired)


def test_half_a_claim_that_is_deleted_and_created_anew_is_waited_out_anew() -> None:
    story = half_gone(Story().follows()).waits(15).writes(created=True)
    mine = story.state.seen
    assert mine
    story.waits(2).writes().sees(replace(story.relabelled(mine), torn=True, gone=True)).waits(15)
    assert "waiting 15s" in story.writes(created=True).asked(e.Report).message
    assert not story.all(e.Write)


@pytest.mark.parametrize("told", [True, False])
def test_half_a_lock_that_was_held_and_deleted_under_the_write_makes_a_leader_no_sooner(*, told: bool) -> None:
    """Its first half was written when the second, which had never been there, was another's; then that was created."""
    story = Story(twofold=True).follows()
    story.sees(free := story.lock(""))
    assert story.pending(e.Write).base is free
    if told:
        story.sees(story.lock(UNKNOWN))
    story.waits(1)
    written = story.landed()
    story.sees(replace(written, torn=True, gone=True)).waits(1)
    assert not story.writes(created=True).all(e.Acquired)
    assert not story.renews(14.9).all(e.Acquired)
    story.waits(2).writes().asked(e.Acquired)


@pytest.mark.parametrize("told", [True, False])
def test_half_a_lock_that_was_held_and_deleted_under_the_last_write_is_left_to_run_out(*, told: bool) -> None:
    story = Story(twofold=True).follows()
    story.sees(story.lock(""))
    if told:
        story.sees(story.lock(UNKNOWN))
    story.sees(replace(story.landed(), torn=True, gone=True)).tell(e.AllProcessesExited(release=True))
    assert not story.writes(created=True).asked(e.Released).released


def test_half_a_lock_found_to_be_created_late_makes_a_leader_no_sooner() -> None:
    """By a try before the last, which was answered neither then nor later, and after another had it."""
    story = Story(twofold=True).follows().sees(Story().lock("")).fails(Kind.UNREACHABLE)
    half = replace(story.lock(ME, TERM), torn=True)
    story.reads(half).waits(15).fails(Kind.CONFLICT).waits(1)
    story.reads(replace(story.lock(ME, TERM), created=True)).renews(14.9)
    assert story.state.phase is Phase.FOLLOWING


def test_half_a_lock_that_was_never_there_is_led_on_at_once_also_where_the_watch_is_first_to_tell_of_it() -> None:
    """The first takeover of a migration."""
    story = Story(twofold=True).follows()
    landed = story.sees(story.lock("")).landed()
    story.sees(replace(landed, torn=True)).sees(landed)
    story.writes().asked(e.Acquired)


def test_a_pair_of_which_half_may_have_been_read_is_not_free_when_it_is_gone() -> None:
    story = Story(twofold=True).wakes().fails(Kind.UNREACHABLE, held=40)
    story.waits(5).reads(None).idles(39.9)


def test_half_a_lock_that_was_read_is_waited_for_though_a_shorter_record_is_in_both_by_then() -> None:
    """Hands have put it there; who was read may be cut off, and not know."""
    story = Story(twofold=True).wakes().fails(Kind.UNREACHABLE, held=40).waits(5)
    story.reads(story.lock("short")).idles(39.9)
    story.waits(0.1).asked(e.Write)


def test_half_a_lock_that_was_read_is_waited_for_though_another_was_seen_before() -> None:
    story = Story(twofold=True)
    story.follows(story.lock("short", duration=5)).waits(3).tell(e.WatchEnded()).fails(Kind.UNREACHABLE, held=40).waits(
        5
    )
    story.reads(story.lock("short", duration=5)).idles(34.9)
    story.waits(0.1).asked(e.Write)


def test_a_pair_of_which_half_was_created_makes_no_leader_at_once_when_it_is_gone() -> None:
    """Somebody may have taken that half since."""
    story = Story(twofold=True).wakes().reads(None).fails(Kind.THROTTLED, held=15)
    story.waits(20).reads(None).writes().renews(14.9)
    assert story.state.phase is Phase.FOLLOWING


def test_a_pair_of_which_nothing_was_read_is_free_when_there_is_neither() -> None:
    story = Story(twofold=True).wakes().fails(Kind.UNREACHABLE)
    story.waits(5).reads(None).asked(e.Write)


def test_half_a_lock_that_is_gone_was_not_given_up_though_the_other_has_no_holder() -> None:
    story = Story(twofold=True).follows(Story().lock(UNKNOWN, duration=60))
    story.sees(replace(story.lock("", duration=60), torn=True, gone=True))
    story.sees(story.lock(UNKNOWN)).idles(59.9)


def test_ones_own_half_alone_is_waited_for_as_long_as_the_longest_that_was_seen() -> None:
    """It was created late, and after another had it, who renewed unseen."""
    story = Story(twofold=True).follows(Story().lock("other", duration=60)).waits(31)
    story.sees(replace(story.lock(ME, TERM, transitions=0), torn=True)).idles(59.9)


def test_the_successor_of_a_waiting_elector_takes_a_multilock_that_it_finds_to_be_its_own_for_a_claim() -> None:
    """Its predecessor may have created half of it, and renewed that since: nothing shows it any more."""
    story = Story(resume_waiting(candidate(twofold=True), TERM)).wakes()
    story.reads(story.lock(ME, TERM)).renews(14.9)
    assert story.state.phase is Phase.FOLLOWING
    story.waits(0.1).writes().asked(e.Acquired)


# --- a new candidacy


def test_a_new_candidacy_waits_out_what_the_last_one_left_behind() -> None:
    story = Story().leads()
    left = story.state.seen
    story.tell(e.Restart("term-2"))
    story.asked(e.Get)
    story.reads(left).idles(14.9)
    write = story.waits(0.1).asked(e.Write)
    assert write.incarnation == "term-2"


def test_a_new_candidacy_does_not_take_a_missing_lock_for_free() -> None:
    story = Story().follows().tell(e.Restart("term-2")).reads(None)
    story.idles(14.9)


def test_a_new_candidacy_waits_for_who_was_seen_to_have_taken_the_lock_though_that_is_gone_by_then() -> None:
    story = Story().leads().waits(2).fails(Kind.CONFLICT).reads(Story().lock("long", duration=60))
    assert story.asked(e.Lost).kill_now
    story.tell(e.Restart("term-2")).reads(None)
    story.idles(59.9)
    assert story.waits(0.1).asked(e.Write).base is None


def test_a_new_candidacy_waits_for_who_was_seen_to_have_taken_the_lock_though_a_shorter_one_has_it_by_then() -> None:
    """Whoever has never seen the lock held takes a deleted one at once."""
    story = Story().leads().waits(2).fails(Kind.CONFLICT).reads(Story().lock("long", duration=60))
    story.tell(e.Restart("term-2")).reads(story.lock("short", duration=5))
    story.idles(59.9)
    story.waits(0.1).asked(e.Write)


@pytest.mark.parametrize("to", ["", "long"], ids=["released", "given"])
def test_a_new_candidacy_waits_for_who_was_seen_to_have_the_lock_after_its_release(to: str) -> None:
    story = Story().leads().tell(e.Restart("term-2", release=True, to=to)).fails(Kind.UNREACHABLE)
    story.reads(story.lock("long", duration=60)).reads(None)
    story.idles(59.9)
    assert story.waits(0.1).asked(e.Write).base is None


def test_a_new_candidacy_ignores_the_answers_of_the_last_one() -> None:
    story = Story().wakes().reads(None)
    old = story.pending(e.Write)
    landed = story.landed()
    story.tell(e.Restart("term-2"))
    assert story.tell(e.WriteDone(old, landed)).actions == []


def test_a_new_candidacy_may_follow_an_end() -> None:
    story = Story().leads().tell(e.AllProcessesExited(release=True)).writes()
    assert story.asked(e.Released).released
    story.tell(e.Restart("term-2")).asked(e.Get)
    story.reads(story.lock("")).writes().asked(e.Acquired)
