"""One's LeaseCandidate (KEP-4355): how the control plane knows of a candidate, kept as client-go's leasecandidate does.

It is created, renewed every 5 minutes, and at once where the control plane asks for a sign of life (pingTime); unlike
there once more if nobody leads by the time that the control plane gives up those who do not answer, or do not lead
though they were named. What it says decides nothing about the lock: a candidate that is unknown, or known too long,
only delays a handover.
"""

from __future__ import annotations

import asyncio
import random
import time
import urllib.parse
from contextlib import aclosing, suppress
from math import inf
from typing import TYPE_CHECKING, Any, NamedTuple

from kleader.election.duration import text
from kleader.election.events import Kind
from kleader.election.record import micro_time, parse_time
from kleader.locks.base import LockError, WatchError
from kleader.locks.within import within

if TYPE_CHECKING:
    from collections.abc import Callable

    from kleader.locks.api import Api

GROUP = "coordination.k8s.io"
RESOURCE = "leasecandidates"
STRATEGY = "OldestEmulationVersion"
RENEWAL = 300.0  # seconds; client-go's requeueInterval
_VERSIONS = ("v1beta1", "v1alpha2")
PATIENCE = 5.0  # seconds; the control plane's, after a ping, and for how long it believes a sign of life
_SLACK = 0.1  # seconds; more than two clocks drift apart over that patience
_PAUSE = 2.0  # seconds; less than that patience


async def served(api: Api, timeout: float) -> str:
    """The version of the group by which LeaseCandidates are served, newest first; "": they are not. LockError."""
    group = await api.call("GET", f"/apis/{GROUP}", None, timeout)
    versions = [each.get("version") for each in _objects(api, group, "versions")]
    for version in (each for each in _VERSIONS if each in versions):
        found = await api.call("GET", f"/apis/{GROUP}/{version}", None, timeout)
        if any(each.get("name") == RESOURCE for each in _objects(api, found, "resources")):
            return version
    return ""


def _objects(api: Api, found: dict[str, Any], key: str) -> list[dict[str, Any]]:
    each = found.get(key)
    if not isinstance(each, list) or not all(isinstance(one, dict) for one in each):
        raise api.unreadable(f"something that does not say which {key} the group {GROUP} has")
    return each


class Description(NamedTuple):
    """What a LeaseCandidate says."""

    identity: str  # its name, and the holder's in the lock when it is named
    lease: str
    binary: str  # semantic versions
    emulation: str


