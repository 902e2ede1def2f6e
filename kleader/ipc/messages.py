"""The messages of one kleader's processes. Safety needs no answer: if one is late, a deadline passes and the tree dies.

Each message is a JSON object with a ``type``, a ``term``, which is the number of a candidacy, and the fields of its
body: a process ignores messages of other candidacies than its own. Bodies that are actions or events of the election
are in :mod:`kleader.election.protocol`. Instants are in seconds on CLOCK_BOOTTIME.
"""

from __future__ import annotations

import json
import math
from typing import Any, NamedTuple, get_args

from kleader.election import protocol as p

MARKER = "KLEADER_TERM_"  # and the incarnation: the name of a variable in the command's environment

# --- from the supervisor to the elector


class Assign(NamedTuple):
    """The first message: the candidacy. ``leading``: the elector takes over a term from one that has died.

    ``replaces``: an earlier elector may have observed the lock and written to it. ``resume_state``: the last
    ResumeState of an earlier elector; "" if there was none.
    """

    incarnation: str
    leading: bool
    replaces: bool
    t0: float
    acquired: int
    transitions: int
    started: list[list[int]]  # pid and start time of the command, if it runs
    resume_state: str
    excluded: list[list[int]] = []  # noqa: RUF012 - pid and start time of what is not to be killed; never changed
    cgroup: str = ""  # the directory of the one that kleader was started alone in; "": there is none


class Started(NamedTuple):
    """The command is forked, and not yet executed. ``excluded``: bystanders, of which some came after the Assign."""

    pid: int
    start: int
    excluded: list[list[int]] = []  # noqa: RUF012 - pid and start time; never changed


class Alive(NamedTuple):
    """The supervisor is awake, and has acted on all messages so far.

    ``kill_at``: the deadline that it keeps; infinite while nothing expires.
    """

    kill_at: float


class Stopping(NamedTuple):
    """The command is asked to stop: the elector goes on renewing."""


class Ran(NamedTuple):
    """The run of this term's command, for the record, before AllProcessesExited."""

    token: str
    status: int  # kleader's exit status
    reason: str  # as KLEADER_REASON
    started: float
    ended: float
    detail: str = ""  # why the leader stepped down


# --- from the elector


class LockFound(NamedTuple):
    """The lock's namespace, which the credentials may have named: before every action of the election."""

    namespace: str


class ResumeState(NamedTuple):
    """What a replacement elector has to know of the lock, in any candidacy, in place of the last ResumeState."""

    state: str


class Heartbeat(NamedTuple):
    """The elector is awake, even if the API server does not answer."""


class Succession(NamedTuple):
    """What the log shows of the term before, in a sentence and in JSON: just before Acquired, whose line follows it."""

    sentence: str
    predecessor: str
    gave_up: bool  # it released the lock, or handed it over
    leaderless: float  # seconds since then, or since it was last observed to renew the lock


class Measured(NamedTuple):
    """What has happened since the last Measured, for the metrics; it may be lost."""

    read: bool  # the lock has been read
    slow: int  # renewals that had to read the lock first, as client-go counts its slow path
    reconnects: int  # watches that ended, after each of which another begins
    took: float  # seconds of a renewal, from before its request to after its answer; 0: there was none


# --- from the supervisor to the exporter, and on the status socket


class Status(NamedTuple):
    """What this kleader does, at the instant ``at``. Instants that do not apply are infinite.

    ``kleader is-leader`` of other versions reads at, role, leads, lock, namespace, name and kill_at: they stay.
    """

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

Body = (
    Assign
    | Started
    | Alive
    | Stopping
    | Ran
    | p.AllProcessesExited
    | p.Restart
    | LockFound
    | Succession
    | p.Acquired
    | p.Renewed
    | p.Lost
    | p.StepDown
    | p.NewLeader
    | ResumeState
    | Heartbeat
    | Measured
    | p.AcquireFailed
    | p.Released
    | Status
)


class Message(NamedTuple):
    """A body, for one candidacy."""

    term: int
    body: Body


_TYPES: dict[str, type[Body]] = {kind.__name__.lower(): kind for kind in get_args(Body)}


def encode(message: Message) -> bytes:
    """One line of JSON; infinity is written as null."""
    term, body = message
    fields = {name: None if value == math.inf else value for name, value in body._asdict().items()}
    return json.dumps({"type": type(body).__name__.lower(), "term": term, **fields}, allow_nan=False).encode() + b"\n"


def decode(line: bytes) -> Message | None:
    """The message; None for bytes that are none, such as one that was cut, which count as a message that was lost.

    Its fields have the types that they were sent with: both processes are of one version (kleader.ipc.plan).
    """
    try:
        fields: dict[str, Any] = {
            name: math.inf if value is None else value for name, value in json.loads(line).items()
        }
        kind, term = _TYPES[fields.pop("type")], fields.pop("term")
        return Message(term, kind(**fields))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
