"""The file elector: which file is locked, which processes hold the lock, and when it is closed."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any, cast

import pytest

from kleader import system
from kleader.election import protocol as p
from kleader.elector.file_elector import FileElector, _WaitIsOver
from kleader.elector.launchers import FileElectors
from kleader.ipc import messages as m
from kleader.ipc.channel import Channel
from kleader.locks import file_lock, path_lock
from kleader.log import Log
from kleader.observe.file_source import FileSource
from kleader.procs.process_tracker import ProcessTracker
from tests.support.plans import plan_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from kleader.ipc.plan import Plan


@pytest.fixture
def lock(tmp_path: Path) -> Path:
    return tmp_path / "the.lock"


@pytest.fixture
def plan(lock: Path) -> Plan:
    known: dict[str, Any] = {"file": str(lock), "wait": None, "namespace": "n", "name": "t", "live": False}
    return plan_of(**known)


@pytest.fixture
def guard(plan: Plan) -> Iterator[FileElector]:
    """One that has opened the file, and not locked it yet."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    fd = file_lock.open_lock(plan.file)
    path_fds = path_lock.open_path_locks(plan.file)
    made = FileElector(plan, Channel(ours), Log(verbosity=-1), system.myself(), fd, path_fds)
    made._term = 1
    yield made
    for each in (*path_fds, fd):
        os.close(each)
    ours.close()
    theirs.close()


def replace(lock: Path) -> None:
    other = lock.with_suffix(".new")
    other.write_bytes(b"")
    other.replace(lock)


def test_a_free_lock_is_taken(guard: FileElector) -> None:
    """So that the tests below mean something."""
    assert guard._lock()


@pytest.mark.parametrize("how", ["removed", "replaced"])
def test_a_lock_on_an_unlinked_file_does_not_count(guard: FileElector, lock: Path, how: str) -> None:
    """Another process may lock the other file."""
    if how == "removed":
        lock.unlink()
    else:
        replace(lock)
    assert not guard._lock()


def test_a_leader_whose_file_was_removed_blocks_new_candidates(guard: FileElector, lock: Path) -> None:
    """By its lock on the path, which its guard and its supervisor hold: any of the path's bytes is enough."""
    guard._plan = guard._plan._replace(wait=0)
    leaders = path_lock.open_path_locks(str(lock))
    assert len(leaders) == 2
    for leader in leaders:
        for key in path_lock.path_keys(str(lock)):
            another = os.open(f"/proc/self/fd/{leader}", os.O_RDWR)
            assert path_lock.acquire_path([another], [key])
            with pytest.raises(_WaitIsOver):
                guard._lock()
            os.close(another)
        os.close(leader)
    assert guard._lock()


