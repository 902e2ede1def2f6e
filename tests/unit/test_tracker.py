"""What a tracker reports of the locks that it follows, on the observer's own clock."""

from __future__ import annotations

from dataclasses import replace
from math import inf
from typing import TYPE_CHECKING, Any

from kleader.election.events import Kind
from kleader.election.record import SECOND, UNKNOWN, Record, parse_time
from kleader.kube.errors import LockError
from kleader.observe.snapshot import LockSnapshot, LockState, ObjectRef, SourceUpdate
from kleader.observe.tracker import LockTracker

if TYPE_CHECKING:
    from kleader.observe.tracker import Change

WALL = parse_time("2026-11-21T09:00:00Z")
UNREACHABLE = SourceUpdate({}, error=LockError(Kind.UNREACHABLE, "gone"))


class Story:
    """A tracker, and the instant of its next observation."""

    def __init__(self, *first: LockSnapshot, sources: int = 1, kind: str = "", by_name: bool = False) -> None:
        self.tracker = LockTracker(sources, kind, by_name=by_name)
        self.at = 100.0
        self.first = self.update(SourceUpdate({lock.key: lock for lock in first}, is_complete=True))

    def update(self, update: SourceUpdate, source: int = 0) -> list[Change]:
        return self.tracker.update(source, update, self.at, WALL + round(self.at * SECOND))

    def shows(self, *locks: LockSnapshot, after: float = 0.0, source: int = 0) -> list[str]:
        """The sentences that report these states, observed so many seconds later."""
        self.at += after
        changes = self.update(SourceUpdate({lock.key: lock for lock in locks}), source)
        return [change.sentence for change in changes if change.event]

    def goes(self, lock: LockSnapshot, after: float = 0.0, source: int = 0) -> list[str]:
        self.at += after
        return [change.sentence for change in self.update(SourceUpdate({lock.key: None}), source)]

    def passes(self, seconds: float) -> list[str]:
        self.at += seconds
        return [change.sentence for change in self.tracker.tick(self.at, WALL + round(self.at * SECOND))]

    def states(self) -> list[LockState]:
        return [status.state for status in self.tracker.statuses(self.at, WALL)]


def lock(holder: str = "a", n: int = 0, kind: str = "lease", **fields: Any) -> LockSnapshot:  # noqa: ANN401 - of a LockSnapshot
    """A state of the lock x; `n` makes its renewals differ."""
    record = Record(holder, 15 if holder else 1, acquired=WALL + 60 * SECOND, renewed=WALL + n)
    return replace(LockSnapshot(kind, "ns", "x", record), **fields)


def test_the_first_report_of_a_lock_has_the_age_in_its_record() -> None:
    assert [change.sentence for change in Story(lock()).first] == ["held by a, for 40s"]
    assert [change.sentence for change in Story(lock("")).first] == ["free"]
    malformed = Story(lock("", fault="the Lease ns/x: broken")).first
    assert [change.sentence for change in malformed] == ["malformed, which counts as held: the Lease ns/x: broken"]


def test_a_renewal_shows_only_that_the_holder_is_alive() -> None:
    story = Story(lock())
    (change,) = story.update(SourceUpdate({lock(n=1).key: lock(n=1)}))
    assert (change.event, change.holder_is_alive) == ("", True)


def test_a_label_of_another_client_does_not_delay_the_expiry() -> None:
    story = Story(lock())
    assert story.update(SourceUpdate({lock().key: lock(objects=(ObjectRef("v1", "Lease", "x", "u", "8", "w"),))})) == []
    assert story.passes(15) == ["a has not renewed it for 15s: any candidate may acquire it"]


def test_a_lock_expires_when_it_was_observed_unchanged_for_its_own_lease_duration() -> None:
    story = Story(lock())
    assert story.shows(lock(n=1), after=10) == []
    assert story.tracker.next_at == story.at + 15
    assert story.passes(14.9) == []
    assert story.states() == [LockState.HELD]
    assert story.passes(0.1) == ["a has not renewed it for 15s: any candidate may acquire it"]
    assert story.states() == [LockState.EXPIRED]
    assert story.passes(100) == []
    assert story.tracker.next_at == inf


