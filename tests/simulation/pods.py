"""leader-for-life: the real lock over a model of ConfigMaps and Pods; faults and deaths fall between its requests."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from math import inf
from typing import TYPE_CHECKING, Any, cast

from kleader.election import events as e
from kleader.election.state import Phase
from kleader.locks.base import Place
from kleader.locks.leader_for_life import LeaderForLifeLock, PodContext
from kleader.locks.lock_annotations import annotation
from tests.simulation.faults import (
    Fault,
    kill_elector,
    outage,
    partition,
    planned_stop,
    stop_elector,
    wall_clock_set,
)
from tests.simulation.machine import Machine
from tests.simulation.pair import Pair
from tests.simulation.pod_server import Object, Socket, Store, Wire
from tests.simulation.schedule import Schedule

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Sequence

    from kleader.election.state import State
    from kleader.kube.client import ApiClient
    from kleader.locks.base import LockProperties
    from tests.simulation.host import Host
    from tests.simulation.world import World

LOCK = ("configmaps", "x")


class Asker(Pair):
    """The lock of one elector in a Pod."""

    def __init__(self, machine: InPod, *, state: State) -> None:
        self._machine, self._life = machine, machine.life
        leading = state.t0 == inf
        home = PodContext(
            *(machine.pod, machine.known_uid, cast("socket.socket", machine.socket)),
            has_earlier_processes=lambda _spared, _doomed: False,
            incarnation=state.incarnation,
            leading=leading,
            resume_state=machine.memory,
            save=machine.remember,
        )
        wire, warn = cast("ApiClient", Wire(machine)), partial(machine.world.log, machine.name)
        self._lock = LeaderForLifeLock(Place(wire, "ns", "x", warn=warn), home)  # type: ignore[assignment]
        self._requesting = self._watching = None


class InPod(Machine):
    """A kleader in the Pod ``pod``. Its object is there as long as a process of it is, and often longer.

    A look at its lock takes two requests.
    """

    fates = lapses = trips = ()  # it has its own

    def __init__(self, world: World, name: str, me: Any, pod: str) -> None:  # noqa: ANN401
        super().__init__(world, name, me, (cast("Any", _Kept()),) * 2)
        self.me = replace(self.me, is_multilock=False)
        self.pod = pod
        self.socket: Socket | None = None
        self.known_uid = ""
        self.ending = False  # its Pod is to go
        self.fault, self.watch_fault = 0.0, 0.0  # probabilities, for each request and event
        self.releases = self.fortune.random() < 0.5
        self.led = 0  # the last term that had a command

    @property
    def pods(self) -> Pods:
        """The world, by its kind."""
        return cast("Pods", self.world)

    def start(self) -> None:
        """In its Pod, if there is one; in a new one otherwise."""
        if self.up or self.ending:
            return
        if self.pods.orphaned:
            self.world.after(1, self.start)  # who never saw who had it would create it: not promised
            return
        found = self.pods.store.objects.get(("pods", self.pod)) or self.pods.new_pod(self.pod)
        self.known_uid = found["metadata"]["uid"] if self.rng.random() < 0.5 else ""
        self.socket = Socket(self.pods.sockets)
        super().start()

    def _elect(self, state: State) -> None:
        self.life += 1
        self.paused, self.missed, self.state = False, [], state
        self.pair = Asker(self, state=state)
        self.world.log(self.name, "starts an elector", state.phase.value, state.incarnation)
        self.tell(e.TimerFired())

    def tell(self, event: e.Event) -> None:
        """One that does not release leaves the lock to its Pod."""
        if isinstance(event, e.AllProcessesExited):
            event = event._replace(release=event.release and self.releases)
        super().tell(event)

    def _succeed(self, life: int) -> None:
        self.renew_term |= self.led == self.terms and not self.supervisor.command  # what is dead does not lead again
        super()._succeed(life)

    def started(self, token: str = "") -> None:
        """Its command."""
        self.led = self.terms
        super().started(token)

    def remember(self, what: str) -> None:
        """For the next elector of this supervisor."""
        self.memory = what

    def may_fail(self) -> None:
        """Now and then something happens just before a write."""
        if self.fortune.random() < self.fault / 4:
            self.fortune.choice((self.crash, self.crash_elector, partial(self.pause, self.fortune.uniform(0, 20))))()

    def repair(self) -> None:
        """Nothing hinders it any more."""
        self.fault = self.watch_fault = 0.0
        super().repair()

    def over(self) -> None:
        """None of its processes is left; the kernel closes their socket."""
        super().over()
        if self.socket:
            self.socket.close()
            self.socket = None


class _Kept:
    """Stands for the lock where the model of the other locks asks for one."""

    name = "x"
    stored = None
    robbed_at = -inf

    @property
    def properties(self) -> LockProperties:
        return LeaderForLifeLock.properties


class Pods(Schedule):
    """Kleaders in Pods, sometimes two in one."""

    machine = InPod
    gappy = False
    spare = 4  # twice: a takeover that comes late takes seven
    patience = 60.0  # until what was evicted, or disowned by hand, has been cleared away

    def __init__(self, seed: int) -> None:
        self.store = Store()
        self.created_by = 0.0  # when the last creation on its way arrives
        self.sockets: dict[bytes, Socket] = {}
        super().__init__(seed, "lease")

    @property
    def possible(self) -> Sequence[Callable[[Schedule, Fault], None]]:
        """What may befall a Pod."""
        return FAULTS

    @property
    def orphaned(self) -> bool:
        """Whether the lock was deleted by hand while the command of who had it runs."""
        return self.running is not None and LOCK not in self.store.objects

    @property
    def term(self) -> object:
        """Whose the lock is, by its incarnation."""
        found = self.store.objects.get(LOCK)
        return annotation(found) if found else None

    @property
    def taking(self) -> bool:
        """Whether a creation is on its way, or somebody is about to lead and would notice a deletion a moment later."""
        states = [host.state for host in self.hosts if isinstance(host, InPod) and host.state]
        return self.now <= self.created_by or any(
            isinstance(state.pending, e.Write)
            or (isinstance(state.pending, e.Get) and state.phase is Phase.FOLLOWING and state.incarnation == self.term)
            for state in states
        )

    def join(self, kind: str, name: str, identity: str) -> Host:  # noqa: ARG002
        """One more candidate."""
        me = self.candidate(identity)
        host = InPod(self, name, me, "a" if identity == "twin" else name)
        host.network = self._network()
        host.fault = self.rng.choice((0.0, 0.05, 0.3))
        host.watch_fault = self.rng.choice((0.0, host.fault))
        self.hosts.append(host)
        return host

    def new_pod(self, name: str) -> Object:
        """One of this name."""
        status = {"phase": "Running", "containerStatuses": [{"name": "c", "state": {"running": {}}}]}
        spec = {"containers": [{"name": "c"}]}
        return self.store.put(("pods", name), {"kind": "Pod", "metadata": {}, "spec": spec, "status": status})

    def collect(self) -> None:
        """The garbage collector: what is owned goes after its owners."""
        found = self.store.objects.get(LOCK)
        if found:
            owners = found["metadata"].get("ownerReferences") or ()
            alive = {each["metadata"]["uid"] for key, each in self.store.objects.items() if key[0] == "pods"}
            if owners and not any(owner["uid"] in alive for owner in owners):
                self.store.delete(LOCK)

    def of(self, pod: str) -> list[InPod]:
        """Who lives in it."""
        return [host for host in self.hosts if isinstance(host, InPod) and host.pod == pod]


# --- what may befall a Pod


def _of(world: Schedule, host: Host) -> tuple[Pods, InPod]:
    return cast("Pods", world), cast("InPod", host)


def container_ends(_: Schedule, fault: Fault) -> None:
    """All of one kleader; it is started anew in the same Pod."""
    fault.host.crash()


def pod_goes(world: Schedule, fault: Fault) -> None:
    """Its processes end, then its object goes; another of its name comes. The garbage collector takes its time."""
    pods, one = _of(world, fault.host)
    together = pods.of(one.pod)
    if any(each.ending for each in together):
        return
    for each in together:
        each.ending = True
        each.crash()

    def gone() -> None:
        pods.store.delete(("pods", one.pod))
        pods.after(pods.rng.choice((0.01, 5, 30)) * pods.rng.random(), pods.collect)
        pods.after(pods.rng.uniform(0, 5), again)

    def again() -> None:
        for each in together:
            each.ending = False
            each.start()

    pods.after(pods.rng.uniform(0, 10), gone)


def eviction(world: Schedule, fault: Fault) -> None:
    """First it is said, then its processes end, then that is said. Another Pod takes its place."""
    pods, one = _of(world, fault.host)
    together, key = pods.of(one.pod), ("pods", one.pod)
    found = pods.store.objects.get(key)
    if any(each.ending for each in together) or not found:
        return
    for each in together:
        each.ending = True
    phase, reason = pods.rng.choice((("Failed", "Evicted"), ("Failed", "Terminated"), ("Succeeded", "")))

    def say(state: str) -> None:
        status: Object = {"phase": phase, "reason": reason}
        status["containerStatuses"] = [{"name": "c", "state": {state: {}}}]
        pods.store.put(key, {**pods.store.objects[key], "status": status})

    def end() -> None:
        for each in together:
            each.crash()
        pods.after(pods.rng.uniform(0, 5), partial(say, "terminated"))
        pods.after(pods.rng.uniform(5, 20), again)

    def again() -> None:
        pods.store.delete(key)
        pods.collect()
        for each in together:
            each.ending = False
            each.start()

    say("running")
    pods.after(pods.rng.uniform(0, 5), end)


def failed(world: Schedule, fault: Fault) -> None:
    """The control plane has lost its node, and fails it: it lives, whatever its containers' last statuses were."""
    pods, one = _of(world, fault.host)
    key = ("pods", one.pod)
    found = pods.store.objects.get(key)
    if not found or one.ending:
        return
    status = {**found["status"], "phase": "Failed", "reason": "NodeLost"}
    if pods.rng.random() < 1 / 2:  # they had ended for a moment, and were started anew since
        status["containerStatuses"] = [{"name": "c", "state": {"terminated": {"exitCode": 1}}}]
        status["conditions"] = [{"type": "DisruptionTarget", "status": "True", "reason": "DeletionByPodGC"}]
    pods.store.put(key, {**found, "status": status})


