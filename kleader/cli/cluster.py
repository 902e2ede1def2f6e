"""What ``kleader check`` asks a cluster. Nothing there is changed: what would be created is tried with dryRun alone."""

from __future__ import annotations

import asyncio
import os
import time
import urllib.parse
from typing import TYPE_CHECKING, Any

from kleader.cli import reach
from kleader.cli.finding import FAIL, OK, WARN, Finding, Tell
from kleader.election.duration import text
from kleader.election.events import Kind, Observed
from kleader.election.record import Record
from kleader.link.plan import FOR_LIFE
from kleader.locks import kinds, permissions
from kleader.locks.answers import ForbiddenError
from kleader.locks.api import Api
from kleader.locks.base import LockError, SetUpError
from kleader.locks.candidate import served
from kleader.locks.object import owners

if TYPE_CHECKING:
    from kleader.link.plan import Plan
    from kleader.locks.object import ObjectLock
    from kleader.locks.permissions import Permission

_REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
_TRIES = 5  # requests whose time is taken
_ROLE = "grant it in a Role: kleader manifest prints one"
_SECOND = 1_000_000


async def look(plan: Plan, tell: Tell) -> None:
    """Tell each finding as it is there."""
    credentials = reach.credentials_of(plan.api)
    try:
        await credentials.refresh()
    except SetUpError as error:
        tell(Finding(FAIL, "API", str(error)))
        return
    plan = plan._replace(namespace=plan.namespace or credentials.namespace)
    look = _Look(plan, Api(credentials), tell)
    try:
        if await look.reach():
            await look.everything()
    finally:
        look.api.close()
        await asyncio.sleep(0)  # TLS says its last word


