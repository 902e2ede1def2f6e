"""Writes the number of each signal it gets, one a line; ends with the SIGCONT that follows a SIGTERM."""

from __future__ import annotations

import signal
import sys

everything = signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}
signal.pthread_sigmask(signal.SIG_BLOCK, everything)
print("ready", flush=True)  # noqa: T201
ending = False
while True:
    number = signal.sigwait(everything)
    print(int(number), flush=True)  # noqa: T201
    if number == signal.SIGTERM:
        ending = True
    if ending and number == signal.SIGCONT:
        sys.exit(0)
