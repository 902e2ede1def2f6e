"""The log never delays a process that has to act, and shows foreign text harmlessly."""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import sys
import threading
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import pytest

from kleader import launch, system
from kleader.cli import console
from kleader.election import protocol as p
from kleader.elector.launchers import FileElectors
from kleader.ipc import messages as m
from kleader.ipc import plan as plans
from kleader.ipc import spawn
from kleader.locks import file_lock
from kleader.log import Log
from tests.support.plans import plan_of
from tests.support.processes import PATIENCE, wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from kleader.ipc.channel import Channel

WRITE = os.write


class Disk:
    """Writes to stderr block until `works` is set; the main thread must not be the one that writes."""

    def __init__(self) -> None:
        self.lines: list[bytes] = []
        self.works = threading.Event()
        self.reached = threading.Event()
        self.late = False  # `works` was not set in time

    def write(self, fd: int, data: bytes) -> int:
        if fd != 2:
            return WRITE(fd, data)
        assert threading.current_thread() is not threading.main_thread(), "the main thread writes"
        self.reached.set()
        if not self.works.wait(PATIENCE):
            self.late = True
            self.works.set()
        self.lines.append(data)
        return len(data)


@contextmanager
def stderr(path: Path) -> Iterator[None]:
    """Have standard error be this file. In the test itself, for pytest has its own at every step."""
    with stderr_on(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)):
        yield


@contextmanager
def stderr_on(fd: int) -> Iterator[None]:
    """Have standard error be what this descriptor has open, which is closed."""
    kept = os.dup(2)
    os.dup2(fd, 2)
    os.close(fd)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Log]:
    """A log to a file, which a thread writes; the thread ends with the test."""
    before = threading.active_count()
    with stderr(tmp_path / "err"):
        made = Log()
        made.write_behind()
    yield made
    monkeypatch.setattr(threading, "excepthook", lambda _: None)
    monkeypatch.setattr(os, "write", lambda *_: sys.exit())
    made.info("the end", event="released")
    wait_until(lambda: threading.active_count() == before, "the thread's end")


