"""The lock in an annotation, as client-go's ConfigMapLock and EndpointsLock kept it before 0.24.

A Role needs get, watch and update on this one name, and create without a name: these objects are created by POST, for
a PUT that names no version would overwrite one that is there.
"""

from __future__ import annotations

import asyncio
import urllib.parse
from typing import TYPE_CHECKING, Any

from kleader.election.events import Kind
from kleader.election.record import SECOND, MalformedRecordError, Record, from_annotation, to_annotation
from kleader.locks import notes
from kleader.locks.answers import ForbiddenError
from kleader.locks.base import LockError, Traits
from kleader.locks.object import ObjectLock, texts

if TYPE_CHECKING:
    from kleader.election.events import Observed

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

    def writer(self, found: dict[str, Any]) -> str:
        """Of the annotation."""
        return notes.writer(found, LEADER)

    def give(self, body: dict[str, Any], record: Record) -> None:
        """In the record itself."""
        body["metadata"]["annotations"][LEADER] = notes.given_text(record)

    def given(self, found: dict[str, Any], record: Record) -> bool:  # noqa: ARG002
        """Likewise."""
        return notes.given_in(notes.note(found, LEADER))


class ConfigMapLock(AnnotationLock):
    """One ConfigMap."""

    kind = "ConfigMap"
    plural = "configmaps"


class EndpointsLock(AnnotationLock):
    """One Endpoints. It may be a Service's: one with a selector does not mind.

    The control plane mirrors the Endpoints of a Service without a selector to EndpointSlices, and deletes those when
    the annotation appears (endpointslicemirroring's shouldMirror): the Service would lose its backends. ``force`` lets
    it.
    """

    kind = "Endpoints"
    plural = "endpoints"
    force = False

    async def write(self, base: Observed | None, record: Record, incarnation: str, timeout: float) -> Observed:
        """Kind.HOPELESS where the annotation would be new, and would spoil a Service."""
        clock = asyncio.get_running_loop().time
        end = clock() + timeout
        if not self.force and (base is None or LEADER not in texts(base.base["metadata"].get("annotations"))):
            await self._mind_service(timeout)
        return await super().write(base, record, incarnation, end - clock())

    async def rehearse(self, timeout: float) -> None:
        """With a look at the Service."""
        if not self.force:
            await self._mind_service(timeout)
        await super().rehearse(timeout)

    async def _mind_service(self, timeout: float) -> None:
        root, what = self._collection.removesuffix(self.plural), f"the Service {self.namespace}/{self._name}"
        target = f"{root}services/{urllib.parse.quote(self._name, safe='')}"
        try:
            service = await self._api.call("GET", target, None, timeout)
        except LockError as error:
            if isinstance(error, ForbiddenError):
                self.warn_once(f"nobody can tell whether {what} has no selector, and would be spoiled: {error}")
            elif error.failure.kind is not Kind.MISSING:
                raise
            return
        spec = service.get("spec")
        if not (isinstance(spec, dict) and spec.get("selector")):
            why = "has no selector, and would lose its EndpointSlices to the lock"
            raise LockError(Kind.HOPELESS, f"{what} {why}: give another --name, or --force")
