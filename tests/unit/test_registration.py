"""How a candidate makes itself known: what it writes when, and that no failure matters."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from kleader.backoff import Backoff
from kleader.election.events import Kind
from kleader.election.state import Phase
from kleader.elector import registration
from kleader.elector.registration import Registration
from kleader.ipc.plan import Plan, Pod
from kleader.kube.errors import ForbiddenError, LockError
from kleader.kube.timeout import within
from kleader.locks import candidate_registry as registry
from kleader.locks.candidate_registry import READY, UNHEALTHY
from tests.support.heard import Heard
from tests.support.processes import PATIENCE

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from kleader.election.state import State
    from kleader.kube.credentials import Credentials

NOW = 1_795_262_400_000_000
VALUES = {
    "name": "x",
    "identity": "me",
    "lock": "lease",
    "started": 1.0,
    "registers": True,
    "priority": 0,
    "pod": Pod("", "", ""),
}


class Api:
    """An API server with one Lease, and failures that come first."""

    lease: dict[str, Any] | None
    failures: list[Exception]
    requests: list[str]

    def __init__(self, _credentials: Credentials, *, shared: bool) -> None:
        assert shared

    async def call(self, method: str, _target: str, body: dict[str, Any] | None, _timeout: float) -> dict[str, Any]:
        Api.requests.append(method)
        await asyncio.sleep(0)
        if Api.failures:
            raise Api.failures.pop(0)
        if method == "PUT":
            Api.lease = body
        if Api.lease is None:
            raise LockError(Kind.MISSING, "there is none")
        if method == "PATCH":
            assert body
            entries = Api.lease["metadata"]["annotations"] | body["metadata"]["annotations"]
            Api.lease["metadata"]["annotations"] = {key: text for key, text in entries.items() if text is not None}
        return Api.lease

    def close(self) -> None: ...


@pytest.fixture(autouse=True)
def _scripted(monkeypatch: pytest.MonkeyPatch) -> None:
    Api.lease, Api.failures, Api.requests = None, [], []
    monkeypatch.setattr(registration, "ApiClient", Api)
    monkeypatch.setattr(registration, "_DELAY_SECONDS", 0.01)
    monkeypatch.setattr(Backoff, "pause", lambda _self: 0.01)


def state(phase: Phase, holder: str = "other", **me: bool) -> State:
    observed = SimpleNamespace(record=SimpleNamespace(holder=holder))
    candidate = SimpleNamespace(**{"identity": "me", "one_try": False, "live": False, **me})
    return cast("State", SimpleNamespace(phase=phase, observed=observed, me=candidate))


def make(log: Heard | None = None, *, fresh: bool = True, **plan: object) -> Registration:
    values = {**dict.fromkeys(Plan.__annotations__, ""), **VALUES, **plan}
    return Registration(
        Plan(**values),  # type: ignore[arg-type]
        cast("Credentials", None),
        log or Heard(),
        "n",
        lambda: NOW,
        fresh=fresh,
    )


def states() -> list[str]:
    return [each.state for each in registry.candidates(Api.lease or {}, NOW)]


async def until(*wanted: str) -> None:
    """Return when the list has these states."""
    await until_true(lambda: states() == [*wanted])


async def until_true(condition: Callable[[], bool]) -> None:
    while not condition():  # noqa: ASYNC110 - what it waits for tells nobody
        await asyncio.sleep(0)


def play(story: Coroutine[Any, Any, None]) -> None:
    async def bounded() -> None:
        async with within(PATIENCE):
            await story

    asyncio.run(bounded())


def test_a_candidate_is_listed_while_it_waits_and_not_while_it_leads() -> None:
    async def story() -> None:
        one = make()
        one.follow(state(Phase.FOLLOWING))
        await until(READY)
        one.follow(state(Phase.LEADING))
        await until()
        one.follow(state(Phase.FOLLOWING))
        await until(READY)
        await one.end(60, unhealthy=False)
        assert states() == []
        assert Api.requests == ["GET", "PUT", "PATCH", "PATCH", "PATCH"]

    play(story())


def test_an_unhealthy_candidate_stays_in_the_list() -> None:
    async def story() -> None:
        one = make()
        one.follow(state(Phase.FOLLOWING))
        await one.end(60, unhealthy=True)
        assert states() == [UNHEALTHY]

    play(story())


@pytest.mark.parametrize(
    "seen",
    [
        state(Phase.LEADING),
        state(Phase.FOLLOWING, ""),
        state(Phase.FOLLOWING, "me"),
        state(Phase.FOLLOWING, one_try=True),
        state(Phase.FOLLOWING, live=True),
    ],
)
def test_a_candidate_that_does_not_wait_for_another_sends_no_request(seen: State) -> None:
    async def story() -> None:
        one = make()
        one.follow(seen)
        await one.end(60, unhealthy=False)
        assert Api.requests == []

    play(story())


def test_a_candidate_that_leads_within_the_delay_sends_no_request(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registration, "_DELAY_SECONDS", 60.0)

    async def story() -> None:
        one = make()
        one.follow(state(Phase.FOLLOWING))
        await asyncio.sleep(0)
        one.follow(state(Phase.LEADING))
        await one.end(60, unhealthy=False)
        assert Api.requests == []

    play(story())


def test_a_candidate_with_no_register_writes_no_entry() -> None:
    async def story() -> None:
        one = make(registers=False)
        one.follow(state(Phase.FOLLOWING))
        await one.end(60, unhealthy=True)
        assert Api.requests == []

    play(story())


def test_a_replacement_elector_removes_its_predecessors_entry() -> None:
    """The entry is the process's own, whichever of its electors writes it."""

    async def story() -> None:
        first = make()
        first.follow(state(Phase.FOLLOWING))
        await until(READY)
        second = make(fresh=False)
        second.follow(state(Phase.LEADING))
        await until()
        third = make(fresh=False)
        third.follow(state(Phase.LEADING))
        await third.end(60, unhealthy=False)
        assert Api.requests[-1] == "GET"

    play(story())


