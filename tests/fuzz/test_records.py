"""No candidate takes a lock because of a record that it cannot read, nor before the duration of that record is over."""

from __future__ import annotations

import asyncio
import json
from math import inf
from typing import TYPE_CHECKING, Any, TypeVar, cast

import pytest

from kleader.election import events as e
from kleader.election.events import Failure, Instant, Observed
from kleader.election.state import Candidate, State
from kleader.election.step_function import step
from kleader.kube import responses
from kleader.kube.errors import LockError
from kleader.locks.annotation_lock import LEADER, ConfigMapLock, EndpointsLock
from kleader.locks.base import Place
from kleader.locks.coordinated_lease import CoordinatedLease
from kleader.locks.lease import LeaseLock
from kleader.locks.multilock import MultiLock
from tests.fuzz import oracle
from tests.fuzz.foreign import corpus, foreign
from tests.support.election import START, TIMING, WALL, candidate, resumed

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterator

    from kleader.kube.client import ApiClient
    from kleader.locks.object_lock import ObjectLock

T = TypeVar("T")

HORIZON = 700.0  # seconds; more than twice what a candidate reads again after
SERVER = responses.Server("the API server", "--kubeconfig", "--kubeconfig")


class Echo:
    """An API server that answers each write with what was written, in a new version."""

    def unreadable(self, what: str) -> LockError:
        return responses.unreadable(what, SERVER)

    async def call(self, method: str, target: str, body: dict[str, Any] | None, timeout: float) -> dict[str, Any]:
        if body is None:
            return {"kind": "Service", "spec": {"selector": {"a": "b"}}}
        found: dict[str, Any] = json.loads(json.dumps(body))
        found["metadata"] |= {"resourceVersion": "1000000", "uid": found["metadata"].get("uid", "new")}
        return found


class Silent:
    """The candidate of a coordinated lock."""

    identity = "me"

    def schedule_renewals(self, seconds: float) -> None:
        assert seconds > 0


def lock_for(kind: type[ObjectLock], found: dict[str, Any]) -> ObjectLock:
    """The lock of that name, which is whatever the object says."""
    metadata = found.get("metadata")
    name = metadata.get("name") if isinstance(metadata, dict) else None
    known = name if isinstance(name, str) and name.isascii() else "x"
    lock = kind(Place(cast("ApiClient", Echo()), "default", known))
    if isinstance(lock, CoordinatedLease):
        lock.candidate = Silent()  # type: ignore[assignment]
    return lock


def sights(kind: type[ObjectLock], data: bytes) -> Iterator[tuple[ObjectLock, Observed]]:
    """What kleader makes of an answer: one, or none."""
    found = responses.json_object(data)
    if found is not None:
        lock = lock_for(kind, found)
        try:
            yield lock, lock.observed(found)
        except LockError as error:
            assert error.failure.kind is e.Kind.UNREACHABLE


def follow(
    state: State, first: e.Event, seen: Observed | None, end: float = START + HORIZON
) -> Iterator[tuple[float, e.Action]]:
    """What a candidate asks for, and when, from ``first`` on while each look shows it the same."""
    now = START
    events: list[e.Event] = [first]
    while now < end:
        while events:
            state, actions = step(state, events.pop(0), Instant(now, WALL + round((now - START) * 1e6)))
            for action in actions:
                yield now, action
                if isinstance(action, e.Get):
                    events.append(e.GetDone(action, seen))
        assert state.wake_at > now
        now = state.wake_at
        events.append(e.TimerFired())


def first_write(seen: Observed, me: Candidate) -> float:
    """Seconds after the first sight of it until a candidate wants to write; inf: not within the horizon."""
    took = (
        now - START for now, action in follow(State(me, "term-1"), e.TimerFired(), seen) if isinstance(action, e.Write)
    )
    return next(took, inf)


def go_through(lock: ObjectLock, seen: Observed, **traits: object) -> None:
    """Every phase of an election meets it, and then its end; what is written can be written."""
    for write in follow_through(seen, **traits):
        shown = run(lock.write(write.base, write.record, write.incarnation, 1.0))
        assert (shown.record, shown.fault) == (write.record, "")