def test_a_hanging_disk_delays_nothing_and_dropped_lines_are_counted(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = Disk()
    monkeypatch.setattr(os, "write", disk.write)
    log.info("first", event="became_leader")
    assert disk.reached.wait(PATIENCE)
    for number in range(300):
        log.info(str(number), event="became_leader")
    log.finish()
    assert not disk.late
    disk.works.set()
    wait_until(lambda: disk.lines and disk.lines[-1].endswith(b" 255\n"), "what found room")
    log.info("last", event="became_leader")
    wait_until(lambda: b"last" in disk.lines[-1], "the last line")
    assert disk.lines[-2] == b"kleader: warning: 44 log lines were dropped: the reader of stderr is too slow\n"
    assert len(disk.lines) == 1 + 256 + 2


def test_the_last_lines_are_written_before_the_process_ends(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = Disk()
    monkeypatch.setattr(os, "write", disk.write)
    monkeypatch.setattr("kleader.log._MAX_FLUSH_SECONDS", 30)
    log.info("first", event="became_leader")
    assert disk.reached.wait(PATIENCE)
    for number in range(200):
        log.info(str(number), event="became_leader")
    threading.Timer(0.01, disk.works.set).start()
    log.finish()
    assert [line.split()[-1] for line in disk.lines[1:]] == [b"%d" % number for number in range(200)]


@pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")  # a log is never closed
@pytest.mark.parametrize("reader", ["a pipe", "another user's pipe", "systemd's socket"])
def test_a_full_pipe_or_socket_delays_no_line_and_needs_no_thread(reader: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its reader sleeps: a write that has no room fails at once, and the next one with room counts the lost lines."""
    before, socks = threading.active_count(), socket.socketpair()
    out, into = os.pipe() if "pipe" in reader else [sock.detach() for sock in socks]
    for sock in socks:
        sock.close()
    if "another" in reader:
        monkeypatch.setattr(os, "open", _denied)
    os.set_blocking(out, False)
    with stderr_on(into):
        log = Log()
        log.write_behind()
        for _ in range(5000):
            log.info("x" * 400, event="became_leader")
        read = b""
        with suppress(BlockingIOError):
            while piece := os.read(out, 1 << 20):
                read += piece
        log.info("last", event="became_leader")
        assert b"log lines were dropped: the reader of stderr is too slow\n" in os.read(out, 1 << 20)
    assert 0 < read.count(b"\n") < 5000
    assert threading.active_count() == before
    os.close(out)


def _denied(path: str, *_: object) -> int:
    raise PermissionError(path)


def test_a_log_without_stderr_is_written_nowhere() -> None:
    with stderr_on(os.dup(2)):
        os.close(2)
        log = Log()
        log.info("lost", event="became_leader")
        log.finish()


def test_a_log_is_written_even_if_no_thread_can_be_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: threading.Thread) -> None:
        raise RuntimeError

    monkeypatch.setattr(threading.Thread, "start", refuse)
    with stderr(tmp_path / "err"):
        log = Log()
        log.write_behind()
        log.info("all the same", event="became_leader")
        log.finish()
    assert "all the same" in (tmp_path / "err").read_text()


def hang(into: Path) -> Callable[[int, bytes], int]:
    """A write to stderr that creates this file, and does not end."""

    def write(fd: int, data: bytes) -> int:
        if fd != 2:
            return WRITE(fd, data)
        into.touch()
        while True:
            time.sleep(60)

    return write


def says(channel: Channel, kind: type) -> Callable[[], bool]:
    """Whether a message of this type has arrived since the last call."""
    return lambda: any(isinstance(each.body, kind) for each in channel.receive())


ASSIGN = m.Assign("i", False, False, 0.0, 0, 0, [], "")  # noqa: FBT003


def test_the_file_lock_is_acquired_while_the_disk_of_the_log_hangs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    known: dict[str, Any] = {"file": str(tmp_path / "the.lock"), "wait": None, "namespace": "n", "name": "t"}
    plan = plan_of(**known)
    leader = file_lock.open_lock(plan.file)
    assert file_lock.acquire(leader, wait=False)
    hangs = tmp_path / "hangs"
    monkeypatch.setattr(os, "write", hang(hangs))
    with stderr(tmp_path / "err"):
        guards = FileElectors(plan, Log(), system.myself())
        pid, channel = guards.start(leading=False)
    try:
        channel.send(1, ASSIGN)
        wait_until(hangs.exists, "its first line")
        os.close(leader)
        wait_until(says(channel, p.Acquired), "its Acquired")
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        channel.close()
        guards.close_lock()


ELECT = """
import os, sys, time
sys.path.insert(0, {root!r})
from kleader import launch
write = os.write
def hang(fd, data):
    if fd != 2:
        return write(fd, data)
    open({hangs!r}, "w").close()
    while True:
        time.sleep(60)
os.write = hang
launch.main()
"""


def test_an_elector_sends_heartbeats_while_the_disk_of_its_log_hangs(tmp_path: Path) -> None:
    """It logs that it cannot reach its API server, and goes on with its channel and its deadlines."""
    times = {"lease_duration": 60, "renew_deadline": 40.0, "retry_period": 1.0, "kill": 1.0, "grace": 1.0, "skew": 6.0}
    api = {"kubeconfig": str(tmp_path / "none")}
    known: dict[str, Any] = {**times, "lock": "lease", "wait": None, "api": api, "path": sys.path, "verbosity": 1}
    known |= {"request_timeout": 1.0, "coordinated": False, "pod_label": [], "command": []}
    plan, hangs, me = system.anonymous_file(), tmp_path / "hangs", system.myself()
    plans.save(plan_of(**known), plan)
    script = ELECT.format(root=os.path.dirname(os.path.dirname(launch.__file__)), hangs=str(hangs))  # noqa: PTH120
    command = [sys.executable, "-c", script, "elect", str(me.pid), str(me.start), "lease/t"]
    with stderr(tmp_path / "err"):
        pid, channel = spawn.process(command, plan, ())
    try:
        channel.send(1, ASSIGN._replace(leading=True, t0=system.clock()))
        wait_until(hangs.exists, "its first line")
        channel.receive()
        wait_until(says(channel, m.Heartbeat), "a heartbeat")
        assert channel.open
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        channel.close()
        os.close(plan)


def test_an_identity_or_a_path_in_the_prefix_imitates_no_severity(tmp_path: Path) -> None:
    with stderr(tmp_path / "err"):
        Log(label="/a: error: b", suffix="x]: error: ").info("so", event="lost")
    line = (tmp_path / "err").read_text().partition("kleader ")[2]
    assert line.strip() == r"/a\x3a\x20error\x3a\x20b candidate [x\x5d\x3a\x20error\x3a\x20]: so"


def test_a_text_line_begins_with_level_lock_and_role(tmp_path: Path) -> None:
    with stderr(tmp_path / "err"):
        log = Log(verbosity=2, lock="lease", name="beat", identity="beat-7f9c4-x7k2p_aa-bb")
        log.info("no namespace yet", event="setting")
        log.add_context(namespace="jobs")
        for role in ("candidate", "leader", "giving way", "sweeping", "resting"):
            log.role = role
            log.info("so", event="became_leader")
        log.role = "leader"
        log.warning("look", event="lost")
        log.error("wrong", event="lost")
        log.debug("detail", event="lost")
        Log(label="default/t", suffix="x7k2p", lock="file", name="/run/t.lock").info("on a file", event="lost")
    assert [line.partition(" ")[2] for line in (tmp_path / "err").read_text().splitlines()] == [
        "kleader beat candidate: no namespace yet",
        "kleader jobs/beat candidate: so",
        "kleader jobs/beat leader: so",
        "kleader jobs/beat stopping standby: so",
        "kleader jobs/beat cleaning up: so",
        "kleader jobs/beat not competing: so",
        "kleader jobs/beat leader: warning: look",
        "kleader jobs/beat leader: error: wrong",
        "kleader jobs/beat leader: debug: detail",
        "kleader default/t candidate [x7k2p]: on a file",
    ]


# U+009B moves a terminal's cursor, U+202E and U+2066 turn a line round, and others are not seen.
HOSTILE = "\x1b[2J \x9b2J \x7f \u202e \u2066 \u200b \u2028 \U000e0001 \udcff"


@pytest.mark.parametrize("form", ["text", "json"])
def test_foreign_control_bidi_and_format_characters_are_escaped_and_json_keeps_the_value(
    tmp_path: Path, form: str
) -> None:
    with stderr(tmp_path / "err"):
        Log(form, lock="lease", namespace=f"n {HOSTILE}", name="x", identity="me").info(
            f"é 漢 {HOSTILE}", event="leader_observed", holder=HOSTILE
        )
    line = (tmp_path / "err").read_text()
    assert line.removesuffix("\n").isprintable(), ascii(line)
    assert "é 漢" in line
    if form == "json":
        found = json.loads(line)
        assert (found["message"], found["namespace"], found["holder"]) == (f"é 漢 {HOSTILE}", f"n {HOSTILE}", HOSTILE)


@pytest.mark.parametrize("form", ["text", "json"])
@pytest.mark.parametrize("character", ["\u202e", "\U000e0001", "\x9b", "x"])
def test_a_line_fits_an_atomic_write_to_a_pipe(tmp_path: Path, form: str, character: str) -> None:
    with stderr(tmp_path / "err"):
        Log(form).info(character * 5000, event="leader_observed")
    assert len((tmp_path / "err").read_bytes()) < select.PIPE_BUF


def test_messages_of_the_other_commands_have_no_control_bidi_or_format_characters(
    capsys: pytest.CaptureFixture[str],
) -> None:
    console.warn(f"held by {HOSTILE}\nand more")
    with pytest.raises(SystemExit):
        console.fail(f"held by {HOSTILE}", 1)
    lines = capsys.readouterr().err.split("\n")
    assert len(lines) == 3
    assert all(line.isprintable() for line in lines)


@pytest.mark.parametrize(("growing", "expected"), [
    (False, [0, 10, 20, 30, 40, 50, 60, 70, 80, 120, 130]), (True, [0, 10, 30, 70, 120, 130])
])  # fmt: skip
def test_a_message_that_stays_the_same_is_repeated_at_growing_intervals(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], expected: list[int], *, growing: bool
) -> None:
    """A candidate may wait for hours for its namespace. After a quiet time, of 30 s here, it is news again."""
    log, logged = Log("json"), []
    for second in [*range(0, 90, 2), *range(120, 140, 2)]:
        monkeypatch.setattr("kleader.log.time.monotonic", lambda at=float(second): at)
        log.repeated("no namespace", event="lock_request_failed", growing=growing)
        logged += [second] * bool(capfd.readouterr().err)
    assert logged == expected
    for second in range(140, 10_000, 2):
        monkeypatch.setattr("kleader.log.time.monotonic", lambda at=float(second): at)
        log.repeated("no namespace", event="lock_request_failed", growing=growing)
        logged += [second] * bool(capfd.readouterr().err)
    assert logged[-1] - logged[-2] == (300 if growing else 10)
