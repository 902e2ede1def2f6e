"""What other processes of this machine say, and may say wrong: the link, lock files, /proc, sockets, durations."""

from __future__ import annotations

import ctypes
import math
import os
import socket
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kleader.cli import forms
from kleader.election import duration
from kleader.elector.guard import Guard
from kleader.link import local
from kleader.link import messages as m
from kleader.link.channel import Channel
from kleader.locks import file
from kleader.platform import procfs
from kleader.watching.files import Files
from kleader.watching.seen import at_a_look
from tests.fuzz.foreign import foreign
from tests.fuzz.test_records import run

if TYPE_CHECKING:
    from pathlib import Path

    from kleader.link.plan import Plan
    from kleader.log import Log
    from kleader.platform import Process

WALL = 1_795_288_884_000_000
ASSIGN = m.Assign(
    1, "inc", leading=False, replaces=False, t0=0.0, token="", acquired=0, transitions=0, started=[], memory=""
)


# --- the link


@foreign("link")
def test_a_message_is_one_that_can_be_sent_again_or_none(data: bytes) -> None:
    message = m.decode(data)
    if message is not None:
        assert m.decode(m.encode(message)) == message
        for value in message:
            assert not isinstance(value, (int, float)) or abs(value) < 2**63 or (value == math.inf and b"null" in data)


@foreign("link")
def test_a_channel_survives_what_comes_and_ends_with_its_peer(data: bytes) -> None:
    for kind in (socket.SOCK_SEQPACKET, socket.SOCK_STREAM):
        ours, theirs = socket.socketpair(socket.AF_UNIX, kind)
        channel = Channel(ours)
        for start in range(0, len(data), 1000):
            theirs.send(data[start : start + 1000])
            channel.receive()
        theirs.send(b"\n" + m.encode(m.Ping(7)))
        assert m.Ping(7) in channel.receive()
        assert not channel.send(m.Failed(1, "x" * (1 << 20), 1))  # lost, but nobody is gone
        before = channel.open
        theirs.close()
        channel.receive()
        assert (before, channel.open) == (True, False)
        channel.close()


# --- the file lock


class Heard:
    """Stands for the channel to the supervisor."""

    def __init__(self) -> None:
        self.messages: list[m.Message] = []

    def send(self, message: m.Message) -> bool:
        assert len(m.encode(message)) < 100_000  # what a socket takes
        self.messages.append(message)
        return True


@foreign("lockfile")
def test_a_lock_file_decides_nothing_and_its_token_grows(tmp_path: Path, data: bytes) -> None:
    path = str(tmp_path / "ns.name.lock")
    (tmp_path / "ns.name.lock").write_bytes(data)
    try:
        fd = file.open_lock(path, make_directory=False)
    except file.LockFileError:
        return
    try:
        before = (file.read(fd) or {}).get("token")
        plan = SimpleNamespace(identity="me", namespace="ns", file=path)
        channel = Heard()
        guard = Guard(
            cast("Plan", plan), cast("Channel", channel), cast("Log", SimpleNamespace(role="", info=print)),
            cast("Process", SimpleNamespace(pid=os.getpid())), fd, (),
        )  # fmt: skip
        guard._term = 1
        guard._tell_holder()
        guard._give_up()
        look(path, fd)
        assert guard._begin(ASSIGN)
        lead = channel.messages[-1]
        assert isinstance(lead, m.Lead)
        assert m.decode(m.encode(lead)) == lead
        if isinstance(before, str) and before.isdecimal() and len(before) < 100:
            assert int(lead.token) > int(before)
        assert (file.read(fd) or {})["token"] == lead.token
    finally:
        os.close(fd)


def look(path: str, fd: int) -> None:
    """As ``kleader status`` does while somebody holds it."""
    file.take(fd, wait=False)
    seen, _ = run(Files(path).look())
    looks = [at_a_look(each, WALL) for each in seen.values()]
    assert len(looks) == 1
    forms.table(looks, wide=True, everywhere=True)
    forms.show(looks, "json", everywhere=True)


# --- what the kernel shows of others


@given(name=st.binary(min_size=1, max_size=15).filter(lambda name: b"\0" not in name))
def test_a_process_may_call_itself_whatever_it_likes(name: bytes) -> None:
    libc = ctypes.CDLL(None)
    old = ctypes.create_string_buffer(16)
    libc.prctl(16, old)  # PR_GET_NAME
    libc.prctl(15, name)  # PR_SET_NAME
    try:
        found = procfs.process(os.getpid())
    finally:
        libc.prctl(15, old)
    assert found is not None
    assert (found.pid, found.parent, found.state) == (os.getpid(), os.getppid(), "R")


@foreign("socketname")
def test_a_socket_may_have_any_name(data: bytes, tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(b"\0" + data[:107])
        run(Files(str(tmp_path / "none")).look())
        assert not local.ask("a-name-that-nobody-has", 0.01).given


@foreign("asked")
def test_who_is_asked_may_answer_anything(data: bytes) -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX)
    asked = local._Asked("x", ours)
    theirs.send(data[:60_000])
    theirs.close()
    while not asked.complete():
        pass
    asked.answer(0.0)


# --- durations


@foreign("duration")
def test_a_duration_is_a_number_of_seconds_or_a_value_error(data: bytes) -> None:
    try:
        seconds = duration.parse(data.decode("latin-1"))
    except ValueError:
        return
    assert 0 <= seconds < 2**63 / 1e9 + 1
    if seconds < 1e9:
        assert duration.parse(duration.text(seconds)) == pytest.approx(seconds, abs=1e-3)
