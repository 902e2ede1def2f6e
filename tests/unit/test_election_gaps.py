"""Between two looks at a lock more may have happened than the second shows: its holder may have renewed until then."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kleader.election import events as e
from kleader.election.events import Kind, Observed
from kleader.election.record import UNKNOWN, Record
from kleader.election.state import Phase, resume_waiting
from tests.support.election import ME, START, TERM, Story, candidate
from tests.unit.test_election_coordinated import Coordinated

BARE = Observed(Record(), version="900")


def cut_off(story: Story, until: float) -> float:
    """The watch is over, and nothing is answered until so many seconds after START, when a Get is under way: when."""
    story.tell(e.WatchEnded("reset"))
    while story.now < START + until or not isinstance(story.state.pending, e.Get):
        if isinstance(story.state.pending, e.Get):
            story.fails(Kind.UNREACHABLE)
        story.waits(0.1)
    return story.now - START


def leads_at(story: Story) -> float:
    """When it begins to lead, in seconds after START, where the API server does all that it is asked from now on."""
    while story.state.phase is not Phase.LEADING:
        if isinstance(story.state.pending, e.Write):
            story.writes()
        elif isinstance(story.state.pending, e.Get):
            story.reads(story.state.observed)
        else:
            story.waits(0.1)
        assert story.now < START + 400
    return story.now - START


# --- coordinated


@pytest.mark.parametrize("told", [False, True], ids=["read without a record", "read as missing, told without a record"])
def test_a_nominated_candidate_waits_for_a_leader_hidden_by_a_lock_without_a_record(*, told: bool) -> None:
    """An operator has replaced it; the old leader does not know, and was last observed to renew long ago."""
    story = Coordinated()
    story.follows(story.lock("other")).waits(4)
    looked = cut_off(story, 14)
    if told:
        story.reads(None).sees(BARE)
    else:
        story.reads(BARE)
    story.waits(0.5).sees(story.naming())
    assert looked + 15 <= leads_at(story) < looked + 17


def test_a_replacement_elector_waits_for_a_leader_that_renewed_unobserved() -> None:
    story = Coordinated(resume_waiting(candidate(coordinated=True), TERM, START)).wakes()
    looked = cut_off(story, 14)
    story.reads(BARE).waits(0.5).sees(story.naming())
    assert looked + 15 <= leads_at(story) < looked + 17


def test_a_leader_between_two_reads_of_a_lock_without_a_record_is_waited_for() -> None:
    story = Coordinated()
    story.follows(story.lock("other")).waits(1).sees(None).sees(BARE).waits(2)
    looked = cut_off(story, 20)
    story.reads(replace(BARE, version="903")).waits(0.5).sees(story.naming())
    assert looked + 15 <= leads_at(story) < looked + 17


def test_a_candidate_that_reads_its_nomination_waits_for_a_leader_that_renewed_unobserved() -> None:
    """Over a shorter record of an operator, which it had not observed."""
    story = Coordinated()
    story.follows(story.lock("long", duration=60)).waits(4)
    looked = cut_off(story, 14)
    story.reads(story.lock("short", duration=1)).waits(2)
    cut_off(story, 30)
    story.reads(story.naming())
    assert leads_at(story) >= looked + 60


# --- durations that differ


def test_a_read_of_a_shorter_record_shortens_no_wait_for_an_earlier_leader() -> None:
    story = Story()
    story.follows(story.lock("long", duration=60)).waits(3)
    looked = cut_off(story, 50)
    story.reads(story.lock("short", duration=5))
    assert looked + 60 <= leads_at(story) < looked + 61


def test_an_unchanged_short_record_is_waited_for_with_the_candidates_own_duration() -> None:
    """An operator shortened the record twice, and another candidate led in between: the record has 5 s both times."""
    story = Story()
    story.follows(story.lock("nobody", duration=5)).waits(3).tell(e.WatchEnded(denied=True))
    story.waits(2).reads(story.lock("nobody", duration=5))
    assert leads_at(story) >= 5 + 15


def test_polling_the_same_version_does_not_restart_the_wait() -> None:
    """A poll that finds the same version has missed nothing."""
    story = Story()
    story.follows(story.lock("long", duration=60)).waits(3)
    looked = cut_off(story, 50)
    short = story.lock("short", duration=5)
    story.reads(short).tell(e.WatchEnded(denied=True))
    for _ in range(20):
        story.waits(2).reads(short)
    assert looked + 60 <= leads_at(story) < looked + 61


@pytest.mark.parametrize("then", ["gone", "replaced again", "gone unseen"])
def test_a_read_of_a_lock_without_a_record_shortens_no_wait_for_an_earlier_leader(then: str) -> None:
    """The control plane, say, has changed the Endpoints of a Service meanwhile."""
    story = Story()
    story.follows(story.lock("long", duration=60)).waits(3)
    looked = cut_off(story, 50)
    story.reads(BARE).waits(3)
    if then == "gone":
        story.sees(None)
    else:
        story.tell(e.WatchEnded()).reads(None if then == "gone unseen" else replace(BARE, version="901"))
    assert looked + 60 <= leads_at(story)


def test_a_release_that_is_read_ends_every_wait() -> None:
    """A candidate releases only when every earlier leader is dead."""
    story = Story()
    story.follows(story.lock("long", duration=60)).waits(3)
    looked = cut_off(story, 50)
    story.reads(story.lock(""))
    assert leads_at(story) == looked


# --- a watch that is behind


def test_a_watch_that_begins_with_an_old_version_shortens_no_wait() -> None:
    """Without a version it begins with what the API server's cache has, which a read does not rely on."""
    story = Story()
    story.follows(story.lock("long", duration=60)).waits(3).tell(e.WatchEnded()).reads(None)
    assert story.asked(e.Watch).after is None
    story.sees(story.lock("")).fails(Kind.MISSING).reads(None)
    assert leads_at(story) >= 60


