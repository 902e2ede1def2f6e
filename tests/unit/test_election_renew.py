"""Renewing: client-go's behaviours, and where the promise departs from them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kleader.election import events as e
from kleader.election.events import Kind, Observed
from kleader.election.record import SECOND, Record
from kleader.election.state import Phase
from tests.support.election import ME, START, TERM, WALL, Story, candidate, resumed

# --- the fast path


def test_a_leader_writes_once_in_each_retry_period() -> None:
    story = Story().leads()
    base = story.state.observed
    for _ in range(100):
        assert story.waits(1.9).actions == []
        write = story.waits(0.1).asked(e.Write)
        assert write.base is base, "no read comes first"
        assert (write.record.holder, write.incarnation) == (ME, TERM)
        assert (write.record.acquired, write.record.transitions) == (WALL, 0), "acquireTime and transitions are kept"
        assert story.actions == [write]
        extend = story.writes().asked(e.Renewed)
        assert (extend.stop_at, extend.kill_at) == (story.now + 10, story.now + 13)
        base = story.state.observed


def test_a_failed_renewal_is_followed_by_a_read_and_an_update() -> None:
    story = Story().leads()
    assert story.state.observed
    own = story.relabelled(story.state.observed)
    story.waits(2).fails(Kind.CONFLICT)
    assert isinstance(story.requests[0], e.Get)
    write = story.reads(own).asked(e.Write)
    assert write.base is own


def test_an_unexplained_conflict_ends_no_term() -> None:
    """The same version twice counts."""
    story = Story().leads()
    own = story.state.observed
    story.waits(2).fails(Kind.CONFLICT).reads(own)
    assert not story.all(e.Write)
    story.waits(0.2).asked(e.Get)
    assert story.reads(own).asked(e.Write).base is own


def test_a_renewal_counts_from_before_it_was_sent() -> None:
    story = Story().leads().waits(2)
    assert story.writes(after=4).asked(e.Renewed).stop_at == START + 2 + 10


def test_the_next_renewal_is_due_a_retry_period_after_the_last_one_was_sent() -> None:
    story = Story().leads().waits(2).writes(after=1)
    story.idles(0.9)
    story.waits(0.1).asked(e.Write)


# --- what makes a write count


@pytest.mark.parametrize("kind", [Kind.UNREACHABLE, Kind.THROTTLED, Kind.DENIED, Kind.REFUSED, Kind.CONFLICT])
def test_a_renewal_that_failed_does_not_move_the_deadlines(kind: Kind) -> None:
    story = Story().leads().waits(2).fails(kind)
    assert story.state.stop_at == START + 10
    assert not story.all(e.Renewed)


def test_a_no_op_answer_with_the_version_that_was_sent_does_not_count() -> None:
    story = Story().leads().waits(2)
    write = story.pending(e.Write)
    assert write.base
    story.tell(e.WriteDone(write, replace(story.landed(), version=write.base.version)))
    assert not story.all(e.Renewed)
    assert story.state.stop_at == START + 10


def test_two_renewals_within_one_second_are_a_whole_second_apart_on_the_object() -> None:
    story = Story().leads().waits(2)
    landed = story.landed()
    story.fails(Kind.UNREACHABLE)
    assert landed.record.renewed == story.wall
    assert story.reads(landed).asked(e.Write).record.renewed == story.wall + SECOND


def test_a_lost_renewal_that_arrived_is_no_loss() -> None:
    story = Story().leads().waits(2)
    landed = story.landed()
    story.fails(Kind.UNREACHABLE, after=5)
    assert story.reads(landed).asked(e.Write).base is landed
    assert story.writes().asked(e.Renewed).stop_at == START + 7 + 10


def test_a_renewal_that_a_proxy_sends_twice_is_no_loss() -> None:
    story = Story().leads().waits(2)
    landed = story.landed()
    story.fails(Kind.CONFLICT).reads(landed)
    assert story.asked(e.Write).base is landed
    assert not story.all(e.Lost)


def test_a_foreign_label_costs_a_leader_one_read() -> None:
    story = Story().leads()
    assert story.state.observed
    labelled = story.relabelled(story.state.observed)
    story.waits(2).fails(Kind.CONFLICT).reads(labelled).writes()
    story.asked(e.Renewed)


# --- losing


def test_a_leader_steps_down_with_grace_at_the_renew_deadline() -> None:
    story = Story().leads().waits(2)
    while story.now < START + 9:
        if story.state.pending:
            story.fails(Kind.UNREACHABLE, after=0.5)
        else:
            story.waits(0.5)
    assert story.state.phase is Phase.LEADING
    lost = story.waits(START + 10 - story.now).asked(e.Lost)
    assert not lost.kill_now
    assert lost.reason == "not renewed within the renew deadline of 10s"


def test_an_answer_that_never_comes_does_not_delay_the_loss() -> None:
    story = Story().leads().waits(2).waits(7.9)
    assert not story.all(e.Lost)
    story.waits(0.1).asked(e.Lost)


def test_no_request_of_a_leader_lasts_longer_than_half_its_deadline() -> None:
    story = Story().leads().waits(2)
    assert story.pending(e.Write).timeout == 5
    story.fails(Kind.UNREACHABLE, after=5)
    assert story.pending(e.Get).timeout == 3
    story.reads(story.lock(ME, TERM, renewed=WALL))
    assert story.pending(e.Write).timeout == 3


@pytest.mark.parametrize(
    ("holder", "incarnation", "why"),
    [
        ("other", "term-9", "the lock is held by other"),
        (ME, "term-2", "another candidate with the same --identity holds the lock: give each its own"),
        (ME, "", "another candidate with the same --identity holds the lock: give each its own"),
        ("", "", "the lock was cleared, by hand or by kleader resign --force"),
    ],
)
def test_a_leader_that_reads_another_holder_or_incarnation_has_lost_without_grace(
    holder: str, incarnation: str, why: str
) -> None:
    story = Story().leads().waits(2).fails(Kind.CONFLICT)
    story.reads(story.lock(holder, incarnation))
    assert story.asked(e.Lost) == e.Lost(why, kill_now=True)
    assert story.waits(60).actions == []


def test_a_lock_overwritten_with_garbage_is_lost_without_grace() -> None:
    story = Story().leads().waits(2).fails(Kind.CONFLICT)
    story.reads(Observed(Record(), TERM, "7", "spec.holderIdentity is not a string"))
    assert story.asked(e.Lost).kill_now


def test_a_second_writer_with_the_same_incarnation_is_detected_by_its_renew_time() -> None:
    story = Story().leads().waits(2).fails(Kind.CONFLICT)
    story.reads(story.lock(ME, TERM, renewed=WALL + 77 * SECOND))
    assert story.asked(e.Lost).kill_now


def test_a_late_response_does_not_restore_a_lost_term() -> None:
    story = Story().leads().waits(2)
    write, landed = story.pending(e.Write), story.landed()
    story.waits(8).asked(e.Lost)
    assert story.tell(e.WriteDone(write, landed)).actions == []
    assert story.state.phase is Phase.LOST


def test_a_renewal_answered_in_time_keeps_the_term_when_it_is_read_late() -> None:
    """The process slept: the answer is heard before the clock is looked at."""
    story = Story().leads().waits(2).writes(after=8.5)
    story.asked(e.Renewed)
    assert not story.all(e.Lost)


def test_a_leader_whose_supervisor_does_not_answer_lets_the_lock_run_out() -> None:
    story = Story().leads()
    lost = story.tell(e.SupervisorUnresponsive("the supervisor has not answered for 10s")).asked(e.Lost)
    assert lost == e.Lost("the supervisor has not answered for 10s", kill_now=False)
    assert story.tell(e.AllProcessesExited(release=True)).asked(e.Released) == e.Released(
        released=False, why="the term was lost"
    )


# --- retries


def test_a_lost_answer_is_followed_up_at_once_and_then_at_the_retry_period() -> None:
    story = Story().leads().waits(2).fails(Kind.UNREACHABLE)
    story.asked(e.Get)
    story.fails(Kind.UNREACHABLE)
    story.idles(1.9)
    story.waits(0.1).asked(e.Get)


@pytest.mark.parametrize(("kind", "then"), [(Kind.THROTTLED, e.Write), (Kind.UNREACHABLE, e.Get)])
def test_a_throttled_leader_retries_within_its_retry_period(kind: Kind, then: type[e.Get | e.Write]) -> None:
    """By a 429, or by a 5xx: that one may have been done all the same, so the lock is read first."""
    story = Story().leads().waits(2)
    story.luck = 0.5
    story.fails(kind, retry_after=30)
    story.idles(1.85)
    story.waits(0.15).asked(then)


def test_conflicts_without_end_do_not_make_a_leader_spin() -> None:
    story, asked = Story().leads(), 0
    own = story.state.observed
    while story.state.phase is Phase.LEADING:
        asked += len(story.requests)
        if isinstance(story.state.pending, e.Get):
            story.reads(own)
        elif story.state.pending:
            story.fails(Kind.CONFLICT)
        else:
            story.waits(story.state.wake_at - story.now)
        assert asked < 10 * 12


# --- gone


def test_a_leader_recreates_a_deleted_lock_with_its_transitions_and_acquire_time() -> None:
    story = Story()
    story.wakes().reads(story.lock("")).writes()
    acquired = story.state.own_record.acquired
    story.waits(2).fails(Kind.CONFLICT)
    write = story.fails(Kind.MISSING).asked(e.Write)
    assert (write.base, write.incarnation) == (None, TERM)
    assert (write.record.acquired, write.record.transitions) == (acquired, 4)
    story.writes().asked(e.Renewed)


def test_a_leader_whose_deleted_lock_another_candidate_creates_first_has_lost() -> None:
    story = Story().leads().waits(2).fails(Kind.CONFLICT).fails(Kind.MISSING)
    story.fails(Kind.CONFLICT).waits(0.4)
    assert story.reads(story.lock("other")).asked(e.Lost).kill_now


def test_a_recreated_lock_carries_a_renew_time_later_than_any_before() -> None:
    story = Story().leads()
    before = story.state.observed
    assert before
    assert before.record.renewed
    story.waits(2)
    lost = story.pending(e.Write).record.renewed
    assert lost
    story.fails(Kind.UNREACHABLE).fails(Kind.MISSING)
    renewed = story.asked(e.Write).record.renewed
    assert renewed == lost + SECOND


# --- a successor in the middle of a term


def replaced() -> Story:
    story = Story(resumed(candidate(), START - 4, acquired=WALL - 60 * SECOND, transitions=7))
    story.wakes().asked(e.Get)
    return story


def test_a_replacement_elector_reads_the_lock_and_renews_at_once() -> None:
    story = replaced()
    own = story.lock(ME, TERM, renewed=WALL - 3 * SECOND, acquired=WALL - 60 * SECOND, transitions=7)
    write = story.reads(own).asked(e.Write)
    assert write.base is own
    assert (write.record.acquired, write.record.transitions) == (WALL - 60 * SECOND, 7)
    assert story.writes().asked(e.Renewed).stop_at == START + 10
    assert not story.all(e.Acquired)


def test_a_replacement_elector_keeps_its_predecessors_deadline() -> None:
    story = replaced().waits(5.9)
    assert not story.all(e.Lost)
    story.waits(0.1).asked(e.Lost)


def test_a_pending_renewal_of_the_previous_elector_is_no_loss() -> None:
    story = replaced()
    own = story.lock(ME, TERM)
    story.reads(own).fails(Kind.CONFLICT)
    late = story.lock(ME, TERM, renewed=WALL - SECOND)
    assert story.reads(late).asked(e.Write).base is late


def test_a_replacement_elector_that_reads_another_holder_has_lost_without_grace() -> None:
    story = replaced()
    assert story.reads(story.lock("other")).asked(e.Lost).kill_now


def test_a_replacement_elector_recreates_a_deleted_lock_with_its_transitions() -> None:
    record = replaced().reads(None).asked(e.Write).record
    assert (record.acquired, record.transitions) == (WALL - 60 * SECOND, 7)
