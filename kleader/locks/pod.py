"""What a reference to a Pod, and the Pod's object, say of who owns a lock, and whether that is dead."""

from __future__ import annotations

from typing import Any, NamedTuple

from kleader.locks.object import owners, texts

_LONGEST = 253  # characters of a name; a uid has fewer
_ENDED = ("Evicted", "Preempting")  # operator-lib's isPodEvicted and isPodPreempted
_STATUSES = ("containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses")


class Owner(NamedTuple):
    """A Pod."""

    name: str
    uid: str


def referred(references: object) -> Owner | None:
    """The Pod that is the only owner. None: it is none, or cannot be told from others.

    One without a name would be dead: there is no Pod that has it.
    """
    one = references[0] if isinstance(references, list) and len(references) == 1 else None
    if not isinstance(one, dict) or (one.get("apiVersion"), one.get("kind")) != ("v1", "Pod"):
        return None
    name, uid = one.get("name"), one.get("uid")
    known = isinstance(name, str) and isinstance(uid, str) and uid and 0 < len(name) <= _LONGEST >= len(uid)
    return Owner(str(name), str(uid)) if known else None


def gone(pod: dict[str, Any] | None, uid: str) -> bool:
    """Whether the Pod of this uid is proven dead, by what its name shows now.

    A phase alone proves nothing: the control plane writes it for Pods of nodes that it has lost.
    """
    if pod is None or pod.get("metadata", {}).get("uid") != uid:
        return True
    status, spec = texts(pod.get("status")), texts(pod.get("spec"))
    if status.get("phase") != "Failed" or status.get("reason") not in _ENDED:
        return False
    listed = [found.get(key) or [] for found, key in ((spec, "containers"), *((status, key) for key in _STATUSES))]
    if not all(isinstance(each, list) for each in listed):
        return False  # nobody can tell
    wanted, known = ([texts(each).get("name") for each in some] for some in listed[:2])
    ended = [texts(texts(each).get("state")).get("terminated") for some in listed[1:] for each in some]
    return bool(wanted) and all(isinstance(name, str) and name in known for name in wanted) and all(ended)


def odd(metadata: dict[str, Any]) -> str:
    """What the owners are, where they are not one Pod."""
    names = owners(metadata)
    mend = "give another --name, or delete it if nobody needs it"
    if len(names) != 1:
        return f"has {len(names) or 'no'} owner{'s' * (len(names) > 1)}, not one Pod: {mend}"
    return f"belongs to the {names[0][:_LONGEST]}, which is no Pod: {mend}"
