"""From an object at the API to the lock that it keeps; None where it keeps none.

ConfigMaps and Endpoints are read by their metadata alone: that is where the record is, and a ConfigMap may be long.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from kleader.election.record import MalformedRecordError, Record, from_annotation, from_lease_spec, parse_time
from kleader.link.plan import FOR_LIFE
from kleader.locks import notes
from kleader.locks.annotation import LEADER
from kleader.locks.notes import INCARNATION
from kleader.locks.object import texts
from kleader.locks.pod import referred
from kleader.watching.seen import Ref, Seen

if TYPE_CHECKING:
    from collections.abc import Callable


def lease(found: dict[str, Any]) -> Seen | None:
    """Every Lease is a lock, whoever wrote it."""
    spec = found.get("spec")
    preferred = spec.get("preferredHolder") if isinstance(spec, dict) else ""
    preferred = preferred if isinstance(preferred, str) else ""
    seen = _seen("lease", found, "coordination.k8s.io/v1", "Lease", lambda: from_lease_spec(spec), preferred=preferred)
    return replace(seen, given=not seen.fault and notes.given(found, seen.record))


def config_map(found: dict[str, Any]) -> Seen | None:
    """One with client-go's annotation, or one that a Pod owns: operator-lib's lock for life."""
    if LEADER in texts(found["metadata"].get("annotations")):
        return _annotated("configmap", "ConfigMap", found)
    return _owned(found)


def endpoints(found: dict[str, Any]) -> Seen | None:
    """One with client-go's annotation."""
    return (
        _annotated("endpoints", "Endpoints", found) if LEADER in texts(found["metadata"].get("annotations")) else None
    )


def _annotated(kind: str, api_kind: str, found: dict[str, Any]) -> Seen:
    annotation = texts(found["metadata"].get("annotations"))[LEADER]
    seen = _seen(kind, found, "v1", api_kind, lambda: from_annotation(annotation), f"its annotation {LEADER}: ")
    return replace(seen, given=not seen.fault and notes.given_in(annotation))


def _owned(found: dict[str, Any]) -> Seen | None:
    """What no Pod owns is a lock only if a kleader has written it."""
    metadata = found["metadata"]
    incarnation = texts(metadata.get("annotations")).get(INCARNATION)
    owners = metadata.get("ownerReferences")
    owners = [each for each in owners if isinstance(each, dict)] if isinstance(owners, list) else []
    pods = [each for each in owners if (each.get("apiVersion"), each.get("kind")) == ("v1", "Pod")]
    if incarnation is None and (len(owners) != 1 or not pods):
        return None

    def record() -> Record:
        if incarnation == "":  # given up, in so many words
            return Record()
        owner = referred(metadata.get("ownerReferences"))
        if owner is None:
            names = ", ".join(f"the {each.get('kind')} {each.get('name')}" for each in owners) or "nobody"
            msg = f"its owner is {names}, and not one Pod"
            raise MalformedRecordError(msg)
        return Record(owner.name, acquired=_created(metadata))

    return _seen(FOR_LIFE, found, "v1", "ConfigMap", record, lasting=True)


def _seen(  # noqa: PLR0913, PLR0917 - what a lock is made of
    kind: str,
    found: dict[str, Any],
    api_version: str,
    api_kind: str,
    record: Callable[[], Record],
    where: str = "",
    *,
    lasting: bool = False,
    preferred: str = "",
) -> Seen:
    metadata = found["metadata"]
    name = metadata["name"]
    uid, version = (str(metadata.get(key) or "") for key in ("uid", "resourceVersion"))
    incarnation = texts(metadata.get("annotations")).get(INCARNATION)
    read, fault = Record(), ""
    try:
        read = record()
    except MalformedRecordError as error:
        fault = f"the {api_kind} {metadata.get('namespace') or ''}/{name}: {where}{error}"
    return Seen(
        kind,
        str(metadata.get("namespace") or ""),
        name,
        read,
        incarnation if isinstance(incarnation, str) else "",
        fault,
        lasting,
        preferred,
        (Ref(api_version, api_kind, name, uid, version, _writer(metadata)),),
    )


def _created(metadata: dict[str, Any]) -> int | None:
    try:
        return parse_time(str(metadata.get("creationTimestamp")))
    except (ValueError, OverflowError):
        return None


def _writer(metadata: dict[str, Any]) -> str:
    entries = metadata.get("managedFields")
    told = [each for each in entries if isinstance(each, dict)] if isinstance(entries, list) else []
    last = max(told, key=lambda each: str(each.get("time") or ""), default={})
    return str(last.get("manager") or "")
