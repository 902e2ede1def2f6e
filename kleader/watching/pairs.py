"""Two objects that are one lock: client-go's multilocks, as an observer meets them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kleader.election.record import UNKNOWN, Record
from kleader.watching.seen import Seen

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from kleader.watching.seen import Key

PAIRS = {"configmapsleases": "configmap", "endpointsleases": "endpoints"}  # and the kind of the primary
_OF = {primary: kind for kind, primary in PAIRS.items()}


def arrange(objects: Mapping[Key, Seen], asked: str, *, named: bool, known: Collection[Key] = ()) -> list[Seen]:
    """The locks that these objects are.

    An object with a record, and a Lease of its name with the same holder, are one; ``known`` pairs are even while one
    of both has been written, and the other not yet. Who asks for a pair gets pairs alone, by its name also one that
    lacks an object.
    """
    by_place: dict[tuple[str, str], dict[str, Seen]] = {}
    for seen in objects.values():
        by_place.setdefault((seen.namespace, seen.name), {})[seen.kind] = seen
    locks: list[Seen] = []
    for here in by_place.values():
        if asked in PAIRS:
            locks += _asked(here, asked, named=named)
        else:
            locks += _found(here, known) if not asked else [seen for seen in here.values() if seen.kind == asked]
    return locks


def together(primary: Seen, lease: Seen) -> Seen:
    """Both as one; holders that differ are one that nobody knows, for the longer of both durations (client-go's)."""
    records = primary.record, lease.record
    agreed = records[0].holder == records[1].holder
    record = Record(
        records[0].holder if agreed else UNKNOWN,
        max(each.duration for each in records),
        records[0].acquired,
        max((each.renewed for each in records if each.renewed is not None), default=None),
        max(each.transitions for each in records),
    )
    incarnation = primary.incarnation if primary.incarnation == lease.incarnation else ""
    fault = "; ".join(filter(None, (primary.fault, lease.fault)))
    kind, objects = _OF[primary.kind], primary.objects + lease.objects
    given = agreed and primary.given and lease.given
    return Seen(kind, primary.namespace, primary.name, record, incarnation, fault, objects=objects, given=given)


def _asked(here: Mapping[str, Seen], asked: str, *, named: bool) -> list[Seen]:
    primary, lease = here.get(PAIRS[asked]), here.get("lease")
    if primary and lease:
        return [together(primary, lease)]
    return [seen for seen in (primary, lease) if seen] if named else []


def _found(here: Mapping[str, Seen], known: Collection[Key]) -> list[Seen]:
    left = dict(here)
    pairs = []
    for primary in _OF:
        first, lease = left.get(primary), left.get("lease")
        if not first or not lease:
            continue
        both = together(first, lease)
        if both.key in known or (not both.fault and both.record.holder != UNKNOWN):
            pairs.append(both)
            del left[primary], left["lease"]
    return [*pairs, *left.values()]
