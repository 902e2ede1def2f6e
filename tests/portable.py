"""python -m tests.portable: tests of processes with the platform that kleader has where there is no Linux, as on macOS.

They run here, in a copy of the tree whose package `kleader.system` is forced to take `portable`. Tests with the mark
`linux` are left out: each is about one of the three guards that `portable.MISSING` names.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.support.copied import copied

CHOICE = 'if sys.platform == "linux":'
ROOMS = ("life", "status", "file_lock", "deadline", "step_down", "elector", "command_environment")


def main() -> int:
    """Run them; returns the exit status of pytest."""
    with tempfile.TemporaryDirectory(prefix="kleader-portable-") as scratch:
        tree = copied(Path(scratch, "tree"))
        facade = tree / "kleader" / "system" / "__init__.py"
        before, _, after = facade.read_text().partition(CHOICE)
        facade.write_text(f"{before}if not sys.platform:{after}")
        rooms = [f"tests/process/test_{name}.py" for name in ROOMS]
        words = ["-m", "not linux and not slow", "-p", "no:cacheprovider", *sys.argv[1:]]
        environ = {**os.environ, "PYTHONPATH": str(tree)}
        return subprocess.run(
            [sys.executable, "-m", "pytest", *rooms, *words], cwd=tree, env=environ, check=False
        ).returncode


if __name__ == "__main__":
    sys.exit(main())
