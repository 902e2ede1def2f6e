"""Requests to a leader: which term they are for, when the leader meets them, and how a named candidate leads."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from kleader.election import events as e
from kleader.election.events import Kind, Observed
from kleader.election.record import SECOND, UNKNOWN
from kleader.election.request import Request, from_text, to_text
from kleader.election.state import Phase, resume_waiting
from tests.support.election import ME, START, TERM, TIMING, WALL, Story, candidate, resumed

RESIGN, TRANSFER = Request(ME, TERM), Request(ME, TERM, "heir")
GIVEN = e.AllProcessesExited(release=True, to="heir")


def asked(story: Story, request: Request | None) -> Observed:
    """The lock as it is, with a request on it, which somebody else's write has left there."""
    assert story.state.observed
    return replace(story.relabelled(story.state.observed), request=request)


def sees(story: Story, request: Request | None) -> Story:
    """A leader's renewal meets that write, and it reads what is there."""
    found = asked(story, request)
    return story.waits(2).fails(Kind.CONFLICT).reads(found)


def given(story: Story, holder: str = ME, **fields: Any) -> Observed:  # noqa: ANN401
    """A lock whose last leader has named a holder."""
    return replace(story.lock(holder), **{"handed_over": True, **fields})


# --- whom it is for


@pytest.mark.parametrize("request_", [RESIGN, TRANSFER], ids=["resign", "transfer"])
def test_a_leader_finds_a_request_by_a_conflict_and_renews_on(
    request_: Request,
) -> None:
    story = sees(Story().leads(), request_)
    told = story.asked(e.StepDown)
    assert (told.asked, told.to) == (True, request_.to)
    assert story.asked(e.Write).record.holder == ME, "until its command is dead"
    story.writes().asked(e.Renewed)
    assert story.state.phase is Phase.LEADING


@pytest.mark.parametrize("request_", [RESIGN, TRANSFER], ids=["resign", "transfer"])
def test_a_holding_candidate_that_is_asked_to_resign_stands_down(request_: Request) -> None:
    story = Story().follows().sees(None).waits(15).writes()
    assert story.state.phase is Phase.HOLDING
    told = sees(story, request_)
    assert [report.event for report in told.all(e.Report)] == ["standing_aside"]
    story.idles(14.9).waits(0.1)
    assert story.asked(e.Write).incarnation != TERM, "nobody else has taken it"


def test_a_holding_candidate_ignores_a_request_to_another_term() -> None:
    story = Story().follows().sees(None).waits(15).writes()
    assert sees(story, Request(ME, "term-0")).asked(e.Report).event == "request_ignored"
    assert story.asked(e.Write).incarnation == TERM


@pytest.mark.parametrize(
    "wrong",
    [
        Request(ME, "term-0"),
        Request(ME, "term-0", "heir"),
        Request("other", TERM),
        Request(ME, TERM, ME),
        None,
    ],
    ids=["another term", "a transfer of another term", "another holder", "to who leads", "none"],
)
def test_a_request_to_another_term_is_ignored(wrong: Request | None) -> None:
    story = sees(Story().leads(), wrong)
    assert not story.all(e.StepDown)
    assert story.asked(e.Write).record.holder == ME
    assert bool(story.all(e.Report)) == (wrong is not None)


def test_a_request_that_is_observed_again_is_reported_again() -> None:
    """A word to a supervisor may get lost; it acts on the first one that it hears."""
    story = sees(Story().leads(), RESIGN)
    renewed = story.landed()
    story.fails(Kind.CONFLICT).waits(1)
    story.reads(replace(renewed, version=story.version(), request=RESIGN)).asked(e.StepDown)


def test_a_replacement_elector_finds_the_request_to_its_predecessor() -> None:
    story = Story(resumed(candidate(), START, acquired=WALL, transitions=3))
    held = replace(story.lock(ME, TERM), request=TRANSFER)
    assert story.wakes().reads(held).asked(e.StepDown).to == "heir"


@pytest.mark.parametrize("kind", [{"coordinated": True}, {"non_expiring": True}], ids=["coordinated", "for life"])
def test_a_leader_that_cannot_hand_over_ignores_a_transfer_and_meets_a_resignation(kind: dict[str, Any]) -> None:
    for request, yields in ((TRANSFER, 0), (RESIGN, 1)):
        story = Story(**kind)
        if kind.get("non_expiring"):
            story.wakes().reads(None).writes()
            story.sees(replace(story.lock(ME, TERM), owned_by_me=True, request=request))
        else:
            story = Story(resumed(candidate(**kind), START, acquired=WALL, transitions=3))
            story.wakes().reads(replace(story.lock(ME, TERM), request=request))
        assert len(story.all(e.StepDown)) == yields


def test_a_request_observed_before_the_response_to_its_terms_write_is_met_without_expiry() -> None:
    story = Story(non_expiring=True)
    story.wakes().reads(None).fails(Kind.UNREACHABLE)
    story.reads(replace(story.lock(ME, TERM), owned_by_me=True, request=RESIGN))
    assert [type(each) for each in story.actions if isinstance(each, (e.Acquired, e.StepDown))] == [
        e.Acquired,
        e.StepDown,
    ]


