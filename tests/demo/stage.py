"""The candidates of the demo: started, listened to, killed."""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from tests.support.processes import descendants
from tests.support.witness import clock

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

WORKER = Path(__file__).with_name("worker.py")
_PATIENCE = 15.0  # seconds that a step may take


class DemoError(Exception):
    """It cannot go on; one line for a person."""


class Candidate:
    """One kleader. Times are ns on the witness's clock."""

    def __init__(self, name: str, argv: Sequence[str], directory: Path) -> None:
        self.name = name
        self._err = directory / f"{name}.err"
        with self._err.open("wb") as err:
            # A session of its own: the terminal, and its Ctrl-C, stay the demo's.
            self.popen = subprocess.Popen(
                argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=err, start_new_session=True
            )
        self.began = clock()
        self.worker_began: int | None = None
        self.worker_ended: int | None = None

    @property
    def waits(self) -> bool:
        """It knows who leads."""
        return b"the leader is " in self._err.read_bytes()

    @property
    def last_words(self) -> str:
        """The last line that it logged."""
        lines = self._err.read_text(errors="replace").strip().splitlines()
        return lines[-1].removeprefix("kleader: error: ") if lines else "it said nothing"

    def stop(self) -> None:
        """TERM to kleader alone."""
        self.popen.send_signal(signal.SIGTERM)

    def kill(self) -> int:
        """SIGKILL to all of its processes, as if at once; returns how many. When is in ``worker_ended``."""
        pids = [self.popen.pid, *descendants(self.popen.pid)]
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        self.worker_ended = clock()
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        self.popen.wait()
        return len(pids)


class Stage:
    """All candidates."""

    def __init__(self, directory: Path, command: Callable[[str, list[str]], list[str]]) -> None:
        self._directory, self._command = directory, command
        self._selector = selectors.DefaultSelector()
        self._unread: dict[str, bytes] = {}
        self.candidates: list[Candidate] = []
        self.log = directory / "witness.log"
        self._held: list[int] = []
        self._on_job: Callable[[int], None] = self._held.append

    def start(self, name: str) -> Candidate:
        """One more candidate."""
        worker = [sys.executable, "-I", "-S", str(WORKER), str(self.log)]
        candidate = Candidate(name, self._command(name, worker), self._directory)
        assert candidate.popen.stdout is not None
        self._selector.register(candidate.popen.stdout, selectors.EVENT_READ, candidate)
        self.candidates.append(candidate)
        return candidate

    def hold_jobs(self) -> None:
        """Tell of no job: somebody else is about to lead."""
        self._held = []
        self._on_job = self._held.append

    def tell_jobs(self, tell: Callable[[int], None]) -> None:
        """``tell`` of every job as it is begun, and of those held."""
        for number in self._held:
            tell(number)
        self._on_job = tell

    def play(self, seconds: float) -> None:
        """Let them work."""
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            self._listen(left)

    def wait(self, until: Callable[[], object], what: str, *of: Candidate) -> None:
        """Return once ``until()``; DemoError where it takes too long, or where one ``of`` these has ended."""
        deadline = time.monotonic() + _PATIENCE
        while not until():
            for candidate in of:
                if candidate.popen.poll() is not None and not until():
                    raise DemoError(f"{candidate.name} ended: {candidate.last_words}")
            if time.monotonic() > deadline:
                words = f": {of[0].last_words}" if of else ""
                raise DemoError(f"{what}: not within {_PATIENCE:g} s{words}")
            self._listen(0.02)

    def _listen(self, seconds: float) -> None:
        for key, _ in self._selector.select(seconds):
            candidate: Candidate = key.data
            data = os.read(key.fd, 4096)
            if not data:
                self._selector.unregister(key.fileobj)
            *lines, rest = (self._unread.get(candidate.name, b"") + data).split(b"\n")
            self._unread[candidate.name] = rest
            for line in lines:
                self._hear(candidate, line.decode().split())

    def _hear(self, candidate: Candidate, words: list[str]) -> None:
        if words[0] == "start":
            candidate.worker_began = int(words[1])
        elif words[0] == "end":
            candidate.worker_ended = int(words[1])
        elif words[0] == "job":
            self._on_job(int(words[1]))
