"""One's own record proves nothing where it may have been put back over a leader, but for what was just written."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from kleader.election import events as e
from kleader.election.events import Kind
from kleader.election.record import SECOND, UNKNOWN
from kleader.election.state import Phase, resume_waiting
from tests.support.election import START, TERM, TIMING, Story, candidate
from tests.unit.test_election_coordinated import Coordinated
from tests.unit.test_election_gaps import cut_off, leads_at

if TYPE_CHECKING:
    from kleader.election.events import Observed


def claiming() -> tuple[Story, Observed]:
    """20 s after START: its claim was done, the answer lost, and it was read; what would have begun a term fails."""
    story = Story().follows().waits(15)
    claim = story.landed()
    story.fails(Kind.UNREACHABLE, after=5).reads(claim).fails(Kind.UNREACHABLE)
    return story, claim


def overtaken() -> tuple[Story, Observed]:
    """36 s after START: another has taken that over, unseen, and is read."""
    story, claim = claiming()
    cut_off(story, 36)
    return story.reads(story.lock("second")), claim


def restored(story: Story, claim: Observed) -> Observed:
    """The claim again, by hands."""
    return replace(claim, version=story.version())


def may_run_until(renewed: float) -> float:
    """Whoever was last seen to renew then: until when its command may be alive."""
    return TIMING.kill_at(renewed)


def test_ones_own_claim_of_long_ago_that_is_restored_over_a_leader_makes_none() -> None:
    """Hands have put it there; the leader may not know, and renew nothing more."""
    story = Story()
    claim = story.wakes().reads(None).landed()
    story.fails(Kind.CONFLICT).reads(story.lock("other")).waits(3).sees(story.lock("other"))
    told = story.now - START
    story.waits(1).sees(replace(claim, record=replace(claim.record, transitions=3), version="900"))
    assert leads_at(story) >= told + 15


def test_ones_own_claim_of_long_ago_that_is_read_over_a_leader_makes_none() -> None:
    """Likewise; and the leader has renewed unseen."""
    story = Story()
    claim = story.wakes().reads(None).landed()
    story.fails(Kind.CONFLICT).reads(story.lock("other")).waits(3)
    looked = cut_off(story, 12)
    story.reads(replace(claim, record=replace(claim.record, transitions=3), version="900"))
    assert leads_at(story) >= looked + 15


def test_ones_own_write_that_is_found_to_have_been_done_makes_a_leader_with_the_next() -> None:
    """Its answer was lost; it was done over a lock that had run out."""
    story = Story().follows().waits(15)
    landed = story.landed()
    story.fails(Kind.UNREACHABLE).reads(landed).writes().asked(e.Acquired)


def test_ones_own_write_of_which_the_watch_tells_half_by_half_makes_a_leader_at_once() -> None:
    """Of a multilock, all of it before the answer; in between the halves have not one holder."""
    story = Story(twofold=True)
    other = story.lock("")
    story.follows(replace(story.lock("other"), beside=((other.record, ""),) * 2))
    story.sees(replace(other, beside=((other.record, ""),) * 2))
    landed = story.landed()
    own = (landed.record, landed.incarnation)
    story.sees(replace(story.lock(UNKNOWN), beside=(own, (other.record, ""))))
    seen = replace(landed, version=story.version(), beside=(own, own))
    story.sees(seen).tell(e.WriteDone(story.pending(e.Write), seen)).asked(e.Acquired)


def test_a_claim_of_which_half_was_anothers_meanwhile_that_is_restored_makes_no_leader() -> None:
    """Whoever had that half may lead by it alone."""
    story = Story(twofold=True).follows().waits(15)
    claim = story.landed()
    own = (claim.record, claim.incarnation)
    claim = replace(claim, beside=(own, own))
    story.fails(Kind.UNREACHABLE).reads(claim).fails(Kind.UNREACHABLE).waits(2)
    story.reads(replace(story.lock(UNKNOWN), beside=(own, (story.lock("single").record, ""))))
    looked = story.now - START
    story.waits(1).sees(restored(story, claim))
    assert leads_at(story) >= looked + 15


def test_ones_own_write_of_which_the_watch_tells_before_its_answer_makes_a_leader_at_once() -> None:
    story = Story()
    story.follows(story.lock("other", duration=60)).waits(3).sees(story.lock("short", duration=5)).waits(57)
    landed = story.landed()
    story.sees(landed).tell(e.WriteDone(story.pending(e.Write), landed)).asked(e.Acquired)


@pytest.mark.parametrize("older", [0, 1_000_000])
def test_ones_own_record_that_is_read_again_in_another_version_makes_no_leader(older: int) -> None:
    """Its answer was lost; then another has taken it over, unseen, and hands have restored it, or an earlier one."""
    story = Story().follows().waits(15)
    landed = story.landed()
    story.fails(Kind.UNREACHABLE).reads(landed).fails(Kind.UNREACHABLE)
    looked = cut_off(story, 50)
    record = replace(landed.record, renewed=(landed.record.renewed or 0) - older)
    story.reads(replace(landed, record=record, version="900"))
    assert leads_at(story) >= looked + 15


def test_a_claim_that_is_restored_while_ones_own_write_is_under_way_makes_no_leader() -> None:
    """The write was for the lock of another, who was overtaken by a third."""
    story, claim = overtaken()
    story.waits(15).pending(e.Write)
    story.waits(0.1).sees(story.lock("third")).waits(1.9).sees(story.lock("third"))
    renewed = story.now - START
    story.waits(0.1).sees(restored(story, claim)).fails(Kind.CONFLICT, after=0.1)
    assert leads_at(story) >= may_run_until(renewed)


def test_an_earlier_claim_that_is_restored_beside_a_write_that_never_came_makes_no_leader() -> None:
    """It was one's own still at the last look; another has taken it over since."""
    story, claim = claiming()
    cut_off(story, 59)
    story.reads(claim).fails(Kind.UNREACHABLE, after=1).waits(2)
    renewed = story.now - START
    story.reads(restored(story, claim))
    assert leads_at(story) >= may_run_until(renewed)


