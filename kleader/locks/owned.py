"""The lock in a ConfigMap that the leader's Pod owns, as operator-lib's leader-for-life keeps it.

Its only ownerReference says who leads. It does not expire: the garbage collector deletes it when that Pod is gone, and
operator-lib creates it where there is none. Beside that there is the incarnation, an annotation; an empty one says that
the owner has given the lock up, which comes before every release.

Where this departs from operator-lib, whose letter lets two lead at once:

- Pods are told by uid, not by name, and processes of one Pod by their incarnation; one of them contends at a time.
- A Pod counts as dead when its object is gone, or when it was evicted or preempted and all of its containers have
  terminated. Whether its node is ready proves nothing.
- No Pod is ever deleted; a ConfigMap only for an owner that is dead or has given it up, and that very one alone.
- One that vanished is its last owner's still, until that is dead, or has given it up before.
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
from kleader.locks import abstract
from kleader.locks.base import LockError, Traits, WatchError
from kleader.locks.merge import merged
from kleader.locks.notes import INCARNATION, REQUEST, note
from kleader.locks.object import ObjectLock, texts
from kleader.locks.pod import Owner, gone, odd, referred

if TYPE_CHECKING:
    import socket
    from collections.abc import AsyncGenerator, Callable, Mapping

    from kleader.locks.api import Api

_LOOK_EVERY = 1.0  # seconds, at what only this machine can tell
_ANOTHER = "another kleader of this Pod contends for it, or is not dead yet"
_LEFT = "processes of an earlier term still run here"


class Home(NamedTuple):
    """Where this candidate lives. The Pod's namespace is the lock's: an owner cannot be in another one."""

    pod: str
    uid: str  # "": of the Pod that has this name at first
    socket: socket.socket  # of all processes of this kleader, and of no other
    left: Callable[[set[str], str], bool]  # whether processes of other terms than these are alive; the second's die
    incarnation: str = ""  # that an elector before this one may have written
    leading: bool = False
    memory: str = ""  # what that one told last
    remember: Callable[[str], None] = lambda _: None  # tells what an elector that replaces this one must know


class Sight(NamedTuple):
    """What was seen of a lock, and so what there is to watch."""

    found: dict[str, Any] | None  # the ConfigMap; None: it is not there
    owner: Owner | None = None
    pod: dict[str, Any] | None = None  # the owner's; None: it is not there
    blind: bool = False  # the owner's Pod was not looked at
    waits: bool = False  # for something that only this machine can tell


class OwnedLock(ObjectLock):
    """One ConfigMap, for a candidate in the Pod ``home``."""

    api_version = "v1"
    kind = "ConfigMap"
    plural = "configmaps"
    traits = Traits(lasting=True)

    def __init__(  # noqa: PLR0913, PLR0917 - as any lock, and the home
        self,
        api: Api,
        namespace: str,
        name: str,
        labels: Mapping[str, str],
        warn: Callable[[str], None],
        home: Home,
    ) -> None:
        super().__init__(api, namespace, name, labels, warn)
        self._pods = self._collection.removesuffix(self.plural) + "pods"
        self._home = home
        self._me: Owner | None = None
        self._terms = {home.incarnation} - {""}  # our own
        self._held = home.leading  # it was ours when last seen
        # whose it was when last seen, unless that was read to be dead, or has given it up
        self._last = Owner(*json.loads(home.memory)) if home.memory else None

    # --- reading

    async def get(self, timeout: float) -> Observed:
        """The ConfigMap, and its owner's Pod as it is after that; Kind.HOPELESS where there is no Pod of our own."""
        clock = asyncio.get_running_loop().time
        end = clock() + timeout
        if self._me is None:
            self._me = await self._find_home(timeout)
        if not self._alone(self._me):
            return Observed(Record(), fault=_ANOTHER, base=Sight(None, waits=True))
        try:
            found = await self._api.call("GET", self._target, None, end - clock())
        except LockError as error:
            if error.failure.kind is not Kind.MISSING:
                raise
            found = None
        owner = self._whose(found)
        if owner is None or (self._held and owner != self._me):  # lost, whatever becomes of who has it now
            seen = self._judged(Sight(found, owner, blind=True))
        else:
            seen = self._judged(Sight(found, owner, await self._pod(owner.name, end - clock())))
        if seen is None or (found is None and seen.dead and not seen.fault):
            self._remember(None)
            raise LockError(Kind.MISSING, f"there is no ConfigMap {self.namespace}/{self._name}")
        return seen

    async def watch(self, after: Observed | None, timeout: float) -> AsyncGenerator[Observed | None, None]:
        """Each later state of the ConfigMap and of its owner's Pod; another owner is to be read first."""
        now: Sight = after.base if after else Sight(None)
        if now.waits:
            await self._clearance(now)
        if now.waits or (now.owner and now.blind):
            raise WatchError("there is something to be read first", moved=True)
        watches = [self._api.changes(self._collection, self._name, _version(now.found), timeout)]
        if now.owner and now.pod:
            watches.append(self._api.changes(self._pods, now.owner.name, _version(now.pod), timeout))
        try:
            async with aclosing(merged(watches)) as changes:
                async for which, found in changes:
                    if which and now.owner is None:
                        continue  # its Pod's still, but nobody can tell that by now
                    now = self._changed(now, which, found)
                    if self._held or not now.blind:
                        yield self._judged(now)
                    if now.blind:
                        raise WatchError("it has another owner", moved=True)
        except LockError as error:
            raise WatchError(str(error)) from None

    def _changed(self, before: Sight, which: int, found: dict[str, Any] | None) -> Sight:
        """What is seen after the ConfigMap (0) or its owner's Pod (1) has changed."""
        if which and before.owner:
            if found:
                self._checked(found, "Pod", before.owner.name)
            return before._replace(pod=found)
        if found:
            self._checked(found, self.kind, self._name)
        owner = self._whose(found)
        return before._replace(found=found, owner=owner, blind=owner not in {None, before.owner})

    def references(self, seen: Observed) -> list[dict[str, str]]:
        """One, to the ConfigMap, if there is one."""
        found = seen.base.found
        return super().references(replace(seen, base=found)) if found else []

    # --- writing

    async def write(self, base: Observed | None, record: Record, incarnation: str, timeout: float) -> Observed:
        """Create it, after what somebody dead has left was removed; or take over what is this Pod's; or give it up."""
        clock = asyncio.get_running_loop().time
        end = clock() + timeout
        sight: Sight = base.base if base else Sight(None)
        owner = sight.owner
        if not record.holder:
            return await self._give_up(sight, timeout)
        if self._me is None or not self._alone(self._me):
            raise LockError(Kind.CONFLICT, _ANOTHER)
        self._terms.add(incarnation)
        if sight.found and base and base.ours:
            body = self._body(sight.found, record, incarnation)
            found = await self._api.call("PUT", self._target, body, timeout)
        else:
            if owner and not gone(await self._pod(owner.name, timeout), owner.uid):  # a watch only wakes
                raise LockError(Kind.CONFLICT, f"the Pod {owner.name} lives")
            if sight.found:
                await self._remove(sight.found, end - clock())
            if self._last not in {None, owner}:  # which may be gone again, and not be dead
                raise LockError(Kind.CONFLICT, "the watch has told of another owner since")
            body = self._body(self._blank(), record, incarnation)
            found = await self._api.call("POST", self._collection, body, end - clock())
        pod = await self._pod(self._me.name, end - clock())  # the garbage collector deletes what a dead Pod creates
        seen = self._judged(Sight(found, self._owner(found), pod))
        if seen is None or seen.dead:
            raise LockError(Kind.HOPELESS, self._bereft)
        return seen

    async def _give_up(self, sight: Sight, timeout: float) -> Observed:
        """First in so many words, for who follows; then it is removed, for operator-lib, which knows no words."""
        clock = asyncio.get_running_loop().time
        end = clock() + timeout
        assert sight.found  # noqa: S101 - it was ours
        body = self._body(sight.found, Record(), "")
        body["metadata"]["annotations"][INCARNATION] = ""
        found = await self._api.call("PUT", self._target, body, timeout)
        seen = self._judged(Sight(found))
        try:
            await self._remove(found, end - clock())
        except LockError as error:
            if error.failure.kind is not Kind.CONFLICT:  # another kleader has removed it, or has it already
                self._warn(f"the lock is given up, but its ConfigMap remains, and keeps operator-lib waiting: {error}")
        assert seen  # noqa: S101 - it was there
        return seen

    async def _remove(self, found: dict[str, Any], timeout: float) -> None:
        """Delete this very ConfigMap, if it has the same owner and incarnation still; Kind.CONFLICT otherwise.

        Somebody's label must not keep it: its uid alone is enough then, for no other owner ever gets that.
        """
        clock = asyncio.get_running_loop().time
        end = clock() + timeout
        metadata = found["metadata"]
        only: dict[str, str] = {"uid": metadata["uid"]}
        for conditions in (only | {"resourceVersion": metadata["resourceVersion"]}, only):
            try:
                body = {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": conditions}
                await self._api.call("DELETE", self._target, body, end - clock())
            except LockError as error:
                if error.failure.kind is Kind.MISSING:
                    return
                if error.failure.kind is not Kind.CONFLICT or conditions is only:
                    raise
                now = await self._api.call("GET", self._target, None, end - clock())
                if _told(now) != _told(found):
                    raise
            else:
                return

    # --- what it means

    def _judged(self, sight: Sight) -> Observed | None:
        """Whose it is; None: nobody's, and there is no ConfigMap. What is to be had is not while others run here."""
        found, owner, me = sight.found, sight.owner, self._me
        dead = owner is not None and not sight.blind and gone(sight.pod, owner.uid)
        ours = found is not None and owner is not None and owner == me
        incarnation, fault, version = "", "", ""
        if found:
            metadata = self._checked(found, self.kind, self._name)
            version = metadata["resourceVersion"]
            incarnation = _incarnation(found)
            fault = (
                ""
                if owner or _given_up(found)
                else f"the ConfigMap {self.namespace}/{self._name} {odd(found['metadata'])}"
            )
        mine = ours and incarnation in self._terms
        lost, self._held = self._held and not mine, mine
        if owner and not fault:
            self._remember(None if ours else owner)
        elif found and _given_up(found):
            self._remember(None)
        if not fault and not mine and not lost:
            fault, sight = self._hindrance(sight, ours=ours, dead=dead)
        if found is None and owner is None and not fault:
            return None
        holder = owner.name if owner else ""
        beside = owner.uid if owner else ""
        request = from_text(note(found, REQUEST)) if found else None
        return Observed(
            Record(holder), incarnation, version, fault, sight, beside=beside, ours=ours, dead=dead, request=request
        )

    def _hindrance(self, sight: Sight, *, ours: bool, dead: bool) -> tuple[str, Sight]:
        """Why what nobody alive seems to have cannot be had yet; "" if it can, or is another's."""
        found, owner = sight.found, sight.owner
        if owner and not ours and not dead:
            if found is None:
                self.warn_once(f"the lock is gone, but not the Pod {owner.name}, which had it: waiting for its end")
            return "", sight
        if ours and found and note(found) is None:
            return "a process of this Pod that is not kleader has it", sight
        if self._home.left(self._terms, _incarnation(found) if ours and found else ""):
            return _LEFT, sight._replace(waits=True)
        if found and found["metadata"].get("deletionTimestamp") and not ours:
            return f"the ConfigMap {self.namespace}/{self._name} is deleted, and waits for its finalizers", sight
        return "", sight

    def _whose(self, found: dict[str, Any] | None) -> Owner | None:
        """The owner, or the last one of what is gone: known from now on, whatever becomes of a look at its Pod."""
        owner = self._owner(found) if found else self._last
        if owner not in {None, self._me}:
            self._remember(owner)
        return owner

    def _remember(self, last: Owner | None) -> None:
        if last != self._last:
            self._last = last
            self._home.remember(json.dumps(last) if last else "")

    def _owner(self, found: dict[str, Any]) -> Owner | None:
        """The Pod whose it is; None where it was given up, or where nobody can tell."""
        return None if _given_up(found) else referred(texts(found.get("metadata")).get("ownerReferences"))

    def _blank(self) -> dict[str, Any]:
        body = super()._blank()
        assert self._me  # noqa: S101 - who writes has read
        owner = {"apiVersion": "v1", "kind": "Pod", "name": self._me.name, "uid": self._me.uid}
        body["metadata"]["ownerReferences"] = [owner]
        return body

    def encode(self, body: dict[str, Any], record: Record) -> None:
        """Who holds it is said by its owner alone."""

    # --- our own Pod

    @property
    def _bereft(self) -> str:
        return f"the Pod {self.namespace}/{self._home.pod}, which this candidate lived in, is gone"

    async def _find_home(self, timeout: float) -> Owner:
        pod = await self._pod(self._home.pod, timeout)
        what = f"the Pod {self.namespace}/{self._home.pod}"
        if pod is None:
            mend = "POD_NAME must be the name of the Pod that this runs in, and POD_NAMESPACE its namespace, if set"
            raise LockError(Kind.HOPELESS, f"there is no {what.removeprefix('the ')}: {mend}, by the downward API")
        uid: str = pod["metadata"]["uid"]
        if self._home.uid and self._home.uid != uid:
            reason = f"{what} is not the one that this runs in: its uid is {uid}, POD_UID says {self._home.uid}"
            raise LockError(Kind.HOPELESS, reason)
        return Owner(self._home.pod, uid)

    def _alone(self, me: Owner) -> bool:
        """Whether no other process of this Pod contends for the lock; from then on none will."""
        wanted = abstract.address(f"pod/{me.uid}/{self._name}".encode())
        if abstract.had(self._home.socket) not in {b"", wanted}:  # an elector before this one saw another Pod
            raise LockError(Kind.HOPELESS, self._bereft)
        return abstract.claim(self._home.socket, wanted)

    async def _clearance(self, sight: Sight) -> None:
        """Return when what only this machine can tell may have changed."""
        before = _incarnation(sight.found) if sight.found else ""
        while (self._me and not self._alone(self._me)) or self._home.left(self._terms, before):  # noqa: ASYNC110 - polled
            await asyncio.sleep(_LOOK_EVERY)

    async def _pod(self, name: str, timeout: float) -> dict[str, Any] | None:
        target = f"{self._pods}/{urllib.parse.quote(name, safe='')}"
        try:
            pod = await self._api.call("GET", target, None, timeout)
        except LockError as error:
            if error.failure.kind is Kind.MISSING:
                return None
            raise
        self._checked(pod, "Pod", name)
        return pod


def _incarnation(found: dict[str, Any]) -> str:
    return str(note(found) or "")


def _given_up(found: dict[str, Any]) -> bool:
    return note(found) == ""


def _told(found: dict[str, Any]) -> tuple[object, ...]:
    metadata = texts(found.get("metadata"))
    return metadata.get("uid"), metadata.get("ownerReferences"), note(found)


def _version(found: dict[str, Any] | None) -> str:
    return found["metadata"]["resourceVersion"] if found else ""