def test_no_lock_expires_while_a_source_cannot_be_read() -> None:
    story = Story(lock())
    story.update(UNREACHABLE)
    assert story.tracker.is_unreachable
    assert story.passes(60) == []
    assert story.states() == [LockState.HELD]
    assert story.shows(lock(n=1)) == []
    assert story.passes(14) == []


def test_an_acquisition_after_a_release_is_reported_with_how_long_the_lock_was_free() -> None:
    story = Story(lock())
    assert story.shows(lock(n=1), after=5) == []
    assert story.shows(lock(""), after=5) == ["a has released the lock, after 50s"]
    assert story.shows(lock("b", 2), after=0.021) == ["b leads, 21ms after a had released it"]
    assert story.shows(lock("", 3), after=7) == ["b has released the lock, after 7s"]


def test_an_acquisition_after_an_expiry_is_reported_with_how_long_the_lock_was_expired() -> None:
    """The leader may have died at any instant since its last renewal: no observer knows for how long none has led."""
    story = Story(lock())
    story.passes(15)
    leads = "b leads, 1.5s after the lease of a had expired, and a had not renewed it for 15s"
    assert story.shows(lock("b", 1), after=1.5) == [leads]


def test_an_acquisition_that_is_observed_before_the_expiry_was_reported_is_reported_after_it() -> None:
    """A candidate acquires a lock in the instant of its expiry. A new list does not show what happened before it."""
    expired = "a has not renewed it for 15s: any candidate may acquire it"
    leads = "b leads, 20ms after the lease of a had expired, and a had not renewed it for 15s"
    assert Story(lock()).shows(lock("b"), after=15.02) == [expired, leads]
    assert Story(lock()).shows(lock("a", 1), after=16) == []
    assert Story(lock()).shows(lock(""), after=16) == ["a has released the lock, after 56s"]
    anew, blind = Story(lock()), Story(lock())
    anew.at += 16
    (change,) = anew.update(SourceUpdate({lock().key: lock("b")}, is_complete=True))
    leads = "b leads instead of a, which was last observed to renew it 16s ago"
    assert (change.event, change.sentence) == ("acquired", leads)
    blind.update(UNREACHABLE)
    assert blind.shows(lock("b"), after=16) == [leads]


def test_an_acquisition_of_a_held_lock_is_reported_with_the_time_left() -> None:
    assert Story(lock()).shows(lock("b"), after=5) == ["b leads instead of a, which had 10s left"]


def test_an_expired_holder_may_renew_or_begin_a_new_term() -> None:
    story = Story(lock())
    assert story.shows(lock(n=1, incarnation="i"), after=1) == ["a leads again"]
    story.passes(15)
    assert story.shows(lock(n=2, incarnation="i"), after=2) == ["a has renewed the lock after all, 2s too late"]


def test_a_handover_is_reported_and_then_its_duration() -> None:
    """By a kleader, or by client-go, which renews as if it were its own."""
    story = Story(lock(incarnation="i"))
    named = lock("b", 1, handed_over=True)
    assert story.shows(named, after=5) == ["a has handed the lock to b, which has 15s to take it"]
    assert story.states() == [LockState.HELD]
    assert story.shows(lock("b", 2, incarnation="j"), after=0.25) == ["b leads, 250ms after a had handed it over"]
    other = Story(lock(incarnation="i"))
    other.shows(named)
    assert other.shows(lock("b", 2), after=2) == ["b leads, 2s after a had handed it over"]


def test_a_lock_that_was_handed_over_and_not_acquired_expires() -> None:
    story = Story(lock(incarnation="i"))
    story.shows(lock("b", 1, handed_over=True))
    assert story.passes(15) == ["b has not taken it within 15s: any candidate may acquire it"]
    leads = "c leads, 500ms after the lease of b had expired, and b had not taken it within 15s"
    assert story.shows(lock("c", 2), after=0.5) == [leads]


def test_a_malformed_a_corrected_and_a_deleted_lock_are_reported() -> None:
    story = Story(lock())
    assert story.shows(lock("", fault="the Lease ns/x: broken")) == [
        "malformed, which counts as held: the Lease ns/x: broken"
    ]
    assert story.shows(lock(n=1)) == ["held by a, and readable again"]
    assert story.goes(lock()) == ["deleted, while a held it"]
    assert story.states() == []
    assert story.shows(lock("b")) == ["b leads, by a new lock"]


