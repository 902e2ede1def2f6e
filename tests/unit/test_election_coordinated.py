"""Coordinated election: a candidate that the control plane nominates leads when every earlier holder has expired."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from kleader.election import events as e
from kleader.election.events import Kind, Observed
from kleader.election.record import Record
from kleader.election.state import Phase, resume_waiting
from tests.support.election import ME, START, TERM, Story, candidate, resumed

if TYPE_CHECKING:
    from typing_extensions import Self

    from kleader.election.state import State

EMPTIED = e.AllProcessesExited(release=True)


class Coordinated(Story):
    """A candidate that the control plane may name."""

    def __init__(self, state: State | None = None, **fields: object) -> None:
        super().__init__(state, **({} if state else {"coordinated": True, **fields}))

    def naming(self, holder: str = ME, incarnation: str = "", **fields: object) -> Observed:
        """The lock as the control plane leaves it when it names somebody, the annotation as it found it."""
        seen = Story.lock(self, holder, incarnation)
        return replace(seen, record=replace(seen.record, duration=5, acquired=None), **fields)  # type: ignore[arg-type]

    def preferring(self, seen: Observed | None, other: str = "better") -> Observed:
        """The same record, with another preferred by the control plane."""
        assert seen
        return replace(self.relabelled(seen), preferred=other)

    def leads(self) -> Self:
        """It was named over an empty holder, and leads since now."""
        self.follows(self.lock(""))
        self.sees(self.naming()).writes().asked(e.Acquired)
        return self


# --- when a term begins


def test_a_candidate_nominated_over_an_empty_holder_leads_with_its_first_write() -> None:
    story = Coordinated()
    story.follows(story.lock("")).sees(story.naming())
    write = story.asked(e.Write)
    assert (write.record.holder, write.record.duration, write.record.transitions) == (ME, 15, 4)
    assert write.record.acquired == story.wall
    assert write.incarnation == TERM
    assert story.writes().asked(e.Acquired).token == str(story._version)


def test_a_candidate_nominated_over_a_holder_renews_and_leads_when_the_holder_has_expired() -> None:
    story = Coordinated()
    story.follows(story.lock("other")).waits(4)
    story.sees(story.naming()).asked(e.Write)
    story.writes()
    for _ in range(5):  # every retry period
        story.waits(1.99)
        assert not story.all(e.Acquired)
        story.waits(0.01)
        story.writes()
        assert not story.all(e.Acquired)
    story.waits(1)
    assert story.now == START + 15
    assert story.writes().asked(e.Acquired).kill_at == story.now + 13


def test_the_wait_is_for_the_duration_that_the_holder_advertised() -> None:
    story = Coordinated()
    story.follows(story.lock("other", duration=60)).waits(4)
    story.sees(story.naming()).writes()
    assert Phase.LEADING is not story.renews(55.9).state.phase
    assert Phase.LEADING is story.renews(0.1).state.phase


def test_each_renewal_of_the_holder_restarts_a_nominated_candidates_wait() -> None:
    story = Coordinated()
    story.follows(story.lock("other")).waits(4)
    story.sees(story.lock("other")).waits(1)
    story.sees(story.naming()).writes()
    assert Phase.LEADING is not story.renews(13.9).state.phase
    assert Phase.LEADING is story.renews(0.1).state.phase


def test_a_preferred_holder_on_the_record_does_not_restart_the_wait() -> None:
    story = Coordinated()
    held = story.lock("other")
    story.follows(held).waits(4)
    story.sees(story.preferring(held, ME)).waits(1)
    story.sees(story.naming()).writes()
    assert Phase.LEADING is story.renews(10).state.phase


def test_a_candidate_that_observed_no_earlier_leader_waits_a_whole_lease_duration() -> None:
    story = Coordinated().wakes()
    story.reads(story.naming()).writes()
    assert Phase.LEADING is not story.renews(14.9).state.phase
    assert Phase.LEADING is story.renews(0.1).state.phase


def test_a_read_may_have_missed_a_holder_in_between() -> None:
    """Between two reads another candidate may have been nominated over the empty holder, and have led."""
    story = Coordinated()
    story.follows(story.lock("")).tell(e.WatchEnded()).waits(10)
    story.reads(story.naming()).writes()
    assert Phase.LEADING is not story.renews(14.9).state.phase
    assert Phase.LEADING is story.renews(0.1).state.phase


def test_the_earlier_holder_that_expires_last_is_waited_for() -> None:
    """A write of a nominated candidate does not prove that the earlier holder is dead."""
    story = Coordinated()
    story.follows(story.lock("first", duration=60)).waits(1)
    story.sees(story.naming("second")).sees(story.lock("second")).waits(1)
    story.sees(story.naming()).writes()
    assert Phase.LEADING is not story.renews(58.9).state.phase
    assert Phase.LEADING is story.renews(0.1).state.phase


def test_a_nomination_without_a_write_hides_no_earlier_leader() -> None:
    """The 5 s of the control plane's own record say nothing about the leader before."""
    story = Coordinated()
    story.follows(story.naming("second")).waits(6)
    story.sees(story.naming()).writes()
    assert Phase.LEADING is not story.renews(8.9).state.phase
    assert Phase.LEADING is story.renews(0.1).state.phase


