"""The story of the demo: three candidates for one lock; the leader is killed, the next ones are stopped."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

from kleader import system
from kleader.cli.demo_picture import BOLD, GREEN, RED, YELLOW, Bar

if TYPE_CHECKING:
    from collections.abc import Callable

    from kleader.cli.demo_picture import Picture

_NAMES = ("ada", "bob", "cyd")
_ACT_SECONDS = 2.2  # between two events
_STEP_SECONDS = 15.0  # that a step of the story may take
_STOP_SECONDS = 5.0  # that a candidate may take to end after SIGTERM, before it is killed
_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)  # the workers' too
_WORKER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "demo_worker.py")
_PIPE_BYTES = 1 << 16  # that a pipe holds: lines are written whole, and so they are read


class DemoError(Exception):
    """The demo cannot continue; the message is one line."""


def clock_ns() -> int:
    """Nanoseconds on the clock that the workers use too."""
    return time.clock_gettime_ns(_CLOCK)


class DemoCandidate:
    """One kleader with its worker, which writes to ``output``. Instants are of ``clock_ns``; 0: not yet."""

    worker_began = 0
    worker_ended = 0
    is_killed = False

    def __init__(self, name: str, directory: str, output: int) -> None:
        self.name, self._log = name, os.path.join(directory, f"{name}.log")
        # An installed kleader is on the path of its launcher alone.
        path = [*map(os.path.abspath, sys.path)]
        program = f"import sys; sys.path[:] = {path}; from kleader.cli.main import main; main()"
        lock = ["--lock", f"file:{directory}/demo.lock", "--name", "demo", "--identity", name]
        worker = [sys.executable, "-I", "-S", _WORKER, directory, name]
        command = [sys.executable, "-I", "-c", program, "run", *lock, "--log-format", "json", "--", *worker]
        environ = {name: value for name, value in os.environ.items() if not name.startswith("KLEADER_")}
        with open(self._log, "wb") as log:
            # In a session of its own: Ctrl-C reaches the demo alone.
            self.popen = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=output, stderr=log, env=environ, start_new_session=True
            )
        self.began = clock_ns()

    @property
    def waits(self) -> bool:
        """Whether it has observed another leader."""
        return any('"event": "leader_observed"' in line for line in self._lines())

    @property
    def last_message(self) -> str:
        """The last message that it logged; an error of the command line is no JSON."""
        lines = self._lines()
        last = lines[-1].strip() if lines else "it logged nothing"
        return str(json.loads(last)["message"]) if last.startswith("{") else last

    def _lines(self) -> list[str]:
        with open(self._log, encoding="utf-8", errors="replace") as log:
            return [line for line in log if line.endswith("\n")]

    def signal(self, number: int) -> int:
        """Signal all its processes, as if at one instant; return their number."""
        me = system.process(self.popen.pid)
        found = [me, *system.below(self.popen.pid, ())] if me else []
        for process in found:
            system.kill(process, number)
        return len(found)


class Story:
    """Plays and shows the story, in about ten seconds."""

    def __init__(self, directory: str, picture: Picture) -> None:
        self._directory, self._picture = directory, picture
        self._lines, self._output = os.pipe()  # one for all workers, so that their lines are in order
        self._candidates: dict[str, DemoCandidate] = {}
        self._overlaps = 0

    def play(self) -> bool:
        """Return False if two workers were alive at once; DemoError."""
        picture = self._picture
        picture.line("kleader: three candidates for one lock, a file on this machine", BOLD)
        picture.line("Each is `kleader run -- worker`. A worker runs only where its kleader leads.\n")
        picture.zero = clock_ns()
        self._start(_NAMES[0])
        first = self._leader()
        others = [self._start(name) for name in _NAMES[1:]]
        self._wait(lambda: all(each.waits for each in others), "the others wait")
        picture.event(clock_ns(), " and ".join(_NAMES[1:]), "wait", YELLOW)
        self._act()
        self._kill(first)
        second = self._leader()
        self._act()
        self._stop(second)
        third = self._leader()
        self._act()
        self._stop(third)
        everyone = self._candidates.values()
        picture.chart([Bar(e.name, e.began, e.worker_began, e.worker_ended, e.is_killed) for e in everyone])
        gaps = second.worker_began - first.worker_ended, third.worker_began - second.worker_ended
        picture.measured(f"{first.name} was killed → {second.name}'s worker runs", gaps[0])
        picture.measured(f"{second.name}'s worker had ended → {third.name}'s worker runs", gaps[1])
        text = f"Overlaps: {self._overlaps} of 2 handovers; each worker held a lock that would have shown one."
        picture.line(text, RED if self._overlaps else GREEN)
        return not self._overlaps

    def close(self) -> None:
        """Stop the candidates that are left."""
        for candidate in self._candidates.values():
            candidate.popen.terminate()
        end = time.monotonic() + _STOP_SECONDS
        for candidate in self._candidates.values():
            try:
                candidate.popen.wait(max(end - time.monotonic(), 0.0))
            except subprocess.TimeoutExpired:
                candidate.signal(signal.SIGKILL)

    def _start(self, name: str) -> DemoCandidate:
        self._candidates[name] = DemoCandidate(name, self._directory, self._output)
        return self._candidates[name]

    def _leader(self) -> DemoCandidate:
        """The candidate whose worker runs, once there is one."""

        def leaders() -> list[DemoCandidate]:
            return [each for each in self._candidates.values() if each.worker_began and not each.worker_ended]

        self._wait(leaders, "a leader")
        return leaders()[0]

    def _kill(self, leader: DemoCandidate) -> None:
        number = leader.signal(signal.SIGSTOP)
        self._read(0.0)
        self._picture.event(clock_ns(), leader.name, f"KILLED: kleader and worker at once, {number} processes", RED)
        leader.worker_ended, leader.is_killed = clock_ns(), True
        leader.signal(signal.SIGKILL)
        leader.popen.wait()

    def _stop(self, leader: DemoCandidate) -> None:
        self._picture.event(clock_ns(), leader.name, "SIGTERM to its kleader, which stops its worker")
        leader.popen.terminate()
        self._wait(lambda: leader.worker_ended, f"the end of {leader.name}'s worker")

    def _act(self) -> None:
        """Let the workers work."""
        until = time.monotonic() + _ACT_SECONDS
        while (left := until - time.monotonic()) > 0:
            self._read(left)

    def _wait(self, until: Callable[[], object], what: str) -> None:
        """Return once ``until()``; DemoError if that takes too long, or if a candidate has ended before its worker."""
        deadline = time.monotonic() + _STEP_SECONDS
        while not until():
            ended = [each for each in self._candidates.values() if each.popen.poll() is not None]
            self._read(0.02)
            for each in ended:
                if not each.worker_ended:
                    raise DemoError(f"{each.name} ended: {each.last_message}")
            if time.monotonic() > deadline:
                last = "; ".join(f"{name}: {each.last_message}" for name, each in self._candidates.items())
                raise DemoError(f"{what}: not within {_STEP_SECONDS:g} s; {last}")

    def _read(self, seconds: float) -> None:
        """Show what the workers report, for at most so many seconds until the first line."""
        if not select.select([self._lines], [], [], seconds)[0]:
            return
        for line in os.read(self._lines, _PIPE_BYTES).decode().splitlines():
            name, what, number = line.split()
            candidate = self._candidates[name]
            if what == "start":
                candidate.worker_began = int(number)
                self._picture.event(candidate.worker_began, name, "LEADS: its worker runs", GREEN)
            elif what == "job":
                self._picture.job(number)
            elif what == "clash":
                self._overlaps += 1
            else:
                candidate.worker_ended = int(number)
                self._picture.event(candidate.worker_ended, name, "its worker has finished its job and ended")
