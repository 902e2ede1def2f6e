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
    from kleader.locks.base import Lock, Place
    from kleader.locks.leader_for_life import PodContext
    from kleader.locks.lease_candidate import LeaseCandidate
    from kleader.locks.object_lock import ObjectLock

_KINDS: dict[str, type[ObjectLock]] = {
    "lease": LeaseLock,
    "configmap": ConfigMapLock,
    "endpoints": EndpointsLock,
    "leader-for-life": ConfigMapLock,
}


def component_locks(kind: str, place: Place) -> list[ObjectLock]:
    """A lock for each object of a lock of this kind, the primary first: enough for commands that do not compete."""
    return [_KINDS[component](place) for component in MULTILOCKS.get(kind, (kind,))]


def make_lock(
    kind: str,
    place: Place,
    lease_duration: int,
    *,
    candidate: LeaseCandidate | None = None,
    context: PodContext | None = None,
) -> Lock:
    """The lock of this kind (kinds of ``kleader.ipc.plan``), for a candidate with this lease duration.

    ``candidate``: for coordinated election, which only Leases have. ``context``: for leader-for-life.
    """
    if candidate:
        coordinated = CoordinatedLease(place)
        coordinated.candidate = candidate
        return coordinated
    if context:
        return LeaderForLifeLock(place, context)
    primary, *secondary = component_locks(kind, place)
    return MultiLock(primary, secondary[0], lease_duration) if secondary else primary
