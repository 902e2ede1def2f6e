"""From an object at the API to the lock that it keeps; None where it keeps none.

ConfigMaps and Endpoints are read by their metadata alone: that is where the record is, and a ConfigMap may be long.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from kleader.election.record import MalformedRecordError, Record, from_annotation, from_lease_spec, parse_time
from kleader.ipc.plan import FOR_LIFE
from kleader.kube.metadata import string_map, string_maps
from kleader.kube.pod_owner import owner_of
from kleader.locks import candidate_registry, lock_annotations, run_history
from kleader.locks.annotation_lock import LEADER
from kleader.locks.lock_annotations import INCARNATION
from kleader.observe.snapshot import LockSnapshot, ObjectRef

if TYPE_CHECKING:
    from collections.abc import Callable

_MAX_DIGITS = 10  # of a number of transitions


def lease(found: dict[str, Any]) -> LockSnapshot | None:
    """Every Lease is a lock, whatever client wrote it, but for kleader's registries of candidates."""
    if candidate_registry.is_registry(found):
        return None
    spec = found.get("spec")
    preferred = string_map(spec).get("preferredHolder")
    return _snapshot(
        "lease",
        found,
        "coordination.k8s.io/v1",
        "Lease",
        lambda: from_lease_spec(spec),
        is_handed_over=lambda record: lock_annotations.is_handed_over(found, record),
        preferred_holder=preferred if isinstance(preferred, str) else "",
    )


def config_map(found: dict[str, Any]) -> LockSnapshot | None:
    """A ConfigMap with client-go's annotation, or one that a Pod owns: operator-lib's leader-for-life."""
    return _annotated("configmap", "ConfigMap", found) or _pod_owned(found)


def endpoints(found: dict[str, Any]) -> LockSnapshot | None:
    """Endpoints with client-go's annotation."""
    return _annotated("endpoints", "Endpoints", found)


def _annotated(kind: str, api_kind: str, found: dict[str, Any]) -> LockSnapshot | None:
    annotations = string_map(found["metadata"].get("annotations"))
    if LEADER not in annotations:
        return None
    text = annotations[LEADER]
    return _snapshot(
        kind,
        found,
        "v1",
        api_kind,
        lambda: from_annotation(text),
        is_handed_over=lambda _: lock_annotations.is_handed_over_record(text),
        where=f"its annotation {LEADER}: ",
    )


def _pod_owned(found: dict[str, Any]) -> LockSnapshot | None:
    """A ConfigMap without a Pod as its owner is a lock only if a kleader wrote it."""
    metadata = found["metadata"]
    incarnation = string_map(metadata.get("annotations")).get(INCARNATION)
    owners = string_maps(metadata.get("ownerReferences"))
    is_pod = [(owner.get("apiVersion"), owner.get("kind")) == ("v1", "Pod") for owner in owners]
    if incarnation is None and (len(owners) != 1 or not any(is_pod)):
        return None

    def record() -> Record:
        if incarnation == "":  # released
            return Record()
        owner = owner_of(metadata.get("ownerReferences"))
        if owner is None:
            names = ", ".join(f"the {owner.get('kind')} {owner.get('name')}" for owner in owners) or "no object"
            msg = f"its owner is {names}, and not one Pod"
            raise MalformedRecordError(msg)
        acquired = None
        with suppress(ValueError, OverflowError):
            acquired = parse_time(str(metadata.get("creationTimestamp")))
        return Record(owner.name, acquired=acquired)

    return _snapshot(FOR_LIFE, found, "v1", "ConfigMap", record, non_expiring=True)


def _snapshot(  # noqa: PLR0913 - what a lock is made of
    kind: str,
    found: dict[str, Any],
    api_version: str,
    api_kind: str,
    read: Callable[[], Record],
    *,
    is_handed_over: Callable[[Record], bool] = lambda _: False,
    where: str = "",
    **more: Any,  # noqa: ANN401 - of the snapshot
) -> LockSnapshot:
    metadata = found["metadata"]
    name, namespace = metadata["name"], str(metadata.get("namespace") or "")
    uid, version = (str(metadata.get(key) or "") for key in ("uid", "resourceVersion"))
    annotations = string_map(metadata.get("annotations"))
    incarnation = annotations.get(INCARNATION)
    last_write = max(
        string_maps(metadata.get("managedFields")), key=lambda entry: str(entry.get("time") or ""), default={}
    )
    record, fault, handed_over = Record(), "", False
    try:
        record = read()
        handed_over = is_handed_over(record)
    except MalformedRecordError as error:
        fault = f"the {api_kind} {namespace}/{name}: {where}{error}"
    runs = tuple(run_history.read(annotations.get(run_history.LAST_RUN)))
    ended = annotations.get(run_history.LAST_ENDED)
    ends = [run.released for run in runs if run.released is not None]  # all that an earlier kleader records
    ends += [int(ended)] if isinstance(ended, str) and ended.isdecimal() and len(ended) <= _MAX_DIGITS else []
    is_released = not record.holder and record.renewed is not None and record.renewed == record.acquired
    return LockSnapshot(
        kind,
        namespace,
        name,
        record,
        incarnation if isinstance(incarnation, str) else "",
        fault,
        objects=(ObjectRef(api_version, api_kind, name, uid, version, str(last_write.get("manager") or "")),),
        handed_over=handed_over,
        pod=record.holder if kind == FOR_LIFE else lock_annotations.pod_of(found, record.holder),
        runs=runs,
        last_ended=max(ends, default=None),
        last_holder=runs[0].identity if is_released and runs and runs[0].released == record.transitions else "",
        free_since=record.renewed if is_released else None,
        **more,
    )
