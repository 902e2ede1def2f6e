"""A copy of this source tree, in which a program may alter what the tests then run."""

from __future__ import annotations

import shutil
from pathlib import Path

ROOT = Path(__file__).parents[2]
LEFT_OUT = (".git", ".venv", "build", "dist", "__pycache__", ".*_cache", "*.egg-info")


def copied(to: Path) -> Path:
    """Copy the tree there, without what was built in it; returns the place."""
    shutil.copytree(ROOT, to, symlinks=True, ignore=shutil.ignore_patterns(*LEFT_OUT))
    return to
