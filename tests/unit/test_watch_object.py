"""A watch of one object whose first resourceVersion the API server has forgotten."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import parse_qs, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kleader.election.events import Kind
from kleader.kube.client import ApiClient
from kleader.kube.errors import LockError, WatchError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from kleader.kube.credentials import Credentials

BOOKMARK = b'{"type": "BOOKMARK", "object": {}}'
TOO_OLD = b'{"type": "ERROR", "object": {"code": 410, "message": "too old resource version"}}'


def line(kind: str, version: str) -> bytes:
    return f'{{"type": "{kind}", "object": {{"metadata": {{"resourceVersion": "{version}"}}}}}}'.encode()


class Scripted(ApiClient):
    """Each watch delivers these lines and ends; a watch without lines stays silent."""

    def __init__(self, *watches: list[bytes]) -> None:
        super().__init__(cast("Credentials", None))
        self._watched = iter(watches)
        self.asked: list[str] = []

    async def watch(self, target: str, *_: object, **__: object) -> AsyncGenerator[tuple[str, dict[str, Any]], None]:
        """The next watch."""
        self.asked.append(target)
        lines = next(self._watched)
        for each in lines:
            yield self._event(each)
        if lines:
            raise WatchError("it ended")
        await asyncio.Event().wait()


def version_of(found: dict[str, Any] | None) -> str | None:
    return None if found is None else str(found["metadata"]["resourceVersion"])


def states(api: Scripted, number: int, version: str = "100", timeout: float = 60) -> list[str | None]:
    """The versions of the first states of a watch; None for a deletion."""

    async def story() -> list[str | None]:
        async with aclosing(api.watch_object("/things", "x", version, timeout)) as found:
            return [version_of(await anext(found)) for _ in range(number)]

    return asyncio.run(story())


def states_until_the_end(api: ApiClient, version: str) -> list[str | None]:
    """The versions of all states until the WatchError."""
    found = []

    async def story() -> None:
        async with aclosing(api.watch_object("/things", "x", version, 60)) as watched:
            while True:
                found.append(version_of(await anext(watched)))

    with pytest.raises(WatchError):
        asyncio.run(story())
    return found


def test_a_watch_from_a_forgotten_version_continues_if_the_object_is_unchanged() -> None:
    """No change is missing."""
    api = Scripted([TOO_OLD], [line("ADDED", "100"), line("MODIFIED", "101"), line("DELETED", "102")])
    assert states(api, 2) == ["101", None]
    assert ["resourceVersion=100" in each for each in api.asked] == [True, False]


@pytest.mark.parametrize(
    "begins",
    [[line("ADDED", "101")], [line("ADDED", "99"), line("MODIFIED", "100")], [line("DELETED", "100")], []],
    ids=["later", "earlier", "deleted", "nothing"],
)
def test_a_watch_from_a_forgotten_version_ends_if_the_object_has_changed_since(begins: list[bytes]) -> None:
    """Another candidate may have held the lock in between: the error does not claim that no change was missed."""
    with pytest.raises(WatchError, match=r"has changed before|is gone") as error:
        states(Scripted([TOO_OLD], begins), 1, timeout=0.05)
    assert not error.value.ended.moved


def test_a_watch_that_has_reported_a_change_ends_with_its_first_error() -> None:
    with pytest.raises(WatchError, match="too old"):
        states(Scripted([line("MODIFIED", "101"), TOO_OLD], [line("ADDED", "100")]), 2)


@pytest.mark.parametrize("version", ["100", ""])
def test_a_watch_ends_if_the_server_calls_every_version_too_old(version: str) -> None:
    api = Scripted([TOO_OLD], [TOO_OLD])
    with pytest.raises(WatchError, match="too old") as error:
        states(api, 1, version)
    assert not error.value.ended.moved
    assert len(api.asked) == (2 if version else 1)


@pytest.mark.parametrize(("answer", "first"), [(Kind.MISSING, None), (None, "101")], ids=str)
def test_a_watch_without_a_version_can_report_a_missing_object_first(answer: Kind | None, first: str | None) -> None:
    """It is read when the watch has begun, so that the watch leaves nothing out since."""
    api, read = Scripted([BOOKMARK, line("ADDED", "101"), BOOKMARK]), []

    async def call(method: str, target: str, *_: object) -> dict[str, Any]:
        read.append((method, target))
        if answer:
            raise LockError(answer, "")
        return {}

    async def story() -> str | None:
        setattr(api, "call", call)  # noqa: B010 - a method
        async with aclosing(api.watch_object("/things", "x", "", 60, reads_missing=True)) as found:
            return version_of(await anext(found))

    assert asyncio.run(story()) == first
    assert read == [("GET", "/things/x")]


class Remembering(ApiClient):
    """An API server at which an object has this history, one revision after the other; "" is a deletion of it.

    It remembers only the changes after ``forgets``. The first watch begins after ``first`` revisions, the second one
    after ``second``; all later revisions happen during the watch.
    """

    def __init__(self, history: list[str], forgets: int, first: int, second: int) -> None:
        super().__init__(cast("Credentials", None))
        self._history, self._forgets, self._moments = history, forgets, iter((first, second))

    async def watch(self, target: str, *_: object, **__: object) -> AsyncGenerator[tuple[str, dict[str, Any]], None]:
        """The changes after a version, or the present state and all later changes."""
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
def test_a_watch_reports_all_changes_since_the_version_that_was_read_or_none(data: st.DataObject) -> None:
    """In their order."""
    length = data.draw(st.integers(1, 6))
    history = ["there"]
    while len(history) < length:
        history.append(data.draw(st.sampled_from(["there", ""])) if history[-1] else "there")
    read = data.draw(st.sampled_from([number for number, state in enumerate(history, 1) if state]))
    first = data.draw(st.integers(read, length))
    second = data.draw(st.integers(first, length))
    forgets = data.draw(st.integers(0, first))
    happened = [str(number) if state else None for number, state in enumerate(history[read:], read + 1)]
    found = states_until_the_end(Remembering(history, forgets, first, second), str(read))
    assert found == (happened if forgets <= read or second == read else [])
