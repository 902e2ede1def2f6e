"""What ``kleader check`` asks a cluster. Nothing is changed there: writes are tried with dryRun."""

from __future__ import annotations

import asyncio
import os
import time
import urllib.parse
from typing import TYPE_CHECKING, Any

from kleader.cli import api_access
from kleader.election.duration import text
from kleader.election.events import Kind, Observed
from kleader.election.record import Record
from kleader.ipc.plan import FOR_LIFE
from kleader.kube.client import ApiClient
from kleader.kube.errors import ForbiddenError, LockError, SetUpError
from kleader.kube.metadata import owner_names, string_map
from kleader.locks import base, factory, rbac
from kleader.locks.lease_candidate import served_version

if TYPE_CHECKING:
    from kleader.cli.check_result import CheckReport
    from kleader.ipc.plan import Plan
    from kleader.locks.object_lock import ObjectLock
    from kleader.locks.rbac import Permission

_REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
_TIMED_REQUESTS = 5
_GRANT = "grant it in a Role: kleader manifest prints one"
_SECOND = 1_000_000


async def check(plan: Plan, report: CheckReport) -> None:
    """Add the results of all checks in the cluster."""
    credentials = api_access.credentials_of(plan.api, lambda warning: report.warn("API", warning))
    try:
        await credentials.refresh()
    except SetUpError as error:
        report.fail("API", str(error))
        return
    for warning in credentials.notices:
        report.warn("API", warning)
    plan = plan._replace(namespace=plan.namespace or credentials.namespace)
    checks = _ClusterChecks(plan, ApiClient(credentials), report)
    try:
        if await checks.reach():
            await checks.run()
    finally:
        checks.api.close()
        await asyncio.sleep(0)  # TLS closes


