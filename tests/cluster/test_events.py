"""Events on the lock's objects: as client-go writes them, and never at the cost of anything else."""

from __future__ import annotations

import asyncio
import gc
import signal
import uuid
from typing import TYPE_CHECKING, Any, cast

import pytest

from kleader.elector import best_effort
from kleader.elector import k8s_events as module
from kleader.elector.k8s_events import BECAME, STOPPED, EventRecorder
from tests.cluster.fleet import instant
from tests.support import faults
from tests.support.api import path
from tests.support.api_client import credentials
from tests.support.heard import Heard
from tests.support.httpproxy import HttpProxy
from tests.support.port import LOOPBACK
from tests.support.processes import wait_until
from tests.support.proxy import Proxy

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from pathlib import Path

    from tests.conftest import Trials
    from tests.support.api import Object
    from tests.support.clientgo import Lock
    from tests.support.controlplane import ControlPlane
    from tests.support.httpproxy import Action
    from tests.support.plane import Plane
    from tests.support.processes import Processes

OBJECTS: dict[Lock, tuple[str, str]] = {
    "leases": ("coordination.k8s.io/v1", "Lease"),
    "configmaps": ("v1", "ConfigMap"),
    "endpoints": ("v1", "Endpoints"),
}


def tell(
    config: Path, log: Heard, act: Callable[[EventRecorder], Coroutine[None, None, None]], name: str = "x"
) -> None:
    """Let `act` use a recorder for the identity `a`."""

    async def work() -> None:
        found = credentials(config)
        await found.refresh()
        await act(EventRecorder(found, log, "a", name, cast("Any", None)))
        for _ in range(10):  # turns of the loop, in which TLS lets go of its sockets
            await asyncio.sleep(0)

    asyncio.run(work())


def reference(namespace: str, name: str = "x") -> dict[str, str]:
    found = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "namespace": namespace, "name": name}
    return {**found, "uid": "1c0e6e6e-0000-4000-8000-000000000000", "resourceVersion": "7"}


def events(plane: Plane, namespace: str) -> list[Object]:
    return plane.api.list(path("v1", "Event", namespace))


@pytest.mark.parametrize("lock", OBJECTS)
def test_an_event_equals_that_of_client_go(
    plane: Plane, namespace: str, processes: Processes, clientgo: Callable[..., list[str]], lock: Lock
) -> None:
    """But for names, times and versions; v0.23, of the old locks, does not repeat the component."""
    argv = clientgo(plane.kubeconfig(namespace=namespace), namespace, "x", "a", ["sleep", "600"], lock=lock)
    rival = processes.start(argv)
    wait_until(lambda: events(plane, namespace), "the rival's Event")
    rival.signal(signal.SIGTERM)
    rival.wait()
    (theirs,) = [each for each in events(plane, namespace) if each["message"] == f"a {BECAME}"]
    version, kind = OBJECTS[lock]
    metadata = plane.api.get(path(version, kind, namespace, "x"))["metadata"]
    about = {"apiVersion": version, "kind": kind, "namespace": namespace, "name": "x", "uid": metadata["uid"]}

    async def act(recorder: EventRecorder) -> None:
        await recorder.record({**about, "resourceVersion": metadata["resourceVersion"]}, BECAME)

    tell(plane.kubeconfig(plane.new_user(), namespace), Heard(), act)
    known = theirs["metadata"]["name"]
    (ours,) = [
        each
        for each in events(plane, namespace)
        if each["message"] == f"a {BECAME}" and each["metadata"]["name"] != known
    ]
    if lock != "leases":
        theirs |= {"reportingComponent": "x"}
    assert metadata["uid"] == theirs["involvedObject"]["uid"]
    assert ours["involvedObject"].pop("resourceVersion") == metadata["resourceVersion"]
    assert theirs["involvedObject"].pop("resourceVersion")
    for each in (ours, theirs):
        meta = each["metadata"]
        nanoseconds = int(meta.pop("name").removeprefix("x."), 16)
        assert each.pop("firstTimestamp") == each.pop("lastTimestamp")
        assert abs(nanoseconds / 1e9 - instant(meta.pop("creationTimestamp"))) < 60
        for varying in ("uid", "resourceVersion", "managedFields"):
            del meta[varying]
    assert ours == theirs


