"""A command that leaves processes behind: `brood.py KIND NUMBER FILE`; it ends once FILE holds all their pids.

flat: all its own children; chain: each the child of the one before; daemons: setsid, double-forked; bomb: each forks
NUMBER times, 2 ** NUMBER - 1 in all. All are deaf to TERM and have every descriptor closed.
"""

from __future__ import annotations

import os
import signal
import sys


def live(path: str) -> None:
    """Write the own pid, then sleep for ever, deaf to TERM."""
    signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGTERM, signal.SIGINT, signal.SIGHUP))
    with open(path, "a", encoding="ascii") as file:  # noqa: PTH123
        file.write(f"{os.getpid()}\n")
    os.closerange(0, 1024)
    while True:
        signal.pause()


def daemon(path: str) -> None:
    """Leave one that nobody is the parent of."""
    if (child := os.fork()) == 0:
        os.setsid()
        if os.fork() == 0:
            live(path)
        os._exit(0)
    os.waitpid(child, 0)


def main() -> None:
    """As the head of this file says."""
    kind, number, path = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    for index in range(number):
        if kind == "daemons":
            daemon(path)
        elif kind == "chain":
            if os.fork() > 0:
                if index == 0:
                    break
                live(path)
        elif os.fork() == 0:
            if kind == "bomb" and index < number - 1:
                continue  # 2 ** number processes in the end
            live(path)
    else:
        if kind == "chain" or (kind == "bomb" and os.getpid() != int(os.environ["BROOD"])):
            live(path)
    wanted = 2**number - 1 if kind == "bomb" else number
    while sum(1 for _ in open(path, "rb")) < wanted:  # noqa: PTH123, SIM115
        signal.sigtimedwait((), 0.005)


open(sys.argv[3], "ab").close()  # noqa: PTH123
os.environ["BROOD"] = str(os.getpid())
main()