def test_a_claim_that_is_restored_where_another_write_has_no_answer_makes_no_leader() -> None:
    story, claim = overtaken()
    story.waits(15).fails(Kind.UNREACHABLE, after=1)
    renewed = cut_off(story, 80)
    story.reads(restored(story, claim))
    assert leads_at(story) >= may_run_until(renewed)


def test_a_claim_that_is_the_first_word_of_a_watch_makes_no_leader() -> None:
    """The lock was missing when it was read last; a leader has created it anew, and renewed."""
    story, claim = overtaken()
    story.waits(2).tell(e.WatchEnded()).reads(None)
    assert story.asked(e.Watch).seen is None
    story.waits(4.9)
    renewed = story.now - START
    story.sees(restored(story, claim))
    assert leads_at(story) >= may_run_until(renewed)


def test_a_claim_that_is_told_again_after_its_own_late_answer_makes_no_leader() -> None:
    """The elector was stopped for longer than another needed to take the lock over."""
    story = Story().follows().waits(15)
    write, claim = story.pending(e.Write), story.landed()
    story.now += 17
    story.sees(claim).sees(story.lock("second"))
    renewed = story.now - START
    story.tell(e.WriteDone(write, claim)).waits(0.1).sees(restored(story, claim))
    assert leads_at(story) >= may_run_until(renewed)


def test_a_naming_that_is_restored_makes_no_leader() -> None:
    """Its own write never arrived; another was named after it, unseen."""
    story = Coordinated()
    story.follows(story.lock("other")).waits(18)
    naming = story.naming()
    story.sees(naming)
    story.fails(Kind.UNREACHABLE)
    renewed = cut_off(story, 60)
    story.reads(restored(story, naming))
    assert leads_at(story) >= may_run_until(renewed)


def test_a_successor_takes_its_predecessors_claim_for_one_of_long_ago() -> None:
    """It does not know when that was written, nor that it may have been restored."""
    story = Story(resume_waiting(candidate(), TERM)).wakes()
    story.reads(story.lock(story.state.me.identity, TERM))
    assert leads_at(story) >= may_run_until(0)


def test_a_claim_that_is_restored_is_not_released() -> None:
    """An empty holder would say that the leader's command is dead."""
    story, claim = claiming()
    cut_off(story, 60)
    story.fails(Kind.UNREACHABLE).tell(e.AllProcessesExited(release=True)).fails(Kind.CONFLICT)
    story.reads(restored(story, claim))
    assert story.asked(e.Released).released is False


