"""waitpid(2) for all children at once."""

from __future__ import annotations

import os


def reap(most: int) -> list[tuple[int, int]]:
    """Pid and waitpid's status of the children that have ended or were stopped since; ``most`` at most."""
    found: list[tuple[int, int]] = []
    while len(found) < most:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG | os.WUNTRACED)
        except ChildProcessError:
            break
        if pid == 0:
            break
        found.append((pid, status))
    return found
