"""Which standby a leader recommends, and that nothing which it cannot read matters."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kleader.backoff import Backoff
from kleader.election.events import Kind
from kleader.election.state import Phase
from kleader.elector import recommendation
from kleader.elector.recommendation import Recommendation, Revision, best, replica_set, revision_of
from kleader.ipc.plan import FOR_LIFE, Plan, Pod
from kleader.kube.errors import ForbiddenError, LockError, WatchError
from kleader.kube.timeout import within
from kleader.locks import candidate_registry as registry
from kleader.locks.candidate_registry import READY, UNHEALTHY, Registered
from tests.support.heard import Heard

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Coroutine

    from kleader.election.state import State
    from kleader.kube.credentials import Credentials
    from kleader.locks.base import Lock

NOW = 1_795_262_400_000_000
OLD, NEW, OTHER = "web-6b7f9c5d48", "web-79d8fb6c4f", "green-5f5d7b7c9"
ROLLED = {OLD: Revision("web", 1), NEW: Revision("web", 2)}


def standby(identity: str, pod: str = "", priority: int = 0, **fields: Any) -> Registered:  # noqa: ANN401
    return Registered(identity, "lease", READY, NOW - 9, NOW, priority, pod)._replace(**fields)


def of(name: str, number: int) -> Registered:
    return standby(f"{name}/{number}", f"{name}-aaaa{number}")


@pytest.mark.parametrize(
    ("why", "standbys", "revisions", "chosen"),
    [
        ("no standby", [], ROLLED, ""),
        ("the order of the list", [standby("a"), standby("b")], {}, "a"),
        ("priority first", [of(NEW, 1), standby("b", f"{OLD}-bbbbb", 1)], ROLLED, "b"),
        ("the newest template", [of(OLD, 1), of(NEW, 1), of(NEW, 2)], ROLLED, f"{NEW}/1"),
        (
            "the newest template of the highest priority, though a newer one waits with a lower",
            [standby("a", f"{OLD}-aaaaa", 1), standby("b", f"{NEW}-aaaaa", 1), of(OTHER, 1)],
            {**ROLLED, OTHER: Revision("web", 3)},
            "b",
        ),
        ("a rollback", [of(NEW, 1), of(OLD, 1)], {**ROLLED, OLD: Revision("web", 3)}, f"{OLD}/1"),
        ("a revision is a number", [of(OLD, 1), of(NEW, 1)], {OLD: ROLLED[OLD], NEW: Revision("web", 10)}, f"{NEW}/1"),
        ("no permission", [of(OLD, 1), of(NEW, 1)], {}, f"{OLD}/1"),
        ("one ReplicaSet is gone", [of(OLD, 1), of(NEW, 1)], {NEW: Revision("web", 2)}, f"{OLD}/1"),
        ("not in a Deployment", [standby("host"), of(OLD, 1)], ROLLED, "host"),
        ("two Deployments", [of(OTHER, 1), of(NEW, 1)], {**ROLLED, OTHER: Revision("green", 1)}, f"{OTHER}/1"),
    ],
)  # fmt: skip
def test_the_recommended_standby(
    why: str, standbys: list[Registered], revisions: dict[str, Revision], chosen: str
) -> None:
    assert best(standbys, revisions) == chosen, why


SETS = st.sampled_from(["", OLD, NEW, OTHER])
FLEETS = st.lists(st.tuples(SETS, st.integers(-2, 2)), min_size=1, max_size=9)
REVISIONS = st.dictionaries(SETS, st.builds(Revision, st.sampled_from(["web", "green"]), st.integers(0, 3)))


@given(FLEETS, REVISIONS)
def test_no_standby_has_a_higher_priority_nor_at_the_same_priority_a_newer_template(
    fleet: list[tuple[str, int]], revisions: dict[str, Revision]
) -> None:
    standbys = [standby(str(i), f"{name}-aaaaa" if name else "", priority) for i, (name, priority) in enumerate(fleet)]
    name, priority = fleet[int(best(standbys, revisions))]
    assert priority == max(each for _, each in fleet)
    mine = revisions.get(name)
    rivals = [revisions[each] for each, equal in fleet if each in revisions and equal == priority]
    newer_exist = mine and any(each.deployment == mine.deployment and each.number > mine.number for each in rivals)
    assert not newer_exist


@pytest.mark.parametrize(
    ("pod", "name"),
    [(f"{OLD}-x2b4z", OLD), ("worker-0", ""), ("worker", ""), ("", ""), ("-abcde", ""), (f"{OLD}-X2B4Z", "")],
)
def test_the_name_of_a_pod_contains_its_replica_set(pod: str, name: str) -> None:
    assert replica_set(pod) == name


def set_of(revision: object = "2", owners: object = ({"uid": "web"},)) -> dict[str, Any]:
    owners = [*owners] if isinstance(owners, tuple) else owners
    return {"metadata": {"annotations": {recommendation._REVISION: revision}, "ownerReferences": owners}}


@pytest.mark.parametrize(
    "found", [{}, *map(set_of, (None, "x", "²", "9" * 99)), *(set_of(owners=each) for each in (None, (), (7, 8)))]
)
def test_a_replica_set_of_no_deployment_has_no_revision(found: dict[str, Any]) -> None:
    assert revision_of(set_of()) == Revision("web", 2)
    assert revision_of(found) is None


class Api:
    """An API server: what the watch of the list shows, and the ReplicaSets."""

    shows: list[dict[str, Any] | WatchError | None]
    sets: dict[str, dict[str, Any] | LockError]
    failures: list[LockError]  # of the first calls
    read: list[str]

    def __init__(self, _credentials: Credentials, *, shared: bool) -> None:
        assert shared

    async def watch_object(self, *_: object) -> AsyncGenerator[dict[str, Any] | None, None]:
        for shown in Api.shows:
            await asyncio.sleep(0)
            if isinstance(shown, WatchError):
                raise shown
            yield shown
        await asyncio.Event().wait()

    async def call(self, _method: str, target: str, *_: object, accept: str) -> dict[str, Any]:
        assert "PartialObjectMetadata" in accept
        name = target.rpartition("/")[2]
        Api.read.append(name)
        await asyncio.sleep(0)
        found = Api.failures.pop() if Api.failures else Api.sets.get(name, LockError(Kind.MISSING, "there is none"))
        if isinstance(found, LockError):
            raise found
        return found

    def close(self) -> None: ...


@pytest.fixture(autouse=True)
def _scripted(monkeypatch: pytest.MonkeyPatch) -> None:
    Api.shows, Api.sets, Api.failures, Api.read = [], {OLD: set_of("1"), NEW: set_of("2")}, [], []
    monkeypatch.setattr(recommendation, "ApiClient", Api)
    monkeypatch.setattr(recommendation, "_DELAY_SECONDS", 0)
    monkeypatch.setattr(Backoff, "pause", lambda *_: 3600)


def listed(*standbys: Registered) -> dict[str, Any]:
    return registry.blank(
        "n", "x", {registry.entry_key(str(i)): registry.to_text(one) for i, one in enumerate(standbys)}
    )


class Leader:
    """One that leads, and what its next release recommends."""

    def __init__(self, **plan: object) -> None:
        self.lock = SimpleNamespace(recommended="", namespace="n", server_time=NOW)
        self.log = Heard()
        given = {"name": "x", "identity": "me", "lock": "lease", "registers": True, "pod": Pod("", "", ""), **plan}
        values = {**dict.fromkeys(Plan.__annotations__, ""), **given}
        made = Plan(**values)  # type: ignore[arg-type]
        self.part = Recommendation(made, cast("Credentials", None), self.log, cast("Lock", self.lock))
        self.enter(Phase.LEADING)

    def enter(self, phase: Phase) -> None:
        self.part.follow(cast("State", SimpleNamespace(phase=phase)))

    async def rests(self) -> str:
        """What it recommends, once it has read all."""
        for _ in range(50):
            await asyncio.sleep(0)
        return str(self.lock.recommended)


def play(story: Coroutine[Any, Any, None]) -> None:
    async def bounded() -> None:
        async with within(60):
            await story

    asyncio.run(bounded())


def test_a_leader_follows_the_list_and_reads_revisions_only_during_a_rollout() -> None:
    async def story() -> None:
        Api.shows = [listed(of(OLD, 1), of(OLD, 2))]
        leader = Leader()
        assert await leader.rests() == f"{OLD}/1"
        assert Api.read == []
        leader.enter(Phase.OVER)
        assert await leader.rests() == ""
        Api.shows = [None, listed(of(OLD, 1)), listed(of(OLD, 1), of(NEW, 1))]
        leader.enter(Phase.LEADING)
        assert await leader.rests() == f"{NEW}/1"
        assert Api.read == [OLD, NEW]
        leader.enter(Phase.RELEASING)
        assert await leader.rests() == f"{NEW}/1"
        leader.enter(Phase.LOST)
        assert await leader.rests() == ""

    play(story())


def test_an_entry_that_its_candidate_renews_costs_the_leader_no_request() -> None:
    async def story() -> None:
        Api.shows = [listed(of(OLD, 1), of(NEW, 1)._replace(renewed=NOW + second)) for second in range(9)]
        leader = Leader()
        assert await leader.rests() == f"{NEW}/1"
        assert Api.read == [OLD, NEW]

    play(story())


def test_a_rollback_counts_though_the_list_has_not_changed_since() -> None:
    async def story() -> None:
        Api.shows = [listed(of(OLD, 1), of(NEW, 1))]
        leader = Leader()
        assert await leader.rests() == f"{NEW}/1"
        Api.sets[OLD] = set_of("3")
        leader.part.command(runs=False)
        assert await leader.rests() == f"{OLD}/1"

    play(story())


@pytest.mark.parametrize(
    "gone",
    [
        standby("me"),
        standby("a", state=UNHEALTHY),
        standby("a", renewed=NOW - 400_000_000),
        standby("a", lock="configmap"),
    ],
)
def test_a_candidate_that_no_longer_stands_by_is_not_recommended(gone: Registered) -> None:
    """The leader's own entry, an unhealthy candidate, one that ended without a word, one of another type of lock."""

    async def story() -> None:
        Api.shows = [listed(gone)]
        assert await Leader().rests() == ""

    play(story())


