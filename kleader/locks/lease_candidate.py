"""The LeaseCandidate (KEP-4355) by which the control plane knows a candidate, kept as client-go's leasecandidate does.

It is renewed every 5 minutes, and at once when the control plane pings it (pingTime). Unlike client-go's it is renewed
once more if there is no leader when the control plane gives up the candidates that do not answer, or the candidate that
was named does not lead. It decides nothing about the lock: a candidate that is not known, or known for too long, only
delays a handover.
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
from kleader.kube.errors import LockError, WatchError
from kleader.kube.metadata import string_map
from kleader.kube.timeout import seconds_left, within

if TYPE_CHECKING:
    from collections.abc import Callable

    from kleader.kube.client import ApiClient

GROUP = "coordination.k8s.io"
RESOURCE = "leasecandidates"
STRATEGY = "OldestEmulationVersion"  # the control plane's; other strategies are another controller's
RENEWAL = 300.0  # seconds; client-go's requeueInterval
PING_TIMEOUT = 5.0  # seconds that the control plane waits after a ping, and for which it believes a renewal
_INCOMPATIBLE_VERSION = "v1alpha1"  # Kubernetes 1.31's
_SLACK = 0.1  # seconds; two clocks drift apart by less during PING_TIMEOUT
_RETRY_PERIOD = 2.0  # seconds; less than PING_TIMEOUT
_MAX_RETRY_AFTER = 15.0  # seconds that a Retry-After may ask for: a candidate that is not known is never named


async def served_version(api: ApiClient, timeout: float) -> str:
    """The first version of the group, in the API server's order, that has LeaseCandidates; "" for none. LockError."""
    group = await api.call("GET", f"/apis/{GROUP}", None, timeout)
    for version in (str(item.get("version")) for item in _listed(api, group, "versions")):
        if version == _INCOMPATIBLE_VERSION:
            continue
        found = await api.call("GET", f"/apis/{GROUP}/{version}", None, timeout)
        if any(item.get("name") == RESOURCE for item in _listed(api, found, "resources")):
            return version
    return ""


def _listed(api: ApiClient, found: dict[str, Any], key: str) -> list[dict[str, Any]]:
    items = found.get(key)
    if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
        raise api.unreadable(f"something that does not list the {key} of the group {GROUP}")
    return items


class Description(NamedTuple):
    """The spec of a LeaseCandidate, but for its times."""

    identity: str  # its name, and the lock's holder once it is named
    lease: str
    binary: str  # semantic versions
    emulation: str
    strategy: str = STRATEGY


