"""The leader election record, the one value that every lock keeps (client-go's LeaderElectionRecord).

Instants are whole microseconds since the epoch. Reading is lenient where the meaning is beyond doubt, writing is
strict. What cannot be read without doubt raises MalformedRecordError: such a lock counts as held.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

SECOND = 1_000_000
UNKNOWN = "leaderelection.k8s.io/unknown"  # client-go's UnknownLeader: the holder of a multilock whose objects differ
_NAME_OF_UNKNOWN = "an unknown candidate"
MAX_HOLDER_CHARS = 4096  # characters; a Kubernetes name has 253, an identity made by client-go about 100
MAX_DURATION_SECONDS = 366 * 24 * 3600  # seconds
MAX_TRANSITIONS = 2**31 - 1  # a Lease keeps them in an int32
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_TIME = re.compile(r"(\d{4}-\d\d-\d\d)[Tt ](\d\d:\d\d:\d\d)(?:\.(\d+))?([Zz]|[+-]\d\d:\d\d)?", re.ASCII)
_FAR = 3600 * SECOND


class MalformedRecordError(ValueError):
    """A record that says something, but not beyond doubt; the message names the field."""


@dataclass(frozen=True, slots=True)
class Record:
    """Who holds the lock, for how long, since when. An empty holder means that the lock is free."""

    holder: str = ""
    duration: int = 0
    acquired: int | None = None
    renewed: int | None = None
    transitions: int = 0

    @property
    def next_transition(self) -> int:
        """How many there are when another candidate holds the lock."""
        return min(self.transitions + 1, MAX_TRANSITIONS)

    @property
    def is_blank(self) -> bool:
        """Whether no candidate has written it. A released one is not blank: it has its renewTime, or transitions.

        An early client-go leaves neither when the first leader releases; its record counts as blank.
        """
        return not self.holder and self.renewed is None and not self.transitions


def display_name(holder: str) -> str:
    """The holder's name in a sentence: UNKNOWN in words."""
    return _NAME_OF_UNKNOWN if holder == UNKNOWN else holder


def to_lease_spec(record: Record) -> dict[str, Any]:
    """The spec of a Lease, as client-go's LeaderElectionRecordToLeaseSpec writes it."""
    return {
        "holderIdentity": record.holder,
        "leaseDurationSeconds": record.duration,
        "acquireTime": None if record.acquired is None else micro_time(record.acquired),
        "renewTime": None if record.renewed is None else micro_time(record.renewed),
        "leaseTransitions": record.transitions,
    }


def from_lease_spec(spec: object) -> Record:
    """The record in a Lease's spec; absent and null read as in client-go's LeaseSpecToLeaderElectionRecord."""
    if spec is None:
        return Record()
    if not isinstance(spec, dict):
        msg = "spec is not an object"
        raise MalformedRecordError(msg)
    return _record(spec.get, "spec.", "leaseTransitions")


def to_annotation(record: Record, more: Mapping[str, object] = MappingProxyType({})) -> str:
    """The record as JSON, as client-go before 0.24 wrote it onto ConfigMaps and Endpoints: times in whole seconds.

    ``more``: fields that only kleader knows, and that a write by another program drops.
    """
    fields = {
        "holderIdentity": record.holder,
        "leaseDurationSeconds": record.duration,
        "acquireTime": None if record.acquired is None else time(record.acquired),
        "renewTime": None if record.renewed is None else time(record.renewed),
        "leaderTransitions": record.transitions,
    }
    return json.dumps(fields | dict(more), separators=(",", ":"))


def from_annotation(text: object) -> Record:
    """The record in an annotation's JSON. Names of fields read as encoding/json reads them: in any case."""
    try:
        fields = json.loads(text, object_pairs_hook=_fields, parse_constant=_no_number) if isinstance(text, str) else ()
    except (ValueError, RecursionError):
        msg = "it is not JSON, or says two things of one field"
        raise MalformedRecordError(msg) from None
    if fields is None:
        return Record()
    if not isinstance(fields, dict):
        msg = "it is not a JSON object"
        raise MalformedRecordError(msg)
    return _record(lambda name: fields.get(name.lower()), "", "leaderTransitions")


