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
    """Each watch has these lines, and then ends; one without any says nothing."""

    def __init__(self, *watches: list[bytes]) -> None:
        super().__init__(cast("Credentials", None))
        self._watched = iter(watches)
        self.asked: list[str] = []

    async def watch(self, target: str, *_: object, **__: object) -> AsyncGenerator[tuple[str, dict[str, Any]], None]:
        """As the road has it."""
        self.asked.append(target)
        lines = next(self._watched)
        for each in lines:
            yield self._event(each)
        if lines:
            raise WatchError("it ended")
        await asyncio.Event().wait()


def told(api: Scripted, number: int, version: str = "100", timeout: float = 60) -> list[str | None]:
    """The versions of so many states."""

    async def story() -> list[str | None]:
        async with aclosing(api.changes("/things", "x", version, timeout)) as states:
            found = [await anext(states) for _ in range(number)]
        return [None if each is None else str(each["metadata"]["resourceVersion"]) for each in found]

    return asyncio.run(story())


def test_it_goes_on_where_that_is_the_present_version() -> None:
    """It leaves nothing out, so it is a watch as any other."""
    api = Scripted([TOO_OLD], [line("ADDED", "100"), line("MODIFIED", "101"), line("DELETED", "102")])
    assert told(api, 2) == ["101", None]
    assert ["resourceVersion=100" in each for each in api.asked] == [True, False]


@pytest.mark.parametrize(
    "begins",
    [[line("ADDED", "101")], [line("ADDED", "99"), line("MODIFIED", "100")], [line("DELETED", "100")], []],
    ids=["later", "earlier", "deleted", "nothing"],
)
def test_where_another_state_is_the_present_one_nobody_knows_what_was_in_between(begins: list[bytes]) -> None:
    """Somebody may have held the lock: it is to be read, which is no look at each of its states."""
    with pytest.raises(WatchError, match=r"has changed before|is gone") as error:
        told(Scripted([TOO_OLD], begins), 1, timeout=0.05)
    assert not error.value.ended.moved


def test_a_watch_that_has_told_something_does_not_go_on_after_that() -> None:
    with pytest.raises(WatchError, match="too old"):
        told(Scripted([line("MODIFIED", "101"), TOO_OLD], [line("ADDED", "100")]), 2)


@pytest.mark.parametrize("version", ["100", ""])
def test_where_any_version_is_too_old_the_watch_is_over(version: str) -> None:
    api = Scripted([TOO_OLD], [TOO_OLD])
    with pytest.raises(WatchError, match="too old") as error:
        told(api, 1, version)
    assert not error.value.ended.moved
    assert len(api.asked) == (2 if version else 1)
