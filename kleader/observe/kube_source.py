"""The locks in one kind of object at the API: listed in pages, then watched; polled where watching is denied."""

from __future__ import annotations

import asyncio
import urllib.parse
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, NamedTuple

from kleader.backoff import Backoff
from kleader.election.events import Kind
from kleader.ipc.plan import FOR_LIFE
from kleader.kube.client import JSON
from kleader.kube.errors import LockError, WatchError
from kleader.kube.metadata import string_map
from kleader.kube.pagination import list_pages
from kleader.locks import candidate_registry
from kleader.locks.base import MULTILOCKS
from kleader.observe import decode
from kleader.observe.snapshot import SourceUpdate

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable

    from kleader.kube.client import ApiClient
    from kleader.kube.responses import ClockSkew
    from kleader.observe.snapshot import LockKey, LockSnapshot

_PAGE_SIZE = "250"  # objects; each may have 256 KiB of annotations
_MAX_PAGE_BYTES = 128 << 20
POLL_SECONDS = 2.0  # where watching is denied; client-go's retry period
_WATCH_PAUSE_SECONDS = 1.0  # between the end of a watch and the next list
NODE_NAMESPACE = "kube-node-lease"
# The identities of API servers, since 1.26 and before.
_NO_API_SERVERS = "!apiserver.kubernetes.io/identity,k8s.io/component!=kube-apiserver"
_METADATA = "application/json;as={};g=meta.k8s.io;v=v1"


class ResourceKind(NamedTuple):
    """A kind of object that keeps locks."""

    api_version: str
    kind: str
    plural: str
    decode: Callable[[dict[str, Any]], LockSnapshot | None]
    metadata_only: bool  # ask the API server for the objects' metadata alone


LEASES = ResourceKind("coordination.k8s.io/v1", "Lease", "leases", decode.lease, metadata_only=False)
CONFIG_MAPS = ResourceKind("v1", "ConfigMap", "configmaps", decode.config_map, metadata_only=True)
ENDPOINTS = ResourceKind("v1", "Endpoints", "endpoints", decode.endpoints, metadata_only=True)
_KINDS = {"lease": LEASES, "configmap": CONFIG_MAPS, "endpoints": ENDPOINTS, FOR_LIFE: CONFIG_MAPS}


def resource_kinds(lock: str) -> tuple[ResourceKind, ...]:
    """The kinds of object that keep this kind of lock; "": all."""
    if not lock:
        return LEASES, CONFIG_MAPS, ENDPOINTS
    return tuple(_KINDS[kind] for kind in MULTILOCKS.get(lock, (lock,)))


class Scope(NamedTuple):
    """Which objects; "" for those of all namespaces, or of all names."""

    namespace: str
    name: str = ""
    all_leases: bool = False  # also those of nodes and of API servers, which have no candidates


