"""The file lock's path: a new candidate waits for the end of the leader, whatever file the path names now."""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import signal
import socket
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kleader.locks import file_lock, path_lock
from tests.process.conftest import file_elector_of
from tests.process.test_file_lock import end_all, stop, waiting

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.conftest import Trials
    from tests.process.conftest import Start
    from tests.support.checker import Witness

pytestmark = pytest.mark.slow

STRANGER = 4711  # a user
CLONE_NEWUSER = 0x10000000
PR_SET_DUMPABLE = 4


def replaced(lock: Path) -> None:
    """Put another file there, as an editor does."""
    other = lock.with_suffix(".new")
    other.write_bytes(b"")
    other.replace(lock)


def led_elsewhere(place: Path) -> None:
    """Make a symbolic link point to another directory, as a deploy does."""
    other = place.with_suffix(".new")
    other.with_suffix(".d").mkdir()
    other.symlink_to(other.with_suffix(".d"))
    other.replace(place)


@pytest.mark.parametrize("how", ["removed", "replaced", "directory removed", "led elsewhere"])
def test_a_leader_whose_lock_file_is_removed_ends_its_term_before_another_leads(
    candidate: Start, witness: Witness, lock: Path, trials: Trials, how: str
) -> None:
    (lock.parent / "release").mkdir()
    place = lock.parent / "place"
    place.symlink_to("release")
    option = f"--lock=file:{place / 'l'}"
    first = candidate(witness.command("--ignore-term", "--descendant"), option, name="first")
    witness.wait_descendant()
    waits = candidate(witness.command(), option, name="waits")
    waiting(waits)
    if how == "removed":
        (place / "l").unlink()
    elif how == "replaced":
        replaced(place / "l")
    elif how == "directory removed":
        (lock.parent / "release").rename(lock.parent / "away")
        (lock.parent / "release").mkdir()
    else:
        led_elsewhere(place)
    newcomer = candidate(witness.command(), option, name="newcomer")
    first.wait_err("was removed or replaced")
    assert first.wait() == 255
    witness.wait_start(2)
    end_all(witness, waits, newcomer)
    trials.count(1, "lock files taken away")


def test_a_stopped_leader_keeps_its_path_whatever_file_is_there(candidate: Start, witness: Witness, lock: Path) -> None:
    """Neither it nor its guard can notice."""
    (lock.parent / "release").mkdir()
    place = lock.parent / "place"
    place.symlink_to("release")
    option = f"--lock=file:{place / 'l'}"
    first = candidate(witness.command(), option, name="first")
    witness.wait_start()
    guard = file_elector_of(first)
    stop(first.pid)
    stop(guard)
    led_elsewhere(place)
    second = candidate(witness.command(), option, "--no-wait", name="second")
    assert second.wait() == 124
    os.kill(guard, signal.SIGCONT)
    end_all(witness, first)


def test_a_file_replaced_under_waiting_candidates_is_followed(
    candidate: Start, witness: Witness, lock: Path, trials: Trials
) -> None:
    """Again and again, without an overlap and without giving up."""
    running = [candidate(witness.command("--ignore-term"), "--on-loss=wait", name=f"c{number}") for number in range(3)]
    for turn in range(1, 8):
        witness.wait_start(turn)
        replaced(lock)
    witness.wait_start(8)
    leader = next(each for each in running if each.name == witness.terms()[-1].identity)
    for each in running:
        each.signal(signal.SIGTERM)
    leader.wait_log("command_stopping")
    leader.signal(signal.SIGTERM)
    end_all(witness, *running)
    trials.count(7, "lock files taken away")


def test_long_path_has_the_same_lock_through_a_link(tmp_path: Path) -> None:
    deep = tmp_path / ("d" * 200)
    deep.mkdir()
    (tmp_path / "link").symlink_to(deep)
    keys = set(path_lock.path_keys(str(deep / "a")))
    assert keys & set(path_lock.path_keys(str(tmp_path / "link" / "a")))
    assert not keys & set(path_lock.path_keys(str(deep / "b")))


def as_a_stranger(do: Callable[[], object], *, own_namespace: bool) -> int:
    """The pid of a child that has done it as another user, where this one may choose, and holds what it got."""
    ready, tell = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            if os.geteuid() == 0:
                os.setgroups([])
                os.setresgid(STRANGER, STRANGER, STRANGER)
                os.setresuid(STRANGER, STRANGER, STRANGER)
            user = os.geteuid()
            if own_namespace:
                libc = ctypes.CDLL(None)
                libc.prctl(PR_SET_DUMPABLE, 1)
                assert libc.unshare(CLONE_NEWUSER) == 0
                Path("/proc/self/uid_map").write_bytes(b"0 %d 1" % user)
                assert os.geteuid() == 0
            do()
            os.write(tell, b"done")
            signal.pause()
        finally:
            os._exit(1)
    os.close(tell)
    assert os.read(ready, 4) == b"done"
    os.close(ready)
    return pid


