"""Trees of a thousand processes, how long kleader takes to kill one, and how long a bare loop does."""

from __future__ import annotations

import datetime as dt
import json
import os
import signal
import sys
import time
from pathlib import Path

BROOD = [sys.executable, "-I", "-S", str(Path(__file__).with_name("brood.py"))]


def pids(file: Path) -> list[int]:
    """Whom the brood consists of."""
    return [int(line) for line in file.read_text().split()]


def swept(log: str) -> float:
    """The seconds from the end of the command to the release of the lock, from kleader's log as JSON."""
    moments = {line["message"].split(" with ")[0]: line["time"] for line in map(json.loads, log.splitlines())}
    ended, released = (
        dt.datetime.fromisoformat(moments[message].replace("Z", "+00:00"))
        for message in ("the command exited", "released the lock")
    )
    return (released - ended).total_seconds()


def bare_loop(victims: list[int]) -> float:
    """The seconds that it takes to kill and reap these, knowing them all; they are, or will be, children of ours."""
    began = time.monotonic()
    for pid in victims:
        os.kill(pid, signal.SIGKILL)
    for pid in victims:
        while True:
            try:
                os.waitpid(pid, 0)
                break
            except ChildProcessError:  # it comes here once its parent is dead
                time.sleep(0.001)
    return time.monotonic() - began
