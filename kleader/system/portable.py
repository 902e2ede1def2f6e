"""Where there is no Linux: what POSIX and psutil give (macOS), and Null objects for what is missing."""

from __future__ import annotations

import os
import signal
import socket
import time
from typing import NamedTuple

import psutil

from kleader.system import dispositions
from kleader.system.table import Process, descendants

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

MISSING = (
    "this system lacks three safeguards of Linux: a command does not die with kleader, a descendant whose parent has"
    " ended is not found, and time spent asleep is not counted: keep the fencing token in use"
)
_INFINITY = float("inf")


def clock() -> float:
    """Seconds; whether a suspend is counted is the system's choice."""
    return time.monotonic()


def die_with_parent(signum: int) -> None:
    """Nothing: no system but Linux has it."""


def adopt_orphans() -> None:
    """Nothing: no system but Linux has it."""


def link_pair() -> tuple[socket.socket, socket.socket]:
    """A stream, which tells of the other's death; the channel parts it into lines."""
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)


def anonymous_file() -> int:
    """A descriptor of a file that has lost its name."""
    import tempfile  # noqa: PLC0415 - costs memory

    fd, path = tempfile.mkstemp(prefix="kleader")
    os.unlink(path)
    return fd


class Timer:
    """Has no descriptor: poll's own timeout serves."""

    fd = None

    def __init__(self) -> None:
        self._at = _INFINITY

    def arm(self, at: float) -> None:
        """Wake at ``at`` instead of any instant before; inf: never."""
        self._at = at

    def drain(self) -> None:
        """Nothing rings."""

    @property
    def poll_ms(self) -> int:
        """What to give to poll; rounded up, so that it does not wake too early."""
        return -1 if self._at == _INFINITY else max(0, int((self._at - clock()) * 1000) + 1)


class KillTimer:
    """Null: there is no such timer."""

    def arm(self, at: float) -> None:
        """Nothing."""


class SignalInfo(NamedTuple):
    """A signal that arrived; who sent it is not told."""

    number: int
    terminal: bool = False
    sender: int = 0


class Signals:
    """Handlers that only queue, by way of Python's wakeup descriptor."""

    def __init__(self, numbers: set[int], held: set[int]) -> None:
        self._before = signal.pthread_sigmask(signal.SIG_BLOCK, ()) - held
        self._children_ignored = signal.getsignal(signal.SIGCHLD) is signal.SIG_IGN
        self.fd, self._wakeup = os.pipe()
        for fd in (self.fd, self._wakeup):
            os.set_blocking(fd, False)
        signal.set_wakeup_fd(self._wakeup, warn_on_full_buffer=False)
        for number in numbers:
            signal.signal(number, lambda *_: None)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, held)

    def read(self) -> list[SignalInfo]:
        """The next signals that have arrived."""
        try:
            return [SignalInfo(number) for number in os.read(self.fd, 256)]
        except BlockingIOError:
            return []

    def restore(self) -> None:
        """In a forked child: the mask that kleader was started with. exec takes the handlers away."""
        signal.set_wakeup_fd(-1)
        dispositions.restore(self._before, children_ignored=self._children_ignored)


def process(pid: int) -> Process | None:
    """The process with this pid, None if there is none to be seen."""
    try:
        found = psutil.Process(pid)
        with found.oneshot():
            dead = found.status() == psutil.STATUS_ZOMBIE
            start = int(found.create_time() * 1_000_000)
            return Process(pid, found.ppid(), os.getpgid(pid), "Z" if dead else "R", 1, start)
    except (psutil.Error, OSError):
        return None


def myself() -> Process:
    """The calling process."""
    found = process(os.getpid())
    if found is None:
        message = "this process cannot be seen in the process table"
        raise OSError(message)
    return found


def processes() -> dict[int, Process]:
    """Every process on the machine that this user may see, by pid."""
    return {pid: each for pid in psutil.pids() if (each := process(pid))}


def below(root: int, but: Collection[int]) -> Iterator[Process]:
    """The descendants of ``root``, parents first, without those in ``but`` and what is below them."""
    yield from descendants(processes(), (root,), but)


def children(but: Collection[int]) -> list[int]:
    """The children of this process, dead or alive, without those."""
    me = os.getpid()
    return [pid for pid, each in processes().items() if each.parent == me and pid not in but]


def entered(seen: set[int]) -> list[Process]:  # noqa: ARG001
    """None: there are no PID namespaces."""
    return []


def take_priority(level: int) -> None:
    """Nothing."""


def kill(target: Process, signum: int = signal.SIGKILL) -> bool:
    """Signal this process; a window of microseconds for its pid to become another's remains."""
    now = process(target.pid)
    if now is None or now.start != target.start:
        return False
    try:
        os.kill(target.pid, signum)
    except ProcessLookupError:
        return False
    return True


def sigkill(target: Process) -> bool:
    """SIGKILL for this process. False if it is not ours."""
    try:
        kill(target)
    except PermissionError:
        return False
    return True


def dead_for_good(child: int) -> bool:  # noqa: ARG001
    """Unknown: whether a zombie cannot be reaped."""
    return False


def name_of(pid: int) -> str:
    """The name of the program that a process runs, for a message; "?" where it cannot be told."""
    try:
        return psutil.Process(pid).name()
    except (psutil.Error, OSError):
        return "?"


def environment_has(pid: int, marker: str) -> bool:
    """Whether the process was started with the variable ``marker``."""
    return f"\0{marker}=".encode() in b"\0" + environment(pid)


def environment(pid: int) -> bytes:
    """What the process was started with, each variable ended by a NUL; b"" where that cannot be told."""
    try:
        found = psutil.Process(pid).environ()
    except (psutil.Error, OSError):
        return b""
    return b"".join(os.fsencode(f"{name}={value}\0") for name, value in found.items())


def filesystem(device: int) -> str:
    """The type of the file system that is mounted as this device (st_dev); "" if that cannot be told."""
    for part in psutil.disk_partitions(all=True):
        try:
            if os.stat(part.mountpoint).st_dev == device:
                return part.fstype
        except OSError:
            continue
    return ""