def test_another_programs_lease_of_that_name_is_no_list() -> None:
    async def story() -> None:
        Api.shows = [listed(standby("a")) | {"spec": {"holderIdentity": "somebody"}}]
        assert await Leader().rests() == ""

    play(story())


@pytest.mark.parametrize("denied", [True, False])
def test_a_list_that_cannot_be_watched_recommends_no_standby(*, denied: bool) -> None:
    async def story() -> None:
        Api.shows = [WatchError("no", denied=denied)]
        leader = Leader()
        assert await leader.rests() == ""
        sentence = "grant watch on the Lease candidates.x, so that a rolling update changes the leader only once: no"
        assert leader.log.of("WARNING") == ([sentence] if denied else [])

    play(story())


@pytest.mark.parametrize("error", [ForbiddenError("no"), LockError(Kind.UNREACHABLE, "no")])
def test_replica_sets_that_cannot_be_read_leave_the_order_of_the_list_and_one_line(error: LockError) -> None:
    async def story() -> None:
        Api.shows = [listed(of(OLD, 1), of(NEW, 1)) for _ in range(3)]
        Api.sets = {OLD: error, NEW: error}
        leader = Leader()
        assert await leader.rests() == f"{OLD}/1"
        assert len(leader.log.of("WARNING")) == isinstance(error, ForbiddenError)

    play(story())


def test_a_replica_set_whose_read_had_no_answer_is_read_again_when_the_list_changes() -> None:
    async def story() -> None:
        Api.shows = [listed(of(OLD, 1), of(NEW, 1)) for _ in range(2)]
        Api.failures = [LockError(Kind.UNREACHABLE, "no")]
        assert await Leader().rests() == f"{NEW}/1"

    play(story())


@pytest.mark.parametrize("plan", [{"registers": False}, {"lock": FOR_LIFE}, {"coordinated": True}])
def test_no_pod_is_read_without_a_list_that_kleader_chooses_from(plan: dict[str, object]) -> None:
    async def story() -> None:
        Api.shows = [listed(standby("a"))]
        assert await Leader(**plan).rests() == ""

    play(story())
