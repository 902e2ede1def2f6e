"""Locks followed as a challenger would: on the observer's own clock."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from kleader.election.events import Kind
from kleader.election.record import SECOND, UNKNOWN, Record, parse_time
from kleader.locks.base import LockError
from kleader.watching.board import Board
from kleader.watching.seen import Ref, Seen, State
from kleader.watching.source import News

if TYPE_CHECKING:
    from kleader.watching.board import Change

WALL = parse_time("2026-11-21T09:00:00Z")
TROUBLE = News({}, trouble=LockError(Kind.UNREACHABLE, "gone"))


class Story:
    """A board, and what was told to it by when."""

    def __init__(self, *first: Seen, sources: int = 1, asked: str = "", named: bool = False) -> None:
        self.board = Board(sources, asked, named=named)
        self.at = 100.0
        self.first = self.tell(News({seen.key: seen for seen in first}, whole=True))

    def tell(self, news: News, source: int = 0) -> list[Change]:
        return self.board.tell(source, news, self.at, WALL + round(self.at * SECOND))

    def shows(self, *locks: Seen, after: float = 0.0, source: int = 0) -> list[str]:
        """What is said of these states, so many seconds later."""
        self.at += after
        changes = self.tell(News({seen.key: seen for seen in locks}), source)
        return [change.sentence for change in changes if change.event]

    def goes(self, lock: Seen, after: float = 0.0, source: int = 0) -> list[str]:
        self.at += after
        return [change.sentence for change in self.tell(News({lock.key: None}), source)]

    def passes(self, seconds: float) -> list[str]:
        self.at += seconds
        return [change.sentence for change in self.board.tick(self.at, WALL + round(self.at * SECOND))]

    def states(self) -> list[State]:
        return [look.state for look in self.board.looks(self.at, WALL)]


def lock(holder: str = "a", n: int = 0, kind: str = "lease", **fields: Any) -> Seen:  # noqa: ANN401 - of a Seen
    """A state of the lock x; `n` tells its renewals apart."""
    record = Record(holder, 15 if holder else 1, acquired=WALL + 60 * SECOND, renewed=WALL + n)
    return replace(Seen(kind, "ns", "x", record), **fields)


def test_what_is_there_at_first_is_told_with_how_long_it_has_led_by_its_record() -> None:
    assert [change.sentence for change in Story(lock()).first] == ["held by a, for 40s"]
    assert [change.sentence for change in Story(lock("")).first] == ["free"]


def test_a_renewal_is_no_change_but_a_sign_of_life() -> None:
    story = Story(lock())
    (change,) = story.tell(News({lock(n=1).key: lock(n=1)}))
    assert (change.event, change.alive) == ("", True)


def test_somebody_elses_label_is_no_sign_of_life() -> None:
    story = Story(lock())
    assert story.tell(News({lock().key: lock(objects=(Ref("v1", "Lease", "x", "u", "8", "w"),))})) == []
    assert story.passes(15) == ["a has not renewed it for 15s: anybody may take it"]


def test_it_expires_when_it_was_seen_unchanged_for_its_own_duration() -> None:
    story = Story(lock())
    assert story.shows(lock(n=1), after=10) == []
    assert story.board.wake_at() == story.at + 15
    assert story.passes(14.9) == []
    assert story.states() == [State.HELD]
    assert story.passes(0.1) == ["a has not renewed it for 15s: anybody may take it"]
    assert story.states() == [State.EXPIRED]
    assert story.passes(100) == []
    assert story.board.wake_at() is None


def test_who_does_not_see_the_lock_does_not_see_it_expire() -> None:
    story = Story(lock())
    story.tell(TROUBLE)
    assert story.board.blind
    assert story.passes(60) == []
    assert story.states() == [State.HELD]
    assert story.shows(lock(n=1)) == []
    assert story.passes(14) == []


def test_a_handover_is_told_with_how_long_nobody_led() -> None:
    story = Story(lock())
    assert story.shows(lock(n=1), after=5) == []
    assert story.shows(lock(""), after=5) == ["a has released it, after 50s"]
    assert story.shows(lock("b", 2), after=0.021) == ["b leads, 21ms after a had released it"]
    assert story.shows(lock("", 3), after=7) == ["b has released it, after 7s"]


def test_a_takeover_is_told_with_how_long_after_the_expiry_it_came() -> None:
    story = Story(lock())
    story.passes(15)
    assert story.shows(lock("b", 1), after=1.5) == ["b leads, 1.5s after the time of a had run out"]


def test_a_takeover_that_is_seen_before_a_tick_could_tell_of_the_expiry_is_one() -> None:
    """Who takes it in its last instant is as fast as that; a new list, though, does not tell what went before."""
    expired = "a has not renewed it for 15s: anybody may take it"
    assert Story(lock()).shows(lock("b"), after=15.02) == [expired, "b leads, 20ms after the time of a had run out"]
    assert Story(lock()).shows(lock("a", 1), after=16) == []
    assert Story(lock()).shows(lock(""), after=16) == ["a has released it, after 56s"]
    anew, blind = Story(lock()), Story(lock())
    anew.at += 16
    (change,) = anew.tell(News({lock().key: lock("b")}, whole=True))
    assert change.event == "acquired"
    blind.tell(TROUBLE)
    assert blind.shows(lock("b"), after=16) == ["b leads instead of a"]


def test_a_takeover_of_a_lock_that_was_still_held_is_told_as_that() -> None:
    assert Story(lock()).shows(lock("b"), after=5) == ["b leads instead of a, which had 10s left"]


def test_the_same_leader_may_lead_anew_or_be_late() -> None:
    story = Story(lock())
    assert story.shows(lock(n=1, incarnation="i"), after=1) == ["a leads anew"]
    story.passes(15)
    assert story.shows(lock(n=2, incarnation="i"), after=2) == ["a has renewed it after all, 2s too late"]


def test_a_lock_that_is_handed_over_is_told_with_how_long_it_took_to_be_taken() -> None:
    """By a kleader, or by client-go, which renews as if it were its own."""
    story = Story(lock(incarnation="i"))
    named = lock("b", 1, given=True)
    assert story.shows(named, after=5) == ["a has named b the next leader, who has 15s to take it"]
    assert story.states() == [State.HELD]
    assert story.shows(lock("b", 2, incarnation="j"), after=0.25) == ["b leads, 250ms after a had named it"]
    other = Story(lock(incarnation="i"))
    other.shows(named)
    assert other.shows(lock("b", 2), after=2) == ["b leads, 2s after a had named it"]


def test_a_lock_that_nobody_takes_who_was_given_it_expires() -> None:
    story = Story(lock(incarnation="i"))
    story.shows(lock("b", 1, given=True))
    assert story.passes(15) == ["b has not taken it within 15s: anybody may take it"]
    assert story.shows(lock("c", 2), after=0.5) == ["c leads, 500ms after the time of b had run out"]


def test_a_lock_that_is_deleted_or_spoiled_is_told() -> None:
    story = Story(lock())
    assert story.shows(lock("", fault="the Lease ns/x: broken")) == [
        "malformed, which counts as held: the Lease ns/x: broken"
    ]
    assert story.shows(lock(n=1)) == ["held by a, and readable again"]
    assert story.goes(lock()) == ["deleted, while a held it"]
    assert story.states() == []
    assert story.shows(lock("b")) == ["b leads, by a new lock"]


def test_what_a_new_list_lacks_is_deleted() -> None:
    story = Story(lock(), replace(lock(""), name="y"))
    assert [change.sentence for change in story.tell(News({lock().key: lock()}, whole=True))] == ["deleted"]


def test_a_lock_for_life_does_not_expire() -> None:
    story = Story(lock(kind="leader-for-life", lasting=True))
    assert story.board.wake_at() is None
    assert story.passes(1e6) == []


def test_an_answer_that_is_older_than_what_was_seen_is_no_news() -> None:
    def version(number: str) -> tuple[Ref, ...]:
        return (Ref("v1", "Lease", "x", "u", number, ""),)

    story = Story(lock(n=9, objects=version("9")))
    assert story.shows(lock("b", objects=version("8"))) == []
    assert story.shows(lock("b", objects=version("10"))) != []


# --- pairs


def pair(story: Story, holder: str, *, n: int, after: float) -> list[str]:
    """Write the one and then the other, as a multilock does."""
    said = story.shows(lock(holder, n, kind="configmap"), after=after)
    return said + story.shows(lock(holder, n), source=1, after=0.01)


def test_nothing_is_told_before_all_sources_have_told() -> None:
    story = Story(lock(kind="configmap"), sources=2)
    assert (story.first, story.board.complete) == ([], False)
    (change,) = story.tell(News({lock().key: lock()}, whole=True), 1)
    assert (change.look.seen.kind, change.sentence) == ("configmapsleases", "held by a, for 40s")


def test_while_a_pair_is_written_nothing_is_told() -> None:
    story = Story(lock(kind="configmap"), sources=2)
    story.tell(News({lock().key: lock()}, whole=True), 1)
    assert pair(story, "a", n=1, after=2) == []
    assert pair(story, "", n=2, after=2) == ["a has released it, after 44s"]
    assert pair(story, "b", n=3, after=0.02) == ["b leads, 30ms after a had released it"]


def test_a_pair_that_is_released_and_taken_faster_than_both_objects_tell_was_released() -> None:
    story = Story(lock(kind="configmap"), sources=2)
    story.tell(News({lock().key: lock()}, whole=True), 1)
    assert story.shows(lock("", 1, kind="configmap"), after=2) == []
    assert story.shows(lock("b", 2, kind="configmap"), after=0.01) == []
    assert story.shows(lock("", 1), source=1, after=0.01) == []
    told = story.shows(lock("b", 2), source=1, after=0.01)
    assert told == ["a has released it, after 42s", "b leads, 30ms after a had released it"]


def test_a_pair_that_goes_on_differing_is_held_by_nobody_knows_whom() -> None:
    story = Story(lock(kind="configmap"), sources=2)
    story.tell(News({lock().key: lock()}, whole=True), 1)
    assert story.shows(lock("b", 1, kind="configmap")) == []
    (said,) = story.passes(1)
    assert said.startswith("somebody unknown leads instead of a")
    (look,) = story.board.looks(story.at, WALL)
    assert look.seen.record.holder == UNKNOWN


def test_a_lock_that_becomes_one_of_two_objects_goes_on() -> None:
    story = Story(lock(kind="configmap"), sources=2)
    story.tell(News({}, whole=True), 1)
    assert story.shows(lock(), source=1, after=1) == ["kept in two objects now"]
    assert story.goes(lock(kind="configmap"), after=1) == ["kept in one object alone now"]
    assert [look.seen.kind for look in story.board.looks(story.at, WALL)] == ["lease"]


def test_one_kind_that_cannot_be_seen_leaves_the_others_to_be_told() -> None:
    story = Story(lock(), sources=2)
    changes = story.tell(TROUBLE, 1)
    assert [change.sentence for change in changes] == ["held by a, for 40s"]