def test_a_candidate_ignores_requests_and_they_do_not_restart_its_wait() -> None:
    story = Story()
    held = story.lock("other", "term-9")
    story.follows(held).idles(14)
    story.sees(replace(story.relabelled(held), request=Request("other", "term-9", ME)))
    assert not story.actions
    story.waits(1)
    assert story.pending(e.Write).record.holder == ME


# --- what the leader does when nothing of its term is alive


def test_a_transfer_writes_the_next_holder_over_the_leaders_own_record() -> None:
    story = Story()
    story.wakes().reads(story.lock("")).writes()
    own = story.state.observed
    assert own
    write = story.waits(1).tell(GIVEN).asked(e.Write)
    assert write.base is own
    assert (write.record.holder, write.record.duration, write.incarnation) == ("heir", 15, "")
    assert write.record.transitions == own.record.transitions + 1
    assert write.record.acquired == write.record.renewed
    assert (write.record.renewed or 0) >= (own.record.renewed or 0) + SECOND
    assert story.writes().asked(e.Released) == e.Released(released=True, why="heir leads next")


def test_a_transfer_during_a_renewal_waits_for_its_response() -> None:
    story = Story().leads().waits(2)
    renewal = story.landed()
    assert story.tell(GIVEN).actions == []
    story.tell(e.WriteDone(story.pending(e.Write), renewal))
    write = story.asked(e.Write)
    assert (write.base, write.record.holder) == (renewal, "heir")


def test_a_conflict_of_a_transfer_is_read_and_retried_and_never_becomes_a_release() -> None:
    story = Story().leads()
    assert story.state.observed
    labelled = story.relabelled(story.state.observed)
    story.tell(GIVEN).fails(Kind.CONFLICT).asked(e.Get)
    write = story.reads(labelled).asked(e.Write)
    assert (write.base, write.record.holder) == (labelled, "heir")


@pytest.mark.parametrize("taken", ["", "term-7"], ids=["not taken yet", "taken"])
def test_a_transfer_without_an_answer_may_have_happened(taken: str) -> None:
    story = Story().leads().tell(GIVEN)
    landed = replace(story.landed(), incarnation=taken, handed_over=not taken)
    story.fails(Kind.UNREACHABLE).asked(e.Get)
    assert story.reads(landed).asked(e.Released) == e.Released(released=True, why="heir leads next")


def test_a_transfer_without_a_response_ends_in_time_and_lets_the_lock_run_out() -> None:
    story = Story().leads().tell(GIVEN)
    for _ in range(20):
        if story.state.phase is Phase.OVER:
            break
        if story.state.pending:
            story.fails(Kind.UNREACHABLE, after=1)
        else:
            story.waits(0.5)
        assert all(write.record.holder == "heir" for write in story.all(e.Write))
    done = story.asked(e.Released)
    assert not done.released
    assert story.now <= START + TIMING.request_timeout + 2


def test_only_the_named_candidate_takes_a_lock_that_was_handed_over() -> None:
    story = Story().leads().tell(GIVEN).fails(Kind.UNREACHABLE)
    assert story.reads(story.lock("third", "term-7")).asked(e.Released) == e.Released(
        released=False, why="the lock is no longer this candidate's"
    )


def test_a_replacement_elector_writes_its_predecessors_transfer_or_finds_it_written() -> None:
    for found, released in (("mine", False), ("handed_over", True)):
        story = Story(resumed(candidate(), START, acquired=WALL, transitions=3))
        story.wakes().tell(GIVEN)
        story.reads(story.lock(ME, TERM) if found == "mine" else given(story, "heir"))
        if released:
            assert story.asked(e.Released).released
        else:
            assert story.asked(e.Write).record.holder == "heir"


def test_a_lost_lock_is_not_handed_over() -> None:
    story = Story().leads().waits(2).fails(Kind.CONFLICT)
    story.reads(story.lock("other", "term-9"))
    assert story.state.phase is Phase.LOST
    assert story.tell(GIVEN).asked(e.Released) == e.Released(released=False, why="the term was lost")
    assert not story.requests


def test_a_holding_candidate_does_not_hand_the_lock_over() -> None:
    """A candidate that ends before its term may release its record, and hands the lock to no other."""
    story = Story().wakes().reads(None)
    landed = story.landed()
    story.fails(Kind.UNREACHABLE).tell(GIVEN)
    claim = replace(landed, record=replace(landed.record, transitions=1))
    assert not story.reads(claim).asked(e.Write).record.holder


# --- the old leader afterwards


def test_a_leader_that_handed_the_lock_over_waits_a_lease_duration_for_the_next() -> None:
    story = Story().leads().tell(GIVEN)
    assert story.asked(e.Write).record.holder == "heir"
    handed = story.landed()
    story = Story(resume_waiting(candidate(), "term-2", START)).wakes()
    assert not story.reads(handed).requests, "a lock that another was given is that one's"
    story.idles(14.9).waits(0.1)
    assert story.asked(e.Write).record.holder == ME, "which nobody took: it has run out"


