"""The annotations that kleader keeps on the object of a lock beside the record; see kleader-protocol(7).

Each write of kleader's replaces them all. Other candidates keep annotations that they do not know when they write a
new record: so the mark of a handover names the record that it belongs to.
"""

from __future__ import annotations

import json
from typing import Any

from kleader.election.record import Record, micro_time, to_annotation
from kleader.kube.metadata import string_map, string_maps

INCARNATION = "kleader/incarnation"  # of the term; "" (leader-for-life): the lock was released
REQUEST = "kleader/request"  # a request to the holder
REQUESTED_BY = "kleader/requested-by"  # the user and the host that the request comes from, for the log
HANDED_OVER = "kleader/given"  # the renewTime of the record whose holder was named by the last one
RECOMMENDED = "kleader/recommended"  # the renewTime of a release, and the candidate that its writer found the best
POD = "kleader/pod"  # of the holder that wrote the record, and that holder
ALL = frozenset({INCARNATION, REQUEST, REQUESTED_BY, HANDED_OVER, RECOMMENDED, POD})
_MAX_REQUESTER_CHARS = 128
_MAX_POD_CHARS = 253  # of an object's name
_YEAR_1, _YEAR_10000 = -62_135_596_800_000_000, 253_402_300_800_000_000  # microseconds since the epoch


def annotation(found: dict[str, Any], name: str = INCARNATION) -> object:
    """An annotation of an object, of any JSON type; None if it has none of this name."""
    return string_map(string_map(found.get("metadata")).get("annotations")).get(name)


def field_manager(found: dict[str, Any], key: str = "") -> str:
    """The field manager that last wrote the record, in the annotation ``key`` or in the spec; "" if unknown."""
    path = ("f:metadata", "f:annotations", f"f:{key}") if key else ("f:spec", "f:renewTime")
    managers = string_maps(string_map(found.get("metadata")).get("managedFields"))
    owners = [manager for manager in managers if _has_path(manager.get("fieldsV1"), path)]
    return str(max(owners, key=lambda manager: str(manager.get("time") or ""), default={}).get("manager") or "")


def _has_path(fields: object, path: tuple[str, ...]) -> bool:
    for part in path:
        if not isinstance(fields, dict) or part not in fields:
            return False
        fields = fields[part]
    return True


def requested_by(found: dict[str, Any]) -> str:
    """Where the request on an object comes from; "" if it does not say."""
    text = annotation(found, REQUESTED_BY)
    return text[:_MAX_REQUESTER_CHARS] if isinstance(text, str) and annotation(found, REQUEST) else ""


def pod_of(found: dict[str, Any], holder: str) -> str:
    """The Pod of this holder; "" if it is not known: the annotation may be of a holder before."""
    text = annotation(found, POD)
    pod, _, identity = text.partition(" ") if isinstance(text, str) else ("", "", "")
    return pod if holder and identity == holder and len(pod) <= _MAX_POD_CHARS else ""


def is_handed_over(found: dict[str, Any], record: Record) -> bool:
    """Whether the object with this record is marked: the last holder named this one, which has not written it yet."""
    time = record.renewed
    return time is not None and _YEAR_1 <= time < _YEAR_10000 and annotation(found, HANDED_OVER) == micro_time(time)


def recommendation(record: Record, identity: str) -> str:
    """The annotation RECOMMENDED of a release."""
    return f"{micro_time(record.renewed or 0)} {identity}"


def recommended(found: dict[str, Any], record: Record) -> str:
    """The candidate that the release with this record recommends; "" for none: the annotation is of another record."""
    text, time = annotation(found, RECOMMENDED), record.renewed
    if time is None or not (_YEAR_1 <= time < _YEAR_10000) or not isinstance(text, str):
        return ""
    released, _, identity = text.partition(" ")
    return identity if released == micro_time(time) else ""


def handed_over_record(record: Record) -> str:
    """The record as an annotation with the mark in it: whole seconds would not tell two writes of one second."""
    return to_annotation(record, {HANDED_OVER: True})


def is_handed_over_record(text: object) -> bool:
    """Whether a valid record in an annotation has the mark."""
    found = json.loads(text) if isinstance(text, str) else None
    return isinstance(found, dict) and found.get(HANDED_OVER) is True
