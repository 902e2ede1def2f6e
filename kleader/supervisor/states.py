"""The states of ``run`` and the transitions between them, as plain data."""

from __future__ import annotations

from enum import Enum


class RunState(Enum):
    """What the supervisor does; the value is the role that logs and ``/leader`` show."""

    NOT_CONTENDING = "resting"  # the candidate is unhealthy, or was until a moment ago: there is no elector
    WAITING = "candidate"  # the elector contends for the lock
    STOPPING_STANDBY = "giving way"  # the lock is held; the standby ends before the command starts
    LEADING = "leader"  # the command runs, or is about to be started again
    STOPPING = "stopping"  # the command was sent the stop signal
    KILLING = "sweeping"  # SIGKILL for all processes of the tree, until the tree is proven empty
    RELEASING = "releasing"  # no process of a term is alive: the elector releases the lock, then kleader ends
    ENDED = "ended"


class Event(Enum):
    """What takes ``run`` from one state to the next."""

    ACQUIRED = "the elector holds the lock"
    ACQUIRED_BESIDE_STANDBY = "the elector holds the lock, and there may be a standby"
    STOP = "the term ends with time for the command: lost, stepping down, TERM or INT"
    KILL = "the term ends without that, the time is over, or the command ended"
    START = "the tree is empty: the command starts, or starts again"
    CONTEND = "the tree is empty, or the candidate is healthy again: the next candidacy begins"
    STOP_CONTENDING = "the candidate is unhealthy, or lets others lead first"
    END = "kleader ends"
    RELEASED = "the elector has ended, and so have standby and hooks"
    ABANDON = "a third TERM or INT: processes that do not die are left, nothing is released"


TRANSITIONS = {
    RunState.NOT_CONTENDING: {Event.CONTEND: RunState.WAITING, Event.END: RunState.RELEASING},
    RunState.WAITING: {
        Event.ACQUIRED: RunState.LEADING,
        Event.ACQUIRED_BESIDE_STANDBY: RunState.STOPPING_STANDBY,
        Event.STOP_CONTENDING: RunState.NOT_CONTENDING,
        Event.END: RunState.RELEASING,
    },
    RunState.STOPPING_STANDBY: {Event.KILL: RunState.KILLING, Event.END: RunState.RELEASING},
    RunState.LEADING: {Event.STOP: RunState.STOPPING, Event.KILL: RunState.KILLING},
    RunState.STOPPING: {Event.KILL: RunState.KILLING},
    RunState.KILLING: {
        Event.START: RunState.LEADING,
        Event.CONTEND: RunState.WAITING,
        Event.STOP_CONTENDING: RunState.NOT_CONTENDING,
        Event.END: RunState.RELEASING,
        Event.ABANDON: RunState.ENDED,
    },
    RunState.RELEASING: {Event.RELEASED: RunState.ENDED},
    RunState.ENDED: {},
}

CONTENDING = frozenset({RunState.NOT_CONTENDING, RunState.WAITING})  # no term has begun
LIMITED = frozenset({RunState.STOPPING_STANDBY, RunState.LEADING, RunState.STOPPING})  # by the term's deadlines
ACTIVE = LIMITED | {RunState.KILLING}  # processes of a term may be alive
ENDING = frozenset({RunState.NOT_CONTENDING, RunState.RELEASING})  # an elector that is left releases, and ends
