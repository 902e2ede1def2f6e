"""A lock that was seen and then vanished is not free; nor is what a last candidacy left behind."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kleader.election import events as e
from kleader.election.events import Kind, Observed
from kleader.election.record import UNKNOWN, Record
from kleader.election.state import Phase, resume_waiting
from tests.support.election import ME, START, TERM, Story, candidate

# --- gone is not free


def test_a_held_lock_that_is_deleted_is_created_only_after_the_holders_duration() -> None:
    story = Story().follows(Story().lock("other", duration=40))
    story.waits(30).sees(None)
    assert "acquiring it in 40s" in story.asked(e.Report).message
    story.idles(39.9)
    write = story.waits(0.1).asked(e.Write)
    assert (write.base, write.record.transitions) == (None, 0)


def test_a_recreated_lock_begins_a_term_only_after_a_lease_duration_and_a_fresh_write() -> None:
    """It may have been there and been deleted again just before, and its holder not have noticed."""
    story = Story().follows().sees(None).waits(15).writes()
    assert not story.all(e.Acquired)
    assert "the command starts in 15s" in story.asked(e.Report).message
    held = story.state.observed
    assert story.waits(2).asked(e.Write).base is held, "the lock is renewed, or it would run out"
    assert not story.writes().renews(12.9).all(e.Acquired)
    assert story.state.phase is Phase.HOLDING
    story.waits(0.1).writes().asked(e.Acquired)


def test_a_creation_confirmed_by_a_read_begins_no_term_sooner() -> None:
    story = Story().follows().sees(None).waits(15)
    landed = story.landed()
    story.fails(Kind.UNREACHABLE).asked(e.Get)
    story.reads(landed).idles(14.9)
    story.waits(0.1).writes().asked(e.Acquired)


def test_a_held_lock_that_is_taken_over_restarts_the_wait() -> None:
    story = Story().follows().sees(None).waits(15).writes().waits(2).fails(Kind.CONFLICT)
    story.reads(story.lock("other")).idles(14.9)
    assert (story.state.phase, story.state.incarnation) == (Phase.FOLLOWING, f"{TERM}.1")


def test_a_holding_candidate_that_cannot_renew_in_time_stops_holding() -> None:
    """Another may have taken it since, and its record may have been put back: the next term has another incarnation."""
    story = Story().follows().sees(None).waits(15).writes()
    mine = story.state.observed
    story.waits(2).fails(Kind.UNREACHABLE).waits(10)
    assert (story.state.phase, story.state.incarnation) == (Phase.FOLLOWING, f"{TERM}.1")
    assert not story.all(e.Acquired)
    story.reads(mine).idles(12.9)
    write = story.waits(0.1).asked(e.Write)
    assert (write.base, write.incarnation) == (mine, f"{TERM}.1")
    story.writes().asked(e.Acquired)


def test_a_candidates_record_in_a_new_version_extends_the_wait_of_a_holding_candidate() -> None:
    """It may have been put back over another's; the lock is renewed meanwhile."""
    story = Story().follows().sees(None).waits(15).writes().renews(9.9)
    assert story.state.observed
    again = story.relabelled(story.state.observed)
    story.waits(2).fails(Kind.CONFLICT).reads(again)
    assert story.pending(e.Write).base is again
    story.renews(14.9)
    assert story.state.phase is Phase.HOLDING
    story.waits(0.1).writes().asked(e.Acquired)


def test_a_renewal_sent_before_safe_at_and_answered_after_begins_no_term() -> None:
    """It may have been overwritten since: the next one is sent at once, and begins the term."""
    story = Story().follows().sees(None).waits(15).writes().renews(13.9).waits(0.1)
    assert not story.writes(after=1.5).all(e.Acquired)
    assert story.writes().asked(e.Acquired).stop_at == story.now + 10


def test_a_holding_candidate_recreates_a_deleted_lock_and_waits_again() -> None:
    story = Story().follows().sees(None).waits(15).writes().waits(2).fails(Kind.MISSING)
    assert story.reads(None).asked(e.Write).base is None
    story.writes().renews(14.9)
    assert story.state.phase is Phase.HOLDING
    story.waits(0.1).writes().asked(e.Acquired)


