"""Makes the lock of each kind."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kleader.locks.annotation import ConfigMapLock, EndpointsLock
from kleader.locks.coordinated import Coordinated
from kleader.locks.lease import Lease
from kleader.locks.multi import MultiLock
from kleader.locks.owned import OwnedLock

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kleader.locks.api import Api
    from kleader.locks.base import Lock
    from kleader.locks.coordinated import Candidate
    from kleader.locks.object import ObjectLock
    from kleader.locks.owned import Home

_SINGLE: dict[str, type[ObjectLock]] = {"lease": Lease, "configmap": ConfigMapLock, "endpoints": EndpointsLock}
_PRIMARY = {"configmapsleases": "configmap", "endpointsleases": "endpoints"}


def objects(  # noqa: PLR0913 - what a lock is found by
    kind: str, api: Api, namespace: str, name: str, labels: Mapping[str, str], *, force: bool = False
) -> list[ObjectLock]:
    """Each object by itself that a lock of this kind is kept in, for who only looks; the primary first."""
    kept = (_PRIMARY[kind], "lease") if kind in _PRIMARY else (kind,)
    found = [_SINGLE.get(each, ConfigMapLock)(api, namespace, name, labels) for each in kept]
    for each in found:
        if isinstance(each, EndpointsLock):
            each.force = force
    return found


def make(  # noqa: PLR0913, PLR0917 - what a lock is found by
    kind: str,
    api: Api,
    namespace: str,
    name: str,
    labels: Mapping[str, str],
    lease_duration: int,
    *,
    warn: Callable[[str], None] = lambda _: None,
    force: bool = False,
    held: int = 0,
    candidate: Candidate | None = None,
    home: Home | None = None,
) -> Lock:
    """The lock of this kind (kinds of ``kleader.link.plan``) and name, for a candidate with this lease duration.

    ``warn`` is told what somebody should look at; ``force`` does what a lock would refuse to do. ``held``: for how many
    seconds whoever an elector before this one has seen may hold it; 0: there was none. ``candidate``: of coordinated
    election, which Leases alone have. ``home``: where it lives, for a lock that is its Pod's.
    """

    def single(kind: str) -> ObjectLock:
        lock = _SINGLE[kind](api, namespace, name, labels, warn)
        if isinstance(lock, EndpointsLock):
            lock.force = force
        return lock

    if candidate:
        coordinated = Coordinated(api, namespace, name, labels, warn)
        coordinated.candidate = candidate
        return coordinated
    if home:
        return OwnedLock(api, namespace, name, labels, warn, home)
    if kind in _PRIMARY:
        return MultiLock(single(_PRIMARY[kind]), single("lease"), lease_duration, held)
    return single(kind)
