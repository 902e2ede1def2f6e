"""What a watch of one object tells where the API server does not remember the version that it is to begin with."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import parse_qs, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

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


def version_of(found: dict[str, Any] | None) -> str | None:
    return None if found is None else str(found["metadata"]["resourceVersion"])


def told(api: Scripted, number: int, version: str = "100", timeout: float = 60) -> list[str | None]:
    """The versions of so many states."""

    async def story() -> list[str | None]:
        async with aclosing(api.changes("/things", "x", version, timeout)) as states:
            return [version_of(await anext(states)) for _ in range(number)]

    return asyncio.run(story())


def told_until_the_end(api: Api, version: str) -> list[str | None]:
    """All of them, until a WatchError."""
    found = []

    async def story() -> None:
        async with aclosing(api.changes("/things", "x", version, 60)) as states:
            while True:
                found.append(version_of(await anext(states)))

    with pytest.raises(WatchError):
        asyncio.run(story())
    return found


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


class Remembering(Api):
    """An API server at which an object has this history, one revision after the other; "" is a deletion of it.

    It remembers the changes after ``forgets`` alone. The first watch comes when ``first`` of the history has happened,
    the second one at ``second``; all of the rest happens while it is watched.
    """

    def __init__(self, history: list[str], forgets: int, first: int, second: int) -> None:
        super().__init__(cast("Credentials", None))
        self._history, self._forgets, self._moments = history, forgets, iter((first, second))

    async def watch(self, target: str, *_: object, **__: object) -> AsyncGenerator[tuple[str, dict[str, Any]], None]:
        """From a version, or from the present on."""
        now, query = next(self._moments), parse_qs(urlsplit(target).query)
        after = int(query["resourceVersion"][0]) if "resourceVersion" in query else now
        if after < self._forgets:
            yield self._event(TOO_OLD)
        if "resourceVersion" not in query and now and self._history[now - 1]:
            yield self._event(line("ADDED", str(now)))
        for revision, state in enumerate(self._history[after:], after + 1):
            yield self._event(line("MODIFIED" if state else "DELETED", str(revision)))
        raise WatchError("it ended")


@given(st.data())
def test_whatever_is_told_leaves_nothing_out(data: st.DataObject) -> None:
    """All that happened since the version that was read, in its order, or nothing of it."""
    length = data.draw(st.integers(1, 6))
    history = ["there"]
    while len(history) < length:
        history.append(data.draw(st.sampled_from(["there", ""])) if history[-1] else "there")
    read = data.draw(st.sampled_from([number for number, state in enumerate(history, 1) if state]))
    first = data.draw(st.integers(read, length))
    second = data.draw(st.integers(first, length))
    forgets = data.draw(st.integers(0, first))
    happened = [str(number) if state else None for number, state in enumerate(history[read:], read + 1)]
    found = told_until_the_end(Remembering(history, forgets, first, second), str(read))
    assert found == (happened if forgets <= read or second == read else [])
