"""The one killer: SIGKILL for every process that is found, in rounds, until it is proven that none is alive.

Nothing is released before: "The life of a term" in CONTRIBUTING.md.
"""

from __future__ import annotations

import time
from typing import NamedTuple

from kleader import system

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from kleader.system import Process

_FIRST_PAUSE, _MAX_PAUSE = 0.001, 0.05  # seconds between two rounds


class Round(NamedTuple):
    """The pids of one round: every process found, those that were alive, and those that this user may not kill."""

    found: set[int]
    living: set[int]
    refused: list[int]


def kill_round(processes: Iterable[Process]) -> Round:
    """SIGKILL once for each process that is not dead, as soon as it is found."""
    result = Round(set(), set(), [])
    for process in processes:
        result.found.add(process.pid)
        if not process.dead:
            result.living.add(process.pid)
            if not system.sigkill(process):
                result.refused.append(process.pid)
    return result


def kill_until_none(find: Callable[[], Iterable[Process]], seconds: float) -> bool:
    """Rounds until two in a row find the same processes, all dead: a fork during the first is found by the second.

    False: some process is alive after so many seconds. Raises what ``find`` raises, such as OSError for a lack of
    descriptors.
    """
    give_up, pause = time.monotonic() + seconds, _FIRST_PAUSE
    previous: set[int] | None = None
    while True:
        found, living, _ = kill_round(find())
        if not living and found == previous:
            return True
        if (living or previous is not None) and time.monotonic() >= give_up:  # not before a second look at the dead
            return False
        previous = None if living else found
        if living:
            time.sleep(pause)
            pause = min(_MAX_PAUSE, 2 * pause)


def is_alive(pid: int, start: int) -> bool:
    """Whether the process with this pid and start time exists and is no zombie. OSError: no descriptor is free."""
    now = system.process(pid)
    return now is not None and now.start == start and not now.dead
