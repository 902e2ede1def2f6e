"""Before `kleader transfer` asks a leader to stop, it knows a candidate that waits."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest

from kleader.cli import leader_requests
from kleader.cli.followed_lock import FollowedLock
from kleader.election.events import Kind
from kleader.election.record import Record
from kleader.exits import NOT_DONE
from kleader.kube.errors import ForbiddenError, LockError
from kleader.locks import candidate_registry as registry
from kleader.locks.candidate_registry import READY, UNHEALTHY, Registered
from kleader.observe.snapshot import LockSnapshot

if TYPE_CHECKING:
    from kleader.cli.locate import Query
    from kleader.election.request import Request
    from kleader.kube.client import ApiClient
    from kleader.locks.object_lock import ObjectLock

NOW = 1_795_262_400_000_000
A, B = (Registered(f"{pod}_1f", "lease", READY, NOW - 9, NOW, 0, pod) for pod in ("a", "b"))


def choose(to: str, *entries: Registered, kind: str = "lease", denied: bool = False, holder: str = "leader") -> str:
    texts = {registry.entry_key(str(i)): registry.to_text(each) for i, each in enumerate(entries)}

    async def call(*_: object) -> dict[str, object]:
        if denied:
            raise ForbiddenError("no")
        return registry.blank("n", "x", {**texts})

    query = SimpleNamespace(name="x", kind=kind, request_timeout=1.0)
    lock = SimpleNamespace(api=SimpleNamespace(call=call, server_time=NOW), namespace="n", query=query)
    return asyncio.run(leader_requests.choose_standby(cast("FollowedLock", lock), to, holder))


@pytest.mark.parametrize(("to", "chosen"), [("", "a_1f"), ("b_1f", "b_1f"), ("b", "b_1f")])
def test_a_standby_is_chosen_by_identity_or_pod_or_readiness(to: str, chosen: str) -> None:
    assert choose(to, B._replace(since=NOW), A) == chosen


@pytest.mark.parametrize(
    ("to", "entries", "said"),
    [
        ("", (), "no standby is registered as ready"),
        ("", (A._replace(identity="leader"),), "no standby is registered as ready"),
        ("", (A._replace(lock="configmap"),), "no standby is registered as ready"),
        ("", (A._replace(renewed=NOW - 400_000_000),), "no standby is registered as ready"),
        ("c", (A, B), "nothing was stopped: no candidate c is registered; ready: a_1f, b_1f"),
        ("a_1f", (A._replace(state=UNHEALTHY), B), "the candidate a_1f is unhealthy; ready: b_1f"),
        ("a", (A, A._replace(identity="a_2f")), "the Pod a has several candidates; ready: a_1f, a_2f"),
        ("leader", (A,), "no candidate leader is registered; ready: a_1f"),
    ],
)
def test_a_candidate_that_does_not_wait_is_refused(
    capsys: pytest.CaptureFixture[str], to: str, entries: tuple[Registered, ...], said: str
) -> None:
    with pytest.raises(SystemExit) as ended:
        choose(to, *entries)
    assert ended.value.code == NOT_DONE
    assert said in capsys.readouterr().err


def test_the_host_of_the_leader_names_its_standby_there_and_else_the_leader(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert choose("a", A, B, holder="a_9f") == "a_1f"
    with pytest.raises(SystemExit):
        choose("a", B, holder="a_9f")
    assert "a_9f leads already" in capsys.readouterr().err


@pytest.mark.parametrize(("to", "asked"), [("", "b_1f"), ("a_1f", "a_1f")])
def test_after_a_conflict_the_best_standby_is_chosen_again_and_a_named_one_is_not(to: str, asked: str) -> None:
    """The conflict may be the start of a new term, before which the list has changed."""
    lists = [(A, B), (B, A._replace(since=NOW))]

    async def call(*_: object) -> dict[str, object]:
        entries = lists.pop(0) if len(lists) > 1 else lists[0]
        return registry.blank("n", "x", {registry.entry_key(each.pod): registry.to_text(each) for each in entries})

    async def get(_timeout: float) -> object:
        return SimpleNamespace(incarnation="i", base={})

    async def leave_request(_base: object, request: Request, _by: str, _timeout: float) -> None:
        written.append(request.to)
        if len(written) == 1:
            raise LockError(Kind.CONFLICT, "written since")

    written: list[str] = []
    target = SimpleNamespace(get=get, field_manager=lambda _: "kleader", leave_request=leave_request)
    query = SimpleNamespace(name="x", kind="lease", request_timeout=1.0)
    api = SimpleNamespace(call=call, server_time=NOW)
    lock = FollowedLock(cast("Query", query), 60.0)
    lock.api, lock.namespace, lock.objects = cast("ApiClient", api), "n", [cast("ObjectLock", target)]
    leader = LockSnapshot("lease", "n", "x", Record("leader"), "i")
    asyncio.run(leader_requests._write_request(lock, leader, to, chooses=True))
    assert written == [to or "a_1f", asked]


def test_an_unreadable_list_refuses_every_name(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        choose("a_1f", A, denied=True)
    assert ended.value.code == NOT_DONE
    assert (
        "it is not known which candidates wait: no; grant get on the Lease candidates.x; --to IDENTITY --force"
        in capsys.readouterr().err
    )
