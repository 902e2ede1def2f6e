"""How long it takes to begin."""

from __future__ import annotations

import datetime as dt
import subprocess
import sys
import time
from typing import TYPE_CHECKING

from tests.bench.fleet import kleader

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.controlplane import ControlPlane

BASE = "python -c pass"
FILE = "kleader run --lock file -- true"
HELP = "kleader --help"
FIRST = "kleader run: to its first request"


def of_commands(trials: int, directory: Path) -> dict[str, list[float]]:
    """Seconds from fork to exit of each command, in turn; one warming round is thrown away."""
    run = [*kleader(), "run", "--lock", f"file:{directory / 'startup.lock'}", "--name", "startup", "--", "true"]
    commands = {BASE: [sys.executable, "-c", "pass"], HELP: [*kleader(), "--help"], FILE: run}
    taken: dict[str, list[float]] = {name: [] for name in commands}
    for _ in range(trials + 1):
        for name, argv in commands.items():
            began = time.perf_counter()
            subprocess.run(argv, check=True, capture_output=True)
            taken[name].append(time.perf_counter() - began)
    return {name: values[1:] for name, values in taken.items()}


def first_request(plane: ControlPlane, trials: int) -> list[float]:
    """Seconds from before the fork until the API server has received the first request (its audit log)."""
    taken = []
    for _ in range(trials):
        user = plane.new_user()
        config = str(plane.kubeconfig(user))
        began = time.time()
        options = ["--kubeconfig", config, "--name", f"startup-{user}"]
        subprocess.run([*kleader(), "run", *options, "--", "true"], check=True, capture_output=True)
        first = plane.audit_requests(user)[0]["requestReceivedTimestamp"]
        taken.append(dt.datetime.fromisoformat(first.replace("Z", "+00:00")).timestamp() - began)
    return taken
