"""Which signals kleader takes, and which of them end it."""

from __future__ import annotations

import os
import signal

from kleader import system

_FAULTS = ("SEGV", "BUS", "FPE", "ILL", "TRAP", "SYS", "ABRT", "KILL", "STOP")
_IGNORABLE = {
    signal.SIGINT,
    signal.SIGQUIT,
    signal.SIGHUP,
    signal.SIGTSTP,
}  # a shell or nohup may have ignored them for kleader
_OWN = {signal.SIGCHLD, signal.SIGTTIN, signal.SIGTTOU}  # never forwarded
SHUTDOWN = {signal.SIGTERM, signal.SIGINT}  # ask a leader to end
ENDS_CANDIDATE = SHUTDOWN | {signal.SIGHUP, signal.SIGQUIT}


def take() -> system.Signals:
    """Block and queue every signal except faults, and except those that were ignored when kleader was started."""
    numbers = {int(number) for number in signal.valid_signals()}
    numbers -= {int(getattr(signal, f"SIG{name}")) for name in _FAULTS}
    numbers -= {int(number) for number in _IGNORABLE if signal.getsignal(number) is signal.SIG_IGN}
    held = {int(number) for number in SHUTDOWN} if os.getpid() == 1 else set[int]()  # by the command line: see cli.main
    return system.Signals(numbers, held)


def wanted(queue: system.Signals) -> list[system.SignalInfo]:
    """The signals that have arrived, without those that are only for kleader itself."""
    me = os.getpid()  # its own SIGPIPE: the log met a closed pipe
    return [
        info
        for info in queue.read()
        if info.number not in _OWN and not (info.number == signal.SIGPIPE and info.sender == me)
    ]


def name(number: int) -> str:
    """The name, as in SIGTERM; a real-time signal by its number."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