class LeaseCandidate:
    """The LeaseCandidate of this process. ``say`` is told of trouble, which may be the same again and again.

    ``tolerance``: by how many seconds this machine's clock may differ from the API server's without a warning.
    """

    def __init__(  # noqa: PLR0913, PLR0917 - what it is, where it is, and how it is kept
        self,
        api: Api,
        version: str,
        namespace: str,
        about: Description,
        timeout: float,
        tolerance: float,
        say: Callable[[str], None],
    ) -> None:
        self.identity, self.lease = about.identity, about.lease
        self._about, self._api, self._timeout, self._tolerance, self._say = about, api, timeout, tolerance, say
        self._version, self._namespace = f"{GROUP}/{version}", namespace
        quoted = urllib.parse.quote(namespace, safe="")
        self.collection = f"/apis/{self._version}/namespaces/{quoted}/{RESOURCE}"
        self._target = f"{self.collection}/{urllib.parse.quote(about.identity, safe='')}"
        self._found: dict[str, Any] | None = None  # as last seen
        self._doubtful = False  # it has to be read anew
        self._renewed_at = -RENEWAL
        self._again_at = inf  # when another sign of life is due, if nothing else is seen before
        self._agains = 0  # how many of them
        self._orders = 0  # how often that was said
        self._asked_at = -inf  # when the last answer to a ping was written
        self._stirred = asyncio.Event()
        self._writing = asyncio.Lock()
        self._tasks: list[asyncio.Task[None]] = []
        self._tried = False  # it may have been written
        self._left = False
        self._skewed = False  # a person knows

    async def register(self, timeout: float) -> None:
        """Be known to the control plane from now on; LockError where that failed."""
        if not self._tasks and not self._left:
            try:
                async with within(timeout):
                    await self._renew(timeout)
            except asyncio.TimeoutError:
                msg = f"the LeaseCandidate was not written within {text(timeout)}"
                raise LockError(Kind.UNREACHABLE, msg) from None
            self.keep()

    def keep(self) -> None:
        """See to it in the background that it is known: of whoever leads already this must not be waited for."""
        if not self._tasks and not self._left:
            self._tasks = [asyncio.get_running_loop().create_task(work) for work in (self._keep(), self._look_on())]
            for task in self._tasks:
                task.add_done_callback(_reveal)

    def enter(self) -> None:
        """Be known again, from the next :meth:`register` or :meth:`keep` on."""
        if self._left:
            self._left, self._tried, self._found, self._tasks = False, False, None, []
            self._doubtful, self._renewed_at, self._again_at, self._asked_at = False, -RENEWAL, inf, -inf
            self._writing = asyncio.Lock()  # nobody writes any more, and who left has kept it

    async def leave(self, timeout: float) -> None:
        """Be known no more; LockError where that failed. What is being written is waited for, or it would come back."""
        if self._left:
            return
        self._left = True
        clock = asyncio.get_running_loop().time
        end = clock() + timeout
        with suppress(asyncio.TimeoutError):
            async with within(timeout / 2):
                await self._writing.acquire()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if not self._tried:
            return
        try:
            await self._api.call("DELETE", self._target, None, end - clock())
        except LockError as error:
            if error.failure.kind is not Kind.MISSING:
                raise

    def again_in(self, seconds: float) -> None:
        """Have another sign of life given then, and one after that; inf: none.

        The first wakes the control plane, which then asks who is alive; the second, when it has waited for all.
        """
        self._again_at = asyncio.get_running_loop().time() + seconds
        self._agains = 2 if seconds < inf else 0
        self._orders += 1
        if self._agains:
            self._stirred.set()

    def vacant(self) -> None:
        """Nobody leads. If a ping was answered just before, give another sign of life when all have had their time.

        Whoever led has called the roll, and the control plane may sleep for another 5 s by then.
        """
        due = self._asked_at + PATIENCE + _SLACK
        if not self._agains and asyncio.get_running_loop().time() < due:
            self._again_at, self._agains = due, 1
            self._orders += 1
            self._stirred.set()

    # --- written

    async def _renew(self, timeout: float) -> None:
        """A fresh renewTime, over what was seen last, or a new one; somebody's write in between is read, once."""
        async with self._writing:
            if self._left:
                return
            try:
                await self._put(timeout)
            except LockError as error:
                if error.failure.kind not in {Kind.CONFLICT, Kind.MISSING}:
                    self._doubtful = True
                    raise
                await self._read(timeout)
                await self._put(timeout)

    async def _put(self, timeout: float) -> None:
        """A PUT without a version creates it, and never overwrites one."""
        base = self._found or {
            "apiVersion": self._version,
            "kind": "LeaseCandidate",
            "metadata": {"name": self.identity, "namespace": self._namespace},
        }
        found = base.get("spec") or {}
        if found.get("leaseName", self._about.lease) != self._about.lease:
            what = f"the LeaseCandidate {self._namespace}/{self.identity} is one for the lock {found['leaseName']}"
            raise LockError(Kind.REFUSED, f"{what}: give another --identity")
        spec = {
            "leaseName": self._about.lease,
            "binaryVersion": self._about.binary,
            "emulationVersion": self._about.emulation,
            "strategy": STRATEGY,
            "renewTime": micro_time(max(time.time_ns() // 1000, instant(found, "pingTime"))),
        }
        began, tried, self._tried = asyncio.get_running_loop().time(), self._tried, True
        asked, orders = _pinged(base), self._orders
        try:
            await self._call("PUT", {**base, "spec": {**found, **spec}}, timeout)
        except LockError as error:
            if error.failure.kind is not Kind.UNREACHABLE:  # nothing was written: what is there may be somebody else's
                self._tried = tried
            raise
        self._renewed_at = began
        self._asked_at = began if asked else self._asked_at
        if orders == self._orders:  # what was said meanwhile knows more
            # Once others have not answered in time, the control plane needs an answer that is new, and to be woken.
            self._agains = 1 if asked else max(0, self._agains - 1)
            self._again_at = began + PATIENCE + _SLACK if self._agains else inf
        self._mind_skew()

    async def _read(self, timeout: float) -> None:
        try:
            await self._call("GET", None, timeout)
        except LockError as error:
            if error.failure.kind is not Kind.MISSING:
                raise
            self._found = None

    async def _call(self, method: str, body: dict[str, Any] | None, timeout: float) -> None:
        """What the watch has told meanwhile may be later than the answer, and ask for another sign of life."""
        known = self._found
        found = self._checked(await self._api.call(method, self._target, body, timeout))
        self._doubtful |= self._found is not known
        self._found = found

    def _checked(self, found: dict[str, Any]) -> dict[str, Any]:
        """What can be read as it is here; Kind.UNREACHABLE otherwise."""
        if not isinstance(found.get("metadata"), dict) or not isinstance(found.get("spec") or {}, dict):
            raise self._api.unreadable(f"something that is not the LeaseCandidate {self.identity}")
        return found

    # --- kept

    async def _keep(self) -> None:
        clock = asyncio.get_running_loop().time
        while not self._left:
            try:
                if self._doubtful:
                    self._doubtful = False
                    await self._read(self._timeout)
                if self._found is None or _pinged(self._found) or clock() >= self._due:
                    await self._renew(self._timeout)
                await _wait(self._stirred, self._due - clock())
            except LockError as error:
                self._doubtful = True
                if error.failure.kind is not Kind.CONFLICT:
                    self._say(str(error))
                await asyncio.sleep(max(_PAUSE, error.failure.retry_after) * (1 + random.random() / 10))  # noqa: S311

    @property
    def _due(self) -> float:
        return min(self._renewed_at + RENEWAL, self._again_at)

    async def _look_on(self) -> None:
        """A watch that is refused, or does not last, makes it polled; that is told once, until one has lasted."""
        clock, told = asyncio.get_running_loop().time, False
        while not self._left:
            if self._found is None:
                await asyncio.sleep(_PAUSE)
                continue
            began, reason, pause = clock(), "the watch ended", _PAUSE
            try:
                await self._watch(self._found["metadata"].get("resourceVersion", ""))
            except (LockError, WatchError) as error:
                reason = str(error)
                pause = max(pause, error.ended.retry_after if isinstance(error, WatchError) else 0.0)
            lasted = clock() >= began + _PAUSE
            if not lasted and not told:
                self._say(f"{reason}; polling instead")
            told = not lasted
            if not lasted:
                await asyncio.sleep(pause)
            self._doubtful = True
            self._stirred.set()

    async def _watch(self, version: str) -> None:
        async with aclosing(self._api.changes(self.collection, self.identity, version, self._timeout)) as states:
            async for found in states:
                self._found = found and self._checked(found)
                self._stirred.set()

    def _mind_skew(self) -> None:
        """The control plane judges by its own clock what is written by this machine's."""
        skew = self._api.skew
        if self._skewed or skew is None or abs(skew.seconds) - skew.error <= self._tolerance:
            return
        self._skewed = True
        off = text(round(abs(skew.seconds)))
        behind = "behind", "so it may name another leader while this one is alive"
        ahead = "ahead of", "so it notices the death of this leader so much later"
        where, follows = behind if skew.seconds > 0 else ahead
        what = f"this machine's clock is {off} {where} the API server's"
        self._say(f"{what}, and the control plane judges by its own, {follows}")


def _pinged(found: dict[str, Any]) -> bool:
    """Whether the control plane asked for a sign of life since the last one."""
    spec = found.get("spec") or {}
    return instant(spec, "pingTime") > instant(spec, "renewTime")


def instant(spec: dict[str, Any], field: str) -> int:
    """Of renewTime and pingTime: microseconds since the epoch; 0: none, or none that can be read."""
    try:
        return parse_time(spec.get(field) or "")
    except (ValueError, OverflowError, TypeError):
        return 0


async def _wait(event: asyncio.Event, seconds: float) -> None:
    with suppress(asyncio.TimeoutError):
        async with within(max(0.0, seconds)):
            await event.wait()
    event.clear()


def _reveal(task: asyncio.Task[None]) -> None:
    """A bug there must not stay unseen."""
    if not task.cancelled():
        task.result()