@pytest.mark.parametrize("preferred", ["", "better"])
def test_a_claim_that_was_given_back_is_none_though_it_was_written_just_now(preferred: str) -> None:
    """Its answer was lost; who was preferred has led since, until hands put the claim back."""
    story = Coordinated().wakes()
    story.reads(story.naming()).renews(13.9)
    claim = story.state.seen
    assert claim
    story.waits(1.2).fails(Kind.CONFLICT).reads(story.preferring(claim, "better"))
    assert story.pending(e.Write).record.holder == ""
    renewed = story.now - START
    story.fails(Kind.UNREACHABLE).waits(2).reads(replace(restored(story, claim), preferred=preferred))
    assert not story.requests, "the lock is emptied once more"
    assert preferred or leads_at(story) >= may_run_until(renewed)


def test_half_a_claim_of_long_ago_makes_no_leader_of_who_has_just_written_the_other() -> None:
    """Hands have put it back over a leader, who may have renewed until then."""
    story = Story(twofold=True)
    claim = story.follows().waits(15).landed()
    story.fails(Kind.UNREACHABLE, after=5).reads(claim).fails(Kind.UNREACHABLE)
    cut_off(story, 36)
    story.reads(story.lock("second")).waits(15)
    written = story.landed()
    story.fails(Kind.CONFLICT)
    halves = tuple((each.record, each.incarnation) for each in (written, claim))
    renewed = story.now - START
    story.reads(replace(written, version=story.version(), beside=halves))
    assert leads_at(story) >= may_run_until(renewed)


@pytest.mark.parametrize("transfer", ["", "next"])
def test_a_lock_that_was_released_without_an_answer_and_is_ones_own_again_is_let_be(transfer: str) -> None:
    """Another has led since, until hands put it back."""
    story = Story().leads()
    term = story.state.seen
    assert term
    story.tell(e.AllProcessesExited(release=True, to=transfer)).fails(Kind.UNREACHABLE, after=0.5).waits(0.5)
    assert story.reads(restored(story, term)).asked(e.Released).released is False


@pytest.mark.parametrize("transfer", ["", "next"])
def test_a_multilock_that_was_released_by_half_and_is_ones_own_again_is_let_be(transfer: str) -> None:
    """Who knows that half alone has led since, until hands put it back; the other half had a new label."""
    story = Story(twofold=True).leads()
    term = story.state.seen
    assert term
    story.tell(e.AllProcessesExited(release=True, to=transfer)).fails(Kind.CONFLICT, held=15).waits(0.5)
    assert story.reads(restored(story, term)).asked(e.Released).released is False


def test_a_release_that_was_not_done_is_tried_again() -> None:
    story = Story().leads()
    term = story.state.seen
    story.tell(e.AllProcessesExited(release=True)).fails(Kind.UNREACHABLE, after=0.5).waits(0.5).reads(term)
    assert story.writes().asked(e.Released).released


def test_a_creation_of_long_ago_makes_no_leader_of_who_saw_nobody() -> None:
    """Its answer was lost; another has taken it over, unseen, until hands put it back."""
    story = Story().wakes().reads(None)
    created = story.landed()
    story.fails(Kind.UNREACHABLE)
    renewed = cut_off(story, 60)
    story.reads(restored(story, created))
    assert leads_at(story) >= may_run_until(renewed)


def test_no_two_claims_have_one_renew_time() -> None:
    """Where the wall clock is behind the record's, it is that record's and a second: the first may be there again."""
    story = Story()
    ahead = story.lock("other", renewed=story.wall + 60 * SECOND)
    first = story.follows(ahead).waits(15).pending(e.Write).record.renewed
    second = story.fails(Kind.UNREACHABLE, after=5).reads(ahead).pending(e.Write).record.renewed
    assert (first or 0) < (second or 0)


@pytest.mark.parametrize("period", [5, 14])
def test_lost_answers_to_the_renewals_of_a_claim_do_not_lengthen_its_wait(period: int) -> None:
    """What was written just now is no claim of long ago."""
    story = Coordinated()
    story.wakes().reads(story.naming())
    lost, there = START, story.state.seen
    while story.state.phase is not Phase.LEADING and story.now < START + 60:
        if isinstance(story.state.pending, e.Get):
            story.reads(there)
        elif isinstance(story.state.pending, e.Write) and story.now >= lost + period:
            lost, there = story.now, story.landed()
            story.fails(Kind.UNREACHABLE)
        elif isinstance(story.state.pending, e.Write):
            story.writes()
            there = story.state.seen
        else:
            story.waits(0.1)
    assert story.now - START < 15 + period