class _Look:
    def __init__(self, plan: Plan, api: Api, tell: Tell) -> None:
        self.plan, self.api, self.tell = plan, api, tell
        self._locks = kinds.objects(plan.lock, api, plan.namespace, plan.name, plan.labels, force=plan.force)

    async def reach(self) -> bool:
        """Whether there is an API server that knows us."""
        server = self.api.credentials.server.name
        try:
            found = await self._get("/version")
        except ForbiddenError:
            found = {}  # somebody answered, and may still allow the rest
        except LockError as error:
            self.tell(Finding(FAIL, "API", str(error)))
            return False
        version = found.get("gitVersion")
        self.tell(Finding(OK, "API", f"{server} answers{f', version {version}' if isinstance(version, str) else ''}"))
        return True

    async def everything(self) -> None:
        """All the rest, one after the other."""
        await self._latency()
        self._clock()
        self.tell(Finding(OK, "name", f"{self.plan.lock} {self.plan.namespace}/{self.plan.name}"))
        there = [await self._object(lock) for lock in self._locks]
        if self.plan.coordinated:
            await self._coordination()
        candidate = self.plan.identity if self.plan.coordinated else None
        needed = permissions.needed(self.plan.lock, self.plan.name, candidate=candidate)
        label = permissions.label(os.environ.get("POD_NAME", "")) if self.plan.pod_label else ()
        for each in (*needed, *label, *permissions.events()):
            exists = any(found and lock.plural == each.resource for lock, found in zip(self._locks, there, strict=True))
            if not await self._permission(each, exists=exists):
                break
        await self._grace_period()

    async def _latency(self) -> None:
        took = []
        for _ in range(_TRIES):
            begun = time.monotonic()
            try:
                await self._locks[0].get(self.plan.request_timeout)
            except LockError as error:
                if error.failure.kind in {Kind.UNREACHABLE, Kind.THROTTLED}:
                    self.tell(Finding(FAIL, "latency", str(error)))
                    return
            took.append(round(time.monotonic() - begun, 3))
        slowest, period = max(took), self.plan.retry_period
        said = f"{_TRIES} requests took {text(min(took))} to {text(slowest)}"
        if 2 * slowest > period:  # where a renewal has to read first
            mend = "find out what is slow, or lengthen --retry-period and with it the other timings"
            self.tell(Finding(WARN, "latency", f"{said}: two do not fit into the retry period {text(period)}", mend))
        else:
            self.tell(Finding(OK, "latency", said))

    def _clock(self) -> None:
        skew = self.api.skew
        if skew is None:
            self.tell(Finding(WARN, "clock", "the API server tells no time", "check what answers there"))
            return
        if abs(skew.seconds) <= skew.error + 1:
            self.tell(Finding(OK, "clock", "this machine's and the API server's agree, as far as seconds tell"))
            return
        said = f"the API server's is {text(abs(skew.seconds))} {'ahead' if skew.seconds > 0 else 'behind'}"
        why = (
            "by which the control plane judges who leads"
            if self.plan.coordinated
            else "the lock's times mislead people"
        )
        self.tell(Finding(WARN, "clock", f"{said}: {why}", "synchronise both (NTP)"))

    async def _object(self, lock: ObjectLock) -> bool:
        """Whether it was seen."""
        what = f"{lock.kind} {lock.namespace}/{self.plan.name}"
        try:
            seen = await lock.get(self.plan.request_timeout)
        except LockError as error:
            if error.failure.kind is not Kind.MISSING:
                self.tell(Finding(FAIL, "lock", str(error)))
            else:
                await self._creation(lock, f"there is no {what} yet")
            return False
        if seen.fault:
            self.tell(Finding(FAIL, "lock", seen.fault))
        elif self.plan.lock == FOR_LIFE:
            self.tell(Finding(OK, "lock", f"the {what} is there{_written(seen)}, and belongs to {_owner(seen)}"))
        elif seen.record == Record():
            await self._creation(lock, f"the {what} is there{_written(seen)}, and free")
        elif not seen.record.holder:
            self.tell(Finding(OK, "lock", f"the {what} is there{_written(seen)}, and free"))
        else:
            self._held(what, seen, rivals_expire=lock.traits.rivals_expire or len(self._locks) > 1)
        return True

    def _held(self, what: str, seen: Observed, *, rivals_expire: bool) -> None:
        record = seen.record
        since = f", renewed {_ago(record.renewed)}" if record.renewed is not None else ""
        said = f"the {what} is held by {record.holder} for {record.duration}s{since}{_written(seen)}"
        if rivals_expire and record.duration < self.plan.lease_duration and not seen.incarnation:
            why = f"less than our {self.plan.lease_duration}s, and older rivals expire a record by their own duration"
            self.tell(Finding(WARN, "lock", f"{said}: {why}", "give the same --lease-duration"))
        else:
            self.tell(Finding(OK, "lock", said))

    async def _creation(self, lock: ObjectLock, said: str) -> None:
        """What only a write would show: a namespace that is missing, quotas, admission, a Service that it spoils."""
        try:
            await lock.rehearse(self.plan.request_timeout)
        except ForbiddenError:
            self.tell(Finding(OK, "lock", said))  # which the permissions tell
        except LockError as error:
            if error.failure.kind is not Kind.CONFLICT:  # it is there
                self.tell(Finding(FAIL, "lock", f"{said}, and it cannot be written: {error}"))
            else:
                self.tell(Finding(OK, "lock", said))
        else:
            self.tell(Finding(OK, "lock", f"{said}: the first candidate creates it"))

    async def _coordination(self) -> None:
        try:
            version = await served(self.api, self.plan.request_timeout)
        except LockError as error:
            self.tell(Finding(FAIL, "coordinated election", str(error)))
            return
        if version:
            self.tell(Finding(OK, "coordinated election", f"the cluster serves leasecandidates, {version}"))
        else:
            said = "the cluster serves no leasecandidates: there will be plain election"
            mend = "enable the feature gate CoordinatedLeaderElection and its API, or leave --coordinated out"
            self.tell(Finding(WARN, "coordinated election", said, mend))

    async def _permission(self, each: Permission, *, exists: bool) -> bool:
        """Whether others can be asked for too."""
        attributes = {"namespace": self.plan.namespace, "verb": each.verb, "group": each.group}
        attributes |= {"resource": each.resource, "name": each.name}
        review = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": attributes},
        }
        said = f"{each.verb} {each.resource}{f'/{each.name}' if each.name else ''} in {self.plan.namespace}"
        try:
            found = await self.api.call("POST", _REVIEWS, review, self.plan.request_timeout)
        except LockError as error:
            self.tell(Finding(FAIL, "permission", f"nobody can tell whether {said} is allowed: {error}"))
            return False
        status = found.get("status")
        if isinstance(status, dict) and status.get("allowed") is True:
            self.tell(Finding(OK, "permission", said))
        elif each.without:
            self.tell(Finding(WARN, "permission", f"{said} is not allowed: {each.without}", _ROLE))
        elif each.verb == "create" and exists:
            self.tell(Finding(WARN, "permission", f"{said} is not allowed, nor needed before it is deleted", _ROLE))
        else:
            self.tell(Finding(FAIL, "permission", f"{said} is not allowed", _ROLE))
        return True

    async def _grace_period(self) -> None:
        """Of the Pod that this runs in, where it is told which."""
        pod, needed = os.environ.get("POD_NAME"), self.plan.stop_timeout + self.plan.kill
        if not pod:
            return
        namespace = os.environ.get("POD_NAMESPACE") or self.plan.namespace
        target = f"/api/v1/namespaces/{urllib.parse.quote(namespace, safe='')}/pods/{urllib.parse.quote(pod, safe='')}"
        what = "terminationGracePeriodSeconds"
        more = f"it has to be more than {text(needed)}"
        try:
            found = await self._get(target)
        except LockError as error:
            self.tell(
                Finding(WARN, "grace period", f"the Pod {pod} cannot be read ({error})", f"compare {what}: {more}")
            )
            return
        spec = found.get("spec")
        period = spec.get(what) if isinstance(spec, dict) else None
        if not isinstance(period, int) or isinstance(period, bool):
            self.tell(Finding(WARN, "grace period", f"the Pod {pod} has no {what}", more))
        elif period > needed:
            self.tell(Finding(OK, "grace period", f"the Pod {pod} is given {period}s, more than {text(needed)}"))
        else:
            said = f"the Pod {pod} is given {period}s, and then killed: --stop-timeout and the kill take {text(needed)}"
            self.tell(Finding(FAIL, "grace period", said, f"raise {what}, or lower --stop-timeout"))

    async def _get(self, target: str) -> dict[str, Any]:
        return await self.api.call("GET", target, None, self.plan.request_timeout)


def _written(seen: Observed) -> str:
    """By whom, as the API server keeps it."""
    fields = seen.base["metadata"].get("managedFields")
    entries = [each for each in fields if isinstance(each, dict)] if isinstance(fields, list) else []
    last = max(entries, key=lambda each: str(each.get("time", "")), default={})
    return f", written by {last['manager']}" if isinstance(last.get("manager"), str) else ""


def _owner(seen: Observed) -> str:
    return " and ".join(f"the {name}" for name in owners(seen.base["metadata"])) or "nobody"


def _ago(instant: int) -> str:
    seconds = max(0, round(time.time() - instant / _SECOND))
    return f"{text(seconds)} ago"
