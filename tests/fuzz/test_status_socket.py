"""Any bytes from other processes of this machine are read: messages, lock files, /proc, sockets, durations."""

from __future__ import annotations

import ctypes
import math
import os
import socket
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kleader import system
from kleader.cli import formatters
from kleader.election import duration
from kleader.election import protocol as p
from kleader.elector.file_elector import FileElector
from kleader.ipc import messages as m
from kleader.ipc import status_socket
from kleader.ipc.channel import Channel
from kleader.ipc.plan import Wait
from kleader.locks import file_lock
from kleader.observe.file_source import FileSource
from kleader.observe.snapshot import status_from_read
from kleader.system import procfs
from tests.fuzz.foreign import foreign
from tests.fuzz.test_records import run

if TYPE_CHECKING:
    from pathlib import Path

    from kleader.ipc.plan import Plan
    from kleader.log import Log
    from kleader.system import Process

WALL = 1_795_288_884_000_000
ASSIGN = m.Assign("inc", leading=False, replaces=False, t0=0.0, acquired=0, transitions=0, started=[], resume_state="")


# --- the link


@foreign("link")
def test_received_bytes_are_a_valid_message_or_ignored(data: bytes) -> None:
    message = m.decode(data)
    assert message is None or isinstance(message.body, get_args(m.Body))


@foreign("link")
def test_a_channel_survives_any_bytes_and_ends_with_its_peer(data: bytes) -> None:
    for kind in (socket.SOCK_SEQPACKET, socket.SOCK_STREAM):
        ours, theirs = socket.socketpair(socket.AF_UNIX, kind)
        channel = Channel(ours)
        for start in range(0, len(data), 1000):
            theirs.send(data[start : start + 1000])
            channel.receive()
        theirs.send(b"\n" + m.encode(m.Message(1, m.Heartbeat())))
        assert m.Message(1, m.Heartbeat()) in channel.receive()
        assert not channel.send(1, p.AcquireFailed("x" * (1 << 20), 1))  # lost, and the channel stays open
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

    def send(self, term: int, body: m.Body) -> bool:
        message = m.Message(term, body)
        assert len(m.encode(message)) < 100_000  # what a socket takes
        self.messages.append(message)
        return True


@foreign("lockfile")
def test_any_lock_file_contents_leave_the_lock_free_and_the_token_grows(tmp_path: Path, data: bytes) -> None:
    path = str(tmp_path / "ns.name.lock")
    (tmp_path / "ns.name.lock").write_bytes(data)
    try:
        fd = file_lock.open_lock(path)
    except file_lock.LockFileError:
        return
    try:
        before = file_lock.read_record(fd).get("token")
        plan = SimpleNamespace(
            identity="me",
            namespace="ns",
            file=path,
            wait_of=lambda _: Wait(math.inf, one_try=True, live=False),
            once="",
            once_per=0,
        )
        channel = Heard()
        elector = FileElector(
            cast("Plan", plan), cast("Channel", channel), cast("Log", SimpleNamespace(role="", info=print)),
            cast("Process", SimpleNamespace(pid=os.getpid())), fd, (),
        )  # fmt: skip
        elector._term = 1
        elector._report_holder()
        elector._report_failure()
        show(path, fd)
        assert elector._become_leader(ASSIGN)
        lead = channel.messages[-1].body
        assert isinstance(lead, p.Acquired)
        assert m.decode(m.encode(channel.messages[-1])) == channel.messages[-1]
        if isinstance(before, str) and before.isdecimal() and len(before) < 100:
            assert int(lead.token) > int(before)
        assert file_lock.read_record(fd)["token"] == lead.token
    finally:
        os.close(fd)


def show(path: str, fd: int) -> None:
    """As ``kleader status`` does while the lock is held."""
    file_lock.acquire(fd, wait=False)
    locks = run(FileSource(path).poll())
    statuses = [status_from_read(each, WALL) for each in locks.values()]
    assert len(statuses) == 1
    formatters.print_table(statuses, wide=True, with_namespace=True)
    formatters.print_locks(statuses, "json", with_namespace=True)


# --- what the kernel shows of others


@given(name=st.binary(min_size=1, max_size=15).filter(lambda name: b"\0" not in name))
def test_any_process_name_is_read(name: bytes) -> None:
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
def test_any_socket_name_is_read(data: bytes, tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(b"\0" + data[:107])
        run(FileSource(str(tmp_path / "none")).poll())
        assert status_socket.ask("a-name-that-nobody-has", 0.01)[0] == []


@foreign("asked")
def test_any_answer_on_the_status_socket_is_read_without_an_error(data: bytes) -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX)
    theirs.send(data[:60_000])
    theirs.close()
    with ours:
        status_socket.parse(status_socket._receive(ours, system.clock() + 30), 0.0)


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
