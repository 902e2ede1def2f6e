"""A lock that is kept in one object at the API, whatever its kind.

The incarnation is an annotation. What else the object holds is written back as it was read.
"""

from __future__ import annotations

import time
import urllib.parse
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, ClassVar

from kleader.election.events import Observed
from kleader.election.record import MalformedRecordError, Record, micro_time
from kleader.election.request import Request, from_text, to_text
from kleader.locks import notes
from kleader.locks.base import LockError, Traits, WatchError
from kleader.locks.notes import INCARNATION, REQUEST

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Mapping

    from kleader.locks.api import Api


class ObjectLock:
    """One object; a kind of lock says where it is and how it keeps the record. ``labels`` are merged into its own.

    ``warn`` is told what somebody should look at, though the lock works.
    """

    api_version: ClassVar[str]
    kind: ClassVar[str]
    plural: ClassVar[str]
    traits: Traits = Traits()

    def __init__(
        self,
        api: Api,
        namespace: str,
        name: str,
        labels: Mapping[str, str],
        warn: Callable[[str], None] = lambda _: None,
    ) -> None:
        self.namespace = namespace
        self._api = api
        self._warn = warn
        self._warned: set[str] = set()
        self._name = name
        self._labels = dict(labels)
        root = "/apis/" if "/" in self.api_version else "/api/"
        quoted = urllib.parse.quote(namespace, safe="")
        self._collection = f"{root}{self.api_version}/namespaces/{quoted}/{self.plural}"
        self._target = f"{self._collection}/{urllib.parse.quote(name, safe='')}"

    # --- what a kind of lock decides

    def decode(self, found: dict[str, Any]) -> Record:
        """The record that the object keeps; MalformedRecordError."""
        raise NotImplementedError

    def encode(self, body: dict[str, Any], record: Record) -> None:
        """Put the record into the object."""
        raise NotImplementedError

    def writer(self, found: dict[str, Any]) -> str:
        """The field manager that wrote the record; "": nobody's told."""
        return notes.writer(found)

    def give(self, body: dict[str, Any], record: Record) -> None:
        """Say in an object with this record that the last holder named this one, who has not written it yet."""
        if record.renewed is not None:
            body["metadata"]["annotations"][notes.GIVEN] = micro_time(record.renewed)

    def given(self, found: dict[str, Any], record: Record) -> bool:
        """Whether the object, which has this record, says so still."""
        return notes.given(found, record)

    async def create(self, body: dict[str, Any], timeout: float, query: str = "") -> dict[str, Any]:
        """Create the object where there is none; Kind.CONFLICT where there is."""
        return await self._api.call("POST", self._collection + query, body, timeout)

    # --- what they have in common

    async def get(self, timeout: float) -> Observed:
        """The object as it is now."""
        return self.observed(await self._api.call("GET", self._target, None, timeout))

    async def write(self, base: Observed | None, record: Record, incarnation: str, timeout: float) -> Observed:
        """PUT with the uid and resourceVersion of ``base``, or create."""
        body = self._body(base.base if base else self._blank(), record, incarnation)
        self._mind_owners(body["metadata"])
        if base is None:
            return self.observed(await self.create(body, timeout))
        return self.observed(await self._api.call("PUT", self._target, body, timeout))

    async def ask(self, base: Observed, request: Request, timeout: float) -> Observed:
        """Leave a request to the holder on exactly the state ``base``; nothing else is changed."""
        metadata = dict(base.base["metadata"])
        metadata["annotations"] = {**texts(metadata.get("annotations")), REQUEST: to_text(request)}
        return self.observed(await self._api.call("PUT", self._target, {**base.base, "metadata": metadata}, timeout))

    async def rehearse(self, timeout: float) -> None:
        """Have the API server judge a creation without doing it; LockError: it would be refused."""
        now = time.time_ns() // 1000
        await self.create(
            self._body(self._blank(), Record("kleader", 1, now, now), "rehearsal"), timeout, "?dryRun=All"
        )

    async def watch(self, after: Observed | None, timeout: float) -> AsyncGenerator[Observed | None, None]:
        """Each later state of the object."""
        version = after.version if after else ""
        try:
            async with aclosing(self._api.changes(self._collection, self._name, version, timeout)) as states:
                async for found in states:
                    yield None if found is None else self.observed(found)
        except LockError as error:
            raise WatchError(str(error)) from None

    def references(self, seen: Observed) -> list[dict[str, str]]:
        """One, to this object."""
        metadata = seen.base["metadata"]
        reference = {"apiVersion": self.api_version, "kind": self.kind, "namespace": self.namespace, "name": self._name}
        return [reference | {"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"]}]

    def enter(self) -> None:
        """A candidate shows nowhere but in the lock."""

    async def leave(self, timeout: float) -> None:
        """Likewise."""

    def observed(self, found: dict[str, Any]) -> Observed:
        """What the object shows; Kind.UNREACHABLE where it is not the object that was asked for."""
        metadata = self._checked(found, self.kind, self._name)
        incarnation = notes.note(found)
        try:
            record, fault = self.decode(found), ""
        except MalformedRecordError as error:
            mend = f"mend it with kubectl edit {self.kind.lower()} -n {self.namespace} {self._name}"
            record, fault = Record(), f"the {self.kind} {self.namespace}/{self._name} is malformed: {error}; {mend}"
        version = metadata["resourceVersion"]
        return Observed(
            record,
            incarnation if isinstance(incarnation, str) else "",
            version,
            fault,
            found,
            request=from_text(notes.note(found, REQUEST)),
            given=not fault and self.given(found, record),
        )

    def _checked(self, found: dict[str, Any], kind: str, name: str) -> dict[str, Any]:
        """The metadata of the object of this kind and name, with a uid and a version; Kind.UNREACHABLE otherwise."""
        metadata = found.get("metadata")
        if not isinstance(metadata, dict) or metadata.get("name") != name or found.get("kind") != kind:
            raise self._api.unreadable(f"something that is not the {kind} {name}")
        version = metadata.get("resourceVersion")
        if not isinstance(version, str) or not version or not isinstance(metadata.get("uid"), str):
            raise self._api.unreadable(f"a {kind} without uid or resourceVersion")
        return metadata

    def warn_once(self, sentence: str) -> None:
        """Tell what somebody should look at, unless it was told before."""
        if sentence not in self._warned:
            self._warned.add(sentence)
            self._warn(sentence)

    def _mind_owners(self, metadata: dict[str, Any]) -> None:
        names = owners(metadata)
        if names:
            what = f"the {self.kind} {self.namespace}/{self._name}"
            self.warn_once(f"{what} belongs to the {' and the '.join(names)}: it is deleted when that is")

    def _blank(self) -> dict[str, Any]:
        return {
            "apiVersion": self.api_version,
            "kind": self.kind,
            "metadata": {"name": self._name, "namespace": self.namespace},
        }

    def _body(self, base: dict[str, Any], record: Record, incarnation: str) -> dict[str, Any]:
        """The object as it shall be; ``base`` stays as it is."""
        metadata = dict(base["metadata"])
        kept = {key: text for key, text in texts(metadata.get("annotations")).items() if key not in notes.ALL}
        metadata["annotations"] = kept | ({INCARNATION: incarnation} if incarnation else {})
        metadata["labels"] = {**texts(metadata.get("labels")), **self._labels}
        body = {**base, "metadata": metadata}
        self.encode(body, record)
        if record.holder and not incarnation:  # nobody has that term yet
            self.give(body, record)
        return body


def owners(metadata: dict[str, Any]) -> list[str]:
    """What an object belongs to, by kind and name."""
    found = metadata.get("ownerReferences")
    named = [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []
    return [f"{each.get('kind')} {each.get('name')}" for each in named]


def texts(found: object) -> dict[str, Any]:
    """What an object has of labels or annotations; what is neither is none."""
    return found if isinstance(found, dict) else {}
