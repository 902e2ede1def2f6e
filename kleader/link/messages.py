"""Facts, never commands that need an answer to stay safe: if one is lost or late, a deadline passes and the tree dies.

Each message is one JSON object with a ``type`` and a ``term``; instants are seconds on the boot clock. A term is one
candidacy: messages of another term than the reader's are ignored.
"""

from __future__ import annotations

import json
import math
from typing import Any, NamedTuple, get_args

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

_FAR = 2**63  # no number is as great; nor is infinity, which is null
MARKER = "KLEADER_TERM_"  # begins a variable of the command's environment; the incarnation ends it

# --- to the elector (or the file lock's guard)


class Assign(NamedTuple):
    """First of all: the candidacy. ``leading``: take over in the middle of a term from an elector that died.

    ``replaces``: there was an elector before this one, which may have seen the lock held, and may have written to it.
    ``memory``: what it asked to be remembered last; "" if nothing.
    """

    term: int
    incarnation: str
    leading: bool
    replaces: bool
    t0: float
    token: str
    acquired: int
    transitions: int
    started: list[list[int]]  # pid and start time of the command, if it runs
    memory: str


class Started(NamedTuple):
    """The command is forked, and not yet let through to exec."""

    term: int
    pid: int
    start: int


class Alive(NamedTuple):
    """The supervisor is awake, and has acted on everything that it was told before.

    ``kill_at``: what it keeps to by now; infinite while nothing expires.
    """

    term: int
    kill_at: float


class Stopping(NamedTuple):
    """The command is winding down: keep renewing."""

    term: int


class Empty(NamedTuple):
    """The tree is proven empty. Release if asked to, ``to`` this candidate if one is named; then end."""

    term: int
    release: bool
    to: str = ""


class Again(NamedTuple):
    """The tree is proven empty; a new candidacy begins, with a new incarnation.

    ``release``, ``to``: give the lock up first, as in Empty. ``aside``: let another lead before contending.
    """

    term: int
    incarnation: str
    release: bool
    to: str = ""
    aside: bool = False


# --- from the elector


class Lead(NamedTuple):
    """The lock is held: start the command. Without deadlines (the file lock) both are infinite, sent as null."""

    term: int
    stop_at: float
    kill_at: float
    token: str
    acquired: int
    transitions: int
    namespace: str


class Extend(NamedTuple):
    """The lock was renewed."""

    term: int
    stop_at: float
    kill_at: float


class Lost(NamedTuple):
    """Stop now, do not wait for stop_at. With ``kill_now`` somebody else may lead already: no grace."""

    term: int
    reason: str
    kill_now: bool


class Yield(NamedTuple):
    """The lock is held, and to be given up in good order: end the command with all the time that a TERM gives it.

    ``asked``: a person wants it released, whatever the options say, ``to`` this candidate if one is named.
    """

    term: int
    reason: str
    asked: bool = False
    to: str = ""


class Observe(NamedTuple):
    """Somebody leads the lock in this namespace, which may have been found out by the elector."""

    term: int
    leader: str
    namespace: str


class Remember(NamedTuple):
    """What an elector that replaces this one has to know of the lock, whatever the term; instead of any before."""

    term: int
    what: str


class Ping(NamedTuple):
    """The elector is awake, whatever the API does."""

    term: int


class Measured(NamedTuple):
    """What has happened since the last one, for who watches; each is told once, and may be lost."""

    term: int
    read: bool  # the lock has been read
    slow: int  # renewals that had to read the lock first, as client-go counts its slow path
    reconnects: int  # watches that ended, after each of which another begins
    took: float  # seconds of a renewal, from before its request to after its answer; 0: there was none


class Failed(NamedTuple):
    """Cannot go on: a sentence for a person, and the exit status."""

    term: int
    reason: str
    status: int


class Released(NamedTuple):
    """The end: whether the lock was given up, and why not otherwise."""

    term: int
    released: bool
    why: str


# --- from the supervisor, to whoever watches it


class Status(NamedTuple):
    """What a kleader is doing, at the instant ``at``. Instants of what does not expire, or is over, are infinite."""

    term: int
    at: float
    role: str
    held: bool  # the lock is, and has not been given up
    leads: bool  # and the command runs
    lock: str
    namespace: str
    name: str
    identity: str
    leader: str  # as last observed; "" if none was
    token: str
    transitions: int
    acquired: int  # microseconds since the epoch
    renewed: float  # before the last write that counted was sent
    stop_at: float
    kill_at: float
    pid: int  # of the command; 0 while it does not run
    start: int
    # since kleader was started
    read: bool  # the lock has been
    transitions_seen: int  # changes of the leader, the first one included
    restarts: int  # of the command
    electors: int  # that were started in place of one that had died
    slow: int
    reconnects: int
    renewals: list[int]  # by how long they took: up to each of RENEWALS, and longer
    renewing: float  # seconds that they took all together


RENEWALS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)  # seconds

Message = (
    Assign
    | Started
    | Alive
    | Stopping
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


def _whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) < _FAR


_CHECKS: dict[str, Callable[[Any], bool]] = {
    "int": _whole,
    "bool": lambda value: isinstance(value, bool),
    "str": lambda value: isinstance(value, str),
    "float": lambda value: isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < _FAR,
    "list[int]": lambda value: isinstance(value, list) and all(map(_whole, value)),
    "list[list[int]]": lambda value: (
        isinstance(value, list)
        and all(isinstance(row, list) and len(row) == 2 and all(map(_whole, row)) for row in value)  # noqa: PLR2004
    ),
}
_FIELDS = {
    kind: {name: str(getattr(hint, "__forward_arg__", hint)) for name, hint in kind.__annotations__.items()}
    for kind in _TYPES.values()
}


def encode(message: Message) -> bytes:
    """One line of JSON; infinity becomes null."""
    fields = {name: None if value == math.inf else value for name, value in message._asdict().items()}
    return json.dumps({"type": type(message).__name__.lower(), **fields}, allow_nan=False).encode() + b"\n"


def decode(line: bytes) -> Message | None:
    """The message, or None where the bytes are none: a fact that cannot be read is one that was lost."""
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