class KubeSource:
    """The locks in objects of one kind. ``timeout``: seconds for each request."""

    def __init__(self, api: ApiClient, kind: ResourceKind, scope: Scope, timeout: float) -> None:
        self.kind, self.api = kind, api
        self._scope, self._timeout = scope, timeout
        root = "/apis/" if "/" in kind.api_version else "/api/"
        within = f"namespaces/{urllib.parse.quote(scope.namespace, safe='')}/" if scope.namespace else ""
        self._collection = f"{root}{kind.api_version}/{within}{kind.plural}"
        self._keys: dict[tuple[str, str], LockKey] = {}
        self.registries: list[dict[str, Any]] = []  # of candidates, that were last read among the objects
        self._one_call = asyncio.Lock()  # a client takes one call at a time

    @property
    def skew(self) -> ClockSkew | None:
        """How far the API server's clock is from this machine's."""
        return self.api.skew

    async def poll(self) -> dict[LockKey, LockSnapshot]:
        """All locks; LockError. One object is read by GET, which a Role that names it allows."""
        return (await self._read_all())[0]

    async def follow(self) -> AsyncGenerator[SourceUpdate, None]:
        """All locks, then each change, for ever. Errors are reported, and followed by another try."""
        backoff, is_denied = Backoff(1.0, 10.0), False
        while True:
            try:
                snapshots, version = await self._read_all()
            except LockError as error:
                yield SourceUpdate({}, error=error)
                await asyncio.sleep(max(backoff.pause(), error.failure.retry_after))
                continue
            backoff.reset()
            yield SourceUpdate({**snapshots}, is_complete=True)
            if not is_denied:
                try:
                    async with aclosing(self._watch(version)) as updates:
                        async for update in updates:
                            yield update
                except WatchError as error:
                    is_denied = error.ended.denied
                    if not error.ended.begun:
                        reason = f"{error}{'; polling instead' if is_denied else ''}"
                        yield SourceUpdate({}, error=LockError(Kind.UNREACHABLE, reason))
            await asyncio.sleep(POLL_SECONDS if is_denied else _WATCH_PAUSE_SECONDS)

    async def _read_all(self) -> tuple[dict[LockKey, LockSnapshot], str]:
        """All locks, and the resourceVersion to watch from."""
        async with self._one_call:
            found, version = await (self._get() if self._scope.namespace and self._scope.name else self._list())
        locks = [snapshot for item in found if (snapshot := self._decode(item))]
        self.registries = [item for item in found if candidate_registry.is_registry(item)]
        self._keys = {lock.key[1:]: lock.key for lock in locks}
        return {lock.key: lock for lock in locks}, version

    async def _get(self) -> tuple[list[Any], str]:
        target = f"{self._collection}/{urllib.parse.quote(self._scope.name, safe='')}"
        accept = self._accept("PartialObjectMetadata")
        try:
            found = await self.api.call("GET", target, None, self._timeout, accept=accept, max_bytes=_MAX_PAGE_BYTES)
        except LockError as error:
            if error.failure.kind is not Kind.MISSING:
                raise
            return [], ""
        return [found], str(string_map(found.get("metadata")).get("resourceVersion") or "")

    async def _list(self) -> tuple[list[Any], str]:
        """In pages; whole where the first page is too old to continue, as client-go's pager."""
        try:
            return await self._list_pages({"limit": _PAGE_SIZE})
        except LockError as error:
            if error.failure.kind is not Kind.REFUSED:
                raise
            return await self._list_pages({})

    async def _list_pages(self, limit: dict[str, str]) -> tuple[list[Any], str]:
        accept = self._accept("PartialObjectMetadataList")
        query = self._selectors() | limit
        found, version = list[Any](), ""
        pages = list_pages(
            self.api, self._collection, query, self._timeout, accept=accept, max_bytes=_MAX_PAGE_BYTES
        )  # fmt: skip
        async with aclosing(pages):
            async for items, metadata in pages:
                found += items
                version = str(metadata.get("resourceVersion") or "")
        return found, version

    async def _watch(self, version: str) -> AsyncGenerator[SourceUpdate, None]:
        query = {"watch": "1", "allowWatchBookmarks": "true", **self._selectors()}
        if version:
            query["resourceVersion"] = version
        target = f"{self._collection}?{urllib.parse.urlencode(query)}"
        accept = self._accept("PartialObjectMetadata")
        try:
            async with aclosing(self.api.watch(target, self._timeout, accept=accept)) as events:
                async for event, found in events:
                    if event != "BOOKMARK" and (changed := self._changed(found, is_deleted=event == "DELETED")):
                        yield SourceUpdate(changed)
        except LockError as error:
            raise WatchError(str(error)) from None

    def _changed(self, found: dict[str, Any], *, is_deleted: bool) -> dict[LockKey, LockSnapshot | None]:
        """What a watch event changes: an object may keep a lock of another kind now, or none."""
        snapshot = None if is_deleted else self._decode(found)
        metadata = string_map(found.get("metadata"))
        place = str(metadata.get("namespace") or ""), str(metadata.get("name"))
        before = self._keys.pop(place, None)
        changed: dict[LockKey, LockSnapshot | None] = {before: None} if before else {}
        if snapshot:
            self._keys[place] = snapshot.key
            changed[snapshot.key] = snapshot
        return changed

    def _decode(self, found: object) -> LockSnapshot | None:
        """The lock in an object; None where it keeps none. LockError where this is no such object."""
        metadata = found.get("metadata") if isinstance(found, dict) else None
        if not isinstance(found, dict) or not isinstance(metadata, dict) or not isinstance(metadata.get("name"), str):
            raise self.api.unreadable(f"something that is not a {self.kind.kind}")
        return self.kind.decode(found)

    def _accept(self, partial: str) -> str:
        return _METADATA.format(partial) if self.kind.metadata_only else JSON

    def _selectors(self) -> dict[str, str]:
        scope = self._scope
        if scope.name:
            return {"fieldSelector": f"metadata.name={scope.name}"}
        if self.kind is not LEASES or scope.all_leases:
            return {}
        return {"fieldSelector": f"metadata.namespace!={NODE_NAMESPACE}", "labelSelector": _NO_API_SERVERS}
