"""Run a command that the kernel kills when the process which started it dies: `die_with_parent.py PPID COMMAND...`.

An exec of its own in place of a preexec function: that one can deadlock in a process with threads. Linux; elsewhere the
command is run as it is. The parent's *thread* must live on, so start it from the main thread.
"""

import os
import signal
import sys


def main() -> None:
    parent, command = int(sys.argv[1]), sys.argv[2:]
    if sys.platform == "linux":
        import ctypes  # noqa: PLC0415

        pr_set_pdeathsig = 1
        ctypes.CDLL(None).prctl(pr_set_pdeathsig, int(signal.SIGKILL), 0, 0, 0)
        if os.getppid() != parent:  # it died before the kernel knew
            sys.exit(1)
    for ignored in (signal.SIGPIPE, signal.SIGXFSZ):  # by Python; exec would pass it on
        signal.signal(ignored, signal.SIG_DFL)
    os.execvp(command[0], command)


main()
