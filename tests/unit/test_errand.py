"""What is told beside the lock costs it nothing, and a person no more than one word."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, cast

import pytest

from kleader.election.events import Kind
from kleader.elector.errand import Errand
from kleader.locks.answers import ForbiddenError
from kleader.locks.base import LockError
from tests.support.heard import Heard

if TYPE_CHECKING:
    from kleader.locks.api import Api
    from kleader.locks.credentials import Credentials

REFUSED, AWAY, BUG = ForbiddenError("no"), LockError(Kind.UNREACHABLE, "away"), KeyError("bug")


def run(*outcomes: Exception | None, matters: bool = False) -> tuple[list[bool], Heard]:
    log = Heard()
    errand = Errand(cast("Credentials", None), log, "grant it", "not done", matters=matters)

    async def story() -> list[bool]:
        done = []
        for outcome in outcomes:

            async def work(_api: Api, outcome: Exception | None = outcome) -> None:
                if outcome:
                    raise outcome

            done.append(await errand.run(work))
        return done

    return asyncio.run(story()), log


@pytest.mark.parametrize(("matters", "warnings"), [(False, 1), (True, 2)])
def test_a_missing_permission_is_told_once_and_anew_after_a_success_where_it_matters(
    warnings: int, *, matters: bool
) -> None:
    _, log = run(AWAY, REFUSED, REFUSED, None, REFUSED, matters=matters)
    told = [message for message in log.of("WARNING") if message != "not done: away"]
    assert told == ["grant it: no"] * warnings
    assert len(log.lines) == 4


@pytest.mark.parametrize("failure", [REFUSED, AWAY, BUG], ids=repr)
def test_nothing_is_raised_and_who_asked_is_told(failure: Exception) -> None:
    assert run(failure, None)[0] == [False, True]


@pytest.mark.parametrize(("matters", "level"), [(False, "DEBUG"), (True, "WARNING")])
def test_another_failure_is_a_warning_only_where_it_matters(level: str, *, matters: bool) -> None:
    _, log = run(AWAY, matters=matters)
    assert log.lines == [(level, "not done: away")]
    assert run(BUG, matters=matters)[1].lines == [(level, "not done: KeyError: 'bug'")]
