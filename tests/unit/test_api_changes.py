"""What a watch of one object tells where the API server does not remember the version that it is to begin with."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, cast

import pytest

from kleader.locks.api import Api
from kleader.locks.base import WatchError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from kleader.locks.credentials import Credentials

TOO_OLD = b'{"type": "ERROR", "object": {"code": 410, "message": "too old resource version"}}'


def line(kind: str, version: str) -> bytes:
    return f'{{"type": "{kind}", "object": {{"metadata": {{"resourceVersion": "{version}"}}}}}}'.encode()


class Scripted(Api):
    """Each watch has these lines; after the last of them it says nothing more."""

    def __init__(self, *watches: list[bytes]) -> None:
        super().__init__(cast("Credentials", None))
        self._watched = iter(watches)
        self.asked: list[str] = []

    async def watch(self, target: str, *_: object, **__: object) -> AsyncGenerator[tuple[str, dict[str, Any]], None]:
        """As the road has it."""
        self.asked.append(target)
        for each in next(self._watched):
            yield self._event(each)
        await asyncio.Event().wait()


def told(api: Scripted, number: int, version: str = "100", timeout: float = 60) -> list[str | None]:
    """The versions of so many states."""

    async def story() -> list[str | None]:
        async with aclosing(api.changes("/things", "x", version, timeout)) as states:
            found = [await anext(states) for _ in range(number)]
        return [None if each is None else str(each["metadata"]["resourceVersion"]) for each in found]

    return asyncio.run(story())


@pytest.mark.parametrize("before", [["101"], []], ids=["at once", "later on"])
def test_it_goes_on_from_the_present_state(before: list[str]) -> None:
    api = Scripted(
        [*(line("MODIFIED", each) for each in before), TOO_OLD], [line("ADDED", "102"), line("DELETED", "103")]
    )
    assert told(api, 2 + len(before)) == [*before, "102", None]
    assert ["resourceVersion=100" in each for each in api.asked] == [True, False]


@pytest.mark.parametrize("version", ["100", "99"])
def test_what_was_before_that_version_is_no_news(version: str) -> None:
    """The API server may answer from a cache."""
    assert told(Scripted([TOO_OLD], [line("ADDED", version), line("MODIFIED", "101")]), 1) == ["101"]


def test_where_there_is_no_present_state_it_is_to_be_read() -> None:
    with pytest.raises(WatchError) as error:
        told(Scripted([TOO_OLD], []), 1, timeout=0.01)
    assert error.value.ended.moved


@pytest.mark.parametrize("version", ["100", ""])
def test_where_any_version_is_too_old_the_watch_is_over(version: str) -> None:
    api = Scripted([TOO_OLD], [TOO_OLD])
    with pytest.raises(WatchError, match="too old") as error:
        told(api, 1, version)
    assert not error.value.ended.moved
    assert len(api.asked) == (2 if version else 1)
