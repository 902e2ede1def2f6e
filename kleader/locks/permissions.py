"""What each kind of lock has to be allowed at the API, in one place: for Roles, for checks, and for the tests.

All of it is in the lock's namespace, and for the lock's name alone wherever the API server can tell that from the
request: one object is watched by ``watch`` with a field selector on its name. ``list`` is for LeaseCandidates alone,
all of which a leader that ends asks for a sign of life. A Lease and a LeaseCandidate are created by PUT, which
``create`` for one name covers; ConfigMaps and Endpoints by POST, which it does not: PUT would create no ConfigMap, and
overwrite an Endpoints.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable


class Permission(NamedTuple):
    """One verb on one resource, in a namespace."""

    group: str
    resource: str
    verb: str
    name: str = ""  # of the only object; "": of any
    without: str = ""  # what happens where it is not granted; "": the lock cannot be had, or not be kept


_COORDINATION = "coordination.k8s.io"
_POLLED = "the lock is polled"
_FOR_LIFE = "leader-for-life"
_LOCKS = {
    "lease": ("leases",),
    "configmap": ("configmaps",),
    "endpoints": ("endpoints",),
    "configmapsleases": ("configmaps", "leases"),
    "endpointsleases": ("endpoints", "leases"),
    _FOR_LIFE: ("configmaps",),
}


def needed(lock: str, name: str, *, candidate: str | None = None) -> tuple[Permission, ...]:
    """For a lock of this kind (kinds of ``kleader.link.plan``) and name; nothing for one that is not at the API.

    ``candidate``: in coordinated election the identity, which names one's LeaseCandidate; "": any, for a fleet.
    """
    permissions = [permission for resource in _LOCKS.get(lock, ()) for permission in _of_object(resource, name)]
    if permissions and "endpoints" in _LOCKS[lock]:
        unknown = "nobody can tell whether the lock spoils a Service without a selector"
        permissions.append(Permission("", "services", "get", name, unknown))
    if lock == _FOR_LIFE:
        permissions.append(Permission("", "configmaps", "delete", name))  # of who is dead; its own is updated
        permissions += [Permission("", "pods", "get"), Permission("", "pods", "watch", "", _POLLED)]
    if candidate is not None:
        slow = "the control plane takes an ended candidate for a live one until it does not answer"
        permissions += _of_object("leasecandidates", candidate, polled="the LeaseCandidate is polled")
        permissions.append(Permission(_COORDINATION, "leasecandidates", "delete", candidate, slow))
        long = "a candidate that has just crashed delays a handover for longer"
        permissions += [Permission(_COORDINATION, "leasecandidates", verb, "", long) for verb in ("list", "patch")]
    return tuple(permissions)


def to_ask(lock: str, name: str) -> tuple[Permission, ...]:
    """For who asks its leader for something (``resign``, ``transfer``), or takes it from who cannot be asked."""
    found = (each for resource in _LOCKS.get(lock, ()) for each in _of_object(resource, name))
    return tuple(each for each in found if each.verb != "create")


def events() -> tuple[Permission, ...]:
    """For Events on the lock, whatever its kind."""
    return (Permission("", "events", "create", "", "there are no Events"),)


def label(pod: str = "") -> tuple[Permission, ...]:
    """For the label on a Pod, "": on any of a fleet, whose names nobody knows before they are there."""
    return (Permission("", "pods", "patch", pod, "the Pod's label does not tell who leads"),)


def rules(permissions: Iterable[Permission]) -> list[dict[str, Any]]:
    """The same as rules of a Role (rbac.authorization.k8s.io/v1 PolicyRule), one for each resource and name."""
    verbs: dict[tuple[str, str, str], list[str]] = {}
    for each in permissions:
        verbs.setdefault((each.group, each.resource, each.name), []).append(each.verb)
    return [
        {"apiGroups": [group], "resources": [resource]}
        | ({"resourceNames": [name]} if name else {})
        | {"verbs": allowed}
        for (group, resource, name), allowed in verbs.items()
    ]


def _of_object(resource: str, name: str, *, polled: str = _POLLED) -> list[Permission]:
    group, created = (_COORDINATION, name) if resource.startswith("lease") else ("", "")
    return [
        Permission(group, resource, "get", name),
        Permission(group, resource, "watch", name, polled),
        Permission(group, resource, "update", name),
        Permission(group, resource, "create", created),
    ]
