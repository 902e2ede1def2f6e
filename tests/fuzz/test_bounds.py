"""A megabyte of the worst is read in seconds, and in memory that goes with its length."""

from __future__ import annotations

import contextlib
import json
import os
import time
import tracemalloc
from typing import TYPE_CHECKING, cast

import pytest

from kleader.election import duration
from kleader.election.record import MalformedRecordError, from_annotation
from kleader.ipc import messages
from kleader.kube import client, responses
from kleader.kube.connection import Connection
from kleader.kube.errors import LockError, WatchError
from kleader.locks import file_lock
from kleader.locks.base import Place
from kleader.locks.lease import LeaseLock
from tests.fuzz.test_http import Known, Wire
from tests.fuzz.test_records import run

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from kleader.kube.connection import Endpoint
    from kleader.kube.credentials import Credentials

MUCH = 1 << 20
TEXTS = {
    "levels": "[" * MUCH,
    "objects": '{"a":' * (MUCH // 5),
    "digits": "1" * MUCH,
    "held for digits": '{"holderIdentity":"a","leaseDurationSeconds":' + "1" * MUCH + "}",
    "fraction of a time": '{"holderIdentity":"a","leaseDurationSeconds":1,"renewTime":"2026-11-21T09:05:00.'
    + "1" * MUCH
    + 'Z"}',
    "name": '{"holderIdentity":"' + "a" * MUCH + '","leaseDurationSeconds":15}',
    "escapes": '{"holderIdentity":"' + "\\u0000" * (MUCH // 6) + '","leaseDurationSeconds":15}',
    "fields": "{" + ",".join(f'"{n}":{n}' for n in range(MUCH // 15)) + "}",
    "the same field": "{" + ",".join(['"holderIdentity":""'] * (MUCH // 20)) + "}",
    "elements": "[" + ",".join(["{}"] * (MUCH // 3)) + "]",
    "spaces": " " * MUCH,
    "units": "1s" * (MUCH // 2),
    "line ends": "\n" * MUCH,
}


def annotation(text: str, _path: Path) -> None:
    try:
        from_annotation(text)
    except MalformedRecordError as error:
        assert len(str(error)) < 10_000


def span(text: str, _path: Path) -> None:
    with contextlib.suppress(ValueError):
        duration.parse(text)


def message(text: str, _path: Path) -> None:
    messages.decode(text.encode())


def lock_file(text: str, path: Path) -> None:
    (path / "lock").write_text('{"kleader": 1' + text)
    fd = os.open(path / "lock", os.O_RDWR)
    file_lock.read_record(fd)
    os.close(fd)


def lease(text: str, _path: Path) -> None:
    found = responses.json_object(b'{"kind":"Lease","metadata":{"name":"x"},"spec":' + text.encode() + b"}")
    if found:
        with contextlib.suppress(LockError):
            LeaseLock(Place(client.ApiClient(cast("Credentials", Known())), "n", "x")).observed(found)


def served(pieces: list[bytes]) -> None:
    """As an answer, and as a watch."""

    async def both() -> None:
        api = client.ApiClient(cast("Credentials", Known()))
        with contextlib.suppress(LockError):
            await api.call("GET", "/apis", None, 60.0)
        try:
            async for _ in api.watch("/apis", 60.0):
                pass
        except WatchError:
            pass
        api.close()

    async def opened(to: Endpoint) -> Connection:
        connection = Connection(to)
        connection.connection_made(Wire(connection, pieces))
        return connection

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Connection, "open", opened)
        run(both())


def answer(text: str, _path: Path) -> None:
    served([b"HTTP/1.1 200 OK\r\n\r\n" + text.encode()])


def headers(text: str, _path: Path) -> None:
    served([b"HTTP/1.1 200 OK\r\nDate: " + text.encode() + b"\r\n\r\n"])


READERS = (annotation, span, message, lock_file, lease, answer, headers)


@pytest.mark.parametrize("read", READERS)
@pytest.mark.parametrize("what", TEXTS)
def test_a_megabyte_is_read_in_seconds(read: Callable[[str, Path], None], what: str, tmp_path: Path) -> None:
    began = time.process_time()
    with contextlib.suppress(ValueError, RecursionError):
        json.loads(TEXTS[what])
    asked = time.process_time()
    read(TEXTS[what], tmp_path)
    assert time.process_time() - asked < 5 + 20 * (asked - began)


def test_chunks_of_one_byte_are_read_in_seconds() -> None:
    asked = time.process_time()
    served([b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"1\r\nx\r\n" * (1 << 14)])
    assert time.process_time() - asked < 5


@pytest.mark.parametrize("read", READERS)
def test_memory_is_proportional_to_the_length_of_the_input(read: Callable[[str, Path], None], tmp_path: Path) -> None:
    for text in TEXTS.values():
        part = text[: MUCH // 8]
        tracemalloc.start()
        try:
            read(part, tmp_path)
            assert tracemalloc.get_traced_memory()[1] < 60 * len(part) + MUCH
        finally:
            tracemalloc.stop()