# --- who was named


def test_a_named_candidate_leads_from_before_its_own_write() -> None:
    story = Story()
    story.follows(story.lock("other", "term-9")).waits(3)
    named = given(story)
    write = story.sees(named).asked(e.Write)
    assert not story.all(e.Acquired)
    assert (write.base, write.incarnation, write.record.holder) == (named, TERM, ME)
    assert write.record.transitions == named.record.transitions, "the write that named it has counted it"
    assert write.record.acquired == named.record.acquired
    assert (write.record.renewed or 0) >= (named.record.renewed or 0) + SECOND
    sent = story.now
    lead = story.writes(after=0.5).asked(e.Acquired)
    assert (lead.stop_at, lead.kill_at) == (TIMING.stop_at(sent), TIMING.kill_at(sent))


def test_a_candidate_named_before_its_first_read_takes_the_lock_at_once() -> None:
    story = Story(one_try=True).wakes()
    assert story.reads(given(story)).asked(e.Write).incarnation == TERM
    story.writes().asked(e.Acquired)


def test_wait_live_does_not_take_a_handover_to_this_candidate_for_a_renewal() -> None:
    story = Story(live=True)
    story.follows(story.lock("other", "term-9"))
    assert story.sees(given(story)).asked(e.Write).record.holder == ME


@pytest.mark.parametrize(
    "found",
    [
        {"handed_over": False},
        {"incarnation": "term-7", "handed_over": False},
        {"incarnation": "term-7"},
        {"fault": "it is not JSON"},
        {"some_object_lacks_record": True},
    ],
    ids=["a client-go leader", "a kleader", "another that took it", "malformed", "half a pair"],
)
def test_an_equal_identity_without_a_handover_is_another_holder(found: dict[str, Any]) -> None:
    story = Story().wakes()
    seen = given(story, **found)
    assert not story.reads(seen).requests
    story.idles(14)


def test_a_lock_handed_to_another_candidate_is_waited_for_like_any_lock() -> None:
    story = Story()
    story.follows(given(story, "third")).idles(14.9).waits(0.1)
    assert story.asked(e.Write).record.transitions == 4


@pytest.mark.parametrize("kind", [{"coordinated": True}, {"non_expiring": True}], ids=["coordinated", "for life"])
def test_a_lock_that_cannot_be_handed_over_is_never_taken_as_handed_over(kind: dict[str, Any]) -> None:
    story = Story(**kind).wakes()
    assert not story.reads(given(story)).requests


def test_of_two_candidates_with_the_named_identity_the_second_writer_follows() -> None:
    story = Story().wakes()
    story.reads(given(story)).fails(Kind.CONFLICT).asked(e.Get)
    story.reads(story.lock(ME, "term-7"))
    story.idles(14)


def test_a_named_candidate_whose_write_is_unanswered_waits_and_writes_again() -> None:
    story = Story().wakes()
    story.reads(given(story))
    landed = story.landed()
    story.fails(Kind.UNREACHABLE, after=1).asked(e.Get)
    story.reads(landed).idles(14.9)
    write = story.waits(0.1).asked(e.Write)
    assert (write.base, write.incarnation) == (landed, TERM)
    assert story.writes().asked(e.Acquired).stop_at == TIMING.stop_at(story.now)


def test_a_handover_that_is_withdrawn_is_not_taken() -> None:
    """Even if its record is the same: the holder of that name has written it."""
    story = Story()
    story.follows(story.lock("other", "term-9"))
    named = given(story)
    story.sees(named).fails(Kind.THROTTLED, retry_after=5)
    story.sees(replace(named, handed_over=False, version=story.version())).idles(14.9)


# --- the annotation


@pytest.mark.parametrize("request_", [RESIGN, TRANSFER], ids=["resign", "transfer"])
def test_a_request_survives_its_text(request_: Request) -> None:
    assert from_text(to_text(request_)) == request_
    assert json.loads(to_text(request_))["action"] == ("transfer" if request_.to else "resign")


@pytest.mark.parametrize(
    "text",
    [
        None,
        7,
        "",
        "{",
        "[" * 100_000,
        "[]",
        "{}",
        '{"action":"resign","holder":"me"}',
        '{"action":"resign","holder":"me","incarnation":""}',
        '{"action":"resign","holder":7,"incarnation":"i"}',
        '{"action":"resign","holder":"me","incarnation":"i","to":"x"}',
        '{"action":"transfer","holder":"me","incarnation":"i"}',
        '{"action":"transfer","holder":"me","incarnation":"i","to":" "}',
        '{"action":"transfer","holder":"me","incarnation":"i","to":["x"]}',
        f'{{"action":"transfer","holder":"me","incarnation":"i","to":"{UNKNOWN}"}}',
        f'{{"action":"transfer","holder":"me","incarnation":"i","to":"{"x" * 4097}"}}',
        '{"action":"drop","holder":"me","incarnation":"i"}',
    ],
)
def test_a_malformed_request_is_ignored(text: object) -> None:
    assert from_text(text) is None