def test_event_task_completes_without_a_reference_to_it(plane: Plane, namespace: str) -> None:
    async def act(recorder: EventRecorder) -> None:
        recorder.record(reference(namespace), BECAME)
        recorder.record(reference(namespace), STOPPED)
        gc.collect()
        await recorder.end(30, unhealthy=False)

    log = Heard()
    tell(plane.kubeconfig(plane.new_user(), namespace), log, act)
    assert sorted(each["message"] for each in events(plane, namespace)) == [f"a {BECAME}", f"a {STOPPED}"]
    assert not log.lines


def test_a_name_too_long_for_an_events_suffix_is_replaced(plane: Plane, namespace: str) -> None:
    """As in client-go, although an API server takes longer ones."""
    name = "x" * 250

    async def act(recorder: EventRecorder) -> None:
        await recorder.record(reference(namespace, name), BECAME)

    tell(plane.kubeconfig(plane.new_user(), namespace), Heard(), act, name)
    (written,) = events(plane, namespace)
    assert written["involvedObject"]["name"] == name
    assert str(uuid.UUID(written["metadata"]["name"])) == written["metadata"]["name"]


def test_without_event_permission_one_warning_has_a_remedy(own_plane: ControlPlane, namespace: str) -> None:
    user = own_plane.new_bare_user()

    async def act(recorder: EventRecorder) -> None:
        for _ in range(3):
            await recorder.record(reference(namespace), BECAME)

    log = Heard()
    tell(own_plane.kubeconfig(user, namespace), log, act)
    (warning,) = log.of("WARNING")
    assert warning.startswith("grant create on events, so that Events tell which candidate leads: ")
    assert f'User "{user}" cannot create resource "events"' in warning
    assert len(log.of("DEBUG")) == 2
    assert len(log.lines) == 3


FAULTS: dict[str, Callable[[], Action]] = {
    "answered 401": lambda: faults.answer(401, {"kind": "Status", "message": "Unauthorized"}),
    "answered 404": lambda: faults.answer(404, {"kind": "Status", "details": {"name": "x", "kind": "namespaces"}}),
    "answered 429": lambda: faults.answer(429, b"", {"Retry-After": "30"}),
    "answered 500": lambda: faults.answer(500),
    "cut off": lambda: faults.raw(b""),
    "garbage": lambda: faults.raw(b"\xff\r\n\r\n"),
    "no object": lambda: faults.answer(200, b"[]"),
}


def test_failed_event_is_one_debug_line(own_plane: ControlPlane, namespace: str, trials: Trials) -> None:
    """The credentials are not read again for it, for which other requests would have to wait."""
    log = Heard()
    with HttpProxy(own_plane) as proxy:
        for fault in FAULTS.values():
            proxy.on(fault())

        async def act(recorder: EventRecorder) -> None:
            for number in range(len(FAULTS)):
                await recorder.record(reference(namespace), BECAME)
                assert len(log.lines) == number + 1
                assert not recorder._call._credentials._invalid
            await recorder.record(reference(namespace), BECAME)

        tell(own_plane.kubeconfig(own_plane.new_user(), namespace, server=proxy.url), log, act)
        assert len(proxy.requests) == len(FAULTS) + 1
    assert len(log.of("DEBUG")) == len(log.lines) == len(FAULTS)
    assert len(events(own_plane, namespace)) == 1
    trials.count(len(FAULTS), "Events that failed")


def test_event_without_a_response_is_bounded_and_does_not_delay_the_end(
    own_plane: ControlPlane, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = Heard()

    monkeypatch.setattr(module, "_HANDOVER_SECONDS", 0)

    async def act(recorder: EventRecorder) -> None:
        hanging = recorder.record(reference(namespace), BECAME)
        await asyncio.wait_for(recorder.end(0.01, unhealthy=False), 30)
        assert not hanging.done()
        monkeypatch.setattr(best_effort, "TIMEOUT", 0.1)
        await asyncio.wait_for(recorder.record(reference(namespace), STOPPED), 30)
        assert log.of("DEBUG")[0].endswith(f"did not answer within 100ms: {mend}")
        await asyncio.wait_for(hanging, 30)
        assert log.of("DEBUG")[1].endswith(f"did not answer within 5s: {mend}")

    with Proxy(LOOPBACK, own_plane.port) as proxy:
        proxy.switch("silent")
        config = own_plane.kubeconfig(own_plane.new_user(), namespace, server=proxy.url)
        mend = f"check the network to it, and the address in the kubeconfig {config} (context plane)"
        tell(config, log, act)
    assert len(log.lines) == 2
