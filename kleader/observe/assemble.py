"""From objects to locks: client-go's multilocks keep one lock in two objects."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kleader.election.record import UNKNOWN, Record
from kleader.locks import run_history
from kleader.locks.base import MULTILOCKS
from kleader.observe.snapshot import LockSnapshot

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from kleader.observe.snapshot import LockKey

_MULTILOCK = {primary: kind for kind, (primary, _lease) in MULTILOCKS.items()}


def assemble(
    objects: Iterable[LockSnapshot], kind: str, *, by_name: bool, known: Collection[LockKey] = ()
) -> list[LockSnapshot]:
    """The locks that these objects keep; of one ``kind``, or of all for "".

    An annotated object and a Lease of its name with the same holder are one multilock. ``known`` multilocks stay one
    while only one of their objects has been written. For a multilock's kind only multilocks are returned; ``by_name``
    also an object whose counterpart is missing.
    """
    places: dict[tuple[str, str], dict[str, LockSnapshot]] = {}
    for snapshot in objects:
        places.setdefault((snapshot.namespace, snapshot.name), {})[snapshot.kind] = snapshot
    locks: list[LockSnapshot] = []
    for here in places.values():
        for primary_kind, multilock in _MULTILOCK.items():
            primary, lease = here.get(primary_kind), here.get("lease")
            if not primary or not lease or kind not in {"", multilock}:
                continue
            lock = _combine(primary, lease)
            if kind or lock.key in known or (not lock.fault and lock.record.holder != UNKNOWN):
                del here[primary_kind], here["lease"]
                here[lock.kind] = lock
        wanted = {kind, *MULTILOCKS[kind]} if kind in MULTILOCKS and by_name else {kind}
        locks += [snapshot for snapshot in here.values() if not kind or snapshot.kind in wanted]
    return locks


def _combine(primary: LockSnapshot, lease: LockSnapshot) -> LockSnapshot:
    """Both as one, for the longer of both durations, as client-go's multilock; two holders are an unknown one."""
    first, second = primary.record, lease.record
    agree = first.holder == second.holder
    record = Record(
        first.holder if agree else UNKNOWN,
        max(first.duration, second.duration),
        first.acquired,
        max((renewed for renewed in (first.renewed, second.renewed) if renewed is not None), default=None),
        max(first.transitions, second.transitions),
    )
    return LockSnapshot(
        _MULTILOCK[primary.kind],
        primary.namespace,
        primary.name,
        record,
        primary.incarnation if primary.incarnation == lease.incarnation else "",
        "; ".join(filter(None, (primary.fault, lease.fault))),
        objects=primary.objects + lease.objects,
        handed_over=agree and primary.handed_over and lease.handed_over,
        runs=tuple(run_history.merge(primary.runs, lease.runs)),
        pod=(primary.pod or lease.pod) if agree else "",
        last_ended=max((part.last_ended for part in (primary, lease) if part.last_ended is not None), default=None),
        last_holder=lease.last_holder if agree and lease.last_holder == primary.last_holder else "",
        free_since=lease.free_since if agree else None,
    )
