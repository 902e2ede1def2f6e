"""All locks in one kind of object at the API: read in pages, then watched; polled where watching is denied."""

from __future__ import annotations

import asyncio
import urllib.parse
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, NamedTuple

from kleader.election.events import Kind
from kleader.link.plan import FOR_LIFE
from kleader.locks.api import JSON
from kleader.locks.base import LockError, WatchError
from kleader.locks.object import texts
from kleader.locks.pages import pages
from kleader.watching import decode
from kleader.watching.pairs import PAIRS

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable

    from kleader.locks.answers import Skew
    from kleader.locks.api import Api
    from kleader.watching.seen import Key, Seen

_PAGE = "250"  # objects; each may have 256 KiB of annotations
_LONGEST_PAGE = 128 << 20  # bytes
POLL = 2.0  # seconds between two looks where watching is denied; client-go's retry period
_FIRST_PAUSE, _LONGEST_PAUSE = 1.0, 10.0  # seconds
NODES = "kube-node-lease"
# The identities of API servers, since 1.26 and before.
_NO_SERVERS = "!apiserver.kubernetes.io/identity,k8s.io/component!=kube-apiserver"
_METADATA = ";g=meta.k8s.io;v=v1"


class Shelf(NamedTuple):
    """A kind of object that locks are kept in."""

    api_version: str
    kind: str
    plural: str
    decode: Callable[[dict[str, Any]], Seen | None]
    partial: bool  # their metadata is all that is read


LEASES = Shelf("coordination.k8s.io/v1", "Lease", "leases", decode.lease, partial=False)
CONFIG_MAPS = Shelf("v1", "ConfigMap", "configmaps", decode.config_map, partial=True)
ENDPOINTS = Shelf("v1", "Endpoints", "endpoints", decode.endpoints, partial=True)
_SHELVES = {"lease": LEASES, "configmap": CONFIG_MAPS, "endpoints": ENDPOINTS, FOR_LIFE: CONFIG_MAPS}


def shelves(asked: str) -> tuple[Shelf, ...]:
    """Where locks of this kind are kept; "": of all kinds."""
    if not asked:
        return LEASES, CONFIG_MAPS, ENDPOINTS
    return (_SHELVES[PAIRS[asked]], LEASES) if asked in PAIRS else (_SHELVES[asked],)


class Where(NamedTuple):
    """Which objects: "" for those of all namespaces, or of all names."""

    namespace: str
    name: str = ""
    all_leases: bool = False  # those of nodes, and of API servers, too


class News(NamedTuple):
    """What became of some locks, None: gone; or, with ``whole``, all that there are. Or why there is no news."""

    seen: dict[Key, Seen | None]
    whole: bool = False
    trouble: LockError | None = None


