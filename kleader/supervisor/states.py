"""The life of ``run``, as plain data."""

from __future__ import annotations

from enum import Enum


class State(Enum):
    """What the supervisor is doing; the word is the role that its logs show."""

    WAITING = "candidate"  # the elector contends for the lock
    LEADING = "leader"  # the command runs, or is about to be started again
    STOPPING = "stopping"  # it was sent the stop signal
    SWEEPING = "sweeping"  # SIGKILL for all that is left, until nothing is
    RELEASING = "releasing"  # nothing is alive: the elector gives up the lock
    ENDED = "ended"


NEXT = {
    State.WAITING: {State.LEADING, State.RELEASING},
    State.LEADING: {State.STOPPING, State.SWEEPING},
    State.STOPPING: {State.SWEEPING},
    State.SWEEPING: {State.LEADING, State.WAITING, State.RELEASING, State.ENDED},
    State.RELEASING: {State.ENDED},
    State.ENDED: set(),
}
