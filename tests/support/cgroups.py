"""Cgroups (version 2) that tests start programs in, where this machine lets them make some."""

from __future__ import annotations

import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from tests.support.processes import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator


class Cgroup(NamedTuple):
    """A directory in which nothing runs yet."""

    place: Path

    @property
    def join(self) -> list[str]:
        """Words before a command, for it to be started in here."""
        return ["sh", "-c", f'echo $$ >{self.place}/cgroup.procs; exec "$@"', "-"]

    @property
    def pids(self) -> list[int]:
        """All that is in it, zombies not counted."""
        return [int(pid) for pid in (self.place / "cgroup.procs").read_text(encoding="ascii").split()]


@contextmanager
def made() -> Iterator[Cgroup]:
    """A cgroup of the test's own; all in it dies with it. OSError where none can be made."""
    mounts = Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines()
    mount = next((fields[4] for line in mounts if "cgroup2" in (fields := line.split())), "/nowhere")
    cgroup = Cgroup(Path(tempfile.mkdtemp(prefix="kleader-", dir=mount)))
    try:
        yield cgroup
    finally:
        if (cgroup.place / "cgroup.kill").exists():
            (cgroup.place / "cgroup.kill").write_text("1", encoding="ascii")
            wait_until(lambda: not cgroup.pids, "the end of all in the cgroup")
        cgroup.place.rmdir()


def may_be_made() -> bool:
    """Whether this machine has them (cgroup2 mounted, with cgroup.kill) and this user may make one."""
    try:
        with made() as cgroup:
            return (cgroup.place / "cgroup.kill").exists()
    except OSError:
        return False