def test_a_lock_that_is_missing_from_a_new_list_is_reported_as_deleted() -> None:
    story = Story(lock(), replace(lock(""), name="y"))
    assert [change.sentence for change in story.update(SourceUpdate({lock().key: lock()}, is_complete=True))] == [
        "deleted"
    ]


def test_a_leader_for_life_lock_does_not_expire() -> None:
    story = Story(lock(kind="leader-for-life", non_expiring=True))
    assert story.tracker.next_at == inf
    assert story.passes(1e6) == []


def test_a_response_with_an_older_resource_version_changes_nothing() -> None:
    def version(number: str) -> tuple[ObjectRef, ...]:
        return (ObjectRef("v1", "Lease", "x", "u", number, ""),)

    story = Story(lock(n=9, objects=version("9")))
    assert story.shows(lock("b", objects=version("8"))) == []
    assert story.shows(lock("b", objects=version("10"))) != []


# --- pairs


def pair(story: Story, holder: str, *, n: int, after: float) -> list[str]:
    """Write the one and then the other, as a multilock does."""
    sentences = story.shows(lock(holder, n, kind="configmap"), after=after)
    return sentences + story.shows(lock(holder, n), source=1, after=0.01)


def test_no_lock_is_reported_before_every_source_has_been_read() -> None:
    story = Story(lock(kind="configmap"), sources=2)
    assert (story.first, story.tracker.is_complete) == ([], False)
    (change,) = story.update(SourceUpdate({lock().key: lock()}, is_complete=True), 1)
    assert (change.status.snapshot.kind, change.sentence) == ("configmapsleases", "held by a, for 40s")


def test_no_change_is_reported_between_the_two_writes_of_a_multilock() -> None:
    story = Story(lock(kind="configmap"), sources=2)
    story.update(SourceUpdate({lock().key: lock()}, is_complete=True), 1)
    assert pair(story, "a", n=1, after=2) == []
    assert pair(story, "", n=2, after=2) == ["a has released the lock, after 44s"]
    assert pair(story, "b", n=3, after=0.02) == ["b leads, 30ms after a had released it"]


def test_a_multilock_acquired_during_its_release_is_reported_as_released() -> None:
    story = Story(lock(kind="configmap"), sources=2)
    story.update(SourceUpdate({lock().key: lock()}, is_complete=True), 1)
    assert story.shows(lock("", 1, kind="configmap"), after=2) == []
    assert story.shows(lock("b", 2, kind="configmap"), after=0.01) == []
    assert story.shows(lock("", 1), source=1, after=0.01) == []
    sentences = story.shows(lock("b", 2), source=1, after=0.01)
    assert sentences == ["a has released the lock, after 42s", "b leads, 30ms after a had released it"]


def test_a_multilock_whose_objects_keep_differing_has_an_unknown_holder() -> None:
    story = Story(lock(kind="configmap"), sources=2)
    story.update(SourceUpdate({lock().key: lock()}, is_complete=True), 1)
    assert story.shows(lock("b", 1, kind="configmap")) == []
    (sentence,) = story.passes(1)
    assert sentence.startswith("an unknown candidate leads instead of a")
    (status,) = story.tracker.statuses(story.at, WALL)
    assert status.snapshot.record.holder == UNKNOWN


def test_a_lock_that_moves_to_two_objects_or_back_stays_the_same_lock() -> None:
    story = Story(lock(kind="configmap"), sources=2)
    story.update(SourceUpdate({}, is_complete=True), 1)
    assert story.shows(lock(), source=1, after=1) == ["kept in two objects now"]
    assert story.goes(lock(kind="configmap"), after=1) == ["kept in one object alone now"]
    assert [status.snapshot.kind for status in story.tracker.statuses(story.at, WALL)] == ["lease"]


def test_locks_of_the_other_kinds_are_reported_though_one_kind_cannot_be_read() -> None:
    story = Story(lock(), sources=2)
    changes = story.update(UNREACHABLE, 1)
    assert [change.sentence for change in changes] == ["held by a, for 40s"]
