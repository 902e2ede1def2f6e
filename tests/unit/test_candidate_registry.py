"""The list of candidates: what a candidate writes into it, and what a reader makes of any entry."""

from __future__ import annotations

import json

import pytest

from kleader.locks import candidate_registry as registry
from kleader.locks.candidate_registry import READY, UNHEALTHY, Registered

NOW, MINUTE = 1_795_262_400_000_000, 60_000_000
ONE = Registered("a", "lease", READY, NOW - MINUTE, NOW, 3, "pod-a", "0.1.0")


def listed(*entries: object) -> list[Registered]:
    texts = [registry.to_text(each) if isinstance(each, Registered) else each for each in entries]
    found = registry.blank("n", "x", {registry.entry_key(str(i)): text for i, text in enumerate(texts)})  # type: ignore[misc]
    return registry.candidates(found, NOW)


def test_a_candidate_is_read_as_it_was_written() -> None:
    assert listed(ONE) == [ONE]


def test_a_silent_candidate_is_not_ready_after_six_minutes_and_not_unhealthy_after_an_hour() -> None:
    for age, state, shown in (
        (6 * MINUTE - 1, READY, True),
        (6 * MINUTE, READY, False),
        (-6 * MINUTE, READY, False),
        (60 * MINUTE - 1, UNHEALTHY, True),
        (60 * MINUTE, UNHEALTHY, False),
    ):
        assert bool(listed(ONE._replace(state=state, renewed=NOW - age))) is shown, (age, state)


def test_the_best_standby_is_ready_has_the_highest_priority_and_waits_longest() -> None:
    order = [
        ONE._replace(identity="first", priority=4),
        ONE._replace(identity="early", since=NOW - 2 * MINUTE),
        ONE,
        ONE._replace(identity="low", priority=-1),
        ONE._replace(identity="sick", priority=9, state=UNHEALTHY),
    ]
    assert listed(*reversed(order)) == order


CHANGES: tuple[dict[str, object], ...] = (
    {"identity": ""},
    {"identity": " "},  # these no leader hands the lock over to
    {"identity": "leaderelection.k8s.io/unknown"},
    {"identity": "a\nb"},
    {"identity": 7},
    {"identity": "x" * 1025},
    {"state": "leader"},
    {"state": []},
    {"priority": True},
    {"priority": "9"},
    {"renewed": None},
    {"renewed": "soon"},
    {"since": 7},
    {"pod": None},
)
CHANGED = [json.dumps(json.loads(registry.to_text(ONE)) | change) for change in CHANGES]


@pytest.mark.parametrize("text", [None, 7, "", "[]", "{", "[" * 5000, *CHANGED])
def test_a_malformed_entry_of_the_list_is_ignored(text: object) -> None:
    assert listed(text, ONE) == [ONE]


@pytest.mark.parametrize(
    ("lock", "rivals"),
    [
        ("lease", {"lease", "configmapsleases", "endpointsleases"}),
        ("configmap", {"configmap", "configmapsleases"}),
        ("configmapsleases", {"lease", "configmap", "configmapsleases", "endpointsleases"}),
        ("leader-for-life", {"leader-for-life"}),
    ],
)
def test_candidates_of_one_name_are_rivals_if_they_share_an_object(lock: str, rivals: set[str]) -> None:
    kinds = ("lease", "configmap", "endpoints", "configmapsleases", "endpointsleases", "leader-for-life")
    found = registry.of_lock([ONE._replace(lock=kind) for kind in kinds], lock)
    assert {each.lock for each in found} == rivals


def test_unrenewed_entries_are_removed_after_an_hour_and_unreadable_ones_stay() -> None:
    ages = {"new": 0, "old": 59 * MINUTE, "dead": 61 * MINUTE}
    entries: dict[str, str | None] = {
        registry.entry_key(name): registry.to_text(ONE._replace(renewed=NOW - age)) for name, age in ages.items()
    }
    found = registry.blank("n", "x", entries | {registry.entry_key("next-version"): "{}"})
    assert registry.outdated_keys(found, NOW) == [registry.entry_key("dead")]


def test_a_held_lease_is_a_lock_whatever_its_annotations() -> None:
    found = registry.blank("n", "x", {})
    assert registry.is_registry(found)
    assert not registry.is_registry({**found, "spec": {"holderIdentity": "a"}})
    assert not registry.is_registry({**found, "metadata": {"name": "candidates.x", "annotations": None}})