def test_a_candidates_record_restored_after_a_lost_creation_extends_the_wait() -> None:
    """The object was gone: another's record, and then this candidate's, may have been put back."""
    story = Story().follows().sees(None).waits(15).writes()
    mine = story.state.observed
    assert mine
    story.waits(2).fails(Kind.CONFLICT).reads(None)
    landed = story.landed()
    story.fails(Kind.UNREACHABLE, after=1).waits(1)
    story.reads(landed).renews(14.9)
    assert story.state.phase is Phase.HOLDING


@pytest.mark.parametrize("kind", [Kind.THROTTLED, Kind.DENIED, Kind.REFUSED])
def test_a_refused_creation_does_not_count_as_a_holder(kind: Kind) -> None:
    """A cold start before the RoleBinding is there, or under load."""
    story = Story().wakes().reads(None).fails(kind).waits(5)
    if isinstance(story.state.pending, e.Get):
        story.reads(None)
    story.writes().asked(e.Acquired)


def test_a_refused_creation_of_a_deleted_lock_does_not_end_the_wait() -> None:
    story = Story().follows().sees(None).waits(15).fails(Kind.THROTTLED).waits(5)
    assert not story.writes().all(e.Acquired)
    assert story.state.phase is Phase.HOLDING


def test_a_holding_candidate_that_may_not_go_on_ends_without_a_release() -> None:
    story = Story(wait_until=START + 20).follows().sees(None).waits(15).writes()
    given_up = story.renews(4.9).waits(0.1).asked(e.AcquireFailed)
    assert (given_up.status, given_up.reason) == (124, "the lock could not be acquired in time")
    story = Story(is_multilock=True).follows().sees(None).waits(15).writes().waits(2)
    assert story.fails(Kind.DENIED, partly_done=True).asked(e.AcquireFailed).status == 125


def test_a_holding_candidate_that_ends_lets_the_lock_run_out() -> None:
    """An empty holder would say that every earlier leader is dead."""
    story = Story().follows().sees(None).waits(15).writes()
    assert not story.tell(e.AllProcessesExited(release=True)).asked(e.Released).released


def test_a_deleted_lock_is_waited_for_with_at_least_the_candidates_own_duration() -> None:
    """A holder that was not seen could have taken it meanwhile."""
    story = Story().follows()
    free = story.lock("")
    story.sees(free).fails(Kind.THROTTLED, retry_after=3)
    story.sees(None).idles(14.9)
    assert story.waits(0.1).asked(e.Write).base is None


@pytest.mark.parametrize("shown", ["edited", "malformed", "half malformed", "named"])
def test_a_shorter_record_does_not_shorten_the_wait_for_a_deleted_lock(shown: str) -> None:
    """Neither one edited by hand, nor one that cannot be read any more, nor a nomination by the control plane."""
    story = Story().follows(Story().lock("long", duration=60)).waits(1)
    short = {"edited": story.lock("long", duration=1), "malformed": replace(story.lock(), record=Record(), fault="0 s")}
    short["named"] = story.lock("named", duration=5, acquired=None)
    short["half malformed"] = replace(story.lock(""), fault="0 s")
    story.sees(short[shown]).waits(1).sees(None).idles(59.9)
    assert story.waits(0.1).asked(e.Write).base is None


def test_a_second_read_of_a_missing_lock_does_not_restart_the_wait() -> None:
    story = Story().follows().sees(None)
    story.waits(4).tell(e.WatchEnded("the connection was reset"))
    story.asked(e.Get)
    story.reads(None).idles(10.9)
    story.waits(0.1).asked(e.Write)


def test_a_deletion_that_a_watch_delivers_late_shortens_no_wait() -> None:
    """The creation conflicts; the new holder is waited for in full."""
    story = Story().follows(Story().lock("short", duration=5)).waits(1).sees(None).waits(15)
    story.fails(Kind.CONFLICT).waits(2).reads(story.lock("long", duration=60)).idles(59.9)
    story.waits(0.1).asked(e.Write)