@pytest.mark.parametrize("own_namespace", [False, True], ids=["a user", "root of a user namespace"])
def test_other_users_cannot_block_a_lock_file(candidate: Start, *, own_namespace: bool) -> None:
    """By any socket, file or lock that it can open; it knows the path, and the name of an older kleader's lock."""
    with tempfile.TemporaryDirectory() as directory:
        place = Path(directory)
        place.chmod(0o755)
        option = f"--lock=file:{place / 'l'}"
        assert candidate(["true"], option).wait() == 0
        found, mounts = place.stat(), Path("/proc/self/ns/mnt").readlink()
        names = (f"{mounts}{place}/l", f"{found.st_dev:x}{place}/l", f"{found.st_dev:x}:{found.st_ino:x}/l")
        held: list[object] = []

        def hold() -> None:
            for name in names:
                sock = socket.socket(socket.AF_UNIX)
                sock.bind(f"\0kleader/{name}")
                held.append(sock)
            if os.getuid() in {0, STRANGER}:  # else it is no stranger
                for each in [*place.iterdir(), *Path("/run").glob("kleader*"), *Path("/run/kleader").glob("*")]:
                    with contextlib.suppress(OSError):
                        fd = os.open(each, os.O_RDONLY)
                        held.append(fd)
                        if each.is_file():
                            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)

        pid = as_a_stranger(hold, own_namespace=own_namespace)
        try:
            last = candidate(["true"], option, "--no-wait")
            assert last.wait() == 0, last.err
        finally:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


def test_other_users_cannot_open_the_files_that_lock_paths(lock: Path) -> None:
    for fd in path_lock.open_path_locks(str(lock)):
        found = os.fstat(fd)
        os.close(fd)
        assert (found.st_uid, found.st_mode & 0o077) == (os.geteuid(), 0)


@pytest.mark.parametrize("how", ["readable", "a link", "a directory"])
def test_a_path_lock_file_that_another_user_may_have_made_is_not_used(
    lock: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    monkeypatch.setattr(file_lock, "user_directory", lambda: str(lock.parent / "none" / "kleader"))
    own, beside = lock.parent / "none" / "kleader.paths", lock.parent / "kleader.paths"
    own.parent.mkdir()
    (lock.parent / "elsewhere").touch(0o600)
    for each in (own, beside):
        if how == "readable":
            each.touch()
            each.chmod(0o644)
        elif how == "a link":
            each.symlink_to(lock.parent / "elsewhere")
        else:
            each.mkdir()
    assert path_lock.open_path_locks(str(lock)) == []
    if how == "a directory":
        beside.rmdir()
    else:
        beside.unlink()
    (fd,) = path_lock.open_path_locks(str(lock))
    assert os.fstat(fd).st_ino == beside.stat().st_ino
    os.close(fd)


@pytest.mark.parametrize("called", ["run", "var/run"])
def test_a_lock_file_beside_its_users_directory_is_accepted(
    lock: Path, monkeypatch: pytest.MonkeyPatch, called: str
) -> None:
    """As /run/l and /var/run/l for root: both files for paths are one, and one open file cannot wait for another."""
    place = lock.parent / called
    (lock.parent / "run").mkdir()
    if not place.exists():
        place.parent.mkdir()
        place.symlink_to(lock.parent / "run")
    monkeypatch.setattr(file_lock, "user_directory", lambda: str(lock.parent / "run" / "kleader"))
    path = str(place / "l")
    fds = path_lock.open_path_locks(path)
    try:
        assert path_lock.acquire_path(fds, path_lock.path_keys(path))
        assert path_lock.is_path_held(path)
    finally:
        for fd in fds:
            os.close(fd)


def test_a_stopped_leader_keeps_its_path_for_other_containers(candidate: Start, witness: Witness, lock: Path) -> None:
    """Each has its own /run, and its own network; the lock file was removed."""
    mapped = [] if os.geteuid() == 0 else ["--map-root-user"]
    container = ["unshare", "--mount", "--net", *mapped, "sh", "-c", 'mount -t tmpfs none /run; exec "$@"', "sh"]
    first = candidate(witness.command(), before=container)
    witness.wait_start()
    guard = file_elector_of(first)
    stop(first.pid)
    stop(guard)
    lock.unlink()
    second = candidate(["true"], "--no-wait", before=container)
    assert second.wait() == 124
    os.kill(guard, signal.SIGCONT)
    end_all(witness, first)