def test_a_release_that_a_watch_delivers_late_is_followed_by_a_write_at_once() -> None:
    """The conflict check of the write decides; the winner need not wait."""
    story = Story()
    story.follows(story.lock("long", duration=60)).waits(3).tell(e.WatchEnded()).reads(None)
    story.sees(story.lock("")).writes().asked(e.Acquired)


def test_one_object_of_a_multilock_watched_from_an_old_version_shortens_no_wait() -> None:
    """The watch has no version of the missing object, and reports an earlier state of it than its present holder."""
    story = Story(is_multilock=True)
    free = story.lock("")
    one, other = (free.record, ""), (story.lock("long", duration=60).record, "")
    story.follows(replace(story.lock(UNKNOWN, duration=60), components=(one, other))).waits(3).tell(e.WatchEnded())
    looked = story.now - START
    story.reads(replace(story.lock(""), some_object_lacks_record=True, components=(one, None)))
    story.sees(replace(free, components=(one, one))).fails(Kind.MISSING).reads(None)
    assert leads_at(story) >= looked + 60


def test_a_multilock_object_recreated_before_its_watch_began_is_waited_for() -> None:
    """It was missing; its holder recreated it and renewed, and an operator restored the earlier state."""
    story = Story(is_multilock=True)
    dead, single = (story.lock("dead").record, ""), (story.lock("single", duration=60).record, "")
    story.follows(replace(story.lock(UNKNOWN, duration=60), components=(dead, single))).waits(3).tell(e.WatchEnded())
    gone = replace(story.lock("dead", duration=60), some_object_lacks_record=True, components=(dead, None))
    story.reads(gone).waits(4)
    story.sees(replace(gone, version=story.version())).idles(59.9)
    story.waits(0.1).asked(e.Write)


def test_a_leader_of_one_object_of_a_multilock_is_not_taken_for_a_nominated_candidate() -> None:
    """An operator wrote the other object without an acquireTime, and a shorter record over its next holder."""
    story = Story(is_multilock=True)
    hands, single = (story.lock("hands", acquired=None).record, ""), (story.lock("single", duration=60).record, "")
    story.follows(replace(story.lock("hands", duration=5, acquired=None), components=(hands, hands))).waits(1)
    story.sees(replace(story.lock(UNKNOWN, duration=60, acquired=None), components=(hands, single)))
    told = story.now - START
    story.waits(1).sees(replace(story.lock("hands", duration=5), components=(hands, (story.lock("hands").record, ""))))
    assert leads_at(story) >= told + 60


# --- the same record again


def test_an_old_record_that_is_restored_restarts_the_wait() -> None:
    """An operator restored it from a backup: its holder may have renewed until just before."""
    story = Story()
    old = story.lock("other")
    story.follows(old).waits(3)
    looked = cut_off(story, 14)
    story.reads(story.relabelled(old))
    assert looked + 15 <= leads_at(story) < looked + 16


def test_an_old_record_restored_in_the_secondary_restarts_the_wait() -> None:
    story = Story(is_multilock=True)
    old = replace(story.lock("other"), version="101/17")
    story.follows(old).waits(3)
    looked = cut_off(story, 14)
    story.reads(replace(old, version="101/23"))
    assert looked + 15 <= leads_at(story) < looked + 16


