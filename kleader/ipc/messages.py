"""The messages of one kleader's processes. Safety needs no answer: if one is late, a deadline passes and the tree dies.

Each message is a JSON object with a ``type`` and a ``term``, the number of a candidacy: a process ignores messages of
other candidacies than its own. Instants are in seconds on CLOCK_BOOTTIME.
"""

from __future__ import annotations

import json
import math
from typing import Any, NamedTuple, get_args

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

_TOO_GREAT = 2**63  # for a number; infinity is sent as null
MARKER = "KLEADER_TERM_"  # and the incarnation: the name of a variable in the command's environment

# --- from the supervisor to the elector


class Assign(NamedTuple):
    """The first message: the candidacy. ``leading``: the elector takes over a term from one that has died.

    ``replaces``: an earlier elector may have observed the lock and written to it. ``memory``: the last Remember of an
    earlier elector; "" if there was none.
    """

    term: int
    incarnation: str
    leading: bool
    replaces: bool
    t0: float
    acquired: int
    transitions: int
    started: list[list[int]]  # pid and start time of the command, if it runs
    memory: str
    excluded: list[list[int]] = []  # noqa: RUF012 - pid and start time of what is not to be killed; never changed
    cgroup: str = ""  # the directory of the one that kleader was started alone in; "": there is none


class Started(NamedTuple):
    """The command is forked, and not yet executed. ``excluded``: bystanders, of which some came after the Assign."""

    term: int
    pid: int
    start: int
    excluded: list[list[int]] = []  # noqa: RUF012 - pid and start time; never changed


class Alive(NamedTuple):
    """The supervisor is awake, and has acted on all messages so far.

    ``kill_at``: the deadline that it keeps; infinite while nothing expires.
    """

    term: int
    kill_at: float


class Stopping(NamedTuple):
    """The command is asked to stop: the elector goes on renewing."""

    term: int


class Ran(NamedTuple):
    """The command was started in this term, and all its processes are dead: for the record, before Empty."""

    term: int
    token: str
    status: int  # kleader's exit status
    reason: str  # as KLEADER_REASON
    started: float
    ended: float


class Empty(NamedTuple):
    """All processes of the command are dead. The elector releases the lock if told to, ``to`` a candidate, and ends.

    Its last write records the run, if a Ran came before. ``unhealthy``: the candidate does not compete until it is
    healthy.
    """

    term: int
    release: bool
    to: str = ""
    unhealthy: bool = False


class Again(NamedTuple):
    """The lock was lost, and all processes of the command are dead: a new candidacy begins, with a new incarnation."""

    term: int
    incarnation: str


# --- from the elector


class Lead(NamedTuple):
    """The lock is acquired: the supervisor starts the command. Both deadlines are infinite for the file lock.

    ``done``: it does not, for the reason given (--once, --once-per), and releases the lock.
    """

    term: int
    stop_at: float
    kill_at: float
    token: str
    acquired: int
    transitions: int
    namespace: str
    done: str = ""


class Extend(NamedTuple):
    """The lock was renewed."""

    term: int
    stop_at: float
    kill_at: float


class Lost(NamedTuple):
    """The lock is lost: the command is stopped now; without grace if another candidate may lead (``kill_now``)."""

    term: int
    reason: str
    kill_now: bool


class Yield(NamedTuple):
    """The leader steps down while it holds the lock: the command is stopped with all its stop timeout.

    ``asked``: by a request, which releases the lock whatever the options say, ``to`` a candidate if it names one.
    """

    term: int
    reason: str
    asked: bool = False
    to: str = ""


class Observe(NamedTuple):
    """The leader that was observed; "" for none. ``namespace``: the lock's, which the credentials may have named."""

    term: int
    leader: str
    namespace: str


class Remember(NamedTuple):
    """What a replacement elector has to know of the lock, in any candidacy, in place of the last Remember."""

    term: int
    what: str


