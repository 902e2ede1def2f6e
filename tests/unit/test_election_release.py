"""Releasing: the last write, made once, and only over the candidate's own record."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kleader.election import events as e
from kleader.election.events import Kind
from kleader.election.record import SECOND
from kleader.election.state import Phase, resume_waiting
from tests.support.election import ME, START, TERM, WALL, Story, candidate, resumed

EMPTIED = e.AllProcessesExited(release=True)


def test_a_release_empties_the_holder_for_a_second_and_keeps_the_transitions() -> None:
    story = Story()
    story.wakes().reads(story.lock("")).writes()
    own = story.state.observed
    write = story.tell(EMPTIED).asked(e.Write)
    assert write.base is own
    assert (write.record.holder, write.record.duration, write.record.transitions) == ("", 1, 4)
    assert write.record.acquired == write.record.renewed
    assert write.incarnation == ""
    assert story.writes().asked(e.Released) == e.Released(released=True)


def test_a_leader_does_not_release_before_its_processes_have_exited() -> None:
    story = Story().leads()
    for _ in range(20):
        story.waits(2)
        assert story.pending(e.Write).record.holder == ME
        story.writes()


def test_one_conflict_is_read_and_retried() -> None:
    story = Story().leads()
    assert story.state.observed
    labelled = story.relabelled(story.state.observed)
    story.tell(EMPTIED).fails(Kind.CONFLICT).asked(e.Get)
    assert story.reads(labelled).asked(e.Write).base is labelled
    assert story.writes().asked(e.Released).released


def test_a_release_during_a_renewal_waits_for_its_response() -> None:
    story = Story().leads().waits(2)
    renewal = story.landed()
    assert story.tell(EMPTIED).actions == []
    story.tell(e.WriteDone(story.pending(e.Write), renewal))
    assert story.asked(e.Write).base is renewal
    assert not story.all(e.Renewed)
    assert story.writes().asked(e.Released).released


def test_a_release_after_a_lost_renewal_reads_first() -> None:
    story = Story().leads().waits(2)
    renewal = story.landed()
    story.tell(EMPTIED).fails(Kind.UNREACHABLE, after=1).asked(e.Get)
    assert story.reads(renewal).asked(e.Write).base is renewal
    assert story.writes().asked(e.Released).released


def test_a_release_during_a_read_is_written_over_the_version_read() -> None:
    story = Story().leads()
    own = story.state.observed
    story.waits(2).fails(Kind.CONFLICT)
    assert story.tell(EMPTIED).actions == []
    write = story.reads(own).asked(e.Write)
    assert (write.base, write.record.holder) == (own, "")


def test_a_release_without_a_response_is_followed_by_a_read() -> None:
    story = Story().leads().tell(EMPTIED)
    landed = story.landed()
    story.fails(Kind.UNREACHABLE).asked(e.Get)
    assert story.reads(landed).asked(e.Released) == e.Released(released=True)


def test_a_multilock_with_a_missing_object_is_not_released() -> None:
    """A new holder may have written the missing object, and be about to write the other."""
    story = Story().leads()
    assert story.state.observed
    torn = replace(story.relabelled(story.state.observed), some_object_lacks_record=True)
    story.tell(EMPTIED).fails(Kind.CONFLICT).reads(torn)
    assert story.requests == []
    assert not story.asked(e.Released).released


@pytest.mark.parametrize(("holder", "incarnation"), [("other", "term-9"), (ME, "term-2"), (ME, "")])
def test_a_lock_that_another_candidate_has_is_not_released(holder: str, incarnation: str) -> None:
    story = Story().leads().tell(EMPTIED).fails(Kind.CONFLICT)
    story.reads(story.lock(holder, incarnation))
    assert story.requests == []
    assert story.asked(e.Released) == e.Released(released=False, why="the lock is no longer this candidate's")


def test_a_lock_cleared_by_another_client_counts_as_not_released() -> None:
    story = Story().leads().waits(2).fails(Kind.CONFLICT).tell(EMPTIED)
    assert not story.reads(story.lock("")).asked(e.Released).released


def test_a_lock_that_is_gone_needs_no_release() -> None:
    story = Story().leads().tell(EMPTIED).fails(Kind.MISSING).fails(Kind.MISSING)
    assert story.asked(e.Released).released
    assert story.requests == []


def test_a_release_is_tried_no_longer_than_one_request_may_take() -> None:
    story = Story().leads().tell(EMPTIED)
    assert story.pending(e.Write).timeout == 5
    story.fails(Kind.UNREACHABLE, after=2)
    assert story.pending(e.Get).timeout == 3
    story.fails(Kind.UNREACHABLE, after=2.9).waits(0.1)
    assert story.asked(e.Released) == e.Released(released=False, why="it was unreachable")


def test_a_release_is_never_tried_past_kill_at() -> None:
    story = Story().leads().waits(2).waits(7.9)  # the renewal hangs until just before the renew deadline
    story.tell(EMPTIED)
    story.fails(Kind.UNREACHABLE, after=1.1)
    assert story.now == START + 11
    assert story.pending(e.Get).timeout == pytest.approx(2)


def test_no_release_sends_no_release_even_during_a_request() -> None:
    story = Story().leads().waits(2).tell(e.AllProcessesExited(release=False))
    assert story.actions == [e.Released(released=False, why="asked not to")]
    assert story.waits(60).actions == []


def test_a_term_that_was_lost_is_not_released() -> None:
    story = Story().leads().waits(2).waits(8)
    assert story.tell(EMPTIED).actions == [e.Released(released=False, why="the term was lost")]


def test_a_candidate_that_never_wrote_has_nothing_to_release() -> None:
    story = Story().follows().tell(EMPTIED)
    assert story.actions == [e.Unwatch(), e.Released(released=False, why="the lock is not held")]


def test_a_pending_acquisition_at_the_end_is_released_and_begins_no_term() -> None:
    story = Story().wakes().reads(None).tell(EMPTIED)
    assert story.actions == []
    landed = story.landed()
    write = story.tell(e.WriteDone(story.pending(e.Write), landed)).asked(e.Write)
    assert (write.base, write.record.holder) == (landed, "")
    assert not story.all(e.Acquired)
    assert story.writes().asked(e.Released).released


def test_an_acquiring_write_without_a_response_is_released_if_it_arrived() -> None:
    story = Story().wakes().reads(None)
    landed = story.landed()
    story.fails(Kind.UNREACHABLE).fails(Kind.UNREACHABLE).tell(EMPTIED).asked(e.Get)
    assert story.reads(landed).asked(e.Write).base is landed


def test_an_acquiring_write_that_did_not_arrive_is_not_released() -> None:
    story = Story().wakes().reads(None).fails(Kind.UNREACHABLE).tell(EMPTIED)
    assert not story.reads(story.lock("other")).asked(e.Released).released
    assert story.requests == []


def test_a_replacement_elector_does_not_release_its_predecessors_acquisition() -> None:
    """Nor does it know over whom."""
    assert not Story(resume_waiting(candidate(), TERM, START)).tell(EMPTIED).asked(e.Released).released


def test_an_unanswered_acquisition_is_not_released_while_an_earlier_holder_may_run() -> None:
    """A creation proves nothing of what was there before."""
    story = Story().follows().sees(None).waits(15)
    assert story.pending(e.Write).base is None
    assert not story.tell(EMPTIED).asked(e.Released).released


def test_an_unanswered_acquisition_is_released_at_safe_at() -> None:
    story = Story().follows().waits(15)
    landed = story.landed()
    story.tell(EMPTIED).fails(Kind.UNREACHABLE).reads(landed)
    assert story.asked(e.Write).base is landed
    assert story.writes().asked(e.Released).released


def test_a_candidate_that_holds_the_lock_and_may_not_start_lets_it_run_out() -> None:
    """An empty holder would say that no process of an earlier holder is alive."""
    story = Story().follows().sees(None).waits(15).writes()
    assert story.state.phase is Phase.HOLDING
    assert not story.tell(EMPTIED).asked(e.Released).released


def test_a_replacement_elector_of_a_leader_reads_before_it_releases() -> None:
    story = Story(resumed(candidate(), START - 1, acquired=WALL, transitions=7)).tell(EMPTIED)
    story.asked(e.Get)
    write = story.reads(story.lock(ME, TERM, renewed=WALL + 9 * SECOND)).asked(e.Write)
    assert write.record.renewed == WALL + 10 * SECOND


def test_a_throttled_release_is_tried_again_within_its_time() -> None:
    story = Story().leads().tell(EMPTIED).fails(Kind.THROTTLED, retry_after=30)
    story.idles(1.9)
    assert story.waits(0.1).asked(e.Write).record.holder == ""


@pytest.mark.parametrize("release", [True, False])
def test_a_repeated_end_does_not_change_the_last_write(
    release: bool,  # noqa: FBT001 - a parameter of the test
) -> None:
    """TERM while a leader that has stepped down releases the lock, or records its run."""
    end = e.AllProcessesExited(release=release, record=True)
    story = Story().leads().tell(end)
    last = story.asked(e.Write)
    assert story.tell(end).actions == []
    assert story.state.pending is last
    assert story.writes().asked(e.Released).released is release


# --- the last write of a leader that does not release the lock records the run

KEEPS = e.AllProcessesExited(release=False, record=True)


def test_a_leader_that_keeps_the_lock_ends_with_a_renewal_of_its_own_record() -> None:
    story = Story().leads().tell(KEEPS)
    write = story.asked(e.Write)
    assert (write.record.holder, write.incarnation) == (ME, TERM)
    assert write.base == story.state.observed
    assert not story.all(e.Released)
    assert not story.writes().asked(e.Released).released


def test_a_renewal_under_way_does_not_count_as_the_record_of_the_run() -> None:
    """It was sent before the run had ended."""
    story = Story().leads().waits(2)
    renewal, landed = story.pending(e.Write), story.landed()
    story.tell(KEEPS).asked(e.Get)
    assert not story.tell(e.WriteDone(renewal, landed)).all(e.Released)
    story.reads(landed).asked(e.Write)
    assert not story.writes().asked(e.Released).released


def test_the_record_of_a_run_is_sent_until_answered_or_late() -> None:
    story = Story().leads().tell(KEEPS)
    first = story.landed()
    story.fails(Kind.UNREACHABLE).asked(e.Get)
    story.reads(first).asked(e.Write)
    story.fails(Kind.UNREACHABLE).waits(5).fails(Kind.UNREACHABLE)
    assert "run_not_recorded" in [report.event for report in story.all(e.Report)]
    assert not story.asked(e.Released).released


def test_no_run_is_recorded_over_another_holders_record() -> None:
    story = Story().leads().tell(KEEPS).fails(Kind.CONFLICT)
    story.reads(story.lock("other"))
    assert story.asked(e.Report).event == "run_not_recorded"
    assert not story.requests


def test_the_next_elector_of_a_leader_records_the_run_over_the_terms_own_record() -> None:
    """The first one died as the command ended."""
    story = Story(resumed(candidate(), START, acquired=WALL, transitions=3)).tell(KEEPS)
    story.asked(e.Get)
    story.reads(story.lock(ME, TERM)).asked(e.Write)
    assert not story.writes().asked(e.Released).released


def test_a_release_of_an_earlier_elector_is_not_written_over_to_record_the_run() -> None:
    story = Story(resumed(candidate(), START, acquired=WALL, transitions=3)).tell(KEEPS)
    assert story.reads(story.lock("")).asked(e.Released).released


@pytest.mark.parametrize("release", [True, False])
def test_the_end_of_a_candidacy_is_reported_once(release: bool) -> None:  # noqa: FBT001 - a parameter of the test
    story = Story().leads().tell(e.AllProcessesExited(release=False))
    assert story.state.phase is Phase.OVER
    assert story.tell(e.AllProcessesExited(release=release)).actions == []
    assert story.wakes().actions == []
