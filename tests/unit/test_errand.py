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


def test_a_missing_permission_is_told_once_until_it_is_there() -> None:
    _, log = run(REFUSED, REFUSED, None, REFUSED)
    assert [level for level, _ in log.lines] == ["WARNING", "DEBUG", "WARNING"]
    assert log.of("WARNING") == ["grant it: no"] * 2


@pytest.mark.parametrize("failure", [REFUSED, AWAY, BUG], ids=repr)
def test_nothing_is_raised_and_who_asked_is_told(failure: Exception) -> None:
    assert run(failure, None)[0] == [False, True]


@pytest.mark.parametrize(("matters", "level"), [(False, "DEBUG"), (True, "WARNING")])
def test_another_failure_is_a_warning_only_where_it_matters(level: str, *, matters: bool) -> None:
    _, log = run(AWAY, matters=matters)
    assert log.lines == [(level, "not done: away")]
    assert run(BUG, matters=matters)[1].lines == [(level, "not done: KeyError: 'bug'")]