def fresh_time(previous: int | None, wall: int, tick: int = 1) -> int:
    """A renewTime that every reader tells from the previous one: at least a whole second later.

    client-go compares records at whole seconds, so two renewals within one second are one to it. A previous time far in
    the future (a manual edit, a clock that was set back) is not followed. ``tick``: the microseconds that the record
    is kept to.
    """
    now = wall // tick * tick
    if previous is None or previous - wall > _FAR:
        return now
    return max(now, -(-previous // tick) * tick + SECOND)


def micro_time(instant: int) -> str:
    """MicroTime as the API server wants it: UTC and exactly six digits (metav1.RFC3339Micro)."""
    return (_EPOCH + timedelta(microseconds=instant)).replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"


def time(instant: int) -> str:
    """metav1.Time as an annotation's record has it: UTC and whole seconds (RFC 3339)."""
    return micro_time(instant // SECOND * SECOND)[: -len(".000000Z")] + "Z"


def parse_time(text: str) -> int:
    """Microseconds since the epoch of an RFC 3339 time; without a zone (the Python client's) it is UTC.

    ValueError or OverflowError: it is none, or lies outside the years 1 to 9999.
    """
    match = _TIME.fullmatch(text)
    if match is None:
        msg = f"{text[:64]!r} is not an RFC 3339 time"
        raise ValueError(msg)
    day, clock, fraction, zone = match.groups()
    offset = "+00:00" if zone in (None, "Z", "z") else zone
    moment = datetime.fromisoformat(f"{day}T{clock}{offset}").astimezone(timezone.utc)
    return (moment - _EPOCH) // timedelta(microseconds=1) + int((fraction or "0")[:6].ljust(6, "0"))


def _record(get: Callable[[str], object], where: str, transitions: str) -> Record:
    """``get``: the value of a field by its name; ``where``: what precedes that name in an error."""
    holder = _holder(get("holderIdentity"), f"{where}holderIdentity")
    return Record(
        holder,
        _duration(get("leaseDurationSeconds"), f"{where}leaseDurationSeconds", held=bool(holder)),
        _instant(get("acquireTime"), f"{where}acquireTime"),
        _instant(get("renewTime"), f"{where}renewTime"),
        _count(get(transitions), where + transitions),
    )


def _fields(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """By name in lower case. Null counts as absent (encoding/json); ValueError where a field occurs with two values."""
    found: dict[str, Any] = {}
    for name, value in pairs:
        if value is not None and found.setdefault(name.lower(), value) != value:
            raise ValueError(name)
    return found


def _no_number(name: str) -> NoReturn:
    """NaN and the infinities are none in JSON."""
    raise ValueError(name)


def _holder(value: object, field: str) -> str:
    if value is None:
        return ""
    if not isinstance(value, str):
        msg = f"{field} is not a string"
        raise MalformedRecordError(msg)
    if len(value) > MAX_HOLDER_CHARS:
        msg = f"{field} has {len(value)} characters, more than {MAX_HOLDER_CHARS}"
        raise MalformedRecordError(msg)
    return value


def _duration(value: object, field: str, *, held: bool) -> int:
    if not held:
        return value if isinstance(value, int) and 0 < value <= MAX_DURATION_SECONDS else 0
    number = _integer(value, field)
    if not 0 < number <= MAX_DURATION_SECONDS:
        msg = f"{field} is {number}"
        raise MalformedRecordError(msg)
    return number


def _count(value: object, field: str) -> int:
    number = 0 if value is None else _integer(value, field)
    if not 0 <= number <= MAX_TRANSITIONS:
        msg = f"{field} is {number}"
        raise MalformedRecordError(msg)
    return number


def _integer(value: object, field: str) -> int:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, str) and re.fullmatch(r"\d{1,10}", value, re.ASCII):  # the Python client writes "15"
        return int(value)
    msg = f"{field} is missing" if value is None else f"{field} is not a whole number"
    raise MalformedRecordError(msg)


def _instant(value: object, field: str) -> int | None:
    if value is None:
        return None
    if not isinstance(value, str):
        msg = f"{field} is not a time"
        raise MalformedRecordError(msg)
    try:
        return parse_time(value)
    except (ValueError, OverflowError):
        msg = f"{field} is not an RFC 3339 time"
        raise MalformedRecordError(msg) from None
