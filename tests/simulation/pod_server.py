"""A model of ConfigMaps and Pods at the API server, of the network between, and of the sockets of a Pod."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar, cast

from kleader.election.events import Kind
from kleader.kube.errors import LockError, WatchError
from tests.simulation.pair import resolve

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable

    from tests.simulation.pods import InPod

T = TypeVar("T")
Object = dict[str, Any]
REFUSALS = {"500": Kind.UNREACHABLE, "429": Kind.THROTTLED, "403": Kind.DENIED}
REQUEST_FAULTS = (*REFUSALS, "lost", "late", "slow", "slow", "answer lost", "sent twice", "error after")


@dataclass
class Store:
    """What etcd has, and had: each change with its revision; None: deleted. None of it is changed once it is here."""

    revision: int = 100
    objects: dict[tuple[str, str], Object] = field(default_factory=dict)
    history: list[tuple[int, tuple[str, str], Object | None]] = field(default_factory=list)
    listeners: list[Callable[[tuple[str, str], Object | None], None]] = field(default_factory=list)

    def put(self, key: tuple[str, str], thing: Object) -> Object:
        """Create, or replace."""
        self.revision += 1
        old = self.objects.get(key)
        metadata = thing["metadata"] | {"name": key[1], "resourceVersion": str(self.revision)}
        metadata["uid"] = old["metadata"]["uid"] if old else f"uid-{self.revision}"
        self.objects[key] = new = {**thing, "metadata": metadata}
        self._tell(key, new)
        return new

    def delete(self, key: tuple[str, str]) -> None:
        """Nothing where there is none."""
        if self.objects.pop(key, None):
            self.revision += 1
            self._tell(key, None)

    def answer(self, method: str, key: tuple[str, str], body: Object | None) -> Object:
        """What the API server makes of a request; LockError."""
        old = self.objects.get(key)
        if method == "POST":
            if old:
                raise LockError(Kind.CONFLICT, "already exists")
            return self.put(key, body or {})
        if old is None:
            raise LockError(Kind.MISSING, "not found")
        wanted = (body or {}).get("preconditions", {}) if method == "DELETE" else (body or {}).get("metadata", {})
        for name in ("uid", "resourceVersion"):
            if body and wanted.get(name, old["metadata"][name]) != old["metadata"][name]:
                raise LockError(Kind.CONFLICT, "has been modified")
        if method == "PUT":
            return self.put(key, body or {})
        if method == "DELETE":
            self.delete(key)
            return {"kind": "Status"}
        return old

    def _tell(self, key: tuple[str, str], thing: Object | None) -> None:
        self.history.append((self.revision, key, thing))
        for listener in list(self.listeners):
            listener(key, thing)


class Wire:
    """The network of one process to the API server, as kleader.kube.client.Api has it."""

    def __init__(self, pod: InPod) -> None:
        self._pod, self._life = pod, pod.life
        self._store = pod.pods.store

    async def call(self, method: str, target: str, body: Object | None, timeout: float) -> Object:
        """One request, sent when the process runs."""
        host = self._pod
        running: asyncio.Future[None] = host.loop.create_future()
        self._deliver(resolve, running, None)
        await running
        if method != "GET":
            host.may_fail()
        if timeout <= 0:
            raise LockError(Kind.UNREACHABLE, "no time was left")
        answered: asyncio.Future[Object | LockError] = host.loop.create_future()
        host.asked.append(host.world.now)
        key = _key(target, body if method == "POST" else None)
        fate = host.fortune.choice(REQUEST_FAULTS) if host.fortune.random() < host.fault else ""
        up, down = (host.rng.uniform(0, host.network.latency) for _ in range(2))
        up = host.rng.uniform(0, 20) if fate == "late" else up
        if method == "POST":
            host.pods.created_by = max(host.pods.created_by, host.world.now + up)
        down = host.rng.uniform(0, timeout) if fate == "slow" else down
        host.world.log(host.name, method, key, fate)
        if not host.network.cut:
            host.world.after(up, partial(self._serve, method, key, body, fate, down, answered))
        timed_out = LockError(Kind.UNREACHABLE, "timeout")
        host.after(timeout, partial(self._deliver, resolve, answered, timed_out))
        answer = await answered
        if isinstance(answer, LockError):
            raise answer
        return answer

    def _serve(  # noqa: PLR0917 - by partial
        self,
        method: str,
        key: tuple[str, str],
        body: Object | None,
        fate: str,
        down: float,
        answered: asyncio.Future[Object | LockError],
    ) -> None:
        host, answer = self._pod, cast("Object | LockError", None)
        if fate == "lost" or host.world.server.down:
            return
        if fate in REFUSALS:
            answer = LockError(REFUSALS[fate], fate, host.rng.uniform(0, 30))
        else:
            for _ in range(2 if fate == "sent twice" else 1):
                try:
                    answer = _over_the_wire(self._store.answer(method, key, _over_the_wire(body)))
                except LockError as error:
                    answer = error
            host.world.log(host.name, method, key, "->", answer)
        if fate == "error after":
            answer = LockError(Kind.UNREACHABLE, "500")
        if fate != "answer lost":
            host.world.after(down, partial(self._deliver, resolve, answered, answer))

    async def watch_object(
        self, collection: str, name: str, version: str, _timeout: float
    ) -> AsyncGenerator[Object | None, None]:
        """Each change after the version that is asked for."""
        key = (collection.rpartition("/")[2], name)
        if self._pod.network.watch_denied:
            raise WatchError("denied", denied=True)
        listener = Listener(self._pod, key, self._deliver)
        self._store.listeners.append(listener)
        try:
            listener.catch_up(self._store, version)
            while not isinstance(event := await listener.told.get(), WatchError):
                yield event
            raise event
        finally:
            self._store.listeners.remove(listener)

    def unreadable(self, what: str) -> LockError:
        """Never the case here."""
        raise AssertionError(what)

    def _deliver(self, what: Callable[..., object], *args: object) -> None:
        if self._pod.life == self._life:
            self._pod.deliver(partial(what, *args))


class Listener:
    """A watch of one object: in order, late, and deaf from some event on until somebody notices."""

    def __init__(self, host: InPod, key: tuple[str, str], deliver: Callable[..., None]) -> None:
        self.told: asyncio.Queue[Object | WatchError | None] = asyncio.Queue()
        self._host, self._key, self._deliver = host, key, deliver
        self._latest, self._deaf = 0.0, False

    def catch_up(self, store: Store, version: str) -> None:
        """What was before it began; without a version the object as it is."""
        if not version and self._key in store.objects:
            self(self._key, store.objects[self._key])
        for revision, which, thing in list(store.history) if version else ():
            if revision > int(version):
                self(which, thing)

    def __call__(self, which: tuple[str, str], thing: Object | None) -> None:
        """A change."""
        host = self._host
        if which != self._key or self._deaf:
            return
        if host.network.cut or host.fortune.random() < host.watch_fault:
            self._deaf = True
            pause = host.rng.choice((0.0, host.rng.uniform(0, 60)))
            host.world.after(pause, partial(self._say, WatchError("reset")))
        else:
            self._say(_over_the_wire(thing))

    def _say(self, what: Object | WatchError | None) -> None:
        host = self._host
        self._latest = max(self._latest, host.world.now + host.rng.uniform(0, host.network.latency))
        host.world.at(self._latest, partial(self._deliver, self.told.put_nowait, what))


class Socket:
    """One socket of one kleader, in a world where a Pod is a network namespace."""

    def __init__(self, taken: dict[bytes, Socket]) -> None:
        self._taken, self._name = taken, b""

    def bind(self, name: bytes) -> None:
        """As the kernel does for an abstract address."""
        if self._name or name in self._taken:
            raise OSError
        self._name = name
        self._taken[name] = self

    def getsockname(self) -> bytes:
        """b"" while it has none."""
        return self._name

    def close(self) -> None:
        """The last process that had it is gone."""
        self._taken.pop(self._name, None)


def _key(target: str, body: Object | None) -> tuple[str, str]:
    parts = target.split("/")
    return (parts[-1], body["metadata"]["name"]) if body else (parts[-2], parts[-1])


def _over_the_wire(thing: T) -> T:
    """A copy of one's own."""
    return cast("T", json.loads(json.dumps(thing)))
