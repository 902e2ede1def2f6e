"""Locks with the record in an annotation: client-go's ConfigMapLock and EndpointsLock, before 0.24.

Their objects are created by POST, because a PUT without a resourceVersion would overwrite one. A Role needs ``create``
without a name for that.
"""

from __future__ import annotations

import urllib.parse
from typing import TYPE_CHECKING, Any

from kleader.election.events import Kind
from kleader.election.record import SECOND, MalformedRecordError, Record, from_annotation, to_annotation
from kleader.kube.errors import ForbiddenError, LockError
from kleader.kube.metadata import string_map
from kleader.kube.timeout import seconds_left
from kleader.locks import lock_annotations
from kleader.locks.base import LockProperties
from kleader.locks.object_lock import ObjectLock

if TYPE_CHECKING:
    from kleader.election.events import Observed

LEADER = "control-plane.alpha.kubernetes.io/leader"


class AnnotationLock(ObjectLock):
    """An object with the record in its annotation LEADER."""

    api_version = "v1"
    properties = LockProperties(tick=SECOND, rivals_expire=True)

    def decode(self, found: dict[str, Any]) -> Record:
        """The record in the annotation; an empty one without the annotation."""
        annotations = string_map(found["metadata"].get("annotations"))
        if LEADER not in annotations:
            return Record()
        try:
            return from_annotation(annotations[LEADER])
        except MalformedRecordError as error:
            raise MalformedRecordError(f"its annotation {LEADER}: {error}") from None

    def encode(self, body: dict[str, Any], record: Record) -> None:
        """Put the record into the annotation."""
        body["metadata"]["annotations"][LEADER] = to_annotation(record)

    def field_manager(self, found: dict[str, Any]) -> str:
        """The field manager that last wrote the annotation; "" if unknown."""
        return lock_annotations.field_manager(found, LEADER)

    def mark_handed_over(self, body: dict[str, Any], record: Record) -> None:
        """Mark the record itself."""
        body["metadata"]["annotations"][LEADER] = lock_annotations.handed_over_record(record)

    def is_handed_over(self, found: dict[str, Any], record: Record) -> bool:  # noqa: ARG002
        """Whether the record in the annotation is marked."""
        return lock_annotations.is_handed_over_record(lock_annotations.annotation(found, LEADER))


class ConfigMapLock(AnnotationLock):
    """A ConfigMap."""

    kind = "ConfigMap"
    plural = "configmaps"


class EndpointsLock(AnnotationLock):
    """An Endpoints. It may belong to a Service that has a selector.

    The control plane mirrors the Endpoints of a Service without a selector to EndpointSlices, and deletes those when
    the annotation appears (shouldMirror of endpointslicemirroring): the Service would lose its backends. ``force``
    permits that.
    """

    kind = "Endpoints"
    plural = "endpoints"

    async def write(self, base: Observed | None, record: Record, incarnation: str, timeout: float) -> Observed:
        """Kind.PERMANENT where the annotation would be new and a Service would lose its backends."""
        left = seconds_left(timeout)
        if base is None or LEADER not in string_map(base.base["metadata"].get("annotations")):
            await self._check_service(timeout)
        return await super().write(base, record, incarnation, left())

    async def dry_run(self, timeout: float) -> None:
        """Check the Service too."""
        await self._check_service(timeout)
        await super().dry_run(timeout)

    async def _check_service(self, timeout: float) -> None:
        if self._force:
            return
        root, service = self._collection.removesuffix(self.plural), f"the Service {self.namespace}/{self._name}"
        target = f"{root}services/{urllib.parse.quote(self._name, safe='')}"
        try:
            found = await self._api.call("GET", target, None, timeout)
        except LockError as error:
            if isinstance(error, ForbiddenError):
                self.warn_once(f"cannot check that {service} has a selector, and loses nothing to the lock: {error}")
            elif error.failure.kind is not Kind.MISSING:
                raise
            return
        if not string_map(found.get("spec")).get("selector"):
            why = "has no selector, so the lock would replace its EndpointSlices"
            raise LockError(Kind.PERMANENT, f"{service} {why}: give another --name, or --force")
