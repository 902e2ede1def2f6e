"""What the machine does: clocks, disk, memory, descriptors, processes and processors."""

from __future__ import annotations

import os
import resource
import secrets
import signal
import struct
import subprocess
import sys
import threading
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

from tests.prove.candidate import ELSEWHEN, Missed, works
from tests.prove.fault import Fault, Trial
from tests.prove.on_processes import Killed, elector, everybody, send_signal, supervisor
from tests.support.processes import wait_gone
from tests.support.trees import BROOD

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.prove.candidate import Candidate
    from tests.prove.fleet import Fleet

CROWD = 600  # processes
BUSY = "import os\ntry:\n os.nice(-5)\nexcept OSError:\n pass\nwhile True: pass"
_whole_machine = threading.Lock()  # one at a time: what each fleet gets is meant for all the processors


class WallSteps(Fault):
    """The leader's wall clock is set, by up to a day in either direction.

    In coordinated election never ahead: the control plane judges by its own clock, and would take a leader that has
    died for alive until that has caught up. Nobody leads then, and the leader warned of it.
    """

    name = "wall clock of the leader set"

    def suits(self, fleet: Fleet, leader: Candidate) -> bool:  # noqa: ARG002
        return leader.wall is not None

    def inject(self, trial: Trial) -> None:
        rng, wall = trial.rng, trial.leader.wall
        assert wall is not None
        with wall.open("r+b") as file:
            ahead = "--coordinated" not in trial.fleet.kind.options and rng.random() < 0.5
            file.write(struct.pack("d", (1 if ahead else -1) * 10 ** rng.uniform(0, 4.9)))


class DiesElsewhen(Killed):
    """SIGKILL for a leader whose CLOCK_BOOTTIME is days ahead of the others': durations alone may count."""

    def __init__(self) -> None:
        name = "whole leader on another CLOCK_BOOTTIME"
        super().__init__(name, everybody, lambda leader: leader.style.elsewhen, ends=True)

    def missing(self) -> str:
        return "" if ELSEWHEN.possible else "no time namespace can be had"


class DiskFull(Fault):
    """No room for the fencing token: the lock file has lost its content, and the disk is full when the leader ends."""

    name = "disk full, leader asked to stop"
    ends = blocks = True

    def missing(self) -> str:
        small = ("unshare", "--mount", "mount", "-t", "tmpfs", "none", "/mnt")
        return "" if works(*small) else "a small file system cannot be mounted"

    def suits(self, fleet: Fleet, leader: Candidate) -> bool:  # noqa: ARG002
        return not fleet.kind.api and os.path.ismount(fleet.lock_file.parent)

    def inject(self, trial: Trial) -> None:
        lock = trial.fleet.lock_file
        fill = lock.with_name("fill")
        trial.undo.callback(fill.unlink, missing_ok=True)
        os.truncate(lock, 0)
        with suppress(OSError), fill.open("wb", buffering=0) as file:
            while True:
                file.write(bytes(4096))
        send_signal(supervisor(trial), signal.SIGTERM)
        trial.lasts(1, 4)


class NoMemory(Fault):
    """RLIMIT_AS: the leader's elector, or guard, gets no further memory."""

    name = "elector without memory (RLIMIT_AS)"

    def inject(self, trial: Trial) -> None:
        (victim,) = elector(trial)
        with _gone():
            limit(trial, victim, resource.RLIMIT_AS, victim.memory_info().vms)
        trial.lasts(1, trial.fleet.kind.duration + 2)


_TAKES_ALL = """import sys
open("/proc/self/oom_score_adj", "w").write("-1000")
open(sys.argv[1], "w").write("0")
kept = []
while True: kept.append(bytearray(20000))"""
HOG = [sys.executable, "-I", "-S", "-c", _TAKES_ALL]


