"""The link carries facts: each arrives whole and in order, or not at all."""

from __future__ import annotations

import json
import math
import os
import socket
from typing import TYPE_CHECKING, Any, get_args

import pytest

from kleader.link import channel
from kleader.link import messages as m
from kleader.link import plan as plans
from kleader.link.channel import Channel

if TYPE_CHECKING:
    from collections.abc import Iterator

SAMPLES: dict[str, Any] = {
    "int": 7,
    "bool": True,
    "str": "wörter\n\x00",
    "float": 12.25,
    "list[int]": [1, 2, 3],
    "list[list[int]]": [[1, 2], [3, 4]],
}


def sample(kind: type[m.Message]) -> m.Message:
    hints: dict[str, Any] = {
        name: getattr(hint, "__forward_arg__", hint) for name, hint in kind.__annotations__.items()
    }
    return kind(**{name: SAMPLES[hint] for name, hint in hints.items()})


@pytest.fixture(params=[socket.SOCK_SEQPACKET, socket.SOCK_STREAM], ids=["packets", "stream"])
def link(request: pytest.FixtureRequest) -> Iterator[tuple[Channel, Channel]]:
    ours, theirs = (Channel(end) for end in socket.socketpair(socket.AF_UNIX, request.param))
    yield ours, theirs
    ours.close()
    theirs.close()


@pytest.mark.parametrize("kind", get_args(m.Message), ids=lambda kind: kind.__name__)
def test_every_message_survives_the_journey(kind: type[m.Message], link: tuple[Channel, Channel]) -> None:
    """What is sent is what arrives, field by field."""
    message = sample(kind)
    assert link[0].send(message)
    assert link[1].receive() == [message]


def test_a_term_without_deadline_stays_without() -> None:
    """Infinity, which JSON does not have, crosses as null and comes back as infinity."""
    lead = m.Lead(1, math.inf, math.inf, "9", 0, 0, "ns")
    line = m.encode(lead)
    assert json.loads(line)["stop_at"] is None
    assert m.decode(line) == lead


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"{",
        b"null",
        b"[]",
        b'"lead"',
        b"\xff\xfe",
        b'{"type": "lead"}',
        b'{"type": "nonsense", "term": 1}',
        b'{"type": ["ping"], "term": 1}',
        b'{"type": "ping", "term": "1"}',
        b'{"type": "ping", "term": true}',
        b'{"type": "ping", "term": 1, "more": 2}',
        b'{"type": "ping", "term": null}',
        b'{"type": "extend", "term": 1, "stop_at": NaN, "kill_at": 1.0}',
        b'{"type": "extend", "term": 1, "stop_at": "soon", "kill_at": 1.0}',
        b'{"type": "lost", "term": 1, "reason": "x", "kill_now": 1}',
        b"[" * 100_000,
    ],
    ids=lambda line: ascii(line[:60]),
)
def test_what_is_no_message_is_none(line: bytes) -> None:
    """Bytes that are no message are a fact that was lost, never an exception and never a message half read."""
    assert m.decode(line) is None


def test_a_send_never_blocks(link: tuple[Channel, Channel]) -> None:
    """A peer that does not read makes send say False, and what it took before arrives in order."""
    ours, theirs = link
    sent = 0
    while ours.send(m.Started(1, sent, 0)):
        sent += 1
    assert sent > 0
    assert ours.open, "it is full, not broken"
    arrived: list[m.Message] = []
    while some := theirs.receive():
        arrived += some
    assert arrived == [m.Started(1, n, 0) for n in range(sent)]
    assert theirs.open


def test_a_flood_is_taken_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever sends all the time keeps no deadline waiting."""
    monkeypatch.setattr(channel, "_FULLEST", 3)
    ours, theirs = (Channel(end) for end in socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET))
    for _ in range(4):
        ours.send(m.Ping(1))
    assert (len(theirs.receive()), len(theirs.receive())) == (3, 1)
    ours.close()
    theirs.close()


def test_last_words_are_heard_before_the_end(link: tuple[Channel, Channel]) -> None:
    """What a peer said before it died arrives; then the channel tells that it is closed."""
    ours, theirs = link
    theirs.send(m.Stopping(1))  # is never read: the kernel then tells of a reset before it hands over what came first
    ours.send(m.Ping(1))
    ours.close()
    assert theirs.receive() == [m.Ping(1)]
    theirs.receive()
    assert not theirs.open
    assert not theirs.send(m.Ping(1))


def test_a_plan_survives_whatever_the_command_line_holds() -> None:
    """Bytes that are no UTF-8, line ends, and a command line of half a megabyte come back unchanged."""
    command = ["./worker", "\udcff\udc80", "a\nb", "x" * 500_000, "--", "ünï"]
    names = plans.Plan.__annotations__
    plan = plans.Plan(**{name: command if name == "command" else None for name in names})  # type: ignore[arg-type]
    fd = os.memfd_create("plan")
    try:
        plans.save(plan, fd)
        assert plans.load(fd) == plan
        assert plans.load(fd) == plan, "reading moves nothing: each elector reads the same descriptor"
    finally:
        os.close(fd)