def test_a_waiting_candidate_keeps_the_bytes_of_its_path(
    guard: FileElector, lock: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The path leads to another directory by now, where a hard link is the same file."""
    guard._plan = guard._plan._replace(wait=0, file=str(lock.parent / "current" / lock.name))
    for release in ("r1", "r2"):
        (lock.parent / release).mkdir()
        (lock.parent / release / lock.name).hardlink_to(lock)
    (lock.parent / "current").symlink_to("r1")
    asked: list[Sequence[int]] = []

    def take(_fds: Sequence[int], keys: Sequence[int]) -> bool:
        asked.append(keys)
        if len(asked) == 1:
            (lock.parent / "new").symlink_to("r2")
            (lock.parent / "new").replace(lock.parent / "current")
        return len(asked) > 1

    monkeypatch.setattr(path_lock, "acquire_path", take)
    assert guard._lock()
    assert asked[0] == asked[1]


# --- the bytes of a path

SHOW = "import sys; from kleader.locks import path_lock; print(*path_lock.path_keys(sys.argv[1]))"
MOUNTS = ["unshare", *([] if os.geteuid() == 0 else ["--map-root-user"]), "--mount"]


def two(tmp_path: Path, first: str, script: str, second: str) -> tuple[set[str], set[str]]:
    """The bytes of two paths in mounts of their own, the second's after the script."""
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
def test_candidates_that_may_mean_the_same_lock_share_a_byte(
    tmp_path: Path, first: str, script: str, second: str
) -> None:
    """The path may have changed in between."""
    before, after = two(tmp_path, first, script, second)
    assert len(before & after) == 1


@pytest.mark.parametrize(("script", "second"), [
    ("", "r1/m"), ("", "r2/l"),
    ('unshare --mount sh -c "mount -t tmpfs none $0/r1; \\"\\$@\\"" -', "r1/l"),  # a container's own
])  # fmt: skip
def test_candidates_of_different_locks_share_no_byte(tmp_path: Path, script: str, second: str) -> None:
    """Else one would wait for the other."""
    before, after = two(tmp_path, "r1/l", script, second)
    assert before
    assert after
    assert not before & after


def test_the_bytes_of_a_path_are_taken_in_one_order(tmp_path: Path) -> None:
    """Else two newcomers that have some in common could wait for each other."""
    for number in range(20):
        (tmp_path / f"{number}").symlink_to(tmp_path)
        found = path_lock.path_keys(f"{tmp_path}/{number}/l")
        assert len(found) == 4
        assert found == sorted(found)


def test_the_path_is_checked_again_once_it_is_locked(
    guard: FileElector, lock: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between both looks a leader on the old file may have ended, and another begun on a new one."""

    def take(_fds: Sequence[int], _keys: Sequence[int]) -> bool:
        replace(lock)
        return True

    monkeypatch.setattr(path_lock, "acquire_path", take)
    assert not guard._lock()


def test_the_file_elector_keeps_the_lock_until_a_dead_supervisors_processes_are_dead(guard: FileElector) -> None:
    """However long that takes."""

    class Undying(ProcessTracker):
        sweeps = 0

        def kill_until_none(self, _kill_at: float = 0) -> bool:
            self.sweeps += 1
            return self.sweeps == 3

    guard._tracker = tracker = Undying(1, -1, "KLEADER_TERM_none")
    tracker.has_command = True
    guard._supervisor_died()
    assert tracker.sweeps == 3


def test_closing_a_lock_leaves_it_to_other_processes_that_have_it_open(plan: Plan) -> None:
    """For example a command that does not die: LOCK_UN would free the lock for every process."""
    guards = FileElectors(plan, Log(verbosity=-1), system.myself())
    guards._open()
    (fd,) = guards.inherited
    assert file_lock.acquire(fd, wait=False)
    inherited = os.dup(fd)
    guards.close_lock()
    other = file_lock.open_lock(plan.file)
    assert not file_lock.acquire(other, wait=False)
    os.close(inherited)
    assert file_lock.acquire(other, wait=False)
    os.close(other)


def test_a_new_candidacy_holds_no_file_of_the_last_one(plan: Plan) -> None:
    """The guard that was killed may have locked it."""
    guards = FileElectors(plan, Log(verbosity=-1), system.myself())
    guards._open()
    assert file_lock.acquire(guards.inherited[0], wait=False)
    guards._open()
    other = file_lock.open_lock(plan.file)
    assert file_lock.acquire(other, wait=False)
    os.close(other)
    guards.close_lock()


def test_a_record_is_on_disk_before_the_term_begins(lock: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
    fd = file_lock.open_lock(str(lock))
    file_lock.write_record(fd, {"token": "1"})
    os.close(fd)
    assert done == ["written", "on disk"]


@pytest.mark.parametrize("kind", ["nfs", "nfs4", "cifs", "smb3", "fuse.sshfs", "9p", "virtiofs", "ceph", "lustre"])
def test_a_file_system_of_many_machines_is_refused(plan: Plan, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    monkeypatch.setattr(system, "filesystem", lambda _: kind)
    with pytest.raises(file_lock.LockFileError) as refused:
        file_lock.open_lock(plan.file)
    assert f"is on {kind}" in cast("str", refused.value.strerror)


def test_a_directory_of_another_user_is_refused_for_lock_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert file_lock.unsafe(str(tmp_path)) == ""
    monkeypatch.setattr(os, "geteuid", lambda: tmp_path.stat().st_uid + 1)
    assert "is not safe for lock files" in file_lock.unsafe(str(tmp_path))


def test_an_unreadable_lock_file_is_reported_by_its_own_name(lock: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lock.touch()

    def refuse(*_: object) -> int:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(file_lock.LockFileError) as refused:
        file_lock.open_lock(str(lock))
    assert f"it belongs to user {os.geteuid()}" in cast("str", refused.value.strerror)
    assert "directory" not in cast("str", refused.value.strerror)


# --- the latest runs


def led(plan: Plan, *, ran: tuple[int, str] | None = None, wall: float = 0.0) -> p.Acquired:
    """A term of another kleader, from its acquisition, by a clock that is so far ahead, to the record of its run."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    fd = file_lock.open_lock(plan.file)
    guard = FileElector(plan, Channel(ours), Log(verbosity=-1), system.myself(), fd, ())
    guard._term = 1
    with pytest.MonkeyPatch.context() as patch:
        now = time.time_ns
        patch.setattr(time, "time_ns", lambda: now() + round(wall * 1e9))
        assign = m.Assign(
            "i", leading=False, replaces=False, t0=0, acquired=0, transitions=0, started=[], resume_state=""
        )
        assert guard._become_leader(assign)
        lead = Channel(theirs).receive()[0].body
        assert isinstance(lead, p.Acquired)
        if ran:
            guard._record(m.Ran(lead.token, *ran, system.clock() - 1, system.clock()))
    os.close(fd)
    ours.close()
    theirs.close()
    return lead


def test_a_run_is_kept_in_the_file_and_makes_the_next_one_needless(plan: Plan) -> None:
    plan = plan._replace(once_per=60.0, identity="host-a", started=system.clock())
    assert led(plan, ran=(1, "exited")).done == ""
    assert led(plan, ran=(0, "exited")).done == ""
    assert led(plan).done.startswith("already done by host-a at ")
    assert led(plan).done  # the one before has kept the record, and recorded nothing of its own


def test_a_term_that_ended_without_a_record_is_counted_in_the_lock_file(plan: Plan) -> None:
    """A leader that found nothing to do has ended in order."""
    plan = plan._replace(once="k", identity="host-a", started=system.clock())

    def unrecorded() -> int | None:
        (lock,) = asyncio.run(FileSource(plan.file).poll()).values()
        return lock.unrecorded

    led(plan, ran=(1, "exited"))
    assert unrecorded() == 0
    led(plan)  # it was killed
    led(plan)
    assert unrecorded() == 2
    led(plan, ran=(0, "exited"))
    assert unrecorded() == 0
    assert led(plan).done
    assert unrecorded() == 0


def test_a_replacement_file_elector_records_a_run_that_ended_earlier(plan: Plan) -> None:
    """The messages come together: a guard that died as the command ended has a successor for this alone."""
    plan = plan._replace(once="k", started=system.clock())
    token = led(plan).token
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    fd = file_lock.open_lock(plan.file)
    link = Channel(theirs)
    assign = m.Assign("i", leading=True, replaces=True, t0=0, acquired=0, transitions=0, started=[], resume_state="")
    for message in (assign, m.Ran(token, 0, "exited", 0, 1), p.AllProcessesExited(release=True)):
        link.send(1, message)
    theirs.shutdown(socket.SHUT_WR)
    FileElector(plan, Channel(ours), Log(verbosity=-1), system.myself(), fd, ()).run()
    assert [message.body for message in link.receive()] == [p.Released(released=True)]
    os.close(fd)
    ours.close()
    theirs.close()
    assert led(plan).done


def test_a_clock_that_was_set_back_makes_the_command_run_again(plan: Plan) -> None:
    plan = plan._replace(once_per=60.0, started=system.clock())
    led(plan, ran=(0, "exited"), wall=3600)
    assert led(plan).done == ""


def test_a_run_without_once_is_recorded_and_skips_no_run(plan: Plan) -> None:
    once = plan._replace(once="k", started=system.clock())
    led(plan, ran=(0, "exited"))
    assert led(once, ran=(0, "exited")).done == ""
    assert led(plan).done == ""
    assert led(once).done
