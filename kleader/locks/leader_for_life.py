"""A lock in a ConfigMap that the leader's Pod owns, as operator-lib's leader-for-life keeps it.

Its only ownerReference names the leader. It does not expire: the garbage collector deletes it after the Pod, and
operator-lib creates it where there is none. kleader adds the incarnation, an annotation; an empty one says that the
owner has released the lock, which it does before it deletes the ConfigMap.

Differences from operator-lib, which lets two lead at once:

- A Pod is identified by its uid, not by its name, and a process of a Pod by its incarnation. One process of a Pod
  competes at a time.
- A Pod is dead when its object is gone, or when its phase is Failed or Succeeded and each of its containers has
  terminated, unless Pod garbage collection wrote the phase. A node that is not ready proves nothing.
- No Pod is ever deleted. A ConfigMap is deleted only if its owner is dead or has released it, and only that very one.
- A ConfigMap that vanished is still its last owner's, until that is dead, or unless it had released the lock.
"""

from __future__ import annotations

import asyncio
import json
import urllib.parse
from contextlib import aclosing
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from kleader.election.events import Kind, Observed
from kleader.election.record import Record
from kleader.election.request import from_text
from kleader.kube.errors import LockError, WatchError
from kleader.kube.merged_watch import merge_watches
from kleader.kube.metadata import string_map
from kleader.kube.pod_owner import PodOwner, invalid_owner, is_dead, owner_of
from kleader.kube.timeout import seconds_left
from kleader.locks import instance_lock
from kleader.locks.base import LockProperties
from kleader.locks.lock_annotations import INCARNATION, REQUEST, annotation
from kleader.locks.object_lock import ObjectLock

if TYPE_CHECKING:
    import socket
    from collections.abc import AsyncGenerator, Callable

    from kleader.locks.base import Place
    from kleader.locks.run_history import Run

_POLL_SECONDS = 1.0  # for what only this machine can tell
_ANOTHER_INSTANCE = "another kleader of this Pod competes for it, or has not ended yet"
_EARLIER_PROCESSES = "processes of an earlier term still run here"


class PodContext(NamedTuple):
    """The Pod of this candidate, in the lock's namespace: an owner cannot be in another one."""

    pod: str
    uid: str  # "": of the Pod that has this name at first
    socket: socket.socket  # for the instance lock: shared by the processes of this kleader only
    has_earlier_processes: Callable[[set[str], str], bool]  # of terms other than these; it kills those of the second
    incarnation: str = ""  # that an earlier elector may have written
    leading: bool = False
    resume_state: str = ""  # what the last elector saved
    save: Callable[[str], object] = lambda _: None  # for the next elector


class OwnerSnapshot(NamedTuple):
    """The lock as observed: what a write is based on, and what there is to watch."""

    found: dict[str, Any] | None  # the ConfigMap; None if there is none
    owner: PodOwner | None = None
    pod: dict[str, Any] | None = None  # the owner's; None if there is none
    pod_unread: bool = False  # the owner's Pod was not read
    is_blocked: bool = False  # by something that only this machine can tell


