"""What kleader notes on the object of a lock beside the record, by these names; see kleader(7).

Whatever kleader writes replaces all of it. Others keep annotations that they do not know, and write the record anew: so
the note that a lock was given to its holder says of which record that is true.
"""

from __future__ import annotations

import json
from typing import Any

from kleader.election.record import Record, micro_time, to_annotation

INCARNATION = "kleader/incarnation"  # of the term; an empty one (leader-for-life): the lock was given up
REQUEST = "kleader/request"  # what somebody wants of the leader
GIVEN = "kleader/given"  # the renewTime of the record that names a holder who has not written it yet
ALL = frozenset({INCARNATION, REQUEST, GIVEN})
_EARLIEST, _LATEST = -62_135_596_800_000_000, 253_402_300_800_000_000  # the years 1 and 10000


def note(found: dict[str, Any], name: str = INCARNATION) -> object:
    """What is noted on an object under this name; None: nothing."""
    metadata = found.get("metadata")
    annotations = metadata.get("annotations") if isinstance(metadata, dict) else None
    return annotations.get(name) if isinstance(annotations, dict) else None


def writer(found: dict[str, Any], key: str = "") -> str:
    """The field manager whose record is in an object: in its spec, or the annotation ``key``; "": nobody's told."""
    path = ("f:metadata", "f:annotations", f"f:{key}") if key else ("f:spec", "f:renewTime")
    entries = found.get("metadata", {}).get("managedFields")
    told = [each for each in entries if isinstance(each, dict)] if isinstance(entries, list) else []
    owners = [each for each in told if _within(each.get("fieldsV1"), path)]
    return str(max(owners, key=lambda each: str(each.get("time") or ""), default={}).get("manager") or "")


def _within(fields: object, path: tuple[str, ...]) -> bool:
    for part in path:
        if not isinstance(fields, dict) or part not in fields:
            return False
        fields = fields[part]
    return True


def given(found: dict[str, Any], record: Record) -> bool:
    """Whether an object with this record says that its holder was named by the last one, and has not written it."""
    time = record.renewed
    return time is not None and _EARLIEST <= time < _LATEST and note(found, GIVEN) == micro_time(time)


def given_text(record: Record) -> str:
    """The record as an annotation, with the note in it: its times alone would not tell two writes of one second."""
    return to_annotation(record, {GIVEN: True})


def given_in(text: object) -> bool:
    """Whether a record in an annotation, which can be read, has the note in it."""
    found = json.loads(text) if isinstance(text, str) else None
    return isinstance(found, dict) and found.get(GIVEN) is True
