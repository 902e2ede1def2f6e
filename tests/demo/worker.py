"""The command of the demo: says what it does, and keeps the witness's log. `python -I -S worker.py LOG`.

There is one line of work for the whole fleet: whoever leads does the next job.
"""

import time

BEGAN = time.clock_gettime_ns(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))  # the first act

import _signal  # type: ignore[import-not-found]  # noqa: E402 - signal itself takes as long as all the rest to import
import os  # noqa: E402
import sys  # noqa: E402

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))  # noqa: PTH100, PTH120

from tests.support.witness import BEAT, Log, born, clock, take  # noqa: E402

JOB = 400_000_000  # ns
PARTING = 200_000_000  # ns that a job takes to be finished after TERM


def say(text: str) -> None:
    """One line on standard output, which kleader leaves to the command."""
    os.write(1, f"{text}\n".encode())


def main() -> None:
    """Work until TERM, and finish the job in hand."""
    path = sys.argv[1]
    ends = {_signal.SIGTERM, _signal.SIGINT}
    _signal.pthread_sigmask(_signal.SIG_BLOCK, ends)
    say(f"start {BEGAN} {os.getpid()}")
    lock = os.open(f"{path}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    log = Log(path, min(born(), BEGAN))
    log.write("start" if take(lock) else "clash", BEGAN)
    jobs = os.open(f"{path}.jobs", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    due, until = 0, sys.maxsize
    while (now := clock()) < until:
        if now >= due and until == sys.maxsize:
            os.write(jobs, b".")
            say(f"job {os.fstat(jobs).st_size}")
            due = now + JOB
        if _signal.sigtimedwait(ends, BEAT) is not None:
            say("finishing")
            until = clock() + PARTING
        log.write("beat")
    log.write("end")
    say(f"end {clock()}")
    os._exit(0)


main()
