"""The standby that a leader recommends when it releases the lock: so a rolling update costs one handover.

The list of candidates orders the standbys. Of those with equal priority the Pods of the newest template come first,
because a rollout deletes the others. A leader follows the list, so that no release waits for it.
"""

from __future__ import annotations

import asyncio
import re
import time
import urllib.parse
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, NamedTuple

from kleader import system
from kleader.backoff import Backoff
from kleader.election.events import Kind
from kleader.election.state import Phase
from kleader.elector.best_effort import Follower
from kleader.kube.client import ApiClient
from kleader.kube.errors import ForbiddenError, LockError, WatchError
from kleader.kube.metadata import string_map, string_maps
from kleader.locks import candidate_registry as registry

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kleader.election.state import State
    from kleader.ipc.plan import Plan
    from kleader.kube.credentials import Credentials
    from kleader.locks.base import Lock
    from kleader.locks.candidate_registry import Registered
    from kleader.log import Log

_DELAY_SECONDS = 1.0  # after an acquisition: a handover has this machine and the API server to itself
_TIMEOUT = 5.0  # seconds for one request
_MAX_PAUSE_SECONDS = 300.0  # between two watches that failed
_MAX_REPLICA_SETS = 10  # of all standbys: a rollout has two
_METADATA = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
_REVISION = "deployment.kubernetes.io/revision"  # a rollback raises that of the old ReplicaSet
_POD_OF_REPLICA_SET = re.compile(r"(.+)-[a-z0-9]{5}")  # generateName of the ReplicaSet controller


class Revision(NamedTuple):
    """Which template of which Deployment a ReplicaSet has."""

    deployment: str  # its uid
    number: int


class Recommendation(Follower):
    """Follows the list of candidates while the candidate leads, and has a release of ``lock`` name the best one."""

    def __init__(self, plan: Plan, credentials: Credentials, log: Log, lock: Lock) -> None:
        self._plan, self._credentials, self._log, self._lock = plan, credentials, log, lock
        self._found: dict[str, Any] = {}  # the list, as last observed
        self._revisions: dict[str, Revision] = {}
        self._pods: set[str] = set()  # of the standbys, when the revisions were read
        self._warned: set[str] = set()
        self._work: asyncio.Task[None] | None = None
        self._reading: asyncio.Task[None] | None = None
        self._api: ApiClient | None = None
        self._one_call = asyncio.Lock()  # a client takes one call at a time

    def follow(self, state: State) -> None:
        """Note the election's state, after each step."""
        if state.phase is Phase.LEADING and self._plan.recommends and not self._work:
            self._work = asyncio.get_running_loop().create_task(self._keep())
        elif self._work and state.phase not in {Phase.LEADING, Phase.RELEASING}:
            self._work.cancel()
            self._work, self._found, self._pods, self._lock.recommended = None, {}, set(), ""

    def command(self, *, runs: bool) -> None:
        """When the command is asked to stop, read the revisions again, because a rollback changes them."""
        if self._api and not runs:
            self._reading = asyncio.get_running_loop().create_task(self._read_revisions(self._api))

    @property
    def _standbys(self) -> list[Registered]:
        if not registry.is_registry(self._found):
            return []
        known = registry.candidates(self._found, self._lock.server_time or time.time_ns() // 1000)
        waiting = registry.of_lock(known, self._plan.lock)
        return [entry for entry in waiting if entry.is_ready and entry.identity != self._plan.identity]

    async def _keep(self) -> None:
        await asyncio.sleep(_DELAY_SECONDS)
        backoff = Backoff(1.0, _MAX_PAUSE_SECONDS, steady=_MAX_PAUSE_SECONDS / 10)
        collection, name = registry.target(self._lock.namespace), registry.registry_name(self._plan.name)
        self._api = ApiClient(self._credentials, shared=True)
        try:
            while True:
                began = system.clock()
                try:
                    async with aclosing(self._api.watch_object(collection, name, "", _TIMEOUT)) as states:
                        async for found in states:
                            self._found = found or {}
                            self._choose()
                            if self._pods != {entry.pod for entry in self._standbys}:  # else an entry was only renewed
                                await self._read_revisions(self._api)
                except WatchError as error:
                    self._report(f"grant watch on the Lease {name}", error, denied=error.ended.denied)
                await asyncio.sleep(backoff.pause(system.clock() - began))
        finally:
            self._api.close()
            self._api = None

    async def _read_revisions(self, api: ApiClient) -> None:
        """Those of the standbys' ReplicaSets, where there are several."""
        namespace = self._plan.pod.namespace or self._lock.namespace
        collection = f"/apis/apps/v1/namespaces/{urllib.parse.quote(namespace, safe='')}/replicasets"
        self._pods = {entry.pod for entry in self._standbys}
        names = sorted({*map(replica_set, self._pods)} - {""})
        found: dict[str, Revision] = {}
        async with self._one_call:
            for name in names[:_MAX_REPLICA_SETS] if len(names) > 1 else ():
                target = f"{collection}/{urllib.parse.quote(name, safe='')}"
                try:
                    revision = revision_of(await api.call("GET", target, None, _TIMEOUT, accept=_METADATA))
                except LockError as error:
                    if error.failure.kind is not Kind.MISSING:
                        denied = isinstance(error, ForbiddenError)
                        self._report("grant get on replicasets", error, denied=denied)
                        self._pods = self._pods if denied else set()  # the next event reads them again
                        return
                else:
                    found |= {name: revision} if revision else {}
        self._revisions = found
        self._choose()

    def _choose(self) -> None:
        identity = best(self._standbys, self._revisions)
        if self._work and identity != self._lock.recommended:
            self._lock.recommended = identity
            self._log.debug(f"the next leader should be {identity or 'any candidate'}", event="standby_chosen")

    def _report(self, grant: str, error: Exception, *, denied: bool) -> None:
        is_news = denied and grant not in self._warned
        self._warned |= {grant} if denied else set()
        what = f"{grant}, so that a rolling update changes the leader only once: {error}"
        (self._log.warning if is_news else self._log.debug)(what, event="recommendation_failed")


def best(standbys: Sequence[Registered], revisions: Mapping[str, Revision]) -> str:
    """The identity of the standby to recommend; "" for none.

    The highest priority first, then the newest template of each Deployment, then the order of ``standbys``.
    ``revisions``: by the name of the ReplicaSet, as far as they are known.
    """
    highest = max((entry.priority for entry in standbys), default=0)
    equal = [(entry.identity, revisions.get(replica_set(entry.pod))) for entry in standbys if entry.priority == highest]
    newest = dict(sorted(revision for _, revision in equal if revision))  # the last one of a Deployment stays
    best_ones = [identity for identity, known in equal if not known or known.number == newest[known.deployment]]
    return best_ones[0] if best_ones else ""


def replica_set(pod: str) -> str:
    """The name of the ReplicaSet whose Pod has this name; "" if no ReplicaSet made it."""
    match = _POD_OF_REPLICA_SET.fullmatch(pod)
    return match[1] if match else ""


def revision_of(found: dict[str, Any]) -> Revision | None:
    """The revision of a ReplicaSet; None if no Deployment owns it."""
    metadata = string_map(found.get("metadata"))
    number = string_map(metadata.get("annotations")).get(_REVISION)
    uids = [owner.get("uid") for owner in string_maps(metadata.get("ownerReferences"))]
    is_number = isinstance(number, str) and re.fullmatch(r"\d{1,18}", number, re.ASCII)
    return Revision(str(uids[0]), int(str(number))) if is_number and len(uids) == 1 else None
