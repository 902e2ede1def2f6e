"""Events of `kleader run`: for each kind of lock and each end of a term, without a delay to the election."""

from __future__ import annotations

import os
import re
import signal
import sys
from typing import TYPE_CHECKING

import pytest

from kleader.locks.rbac import event_permissions as needed_for_events
from kleader.locks.rbac import role_rules
from tests.cluster.contract import LOCKS, VERSIONS, Entry, Place
from tests.cluster.fleet import elector
from tests.support import faults
from tests.support.api import path
from tests.support.controlplane import ControlPlane
from tests.support.httpproxy import HttpProxy
from tests.support.processes import wait_until

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.support.api import Object
    from tests.support.plane import Plane
    from tests.support.processes import Process, Processes

BECAME, STOPPED = "a became leader", "a stopped leading"
QUICK = ["--retry-period=1s", "--renew-deadline=4s", "--lease-duration=6s", "--loss-grace=0s"]
PATIENT = ["--retry-period=1s", "--renew-deadline=20s", "--lease-duration=30s", "--loss-grace=0s"]
TERM = 128 + signal.SIGTERM


@pytest.fixture(params=LOCKS)
def lock(request: pytest.FixtureRequest) -> str:
    kind: str = request.param
    return kind


def run(
    processes: Processes,
    place: Place,
    user: str,
    *options: str,
    server: str | None = None,
    command: Sequence[str] = ("sleep", "600"),
) -> Process:
    config = place.plane.kubeconfig(user, place.namespace, server=server)
    argv = [sys.executable, "-m", "kleader", "run", *place.options, "--identity=a"]
    timings = QUICK if place.coordinated else PATIENT  # named anew over a leader, one waits out a lease duration
    return processes.start([*argv, *timings, f"--kubeconfig={config}", *options, "--", *command])


def permitted(place: Place) -> str:
    """A user who may do exactly what the lock and its Events need."""
    user = place.user()
    if isinstance(place.plane, ControlPlane):
        place.plane.grant(user, place.namespace, role_rules(needed_for_events()))
    return user


def events(place: Place) -> list[Object]:
    found = place.plane.api.list(path("v1", "Event", place.namespace))
    return [each for each in found if each["involvedObject"]["name"] == place.name]


def wait_for_event(place: Place, message: str, count: int = 1) -> None:
    """Return once there are so many Events with this message on each of the lock's objects."""
    number = count * len(place.kinds)
    wait_until(lambda: sum(each["message"] == message for each in events(place)) >= number, f"{number} of {message}")


def seize(place: Place) -> None:
    """Somebody frees the lock by force, under the leader's hands."""
    place.write(Entry("", 1, 0, 0, 3))


def test_each_object_of_a_lock_gets_events_when_leading_begins_and_ends(
    plane: Plane, namespace: str, lock: str, processes: Processes
) -> None:
    """Once a term; test_events.py has the rest of what client-go writes to the letter."""
    place = Place(plane, namespace, lock)
    process = run(processes, place, permitted(place), "--on-loss=wait")
    wait_for_event(place, BECAME)
    seize(place)
    wait_for_event(place, BECAME, 2)
    wait_for_event(place, STOPPED)
    process.signal(signal.SIGTERM)
    assert process.wait() == TERM
    usual = (
        "acquired the lock; processes of an earlier holder may still run",
        "killed the command with SIGKILL",
        "the API server warns: ",
    )
    warnings = process.logged(level="WARNING")
    assert [line for line in warnings if not any(each in line.message for each in usual)] == []
    metadata = {thing["kind"]: thing["metadata"] for thing in place.objects()}
    for kind in place.kinds:
        told = sorted(
            (each for each in events(place) if each["involvedObject"]["kind"] == kind),
            key=lambda each: int(each["metadata"]["name"].rpartition(".")[2], 16),
        )
        assert [each["message"] for each in told[:3]] == [BECAME, STOPPED, BECAME]
        assert [each["message"] for each in told[3:]] in ([], [STOPPED])  # the end does not wait for long
        for each in told:
            assert each["involvedObject"].pop("resourceVersion")
            assert each["involvedObject"] == {
                "apiVersion": VERSIONS[kind],
                "kind": kind,
                "namespace": namespace,
                "name": place.name,
                "uid": metadata[kind]["uid"],
            }
            assert (each["type"], each["reason"]) == ("Normal", "LeaderElection")
            assert each["source"] == {"component": place.name}
            assert each["count"] == 1