def test_a_deleted_lock_that_its_leader_recreates_is_held() -> None:
    story = Story().follows().sees(None).waits(3)
    story.sees(story.lock("other")).idles(14.9)


@pytest.mark.parametrize("told", [True, False])
def test_a_deleted_lock_that_is_recreated_without_a_record_is_not_free(*, told: bool) -> None:
    """No holder released it: the control plane recreates the Endpoints of a Service, and a manifest other objects."""
    story = Story().follows(Story().lock("other", duration=40)).waits(30)
    bare = Observed(Record(), version="900")
    if told:
        story.sees(None).sees(bare)
    else:
        story.tell(e.WatchEnded()).reads(bare)
    assert "acquiring it in 40s" in story.asked(e.Report).message
    story.idles(39.9)
    assert story.waits(0.1).asked(e.Write).base is bare
    story.writes().asked(e.Acquired)


def test_a_lock_recreated_twice_without_a_record_restarts_the_wait() -> None:
    """A holder in between may run; only the conflict shows it."""
    story = Story().follows().sees(None).sees(Observed(Record(), version="900")).waits(15)
    story.fails(Kind.CONFLICT).waits(2).reads(Observed(Record(), version="902"))
    story.idles(14.9)
    assert story.waits(0.1).asked(e.Write).base is not None


def test_a_lock_deleted_during_a_write_is_not_free() -> None:
    story = Story().follows().waits(15)
    story.fails(Kind.MISSING)
    story.asked(e.Get)
    story.reads(None).idles(14.9)
    assert story.waits(0.1).asked(e.Write).base is None


def test_a_missing_lock_after_an_unanswered_creation_begins_no_term_sooner() -> None:
    """Another may have taken it when it ran out, and not have noticed that it was deleted."""
    story = Story().wakes().reads(None).fails(Kind.UNREACHABLE).waits(40).reads(None)
    assert story.pending(e.Write).base is None
    story.writes()
    assert not story.all(e.Acquired)
    assert "the command starts in 15s" in story.asked(e.Report).message


def test_a_lock_without_a_record_after_an_unanswered_creation_is_not_free() -> None:
    """The object was replaced, not deleted."""
    story = Story().wakes().reads(None).fails(Kind.UNREACHABLE).waits(40).reads(Observed(Record(), version="900"))
    assert "acquiring it in 15s" in story.asked(e.Report).message
    story.idles(14.9)
    story.waits(0.1).writes().asked(e.Acquired)


def test_another_holders_lock_after_an_unanswered_creation_is_not_acquired_sooner() -> None:
    """An operator wrote a shorter record over the new holder."""
    story = Story().wakes().reads(None).fails(Kind.UNREACHABLE).waits(8)
    story.reads(story.lock("nobody", duration=5)).idles(14.9)
    story.waits(0.1).writes().asked(e.Acquired)


def test_a_conflict_on_a_lock_without_a_record_is_waited_for_once() -> None:
    """It may be an earlier holder's; but the control plane changes the Endpoints of a Service at any time."""
    story = Story().wakes().reads(bare := Observed(Record(), version="900")).fails(Kind.CONFLICT).waits(2)
    story.reads(replace(bare, version="901")).idles(9)
    story.sees(replace(bare, version="902")).idles(5.9)
    story.waits(0.1).writes().asked(e.Acquired)


def test_a_lock_created_by_another_and_deleted_is_not_free() -> None:
    """The next creator starts no command for a lease duration: that candidate may run without having noticed."""
    story = Story().wakes().reads(None).fails(Kind.CONFLICT).reads(None).waits(2).reads(None)
    assert story.asked(e.Write).base is None
    story.writes().renews(14.9)
    assert story.state.phase is Phase.HOLDING
    story.waits(0.1).writes().asked(e.Acquired)


