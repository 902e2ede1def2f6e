"""Processes that tests start: found again, waited for, and none left behind."""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil

from tests.support.log import lines

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from tests.support.log import Line

PATIENCE = float(os.environ.get("KLEADER_TEST_PATIENCE", "120"))  # seconds that anything is waited for
_kept: set[int] = set()  # what outlives one test


def keep(pids: Iterable[int]) -> None:
    """Spare these from `sweep`: servers of the whole session."""
    _kept.update(pids)


def wait_until(condition: Callable[[], object], what: str, timeout: float = PATIENCE) -> None:
    """Return once `condition()` is true, asked every 2 ms; AssertionError with `what` where that takes longer."""
    deadline = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < deadline, f"{what}: not within {timeout:g} s"
        time.sleep(0.002)


def alive(pid: int) -> bool:
    """Tell whether any thread of the process runs: a zombie is dead only when it has no second thread.

    What tests start descends from this process, orphans too: any other process has been given the pid of a dead one.
    """
    return _runs(pid) and (sys.platform != "linux" or _descends(pid))


def _runs(pid: int) -> bool:
    try:
        process = psutil.Process(pid)
        return process.status() != psutil.STATUS_ZOMBIE or process.num_threads() > 1
    except psutil.NoSuchProcess:
        return False


def _descends(pid: int) -> bool:
    """Whether a process is this one or descends from it; False for one that has ended."""
    ancestor = pid
    while ancestor not in {os.getpid(), 0}:
        try:
            ancestor = psutil.Process(ancestor).ppid()
        except psutil.NoSuchProcess:  # what it left has another parent now
            if ancestor == pid:
                return False
            ancestor = pid
    return ancestor != 0


def descendants(pid: int) -> list[int]:
    """Return the living descendants, by parent; what a subreaper adopted from them is not among them."""
    try:
        return [child.pid for child in psutil.Process(pid).children(recursive=True) if _runs(child.pid)]
    except psutil.NoSuchProcess:
        return []


def masked(pid: int, mask: str, number: int) -> bool:
    """Whether a signal is in this mask of /proc/pid/status (proc(5)): SigBlk, blocked; ShdPnd, waiting to be taken."""
    status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8", errors="replace")
    found = [line.split()[1] for line in status.splitlines() if line.startswith(f"{mask}:")]
    return any(int(each, 16) >> (number - 1) & 1 for each in found)


def wait_gone(*pids: int, timeout: float = PATIENCE) -> None:
    """Return once none of these is alive."""
    wait_until(lambda: not any(map(alive, pids)), f"the end of {pids}", timeout)


class Process:
    """One started program; its standard output and error are files, unless the test gave others."""

    def __init__(self, name: str, popen: subprocess.Popen[bytes], out: Path, err: Path) -> None:
        self.name = name
        self.popen = popen
        self.pid = popen.pid
        self._out, self._err = out, err

    @property
    def out(self) -> str:
        """Standard output so far."""
        return self._out.read_text(errors="replace")

    @property
    def err(self) -> str:
        """Standard error so far."""
        return self._err.read_text(errors="replace")

    @property
    def running(self) -> bool:
        return self.popen.poll() is None

    def signal(self, number: int) -> None:
        """Send a signal to this process alone."""
        self.popen.send_signal(number)

    def kill(self) -> None:
        """Kill this process alone (SIGKILL), and reap it; its descendants are not touched."""
        self.popen.kill()
        self.popen.wait(PATIENCE)

    def wait(self, timeout: float = PATIENCE) -> int:
        """Return the exit status, -N for death by signal N; AssertionError with its last words where it runs on."""
        try:
            return self.popen.wait(timeout)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"{self.name} runs on after {timeout:g} s:\n{self.tail()}") from None

    def wait_err(self, pattern: str, count: int = 1, timeout: float = PATIENCE) -> re.Match[str]:
        """Return the `count`-th match of the regular expression in standard error, as soon as it is there."""
        deadline = time.monotonic() + timeout
        while True:
            ended = not self.running  # asked before reading: what it wrote last is then read
            found = list(re.finditer(pattern, self.err, re.MULTILINE))
            if len(found) >= count:
                return found[count - 1]
            state = f"ended with {self.popen.returncode}" if ended else f"not within {timeout:g} s"
            assert not ended, f"{self.name}: {pattern!r}: {state}:\n{self.tail()}"
            assert time.monotonic() < deadline, f"{self.name}: {pattern!r}: {state}:\n{self.tail()}"
            time.sleep(0.005)

    def logged(self, event: str = "", about: str = "", *, level: str = "", role: str = "") -> list[Line]:
        """Return what kleader has logged of an event, with ``about`` in the message; see tests.support.log."""
        found = [line for line in lines(self.err) if line.is_of(event, about)]
        return [line for line in found if level in {"", line.level} and role in {"", line.role}]

    def wait_log(self, event: str, about: str = "", *, count: int = 1, level: str = "", role: str = "") -> Line:
        """Return the ``count``-th such line, as soon as it is there."""
        deadline, wanted = time.monotonic() + PATIENCE, f"{event} {about} {role}".strip()
        while True:
            ended = not self.running  # asked before reading, as above
            found = self.logged(event, about, level=level, role=role)
            if len(found) >= count:
                return found[count - 1]
            state = f"ended with {self.popen.returncode}" if ended else f"not within {PATIENCE:g} s"
            assert not ended and time.monotonic() < deadline, f"{self.name}: {wanted}: {state}:\n{self.tail()}"  # noqa: PT018
            time.sleep(0.005)

    def tail(self, lines: int = 40) -> str:
        """Return the last lines of what it wrote to standard error."""
        return "\n".join(f"  {self.name}: {line}" for line in self.err.splitlines()[-lines:])


