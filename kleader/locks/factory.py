"""Makes the lock of each kind."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kleader.locks.annotation_lock import ConfigMapLock, EndpointsLock
from kleader.locks.base import MULTILOCKS
from kleader.locks.coordinated_lease import CoordinatedLease
from kleader.locks.leader_for_life import LeaderForLifeLock
from kleader.locks.lease import LeaseLock
from kleader.locks.multilock import MultiLock

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kleader.kube.client import ApiClient
    from kleader.locks.base import Lock
    from kleader.locks.leader_for_life import PodContext
    from kleader.locks.lease_candidate import LeaseCandidate
    from kleader.locks.object_lock import ObjectLock

_KINDS: dict[str, type[ObjectLock]] = {
    "lease": LeaseLock,
    "configmap": ConfigMapLock,
    "endpoints": EndpointsLock,
    "leader-for-life": ConfigMapLock,
}


def component_locks(  # noqa: PLR0913, PLR0917 - what identifies a lock
    kind: str,
    api: ApiClient,
    namespace: str,
    name: str,
    labels: Mapping[str, str],
    warn: Callable[[str], None] = lambda _: None,
    *,
    force: bool = False,
) -> list[ObjectLock]:
    """A lock for each object of a lock of this kind, the primary first: enough for commands that do not compete."""
    locks = [_KINDS[component](api, namespace, name, labels, warn) for component in MULTILOCKS.get(kind, (kind,))]
    for lock in locks:
        if isinstance(lock, EndpointsLock):
            lock.force = force
    return locks


def make_lock(  # noqa: PLR0913, PLR0917 - what identifies a lock
    kind: str,
    api: ApiClient,
    namespace: str,
    name: str,
    labels: Mapping[str, str],
    lease_duration: int,
    *,
    warn: Callable[[str], None] = lambda _: None,
    force: bool = False,
    candidate: LeaseCandidate | None = None,
    context: PodContext | None = None,
) -> Lock:
    """The lock of this kind (kinds of ``kleader.ipc.plan``) and name, for a candidate with this lease duration.

    ``warn`` gets sentences for a person. ``force`` permits an Endpoints that a Service would lose. ``candidate``: for
    coordinated election, which only Leases have. ``context``: for leader-for-life.
    """
    if candidate:
        coordinated = CoordinatedLease(api, namespace, name, labels, warn)
        coordinated.candidate = candidate
        return coordinated
    if context:
        return LeaderForLifeLock(api, namespace, name, labels, warn, context)
    primary, *secondary = component_locks(kind, api, namespace, name, labels, warn, force=force)
    return MultiLock(primary, secondary[0], lease_duration) if secondary else primary
