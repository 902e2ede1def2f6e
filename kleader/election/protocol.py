"""The actions of the election for the supervisor, and its events from there: ``kleader.ipc`` carries them as they are.

Instants are seconds on CLOCK_BOOTTIME; inf: never, as of a lock that does not expire.
"""

from __future__ import annotations

from typing import NamedTuple

# --- actions of the election


class Acquired(NamedTuple):
    """The lock is held, and the command may start. The term counts from ``t0``, before the write that acquired it.

    ``token``: the version of that write. ``acquired``: in microseconds since the epoch. ``done``: why the command is
    not started (--once, --once-per), which the election leaves empty.
    """

    t0: float
    stop_at: float
    kill_at: float
    token: str
    transitions: int
    acquired: int
    done: str = ""


class Renewed(NamedTuple):
    """The lock was renewed: the term counts from ``t0``, before that write."""

    t0: float
    stop_at: float
    kill_at: float


class Lost(NamedTuple):
    """The lock is, or must be taken to be, no longer held; ``kill_now``: another candidate may lead already."""

    reason: str
    kill_now: bool


class StepDown(NamedTuple):
    """The term is to end in good order: the command stopped as by TERM, then the lock released.

    ``asked``: by an operator, so that the lock is released whatever the options say. ``to``: to hand it over to this
    candidate; "": to any.
    """

    reason: str
    asked: bool = False
    to: str = ""


class NewLeader(NamedTuple):
    """Another candidate, or this one, was observed to lead: client-go's OnNewLeader, but never for an empty holder."""

    leader: str


class AcquireFailed(NamedTuple):
    """Ends the candidacy without having led; ``status`` is the exit status."""

    reason: str
    status: int


class Released(NamedTuple):
    """Nothing more to do. ``why`` the lock was not released, or how it was."""

    released: bool
    why: str = ""


# --- events of the election


class AllProcessesExited(NamedTuple):
    """No process of this term is alive. With ``release`` it is released, if it may be held; then the elector ends.

    ``to``: to this candidate, and to no other. ``record``: a leader that does not release the lock renews it once
    more, since its last write records the run. ``unhealthy``: of the candidate, which the election ignores.
    """

    release: bool
    to: str = ""
    record: bool = False
    unhealthy: bool = False


class Restart(NamedTuple):
    """Become a candidate once more, under a new incarnation: the term was lost, and none of its processes is alive."""

    incarnation: str