class Ping(NamedTuple):
    """A heartbeat: the elector is awake, even if the API server does not answer."""

    term: int


class Measured(NamedTuple):
    """What has happened since the last Measured, for the metrics; it may be lost."""

    term: int
    read: bool  # the lock has been read
    slow: int  # renewals that had to read the lock first, as client-go counts its slow path
    reconnects: int  # watches that ended, after each of which another begins
    took: float  # seconds of a renewal, from before its request to after its answer; 0: there was none


class Failed(NamedTuple):
    """The elector cannot go on: a sentence for the log, and the exit status."""

    term: int
    reason: str
    status: int


class Released(NamedTuple):
    """The elector's last message: whether the lock was released, and a reason, or a remark."""

    term: int
    released: bool
    why: str


# --- from the supervisor to the exporter, and on the status socket


class Status(NamedTuple):
    """What this kleader does, at the instant ``at``. Instants that do not apply are infinite.

    ``kleader is-leader`` of other versions reads at, role, leads, lock, namespace, name and kill_at: they stay.
    """

    term: int
    at: float
    role: str
    held: bool  # the lock; not while it is released
    leads: bool  # it holds the lock, and the command runs
    lock: str
    namespace: str
    name: str
    identity: str
    leader: str  # as last observed; "" if none
    token: str
    transitions: int
    acquired: int  # microseconds since the epoch
    renewed: float  # when the request of the last successful renewal was sent
    stop_at: float
    kill_at: float
    pid: int  # of the command; 0 while it does not run
    start: int
    # since kleader was started
    read: bool  # the lock has been read
    transitions_seen: int  # changes of the leader, the first one included
    restarts: int  # of the command
    electors: int  # that replaced one that had died
    slow: int
    reconnects: int
    renewals: list[int]  # that took up to each of RENEWALS, and longer
    renewing: float  # seconds that all renewals took
    silent_since: float = math.inf  # when heartbeats of an elector began to be missed; infinite while they come
    file: str = ""  # the lock file


RENEWALS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)  # seconds

Message = (
    Assign
    | Started
    | Alive
    | Stopping
    | Ran
    | Empty
    | Again
    | Lead
    | Extend
    | Lost
    | Yield
    | Observe
    | Remember
    | Ping
    | Measured
    | Failed
    | Released
    | Status
)
_TYPES: dict[str, type[Message]] = {kind.__name__.lower(): kind for kind in get_args(Message)}


def _is_int(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) < _TOO_GREAT


_CHECKS: dict[str, Callable[[Any], bool]] = {
    "int": _is_int,
    "bool": lambda value: isinstance(value, bool),
    "str": lambda value: isinstance(value, str),
    "float": lambda value: isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < _TOO_GREAT,
    "list[int]": lambda value: isinstance(value, list) and all(map(_is_int, value)),
    "list[list[int]]": lambda value: (
        isinstance(value, list)
        and all(isinstance(row, list) and len(row) == 2 and all(map(_is_int, row)) for row in value)  # noqa: PLR2004
    ),
}
_FIELDS = {
    kind: {name: str(getattr(hint, "__forward_arg__", hint)) for name, hint in kind.__annotations__.items()}
    for kind in _TYPES.values()
}


def encode(message: Message) -> bytes:
    """One line of JSON; infinity is written as null."""
    fields = {name: None if value == math.inf else value for name, value in message._asdict().items()}
    return json.dumps({"type": type(message).__name__.lower(), **fields}, allow_nan=False).encode() + b"\n"


def decode(line: bytes) -> Message | None:
    """The message; None for bytes that are none, which count as a message that was lost."""
    try:
        fields = json.loads(line)
        kind = _TYPES[fields.pop("type")]
        wanted = _FIELDS[kind]
        for name, value in fields.items():
            if value is None and wanted[name] == "float":
                fields[name] = math.inf
            elif not _CHECKS[wanted[name]](value):
                return None
        return kind(**fields)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
