"""The lock in a coordination.k8s.io/v1 Lease, as client-go's LeaseLock keeps it.

The incarnation is an annotation. A Role needs get, watch, create and update on this one name: the object is created
by PUT, which ``create`` under resourceNames covers, and which never overwrites a Lease.
"""

from __future__ import annotations

import urllib.parse
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from kleader.election.events import Kind, Observed
from kleader.election.record import MalformedRecordError, Record, from_lease_spec, to_lease_spec
from kleader.locks.base import LockError, WatchError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Mapping

    from kleader.locks.api import Api

INCARNATION = "kleader/incarnation"
_GROUP = "/apis/coordination.k8s.io/v1"


class Lease:
    """One Lease. ``labels`` are merged into those that it has."""

    def __init__(self, api: Api, namespace: str, name: str, labels: Mapping[str, str]) -> None:
        self.namespace = namespace
        self._api = api
        self._name = name
        self._labels = dict(labels)
        self._collection = f"{_GROUP}/namespaces/{urllib.parse.quote(namespace, safe='')}/leases"
        self._target = f"{self._collection}/{urllib.parse.quote(name, safe='')}"

    async def get(self, timeout: float) -> Observed:
        """The Lease as it is now."""
        return self._observed(await self._api.call("GET", self._target, None, timeout))

    async def write(self, base: Observed | None, record: Record, incarnation: str, timeout: float) -> Observed:
        """PUT: with the uid and resourceVersion of ``base``, or with neither where nothing may be overwritten."""
        body: dict[str, Any] = (
            dict(base.base)
            if base
            else {
                "apiVersion": "coordination.k8s.io/v1",
                "kind": "Lease",
                "metadata": {"name": self._name, "namespace": self.namespace},
            }
        )
        metadata = dict(body["metadata"])
        annotations = {**_texts(metadata.get("annotations")), INCARNATION: incarnation}
        if not incarnation:
            del annotations[INCARNATION]
        metadata["annotations"] = annotations
        metadata["labels"] = {**_texts(metadata.get("labels")), **self._labels}
        body |= {"metadata": metadata, "spec": to_lease_spec(record)}
        return self._observed(await self._api.call("PUT", self._target, body, timeout))

    async def watch(self, version: str, timeout: float) -> AsyncGenerator[Observed | None, None]:
        """Each later state of the Lease; bookmarks only show that the watch is alive."""
        query = {"watch": "1", "fieldSelector": f"metadata.name={self._name}", "allowWatchBookmarks": "true"}
        if version:
            query["resourceVersion"] = version
        target = f"{self._collection}?{urllib.parse.urlencode(query)}"
        try:
            async with aclosing(self._api.watch(target, timeout)) as events:
                async for kind, found in events:
                    if kind == "DELETED":
                        yield None
                    elif kind != "BOOKMARK":
                        yield self._observed(found)
        except LockError as error:
            raise WatchError(str(error)) from None

    def _observed(self, found: dict[str, Any]) -> Observed:
        metadata = found.get("metadata")
        if not isinstance(metadata, dict) or metadata.get("name") != self._name or found.get("kind") != "Lease":
            raise LockError(Kind.UNREACHABLE, f"the API server answered something that is not the Lease {self._name}")
        version, annotations = metadata.get("resourceVersion"), metadata.get("annotations")
        if not isinstance(version, str) or not version or not isinstance(metadata.get("uid"), str):
            raise LockError(Kind.UNREACHABLE, "the API server answered a Lease without uid or resourceVersion")
        incarnation = annotations.get(INCARNATION) if isinstance(annotations, dict) else None
        try:
            record, fault = from_lease_spec(found.get("spec")), ""
        except MalformedRecordError as error:
            record, fault = Record(), f"the Lease {self.namespace}/{self._name} is malformed: {error}"
        return Observed(record, incarnation if isinstance(incarnation, str) else "", version, fault, found)


def _texts(found: object) -> dict[str, Any]:
    """What an object has of labels or annotations; what is neither is none."""
    return found if isinstance(found, dict) else {}
