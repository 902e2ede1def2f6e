"""The command of the demo: it reports on standard output. ``python -I -S demo_worker.py DIRECTORY NAME``.

The lines are ``NAME start NS``, ``NAME clash NS`` if another worker is alive, ``NAME job N`` and ``NAME end NS``. All
workers share one file of jobs, so that a leader goes on where the earlier leader ended.
"""

import time

CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
BEGAN = time.clock_gettime_ns(CLOCK)  # before any import

import _signal  # type: ignore[import-not-found]  # noqa: E402 - signal imports enum, which takes longer than the rest
import fcntl  # noqa: E402
import os  # noqa: E402
import sys  # noqa: E402

JOB_SECONDS = 0.4
FINISH_SECONDS = 0.2  # that a job takes to be finished after SIGTERM


def report(what: str, number: int) -> None:
    """Write one line on standard output, which kleader leaves to the command."""
    os.write(1, f"{sys.argv[2]} {what} {number}\n".encode())


def main() -> None:
    """Work until SIGTERM, finish the job at hand, and exit."""
    directory = sys.argv[1]
    ends = {_signal.SIGTERM, _signal.SIGINT}
    _signal.pthread_sigmask(_signal.SIG_BLOCK, ends)
    report("start", BEGAN)
    witness = os.open(f"{directory}/witness", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(witness, fcntl.LOCK_EX | fcntl.LOCK_NB)  # the kernel frees it when this process is dead
    except BlockingIOError:
        report("clash", BEGAN)
    jobs = os.open(f"{directory}/jobs", os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
    while True:
        os.write(jobs, b".")
        report("job", os.fstat(jobs).st_size)
        if _wait_for_signal(ends, JOB_SECONDS):
            break
    time.sleep(FINISH_SECONDS)
    report("end", time.clock_gettime_ns(CLOCK))
    os._exit(0)


def _wait_for_signal(numbers: set[int], seconds: float) -> bool:
    if hasattr(_signal, "sigtimedwait"):
        # After a stop that lasts beyond the time, CPython returns the data of no signal.
        got = _signal.sigtimedwait(numbers, seconds)
        return got is not None and got.si_signo in numbers
    time.sleep(seconds)  # macOS
    return bool(_signal.sigpending() & numbers)


main()
