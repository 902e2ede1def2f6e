"""A lock in one object of the API, of any kind.

The incarnation is an annotation. Everything else in the object is written back as it was read.
"""

from __future__ import annotations

import time
import urllib.parse
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, ClassVar

from kleader.election.events import Observed
from kleader.election.record import MalformedRecordError, Record, micro_time
from kleader.election.request import Request, from_text, to_text
from kleader.kube.errors import LockError, WatchError
from kleader.kube.metadata import owner_names, string_map
from kleader.locks import lock_annotations, run_history
from kleader.locks.base import LockProperties
from kleader.locks.lock_annotations import HANDED_OVER, INCARNATION, RECOMMENDED, REQUEST, REQUESTED_BY, annotation
from kleader.locks.run_history import LAST_ENDED, LAST_RUN

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from kleader.locks.base import Place
    from kleader.locks.run_history import Run


class ObjectLock:
    """One object. A subclass names its kind and says how it keeps the record. Methods as in kleader.locks.base.

    The place's labels are merged into the object's.
    """

    api_version: ClassVar[str]
    kind: ClassVar[str]
    plural: ClassVar[str]
    properties: LockProperties = LockProperties()
    ended_run: Run | None = None
    recommended = ""
    ends_term = False

    def __init__(self, place: Place) -> None:
        self._api, self.namespace, self._name, self._labels, self._warn, self._force, self._in_pod = place
        self._warned: set[str] = set()
        self._title = f"the {self.kind} {self.namespace}/{self._name}"
        root = "/apis/" if "/" in self.api_version else "/api/"
        quoted = urllib.parse.quote(self.namespace, safe="")
        self._collection = f"{root}{self.api_version}/namespaces/{quoted}/{self.plural}"
        self._target = f"{self._collection}/{urllib.parse.quote(self._name, safe='')}"

    # --- what a subclass decides

    def decode(self, found: dict[str, Any]) -> Record:
        """The record in the object. MalformedRecordError."""
        raise NotImplementedError

    def encode(self, body: dict[str, Any], record: Record) -> None:
        """Put the record into the object."""
        raise NotImplementedError

    def field_manager(self, found: dict[str, Any]) -> str:
        """The field manager that last wrote the record; "" if unknown."""
        return lock_annotations.field_manager(found)

    def mark_handed_over(self, body: dict[str, Any], record: Record) -> None:
        """Mark an object with this record: the last holder named this one, which has not written it yet."""
        if record.renewed is not None:
            body["metadata"]["annotations"][HANDED_OVER] = micro_time(record.renewed)

    def is_handed_over(self, found: dict[str, Any], record: Record) -> bool:
        """Whether the object with this record is marked so."""
        return lock_annotations.is_handed_over(found, record)

    async def create(self, body: dict[str, Any], timeout: float, query: str = "") -> dict[str, Any]:
        """Create the object; Kind.CONFLICT if there is one."""
        return await self._api.call("POST", self._collection + query, body, timeout)

    # --- kleader.locks.base

    async def get(self, timeout: float) -> Observed:
        """The object now."""
        return self.observed(await self._api.call("GET", self._target, None, timeout))

    async def write(self, base: Observed | None, record: Record, incarnation: str, timeout: float) -> Observed:
        """PUT with the metadata of ``base``: refused if the object has another uid or resourceVersion. Or create."""
        body = self._body(base.base if base else self._blank(), record, incarnation)
        if owners := owner_names(body["metadata"]):
            self.warn_once(f"{self._title} belongs to the {' and the '.join(owners)}: it is deleted when that is")
        if base is None:
            return self.observed(await self.create(body, timeout))
        return self.observed(await self._api.call("PUT", self._target, body, timeout))

    async def watch(self, after: Observed | None, timeout: float) -> AsyncGenerator[Observed | None, None]:
        """Each later state of the object."""
        version = after.version if after else ""
        try:
            watch = self._api.watch_object(
                self._collection, self._name, version, timeout, reads_missing=self.properties.coordinated and not after
            )
            async with aclosing(watch) as states:
                async for found in states:
                    yield None if found is None else self.observed(found)
        except LockError as error:
            raise WatchError(str(error)) from None

    def references(self, seen: Observed) -> list[dict[str, str]]:
        """A reference to the object."""
        metadata = seen.base["metadata"]
        reference = {"apiVersion": self.api_version, "kind": self.kind, "namespace": self.namespace, "name": self._name}
        return [reference | {"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"]}]

    def register(self) -> None:
        """Nothing: a candidate shows only in the lock."""

    async def unregister(self, timeout: float) -> None:
        """Nothing."""

    @property
    def server_time(self) -> int | None:
        """By the Date of the last successful call."""
        return self._api.server_time

    def runs(self, seen: Observed) -> list[Run]:
        """The annotation LAST_RUN."""
        return run_history.read(annotation(seen.base, LAST_RUN))

    def requested_by(self, seen: Observed) -> str:
        """The annotation REQUESTED_BY."""
        return lock_annotations.requested_by(seen.base)

    # --- for commands

    async def leave_request(self, base: Observed, request: Request, by: str, timeout: float) -> Observed:
        """Leave a request to the holder over exactly the observation ``base``, and change nothing else.

        ``by``: the user and the host that it comes from.
        """
        metadata = dict(base.base["metadata"])
        mine = {REQUEST: to_text(request), REQUESTED_BY: by}
        metadata["annotations"] = {**string_map(metadata.get("annotations")), **mine}
        return self.observed(await self._api.call("PUT", self._target, {**base.base, "metadata": metadata}, timeout))

    async def dry_run(self, timeout: float) -> None:
        """Ask the API server whether the object could be created. LockError: it would be refused."""
        now = time.time_ns() // 1000
        body = self._body(self._blank(), Record("kleader", 1, now, now), "rehearsal")
        await self.create(body, timeout, "?dryRun=All")

    def observed(self, found: dict[str, Any]) -> Observed:
        """The observation of an object; Kind.UNREACHABLE for one that was not requested."""
        version = self._metadata(found, self.kind, self._name)["resourceVersion"]
        incarnation = annotation(found)
        try:
            record, fault = self.decode(found), ""
        except MalformedRecordError as error:
            hint = f"fix it with kubectl edit {self.kind.lower()} -n {self.namespace} {self._name}"
            record, fault = Record(), f"{self._title} is malformed: {error}; {hint}"
        return Observed(
            record,
            incarnation if isinstance(incarnation, str) else "",
            version,
            fault,
            found,
            request=from_text(annotation(found, REQUEST)),
            handed_over=not fault and self.is_handed_over(found, record),
            recommended=lock_annotations.recommended(found, record),
        )

    # --- for subclasses

    def warn_once(self, sentence: str) -> None:
        """Warn, unless it was said before."""
        if sentence not in self._warned:
            self._warned.add(sentence)
            self._warn(sentence)

    def _metadata(self, found: dict[str, Any], kind: str, name: str) -> dict[str, Any]:
        """The metadata of an object of this kind and name, with uid and resourceVersion; else Kind.UNREACHABLE."""
        metadata = found.get("metadata")
        if not isinstance(metadata, dict) or metadata.get("name") != name or found.get("kind") != kind:
            raise self._api.unreadable(f"something that is not the {kind} {name}")
        version = metadata.get("resourceVersion")
        if not isinstance(version, str) or not version or not isinstance(metadata.get("uid"), str):
            raise self._api.unreadable(f"a {kind} without uid or resourceVersion")
        return metadata

    def _blank(self) -> dict[str, Any]:
        metadata = {"name": self._name, "namespace": self.namespace}
        return {"apiVersion": self.api_version, "kind": self.kind, "metadata": metadata}

    def _body(self, base: dict[str, Any], record: Record, incarnation: str) -> dict[str, Any]:
        """The object with this record; ``base`` is not changed."""
        metadata = dict(base["metadata"])
        annotations = string_map(metadata.get("annotations"))
        kept = {key: text for key, text in annotations.items() if key not in lock_annotations.ALL}
        metadata["annotations"] = kept | ({INCARNATION: incarnation} if incarnation else {})
        if self.ended_run:
            run = self.ended_run._replace(released=None if record.holder else record.transitions)
            runs = run_history.add(run_history.read(kept.get(LAST_RUN)), run)
            metadata["annotations"][LAST_RUN] = run_history.write(runs)
        if self._in_pod and incarnation:
            metadata["annotations"][lock_annotations.POD] = f"{self._in_pod} {record.holder}"
        if self.ends_term:
            is_handover = bool(record.holder) and not incarnation  # which counts the next term
            metadata["annotations"][LAST_ENDED] = str(record.transitions - is_handover)
        if self.recommended and not record.holder:
            metadata["annotations"][RECOMMENDED] = lock_annotations.recommendation(record, self.recommended)
        metadata["labels"] = {**string_map(metadata.get("labels")), **self._labels}
        body = {**base, "metadata": metadata}
        self.encode(body, record)
        if record.holder and not incarnation:  # its holder has not written it
            self.mark_handed_over(body, record)
        return body
