"""The life of ``run``, as plain data."""

from __future__ import annotations

from enum import Enum


class State(Enum):
    """What the supervisor is doing; the word is the role that its logs show."""

    RESTING = "resting"  # not well, or was not a moment ago: no elector contends
    WAITING = "candidate"  # the elector contends for the lock
    GIVING_WAY = "giving way"  # the lock is held, and the standby is made to end before the command is started
    LEADING = "leader"  # the command runs, or is about to be started again
    STOPPING = "stopping"  # it was sent the stop signal
    SWEEPING = "sweeping"  # SIGKILL for all that is left, until nothing is
    RELEASING = "releasing"  # nothing is alive: the elector gives up the lock
    ENDED = "ended"


NEXT = {
    State.RESTING: {State.WAITING, State.RELEASING},
    State.WAITING: {State.GIVING_WAY, State.LEADING, State.RESTING, State.RELEASING},
    State.GIVING_WAY: {State.SWEEPING, State.RELEASING},
    State.LEADING: {State.STOPPING, State.SWEEPING},
    State.STOPPING: {State.SWEEPING},
    State.SWEEPING: {State.LEADING, State.WAITING, State.RESTING, State.RELEASING, State.ENDED},
    State.RELEASING: {State.ENDED},
    State.ENDED: set(),
}