def test_the_replacement_of_a_waiting_elector_does_not_take_a_missing_lock_for_free() -> None:
    story = Story(resume_waiting(candidate(), TERM, START)).wakes().reads(None)
    story.idles(14.9)
    assert story.waits(0.1).asked(e.Write).base is None


def test_the_replacement_of_a_waiting_elector_waits_out_the_longest_observed_duration() -> None:
    story = Story(resume_waiting(candidate(), TERM, START, longest=60)).wakes().reads(None)
    story.idles(59.9)
    assert story.waits(0.1).asked(e.Write).base is None


def test_a_later_holder_does_not_shorten_a_replacement_electors_wait() -> None:
    """The earlier holder may run beside one that an operator has written."""
    story = (
        Story(resume_waiting(candidate(), TERM, START, longest=60)).waits(10).reads(Story().lock("other", duration=5))
    )
    story.idles(59.9)
    assert story.waits(0.1).asked(e.Write).base is not None


def test_the_longest_observed_duration_holds_for_every_later_wait() -> None:
    """The earlier holder may have come back unobserved."""
    story = Story()
    story.follows(story.lock("other", duration=200)).waits(200).writes().asked(e.Acquired)
    story.tell(e.Restart("term-2")).reads(story.lock("other")).idles(199.9)


def test_a_release_ends_a_replacement_electors_wait() -> None:
    """It has seen to it that all before are dead."""
    story = Story(resume_waiting(candidate(), TERM, START, longest=60)).wakes().reads(Story().lock(""))
    assert story.asked(e.Write).base is not None


# --- half of a multilock is gone


def halves(story: Story, primary: Observed | None, secondary: Observed | None) -> Observed:
    """Both objects of a multilock, as kleader.locks.multilock has them together."""
    present = [each for each in (primary, secondary) if each]
    holders = {each.record.holder for each in present}
    return replace(
        story.lock(holders.pop() if len(holders) == 1 else UNKNOWN),
        incarnation=present[0].incarnation if len({each.incarnation for each in present}) == 1 else "",
        components=tuple(each and (each.record, each.incarnation) for each in (primary, secondary)),
        some_object_lacks_record=any(each is None or each.is_blank for each in (primary, secondary)),
        version="/".join(each.version if each else "" for each in (primary, secondary)),
    )


def test_a_recreated_object_of_a_multilock_begins_a_term_only_after_a_lease_duration() -> None:
    """A candidate that uses the missing object alone may have created it, and it may have been deleted just before."""
    story = Story(is_multilock=True).follows()
    story.sees(halves(story, story.lock("other"), None)).waits(15)
    assert story.pending(e.Write).base is not None
    story.writes()
    assert not story.all(e.Acquired)
    assert "the command starts in 15s" in story.asked(e.Report).message
    story.waits(2).writes().renews(12.9)
    assert story.state.phase is Phase.HOLDING
    story.waits(0.1).writes().asked(e.Acquired)


def test_a_multilock_with_a_missing_object_is_not_free_though_the_other_is_released() -> None:
    """A candidate that uses the missing object alone may still run."""
    story = Story(is_multilock=True)
    other = story.lock("other")
    story.follows(halves(story, other, other))
    story.sees(halves(story, story.lock(""), None)).idles(14.9)
    story.waits(0.1).asked(e.Write)


def test_a_released_multilock_whose_secondary_never_existed_is_led_at_once() -> None:
    """The first use of a multilock."""
    story = Story(is_multilock=True, one_try=True).wakes()
    story.reads(halves(story, story.lock(""), None)).writes().asked(e.Acquired)
    story = Story(is_multilock=True)
    story.follows(halves(story, story.lock("other"), None)).waits(3)
    story.sees(halves(story, story.lock(""), None)).writes().asked(e.Acquired)


@pytest.mark.parametrize("kind", [Kind.THROTTLED, Kind.DENIED, Kind.REFUSED])
def test_a_refused_creation_of_a_missing_object_does_not_count_as_a_holder(kind: Kind) -> None:
    story = Story(is_multilock=True).wakes()
    half = halves(story, story.lock(""), None)
    story.reads(half).fails(kind).waits(5)
    story.reads(half).writes().asked(e.Acquired)


