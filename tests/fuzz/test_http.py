"""Any bytes from an API server are an answer, a watch event or a reported error, however they are split."""

from __future__ import annotations

import asyncio
from contextlib import aclosing, suppress
from random import Random
from typing import TYPE_CHECKING, Any, cast

import pytest

from kleader.kube import client, responses
from kleader.kube.connection import Connection, Endpoint
from kleader.kube.errors import LockError, WatchError
from kleader.kube.responses import ServerWarnings
from kleader.locks.base import Place
from kleader.locks.lease import LeaseLock
from tests.fuzz.foreign import foreign
from tests.fuzz.test_records import SERVER, run

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kleader.kube.credentials import Credentials

HERE = Endpoint("localhost", 443, "localhost", "", None, "", None)
TARGET = "/apis/coordination.k8s.io/v1/namespaces/fuzz/leases/current"


class Known:
    """Credentials that never change."""

    server = SERVER
    fresh_for = None
    warnings = ServerWarnings(lambda _: None)

    async def refresh(self) -> Endpoint:
        return HERE

    def headers(self) -> list[tuple[str, str]]:
        return []

    def invalidate(self) -> None: ...


class Wire(asyncio.Transport):
    """The server's side: each request is answered by the same bytes, in these pieces; then it hangs up."""

    def __init__(self, connection: Connection, pieces: list[bytes]) -> None:
        super().__init__({"socket": self})
        self._connection, self._pieces = connection, pieces
        self._loop = asyncio.get_running_loop()

    def setsockopt(self, *_: object) -> None: ...

    def write(self, data: object) -> None:
        self._answering = self._loop.create_task(self._answer())

    async def _answer(self) -> None:
        """Whoever waits reads each piece before the next one comes."""
        for piece in filter(None, self._pieces):  # an empty one would be the end
            self._connection.data_received(piece)
            for _ in range(3):
                await asyncio.sleep(0)
        self._connection.connection_lost(None)

    def abort(self) -> None: ...


def cuts(data: bytes) -> Iterator[list[bytes]]:
    """Whole, in some pieces, and byte by byte where that is short."""
    yield [data]
    draw = Random(len(data))  # noqa: S311 - replayed
    places = sorted(draw.randrange(len(data) + 1) for _ in range(5))
    yield [data[start:end] for start, end in zip([0, *places], [*places, len(data)], strict=True)]
    if len(data) < 1500:
        yield [data[i : i + 1] for i in range(len(data))]


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """What each connection answers, in pieces."""
    pieces: list[bytes] = []

    async def opened(to: Endpoint) -> Connection:
        connection = Connection(to)
        connection.connection_made(Wire(connection, list(pieces)))
        return connection

    monkeypatch.setattr(Connection, "open", opened)
    return pieces


@foreign("answer", "watch")
def test_an_answer_is_an_object_or_an_error_however_it_is_cut(served: list[bytes], data: bytes) -> None:
    async def call() -> object:
        api = client.ApiClient(cast("Credentials", Known()))
        try:
            found = await api.call("GET", TARGET, None, 5.0)
        except LockError as error:
            assert len(str(error)) < 2000
            return error.failure.kind
        assert api.skew is None or abs(api.skew.error) < 60
        with suppress(LockError):
            LeaseLock(Place(api, "fuzz", "current")).observed(found)
        return found

    seen = []
    for served[:] in cuts(data):
        seen.append(run(call()))
    assert all(repr(each) == repr(seen[0]) for each in seen)


@foreign("watch", "answer")
def test_a_watch_yields_events_until_an_error_ends_it_however_it_is_cut(served: list[bytes], data: bytes) -> None:
    async def watch() -> list[tuple[str, dict[str, Any]]]:
        api = client.ApiClient(cast("Credentials", Known()))
        events = []
        try:
            async with aclosing(api.watch(TARGET, 5.0)) as told:
                async for event in told:
                    events.append(event)  # noqa: PERF401 - what came before an error counts
        except WatchError as error:
            assert len(str(error)) < 2000
            assert 0 <= error.ended.retry_after <= 3600
        api.close()
        await asyncio.sleep(0)
        return events

    seen = []
    for served[:] in cuts(data):
        seen.append(run(watch()))
    assert all(repr(each) == repr(seen[0]) for each in seen)


@foreign("date")
def test_any_date_header_is_a_skew_or_ignored(data: bytes) -> None:
    skew = responses.clock_skew(data.decode("latin-1"), 1_700_000_000.0, 1_700_000_001.0)
    assert skew is None or abs(skew.seconds) < 1e12
