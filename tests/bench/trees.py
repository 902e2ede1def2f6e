"""How long a tree of 1,000 processes takes to die."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

from tests.bench.fleet import kleader
from tests.support.trees import BROOD, bare_loop, pids, swept

if TYPE_CHECKING:
    from pathlib import Path

BARE, KLEADER = "a loop that knows them all", "kleader, until the lock is released"


def killed(trials: int, directory: Path) -> dict[str, list[float]]:
    """Seconds of each, in turn, each tree alone."""
    taken: dict[str, list[float]] = {BARE: [], KLEADER: []}
    for number in range(trials):
        bare, ours = (directory / f"tree-{number}-{side}" for side in ("bare", "ours"))
        subprocess.run([*BROOD, "daemons", "1000", str(bare)], check=True)
        taken[BARE].append(bare_loop(pids(bare)))
        options = ["--lock", f"file:{directory / 'tree.lock'}", "--name", "tree", "--log-format", "json"]
        command = [*kleader(), "run", *options, "--", *BROOD, "daemons", "1000", str(ours)]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        taken[KLEADER].append(swept(done.stderr))
    return taken