def test_a_missing_permission_is_warned_of_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "RENEWAL", 0.01)
    log = Heard()
    Api.failures = [ForbiddenError("no"), ForbiddenError("no")]

    async def story() -> None:
        one = make(log)
        one.follow(state(Phase.FOLLOWING))
        await until(READY)
        await one.end(60, unhealthy=False)

    play(story())
    (warning,) = log.of("WARNING")
    assert warning.startswith("grant get, update, create and patch on the Lease candidates.x, so that status")


def test_a_request_without_an_answer_is_repeated_until_the_list_is_right() -> None:
    """Also the last one: it may have been carried out or not."""

    async def story() -> None:
        one = make()
        Api.failures = [LockError(Kind.UNREACHABLE, "away"), KeyError("bug")]
        one.follow(state(Phase.FOLLOWING))
        await until(READY)
        Api.failures = [LockError(Kind.UNREACHABLE, "away")]
        await one.end(60, unhealthy=False)
        assert states() == []

    play(story())


def test_a_list_that_was_deleted_is_created_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "RENEWAL", 0.01)

    async def story() -> None:
        one = make()
        one.follow(state(Phase.FOLLOWING))
        await until(READY)
        Api.lease = None
        await until(READY)
        await one.end(60, unhealthy=False)

    play(story())


def test_a_lock_of_another_program_is_left_as_it_is() -> None:
    log, lease = Heard(), {"metadata": {"name": "candidates.x"}, "spec": {"holderIdentity": "b"}}

    async def story() -> None:
        Api.lease = lease
        one = make(log)
        one.follow(state(Phase.FOLLOWING))
        await until_true(lambda: bool(log.of("WARNING")))
        await one.end(0.01, unhealthy=False)
        assert set(Api.requests) == {"GET"}

    play(story())
    assert "the Lease n/candidates.x is another program's" in log.of("WARNING")[0]


def test_entries_of_the_dead_are_removed_by_the_next_renewal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "RENEWAL", 0.01)
    dead = registry.Registered("dead", "lease", READY, 0, NOW - 3_700_000_000)
    key = registry.entry_key("dead")

    async def story() -> None:
        Api.lease = registry.blank("n", "x", {key: registry.to_text(dead)})
        one = make()
        one.follow(state(Phase.FOLLOWING))
        await until_true(lambda: not registry.has_entry(Api.lease or {}, key))
        assert states() == [READY]
        await one.end(60, unhealthy=False)

    play(story())
