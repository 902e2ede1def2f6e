"""A log on a disk that hangs holds up nobody who has to act."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from kleader import boot, platform
from kleader.elector.start import Guards
from kleader.link import messages as m
from kleader.link import plan as plans
from kleader.link import start
from kleader.link.plan import Plan
from kleader.locks import file
from kleader.log import Log
from tests.support.processes import PATIENCE, wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from kleader.link.channel import Channel

WRITE = os.write


class Disk:
    """Writes to stderr hang until it works again; no others, and none that hold up who has to act."""

    def __init__(self) -> None:
        self.lines: list[bytes] = []
        self.works = threading.Event()
        self.reached = threading.Event()
        self.late = False  # nobody has mended it in time

    def write(self, fd: int, data: bytes) -> int:
        if fd != 2:
            return WRITE(fd, data)
        assert threading.current_thread() is not threading.main_thread(), "it waits"
        self.reached.set()
        if not self.works.wait(PATIENCE):
            self.late = True
            self.works.set()
        self.lines.append(data)
        return len(data)


@contextmanager
def stderr(path: Path) -> Iterator[None]:
    """Have standard error be this file. In the test itself, for pytest has its own at every step."""
    kept, fd = os.dup(2), os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(fd, 2)
    os.close(fd)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Log]:
    """One that writes behind, to a file; its thread ends with the test."""
    before = threading.active_count()
    with stderr(tmp_path / "err"):
        made = Log()
        made.write_behind()
    yield made
    monkeypatch.setattr(threading, "excepthook", lambda _: None)
    monkeypatch.setattr(os, "write", lambda *_: sys.exit())
    made.info("the end")
    wait_until(lambda: threading.active_count() == before, "the thread's end")


def test_nobody_waits_for_a_disk_that_hangs_and_what_finds_no_room_is_counted(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = Disk()
    monkeypatch.setattr(os, "write", disk.write)
    log.info("first")
    assert disk.reached.wait(PATIENCE)
    for number in range(300):
        log.info(str(number))
    log.finish()
    assert not disk.late
    disk.works.set()
    wait_until(lambda: disk.lines and disk.lines[-1].endswith(b" 255\n"), "what found room")
    log.info("last")
    wait_until(lambda: b"last" in disk.lines[-1], "the last line")
    assert disk.lines[-2] == b"kleader: 44 lines of log found no room\n"
    assert len(disk.lines) == 1 + 256 + 2


def test_what_was_said_last_is_written_before_the_end(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = Disk()
    monkeypatch.setattr(os, "write", disk.write)
    monkeypatch.setattr("kleader.log._FAREWELL", 30)
    log.info("first")
    assert disk.reached.wait(PATIENCE)
    for number in range(200):
        log.info(str(number))
    threading.Timer(0.01, disk.works.set).start()
    log.finish()
    assert [line.split()[-1] for line in disk.lines[1:]] == [b"%d" % number for number in range(200)]


def test_a_pipe_needs_no_thread() -> None:
    """It has no room, and tells."""
    out, into = os.pipe()
    kept, before = os.dup(2), threading.active_count()
    os.dup2(into, 2)
    Log().write_behind()
    os.dup2(kept, 2)
    assert threading.active_count() == before
    for fd in (out, into, kept):
        os.close(fd)


def test_a_log_without_room_for_a_thread_is_written_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: threading.Thread) -> None:
        raise RuntimeError

    monkeypatch.setattr(threading.Thread, "start", refuse)
    with stderr(tmp_path / "err"):
        log = Log()
        log.write_behind()
        log.info("all the same")
        log.finish()
    assert "all the same" in (tmp_path / "err").read_text()


def hang(into: Path) -> Callable[[int, bytes], int]:
    """A write to stderr that tells that it was begun, and does not end."""

    def write(fd: int, data: bytes) -> int:
        if fd != 2:
            return WRITE(fd, data)
        into.touch()
        while True:
            time.sleep(60)

    return write


def says(channel: Channel, kind: type) -> Callable[[], bool]:
    """Whether a message of this type has come since it was asked last."""
    return lambda: any(isinstance(each, kind) for each in channel.receive())


ASSIGN = m.Assign(1, "i", False, False, 0.0, "", 0, 0, [], "")  # noqa: FBT003


def test_the_file_locks_guard_takes_the_lock_whatever_becomes_of_its_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    known: dict[str, Any] = {"file": str(tmp_path / "the.lock"), "wait": None, "namespace": "n", "name": "t"}
    plan = Plan(**{name: known.get(name, "") for name in Plan.__annotations__})
    leader = file.open_lock(plan.file, make_directory=False)
    assert file.take(leader, wait=False)
    hangs = tmp_path / "hangs"
    monkeypatch.setattr(os, "write", hang(hangs))
    with stderr(tmp_path / "err"):
        guards = Guards(plan, Log(), platform.myself())
        pid, channel = guards.start(leading=False)
    try:
        channel.send(ASSIGN)
        wait_until(hangs.exists, "its first line")
        os.close(leader)
        wait_until(says(channel, m.Lead), "its Lead")
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        channel.close()
        guards.let_go()


ELECT = """
import os, sys, time
sys.path.insert(0, {root!r})
from kleader import boot
write = os.write
def hang(fd, data):
    if fd != 2:
        return write(fd, data)
    open({hangs!r}, "w").close()
    while True:
        time.sleep(60)
os.write = hang
boot.main()
"""


def test_an_elector_gives_signs_of_life_whatever_becomes_of_its_log(tmp_path: Path) -> None:
    """It has no API server to reach, and says so. The link is looked at, and all deadlines."""
    times = {"lease_duration": 60, "renew_deadline": 40.0, "retry_period": 1.0, "kill": 1.0, "grace": 1.0, "skew": 6.0}
    api = {"kubeconfig": str(tmp_path / "none")}
    known: dict[str, Any] = {**times, "lock": "lease", "wait": None, "api": api, "path": sys.path, "verbosity": 1}
    known |= {"request_timeout": 1.0, "coordinated": False, "pod_label": [], "command": []}
    plan, hangs, me = platform.anonymous_file(), tmp_path / "hangs", platform.myself()
    plans.save(Plan(**{name: known.get(name, "") for name in Plan.__annotations__}), plan)
    script = ELECT.format(root=os.path.dirname(os.path.dirname(boot.__file__)), hangs=str(hangs))  # noqa: PTH120
    command = [sys.executable, "-c", script, "elect", "3", "4", str(me.pid), str(me.start), "lease/t"]
    with stderr(tmp_path / "err"):
        pid, channel = start.process(command, plan, ())
    try:
        channel.send(ASSIGN._replace(leading=True, t0=platform.clock()))
        wait_until(hangs.exists, "its first line")
        channel.receive()
        wait_until(says(channel, m.Ping), "a sign of life")
        assert channel.open
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        channel.close()
        os.close(plan)
