"""`kleader resign` and `kleader transfer`, as tests run them."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support.plane import Plane
    from tests.support.processes import Process, Processes

    Ask = Callable[..., Process]

REQUEST, INCARNATION, GIVEN = "kleader/request", "kleader/incarnation", "kleader/given"
NOT_DONE, USAGE, FAILED = 1, 2, 125


def asker(plane: Plane, namespace: str, processes: Processes) -> Ask:
    """Starts one: `ask("resign", "--lock=lease")`."""

    def start(command: str, *args: str, name: str = "x", user: str = "admin", server: str | None = None) -> Process:
        config = plane.kubeconfig(user, namespace, server=server)
        argv = [sys.executable, "-m", "kleader", command, name, f"--kubeconfig={config}", *args]
        return processes.start(argv, name=f"{command}-{name}", stdin=-3)

    return start