class OutOfMemory(Fault):
    """The kernel's OOM killer ends the leader's elector, or guard, in a memory cgroup where another takes all."""

    name = "elector OOM-killed"
    place = Path("/sys/fs/cgroup/memory")

    def missing(self) -> str:
        if os.geteuid() == 0 and os.access(self.place, os.W_OK) and (self.place / "memory.limit_in_bytes").exists():
            return ""
        return f"{self.place} is no memory cgroup that may be written"

    def inject(self, trial: Trial) -> None:
        (victim,) = elector(trial)
        group = self.place / f"kleader-prove-{secrets.token_hex(4)}"
        group.mkdir()
        trial.undo.callback(self._remove, group)
        (group / "memory.limit_in_bytes").write_text("65536")
        with _gone():
            (group / "cgroup.procs").write_text(str(victim.pid))
        hog = subprocess.Popen([*HOG, str(group / "cgroup.procs")], start_new_session=True)
        trial.undo.callback(_end, hog)
        wait_gone(victim.pid)

    def _remove(self, group: Path) -> None:
        """Whom it did not kill goes back to where we are."""
        mine = Path("/proc/self/cgroup").read_text().partition(":memory:/")[2].partition("\n")[0]
        (group / "memory.limit_in_bytes").write_text("-1")
        until = time.monotonic() + 5
        while group.exists() and time.monotonic() < until:
            with suppress(OSError):
                for pid in (group / "cgroup.procs").read_text().split():
                    (self.place / mine / "cgroup.procs").write_text(pid)
                group.rmdir()
            time.sleep(0.02)


class NoDescriptors(Fault):
    """RLIMIT_NOFILE: no further descriptor for the elector or guard, or for the supervisor."""

    def __init__(self, who: str, victim: Callable[[Trial], list[psutil.Process]], *, then_kill: bool = False) -> None:
        also = ", elector killed" if then_kill else ""
        self.name, self._victim, self._then_kill = f"{who} without descriptors{also}", victim, then_kill

    def inject(self, trial: Trial) -> None:
        (victim,) = self._victim(trial)
        with _gone():
            limit(trial, victim, resource.RLIMIT_NOFILE, victim.num_fds())
        if self._then_kill:
            send_signal(elector(trial), signal.SIGKILL)
        trial.lasts(1, trial.fleet.kind.duration + 2)


def limit(trial: Trial, victim: psutil.Process, which: int, most: int) -> None:
    """Set a soft limit until the trial is over."""
    soft, hard = resource.prlimit(victim.pid, which)  # type: ignore[attr-defined, unused-ignore]
    resource.prlimit(victim.pid, which, (most, hard))

    def restore() -> None:
        if victim.is_running():
            with _gone(quiet=True):
                resource.prlimit(victim.pid, which, (soft, hard))

    trial.undo.callback(restore)


@contextmanager
def _gone(*, quiet: bool = False) -> Iterator[None]:
    try:
        yield
    except (ProcessLookupError, psutil.NoSuchProcess):
        if not quiet:
            raise Missed("whom to limit has ended") from None


class Crowd(Fault):
    """A /proc that takes its time: many processes on the machine, and a leader that is asked to stop, or killed."""

    name = f"slow /proc ({CROWD} processes more), supervisor struck"
    ends = True

    def inject(self, trial: Trial) -> None:
        _alone(trial)
        file = trial.fleet.directory / f"crowd-{secrets.token_hex(4)}"
        crowd = subprocess.Popen([*BROOD, "flat", str(CROWD), str(file)], start_new_session=True)
        trial.undo.callback(_end, crowd)
        crowd.wait(60)
        send_signal(supervisor(trial), trial.rng.choice((signal.SIGTERM, signal.SIGKILL)))
        trial.hold = 2


class Starved(Fault):
    """Twice as many busy loops as there are processors, of a higher priority where that may be had."""

    name = "processors taken by busy loops"
    blocks = True

    def inject(self, trial: Trial) -> None:
        _alone(trial)
        for _ in range(2 * (os.cpu_count() or 1)):
            trial.undo.callback(_end, subprocess.Popen([sys.executable, "-c", BUSY], start_new_session=True))
        trial.lasts(2, trial.fleet.kind.duration + 2)


def _alone(trial: Trial) -> None:
    if not _whole_machine.acquire(blocking=False):
        raise Missed("the machine is busy with another fleet's")
    trial.undo.callback(_whole_machine.release)


def _end(group: subprocess.Popen[bytes]) -> None:
    """Kill it, and who is left of its process group."""
    with suppress(ProcessLookupError):
        os.killpg(group.pid, signal.SIGKILL)
    group.wait()


FAULTS: tuple[Fault, ...] = (
    WallSteps(),
    DiesElsewhen(),
    DiskFull(),
    NoMemory(),
    OutOfMemory(),
    NoDescriptors("elector", elector),
    NoDescriptors("supervisor", supervisor),
    NoDescriptors("supervisor", supervisor, then_kill=True),
    Crowd(),
    Starved(),
)
