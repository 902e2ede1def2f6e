"""What systemd learns of this kleader, as sd_notify(3) has it: READY=1, STATUS=… and STOPPING=1. It decides nothing.

Every message is one datagram that is sent without waiting. One for which there is no room, memory or file descriptor is
sent again later.
"""

from __future__ import annotations

import errno
import math
import os
import socket

from kleader.supervisor.states import RunState

TYPE_CHECKING = False
if TYPE_CHECKING:
    from kleader.ipc.plan import Plan
    from kleader.log import Log
    from kleader.supervisor.term import Term

NOTIFY_SOCKET = "NOTIFY_SOCKET"
_SEND_FLAGS = socket.MSG_DONTWAIT | getattr(socket, "MSG_NOSIGNAL", 0)
_TEMPORARY = {errno.EAGAIN, errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM}
_RESEND_SECONDS = 1.0
MAX_LEADER_CHARS = 256  # of a name that another candidate chose, in a line for people


class ServiceManager:
    """Who started kleader, if it gave a socket to be notified at."""

    def __init__(self, plan: Plan, log: Log) -> None:
        address = os.environ.get(NOTIFY_SOCKET, "") if plan.notify == "kleader" else ""
        self._address = f"\0{address[1:]}" if address.startswith("@") else address
        self._log = log
        self._sent = ""
        self.due = math.inf  # when to notify again though nothing has changed

    def notify(self, state: RunState, term: Term, leader: str, *, read: bool, now: float) -> None:
        """Tell it what has changed. ``read``: the lock has been, so that this candidate stands by or leads."""
        if not self._address:
            return
        ends = term.shutdown_signal or state in {RunState.RELEASING, RunState.ENDED}
        flag = "STOPPING=1\n" if ends else "READY=1\n" if read else ""
        message = f"{flag}STATUS={_status(state, term, leader)}"
        if message == self._sent or now < self.due < math.inf:
            return
        self.due = math.inf
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
                sock.sendto(message.encode(errors="replace"), _SEND_FLAGS, self._address)
        except OSError as error:
            if error.errno in _TEMPORARY:
                self.due = now + _RESEND_SECONDS
                return
            what = f"{NOTIFY_SOCKET}: cannot notify the service manager: {error.strerror or error}"
            self._log.repeated(what, event="notify_failed")
        self._sent = message


def _status(state: RunState, term: Term, leader: str) -> str:
    """One line. Other candidates choose their names, and a line end in one would begin a message of its own."""
    if state is RunState.LEADING:
        return f"leader, token {term.lead.token}" if term.lead else state.value
    name = "".join(char if char.isprintable() else "?" for char in leader[:MAX_LEADER_CHARS])
    return f"{state.value}; the leader is {name}" if state is RunState.WAITING and leader else state.value