def test_a_candidate_nominated_under_watch_that_never_wrote_is_not_waited_for() -> None:
    """A candidate that crashed is named now and then: it would have had to write before it led."""
    story = Coordinated()
    story.follows(story.lock("other")).waits(1)
    story.sees(story.lock("")).sees(story.naming("crashed")).waits(10)
    story.sees(story.naming())
    story.writes().asked(e.Acquired)


def test_a_nomination_observed_by_watch_hides_no_earlier_leader() -> None:
    story = Coordinated()
    story.follows(story.lock("other")).waits(1)
    story.sees(story.naming("crashed")).waits(10)
    story.sees(story.naming()).writes()
    assert Phase.LEADING is not story.renews(4.9).state.phase
    assert Phase.LEADING is story.renews(0.1).state.phase


def test_a_nomination_observed_by_watch_shortens_no_wait_when_the_next_one_is_read() -> None:
    story = Coordinated()
    story.follows(story.lock("long", duration=60)).waits(1)
    story.sees(story.naming("crashed")).waits(1).tell(e.WatchEnded())
    story.reads(story.naming()).writes()
    assert Phase.LEADING is not story.renews(59.9).state.phase
    assert Phase.LEADING is story.renews(0.1).state.phase


def test_a_nomination_observed_by_watch_shortens_no_wait_when_the_lock_is_deleted() -> None:
    story = Coordinated()
    story.follows(story.lock("long", duration=60)).waits(1)
    story.sees(story.naming("crashed")).sees(None).waits(1)
    story.sees(story.naming(only_control_plane_wrote=True)).writes()
    assert Phase.LEADING is not story.renews(59.9).state.phase
    assert Phase.LEADING is story.renews(0.1).state.phase


@pytest.mark.parametrize("ours", [False, True], ids=["client-go", "kleader"])
def test_a_nominated_candidate_that_wrote_is_waited_for(*, ours: bool) -> None:
    """client-go leaves the acquireTime out, as the control plane does."""
    story = Coordinated()
    story.follows(story.lock("")).sees(story.naming("second")).waits(1)
    story.sees(story.lock("second") if ours else story.naming("second")).waits(6)
    story.sees(story.naming()).writes()
    assert Phase.LEADING is not story.renews(8.9).state.phase
    assert Phase.LEADING is story.renews(0.1).state.phase


