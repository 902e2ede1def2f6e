"""The permissions that each kind of lock needs: for Roles, for checks, and for the tests.

They are in the lock's namespace, and for the lock's name wherever the API server can tell it from the request: one
object is watched by ``watch`` with a field selector on its name. A Lease and a LeaseCandidate are created by PUT, which
``create`` for one name permits. ConfigMaps and Endpoints are created by POST, which it does not permit: a PUT would not
create a ConfigMap, and would overwrite an Endpoints.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from kleader.locks.base import MULTILOCKS
from kleader.locks.candidate_registry import registry_name

if TYPE_CHECKING:
    from collections.abc import Iterable


class Permission(NamedTuple):
    """One verb on one resource, in a namespace."""

    group: str
    resource: str
    verb: str
    name: str = ""  # of the only object; "": of any
    without: str = ""  # what happens without it; "": the lock cannot be acquired, or not be kept


_COORDINATION = "coordination.k8s.io"
_POLLED = "the lock is polled"
_NO_STANDBY = "a leader that ends recommends no standby: a rolling update may change the leader several times"
_FOR_LIFE = "leader-for-life"
_RESOURCES = {"lease": "leases", "configmap": "configmaps", "endpoints": "endpoints", _FOR_LIFE: "configmaps"}


def lock_permissions(lock: str, name: str, *, candidate: str | None = None) -> tuple[Permission, ...]:
    """For a candidate for a lock of this kind (kinds of ``kleader.ipc.plan``) and name; none for a file lock.

    ``candidate``: in coordinated election the identity, which names the LeaseCandidate; "": any, for a fleet.
    """
    resources = _resources(lock)
    permissions = [permission for resource in resources for permission in _of_object(resource, name)]
    if "endpoints" in resources:
        unknown = "kleader cannot check that the lock takes nothing from a Service without a selector"
        permissions.append(Permission("", "services", "get", name, unknown))
    if lock == _FOR_LIFE:
        permissions.append(Permission("", "configmaps", "delete", name))  # a dead owner's; one's own is updated
        permissions += [Permission("", "pods", "get"), Permission("", "pods", "watch", "", _POLLED)]
    if candidate is not None:
        slow = "the control plane takes an ended candidate for a live one until it does not answer"
        permissions += _of_object("leasecandidates", candidate, polled="the LeaseCandidate is polled")
        permissions.append(Permission(_COORDINATION, "leasecandidates", "delete", candidate, slow))
    return tuple(permissions)


def request_permissions(lock: str, name: str, *, transfers: bool = False) -> tuple[Permission, ...]:
    """For a request to the lock's leader (``resign``, ``transfer``), and for clearing the lock of a dead one."""
    permissions = (permission for resource in _resources(lock) for permission in _of_object(resource, name))
    standbys = Permission(_COORDINATION, "leases", "get", registry_name(name), "transfer needs --to and --force")
    return (*(grant for grant in permissions if grant.verb != "create"), *([standbys] if transfers else ()))


def event_permissions() -> tuple[Permission, ...]:
    """For Events on a lock of any kind."""
    return (Permission("", "events", "create", "", "there are no Events"),)


def registration_permissions(lock_name: str) -> tuple[Permission, ...]:
    """For a candidate that makes itself known while it waits, and as a leader follows the list of candidates."""
    unseen = "status and transfer do not see this candidate while it waits"
    without = {"get": unseen, "watch": _NO_STANDBY, "update": unseen, "create": unseen, "patch": unseen}
    name = registry_name(lock_name)
    return tuple(Permission(_COORDINATION, "leases", verb, name, what) for verb, what in without.items())


def rollout_permissions() -> tuple[Permission, ...]:
    """For a leader in a Deployment; the names of its ReplicaSets are not known before."""
    return (Permission("apps", "replicasets", "get", "", "a rolling update may change the leader several times"),)


def pod_label_permissions(pod: str = "") -> tuple[Permission, ...]:
    """For the label on a Pod; "": on any Pod, because a fleet's Pods have names that are not known before."""
    return (Permission("", "pods", "patch", pod, "the Pod's label does not tell who leads"),)


def role_rules(permissions: Iterable[Permission]) -> list[dict[str, Any]]:
    """The rules of a Role (rbac.authorization.k8s.io/v1 PolicyRule), one for each resource and name."""
    verbs: dict[tuple[str, str, str], list[str]] = {}
    for permission in permissions:
        verbs.setdefault((permission.group, permission.resource, permission.name), []).append(permission.verb)
    return [
        {"apiGroups": [group], "resources": [resource]}
        | ({"resourceNames": [name]} if name else {})
        | {"verbs": permitted}
        for (group, resource, name), permitted in verbs.items()
    ]


def _resources(lock: str) -> list[str]:
    return [_RESOURCES[kind] for kind in MULTILOCKS.get(lock, (lock,)) if kind in _RESOURCES]


def _of_object(resource: str, name: str, *, polled: str = _POLLED) -> list[Permission]:
    group, created = (_COORDINATION, name) if resource.startswith("lease") else ("", "")
    return [
        Permission(group, resource, "get", name),
        Permission(group, resource, "watch", name, polled),
        Permission(group, resource, "update", name),
        Permission(group, resource, "create", created),
    ]
