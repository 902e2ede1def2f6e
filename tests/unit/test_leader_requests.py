"""What ``resign`` and ``transfer`` say when the leader cannot do what they ask for, or does something else."""

from __future__ import annotations

import asyncio
import re
from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, TypeAlias

import pytest

from kleader.cli import followed_lock, leader_requests
from kleader.cli.followed_lock import FollowedLock, TimeIsUpError
from kleader.election.events import Kind, Observed
from kleader.election.record import UNKNOWN, Record
from kleader.exits import FAILED, NOT_DONE
from kleader.kube.errors import ForbiddenError, LockError
from kleader.observe.snapshot import LockSnapshot, LockState, LockStatus, status_from_watch

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Coroutine

    from kleader.election.request import Request


def lock(holder: str = "a", **fields: Any) -> LockStatus:  # noqa: ANN401 - of a LockSnapshot
    record = Record(holder, 15 if holder else 1, 1, 1, 3)
    term = f"term of {holder}" if holder else ""
    return status_from_watch(replace(LockSnapshot("lease", "ns", "x", record, term), **fields), 0, 1)


HELD, FREE = lock(), lock("")
EXPIRED = HELD._replace(state=LockState.EXPIRED)
MALFORMED = lock("", fault="the Lease ns/x: broken")


class Shown:
    """A lock that has these statuses, and no other until the time is up."""

    def __init__(self, *statuses: LockStatus | None) -> None:
        self.shown = statuses
        self.query = SimpleNamespace(kind="lease", name="x", request_timeout=1.0)
        self.seconds, self.end, self.objects, self.namespace = 1.0, 0.0, [self], "ns"
        self.api = SimpleNamespace(call=self.refuse)
        self.left: list[Request] = []

    retry, fail_missing, fail_late = FollowedLock.retry, FollowedLock.fail_missing, FollowedLock.fail_late

    async def statuses(self) -> AsyncGenerator[tuple[LockStatus | None, list[Any]], None]:
        for status in self.shown:
            yield status, []
        raise TimeIsUpError

    async def refuse(self, *_: object) -> None:
        raise ForbiddenError("no")

    async def get(self, _: float) -> Observed:
        return Observed(Record("a", 15), "term of a", "7", base={"metadata": {"uid": "u"}, "spec": {}})

    def field_manager(self, _: object) -> str:
        return ""

    async def leave_request(self, observed: Observed, request: Request, *_: object) -> Observed:
        self.left.append(request)
        return observed


Refused: TypeAlias = "Callable[[Shown, Coroutine[None, None, None]], str]"


@pytest.fixture
def refused(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Refused:
    """The last line of a command about this lock, which exits with 1."""

    def run(shown: Shown, command: Coroutine[None, None, None]) -> str:
        monkeypatch.setattr(leader_requests, "followed", lambda *_, **__: shown)
        with pytest.raises(SystemExit) as ended:
            asyncio.run(command)
        assert ended.value.code == NOT_DONE
        return capsys.readouterr().err.splitlines()[-1]

    return run


BEFORE: dict[str, tuple[LockStatus | None, str]] = {
    "no lock": (None, "there is no lease lock x in the namespace ns"),
    "malformed": (MALFORMED, "the Lease ns/x: broken: its holder cannot be asked; kleader resign --force clears it"),
    "two holders": (lock(UNKNOWN), "the two objects of the lock x have different holders"),
    "handed over": (lock("b", handed_over=True, incarnation=""), "the lock was just handed over to b, which has not"),
    "no kleader": (lock(incarnation=""), "held by a, which is not run by kleader and ignores requests"),
}


@pytest.mark.parametrize("state", BEFORE)
@pytest.mark.parametrize("command", ["resign", "transfer"])
def test_a_leader_that_cannot_be_asked_is_not_asked(refused: Refused, command: str, state: str) -> None:
    status, sentence = BEFORE[state]
    shown = Shown(status)
    query: Any = shown.query
    run = (
        leader_requests.resign(query, 1.0, "")
        if command == "resign"
        else leader_requests.transfer(query, "b", 1.0, "", force=True)
    )
    assert sentence in refused(shown, run)
    assert not shown.left


@pytest.mark.parametrize(
    ("then", "sentence"),
    [
        ((), "a has not resigned within 1s"),
        ((EXPIRED,), "a has not renewed the lock for 15s: any candidate may take it"),
        ((MALFORMED,), "the Lease ns/x: broken"),
    ],
    ids=["leads on", "dies", "its record is overwritten"],
)
def test_a_leader_that_does_not_resign_is_reported(
    refused: Refused, then: tuple[LockStatus, ...], sentence: str
) -> None:
    shown = Shown(HELD, *then)
    query: Any = shown.query
    assert sentence in refused(shown, leader_requests.resign(query, 1.0, ""))
    assert [request.to for request in shown.left] == [""]


@pytest.mark.parametrize(
    ("shown", "sentence"),
    [
        ((FREE,), "the lock is free: no leader can hand it over"),
        ((HELD,), "a has not handed the lock over within 1s"),
        ((HELD, EXPIRED), "a has not renewed the lock for 15s: any candidate may take it"),
        ((HELD, FREE), "a ended its term without a handover, and b does not lead within 1s"),
        ((HELD, None), "a ended its term without a handover, and b does not lead within 1s"),
        ((HELD, lock("b", handed_over=True, incarnation="")), "b has not taken the lock within 1s"),
        ((HELD, lock("c")), "c leads instead"),
    ],
    ids=["free", "leads on", "dies", "releases", "is deleted", "is not taken", "another leads"],
)
def test_a_transfer_that_does_not_happen_is_reported(
    refused: Refused, shown: tuple[LockStatus | None, ...], sentence: str
) -> None:
    seen = Shown(*shown)
    query: Any = seen.query
    assert sentence in refused(seen, leader_requests.transfer(query, "b", 1.0, "", force=True))
    assert [request.to for request in seen.left] == ["b"] * (HELD in shown)


# --- requests that fail


def attempts(*results: Kind | str) -> tuple[Any, list[int]]:
    """What fails so, or returns that, one after the other; and its calls."""
    left, calls = list(results), []

    async def attempt() -> str:
        calls.append(1)
        result = left.pop(0)
        if isinstance(result, Kind):
            raise LockError(result, f"it is {result.value}") if result is not Kind.DENIED else ForbiddenError("no")
        return result

    return attempt, calls


def test_a_request_is_sent_again_after_an_error_that_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(followed_lock, "_RETRY_SECONDS", 0)
    query: Any = SimpleNamespace()
    attempt, calls = attempts(Kind.CONFLICT, Kind.UNREACHABLE, "done")
    assert asyncio.run(FollowedLock(query, 60).retry(attempt)) == "done"
    assert len(calls) == 3
    assert asyncio.run(FollowedLock(query, 60).retry(attempts(Kind.MISSING)[0])) is None


def test_a_request_that_fails_until_the_time_is_up_reports_its_last_error() -> None:
    query: Any = SimpleNamespace()
    with pytest.raises(TimeIsUpError, match=f"it is {Kind.UNREACHABLE.value}"):
        asyncio.run(FollowedLock(query, 0).retry(attempts(Kind.UNREACHABLE)[0]))


def test_a_request_without_permission_names_what_the_command_needs(capsys: pytest.CaptureFixture[str]) -> None:
    query: Any = SimpleNamespace()
    with pytest.raises(SystemExit) as ended:
        asyncio.run(FollowedLock(query, 60, "update leases").retry(attempts(Kind.DENIED)[0]))
    assert ended.value.code == FAILED
    assert re.search("no; this command needs update leases", capsys.readouterr().err)