class Source:
    """One shelf. ``timeout``: seconds for each request."""

    def __init__(self, api: Api, shelf: Shelf, where: Where, timeout: float) -> None:
        self.shelf = shelf
        self.api = api
        self._where = where
        self._timeout = timeout
        root = "/apis/" if "/" in shelf.api_version else "/api/"
        within = f"namespaces/{urllib.parse.quote(where.namespace, safe='')}/" if where.namespace else ""
        self._collection = f"{root}{shelf.api_version}/{within}{shelf.plural}"
        self._keys: dict[tuple[str, str], Key] = {}
        self._turn = asyncio.Lock()  # a road takes one call at a time

    @property
    def skew(self) -> Skew | None:
        """How far the API server's clock is from this machine's."""
        return self.api.skew

    async def look(self) -> tuple[dict[Key, Seen], str]:
        """All that there are, and the resourceVersion to watch from; LockError.

        One object is read by GET, which its name in a Role allows.
        """
        async with self._turn:
            return await self._look()

    async def _look(self) -> tuple[dict[Key, Seen], str]:
        if self._where.namespace and self._where.name:
            target = f"{self._collection}/{urllib.parse.quote(self._where.name, safe='')}"
            try:
                found = [await self._get(target, "PartialObjectMetadata")]
            except LockError as error:
                if error.failure.kind is not Kind.MISSING:
                    raise
                return {}, ""
            version = str(texts(found[0].get("metadata")).get("resourceVersion") or "")
        else:
            found, version = await self._list()
        locks = [seen for each in found if (seen := self._read(each))]
        self._keys = {(seen.namespace, seen.name): seen.key for seen in locks}
        return {seen.key: seen for seen in locks}, version

    async def follow(self) -> AsyncGenerator[News, None]:
        """All that there are, then each change. What goes wrong is told, and tried again."""
        pause, denied = _FIRST_PAUSE, False
        while True:
            try:
                seen, version = await self.look()
            except LockError as error:
                yield News({}, trouble=error)
                await asyncio.sleep(max(pause, error.failure.retry_after))
                pause = min(_LONGEST_PAUSE, pause * 2)
                continue
            pause = _FIRST_PAUSE
            yield News(dict(seen), whole=True)
            if not denied:
                try:
                    async with aclosing(self._watch(version)) as changes:
                        async for change in changes:
                            yield change
                except WatchError as error:
                    denied = error.ended.denied
                    if not error.ended.begun:
                        reason = f"{error}{'; polling instead' if denied else ''}"
                        yield News({}, trouble=LockError(Kind.UNREACHABLE, reason))
            await asyncio.sleep(POLL if denied else _FIRST_PAUSE)

    # --- requests

    async def _get(self, target: str, partial: str) -> dict[str, Any]:
        return await self.api.call(
            "GET", target, None, self._timeout, accept=self._accept(partial), most=_LONGEST_PAGE
        )  # fmt: skip

    def _accept(self, partial: str) -> str:
        return f"{JSON};as={partial}{_METADATA}" if self.shelf.partial else JSON

    async def _list(self) -> tuple[list[dict[str, Any]], str]:
        """Page by page; at once where the first page has grown too old for the next one, as client-go's pager."""
        try:
            return await self._pages(_PAGE)
        except LockError as error:
            if error.failure.kind is not Kind.REFUSED:
                raise
            return await self._pages("")

    async def _pages(self, size: str) -> tuple[list[dict[str, Any]], str]:
        query = self._selectors() | ({"limit": size} if size else {})
        accept = self._accept("PartialObjectMetadataList")
        listed = pages(self.api, self._collection, query, self._timeout, accept=accept, most=_LONGEST_PAGE)
        found, version = list[dict[str, Any]](), ""
        async with aclosing(listed):
            async for items, metadata in listed:
                found += items
                version = str(metadata.get("resourceVersion") or "")
        return found, version

    async def _watch(self, version: str) -> AsyncGenerator[News, None]:
        query = {"watch": "1", "allowWatchBookmarks": "true", **self._selectors()}
        if version:
            query["resourceVersion"] = version
        target = f"{self._collection}?{urllib.parse.urlencode(query)}"
        accept = self._accept("PartialObjectMetadata")
        try:
            async with aclosing(self.api.watch(target, self._timeout, accept=accept)) as events:
                async for kind, found in events:
                    if kind == "BOOKMARK":
                        continue
                    changed = self._changed(found, gone=kind == "DELETED")
                    if changed:
                        yield News(changed)
        except LockError as error:
            raise WatchError(str(error)) from None

    def _selectors(self) -> dict[str, str]:
        where = self._where
        if where.name:
            return {"fieldSelector": f"metadata.name={where.name}"}
        if self.shelf is not LEASES or where.all_leases:
            return {}
        return {"fieldSelector": f"metadata.namespace!={NODES}", "labelSelector": _NO_SERVERS}

    # --- answers

    def _read(self, found: object) -> Seen | None:
        """The lock in an object; None where there is none. Kind.UNREACHABLE where it is no such object."""
        metadata = found.get("metadata") if isinstance(found, dict) else None
        if not isinstance(found, dict) or not isinstance(metadata, dict) or not isinstance(metadata.get("name"), str):
            raise self.api.unreadable(f"something that is no {self.shelf.kind}")
        return self.shelf.decode(found)

    def _changed(self, found: dict[str, Any], *, gone: bool) -> dict[Key, Seen | None]:
        """What a watch event says; what is no lock any more, or one of another kind, is gone too."""
        seen = None if gone else self._read(found)
        metadata = texts(found.get("metadata"))
        place = str(metadata.get("namespace") or ""), str(metadata.get("name"))
        before = self._keys.pop(place, None)
        changed: dict[Key, Seen | None] = {before: None} if before else {}
        if seen:
            self._keys[place] = seen.key
            changed[seen.key] = seen
        return changed
