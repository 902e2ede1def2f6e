"""The file lock's guard, and what else holds the lock: which file is locked, and who lets go of it when."""

from __future__ import annotations

import os
import socket
from typing import TYPE_CHECKING, Any, cast

import pytest

from kleader import platform
from kleader.elector.guard import Guard, _TimeIsUp
from kleader.elector.orphans import Orphans
from kleader.elector.start import Guards
from kleader.link.channel import Channel
from kleader.link.plan import Plan
from kleader.locks import file
from kleader.log import Log

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def lock(tmp_path: Path) -> Path:
    return tmp_path / "the.lock"


@pytest.fixture
def plan(lock: Path) -> Plan:
    known: dict[str, Any] = {"file": str(lock), "wait": None, "namespace": "n", "name": "t", "live": False}
    return Plan(**{name: known.get(name, "") for name in Plan.__annotations__})


@pytest.fixture
def guard(plan: Plan) -> Iterator[Guard]:
    """One that has opened the file, and not locked it yet."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    fd = file.open_lock(plan.file, make_directory=False)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as claim:
        made = Guard(plan, Channel(ours), Log(verbosity=-1), platform.myself(), fd, claim)
        made._term = 1
        yield made
    os.close(fd)
    ours.close()
    theirs.close()


def replace(lock: Path) -> None:
    other = lock.with_suffix(".new")
    other.write_bytes(b"")
    other.replace(lock)


def test_a_free_lock_is_taken(guard: Guard) -> None:
    """So that the tests below mean something."""
    assert guard._take()


@pytest.mark.timeout(10)
@pytest.mark.parametrize("how", ["removed", "replaced"])
def test_a_lock_on_a_file_that_has_lost_its_name_is_none(guard: Guard, lock: Path, how: str) -> None:
    """Somebody else may lock the other file."""
    if how == "removed":
        lock.unlink()
    else:
        replace(lock)
    assert not guard._take()


def test_who_leads_on_a_file_that_was_removed_keeps_newcomers_away(guard: Guard, lock: Path) -> None:
    """By the socket, which is named after the path, and which its guard and its supervisor hold."""
    guard._plan = guard._plan._replace(wait=0)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as leader:
        assert file.claim(leader, str(lock))
        with pytest.raises(_TimeIsUp):
            guard._take()
    assert guard._take()


def test_the_name_is_looked_at_again_once_its_socket_is_had(
    guard: Guard, lock: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between both looks a leader on the old file may have ended, and another begun on a new one."""

    def claim(_socket: socket.socket, _path: str) -> bool:
        replace(lock)
        return True

    monkeypatch.setattr(file, "claim", claim)
    assert not guard._take()


def test_it_keeps_the_lock_until_what_a_dead_supervisor_left_is_dead(guard: Guard) -> None:
    """However long that takes."""

    class Undying(Orphans):
        sweeps = 0

        def sweep_until_none(self) -> bool:
            self.sweeps += 1
            return self.sweeps == 3

    guard._orphans = orphans = Undying(1, -1, "KLEADER_TERM_none")
    orphans.any = True
    guard._deserted()
    assert orphans.sweeps == 3


def test_who_lets_go_leaves_it_to_all_others_that_have_it_open(plan: Plan) -> None:
    """A command, say, that will not die and was left: LOCK_UN would free the lock for everybody."""
    guards = Guards(plan, Log(verbosity=-1), platform.myself())
    guards._open()
    (fd,) = guards.inherited
    assert file.take(fd, wait=False)
    inherited = os.dup(fd)
    guards.let_go()
    other = file.open_lock(plan.file, make_directory=False)
    assert not file.take(other, wait=False)
    os.close(inherited)
    assert file.take(other, wait=False)
    os.close(other)


def test_a_new_candidacy_holds_nothing_of_the_last_one(plan: Plan) -> None:
    """The guard that was killed may have locked it."""
    guards = Guards(plan, Log(verbosity=-1), platform.myself())
    guards._open()
    assert file.take(guards.inherited[0], wait=False)
    guards._open()
    other = file.open_lock(plan.file, make_directory=False)
    assert file.take(other, wait=False)
    os.close(other)
    guards.let_go()


def test_a_record_is_on_disk_before_it_counts(lock: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A token that a crash took back would be given out twice."""
    done: list[str] = []
    write, sync = os.pwrite, os.fsync

    def pwrite(fd: int, data: bytes, offset: int) -> int:
        done.append("written")
        return write(fd, data, offset)

    def fsync(fd: int) -> None:
        done.append("on disk")
        sync(fd)

    monkeypatch.setattr(os, "pwrite", pwrite)
    monkeypatch.setattr(os, "fsync", fsync)
    fd = file.open_lock(str(lock), make_directory=False)
    file.write(fd, {"token": "1"})
    os.close(fd)
    assert done == ["written", "on disk"]


@pytest.mark.parametrize("kind", ["nfs", "nfs4", "cifs", "smb3", "fuse.sshfs", "9p", "ceph"])
def test_a_file_system_of_many_machines_is_refused(plan: Plan, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    monkeypatch.setattr(platform, "filesystem", lambda _: kind)
    with pytest.raises(file.LockFileError) as refused:
        file.open_lock(plan.file, make_directory=False)
    assert f"is on {kind}" in cast("str", refused.value.strerror)
