"""Makes the lock of each kind."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kleader.locks.annotation import ConfigMapLock, EndpointsLock
from kleader.locks.lease import Lease
from kleader.locks.multi import MultiLock

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kleader.locks.api import Api
    from kleader.locks.base import Lock
    from kleader.locks.object import ObjectLock

_SINGLE: dict[str, type[ObjectLock]] = {"lease": Lease, "configmap": ConfigMapLock, "endpoints": EndpointsLock}
_PRIMARY: dict[str, type[ObjectLock]] = {"configmapsleases": ConfigMapLock, "endpointsleases": EndpointsLock}


def make(  # noqa: PLR0913, PLR0917 - what a lock is found by
    kind: str, api: Api, namespace: str, name: str, labels: Mapping[str, str], lease_duration: int
) -> Lock:
    """The lock of this kind (kinds of ``kleader.link.plan``) and name, for a candidate with this lease duration."""
    if kind in _SINGLE:
        return _SINGLE[kind](api, namespace, name, labels)
    primary = _PRIMARY[kind](api, namespace, name, labels)
    return MultiLock(primary, Lease(api, namespace, name, labels), lease_duration)
