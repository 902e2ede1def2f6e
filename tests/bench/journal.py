"""What the command wrote: when each leader's command ran, on CLOCK_BOOTTIME."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.support.gobuild import GoModule

if TYPE_CHECKING:
    from pathlib import Path

_MODULE = GoModule("bench/command", {"command": "kleader.test/bench/command"})
_LOOK_EVERY = 0.004  # seconds


def build() -> Path:
    """Return the command's binary, built where it is not yet; GoError where that cannot be."""
    return _MODULE.build("command") / "command"


def clock() -> float:
    """Seconds on the clock of the journal."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


@dataclass
class Run:
    """One run of the command: seconds on :func:`clock`; ``end`` is inf where it was killed, or runs."""

    identity: str
    pid: int
    start: float
    end: float = math.inf


class Journal:
    """The runs of one fleet's command, oldest first."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.runs: list[Run] = []
        self._read = 0
        path.touch()

    def argv(self) -> list[str]:
        """The command that writes it."""
        return [str(build()), str(self.path)]

    def look(self) -> list[Run]:
        """The runs so far."""
        with self.path.open() as file:
            file.seek(self._read)
            while (line := file.readline()).endswith("\n"):
                self._read += len(line)
                event, at, pid, identity = line.split()
                if event == "start":
                    self.runs.append(Run(identity, int(pid), int(at) / 1e9))
                else:
                    next(run for run in reversed(self.runs) if run.pid == int(pid)).end = int(at) / 1e9
        return self.runs

    def wait_runs(self, number: int, timeout: float = 60) -> Run:
        """Return the ``number``-th run (from 1) as soon as it has begun."""
        deadline = time.monotonic() + timeout
        while len(self.look()) < number:
            assert time.monotonic() < deadline, f"{self.path.name}: no run number {number} within {timeout:g} s"
            time.sleep(_LOOK_EVERY)
        return self.runs[number - 1]

    def overlaps(self) -> int:
        """How many runs began while an earlier one had not ended; one that was killed does not count as earlier."""
        runs = self.look()
        return sum(
            any(math.isfinite(earlier.end) and earlier.end > later.start for earlier in runs[:number])
            for number, later in enumerate(runs)
        )
