"""`--lock file` without a path: one lock file for each user, wherever and however its candidates are started."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING, Protocol

import pytest

from tests.process.conftest import KLEADER, file_elector_of

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.checker import Witness
    from tests.support.processes import Process, Processes

pytestmark = pytest.mark.slow

USER = 4711
HOME = "/srv"  # there, and not in what a service may have for itself
PLACE = "/srv/.local/state/kleader"

# In mounts of its own: as a user of this name service, in this home directory.
MOUNTS = """
set -e
mount --bind "$1/passwd" /etc/passwd
mount --bind "$1/home" /srv
%s
shift
exec unshare --user --map-user=4711 --map-group=4711 -- "$@"
"""
PRIVATE_TMP = """
mount --rbind /tmp /mnt
mount -t tmpfs none /tmp
mount -t tmpfs none /var/tmp
case "$PWD" in /tmp/*) mkdir -p "$PWD"; mount --bind "/mnt${PWD#/tmp}" "$PWD"; cd "$PWD";; esac
"""

# How a candidate may be started: what its mounts and its environment then are.
STARTS: dict[str, tuple[str, dict[str, str]]] = {
    "cron": ("", {"HOME": "/", "LOGNAME": "u"}),
    "a terminal": ("", {"HOME": HOME, "XDG_RUNTIME_DIR": f"{HOME}/run", "XDG_STATE_HOME": f"{HOME}/s"}),
    "a service with PrivateTmp": (PRIVATE_TMP, {"TMPDIR": "/tmp"}),  # noqa: S108
    "a session that is over": ("", {"HOME": HOME, "XDG_RUNTIME_DIR": "/run/user/4711"}),
    "another HOME": ("", {"HOME": f"{HOME}/other"}),
}  # fmt: skip


class As(Protocol):
    """Starts a kleader as a user that is none of this machine's: `as_user("cron", "run", …)`."""

    def __call__(self, how: str, *words: str, mounts: str = "") -> Process: ...


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "passwd").write_text(f"root:x:0:0::/root:/bin/sh\nu:x:{USER}:{USER}::{HOME}:/bin/sh\n")
    (tmp_path / "home").mkdir()
    return tmp_path / "home"


@pytest.fixture
def as_user(processes: Processes, home: Path) -> As:
    def start(how: str, *words: str, mounts: str = "") -> Process:
        more, environment = STARTS[how]
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("XDG_", "HOME", "TMPDIR"))}
        mapped = [] if os.geteuid() == 0 else ["--map-root-user"]
        argv = ["unshare", "--mount", *mapped, "sh", "-c", MOUNTS % (more + mounts), "sh", str(home.parent)]
        cleared = dict.fromkeys(os.environ.keys() - kept.keys(), None)
        return processes.start([*argv, *KLEADER, *words], env={**cleared, **environment})

    return start


LOCK = ("--lock=file", "--name=t")


def test_a_user_has_one_lock_file_however_its_candidates_are_started(as_user: As, home: Path) -> None:
    leader = as_user("a service with PrivateTmp", "run", *LOCK, "--", "sleep", "600")
    leader.wait_log("command_started")
    others = {how: as_user(how, "run", *LOCK, "--no-wait", "--", "true") for how in STARTS}
    lookers = [as_user(how, "status", "t", "--lock=file", "-o", "json") for how in ("cron", "a terminal")]
    for how, other in others.items():
        assert other.wait() == 124, f"{how}: {other.err}"
    for looker in lookers:
        assert looker.wait() == 0, looker.err
        assert f'"{PLACE}/default.t.lock"' in looker.out
        assert '"state": "held"' in looker.out
    place = home / ".local/state/kleader"
    assert place.stat().st_mode & 0o777 == 0o700
    assert (place / "default.t.lock").stat().st_mode & 0o777 == 0o600


def test_lock_file_removed_with_its_directory_is_still_held_by_its_leader(
    as_user: As, home: Path, witness: Witness
) -> None:
    """A user who cleans up the home directory must not get two leaders."""
    leader = as_user("cron", "run", *LOCK, "--", *witness.command("--ignore-term"))
    witness.wait_start()
    halted = (
        leader.pid,
        file_elector_of(leader),
    )  # else they may find the file gone before the newcomer starts
    for pid in halted:
        os.kill(pid, signal.SIGSTOP)
    (home / ".local/state/kleader").rename(home / "away")
    newcomer = as_user("a terminal", "run", *LOCK, "--", *witness.command())
    newcomer.wait_log("lock_file_replaced")
    for pid in reversed(halted):  # the guard first: a leader that finds its guard stopped replaces it
        os.kill(pid, signal.SIGCONT)
    assert leader.wait() == 255
    witness.wait_start(2)
    newcomer.popen.terminate()
    newcomer.wait()
    witness.check(restarts=True)


REFUSED = {
    "mount --bind /dev/null /etc/passwd": f"user {USER} has no home directory to keep the lock file in",
    f"echo u:x:{USER}:{USER}::/nowhere: >/srv/u; mount --bind /srv/u /etc/passwd": "has no home directory",
    "mkdir -p /srv/.local/state; ln -s /srv /srv/.local/state/kleader": "is not safe for lock files",
    f"mkdir -p {PLACE}; chmod 777 {PLACE}": "is not safe for lock files",
    "mount -o remount,ro,bind /srv": "Read-only file system",
}
if os.geteuid() == 0:  # who else could give it away?
    give = f"mkdir -p {PLACE}; touch {PLACE}/default.t.lock; chmod 666 {PLACE}/*; chown -R 12345 {PLACE}"
    REFUSED[give] = "is not safe for lock files"


@pytest.mark.parametrize("mounts", REFUSED)
def test_a_user_without_a_lock_directory_must_give_a_path(as_user: As, mounts: str) -> None:
    """And no other place is guessed, which another environment might not have."""
    refused = as_user("cron", "run", *LOCK, "--", "true", mounts=mounts)
    assert refused.wait() == 125
    assert REFUSED[mounts] in refused.err
    assert "give --lock file:PATH" in refused.err
    assert refused.err.count("\n") == 1


def test_a_lock_directory_that_others_may_enter_is_made_private(as_user: As, home: Path) -> None:
    """A lock file that others can open is theirs to hold for ever."""
    place = home / ".local/state/kleader"
    assert as_user("cron", "run", *LOCK, "--", "true", mounts=f"mkdir -p {PLACE}; chmod 755 {PLACE}").wait() == 0
    assert place.stat().st_mode & 0o777 == 0o700


def test_a_user_without_a_lock_directory_can_use_a_path(as_user: As, home: Path) -> None:
    """A container's user that no passwd file knows, say; what is locked for the path is then beside the lock file."""
    option, mounts = f"--lock=file:{HOME}/x.lock", "mount --bind /dev/null /etc/passwd"
    leader = as_user("cron", "run", option, "--", "sleep", "600", mounts=mounts)
    leader.wait_log("command_started")
    (home / "x.lock").rename(home / "away")
    leader.signal(signal.SIGSTOP)
    newcomer = as_user("a terminal", "run", option, "--no-wait", "--", "true", mounts=mounts)
    assert newcomer.wait() == 124
    leader.signal(signal.SIGCONT)