def test_a_candidate_that_took_the_lock_without_a_nomination_is_waited_for() -> None:
    """A candidate of plain election."""
    story = Coordinated()
    story.follows(story.lock("")).sees(story.lock("plain")).waits(7)
    story.sees(story.naming()).writes()
    assert Phase.LEADING is not story.renews(7.9).state.phase
    assert Phase.LEADING is story.renews(0.1).state.phase


def test_a_nominated_candidate_that_may_have_written_unobserved_is_waited_for() -> None:
    """What was read leaves out what was there between."""
    story = Coordinated()
    story.follows(story.lock("")).tell(e.WatchEnded()).waits(10)
    story.reads(story.naming("second")).waits(6)
    story.sees(story.naming()).writes()
    assert Phase.LEADING is not story.renews(8.9).state.phase
    assert Phase.LEADING is story.renews(0.1).state.phase


def test_an_empty_holder_ends_the_wait_for_every_earlier_holder() -> None:
    story = Coordinated()
    story.follows(story.lock("other")).sees(story.lock("")).sees(story.naming())
    story.writes().asked(e.Acquired)


def test_a_recreated_lock_without_a_record_does_not_end_the_wait() -> None:
    story = Coordinated()
    story.follows(story.lock("other")).waits(4).sees(None).sees(Observed(Record(), version="900")).waits(1)
    story.sees(story.naming()).writes()
    assert Phase.LEADING is not story.renews(13.9).state.phase
    assert Phase.LEADING is story.renews(0.1).state.phase


def test_a_malformed_record_is_no_empty_holder() -> None:
    story = Coordinated()
    story.follows(story.lock("other")).waits(4)
    story.sees(replace(story.lock(""), fault="spec.holderIdentity is not a string")).waits(1)
    story.sees(story.naming()).writes()
    assert Phase.LEADING is not story.renews(13.9).state.phase
    assert Phase.LEADING is story.renews(0.1).state.phase


def test_a_nomination_that_changes_before_its_write_is_one_nomination() -> None:
    story = Coordinated()
    naming = story.naming()
    story.follows(story.lock("")).sees(naming).fails(Kind.CONFLICT)
    story.sees(story.preferring(naming, ME))
    story.writes().asked(e.Acquired)


def test_a_nomination_read_after_an_earlier_one_is_a_new_nomination() -> None:
    story = Coordinated()
    story.follows(story.lock("")).sees(story.naming()).fails(Kind.UNREACHABLE, after=5)
    story.reads(story.naming()).writes()
    assert Phase.LEADING is not story.renews(14.9).state.phase
    assert Phase.LEADING is story.renews(0.1).state.phase


def test_a_write_whose_response_was_lost_is_waited_for_like_any_record() -> None:
    story = Coordinated()
    story.follows(story.lock("")).sees(story.naming())
    landed = story.landed()
    story.fails(Kind.UNREACHABLE, after=5).reads(landed).idles(14.9)
    story.waits(0.1).writes().asked(e.Acquired)


def test_a_nominated_candidate_that_writes_no_acquire_time_is_waited_for() -> None:
    """A client-go candidate that the control plane has nominated leads so: only the first of these is a nomination."""
    story = Coordinated()
    story.follows(story.lock("")).sees(story.naming("go")).waits(1).sees(story.naming("go")).waits(1)
    story.sees(story.naming()).writes()
    assert Phase.LEADING is not story.renews(13.9).state.phase
    assert Phase.LEADING is story.renews(0.1).state.phase


@pytest.mark.parametrize("incarnation", ["", TERM, "term-0"])
def test_a_nomination_is_recognised_by_its_missing_acquire_time(incarnation: str) -> None:
    """A client-go leader keeps the annotation of the kleader before it, and so does the control plane."""
    story = Coordinated()
    story.follows(story.lock("other")).waits(4)
    story.sees(story.naming(incarnation=incarnation)).writes()
    assert Phase.LEADING is not story.renews(10.9).state.phase
    assert Phase.LEADING is story.renews(0.1).state.phase


# --- a lock that was not there


