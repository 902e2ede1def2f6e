"""Runs kleader, with all of its processes, on a wall clock that is $BEHIND seconds behind; a prefix to its command."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path


def main() -> None:
    """The command line that the arguments contain, or, started by that, one of the lean processes."""
    here = Path(__file__).resolve()
    behind, now, now_ns = int(os.environ["BEHIND"]), time.time, time.time_ns
    time.time = lambda: now() - behind
    time.time_ns = lambda: now_ns() - behind * 1_000_000_000
    sys.path.insert(0, str(here.parents[2]))

    from kleader import boot  # noqa: PLC0415 - found by the line above

    boot.interpreter = lambda: [sys.executable, "-I", "-S", str(here)]
    if "kleader" in sys.argv:
        from kleader.cli.main import main as command_line  # noqa: PLC0415 - the lean processes have no click

        sys.argv[:] = sys.argv[sys.argv.index("kleader") :]
        command_line()
    else:
        boot.main()


if __name__ == "__main__":
    main()
