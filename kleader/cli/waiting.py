"""The candidates that wait for locks, for the commands that show or need them."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from kleader.ipc import status_socket
from kleader.kube.client import ApiClient
from kleader.kube.errors import LockError
from kleader.locks import candidate_registry as registry
from kleader.locks.candidate_registry import READY, UNHEALTHY, Registered
from kleader.observe.kube_source import LEASES, KubeSource

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kleader.cli.locate import Query
    from kleader.observe.follow import LockSource
    from kleader.observe.snapshot import LockSnapshot

_ASK_SECONDS = 1.0  # for the answers of all kleaders on this machine
_STATES = {"candidate": READY, "resting": UNHEALTHY}  # of those that do not lead, by their role


async def with_candidates(
    query: Query, namespace: str, sources: Sequence[LockSource], locks: Sequence[LockSnapshot]
) -> tuple[list[LockSnapshot], str]:
    """The locks with the candidates that wait for them; and why those are not known, "" if they are."""
    if query.kind == "file":
        return [replace(lock, candidates=tuple(_on_this_machine(lock))) for lock in locks], ""
    source = next((each for each in sources if isinstance(each, KubeSource)), None)
    if source is None or not locks:
        return [*locks], ""
    if query.name and namespace:
        api = ApiClient(source.api.credentials)
        try:
            found = [await registry.read_registry(api, namespace, query.name, query.request_timeout)]
        except LockError as error:
            return [*locks], f"the candidates that wait are not shown: {error}"
        finally:
            api.close()
    else:
        leases = [each for each in sources if isinstance(each, KubeSource) and each.kind is LEASES]
        if query.name or not leases:
            return [*locks], ""
        found, api = leases[0].registries, leases[0].api
    return [replace(lock, candidates=tuple(_of(lock, found, server_time(api)))) for lock in locks], ""


async def registered(api: ApiClient, namespace: str, name: str, kind: str, timeout: float) -> list[Registered]:
    """The candidates that are registered for a lock, the best first. LockError."""
    found = await registry.read_registry(api, namespace, name, timeout)
    return registry.of_lock(registry.candidates(found, server_time(api)), kind)


def server_time(api: ApiClient) -> int:
    """Microseconds since the epoch by the API server's clock; by this machine's if that is not known."""
    return api.server_time or time.time_ns() // 1000


def _of(lock: LockSnapshot, registries: Sequence[dict[str, Any]], now: int) -> list[Registered]:
    name = registry.registry_name(lock.name)
    here = [entry for entry in registries if entry and entry["metadata"]["name"] == name]
    here = [entry for entry in here if entry["metadata"].get("namespace") == lock.namespace]
    found = [candidate for entry in here for candidate in registry.candidates(entry, now)]
    return [entry for entry in registry.of_lock(found, lock.kind) if entry.identity != lock.record.holder]


def _on_this_machine(lock: LockSnapshot) -> list[Registered]:
    """The kleaders that wait for a lock file, as they answer for themselves."""
    answers, _, _ = status_socket.ask(lock.name, _ASK_SECONDS)
    waiting = [answer for answer in answers if answer.file == lock.path and answer.role in _STATES]
    now = time.time_ns() // 1000
    return sorted(Registered(answer.identity, "file", _STATES[answer.role], 0, now) for answer in waiting)