@pytest.mark.parametrize(
    ("before", "untouched"),
    [(["missing"], False), (["missing"], True), ([], True), (["held", "missing"], True)],
    ids=["it was written since", "it was missing", "it was not seen to be missing", "it was held before"],
)
def test_a_lock_created_by_nomination_is_waited_for(before: list[str], *, untouched: bool) -> None:
    """Before its watch has shown the lock to be missing, another candidate may have held it in between."""
    story = Coordinated().wakes()
    for i, each in enumerate([*before, "named"]):
        shown = {
            "held": story.lock("other"),
            "missing": None,
            "named": story.naming(only_control_plane_wrote=untouched),
        }[each]
        story = story.sees(shown) if i else story.reads(shown)
    story.writes()
    assert Phase.LEADING is not story.renews(14.9).state.phase
    assert Phase.LEADING is story.renews(0.1).state.phase


def test_a_lock_created_by_nomination_unobserved_is_waited_for() -> None:
    """Another candidate may have led in between, and its Lease have been deleted by hand."""
    story = Coordinated().wakes().reads(None)
    story.waits(10).tell(e.WatchEnded()).reads(story.naming(only_control_plane_wrote=True)).writes()
    assert Phase.LEADING is not story.renews(14.9).state.phase
    assert Phase.LEADING is story.renews(0.1).state.phase


@pytest.mark.parametrize("named_before", [False, True])
def test_a_candidate_whose_watch_began_before_the_lock_existed_leads_at_once(*, named_before: bool) -> None:
    """Also where the control plane has named another one before, which has not written the lock."""
    story = Coordinated().wakes().reads(None).sees(None).waits(4)
    if named_before:
        story.sees(story.naming("other", only_control_plane_wrote=True)).waits(4)
    story.sees(story.naming(only_control_plane_wrote=True)).asked(e.Write)
    story.writes().asked(e.Acquired)


def test_a_candidate_nominated_earlier_that_has_written_is_waited_for() -> None:
    story = Coordinated().wakes().reads(None).sees(None)
    story.sees(story.naming("other", only_control_plane_wrote=True)).sees(story.lock("other", "term-9"))
    story.sees(story.naming(incarnation="term-9")).writes()
    assert Phase.LEADING is not story.renews(14.9).state.phase
    assert Phase.LEADING is story.renews(0.1).state.phase


def test_a_lock_that_was_written_as_its_watch_began_is_waited_for() -> None:
    """The API server answers, the lock is found missing, another candidate leads: only then the watch begins."""
    story = Coordinated().wakes().reads(None).sees(None)
    story.sees(story.naming(incarnation="term-9", only_control_plane_wrote=False)).writes()
    assert Phase.LEADING is not story.renews(14.9).state.phase
    assert Phase.LEADING is story.renews(0.1).state.phase


def test_a_lock_missing_after_a_gap_is_waited_for() -> None:
    """It may have led, and its Lease have been deleted by hand."""
    story = Coordinated().wakes().reads(None).sees(None).waits(10)
    story.tell(e.WatchEnded()).reads(None).sees(None)
    story.sees(story.naming(only_control_plane_wrote=True)).writes()
    assert Phase.LEADING is not story.renews(14.9).state.phase
    assert Phase.LEADING is story.renews(0.1).state.phase


# --- what is not ours to take


def test_only_a_nominated_candidate_writes_the_lock() -> None:
    for shown in (None, "", "other"):
        story = Coordinated().wakes()
        story.reads(None if shown is None else story.lock(shown))
        story.idles(200)


def test_a_record_of_an_earlier_process_of_the_same_identity_is_waited_for() -> None:
    """The control plane nominates no candidate over a holder that it prefers."""
    story = Coordinated()
    story.follows(story.lock(ME, "term-0")).idles(14.9)
    story.waits(0.1).asked(e.Write)
    story.writes().asked(e.Acquired)