class LeaderForLifeLock(ObjectLock):
    """A ConfigMap, for a candidate in the Pod of ``context``."""

    api_version = "v1"
    kind = "ConfigMap"
    plural = "configmaps"
    properties = LockProperties(non_expiring=True)

    def __init__(self, place: Place, context: PodContext) -> None:
        super().__init__(place)
        self._pods = self._collection.removesuffix(self.plural) + "pods"
        self._context = context
        self._me: PodOwner | None = None
        self._incarnations = {context.incarnation} - {""}  # of this candidate's terms
        self._held = context.leading  # by this candidate, when last observed
        # The last owner observed, unless it was read to be dead, or had released the lock.
        self._last = PodOwner(*json.loads(context.resume_state)) if context.resume_state else None

    # --- reading

    async def get(self, timeout: float) -> Observed:
        """The ConfigMap, and then its owner's Pod; Kind.PERMANENT if this candidate's own Pod does not exist."""
        left = seconds_left(timeout)
        if self._me is None:
            self._me = await self._find_me(timeout)
        if not self._acquire_instance_lock(self._me):
            return Observed(Record(), fault=_ANOTHER_INSTANCE, base=OwnerSnapshot(None, is_blocked=True))
        found = await self._find(self._target, left())
        owner = self._owner_now(found)
        snapshot = OwnerSnapshot(found, owner, pod_unread=True)
        if owner and not (self._held and owner != self._me):  # else the lock is lost, to any owner
            snapshot = OwnerSnapshot(found, owner, await self._pod(owner.name, left()))
        seen = self._evaluate(snapshot)
        if seen is None or (found is None and seen.owner_gone and not seen.fault):
            self._save_last(None)
            raise LockError(Kind.MISSING, f"there is no ConfigMap {self.namespace}/{self._name}")
        return seen

    async def watch(self, after: Observed | None, timeout: float) -> AsyncGenerator[Observed | None, None]:
        """Each later state of the ConfigMap and of its owner's Pod; it ends, ``moved``, where the lock must be read."""
        now: OwnerSnapshot = after.base if after else OwnerSnapshot(None)
        if now.is_blocked:
            await self._wait_until_clear(now)
        if now.is_blocked or (now.owner and now.pod_unread):
            raise WatchError("there is something to be read first", moved=True)
        watches = [self._api.watch_object(self._collection, self._name, _version(now.found), timeout)]
        if now.owner and now.pod:
            watches.append(self._api.watch_object(self._pods, now.owner.name, _version(now.pod), timeout))
        try:
            async with aclosing(merge_watches(watches)) as changes:
                async for index, found in changes:
                    if index and now.owner is None:
                        continue  # the Pod of an earlier owner
                    now = self._changed(now, found, is_pod=bool(index))
                    if self._held or not now.pod_unread:
                        yield self._evaluate(now)
                    if now.pod_unread:
                        raise WatchError("it has another owner", moved=True)
        except LockError as error:
            raise WatchError(str(error)) from None

    def _changed(self, before: OwnerSnapshot, found: dict[str, Any] | None, *, is_pod: bool) -> OwnerSnapshot:
        """The snapshot after a change of the ConfigMap, or of its owner's Pod."""
        if is_pod and before.owner:
            if found is not None:
                self._metadata(found, "Pod", before.owner.name)
            return before._replace(pod=found)
        if found is not None:
            self._metadata(found, self.kind, self._name)
        owner = self._owner_now(found)
        return before._replace(found=found, owner=owner, pod_unread=owner not in {None, before.owner})

    def requested_by(self, seen: Observed) -> str:
        """Of the ConfigMap, if there is one."""
        found = seen.base.found
        return super().requested_by(replace(seen, base=found)) if found else ""

    def references(self, seen: Observed) -> list[dict[str, str]]:
        """A reference to the ConfigMap, if there is one."""
        found = seen.base.found
        return super().references(replace(seen, base=found)) if found else []

    # --- writing

    async def write(self, base: Observed | None, record: Record, incarnation: str, timeout: float) -> Observed:
        """Create the ConfigMap, after deleting a dead owner's; or write over this Pod's own; or release (no holder)."""
        left = seconds_left(timeout)
        snapshot: OwnerSnapshot = base.base if base else OwnerSnapshot(None)
        owner = snapshot.owner
        if not record.holder:
            return await self._release(snapshot, timeout)
        if self._me is None or not self._acquire_instance_lock(self._me):
            raise LockError(Kind.CONFLICT, _ANOTHER_INSTANCE)
        self._incarnations.add(incarnation)
        if snapshot.found and base and base.owned_by_me:
            body = self._body(snapshot.found, record, incarnation)
            found = await self._api.call("PUT", self._target, body, timeout)
        else:
            if owner and not is_dead(await self._pod(owner.name, timeout), owner.uid):  # a watch proves nothing
                raise LockError(Kind.CONFLICT, f"the Pod {owner.name} lives")
            if snapshot.found:
                await self._delete(snapshot.found, left())
            if self._last not in {None, owner}:  # it may have vanished again, and its owner live
                raise LockError(Kind.CONFLICT, "the watch has shown another owner since")
            body = self._body(self._blank(), record, incarnation)
            found = await self._api.call("POST", self._collection, body, left())
        pod = await self._pod(self._me.name, left())  # the garbage collector deletes what a dead Pod creates
        seen = self._evaluate(OwnerSnapshot(found, self._owner(found), pod))
        if seen is None or seen.owner_gone:
            raise LockError(Kind.PERMANENT, self._pod_gone)
        return seen

    async def _release(self, snapshot: OwnerSnapshot, timeout: float) -> Observed:
        """An empty incarnation, for the next kleader; then delete the ConfigMap, for operator-lib."""
        left = seconds_left(timeout)
        assert snapshot.found  # noqa: S101 - this candidate held it
        body = self._body(snapshot.found, Record(), "")
        body["metadata"]["annotations"][INCARNATION] = ""
        found = await self._api.call("PUT", self._target, body, timeout)
        seen = self._evaluate(OwnerSnapshot(found))
        try:
            await self._delete(found, left())
        except LockError as error:
            if error.failure.kind is not Kind.CONFLICT:  # another kleader has deleted it, or has the lock already
                self._warn(f"the lock is released, but its ConfigMap remains, and keeps operator-lib waiting: {error}")
        assert seen  # noqa: S101 - there is a ConfigMap
        return seen

    async def _delete(self, found: dict[str, Any] | None, timeout: float) -> None:
        """Delete this very ConfigMap if it has the same owner and incarnation still; else Kind.CONFLICT.

        A label that anybody has written since does not keep it.
        """
        left = seconds_left(timeout)
        while found:
            preconditions = {key: found["metadata"][key] for key in ("uid", "resourceVersion")}
            body = {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": preconditions}
            try:
                await self._api.call("DELETE", self._target, body, left())
            except LockError as error:
                if error.failure.kind is Kind.MISSING:
                    return
                if error.failure.kind is not Kind.CONFLICT:
                    raise
                before, found = found, await self._find(self._target, left())
                if found and _ownership(found) != _ownership(before):
                    raise
            else:
                return

    def _blank(self) -> dict[str, Any]:
        body = super()._blank()
        assert self._me  # noqa: S101 - it was read before
        owner = {"apiVersion": "v1", "kind": "Pod", "name": self._me.name, "uid": self._me.uid}
        body["metadata"]["ownerReferences"] = [owner]
        return body

    def runs(self, seen: Observed) -> list[Run]:  # noqa: ARG002
        """None: the ConfigMap is deleted with each release, and with its Pod."""
        return []

    def encode(self, body: dict[str, Any], record: Record) -> None:
        """Nothing: the owner is the record."""

    # --- what it means

    def _evaluate(self, snapshot: OwnerSnapshot) -> Observed | None:
        """The observation; None if there is neither a ConfigMap nor an owner to wait for.

        A lock that could be acquired has a fault while something on this machine is in the way.
        """
        found, owner, me = snapshot.found, snapshot.owner, self._me
        dead = owner is not None and not snapshot.pod_unread and is_dead(snapshot.pod, owner.uid)
        ours = found is not None and owner is not None and owner == me
        released, incarnation, fault, version = False, "", "", ""
        if found is not None:
            metadata = self._metadata(found, self.kind, self._name)
            version = metadata["resourceVersion"]
            incarnation, released = str(annotation(found) or ""), _is_released(found)
            fault = "" if owner or released else f"{self._title} {invalid_owner(metadata)}"
        held = ours and incarnation in self._incarnations
        lost, self._held = self._held and not held, held
        if (owner and not fault) or released:
            self._save_last(None if ours else owner)
        if not fault and not held and not lost:
            fault = self._blocked_reason(snapshot, owned_by_me=ours, owner_gone=dead)
            snapshot = snapshot._replace(is_blocked=fault == _EARLIER_PROCESSES)
        if found is None and owner is None and not fault:
            return None
        return Observed(
            Record(owner.name if owner else ""),
            incarnation,
            version,
            fault,
            snapshot,
            components=owner.uid if owner else "",
            owned_by_me=ours,
            owner_gone=dead,
            request=from_text(annotation(found, REQUEST)) if found else None,
        )

    def _blocked_reason(self, snapshot: OwnerSnapshot, *, owned_by_me: bool, owner_gone: bool) -> str:
        """Why a lock that no living Pod has cannot be acquired yet; "" if it can, or a living Pod has it."""
        found, owner = snapshot.found, snapshot.owner
        if owner and not owned_by_me and not owner_gone:
            if found is None:
                self.warn_once(f"the lock is gone, but not the Pod {owner.name}, which had it: waiting for its end")
            return ""
        if owned_by_me and found and annotation(found) is None:
            return "a process of this Pod that is not kleader has it"
        before = str(annotation(found) or "") if owned_by_me and found else ""
        if self._context.has_earlier_processes(self._incarnations, before):
            return _EARLIER_PROCESSES
        if found and found["metadata"].get("deletionTimestamp") and not owned_by_me:
            return f"{self._title} is deleted, and waits for its finalizers"
        return ""

    def _owner_now(self, found: dict[str, Any] | None) -> PodOwner | None:
        """The owner, or the last one of a ConfigMap that is gone; saved before its Pod is read, which may fail."""
        owner = self._last if found is None else self._owner(found)
        if owner not in {None, self._me}:
            self._save_last(owner)
        return owner

    def _save_last(self, last: PodOwner | None) -> None:
        if last != self._last:
            self._last = last
            self._context.save(json.dumps(last) if last else "")

    def _owner(self, found: dict[str, Any]) -> PodOwner | None:
        """The Pod that owns it; None if it was released, or has no valid owner."""
        return None if _is_released(found) else owner_of(string_map(found.get("metadata")).get("ownerReferences"))

    # --- this candidate's Pod

    @property
    def _pod_gone(self) -> str:
        return f"the Pod {self.namespace}/{self._context.pod}, which this candidate lived in, is gone"

    async def _find_me(self, timeout: float) -> PodOwner:
        pod = await self._pod(self._context.pod, timeout)
        what = f"Pod {self.namespace}/{self._context.pod}"
        if pod is None:
            hint = "set POD_NAME to the name of this Pod, and POD_NAMESPACE to its namespace"
            raise LockError(Kind.PERMANENT, f"there is no {what}: {hint}, by the downward API")
        uid: str = pod["metadata"]["uid"]
        if self._context.uid and self._context.uid != uid:
            reason = f"the {what} is not the one that this runs in: its uid is {uid}, POD_UID says {self._context.uid}"
            raise LockError(Kind.PERMANENT, reason)
        return PodOwner(self._context.pod, uid)

    def _acquire_instance_lock(self, me: PodOwner) -> bool:
        """Whether no other process of this Pod competes for the lock; from then on none does."""
        wanted = instance_lock.address(f"pod/{me.uid}/{self._name}".encode())
        if instance_lock.held(self._context.socket) not in {b"", wanted}:  # an earlier elector was in another Pod
            raise LockError(Kind.PERMANENT, self._pod_gone)
        return instance_lock.acquire(self._context.socket, wanted)

    async def _wait_until_clear(self, snapshot: OwnerSnapshot) -> None:
        """Wait until what blocks the lock on this machine is gone."""
        before = str(annotation(snapshot.found) or "") if snapshot.found else ""
        while True:
            acquired = self._me is None or self._acquire_instance_lock(self._me)
            if acquired and not self._context.has_earlier_processes(self._incarnations, before):
                return
            await asyncio.sleep(_POLL_SECONDS)

    async def _pod(self, name: str, timeout: float) -> dict[str, Any] | None:
        pod = await self._find(f"{self._pods}/{urllib.parse.quote(name, safe='')}", timeout)
        if pod is not None:
            self._metadata(pod, "Pod", name)
        return pod

    async def _find(self, target: str, timeout: float) -> dict[str, Any] | None:
        """An object; None if there is none."""
        try:
            return await self._api.call("GET", target, None, timeout)
        except LockError as error:
            if error.failure.kind is not Kind.MISSING:
                raise
        return None


def _is_released(found: dict[str, Any]) -> bool:
    return annotation(found) == ""


def _ownership(found: dict[str, Any]) -> tuple[object, ...]:
    metadata = string_map(found.get("metadata"))
    return metadata.get("uid"), metadata.get("ownerReferences"), annotation(found)


def _version(found: dict[str, Any] | None) -> str:
    return found["metadata"]["resourceVersion"] if found else ""
