"""A lock on the Endpoints of a Service: one without a selector would lose its EndpointSlices, and is left alone."""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING

import pytest

from kleader.election.events import Failure, Kind
from kleader.kube.errors import LockError
from kleader.locks.rbac import lock_permissions, role_rules
from tests.cluster.contract import LEADER, Client, Entry, Place
from tests.support import faults
from tests.support.httpproxy import HttpProxy

if TYPE_CHECKING:
    from tests.support.api import Object
    from tests.support.controlplane import ControlPlane
    from tests.support.plane import Plane
    from tests.support.processes import Process, Processes

MINE = Entry("me", 15, 1, 1)
SUBSETS = [{"addresses": [{"ip": "10.9.8.7"}], "ports": [{"port": 80, "protocol": "TCP"}]}]


@pytest.fixture(params=["endpoints", "endpointsleases"])
def place(request: pytest.FixtureRequest, plane: Plane, namespace: str) -> Place:
    return Place(plane, namespace, request.param)


def serve(place: Place, selector: dict[str, str] | None = None) -> None:
    """Create a Service of the lock's name."""
    spec: Object = {"ports": [{"port": 80}]} | ({"selector": selector} if selector else {})
    meta = {"name": place.name, "namespace": place.namespace}
    place.plane.api.create({"apiVersion": "v1", "kind": "Service", "metadata": meta, "spec": spec})


def sentence(place: Place) -> str:
    return (
        f"the Service {place.namespace}/x has no selector, so the lock would replace its EndpointSlices:"
        " give another --name, or --force"
    )


@pytest.mark.parametrize("there", [False, True], ids=["no Endpoints", "Endpoints"])
def test_a_service_without_a_selector_keeps_its_endpoints(place: Place, client: Client, *, there: bool) -> None:
    """Neither object is written, unless that is forced."""
    serve(place)
    if there:
        place.plant_one("Endpoints", subsets=SUBSETS)
    old = place.plane.api.find(place.paths[0])
    lock = client.lock(place)
    base = lock.get() if there else None
    with pytest.raises(LockError) as error:
        lock.write(base, MINE.record)
    assert error.value.failure == Failure(Kind.PERMANENT, sentence(place))
    assert place.plane.api.find(place.paths[0]) == old
    assert not any(map(place.plane.api.find, place.paths[1:]))
    client.lock(place, force=True).write(base, MINE.record)
    assert place.entry() == MINE
    assert place.objects()[0].get("subsets") == (SUBSETS if there else None)


def test_an_endpoints_of_a_service_with_a_selector_is_taken(place: Place, client: Client) -> None:
    serve(place, {"app": "web"})
    place.plant_one("Endpoints", subsets=SUBSETS)
    lock = client.lock(place)
    lock.write(lock.get(), MINE.record)
    assert place.entry() == MINE
    assert place.objects()[0]["subsets"] == SUBSETS
    assert lock.warnings == []


def test_an_endpoints_with_the_annotation_is_taken_without_reading_the_service(
    place: Place, client: Client, own_plane: ControlPlane
) -> None:
    """Its slices are gone already; and a renewal asks for nothing else."""
    serve(place)
    place.plant(Entry("", 1))
    with HttpProxy(own_plane) as proxy:
        lock = client.lock(place, server=proxy.url)
        lock.write(lock.write(lock.get(), MINE.record), MINE._replace(renewed=3).record)
        assert not [request for request in proxy.requests if "/services/" in request.path]


def test_a_service_that_cannot_be_read_in_time_delays_the_acquisition(
    place: Place, client: Client, own_plane: ControlPlane
) -> None:
    serve(place)
    with HttpProxy(own_plane) as proxy:
        rule = proxy.on(faults.silence(), path="/services/x", times=None)
        lock = client.lock(place, server=proxy.url)
        with pytest.raises(LockError) as error:
            lock.write(None, MINE.record, timeout=2)
        assert error.value.failure.kind is Kind.UNREACHABLE
        assert place.missing()
        assert rule.hits == 1
        rule.remove()
        with pytest.raises(LockError) as error:
            lock.write(None, MINE.record)
        assert error.value.failure.kind is Kind.PERMANENT


def test_refused_credentials_delay_the_acquisition_and_are_no_missing_permission(
    place: Place, client: Client, own_plane: ControlPlane
) -> None:
    """A token that is just being replaced: the next try is made with another."""
    serve(place)
    with HttpProxy(own_plane) as proxy:
        proxy.on(faults.answer(401, {"kind": "Status", "message": "Unauthorized"}), path="/services/x")
        lock = client.lock(place, server=proxy.url)
        with pytest.raises(LockError) as error:
            lock.write(None, MINE.record)
        assert "does not accept kleader's credentials" in error.value.failure.message
        assert lock.warnings == []
        assert place.missing()


def test_missing_permission_to_read_the_service_is_warned_of_once(
    place: Place, client: Client, own_plane: ControlPlane
) -> None:
    """And takes the lock: one that never was a Service's is the usual case."""
    user = own_plane.new_bare_user()
    allowed = [each for each in lock_permissions(place.lock, place.name) if each.resource != "services"]
    own_plane.grant(user, place.namespace, role_rules(allowed))
    lock = client.lock(place, user=user)
    for _ in range(2):
        lock.write(None, MINE.record)
        assert place.entry() == MINE
        place.delete()
    (warning,) = lock.warnings
    assert re.fullmatch(
        rf"cannot check that the Service {place.namespace}/x has a selector, and loses nothing to the lock:"
        rf' services "x" is forbidden: User "{user}" cannot get resource "services" .*: grant it in a Role, .*',
        warning,
    )


def test_run_ends_at_once_with_a_remedy_unless_forced(place: Place, processes: Processes) -> None:
    serve(place)
    place.plant_one("Endpoints", subsets=SUBSETS)
    old = place.plane.api.get(place.paths[0])

    def run(*options: str) -> Process:
        argv = [sys.executable, "-m", "kleader", "run", f"--lock={place.lock}", "--name=x", *options]
        return processes.start([*argv, f"--kubeconfig={place.kubeconfig()}", "--", "echo", "ran"])

    process = run()
    assert process.wait() == 125
    assert process.err.count(sentence(place)) == 1
    assert process.out == ""
    assert place.plane.api.get(place.paths[0]) == old
    process = run("--force")
    assert process.wait() == 0, process.err
    assert process.err.count("the API server warns: v1 Endpoints is deprecated") == 1
    assert process.out == "ran\n"
    now = place.plane.api.get(place.paths[0])
    assert now["subsets"] == SUBSETS
    assert LEADER in now["metadata"]["annotations"]