def test_a_plain_candidate_waits_its_own_lease_duration_for_a_nominated_holder() -> None:
    """The 5 s of a nomination say nothing about the leader before."""
    story = Coordinated(coordinated=False)
    story.follows(story.naming("other")).idles(14.9)
    story.waits(0.1).asked(e.Write)


def test_a_nominated_candidate_is_not_reported_as_the_leader_before_it_leads() -> None:
    story = Coordinated()
    story.follows(story.lock("other")).waits(4).sees(story.naming())
    assert not story.all(e.NewLeader)
    assert not story.writes().all(e.NewLeader)
    assert story.renews(10).waits(1).writes().asked(e.NewLeader).leader == ME


def test_another_candidates_nomination_is_reported_as_the_leader() -> None:
    """A client-go leader's record looks like a nomination."""
    story = Coordinated()
    assert story.follows(story.lock("")).sees(story.naming("go")).asked(e.NewLeader).leader == "go"


# --- elected elsewhere while leading


@pytest.mark.parametrize("incarnation", ["", TERM])
@pytest.mark.parametrize("replaced", [False, True])
def test_a_leader_that_is_nominated_again_has_lost_at_once(incarnation: str, *, replaced: bool) -> None:
    """Another candidate may have been nominated and have led in between."""
    me = candidate(coordinated=True)
    story = Coordinated(resumed(me, START - 1, acquired=7, transitions=4)) if replaced else Coordinated().leads()
    (story.wakes() if replaced else story.waits(2).fails(Kind.CONFLICT)).reads(story.naming(incarnation=incarnation))
    assert story.asked(e.Lost).kill_now


def test_a_leader_whose_lock_is_recreated_for_it_leads_on() -> None:
    story = Coordinated().leads()
    acquired = story.state.own_record.acquired
    story.waits(2).fails(Kind.MISSING).reads(story.naming(only_control_plane_wrote=True))
    record = story.asked(e.Write).record
    assert (record.holder, record.acquired, record.transitions) == (ME, acquired, 4)
    assert story.writes().asked(e.Renewed).stop_at == story.now + 10


def test_a_leader_whose_lock_is_recreated_for_it_writes_nothing_past_its_deadline() -> None:
    """Its elector was stopped meanwhile."""
    story = Coordinated().leads()
    story.waits(2).fails(Kind.MISSING)
    story.now += 20
    story.reads(story.naming(only_control_plane_wrote=True)).asked(e.Lost)
    assert not story.requests


def test_a_leader_whose_lock_is_recreated_for_another_has_lost_at_once() -> None:
    story = Coordinated().leads()
    story.waits(2).fails(Kind.MISSING).reads(story.naming("other", only_control_plane_wrote=True))
    assert story.asked(e.Lost).kill_now


def test_a_leader_whose_lock_was_deleted_recreates_it_if_the_control_plane_has_not() -> None:
    story = Coordinated().leads()
    assert story.waits(2).fails(Kind.MISSING).reads(None).asked(e.Write).base is None


# --- end of term


def yielding() -> Coordinated:
    """A leader has read that another is preferred."""
    story = Coordinated()
    story.leads()
    preferring = story.preferring(story.state.observed)
    story.waits(2).fails(Kind.CONFLICT).reads(preferring)
    return story


def test_a_leader_steps_down_for_the_preferred_holder_and_renews_until_its_command_is_dead() -> None:
    story = yielding()
    assert "better" in story.asked(e.StepDown).reason
    assert not story.all(e.Lost)
    for _ in range(20):
        story.writes().asked(e.Renewed)
        story.waits(2)
    story.writes()
    preferring = story.preferring(story.state.observed)
    story.waits(2).fails(Kind.CONFLICT).reads(preferring).asked(e.StepDown)  # said again: a message may get lost


