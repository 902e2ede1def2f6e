"""What an observer sees of a lock, and what it can say of that at an instant: plain values."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from kleader.election.record import SECOND, Record

Key = tuple[str, str, str]  # kind, namespace, name


class Ref(NamedTuple):
    """An object that a lock is kept in."""

    api_version: str
    kind: str
    name: str
    uid: str
    version: str  # resourceVersion
    writer: str  # the field manager that wrote it last; "": not told


@dataclass(frozen=True, slots=True)
class Seen:
    """One lock as it was read."""

    kind: str  # as --lock names it
    namespace: str
    name: str
    record: Record = field(default_factory=Record)
    incarnation: str = ""
    fault: str = ""  # why the record cannot be read: such a lock is held
    lasting: bool = False  # it does not expire: its owner has it until that is gone
    preferred: str = ""  # coordinated: whom the control plane wants to lead instead
    objects: tuple[Ref, ...] = ()
    path: str = ""  # of a lock file
    given: bool = False  # the last leader has named the holder, who has not written it yet

    @property
    def key(self) -> Key:
        """What it is told from other locks by."""
        return self.kind, self.namespace, self.name

    def older(self, other: Seen) -> bool:
        """Whether ``other`` is a later state of the same objects: an answer and an event may cross."""
        for mine, its in zip(self.objects, other.objects, strict=False):
            numbers = mine.version.isdecimal() and its.version.isdecimal()
            if mine.uid == its.uid and numbers and int(mine.version) < int(its.version):
                return True
        return False

    @property
    def term(self) -> tuple[str, str, int | None]:
        """What changes with the leader, and when the same one leads anew."""
        return self.record.holder, self.incarnation, self.record.acquired


class State(Enum):
    """What can be said of a lock."""

    FREE = "free"
    HELD = "held"
    OVERDUE = "overdue"  # by the writer's clock and ours its time is over: one look cannot tell more
    EXPIRED = "expired"  # seen unchanged for its whole duration: who saw that too may take it
    MALFORMED = "malformed"  # counts as held


class Look(NamedTuple):
    """A lock at an instant. ``left``: seconds until it expires, None where it does not, or where nobody can tell."""

    seen: Seen
    state: State
    left: float | None
    wall: int  # microseconds since the epoch
    watched: bool  # state and time left come from this observer's own clock, and not from the record's times


def at_a_look(seen: Seen, wall: int) -> Look:
    """What one look tells at ``wall``. Its clock is not the writer's, so that is no proof of anything."""
    state, left = _certain(seen), None
    if state is None:
        state = State.HELD
        if seen.record.renewed is not None:
            since = max(0.0, (wall - seen.record.renewed) / SECOND)  # for client-go's sake a renewTime may be ahead
            left = seen.record.duration - since
            state = State.OVERDUE if left <= 0 else State.HELD
    return Look(seen, state, left, wall, watched=False)


def watched(seen: Seen, unchanged: float, wall: int) -> Look:
    """What is known of a lock that was seen ``unchanged`` for so many seconds, as every challenger judges it."""
    state, left = _certain(seen), None
    if state is None:
        left = seen.record.duration - unchanged
        state = State.EXPIRED if left <= 0 else State.HELD
    return Look(seen, state, left, wall, watched=True)


def _certain(seen: Seen) -> State | None:
    """What no clock has a part in."""
    if seen.fault:
        return State.MALFORMED
    if not seen.record.holder:
        return State.FREE
    return State.HELD if seen.lasting else None