def follow_through(seen: Observed, **traits: object) -> list[e.Write]:
    """What a candidate, and one that leads, would write over it, and after its deletion."""
    told: list[e.Action] = []
    for me in (candidate(**traits), candidate(**traits, one_try=True), candidate(**traits, live=True)):
        waiting, leading = State(me, "term-1"), resumed(me, START, acquired=WALL, transitions=3)
        for state in (waiting, leading):
            told += [action for _, action in follow(state, e.TimerFired(), seen)]
            now, at = state, START
            for event in (
                e.TimerFired(),
                e.WatchEvent(seen),
                e.GetDone(e.Get(now.serial, 1.0), seen),
                e.WatchEvent(None),
                e.AllProcessesExited(release=True),
            ):
                now, actions = step(now, event, Instant(at, WALL))
                told += actions
                at += 1
            lost = e.RequestFailed(now.pending, Failure(e.Kind.CONFLICT)) if now.pending else e.TimerFired()
            told += [action for _, action in follow(now, lost, None, at + 50)]
    return [action for action in told if isinstance(action, e.Write)]


def run(work: Coroutine[Any, Any, T]) -> T:
    """In a loop of its own, in which nothing fails unseen."""
    loop = asyncio.new_event_loop()
    unseen: list[object] = []
    loop.set_exception_handler(lambda _, context: unseen.append(context.get("exception") or context))
    try:
        done = loop.run_until_complete(work)
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.run_until_complete(asyncio.sleep(0))
    finally:
        loop.close()
    assert not unseen
    return done


@foreign("lease")
def test_a_lease_is_taken_only_when_its_own_duration_is_over(data: bytes) -> None:
    for lock, seen in sights(LeaseLock, data):
        assert first_write(seen, candidate()) >= min(lease_held_for(seen), HORIZON)
        go_through(lock, seen)


@foreign("lease")
def test_a_coordinated_lease_is_taken_only_by_the_nominated_candidate(data: bytes) -> None:
    for lock, seen in sights(CoordinatedLease, data):
        if seen.record.holder != "me":
            assert first_write(seen, candidate(coordinated=True)) == inf
        go_through(lock, seen, coordinated=True)


@pytest.mark.parametrize("kind", [ConfigMapLock, EndpointsLock])
@foreign("configmap", "endpoints")
def test_an_annotated_object_is_taken_only_when_its_own_duration_is_over(data: bytes, kind: type[ObjectLock]) -> None:
    for lock, seen in sights(kind, data.replace(b'"ConfigMap"', f'"{kind.kind}"'.encode())):
        annotations = seen.base["metadata"].get("annotations")
        text = annotations.get(LEADER, "{}") if isinstance(annotations, dict) else "{}"
        held = oracle.annotation(text) if isinstance(text, str) else inf
        assert first_write(seen, candidate(**kind.properties._asdict())) >= min(held, HORIZON)
        go_through(lock, seen, **kind.properties._asdict())


@foreign("annotation")
def test_an_annotation_is_free_only_where_encoding_json_reads_an_empty_holder(data: bytes) -> None:
    text = data.decode(errors="surrogateescape")
    found = json.loads(corpus("configmap")[0])
    found["metadata"]["annotations"] = {LEADER: text}
    for lock, seen in sights(ConfigMapLock, json.dumps(found).encode()):
        assert first_write(seen, candidate()) >= min(oracle.annotation(text), HORIZON)
        go_through(lock, seen, **ConfigMapLock.properties._asdict())


@foreign("lease")
def test_a_multilock_is_taken_only_when_the_longer_duration_is_over(data: bytes) -> None:
    other, seen = next(sights(ConfigMapLock, corpus("configmap")[0]))
    for lock, beside in sights(LeaseLock, data):
        held = max(oracle.annotation(seen.base["metadata"]["annotations"][LEADER]), lease_held_for(beside))
        for parts in ((other, seen), (lock, beside)), ((lock, beside), (other, seen)):
            first, second = (cast("ObjectLock", Part(*each)) for each in parts)
            both = run(MultiLock(first, second, TIMING.lease_duration).get(1.0))
            assert first_write(both, candidate(is_multilock=True)) >= min(held, HORIZON)
            follow_through(both, is_multilock=True)


class Part:
    """One of two locks, as it was seen."""

    def __init__(self, lock: ObjectLock, seen: Observed) -> None:
        self.namespace, self.properties, self._seen = lock.namespace, lock.properties, seen

    async def get(self, timeout: float) -> Observed:
        return self._seen


def lease_held_for(seen: Observed) -> float:
    """By the oracle."""
    spec = seen.base.get("spec")
    return oracle.held_for(list(spec.items())) if isinstance(spec, dict) else 0 if spec is None else inf
