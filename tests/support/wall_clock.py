"""Runs the kleader of the working directory on a wall clock of its own; a prefix to its command.

$WALL is a file that holds, as a C double, how many seconds that clock is ahead just now. It is Python's clock: what
OpenSSL thinks of certificates goes by the machine's.
"""

from __future__ import annotations

import mmap
import os
import struct
import sys
import time
from pathlib import Path


def main() -> None:
    """The command line that the arguments contain, or, started by that, one of the lean processes."""
    with open(os.environ["WALL"], "rb") as file:  # noqa: PTH123 - as few imports as the lean processes
        page = mmap.mmap(file.fileno(), 8, prot=mmap.PROT_READ)
    now, now_ns = time.time, time.time_ns

    def ahead() -> float:
        seconds: float = struct.unpack("d", page)[0]
        return seconds

    time.time = lambda: now() + ahead()
    time.time_ns = lambda: now_ns() + int(ahead() * 1e9)
    sys.path.insert(0, os.getcwd())  # noqa: PTH109 - likewise

    from kleader import launch  # noqa: PLC0415 - found by the line above

    launch.interpreter = lambda: [sys.executable, "-I", "-S", str(Path(__file__).resolve())]
    if "kleader" in sys.argv:
        from kleader.cli.main import main as command_line  # noqa: PLC0415 - the lean processes have no click

        sys.argv[:] = sys.argv[sys.argv.index("kleader") :]
        command_line()
    else:
        launch.main()


if __name__ == "__main__":
    main()
