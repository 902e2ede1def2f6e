"""A candidate's own record proves nothing: it may have been put back over another leader's."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from kleader.election import events as e
from kleader.election.events import Kind
from kleader.election.record import UNKNOWN
from kleader.election.state import resume_waiting
from tests.support.election import START, TERM, TIMING, Story, candidate
from tests.unit.test_election_coordinated import Coordinated
from tests.unit.test_election_gaps import cut_off, leads_at

if TYPE_CHECKING:
    from kleader.election.events import Observed


def holding() -> tuple[Story, Observed]:
    """20 s after START: its write was done, the answer lost, and it was read; until then nobody else had the lock."""
    story = Story().follows().waits(15)
    own = story.landed()
    story.fails(Kind.UNREACHABLE, after=5).reads(own)
    return story, own


def overtaken() -> tuple[Story, Observed]:
    """36 s after START: another has taken that over, unseen, and is read."""
    story, claim = holding()
    cut_off(story, 36)
    return story.reads(story.lock("second")), claim


def restored(story: Story, claim: Observed) -> Observed:
    """The claim again, by hands."""
    return replace(claim, version=story.version())


def may_run_until(renewed: float) -> float:
    """Whoever was last seen to renew then: until when its command may be alive."""
    return TIMING.kill_at(renewed)


def test_a_candidates_old_record_restored_over_a_leader_begins_no_term() -> None:
    """An operator has restored it; the leader may not know, and may renew no more."""
    story = Story()
    claim = story.wakes().reads(None).landed()
    story.fails(Kind.CONFLICT).reads(story.lock("other")).waits(3).sees(story.lock("other"))
    told = story.now - START
    story.waits(1).sees(replace(claim, record=replace(claim.record, transitions=3), version="900"))
    assert leads_at(story) >= told + 15


def test_a_candidates_old_record_read_over_a_leader_begins_no_term() -> None:
    """An operator has restored it, and the leader has renewed unobserved."""
    story = Story()
    claim = story.wakes().reads(None).landed()
    story.fails(Kind.CONFLICT).reads(story.lock("other")).waits(3)
    looked = cut_off(story, 12)
    story.reads(replace(claim, record=replace(claim.record, transitions=3), version="900"))
    assert leads_at(story) >= looked + 15


def test_a_multilock_write_that_the_watch_shows_object_by_object_begins_a_term_at_once() -> None:
    """Of a multilock, all of it before the answer; in between the halves have not one holder."""
    story = Story(is_multilock=True)
    other = story.lock("")
    story.follows(replace(story.lock("other"), components=((other.record, ""),) * 2))
    story.sees(replace(other, components=((other.record, ""),) * 2))
    landed = story.landed()
    own = (landed.record, landed.incarnation)
    story.sees(replace(story.lock(UNKNOWN), components=(own, (other.record, ""))))
    seen = replace(landed, version=story.version(), components=(own, own))
    story.sees(seen).tell(e.WriteDone(story.pending(e.Write), seen)).asked(e.Acquired)


def test_a_restored_record_of_a_multilock_with_another_holder_in_between_begins_no_term() -> None:
    """The holder of that object may lead by it alone."""
    story = Story(is_multilock=True).follows().waits(15)
    claim = story.landed()
    own = (claim.record, claim.incarnation)
    claim = replace(claim, components=(own, own))
    story.fails(Kind.UNREACHABLE).reads(claim).waits(2)
    story.sees(replace(story.lock(UNKNOWN), components=(own, (story.lock("single").record, ""))))
    looked = story.now - START
    story.waits(1).sees(restored(story, claim))
    assert leads_at(story) >= looked + 15


def test_a_write_that_the_watch_shows_before_its_response_begins_a_term_at_once() -> None:
    story = Story()
    story.follows(story.lock("other", duration=60)).waits(3).sees(story.lock("short", duration=5)).waits(60)
    landed = story.landed()
    story.sees(landed).tell(e.WriteDone(story.pending(e.Write), landed)).asked(e.Acquired)


@pytest.mark.parametrize("older", [0, 1_000_000])
def test_a_candidates_own_record_in_a_new_version_begins_no_term(older: int) -> None:
    """Its response was lost; another took the lock unobserved; an operator restored this record or an earlier one."""
    story, own = holding()
    looked = cut_off(story, 50)
    record = replace(own.record, renewed=(own.record.renewed or 0) - older)
    story.reads(replace(own, record=record, version="900"))
    assert leads_at(story) >= looked + 15


def test_an_old_record_restored_during_a_write_begins_no_term() -> None:
    """The write was over the record of another holder, which a third has replaced."""
    story, claim = overtaken()
    story.waits(15).pending(e.Write)
    story.waits(0.1).sees(story.lock("third")).waits(1.9).sees(story.lock("third"))
    renewed = story.now - START
    story.waits(0.1).sees(restored(story, claim)).fails(Kind.CONFLICT, after=0.1)
    assert leads_at(story) >= may_run_until(renewed)


def test_an_old_record_restored_after_a_lost_write_begins_no_term() -> None:
    """It was the candidate's own at the last read; another has taken it over since."""
    story, own = holding()
    story.waits(15).fails(Kind.UNREACHABLE, after=1).waits(2)
    renewed = story.now - START
    story.reads(restored(story, own))
    assert leads_at(story) >= may_run_until(renewed)


