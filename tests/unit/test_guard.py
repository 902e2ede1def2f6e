"""The file lock's guard, and what else holds the lock: which file is locked, and who lets go of it when."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
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
    from collections.abc import Iterator, Sequence
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
    claims = [socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) for _ in range(file.ADDRESSES)]
    made = Guard(plan, Channel(ours), Log(verbosity=-1), platform.myself(), fd, claims)
    made._term = 1
    yield made
    for each in claims:
        each.close()
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
    """By sockets, which its guard and its supervisor hold: any of a path's addresses is enough."""
    guard._plan = guard._plan._replace(wait=0)
    for address in file.addresses(str(lock)):
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as leader:
            leader.bind(address)
            with pytest.raises(_TimeIsUp):
                guard._take()
    assert guard._take()


def test_who_waits_for_addresses_keeps_to_them_though_they_change(
    guard: Guard, lock: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The path leads to another directory by now, where a hard link is the same file. A socket is bound but once."""
    guard._plan = guard._plan._replace(wait=0, file=str(lock.parent / "current" / lock.name))
    for release in ("r1", "r2"):
        (lock.parent / release).mkdir()
        (lock.parent / release / lock.name).hardlink_to(lock)
    (lock.parent / "current").symlink_to("r1")
    leader = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    leader.bind(file.addresses(guard._plan.file)[-1])

    def claim(sockets: Sequence[socket.socket], wanted: Sequence[bytes]) -> bool:
        done = taken(sockets, wanted)
        if not done:
            leader.close()
            (lock.parent / "new").symlink_to("r2")
            (lock.parent / "new").replace(lock.parent / "current")
        return done

    taken = file.claim
    monkeypatch.setattr(file, "claim", claim)
    assert guard._take()


# --- the addresses

SHOW = "import sys; from kleader.locks import file; print(*(each.hex() for each in file.addresses(sys.argv[1])))"
MOUNTS = ["unshare", *([] if os.geteuid() == 0 else ["--map-root-user"]), "--mount"]


def two(tmp_path: Path, first: str, script: str, second: str) -> tuple[set[str], set[str]]:
    """The addresses of two paths in mounts of their own, the second's after the script."""
    for release in ("r1", "r2"):
        (tmp_path / release).mkdir()
    (tmp_path / "current").symlink_to("r1")
    show = f"{sys.executable} -c '{SHOW}'"
    code = f"{show} $0/{first}; {script} {show} $0/{second}"
    argv = [*MOUNTS, "sh", "-ec", code, str(tmp_path)]
    before, after = subprocess.run(argv, check=True, capture_output=True, text=True).stdout.splitlines()
    return set(before.split()), set(after.split())


@pytest.mark.parametrize(("first", "script", "second"), [
    ("r1/l", "mount -t tmpfs none $0/r1;", "r1/l"),  # as given
    ("current/l", "ln -sfn r2 $0/current; unshare --mount", "current/l"),  # as given, from other mounts
    ("current/l", "mv $0/r1 $0/old; mkdir $0/r1;", "r1/l"),  # as resolved
    ("r1/l", "mount --bind $0/r1 $0/r2;", "r2/l"),  # this very directory
])  # fmt: skip
def test_who_may_mean_the_same_lock_has_an_address_in_common(
    tmp_path: Path, first: str, script: str, second: str
) -> None:
    """Whatever became of the path in between."""
    before, after = two(tmp_path, first, script, second)
    assert len(before & after) == 1


@pytest.mark.parametrize(("script", "second"), [
    ("", "r1/m"), ("", "r2/l"),
    ('unshare --mount sh -c "mount -t tmpfs none $0/r1; \\"\\$@\\"" -', "r1/l"),  # a container's own
])  # fmt: skip
def test_who_means_another_lock_has_none(tmp_path: Path, script: str, second: str) -> None:
    """Else one would wait for the other."""
    before, after = two(tmp_path, "r1/l", script, second)
    assert before
    assert after
    assert not before & after


def test_the_addresses_of_a_path_are_taken_in_one_order(tmp_path: Path) -> None:
    """Else two newcomers that have some in common could wait for each other."""
    for number in range(20):
        (tmp_path / f"{number}").symlink_to(tmp_path)
        found = file.addresses(f"{tmp_path}/{number}/l")
        assert len(found) == file.ADDRESSES
        assert found == sorted(found)


def test_the_name_is_looked_at_again_once_its_socket_is_had(
    guard: Guard, lock: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between both looks a leader on the old file may have ended, and another begun on a new one."""

    def claim(_sockets: Sequence[socket.socket], _wanted: Sequence[bytes]) -> bool:
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


@pytest.mark.parametrize("kind", ["nfs", "nfs4", "cifs", "smb3", "fuse.sshfs", "9p", "virtiofs", "ceph", "lustre"])
def test_a_file_system_of_many_machines_is_refused(plan: Plan, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    monkeypatch.setattr(platform, "filesystem", lambda _: kind)
    with pytest.raises(file.LockFileError) as refused:
        file.open_lock(plan.file, make_directory=False)
    assert f"is on {kind}" in cast("str", refused.value.strerror)
