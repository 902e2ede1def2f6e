"""The candidates of the demo: they are started, their output is read, and they are stopped or killed."""

from __future__ import annotations

import json
import os
import selectors
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

from kleader import system

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_WORKER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "demo_worker.py")
_STEP_SECONDS = 15.0  # that a step of the story may take
_STOP_SECONDS = 5.0  # that a candidate may take to end after SIGTERM, before it is killed
_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


class DemoError(Exception):
    """The demo cannot continue; the message is one line."""


def clock_ns() -> int:
    """Nanoseconds on the clock that the workers use too."""
    return time.clock_gettime_ns(_CLOCK)


class Candidate:
    """One kleader with its worker. Instants are of ``clock_ns``."""

    def __init__(self, name: str, argv: Sequence[str], directory: str) -> None:
        self.name = name
        self._log = os.path.join(directory, f"{name}.log")
        environ = {name: value for name, value in os.environ.items() if not name.startswith("KLEADER_")}
        with open(self._log, "wb") as log:
            # In a session of its own: Ctrl-C reaches the demo alone.
            self.popen = subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                env=environ,
                start_new_session=True,
            )
        self.began = clock_ns()
        self.worker_began: int | None = None
        self.worker_ended: int | None = None
        self.clashes = 0

    @property
    def waits(self) -> bool:
        """Whether it has observed another leader."""
        return any(line.get("event") == "leader_observed" for line in self._lines())

    @property
    def last_message(self) -> str:
        """The last message that it logged."""
        return next(
            (str(line["message"]) for line in reversed(self._lines()) if "message" in line), "it logged nothing"
        )

    def _lines(self) -> list[dict[str, object]]:
        """The log; an error of the command line is no JSON."""
        with open(self._log, encoding="utf-8", errors="replace") as log:
            lines = [line for line in log if line.endswith("\n")]
        return [json.loads(line) if line.startswith("{") else {"message": line.strip()} for line in lines]

    def stop(self) -> None:
        """Send SIGTERM to kleader alone."""
        self.popen.send_signal(signal.SIGTERM)

    def kill(self) -> int:
        """Kill all its processes as if at one instant, which is ``worker_ended``; return their number."""
        me = system.process(self.popen.pid)
        found = [me, *system.below(self.popen.pid, ())] if me else []
        for process in found:
            system.kill(process, signal.SIGSTOP)
        self.worker_ended = clock_ns()
        for process in found:
            system.kill(process)
        self.popen.wait()
        return len(found)


class Stage:
    """All candidates."""

    def __init__(self, directory: str, command: Callable[[str, list[str]], list[str]]) -> None:
        self._directory, self._command = directory, command
        self._selector = selectors.DefaultSelector()
        self._unread: dict[str, bytes] = {}
        self.candidates: list[Candidate] = []
        self._held: list[int] = []
        self._on_job: Callable[[int], None] = self._held.append

    def close(self) -> None:
        """Stop the candidates that are left."""
        left = [candidate for candidate in self.candidates if candidate.popen.poll() is None]
        for candidate in left:
            candidate.stop()
        end = time.monotonic() + _STOP_SECONDS
        for candidate in left:
            try:
                candidate.popen.wait(max(end - time.monotonic(), 0.0))
            except subprocess.TimeoutExpired:
                candidate.kill()
        for candidate in self.candidates:
            if candidate.popen.stdout:
                candidate.popen.stdout.close()
        self._selector.close()

    def start(self, name: str) -> Candidate:
        """Start one more candidate."""
        worker = [sys.executable, "-I", "-S", _WORKER, self._directory]
        candidate = Candidate(name, self._command(name, worker), self._directory)
        self.candidates.append(candidate)
        if candidate.popen.stdout:
            self._selector.register(candidate.popen.stdout, selectors.EVENT_READ, candidate)
        return candidate

    def hold_jobs(self) -> None:
        """Keep the jobs back: the next leader is to be shown before its jobs."""
        self._held = []
        self._on_job = self._held.append

    def show_jobs(self, show: Callable[[int], None]) -> None:
        """Call ``show`` with every job that was kept back, and with every job as it begins."""
        for number in self._held:
            show(number)
        self._on_job = show

    def play(self, seconds: float) -> None:
        """Let the workers work."""
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            self._read(left)

    def wait(self, until: Callable[[], object], what: str, *needed: Candidate) -> None:
        """Return once ``until()``; DemoError if that takes too long or a needed candidate has ended."""
        deadline = time.monotonic() + _STEP_SECONDS
        while not until():
            for candidate in needed:
                if candidate.popen.poll() is not None:
                    self._read(0.0)
                    if not until():
                        raise DemoError(f"{candidate.name} ended: {candidate.last_message}")
            if time.monotonic() > deadline:
                message = f": {needed[0].last_message}" if needed else ""
                raise DemoError(f"{what}: not within {_STEP_SECONDS:g} s{message}")
            self._read(0.02)

    def _read(self, seconds: float) -> None:
        for key, _ in self._selector.select(seconds):
            candidate: Candidate = key.data
            data = os.read(key.fd, 4096)
            if not data:
                self._selector.unregister(key.fileobj)
            *lines, rest = (self._unread.get(candidate.name, b"") + data).split(b"\n")
            self._unread[candidate.name] = rest
            for line in lines:
                self._note(candidate, line.decode().split())

    def _note(self, candidate: Candidate, words: list[str]) -> None:
        if words[0] == "start":
            candidate.worker_began = int(words[1])
        elif words[0] == "clash":
            candidate.clashes += 1
        elif words[0] == "end":
            candidate.worker_ended = int(words[1])
        elif words[0] == "job":
            self._on_job(int(words[1]))
