"""The candidates that wait for a lock: a Lease beside the lock has an annotation for each of them.

A Lease of its own, because every candidate watches the lock's objects: a write there would wake them all. One Lease for
all of them, because a Role can name it. A merge patch writes one annotation and conflicts with no other. It tells
operators and leaders which candidates wait; it never decides which candidate may lead.
"""

from __future__ import annotations

import json
import urllib.parse
from typing import TYPE_CHECKING, Any, NamedTuple

from kleader.election.events import Kind
from kleader.election.record import micro_time, parse_time
from kleader.election.request import can_lead
from kleader.kube.errors import LockError
from kleader.kube.metadata import string_map
from kleader.locks.base import CANDIDATES, MULTILOCKS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kleader.kube.client import ApiClient

READY, UNHEALTHY = "ready", "unhealthy"
REGISTRY = "kleader/candidates-of"  # the annotation that tells a registry from a lock: the name of its lock
RENEWAL = 300.0  # seconds between two writes of a candidate that waits
_ENTRY = "kleader/candidate-"
_SECOND = 1_000_000
_VALID_SECONDS = {READY: RENEWAL + 60, UNHEALTHY: 3600.0}  # after a write; an unhealthy candidate cannot write again
_LONGEST_SECONDS = max(_VALID_SECONDS.values())
_MAX_TEXT_CHARS = 1024  # of an identity, which is the longest value


class Registered(NamedTuple):
    """One candidate, as it has described itself. Instants: microseconds since the epoch, by the API server's clock."""

    identity: str
    lock: str  # as --lock names it
    state: str
    since: int  # when it began to wait
    renewed: int
    priority: int = 0
    pod: str = ""
    version: str = ""  # of kleader

    @property
    def is_ready(self) -> bool:
        """Whether it takes a lock that is handed over to it."""
        return self.state == READY


def registry_name(lock_name: str) -> str:
    """The name of the Lease."""
    return f"{CANDIDATES}{lock_name}"


def entry_key(unique: str) -> str:
    """The annotation of one candidate; ``unique``: of the process, at most 40 letters and digits."""
    return f"{_ENTRY}{unique}"


def to_text(candidate: Registered) -> str:
    """The value of the annotation."""
    times = {"since": micro_time(candidate.since), "renewed": micro_time(candidate.renewed)}
    return json.dumps(candidate._asdict() | times, separators=(",", ":"), ensure_ascii=False)


def from_text(text: object) -> Registered | None:
    """The candidate; None for everything that does not describe one."""
    try:
        found = json.loads(text) if isinstance(text, str) else None
        if not isinstance(found, dict):
            return None
        words = [found.get(name, "") for name in ("identity", "lock", "state", "pod", "version")]
        if not all(isinstance(word, str) and len(word) <= _MAX_TEXT_CHARS for word in words):
            return None
        identity, lock, state, pod, version = (word.encode(errors="replace").decode() for word in words)
        priority = found.get("priority", 0)
        since, renewed = parse_time(found["since"]), parse_time(found["renewed"])
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
        return None
    if not (can_lead(identity) and identity.isprintable()):
        return None
    if state not in _VALID_SECONDS or not isinstance(priority, int) or isinstance(priority, bool):
        return None
    return Registered(identity, lock, state, since, renewed, priority, pod, version)


def is_registry(found: dict[str, Any]) -> bool:
    """Whether the Lease is a registry, and no lock: it has no holder."""
    return REGISTRY in _annotations(found) and not string_map(found.get("spec")).get("holderIdentity")


def candidates(found: dict[str, Any], now: int) -> list[Registered]:
    """The candidates in a registry that are not out of date, the best standby first."""
    valid = (entry for entry in _entries(found).values() if _age(entry, now) < _VALID_SECONDS[entry.state])
    return sorted(valid, key=_rank)


def of_lock(found: Iterable[Registered], lock: str) -> list[Registered]:
    """Those that compete for a lock of this kind: for the same objects, or for one of two."""
    wanted = set(MULTILOCKS.get(lock, (lock,)))
    return [entry for entry in found if wanted.intersection(MULTILOCKS.get(entry.lock, (entry.lock,)))]


def outdated_keys(found: dict[str, Any], now: int) -> list[str]:
    """The annotations of candidates that have ended without a word long ago."""
    return [key for key, entry in _entries(found).items() if _age(entry, now) > _LONGEST_SECONDS]


async def read_registry(api: ApiClient, namespace: str, lock_name: str, timeout: float) -> dict[str, Any]:
    """The Lease; {} if there is none, or it is none of kleader's. LockError."""
    try:
        found = await api.call("GET", target(namespace, lock_name), None, timeout)
    except LockError as error:
        if error.failure.kind is Kind.MISSING:
            return {}
        raise
    return found if is_registry(found) else {}


async def remove(api: ApiClient, namespace: str, lock_name: str, identity: str, timeout: float) -> None:
    """Take the entries of a candidate out, until it writes its next one. LockError."""
    found = await read_registry(api, namespace, lock_name, timeout)
    entries = {key: None for key, entry in _entries(found).items() if entry.identity == identity}
    if entries:
        await api.call("PATCH", target(namespace, lock_name), {"metadata": {"annotations": entries}}, timeout)


def target(namespace: str, lock_name: str = "") -> str:
    """The path of the Lease, or without a name of all Leases."""
    collection = f"/apis/coordination.k8s.io/v1/namespaces/{urllib.parse.quote(namespace, safe='')}/leases"
    return f"{collection}/{urllib.parse.quote(registry_name(lock_name), safe='')}" if lock_name else collection


def blank(namespace: str, lock_name: str, entries: dict[str, str | None]) -> dict[str, Any]:
    """A registry with these entries alone."""
    annotations = {REGISTRY: lock_name, **entries}
    metadata = {"name": registry_name(lock_name), "namespace": namespace, "annotations": annotations}
    return {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": {}}


def has_entry(found: dict[str, Any], key: str) -> bool:
    """Whether the registry has this annotation."""
    return key in _annotations(found)


def _annotations(found: dict[str, Any]) -> dict[str, Any]:
    return string_map(string_map(found.get("metadata")).get("annotations"))


def _entries(found: dict[str, Any]) -> dict[str, Registered]:
    """The annotations that describe a candidate."""
    entries = {key: from_text(text) for key, text in _annotations(found).items() if key.startswith(_ENTRY)}
    return {key: entry for key, entry in entries.items() if entry}


def _age(candidate: Registered, now: int) -> float:
    """Seconds since it was written; one that is written in the future is no better than one in the past."""
    return abs(now - candidate.renewed) / _SECOND


def _rank(candidate: Registered) -> tuple[bool, int, int, str]:
    """The sort key: ready, the highest priority, the one that has waited longest."""
    return not candidate.is_ready, -candidate.priority, candidate.since, candidate.identity
