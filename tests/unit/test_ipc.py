"""A channel carries messages: each arrives whole and in order, or not at all. A plan is read as it was saved."""

from __future__ import annotations

import json
import math
import os
import socket
from typing import TYPE_CHECKING, Any, get_args

import pytest

from kleader import __version__
from kleader.election import protocol as p
from kleader.election.timing import Timing
from kleader.ipc import channel
from kleader.ipc import messages as m
from kleader.ipc import plan as plans
from kleader.ipc.channel import Channel, ReliableChannel

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


def sample(kind: type[m.Body]) -> m.Body:
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


@pytest.mark.parametrize("kind", get_args(m.Body), ids=lambda kind: kind.__name__)
def test_every_message_is_received_as_it_was_sent(kind: type[m.Body], link: tuple[Channel, Channel]) -> None:
    body = sample(kind)
    assert link[0].send(7, body)
    (message,) = link[1].receive()
    assert message == m.Message(7, body)
    assert type(message.body) is kind


def test_an_infinite_deadline_is_received_as_an_infinite_one() -> None:
    """Infinity, which JSON does not have, is sent as null."""
    lead = m.Message(1, p.Acquired(math.inf, math.inf, math.inf, "9", 0, 0))
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
        b'"acquired"',
        b"\xff\xfe",
        b'{"type": "acquired"}',
        b'{"type": "nonsense", "term": 1}',
        b'{"type": ["heartbeat"], "term": 1}',
        b'{"type": "heartbeat", "term": 1, "more": 2}',
        b"[" * 100_000,
    ],
    ids=lambda line: ascii(line[:60]),
)
def test_bytes_that_are_no_message_are_ignored(line: bytes) -> None:
    """They are ignored: no exception is raised, and no part of them is read."""
    assert m.decode(line) is None


def test_a_send_never_blocks(link: tuple[Channel, Channel]) -> None:
    """Send is False while the peer does not read; what was sent before arrives in order."""
    ours, theirs = link
    sent = 0
    while ours.send(1, m.Started(sent, 0)):
        sent += 1
    assert sent > 0
    assert ours.open, "the queue is full, and the channel open"
    arrived: list[m.Message] = []
    while some := theirs.receive():
        arrived += some
    assert arrived == [m.Message(1, m.Started(n, 0)) for n in range(sent)]
    assert theirs.open


def test_no_message_overtakes_another_that_waits_for_room_in_the_queue(monkeypatch: pytest.MonkeyPatch) -> None:
    """A supervisor that wakes up in between learns that the term began before it learns that the lock was lost."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    elector, supervisor = ReliableChannel(ours), Channel(theirs)
    lead, lost = p.Acquired(math.inf, math.inf, math.inf, "9", 0, 0), p.Lost("why", kill_now=True)
    while elector.send(1, m.Heartbeat()):
        pass
    assert not elector.send(1, lead)
    plain, heard = Channel.send, list[m.Message]()

    def hear() -> None:
        while some := supervisor.receive():
            heard.extend(some)

    def send(channel: Channel, term: int, body: m.Body) -> bool:
        if sent := plain(channel, term, body):
            return sent
        if body == lead:
            hear()
        return False

    monkeypatch.setattr(Channel, "send", send)
    elector.send(1, lost)
    for _ in range(2):
        hear()
        elector.send(1, m.Heartbeat())
    hear()
    assert [each.body for each in heard if each.body in {lead, lost}] == [lead, lost]
    ours.close()
    theirs.close()


def test_a_message_that_is_too_long_does_not_hold_back_the_next_one() -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    elector, supervisor = ReliableChannel(ours), Channel(theirs)
    assert not elector.send(1, p.NewLeader("x" * (1 << 22)))
    assert elector.send(1, m.Heartbeat())
    assert supervisor.receive() == [m.Message(1, m.Heartbeat())]
    ours.close()
    theirs.close()


def test_a_flood_of_messages_is_received_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """A peer that sends all the time cannot delay a deadline."""
    monkeypatch.setattr(channel, "_MAX_MESSAGES", 3)
    ours, theirs = (Channel(end) for end in socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET))
    for _ in range(4):
        ours.send(1, m.Heartbeat())
    assert (len(theirs.receive()), len(theirs.receive())) == (3, 1)
    ours.close()
    theirs.close()


def test_the_last_messages_of_a_dead_peer_are_received(link: tuple[Channel, Channel]) -> None:
    """After them the channel is closed."""
    ours, theirs = link
    theirs.send(1, m.Stopping())  # is never read: the kernel then tells of a reset before it hands over what came first
    ours.send(1, m.Heartbeat())
    ours.close()
    assert theirs.receive() == [m.Message(1, m.Heartbeat())]
    theirs.receive()
    assert not theirs.open
    assert not theirs.send(1, m.Heartbeat())


@pytest.mark.parametrize("version", [None, "", "0.0.1", __version__, f"{plans._VERSION}.1", 1])
def test_a_plan_of_another_version_is_refused(version: object) -> None:
    plan = {"version": version} if version is not None else {}  # before 0.2 a plan had no version
    fd = os.memfd_create("plan")
    try:
        os.write(fd, json.dumps({**plan, "an option of another version": 1}).encode())
        with pytest.raises(plans.OtherVersionError):
            plans.load(fd)
    finally:
        os.close(fd)


def test_a_plan_reads_back_whatever_the_command_line() -> None:
    """Bytes that are no UTF-8, line ends, and a command line of half a megabyte come back unchanged."""
    command = ["./worker", "\udcff\udc80", "a\nb", "x" * 500_000, "--", "ünï"]
    names = plans.Plan.__annotations__
    special = {"command": command, "pod": plans.Pod("", "p", ""), "timing": Timing(15, 10.0, 2.0, 3.0, 0.5, 1.5)}
    known: dict[str, Any] = {**dict.fromkeys(names), **special}
    plan = plans.Plan(**known)
    fd = os.memfd_create("plan")
    try:
        plans.save(plan, fd)
        assert plans.load(fd) == plan
        assert plans.load(fd) == plan, "each elector reads the same open file"
    finally:
        os.close(fd)
