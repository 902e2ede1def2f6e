"""Which signals kleader takes, and what they mean to it."""

from __future__ import annotations

import os
import signal

from kleader import platform

_FAULTS = ("SEGV", "BUS", "FPE", "ILL", "TRAP", "SYS", "ABRT", "KILL", "STOP")
_IGNORABLE = {signal.SIGINT, signal.SIGQUIT, signal.SIGHUP, signal.SIGTSTP}  # by shells and nohup, for what they start
_OURS = {signal.SIGCHLD, signal.SIGTTIN, signal.SIGTTOU}  # never forwarded
POLITE = {signal.SIGTERM, signal.SIGINT}  # ask a leader to end
ENDING = POLITE | {signal.SIGHUP, signal.SIGQUIT}  # end a candidate


def take() -> platform.Signals:
    """Block and queue every signal but faults, and but those that kleader was started to ignore."""
    numbers = {int(number) for number in signal.valid_signals()}
    numbers -= {int(getattr(signal, f"SIG{name}")) for name in _FAULTS}
    numbers -= {int(number) for number in _IGNORABLE if signal.getsignal(number) is signal.SIG_IGN}
    held = {int(number) for number in POLITE} if os.getpid() == 1 else set[int]()  # by the command line: see cli.main
    return platform.Signals(numbers, held)


def wanted(queue: platform.Signals) -> list[platform.SignalInfo]:
    """Those that have arrived, without what is nobody's business but kleader's."""
    me = os.getpid()  # SIGPIPE from here: the log met a closed pipe
    return [
        each
        for each in queue.read()
        if each.number not in _OURS and not (each.number == signal.SIGPIPE and each.sender == me)
    ]


def name(number: int) -> str:
    """As people write it: SIGTERM; real-time ones by number."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
