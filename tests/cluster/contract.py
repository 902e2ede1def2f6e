"""A lock of any kind as it stands at the API server: planted, edited and read as plain JSON, beside kleader's code."""

from __future__ import annotations

import asyncio
import calendar
import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import pytest
from typing_extensions import Self

from kleader import launch
from kleader.election.record import Record
from kleader.kube.client import ApiClient
from kleader.kube.credentials import Credentials
from kleader.kube.errors import LockError
from kleader.locks import base, factory
from kleader.locks.rbac import Permission, lock_permissions, registration_permissions, role_rules
from tests.support import faults
from tests.support.api import path
from tests.support.controlplane import ControlPlane
from tests.support.loopthread import LoopThread

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Mapping

    from kleader.election.events import Failure, Observed
    from kleader.locks.base import Lock
    from kleader.locks.lease_candidate import LeaseCandidate
    from tests.support.api import Object
    from tests.support.httpproxy import Action
    from tests.support.plane import Plane

LEADER = "control-plane.alpha.kubernetes.io/leader"
INCARNATION = "kleader/incarnation"
VERSIONS = {"Lease": "coordination.k8s.io/v1", "ConfigMap": "v1", "Endpoints": "v1"}
OBJECTS = {
    "lease": ("Lease",),
    "configmap": ("ConfigMap",),
    "endpoints": ("Endpoints",),
    "configmapsleases": ("ConfigMap", "Lease"),
    "endpointsleases": ("Endpoints", "Lease"),
}
COORDINATED = "coordinated"  # the Lease again, where the control plane names the leader
LOCKS = (*OBJECTS, COORDINATED)
NOON = 1_795_262_400_000_000  # 2026-11-21T12:00:00Z
SECOND = 1_000_000