def label(world: Schedule, fault: Fault) -> None:
    pods = cast("Pods", world)
    key = pods.rng.choice([*pods.store.objects] or [LOCK])
    if found := pods.store.objects.get(key):
        labels = {"l": str(pods.store.revision)}
        pods.store.put(key, {**found, "metadata": {**found["metadata"], "labels": labels}})


def delete(world: Schedule, fault: Fault) -> None:
    """By hand. Promised among those that have seen who took it; nobody else looks before that one has noticed.

    Nor of one that is about to lead, and would notice a moment later; nor while a creation is on its way.
    """
    pods = cast("Pods", world)
    if not pods.running or pods.taking:
        return
    found = pods.store.objects.get(LOCK)
    owners = {owner["uid"] for owner in found["metadata"].get("ownerReferences") or ()} if found else set()
    for host in pods.hosts:
        one = cast("InPod", host)
        own = pods.store.objects.get(("pods", one.pod), {"metadata": {"uid": ""}})["metadata"]["uid"]
        last = one.state.observed if one.state else None  # the owner alone may be of an earlier term
        remembered = json.loads(one.memory)[1:] if one.memory and last and last.incarnation == pods.term else ()
        if one.up and not owners & {own, *remembered}:
            return
    pods.log("deleted")
    pods.store.delete(LOCK)


def disown(world: Schedule, fault: Fault) -> None:
    """By hand, and repaired by a deletion that no fresh process meets."""
    pods = cast("Pods", world)
    if found := pods.store.objects.get(LOCK):
        metadata = {**found["metadata"], "ownerReferences": []}
        uid = metadata["uid"]
        pods.store.put(LOCK, {**found, "metadata": metadata})

        def repair() -> None:
            now = pods.store.objects.get(LOCK)
            if now and now["metadata"]["uid"] == uid and not now["metadata"].get("ownerReferences"):
                if pods.running or pods.taking:
                    pods.after(5, repair)
                else:
                    pods.store.delete(LOCK)

        pods.after(pods.rng.uniform(0, 30), repair)


FAULTS: tuple[Callable[[Schedule, Fault], None], ...] = (
    *(kill_elector, stop_elector, container_ends, pod_goes, planned_stop) * 2,
    *(partition, outage, wall_clock_set, eviction, eviction, failed, label, label, delete, delete, delete, disown),
)