def test_a_label_that_is_read_does_not_count_as_a_renewal() -> None:
    story = Story(live=True)
    old = story.lock("other")
    story.follows(old).waits(3).tell(e.WatchEnded()).reads(story.relabelled(old))
    assert not story.all(e.AcquireFailed)
    assert leads_at(story) >= 18


# --- half a multilock


def test_a_renewal_of_one_object_of_a_multilock_restarts_the_wait() -> None:
    """The other half's dead holder had a clock that was ahead: its renewTime is that of both."""
    story = Story(is_multilock=True)
    record = story.lock("UNKNOWN", duration=60).record

    def both(version: int, record: Record = record) -> Observed:
        return Observed(record, version=str(version), components=((record, ""), (record, str(version))))

    story.follows(both(200))
    for number in range(10):
        story.waits(10).sees(both(201 + number))
    story.idles(59.9)
    story.waits(0.1).asked(e.Write)


# --- what a candidate has of its own


def test_a_lock_created_late_and_missing_by_then_is_not_free() -> None:
    """It was stopped while that was under way; another has taken the lock over meanwhile, and it was deleted."""
    story = Story().wakes().reads(None).writes(after=31)
    assert story.state.phase is Phase.FOLLOWING
    story.reads(None)
    assert leads_at(story) >= 31 + 15


@pytest.mark.parametrize("claimed", [True, False])
def test_a_nomination_read_over_an_earlier_one_shortens_no_wait_for_an_earlier_leader(*, claimed: bool) -> None:
    story = Coordinated()
    story.follows(story.lock("long", duration=60)).waits(5).sees(story.naming())
    if claimed:
        story.writes()
    while story.now < START + 50 or not isinstance(story.state.pending, e.Get):
        story.tell(e.WatchEnded("reset"))
        if story.state.pending:
            story.fails(Kind.UNREACHABLE)
        story.waits(0.1)
    looked = story.now - START
    story.reads(story.naming())
    assert leads_at(story) >= looked + 54


@pytest.mark.parametrize("longest", [15, 60])
def test_a_multilock_half_written_by_the_previous_elector_shortens_no_wait(longest: int) -> None:
    """An operator then writes both objects with a shorter duration."""
    story = Story(resume_waiting(candidate(is_multilock=True), TERM, START, longest=longest)).wakes()
    story.reads(replace(story.lock(ME, TERM), some_object_lacks_record=True)).waits(1)
    story.sees(story.lock("short", duration=5))
    assert leads_at(story) >= longest


def test_a_multilock_half_written_a_moment_ago_shortens_no_wait() -> None:
    story = Story(is_multilock=True)
    story.follows(story.lock("long", duration=60)).waits(60)
    half = replace(story.landed(), some_object_lacks_record=True)
    story.fails(Kind.UNREACHABLE).waits(2).reads(half).sees(story.lock("short", duration=5))
    assert leads_at(story) >= 60 + 60


# --- what a wait must not be for


def test_a_candidate_that_starts_before_the_lock_exists_waits_no_longer_for_a_crashed_leader() -> None:
    """Its watch began without a version, and has reported every change since."""
    story = Coordinated().wakes().reads(None)
    story.waits(1).sees(story.naming("other", only_control_plane_wrote=True))
    for _ in range(10):
        story.waits(2).sees(story.lock("other", "term-9"))
    renewed = story.now - START
    story.waits(16).sees(story.naming())
    assert leads_at(story) < renewed + 17


def test_a_read_of_an_unchanged_record_extends_no_wait() -> None:
    story = Coordinated()
    last = story.lock("other", "term-9")
    story.follows(last).waits(300).reads(last)
    story.waits(16).sees(story.naming())
    assert leads_at(story) < 300 + 17


def test_labels_do_not_restart_the_wait_of_a_watch_without_a_version() -> None:
    story = Story()
    story.follows(story.lock("other")).waits(3).tell(e.WatchEnded()).reads(None).waits(1)
    seen = story.lock("other")
    story.sees(seen)
    for _ in range(4):
        story.waits(3).sees(story.relabelled(seen))
    assert story.waits(3).all(e.Write)


def test_a_holder_read_after_a_conflict_is_waited_for_when_the_lock_is_deleted() -> None:
    story = Story()
    story.follows(story.lock("long", duration=60)).waits(60).fails(Kind.CONFLICT).waits(2)
    story.reads(story.lock("short", duration=5)).tell(e.WatchEnded())
    while not isinstance(story.state.pending, e.Get):
        story.waits(0.1)
    looked = story.now - START
    story.reads(None)
    assert leads_at(story) >= looked + 60
