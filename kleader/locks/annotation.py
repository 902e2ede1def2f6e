"""The lock in an annotation, as client-go's ConfigMapLock and EndpointsLock kept it before 0.24.

A Role needs get, watch and update on this one name, and create without a name: these objects are created by POST, for
a PUT that names no version would overwrite one that is there.
"""

from __future__ import annotations

from typing import Any

from kleader.election.record import SECOND, MalformedRecordError, Record, from_annotation, to_annotation
from kleader.locks.base import Traits
from kleader.locks.object import ObjectLock, texts

LEADER = "control-plane.alpha.kubernetes.io/leader"


class AnnotationLock(ObjectLock):
    """One object with the record in an annotation."""

    api_version = "v1"
    traits = Traits(tick=SECOND, rivals_expire=True)

    def decode(self, found: dict[str, Any]) -> Record:
        """The record in its annotation; without one nobody has led yet."""
        annotations = texts(found["metadata"].get("annotations"))
        if LEADER not in annotations:
            return Record()
        try:
            return from_annotation(annotations[LEADER])
        except MalformedRecordError as error:
            msg = f"its annotation {LEADER}: {error}"
            raise MalformedRecordError(msg) from None

    def encode(self, body: dict[str, Any], record: Record) -> None:
        """Into its annotation."""
        body["metadata"]["annotations"][LEADER] = to_annotation(record)


class ConfigMapLock(AnnotationLock):
    """One ConfigMap."""

    kind = "ConfigMap"
    plural = "configmaps"


class EndpointsLock(AnnotationLock):
    """One Endpoints."""

    kind = "Endpoints"
    plural = "endpoints"