def test_an_observed_object_of_a_multilock_counts_whatever_was_refused() -> None:
    story = Story(is_multilock=True).wakes()
    story.reads(halves(story, story.lock(""), None)).fails(Kind.THROTTLED).waits(5)
    story.reads(halves(story, None, story.lock(""))).waits(14.9)
    assert not story.requests
    story.waits(0.1).asked(e.Write)


def test_a_multilock_handed_over_in_one_object_alone_is_not_handed_over() -> None:
    story = Story(is_multilock=True).follows()
    half = replace(halves(story, story.lock(ME), None), handed_over=True)
    story.sees(half).idles(14.9)


def test_a_leader_recreates_a_missing_object_of_its_multilock() -> None:
    story = Story(is_multilock=True).leads().waits(2)
    mine = story.state.observed
    story.fails(Kind.CONFLICT, partly_done=True)
    half = halves(story, mine, None)
    assert story.reads(half).asked(e.Write).base is half
    story.writes().asked(e.Renewed)


def test_a_multilock_without_both_objects_is_free_at_the_first_read() -> None:
    story = Story(is_multilock=True).wakes().fails(Kind.UNREACHABLE)
    story.waits(5).reads(None).asked(e.Write)


def test_a_half_created_multilock_that_is_deleted_begins_no_term_at_once() -> None:
    """Another candidate may have taken that half since."""
    story = Story(is_multilock=True).wakes().reads(None).fails(Kind.THROTTLED, partly_done=True)
    story.waits(20).reads(None).writes().renews(14.9)
    assert story.state.phase is Phase.HOLDING


def test_a_replacement_elector_takes_its_predecessors_multilock_record_for_anothers() -> None:
    story = Story(resume_waiting(candidate(is_multilock=True), f"{TERM}.1", START)).wakes()
    story.reads(story.lock(ME, TERM)).idles(14.9)
    story.waits(0.1).writes().asked(e.Acquired)


# --- a new candidacy


def test_a_new_candidacy_waits_out_the_record_of_the_last_one() -> None:
    story = Story().leads()
    left = story.state.observed
    story.tell(e.Restart("term-2"))
    story.asked(e.Get)
    story.reads(left).idles(14.9)
    write = story.waits(0.1).asked(e.Write)
    assert write.incarnation == "term-2"


def test_a_new_candidacy_does_not_take_a_missing_lock_for_free() -> None:
    story = Story().follows().tell(e.Restart("term-2")).reads(None)
    story.idles(14.9)


def test_a_new_candidacy_waits_for_an_observed_holder_whose_lock_is_deleted() -> None:
    story = Story().leads().waits(2).fails(Kind.CONFLICT).reads(Story().lock("long", duration=60))
    assert story.asked(e.Lost).kill_now
    story.tell(e.Restart("term-2")).reads(None)
    story.idles(59.9)
    assert story.waits(0.1).asked(e.Write).base is None


def test_a_new_candidacy_waits_for_an_observed_holder_with_a_longer_duration() -> None:
    """A candidate that never observed a holder takes a deleted lock at once."""
    story = Story().leads().waits(2).fails(Kind.CONFLICT).reads(Story().lock("long", duration=60))
    story.tell(e.Restart("term-2")).reads(story.lock("short", duration=5))
    story.idles(59.9)
    story.waits(0.1).asked(e.Write)


@pytest.mark.parametrize("to", ["", "long"], ids=["released", "handed over"])
def test_a_new_candidacy_waits_for_a_holder_observed_after_its_own_release(to: str) -> None:
    story = Story().leads().tell(e.AllProcessesExited(release=True, to=to)).fails(Kind.UNREACHABLE)
    longest = story.reads(story.lock("long", duration=60)).state.longest
    story = Story(resume_waiting(candidate(), "term-2", START, longest=longest)).wakes().reads(None)
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