class _ClusterChecks:
    def __init__(self, plan: Plan, api: ApiClient, report: CheckReport) -> None:
        self.plan, self.api, self.report = plan, api, report
        self._locks = factory.component_locks(
            plan.lock, base.Place(api, plan.namespace, plan.name, plan.labels, force=plan.force)
        )

    async def reach(self) -> bool:
        """Whether an API server answers that accepts the credentials."""
        server = self.api.credentials.server.name
        try:
            found = await self._get("/version")
        except ForbiddenError:
            found = {}  # it answers, and may allow the rest
        except LockError as error:
            self.report.fail("API", str(error))
            return False
        version = found.get("gitVersion")
        self.report.ok("API", f"{server} answers{f', version {version}' if isinstance(version, str) else ''}")
        return True

    async def run(self) -> None:
        """All other checks."""
        await self._latency()
        self._clock()
        self.report.ok("name", f"{self.plan.lock} {self.plan.namespace}/{self.plan.name}")
        exists = [await self._object(lock) for lock in self._locks]
        if self.plan.coordinated:
            await self._coordination()
        candidate = self.plan.identity if self.plan.coordinated else None
        needed = rbac.lock_permissions(self.plan.lock, self.plan.name, candidate=candidate)
        label = rbac.pod_label_permissions(os.environ.get("POD_NAME", "")) if self.plan.pod_label else ()
        registration = rbac.registration_permissions(self.plan.name) if self.plan.registers else ()
        registration += rbac.rollout_permissions() if self.plan.recommends and self.plan.pod.name else ()
        existing = {lock.plural for lock, found in zip(self._locks, exists, strict=True) if found}
        for permission in (*needed, *registration, *label, *rbac.event_permissions()):
            if not await self._permission(permission, exists=permission.resource in existing):
                break
        await self._grace_period()

    async def _latency(self) -> None:
        times = []
        for _ in range(_TIMED_REQUESTS):
            began_at = time.monotonic()
            try:
                await self._locks[0].get(self.plan.request_timeout)
            except LockError as error:
                if error.failure.kind in {Kind.UNREACHABLE, Kind.THROTTLED}:
                    self.report.fail("latency", str(error))
                    return
            times.append(round(time.monotonic() - began_at, 3))
        slowest, period = max(times), self.plan.timing.retry_period
        measured = f"{_TIMED_REQUESTS} requests took {text(min(times))} to {text(slowest)}"
        if 2 * slowest > period:  # a renewal after a conflict takes two
            fix = "find out what is slow, or lengthen --retry-period and the other timings with it"
            self.report.warn("latency", f"{measured}: two do not fit into the retry period {text(period)}", fix)
        else:
            self.report.ok("latency", measured)

    def _clock(self) -> None:
        skew = self.api.skew
        if skew is None:
            self.report.warn("clock", "the API server's answers have no date", "check what answers there")
        elif abs(skew.seconds) <= skew.error + 1:
            self.report.ok("clock", "this machine's and the API server's agree to the second")
        else:
            coordinated = "and the control plane judges by it who leads"
            why = coordinated if self.plan.coordinated else "so the times of the lock mislead people"
            way = "ahead" if skew.seconds > 0 else "behind"
            self.report.warn(
                "clock", f"the API server's is {text(abs(skew.seconds))} {way}, {why}", "synchronise both (NTP)"
            )

    async def _object(self, lock: ObjectLock) -> bool:
        """Check an object of the lock; whether it could be read."""
        what = f"{lock.kind} {lock.namespace}/{self.plan.name}"
        try:
            observed = await lock.get(self.plan.request_timeout)
        except LockError as error:
            if error.failure.kind is Kind.MISSING:
                await self._creation(lock, f"there is no {what} yet")
            else:
                self.report.fail("lock", str(error))
            return False
        manager = lock.field_manager(observed.base)
        writer = f", written by {manager}" if manager else ""
        there = f"the {what} exists{writer}"
        if observed.fault:
            self.report.fail("lock", observed.fault)
        elif self.plan.lock == FOR_LIFE:
            self.report.ok("lock", f"{there}, and belongs to {_owner(observed)}")
        elif observed.record == Record():
            await self._creation(lock, f"{there}, and is free")
        elif not observed.record.holder:
            self.report.ok("lock", f"{there}, and is free")
        else:
            held = f"the {what} is held by {observed.record.holder} for {observed.record.duration}s"
            renewed = "" if observed.record.renewed is None else f", renewed {_ago(observed.record.renewed)}"
            rivals_expire = lock.properties.rivals_expire or len(self._locks) > 1
            self._held(f"{held}{renewed}{writer}", observed, rivals_expire=rivals_expire)
        return True

    def _held(self, held: str, observed: Observed, *, rivals_expire: bool) -> None:
        if rivals_expire and observed.record.duration < self.plan.timing.lease_duration and not observed.incarnation:
            own = f"less than this run's {self.plan.timing.lease_duration}s"
            why = f"{own}, and older candidates expire a record by their own duration"
            self.report.warn("lock", f"{held}: {why}", "give the same --lease-duration")
        else:
            self.report.ok("lock", held)

    async def _creation(self, lock: ObjectLock, found: str) -> None:
        """Find by a dry run what only a write shows: a missing namespace, quotas, admission, a Service in the way."""
        try:
            await lock.dry_run(self.plan.request_timeout)
        except ForbiddenError:
            self.report.ok("lock", found)  # the permissions are checked below
        except LockError as error:
            if error.failure.kind is Kind.CONFLICT:  # it exists
                self.report.ok("lock", found)
            else:
                self.report.fail("lock", f"{found}, and it cannot be written: {error}")
        else:
            self.report.ok("lock", f"{found}: the first candidate creates it")

    async def _coordination(self) -> None:
        check = "coordinated election"
        try:
            version = await served_version(self.api, self.plan.request_timeout)
        except LockError as error:
            self.report.fail(check, str(error))
            return
        if version:
            self.report.ok(check, f"the cluster serves leasecandidates, {version}")
        else:
            fix = "enable the feature gate CoordinatedLeaderElection and its API, or leave --coordinated out"
            self.report.warn(check, "the cluster serves no leasecandidates: the election will be a plain one", fix)

    async def _permission(self, permission: Permission, *, exists: bool) -> bool:
        """Check one permission; False if the API server answers no such question."""
        attributes = {"namespace": self.plan.namespace, "verb": permission.verb, "group": permission.group}
        attributes |= {"resource": permission.resource, "name": permission.name}
        review = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": attributes},
        }
        name = f"/{permission.name}" if permission.name else ""
        what = f"{permission.verb} {permission.resource}{name} in {self.plan.namespace}"
        try:
            found = await self.api.call("POST", _REVIEWS, review, self.plan.request_timeout)
        except LockError as error:
            self.report.fail("permission", f"it is unknown whether {what} is allowed: {error}")
            return False
        status = string_map(found.get("status"))
        if status.get("allowed") is True:
            self.report.ok("permission", what)
        elif permission.without:
            self.report.warn("permission", f"{what} is not allowed: {permission.without}", _GRANT)
        elif permission.verb == "create" and exists:
            self.report.warn("permission", f"{what} is not allowed, and needed only if the object is deleted", _GRANT)
        else:
            self.report.fail("permission", f"{what} is not allowed", _GRANT)
        return True

    async def _grace_period(self) -> None:
        """Check the grace period of this Pod, if its name is known."""
        check, field, needed = (
            "grace period",
            "terminationGracePeriodSeconds",
            self.plan.stop_timeout + self.plan.timing.kill,
        )
        if not (pod := os.environ.get("POD_NAME")):
            return
        namespace = os.environ.get("POD_NAMESPACE") or self.plan.namespace
        target = f"/api/v1/namespaces/{urllib.parse.quote(namespace, safe='')}/pods/{urllib.parse.quote(pod, safe='')}"
        rule = f"it has to be more than {text(needed)}"
        try:
            spec = string_map((await self._get(target)).get("spec"))
        except LockError as error:
            self.report.warn(check, f"the Pod {pod} cannot be read ({error})", f"compare {field}: {rule}")
            return
        period = spec.get(field)
        if not isinstance(period, int) or isinstance(period, bool):
            self.report.warn(check, f"the Pod {pod} has no {field}", rule)
        elif period > needed:
            self.report.ok(check, f"the Pod {pod} has {period}s, more than {text(needed)}")
        else:
            why = f"the Pod {pod} is killed after {period}s, but --stop-timeout and the kill take {text(needed)}"
            self.report.fail(check, why, f"raise {field}, or lower --stop-timeout")

    async def _get(self, target: str) -> dict[str, Any]:
        return await self.api.call("GET", target, None, self.plan.request_timeout)


def _owner(observed: Observed) -> str:
    return " and ".join(f"the {name}" for name in owner_names(observed.base["metadata"])) or "no object"


def _ago(instant: int) -> str:
    seconds = max(0, round(time.time() - instant / _SECOND))
    return f"{text(seconds)} ago"