class LeaseCandidate:
    """The LeaseCandidate of this process. ``warn`` gets one sentence a failure, and may get the same one repeatedly.

    ``timeout``: seconds for each request. ``tolerance``: seconds by which this machine's clock may differ from the API
    server's without a warning.
    """

    def __init__(  # noqa: PLR0913, PLR0917 - what it is, where it is, and how it is kept
        self,
        api: ApiClient,
        version: str,
        namespace: str,
        description: Description,
        timeout: float,
        tolerance: float,
        warn: Callable[[str], None],
    ) -> None:
        self.identity = description.identity
        self._description, self._api, self._timeout = description, api, timeout
        self._tolerance, self._warn = tolerance, warn
        self._version, self._namespace = f"{GROUP}/{version}", namespace
        quoted = urllib.parse.quote(namespace, safe="")
        self._collection = f"/apis/{self._version}/namespaces/{quoted}/{RESOURCE}"
        self._target = f"{self._collection}/{urllib.parse.quote(self.identity, safe='')}"
        self._wake = asyncio.Event()
        self._skew_warned = False
        self._unregistered = False
        self._reset()

    def _reset(self) -> None:
        self._found: dict[str, Any] | None = None  # the object as last observed
        self._stale = False  # it has to be read again
        self._may_exist = False
        self._renewed_at = -RENEWAL
        self._extra_at, self._extras = inf, 0  # when the next extra renewal is due, and how many are
        self._schedules = 0  # calls of schedule_renewals
        self._writing = asyncio.Lock()
        self._tasks: list[asyncio.Task[None]] = []

    def register(self) -> None:
        """After :meth:`unregister`: the next :meth:`ensure_registered` or :meth:`keep_registered` creates it again."""
        if self._unregistered:
            self._unregistered = False
            self._reset()

    async def ensure_registered(self, timeout: float) -> None:
        """Return when the control plane knows this candidate, and keep it known. LockError."""
        if not self._tasks and not self._unregistered:
            try:
                async with within(timeout):  # another write may be under way
                    await self._renew(timeout)
            except asyncio.TimeoutError:
                message = f"the LeaseCandidate was not written within {text(timeout)}"
                raise LockError(Kind.UNREACHABLE, message) from None
            self.keep_registered()

    def keep_registered(self) -> None:
        """Make and keep it known in the background: a leader must not wait for that."""
        if not self._tasks and not self._unregistered:
            self._tasks = [asyncio.get_running_loop().create_task(work) for work in (self._keep(), self._watch())]
            for task in self._tasks:
                task.add_done_callback(_raise_bug)

    async def unregister(self, timeout: float) -> None:
        """Delete it; LockError. A write that is under way is waited for, because it would create the object again."""
        if self._unregistered:
            return
        self._unregistered = True
        left = seconds_left(timeout)
        with suppress(asyncio.TimeoutError):
            async with within(timeout / 2):
                await self._writing.acquire()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if not self._may_exist:
            return
        try:
            await self._api.call("DELETE", self._target, None, left())
        except LockError as error:
            if error.failure.kind is not Kind.MISSING:
                raise

    def schedule_renewals(self, seconds: float) -> None:
        """Renew it in so many seconds, and once more after PING_TIMEOUT; inf: no extra renewals.

        The first renewal wakes the control plane, which then pings all candidates; the second makes it count answers.
        """
        self._extra_at = asyncio.get_running_loop().time() + seconds
        self._extras = 2 if seconds < inf else 0
        self._schedules += 1
        if self._extras:
            self._wake.set()

    # --- writing

    async def _renew(self, timeout: float) -> None:
        """Write a new renewTime over the last observation, or create; after a conflict read it, and try once more."""
        left = seconds_left(timeout)
        async with self._writing:
            if self._unregistered:
                return
            try:
                await self._put(left())
            except LockError as error:
                if error.failure.kind not in {Kind.CONFLICT, Kind.MISSING}:
                    self._stale = True
                    raise
                await self._read(left())
                await self._put(left())

    async def _put(self, timeout: float) -> None:
        """A PUT without a resourceVersion creates it, and never overwrites one."""
        base = self._found or {
            "apiVersion": self._version,
            "kind": "LeaseCandidate",
            "metadata": {"name": self.identity, "namespace": self._namespace},
        }
        found = string_map(base.get("spec"))
        lease = self._description.lease
        if found.get("leaseName", lease) != lease:
            what = f"the LeaseCandidate {self._namespace}/{self.identity} belongs to the lock {found['leaseName']}"
            raise LockError(Kind.REFUSED, f"{what}: give another --identity")
        spec = {
            "leaseName": lease,
            "binaryVersion": self._description.binary,
            "emulationVersion": self._description.emulation,
            "strategy": self._description.strategy,
            "renewTime": micro_time(max(time.time_ns() // 1000, _instant(found, "pingTime"))),
        }
        began, existed, self._may_exist = asyncio.get_running_loop().time(), self._may_exist, True
        pinged, schedules = _is_pinged(base), self._schedules
        try:
            await self._request("PUT", {**base, "spec": {**found, **spec}}, timeout)
        except LockError as error:
            if error.failure.kind is not Kind.UNREACHABLE:  # nothing was written: the object may be another process's
                self._may_exist = existed
            raise
        self._renewed_at = began
        if schedules == self._schedules:  # else a later observation has decided
            # After PING_TIMEOUT the control plane needs a new answer, which also wakes it.
            self._extras = 1 if pinged else max(0, self._extras - 1)
            self._extra_at = began + PING_TIMEOUT + _SLACK if self._extras else inf
        self._warn_of_skew()

    async def _read(self, timeout: float) -> None:
        try:
            await self._request("GET", None, timeout)
        except LockError as error:
            if error.failure.kind is not Kind.MISSING:
                raise
            self._found = None

    async def _request(self, method: str, body: dict[str, Any] | None, timeout: float) -> None:
        """The watch may show a later state than the response, with another ping."""
        before = self._found
        found = self._checked(await self._api.call(method, self._target, body, timeout))
        self._stale |= self._found is not before
        self._found = found

    def _checked(self, found: dict[str, Any]) -> dict[str, Any]:
        if not isinstance(found.get("metadata"), dict) or not isinstance(found.get("spec") or {}, dict):
            raise self._api.unreadable(f"something that is not the LeaseCandidate {self.identity}")
        return found

    # --- in the background

    @property
    def _due_at(self) -> float:
        return min(self._renewed_at + RENEWAL, self._extra_at)

    async def _keep(self) -> None:
        clock = asyncio.get_running_loop().time
        while not self._unregistered:
            try:
                if self._stale:
                    self._stale = False
                    await self._read(self._timeout)
                if self._found is None or _is_pinged(self._found) or clock() >= self._due_at:
                    await self._renew(self._timeout)
                with suppress(asyncio.TimeoutError):
                    async with within(max(0.0, self._due_at - clock())):
                        await self._wake.wait()
                self._wake.clear()
            except LockError as error:
                self._stale = True
                if error.failure.kind is not Kind.CONFLICT:
                    self._warn(str(error))
                pause = _retry_period(error.failure.retry_after)
                await asyncio.sleep(pause * (1 + random.random() / 10))  # noqa: S311 - spreads candidates

    async def _watch(self) -> None:
        """Where a watch is refused or does not last, it is polled; one warning, until a watch lasts."""
        clock, warned = asyncio.get_running_loop().time, False
        while not self._unregistered:
            if self._found is None:
                await asyncio.sleep(_RETRY_PERIOD)
                continue
            began, reason, pause = clock(), "the watch ended", _RETRY_PERIOD
            version = self._found["metadata"].get("resourceVersion", "")
            watch = self._api.watch_object(self._collection, self.identity, version, self._timeout)
            try:
                async with aclosing(watch) as states:
                    async for found in states:
                        self._found = found and self._checked(found)
                        self._wake.set()
            except (LockError, WatchError) as error:
                reason = str(error)
                pause = _retry_period(error.ended.retry_after if isinstance(error, WatchError) else 0.0)
            lasted = clock() >= began + _RETRY_PERIOD
            if not lasted and not warned:
                self._warn(f"{reason}; polling instead")
            warned = not lasted
            if not lasted:
                await asyncio.sleep(pause)
            self._stale = True
            self._wake.set()

    def _warn_of_skew(self) -> None:
        """The control plane compares times that this machine's clock wrote with its own clock."""
        skew = self._api.skew
        if self._skew_warned or skew is None or abs(skew.seconds) - skew.error <= self._tolerance:
            return
        self._skew_warned = True
        behind = "behind", "so it may name another leader while this one is alive"
        ahead = "ahead of", "so it notices the death of this leader so much later"
        where, effect = behind if skew.seconds > 0 else ahead
        what = f"this machine's clock is {text(round(abs(skew.seconds)))} {where} the API server's"
        self._warn(f"{what}, and the control plane judges by its own, {effect}")


def _is_pinged(found: dict[str, Any]) -> bool:
    """Whether the control plane has pinged it since its last renewal."""
    spec = string_map(found.get("spec"))
    return _instant(spec, "pingTime") > _instant(spec, "renewTime")


def _instant(spec: dict[str, Any], field: str) -> int:
    """The field's time in microseconds since the epoch; 0 if it has none that is valid."""
    try:
        return parse_time(spec.get(field) or "")
    except (ValueError, OverflowError, TypeError):
        return 0


def _retry_period(retry_after: float) -> float:
    return max(_RETRY_PERIOD, min(retry_after, _MAX_RETRY_AFTER))


def _raise_bug(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (error := task.exception()):
        raise error