class Processes:
    """Starts programs for one test."""

    def __init__(self, directory: Path) -> None:
        self._dir = directory
        self._all: list[Process] = []

    def start(
        self,
        argv: Sequence[str | Path],
        *,
        name: str | None = None,
        env: Mapping[str, str | None] | None = None,
        **options: Any,  # noqa: ANN401 - Popen's own
    ) -> Process:
        """Start a program; `env` is added to this process's own, None taking a variable away; `options` are Popen's."""
        label = name or f"{Path(argv[0]).name}-{len(self._all)}"
        environ = {**os.environ, **(env or {})}
        out, err = self._dir / f"{label}-{len(self._all)}.out", self._dir / f"{label}-{len(self._all)}.err"
        with out.open("wb") as stdout, err.open("wb") as stderr:
            files = {"stdin": subprocess.DEVNULL, "stdout": stdout, "stderr": stderr}
            popen: subprocess.Popen[bytes] = subprocess.Popen(
                [str(part) for part in argv],
                env={key: value for key, value in environ.items() if value is not None},
                **{**files, **options},
            )
        process = Process(label, popen, out, err)
        self._all.append(process)
        return process

    def end(self) -> None:
        """Kill what still runs, and print each one's last words: pytest shows them where the test failed."""
        for process in self._all:
            if process.running:
                process.kill()
            print(process.tail())  # noqa: T201


def adopt_orphans() -> None:
    """Make this process the one that orphans of its descendants come to, so that `sweep` finds them. Linux only."""
    if sys.platform == "linux":
        pr_set_child_subreaper = 36
        ctypes.CDLL(None).prctl(pr_set_child_subreaper, 1, 0, 0, 0)


def sweep(timeout: float = PATIENCE) -> list[int]:
    """Kill and reap every child of this process but the kept ones, orphans as they come; return who they were."""
    swept: list[int] = []
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:  # it has none: most tests start no process, and to look takes as long as some of them
        return swept
    deadline = time.monotonic() + timeout
    while children := [pid for pid in _children() if pid not in _kept]:
        for pid in children:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            with contextlib.suppress(ChildProcessError):
                if os.waitpid(pid, os.WNOHANG)[0]:
                    swept.append(pid)
        assert time.monotonic() < deadline, f"processes that do not die: {children}"
        time.sleep(0.001)
    return swept


def any_child() -> bool:
    """Whether a child of this process lives, an orphan among them too, but for the kept ones."""
    return any(alive(pid) for pid in _children() if pid not in _kept)


def _children() -> list[int]:
    try:
        lists = [path.read_text() for path in Path("/proc/self/task").glob("*/children")]
    except OSError:  # a thread ended meanwhile
        lists = []
    if not lists:
        return [child.pid for child in psutil.Process().children()]
    return [int(pid) for text in lists for pid in text.split()]