def test_a_leader_whose_lock_is_recreated_for_it_steps_down_for_the_preferred_holder() -> None:
    """The write that then makes the lock its own need not take the preference away."""
    story = Coordinated().leads()
    story.waits(2).fails(Kind.MISSING).reads(replace(story.naming(only_control_plane_wrote=True), preferred="better"))
    assert "better" in story.asked(e.StepDown).reason
    story.writes().asked(e.Renewed)


def test_a_leader_that_stepped_down_releases_the_lock() -> None:
    story = yielding()
    story.writes().tell(EMPTIED)
    assert story.asked(e.Write).record.holder == ""
    assert story.writes().asked(e.Released).released


def test_a_leader_that_is_the_preferred_holder_leads_on() -> None:
    story = Coordinated()
    story.leads()
    own = story.state.observed
    story.waits(2).fails(Kind.CONFLICT).reads(story.preferring(own, ME))
    assert not story.all(e.StepDown)
    story.writes().asked(e.Renewed)


def test_a_replacement_elector_steps_down_for_the_preferred_holder() -> None:
    story = Coordinated(resumed(candidate(coordinated=True), START - 1, acquired=7, transitions=4))
    story.wakes().reads(story.preferring(story.lock(ME, TERM)))
    story.asked(e.StepDown)


# --- holding the lock before the command may start


def holding(seconds: float = 4) -> Coordinated:
    """Another candidate held the lock, ``seconds`` ago; this one was nominated over it, and has written it."""
    story = Coordinated()
    story.follows(story.lock("other")).waits(seconds)
    story.sees(story.naming()).writes()
    assert story.state.phase is Phase.HOLDING
    return story


def no_more_preferred(story: Coordinated) -> Coordinated:
    """Another candidate is preferred by the control plane; its next renewal shows that."""
    preferring = story.preferring(story.state.observed)
    while not isinstance(story.state.pending, e.Write):
        story.waits(0.1)
    story.fails(Kind.CONFLICT).reads(preferring)
    return story


def test_a_holding_candidate_releases_the_lock_for_the_preferred_holder_at_safe_at() -> None:
    """An empty holder says that no process of an earlier holder is alive."""
    story = no_more_preferred(holding())
    assert (story.state.phase, story.state.incarnation) == (Phase.FOLLOWING, f"{TERM}.1")
    story.idles(14.9)
    write = story.waits(0.1).asked(e.Write)
    assert (write.record.holder, write.incarnation) == ("", "")
    story.writes().sees(story.naming("better")).idles(200)


def test_a_candidate_that_released_before_its_term_may_be_nominated_again() -> None:
    story = no_more_preferred(holding()).waits(15)
    story.writes().waits(2).sees(story.naming())
    story.writes().asked(e.Acquired)


def test_a_nominated_candidate_releases_before_its_term_for_the_preferred_holder() -> None:
    story = Coordinated()
    naming = story.naming()
    story.follows(story.lock("")).sees(naming).fails(Kind.CONFLICT)
    story.sees(story.preferring(naming))
    assert story.asked(e.Write).record.holder == ""


def test_a_nomination_over_a_leader_is_not_released_before_the_leader_has_expired() -> None:
    story = Coordinated()
    story.follows(story.lock("other")).waits(4)
    story.sees(story.preferring(story.naming())).idles(10.9)
    assert story.waits(0.1).asked(e.Write).record.holder == ""


def test_the_response_to_a_release_hides_no_later_watch_event() -> None:
    story = Coordinated()
    story.follows(story.lock("other")).waits(4).sees(story.preferring(story.naming())).waits(11)
    landed = story.landed()
    story.sees(landed).sees(story.naming("better")).sees(story.lock("better"))
    story.tell(e.WriteDone(story.pending(e.Write), landed))
    story.reads(story.lock("better")).waits(1).sees(story.naming()).writes()
    assert Phase.LEADING is not story.renews(13.9).state.phase
    assert Phase.LEADING is story.renews(0.1).state.phase


