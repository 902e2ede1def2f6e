"""A server process of the tests: it dies with them, can be paused, and shows its log's end when it fails."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from tests.support.processes import PATIENCE

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

STARTED_WITHIN = max(PATIENCE, 120.0)  # seconds; a server is no quicker where tests wait less
DIE_WITH_PARENT = [sys.executable, "-I", "-S", str(Path(__file__).with_name("die_with_parent.py"))]


class DaemonError(AssertionError):
    """It did not start, or not stop; the text ends with its log's tail."""


class Daemon:
    """One process, started and stopped as often as a test likes, with one log file.

    `ready` is polled after each start, and tells True once the process serves. Start from the main thread (PDEATHSIG).
    """

    def __init__(self, name: str, argv: Sequence[str], log: Path, ready: Callable[[], bool]) -> None:
        self.name = name
        self.argv = list(argv)
        self.log = log
        self._ready = ready
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """The process id while it runs, paused or not; AssertionError otherwise."""
        assert self._process is not None, f"{self.name} does not run"
        return self._process.pid

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self, timeout: float = STARTED_WITHIN, *, wait: bool = True) -> None:
        """Start it, and return once it is ready; DaemonError with its log's tail where it is not within `timeout` s."""
        assert not self.running, f"{self.name} runs already"
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [*DIE_WITH_PARENT, str(os.getpid()), *self.argv],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,  # Ctrl-C at pytest is not for it
            )
        if wait:
            self.wait_ready(timeout)

    def wait_ready(self, timeout: float = STARTED_WITHIN) -> None:
        """Return once it is ready; DaemonError with its log's tail where it is not within `timeout` s."""
        deadline = time.monotonic() + timeout
        while not self._ready():
            if not self.running:
                status = self._process.returncode if self._process else None
                raise DaemonError(f"{self.name} ended with status {status}:\n{self.tail()}")
            if time.monotonic() > deadline:
                self.kill()
                raise DaemonError(f"{self.name} was not ready within {timeout:g} s:\n{self.tail()}")
            time.sleep(0.02)

    def stop(self, timeout: float = PATIENCE) -> None:
        """Stop it politely (TERM), and wait; what does not go within `timeout` s is killed, and that is an error."""
        if not self.running:
            return
        self.resume()
        os.kill(self.pid, signal.SIGTERM)
        try:
            self._reap(timeout)
        except subprocess.TimeoutExpired:
            self.kill()
            raise DaemonError(f"{self.name} did not stop within {timeout:g} s:\n{self.tail()}") from None

    def kill(self) -> None:
        """Kill it (SIGKILL), and wait until it is gone."""
        if self.running:
            os.kill(self.pid, signal.SIGKILL)
            self._reap(PATIENCE)

    def pause(self) -> None:
        """Stop it where it stands (SIGSTOP): its connections stay open, and nobody answers."""
        os.kill(self.pid, signal.SIGSTOP)
        os.waitid(os.P_PID, self.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)  # a thread of it may serve until then

    def resume(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    def tail(self, lines: int = 25) -> str:
        """Return the end of its log."""
        text = self.log.read_text(errors="replace") if self.log.exists() else ""
        return "\n".join(f"  {self.name}: {line}" for line in text.splitlines()[-lines:])

    def _reap(self, timeout: float) -> None:
        assert self._process is not None
        self._process.wait(timeout)
