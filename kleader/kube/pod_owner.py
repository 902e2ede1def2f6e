"""Whether the Pod that owns an object is dead."""

from __future__ import annotations

from typing import Any, NamedTuple

from kleader.kube.metadata import owner_names, string_map

_MAX_NAME_LENGTH = 253  # of an object; a uid is shorter
_FINAL_PHASES = ("Failed", "Succeeded")  # the kubelet starts no container any more
# A process of kleader's may run in a container of any kind: field of the spec, field of the status.
_CONTAINERS = {
    "containers": "containerStatuses",
    "initContainers": "initContainerStatuses",
    "ephemeralContainers": "ephemeralContainerStatuses",
}


class PodOwner(NamedTuple):
    """A Pod that owns an object."""

    name: str
    uid: str


def owner_of(references: object) -> PodOwner | None:
    """The Pod in ``ownerReferences`` if it is the only owner; None for anything else.

    A Pod without a name would count as dead, because no Pod has that name.
    """
    one = references[0] if isinstance(references, list) and len(references) == 1 else None
    if not isinstance(one, dict) or (one.get("apiVersion"), one.get("kind")) != ("v1", "Pod"):
        return None
    name, uid = one.get("name"), one.get("uid")
    valid = isinstance(name, str) and isinstance(uid, str) and uid and 0 < len(name) <= _MAX_NAME_LENGTH >= len(uid)
    return PodOwner(str(name), str(uid)) if valid else None


def invalid_owner(metadata: dict[str, Any]) -> str:
    """The sentence for an object that is not owned by one Pod."""
    names = owner_names(metadata)
    hint = "give another --name, or delete it if it is not needed"
    if len(names) != 1:
        return f"has {len(names) or 'no'} owner{'s' * (len(names) > 1)}, not one Pod: {hint}"
    return f"belongs to the {names[0][:_MAX_NAME_LENGTH]}, which is not a Pod: {hint}"


def is_dead(pod: dict[str, Any] | None, uid: str) -> bool:
    """Whether the Pod with this uid runs no process any more, as proven by ``pod``: what its name shows now, or None.

    The Pod is gone, or its phase is final and each of its containers has terminated. A phase that Pod garbage
    collection wrote proves nothing: it is written for Pods of lost nodes, whose statuses are outdated.
    """
    if pod is None or pod.get("metadata", {}).get("uid") != uid:
        return True
    status, spec = string_map(pod.get("status")), string_map(pod.get("spec"))
    conditions = status.get("conditions") or []
    if status.get("phase") not in _FINAL_PHASES or not isinstance(conditions, list):
        return False
    collected = any(string_map(condition).get("reason") == "DeletionByPodGC" for condition in conditions)
    ended = (_all_terminated(spec.get(kind) or [], status.get(key) or []) for kind, key in _CONTAINERS.items())
    return not collected and bool(spec.get("containers")) and all(ended)


def _all_terminated(containers: object, statuses: object) -> bool:
    if not isinstance(containers, list) or not isinstance(statuses, list):
        return False
    known = [string_map(status).get("name") for status in statuses]
    wanted = [string_map(container).get("name") for container in containers]
    ended = [string_map(string_map(status).get("state")).get("terminated") for status in statuses]
    return all(isinstance(name, str) and name in known for name in wanted) and all(ended)
