"""Best-effort requests: no failure is raised, and the log warns of each no more than once."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, ClassVar, cast

import pytest

from kleader.election.events import Kind
from kleader.elector import best_effort
from kleader.elector.best_effort import BestEffortCall
from kleader.kube.errors import ForbiddenError, LockError
from tests.support.heard import Heard

if TYPE_CHECKING:
    from kleader.kube.credentials import Credentials

REFUSED, AWAY, BUG = ForbiddenError("no"), LockError(Kind.UNREACHABLE, "away"), KeyError("bug")


class Api:
    """An ApiClient whose requests have these outcomes."""

    outcomes: ClassVar[list[Exception | None]] = []

    def __init__(self, _credentials: Credentials, *, shared: bool) -> None:
        assert shared

    async def call(self, *_: object) -> None:
        if outcome := self.outcomes.pop(0):
            raise outcome

    def close(self) -> None: ...


@pytest.fixture(autouse=True)
def _scripted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(best_effort, "ApiClient", Api)


def run(*outcomes: Exception | None, is_important: bool = False) -> tuple[list[bool], Heard]:
    log = Heard()
    call = BestEffortCall(
        cast("Credentials", None),
        log,
        event="pod_label_failed",
        failure="not done",
        grant="grant it",
        is_important=is_important,
    )
    Api.outcomes = list(outcomes)

    async def run_all() -> list[bool]:
        return [await call.run("PATCH", "/x", {}) for _ in outcomes]

    return asyncio.run(run_all()), log


@pytest.mark.parametrize(("is_important", "warnings"), [(False, 1), (True, 2)])
def test_a_missing_permission_gives_one_warning_until_the_next_success(warnings: int, *, is_important: bool) -> None:
    _, log = run(AWAY, REFUSED, REFUSED, None, REFUSED, is_important=is_important)
    told = [message for message in log.of("WARNING") if message != "not done: away"]
    assert told == ["grant it: no"] * warnings
    assert len(log.lines) == 4


@pytest.mark.parametrize("failure", [REFUSED, AWAY, BUG], ids=repr)
def test_a_failure_is_returned_and_never_raised(failure: Exception) -> None:
    assert run(failure, None)[0] == [False, True]


@pytest.mark.parametrize(("is_important", "level"), [(False, "DEBUG"), (True, "WARNING")])
def test_any_other_failure_is_a_warning_only_if_the_call_is_important(level: str, *, is_important: bool) -> None:
    _, log = run(AWAY, is_important=is_important)
    assert log.lines == [(level, "not done: away")]
    assert run(BUG, is_important=is_important)[1].lines == [(level, "not done: KeyError: 'bug'")]