class Entry(NamedTuple):
    """A record, in client-go's words; times are seconds after NOON, None: none."""

    holder: str = ""
    duration: int = 15
    acquired: float | None = 0
    renewed: float | None = 0
    transitions: int = 0

    @property
    def whole(self) -> Entry:
        """The same in whole seconds."""
        acquired, renewed = (after if after is None else after // 1 for after in (self.acquired, self.renewed))
        return self._replace(acquired=acquired, renewed=renewed)

    @property
    def record(self) -> Record:
        """The same in kleader's words."""
        return Record(self.holder, self.duration, _instant(self.acquired), _instant(self.renewed), self.transitions)


def _instant(after: float | None) -> int | None:
    return None if after is None else NOON + round(after * SECOND)


def micro_time(after: float | None) -> str | None:
    """metav1.MicroTime."""
    microseconds = _instant(after)
    if microseconds is None:
        return None
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(microseconds // SECOND)) + f".{microseconds % SECOND:06d}Z"


def second_time(after: float | None) -> str | None:
    """metav1.Time."""
    text = micro_time(after)
    return text and f"{text[:19]}Z"


def spec(entry: Entry) -> Object:
    """As client-go's LeaseLock has it."""
    return {
        "holderIdentity": entry.holder,
        "leaseDurationSeconds": entry.duration,
        "acquireTime": micro_time(entry.acquired),
        "renewTime": micro_time(entry.renewed),
        "leaseTransitions": entry.transitions,
    }


def annotation(entry: Entry) -> str:
    """As client-go v0.23 marshals a LeaderElectionRecord."""
    record = {
        "holderIdentity": entry.holder,
        "leaseDurationSeconds": entry.duration,
        "acquireTime": second_time(entry.acquired),
        "renewTime": second_time(entry.renewed),
        "leaderTransitions": entry.transitions,
    }
    return json.dumps(record, separators=(",", ":"))


def entry_of(thing: Object) -> Entry | None:
    """The record in an object; None: there is none."""
    if thing["kind"] == "Lease":
        found = thing.get("spec")
        transitions = "leaseTransitions"
    else:
        text = thing["metadata"].get("annotations", {}).get(LEADER)
        found = text and json.loads(text)
        transitions = "leaderTransitions"
    if not found:
        return None
    times = (_after(found.get("acquireTime")), _after(found.get("renewTime")))
    return Entry(found["holderIdentity"], found["leaseDurationSeconds"], *times, found[transitions])


def _after(text: str | None) -> float | None:
    if text is None:
        return None
    seconds = calendar.timegm(time.strptime(text[:19], "%Y-%m-%dT%H:%M:%S")) - NOON // SECOND
    return seconds + float(f"0{text[19:-1]}")


class Place:
    """Where a lock of this kind and name is kept."""

    def __init__(self, plane: Plane, namespace: str, lock: str, name: str = "x") -> None:
        self.plane, self.namespace, self.lock, self.name = plane, namespace, lock, name
        self.coordinated = lock == COORDINATED
        self.kinds = OBJECTS["lease" if self.coordinated else lock]
        self.paths = [path(VERSIONS[kind], kind, namespace, name) for kind in self.kinds]

    def named(self, name: str) -> Place:
        return Place(self.plane, self.namespace, self.lock, name)

    def user(self) -> str:
        """A user with exactly the rules that a candidate needs; where users cannot be made, the given one."""
        if not isinstance(self.plane, ControlPlane):
            return self.plane.new_user()
        user = self.plane.new_bare_user()
        self.plane.grant(user, self.namespace, role_rules((*self.needed(), *registration_permissions(self.name))))
        return user

    def needed(self) -> tuple[Permission, ...]:
        """What the lock needs, for any candidate."""
        return (
            lock_permissions("lease", self.name, candidate="")
            if self.coordinated
            else lock_permissions(self.lock, self.name)
        )

    @property
    def options(self) -> list[str]:
        """Those of `run` that say which lock."""
        kind = ["lease", "--coordinated", "--binary-version=1.36.0"] if self.coordinated else [self.lock]
        return ["--lock", *kind, f"--name={self.name}"]

    def kubeconfig(self, *, server: str | None = None) -> Path:
        """Of such a user."""
        return self.plane.kubeconfig(self.user(), self.namespace, server=server)

    # --- the objects
    def plant(self, entry: Entry | None = None, incarnation: str = "", **more: Any) -> list[Object]:  # noqa: ANN401
        """Create the objects, with the record in each; `more` are further fields of all of them."""
        return [self.plant_one(kind, entry, incarnation, **more) for kind in self.kinds]

    def plant_one(self, kind: str, entry: Entry | None = None, incarnation: str = "", **more: Any) -> Object:  # noqa: ANN401
        """Create one of them."""
        return self.plane.api.create(self.body(kind, entry, incarnation, **more))

    def body(self, kind: str, entry: Entry | None, incarnation: str = "", **more: Any) -> Object:  # noqa: ANN401
        """One of the objects, as JSON."""
        annotations = {INCARNATION: incarnation} if incarnation else {}
        thing: Object = {"apiVersion": VERSIONS[kind], "kind": kind, **more}
        if entry and kind == "Lease":
            thing["spec"] = spec(entry)
        elif entry:
            annotations[LEADER] = annotation(entry)
        metadata = {"name": self.name, "namespace": self.namespace, **more.get("metadata", {})}
        metadata["annotations"] = {**metadata.get("annotations", {}), **annotations}
        return {**thing, "metadata": metadata}

    def objects(self) -> list[Object]:
        return [self.plane.api.get(each) for each in self.paths]

    def missing(self) -> bool:
        """Whether there is none of them."""
        return not any(map(self.plane.api.find, self.paths))

    def versions(self) -> list[str]:
        return [thing["metadata"]["resourceVersion"] for thing in self.objects()]

    def entry(self) -> Entry | None:
        """The record, which is the same in all of them but for fractions of seconds; as the last of them has it."""
        entries = [entry_of(thing) for thing in self.objects()]
        assert len({each and each.whole for each in entries}) == 1, entries
        return entries[-1]

    def label(self, **labels: str | None) -> None:
        """Set somebody's labels on each object."""
        for each in self.paths:
            self.plane.api.merge(each, {"metadata": {"labels": labels}})

    def write(self, entry: Entry, incarnation: str | None = None) -> None:
        """Write the record into each object that is there, whatever it shows."""
        for kind, each in zip(self.kinds, self.paths, strict=True):
            annotations: dict[str, str | None] = {INCARNATION: incarnation}
            if kind == "Lease":
                self.plane.api.merge(each, {"metadata": {"annotations": annotations}, "spec": spec(entry)})
            else:
                annotations[LEADER] = annotation(entry)
                self.plane.api.merge(each, {"metadata": {"annotations": annotations}})

    def delete(self) -> None:
        for each in self.paths:
            self.plane.api.delete(each)


class Client(LoopThread):
    """kleader's locks, called one by one from a test."""

    async def open(self) -> None:
        self._apis: list[ApiClient] = []

    async def shut(self) -> None:
        for api in self._apis:
            api.close()

    def api(self, plane: Plane, namespace: str, user: str, server: str | None = None) -> ApiClient:
        """A client of `plane`, or to `server`, as `user`."""
        config = plane.kubeconfig(user, namespace, server=server)

        async def make() -> ApiClient:
            self._apis.append(ApiClient(Credentials({"kubeconfig": str(config)}, reader_of(config))))
            return self._apis[-1]

        return self.run(make())

    def lock(
        self,
        place: Place,
        *,
        server: str | None = None,
        labels: Mapping[str, str] | None = None,
        force: bool = False,
        user: str | None = None,
        lease_duration: int = 15,
    ) -> Handle:
        """The lock at `place`, called as `user`, or as one who may do exactly what it needs."""
        api = self.api(place.plane, place.namespace, user or place.user(), server)
        warnings: list[str] = []

        async def make() -> Lock:
            return factory.make_lock(
                "lease" if place.coordinated else place.lock,
                base.Place(api, place.namespace, place.name, labels or {}, warnings.append, force),
                lease_duration,
                candidate=cast("LeaseCandidate", Unregistered()) if place.coordinated else None,
            )

        return Handle(self, self.run(make()), warnings)


class Unregistered:
    """A candidate of coordinated election whom the control plane does not know, and so leaves the Lease alone."""

    identity = "me"

    def register(self) -> None: ...

    async def ensure_registered(self, timeout: float) -> None: ...

    def keep_registered(self) -> None: ...

    def schedule_renewals(self, seconds: float) -> None: ...

    async def unregister(self, timeout: float) -> None: ...


def refused(call: Callable[..., object], *arguments: object) -> Failure:
    with pytest.raises(LockError) as error:
        call(*arguments)
    return error.value.failure


def first(do: Callable[[], object]) -> Action:
    """Before a request goes on."""
    return faults.call(lambda _: do())


def reader_of(config: Path) -> Callable[[str], list[str]]:
    """The command that reads a kubeconfig. One that names a CA file and a token is read here, which is quicker."""
    given = json.loads(config.read_text())
    cluster, user = given["clusters"][0]["cluster"], given["users"][0]["user"]
    if not ("certificate-authority" in cluster and "token" in user):
        return lambda options: [*launch.interpreter(), "kubeconfig", options, *filter(None, sys.path)]
    access = {
        "server": cluster["server"],
        "ca": Path(cluster["certificate-authority"]).read_text(),
        "authorization": f"Bearer {user['token']}",
        "server_name": cluster.get("tls-server-name", ""),
        "context": given["current-context"],
    }
    return lambda _: ["printf", "%s", json.dumps(access)]


class Handle:
    """One lock."""

    def __init__(self, client: Client, lock: Lock, warnings: list[str]) -> None:
        self._client, self.lock, self.warnings = client, lock, warnings

    def get(self, timeout: float = 10) -> Observed:
        return self._client.run(self.lock.get(timeout))

    def write(self, base: Observed | None, record: Record, incarnation: str = "term", timeout: float = 10) -> Observed:
        return self._client.run(self.lock.write(base, record, incarnation, timeout))

    def watch(self, after: Observed | None) -> Watch:
        return Watch(self._client, self.lock.watch(after, 10))


class Watch:
    """A watch under way."""

    def __init__(self, client: Client, states: AsyncGenerator[Observed | None, None]) -> None:
        self._client, self._states = client, states

    def next(self) -> Observed | None:
        """The next state; WatchError where the watch ends instead."""

        async def step() -> Observed | None:
            return await asyncio.wait_for(anext(self._states), 25)

        return self._client.run(step())

    def close(self) -> None:
        self._client.run(self._states.aclose())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