def test_an_old_record_restored_after_an_unanswered_write_begins_no_term() -> None:
    story, claim = overtaken()
    story.waits(15).fails(Kind.UNREACHABLE, after=1)
    renewed = cut_off(story, 80)
    story.reads(restored(story, claim))
    assert leads_at(story) >= may_run_until(renewed)


def test_an_old_record_in_the_first_event_of_a_watch_begins_no_term() -> None:
    """The lock was missing at the last read; a leader has recreated it and renewed."""
    story, claim = overtaken()
    story.waits(2).tell(e.WatchEnded()).reads(None)
    assert story.asked(e.Watch).after is None
    story.waits(4.9)
    renewed = story.now - START
    story.sees(restored(story, claim))
    assert leads_at(story) >= may_run_until(renewed)


def test_an_old_record_restored_after_its_own_late_response_begins_no_term() -> None:
    """The elector was stopped for longer than another needed to take the lock over."""
    story = Story().follows().waits(15)
    write, claim = story.pending(e.Write), story.landed()
    story.now += 17
    story.sees(claim).sees(story.lock("second"))
    renewed = story.now - START
    story.tell(e.WriteDone(write, claim)).waits(0.1).sees(restored(story, claim))
    assert leads_at(story) >= may_run_until(renewed)


def test_a_restored_nomination_begins_no_term() -> None:
    """Its own write never arrived; another was named after it, unseen."""
    story = Coordinated()
    story.follows(story.lock("other")).waits(18)
    naming = story.naming()
    story.sees(naming)
    story.fails(Kind.UNREACHABLE)
    renewed = cut_off(story, 60)
    story.reads(restored(story, naming))
    assert leads_at(story) >= may_run_until(renewed)


def test_a_replacement_elector_waits_out_a_record_of_the_previous_elector() -> None:
    """It does not know when that was written, nor that it may have been restored."""
    story = Story(resume_waiting(candidate(), TERM, START)).wakes()
    story.reads(story.lock(story.state.me.identity, TERM))
    assert leads_at(story) >= may_run_until(0)


def test_a_candidates_restored_record_is_not_released() -> None:
    """An empty holder would say that the leader's command is dead."""
    story, own = holding()
    looked = cut_off(story, 60)
    assert looked > 59
    story.reads(restored(story, own))
    assert story.tell(e.AllProcessesExited(release=True)).asked(e.Released).released is False


def test_an_old_record_restored_in_one_object_of_a_multilock_begins_no_term() -> None:
    """An operator has restored it over a leader, which may have renewed until then."""
    story = Story(is_multilock=True)
    old = story.follows().waits(15).landed()
    story.fails(Kind.UNREACHABLE, after=5).reads(old)
    cut_off(story, 36)
    story.reads(story.lock("second")).waits(15)
    written = story.landed()
    story.fails(Kind.CONFLICT)
    halves = tuple((each.record, each.incarnation) for each in (written, old))
    renewed = story.now - START
    story.reads(replace(written, version=story.version(), components=halves))
    assert leads_at(story) >= may_run_until(renewed)


@pytest.mark.parametrize("transfer", ["", "next"])
def test_a_record_restored_after_an_unanswered_release_is_not_released_again(transfer: str) -> None:
    """Another candidate has led since, until an operator restored it."""
    story = Story().leads()
    term = story.state.observed
    assert term
    story.tell(e.AllProcessesExited(release=True, to=transfer)).fails(Kind.UNREACHABLE, after=0.5).waits(0.5)
    assert story.reads(restored(story, term)).asked(e.Released).released is False


@pytest.mark.parametrize("transfer", ["", "next"])
def test_a_record_restored_after_a_half_done_release_is_not_released_again(transfer: str) -> None:
    """A candidate that uses that object alone has led since; then an operator restored it, and labelled the other."""
    story = Story(is_multilock=True).leads()
    term = story.state.observed
    assert term
    story.tell(e.AllProcessesExited(release=True, to=transfer)).fails(Kind.CONFLICT, partly_done=True).waits(0.5)
    assert story.reads(restored(story, term)).asked(e.Released).released is False


def test_a_release_that_did_not_arrive_is_sent_again() -> None:
    story = Story().leads()
    term = story.state.observed
    story.tell(e.AllProcessesExited(release=True)).fails(Kind.UNREACHABLE, after=0.5).waits(0.5).reads(term)
    assert story.writes().asked(e.Released).released


def test_a_restored_creation_begins_no_term_of_a_candidate_that_observed_no_holder() -> None:
    """Its response was lost; another took the lock over unobserved, until an operator restored it."""
    story = Story().wakes().reads(None)
    created = story.landed()
    story.fails(Kind.UNREACHABLE)
    renewed = cut_off(story, 60)
    story.reads(restored(story, created))
    assert leads_at(story) >= may_run_until(renewed)