@pytest.mark.parametrize(
    ("options", "kept_as"),
    [(["--coordinated", "--binary-version=1.2.3"], "lease"), (["--lock=leader-for-life"], "configmap")],
    ids=["coordinated", "leader-for-life"],
)
def test_coordinated_and_leader_for_life_locks_have_events(
    plane: Plane, namespace: str, processes: Processes, options: list[str], kept_as: str
) -> None:
    """The control plane has named the leader; the object is its Pod's."""
    place = Place(plane, namespace, kept_as)
    plane.new_pod(namespace, "a")
    argv = [sys.executable, "-m", "kleader", "run", *options, "--name=x", "--identity=a", *QUICK]
    argv += [f"--kubeconfig={plane.kubeconfig(namespace=namespace)}", "--", "sleep", "600"]
    process = processes.start(argv, env={"POD_NAME": "a", "POD_NAMESPACE": namespace})
    wait_for_event(place, BECAME)
    uid = place.objects()[0]["metadata"]["uid"]
    process.signal(signal.SIGTERM)
    assert process.wait() == TERM
    assert {each["message"] for each in events(place)} <= {BECAME, STOPPED}
    assert {each["involvedObject"]["uid"] for each in events(place)} == {uid}


def test_the_end_waits_for_the_last_event(plane: Plane, namespace: str, processes: Processes) -> None:
    """Not for long: on a machine that is held up once it may be missed."""

    def told(number: int) -> bool:
        place = Place(plane, namespace, "lease", f"x{number}")
        assert run(processes, place, permitted(place), command=["true"]).wait() == 0
        return STOPPED in [each["message"] for each in events(place)]

    assert any(map(told, range(5)))


def test_a_replacement_elector_writes_only_the_event_of_the_end(
    plane: Plane, namespace: str, processes: Processes
) -> None:
    place = Place(plane, namespace, "lease")
    process = run(processes, place, permitted(place), "--on-loss=wait")
    wait_for_event(place, BECAME)
    os.kill(elector(process), signal.SIGKILL)
    process.wait_log("elector_replaced")
    before = place.versions()
    wait_until(lambda: place.versions() != before, "a renewal")
    seize(place)
    wait_for_event(place, BECAME, 2)
    wait_for_event(place, STOPPED)
    assert sorted(each["message"] for each in events(place)) == [BECAME, BECAME, STOPPED]


@pytest.mark.parametrize("lock", ["lease", "configmapsleases"])
def test_without_event_permission_one_warning_is_the_only_change(
    own_plane: ControlPlane, namespace: str, lock: str, processes: Processes
) -> None:
    said = {}
    for name, user_of in (("may", permitted), ("may-not", Place.user)):
        place = Place(own_plane, namespace, lock, name)
        user = user_of(place)
        process = run(processes, place, user, "--on-loss=wait")
        process.wait_log("command_started")
        if name == "may":
            wait_for_event(place, BECAME)
        else:
            process.wait_err("grant create on events")
        seize(place)
        process.wait_log("command_started", count=2)
        process.signal(signal.SIGTERM)
        assert process.wait() == TERM
        lines = [f"{line.level} {line.role} {line.message}" for line in process.logged()]
        said[name] = sorted(
            re.sub(r"(?<= after )\S+|[\d.hm]*\dm?s\b|\d+|(?<=lost the lock: ).*", "N", line) for line in lines
        )  # of two processes
        entry = place.entry()
        assert entry
        assert (entry.holder, entry.duration, entry.transitions) == ("", 1, 4)
    (warning,) = [line for line in said["may-not"] if "events" in line]
    assert warning.startswith("WARNING ")
    said["may-not"].remove(warning)
    assert said["may-not"] == said["may"]


@pytest.mark.parametrize("lock", ["lease", "configmapsleases"])
def test_hanging_events_delay_no_renewal_release_or_end(
    own_plane: ControlPlane, namespace: str, lock: str, processes: Processes
) -> None:
    place = Place(own_plane, namespace, lock)
    with HttpProxy(own_plane) as proxy:
        hanging = proxy.on(faults.hold(), method="POST", path="/events$", times=None)
        process = run(processes, place, permitted(place), server=proxy.url)
        hanging.wait(len(place.kinds))
        proxy.wait_request("PUT", "/x$", count=4 * len(place.kinds))
        process.signal(signal.SIGTERM)
        assert process.wait() == TERM
        hanging.release()
    entry = place.entry()
    assert entry
    assert entry.holder == ""
    warnings = process.logged(level="WARNING")
    assert [line for line in warnings if "the API server warns: " not in line.message] == []
    assert not process.logged(level="ERROR")
    assert process.logged("released")