def test_a_lock_that_is_held_is_not_released_before_all_earlier_holders_must_have_ended() -> None:
    """An empty holder would say that they have."""
    for seconds in (0, 10.5):
        story = holding()
        done = story.renews(seconds).tell(EMPTIED).asked(e.Released)
        assert (done.released, "may still run" in done.why) == (False, True)


def test_an_unanswered_write_over_a_living_leader_is_not_released() -> None:
    story = Coordinated()
    story.follows(story.lock("other")).waits(4)
    landed = story.sees(story.naming()).landed()
    assert not story.tell(EMPTIED).asked(e.Released).released
    assert landed.record.holder == ME


def test_a_replacement_elector_waits_a_whole_lease_duration_for_its_predecessors_record() -> None:
    story = Coordinated(resume_waiting(candidate(coordinated=True), TERM, START)).wakes()
    story.reads(story.lock(ME, TERM))
    assert Phase.LEADING is not story.renews(14.9).state.phase
    assert Phase.LEADING is story.renews(0.1).state.phase


def test_a_replacement_elector_in_plain_election_waits_a_whole_lease_duration() -> None:
    """An API server that does not serve LeaseCandidates any more, or not yet."""
    story = Story(resume_waiting(candidate(), TERM, START)).wakes()
    story.reads(story.lock(ME, TERM))
    assert Phase.LEADING is not story.renews(14.9).state.phase
    assert Phase.LEADING is story.renews(0.1).state.phase


def test_a_candidate_nominated_under_an_old_annotation_does_not_lead_on_in_plain_election() -> None:
    """Another candidate may have been nominated in between."""
    story = Story(resumed(candidate(), START - 1, acquired=5, transitions=3)).wakes()
    named = story.lock(ME, TERM)
    story.reads(replace(named, record=replace(named.record, acquired=None)))
    assert story.asked(e.Lost).kill_now


def test_a_replacement_elector_does_not_release_its_predecessors_record() -> None:
    story = Coordinated(resume_waiting(candidate(coordinated=True), TERM, START))
    story.wakes().fails(Kind.UNREACHABLE)
    assert story.tell(EMPTIED).asked(e.Released).released is False


# --- patience


def test_wait_live_does_not_take_a_write_of_the_control_plane_for_a_renewal() -> None:
    story = Coordinated(live=True)
    held = story.lock("other")
    story.follows(held).waits(4)
    story.sees(story.preferring(held, ME)).sees(story.naming("third")).sees(story.naming())
    story.asked(e.Write)


@pytest.mark.parametrize(("holder", "did"), [("other", "renew"), ("", "release")])
def test_wait_live_gives_up_on_a_renewal(holder: str, did: str) -> None:
    story = Coordinated(live=True)
    story.follows(story.lock("other")).waits(4).sees(story.lock(holder))
    given_up = story.asked(e.AcquireFailed)
    assert (given_up.status, did in given_up.reason) == (124, True)


def test_a_wait_in_vain_names_the_leader_or_says_that_no_candidate_was_nominated() -> None:
    story = Coordinated(wait_until=START + 20)
    story.follows(story.lock("other")).waits(20)
    assert "held by other" in story.asked(e.AcquireFailed).reason
    story = Coordinated(wait_until=START + 20)
    story.wakes().reads(None).waits(20)
    given_up = story.asked(e.AcquireFailed)
    assert given_up == e.AcquireFailed("the control plane has not named this candidate in time", 124)


def test_a_renewal_repeats_the_candidates_whole_record() -> None:
    """Time and transitions of a term are filled in by the candidate: the control plane leaves them out."""
    story = Coordinated()
    naming = replace(story.naming(), record=Record(ME, 5, None, story.wall, 0))
    story.follows(story.lock("")).sees(naming)
    first = story.writes().asked(e.Acquired)
    assert (first.transitions, first.acquired) == (1, story.wall)
    record = story.waits(2).asked(e.Write).record
    assert (record.acquired, record.transitions) == (first.acquired, 1)
