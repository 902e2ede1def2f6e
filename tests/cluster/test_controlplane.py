"""The control plane, the proxies before it and the client-go candidate are what the other tests take them for."""

from __future__ import annotations

import json
import signal
import socket
import ssl
from typing import TYPE_CHECKING

import pytest

from tests.support import faults
from tests.support.api import Api, ApiError, lease, lease_path, path_of
from tests.support.httpproxy import HttpProxy
from tests.support.objects import config_map, endpoints, lease_candidate, pod_status, read_record, record, service
from tests.support.port import LOOPBACK
from tests.support.processes import alive, wait_gone, wait_until
from tests.support.proxy import Proxy

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.conftest import Trials
    from tests.support.api import Object
    from tests.support.checker import Witness
    from tests.support.controlplane import ControlPlane
    from tests.support.plane import Plane
    from tests.support.processes import Process, Processes
    from tests.support.proxy import Mode

QUICK = {"lease_duration": "4s", "renew_deadline": "3s"}
LONG_AGO = "2020-01-01T00:00:00.000000Z"


def test_control_plane_keeps_leases(plane: Plane, namespace: str) -> None:
    made = plane.api.create(lease(namespace, "x", "me", leaseTransitions=3))
    assert plane.api.get(lease_path(namespace, "x"))["spec"] == made["spec"]
    made["spec"]["holderIdentity"] = "you"
    assert plane.api.put(made)["spec"]["holderIdentity"] == "you"
    assert [one["metadata"]["name"] for one in plane.api.list(lease_path(namespace, ""))] == ["x"]
    plane.api.merge(lease_path(namespace, "x"), {"spec": {"acquireTime": None}})
    assert "acquireTime" not in plane.api.get(lease_path(namespace, "x"))["spec"]
    with pytest.raises(ApiError, match="409"):
        plane.api.put(made)
    plane.api.delete(lease_path(namespace, "x"))
    assert plane.api.find(lease_path(namespace, "x")) is None


def test_a_change_is_awaited_with_a_watch(plane: Plane, namespace: str) -> None:
    path = lease_path(namespace, "x")
    made = plane.api.create(lease(namespace, "x", "a"))
    events = plane.api.watch(path, version=made["metadata"]["resourceVersion"])
    plane.api.merge(path, {"spec": {"holderIdentity": "b"}})
    kind, thing = next(events)
    assert (kind, thing["spec"]["holderIdentity"]) == ("MODIFIED", "b")
    events.close()
    plane.api.delete(path)
    assert plane.api.wait(path, lambda now: now is None, "it is gone") is None
    with pytest.raises(AssertionError, match=r"it is back: not within 0\.1 s; last seen: null"):
        plane.api.wait(path, lambda now: now is not None, "it is back", timeout=0.1)


def test_requests_are_counted_by_user(own_plane: ControlPlane, namespace: str) -> None:
    one, two = own_plane.new_user(), own_plane.new_user()
    assert one != two
    path = lease_path(namespace, "x")
    own_plane.as_user(one).create(lease(namespace, "x", "me"))
    own_plane.as_user(one).get(path)
    with pytest.raises(ApiError, match="403"):
        own_plane.as_user(one).delete(path)
    next(own_plane.as_user(two).watch(path))
    asked = own_plane.audit_requests(one)
    assert [(entry["verb"], entry["responseStatus"]["code"]) for entry in asked] == [
        ("create", 201),
        ("get", 200),
        ("delete", 403),
    ]
    assert asked[0]["objectRef"]["namespace"] == namespace
    assert [entry["verb"] for entry in own_plane.audit_requests(two)] == ["watch"]


def test_a_new_user_has_only_the_granted_permissions(own_plane: ControlPlane, namespace: str) -> None:
    user = own_plane.new_bare_user()
    api = own_plane.as_user(user)
    own_plane.api.create(lease(namespace, "mine", "me"))
    own_plane.api.create(lease(namespace, "other", "me"))
    with pytest.raises(ApiError, match="403"):
        api.get(lease_path(namespace, "mine"))
    rule = {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "resourceNames": ["mine"], "verbs": ["get"]}
    own_plane.grant(user, namespace, [rule])
    api.get(lease_path(namespace, "mine"))
    with pytest.raises(ApiError, match="403"):
        api.get(lease_path(namespace, "other"))


def test_a_client_certificate_is_a_user_until_it_expires(own_plane: ControlPlane) -> None:
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}

    def who(certificate: tuple[object, object]) -> Object:
        api = Api(own_plane.url, own_plane.ca_file, certificate=(str(certificate[0]), str(certificate[1])))
        return api.call("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", review)["status"]["userInfo"]  # type: ignore[no-any-return]

    user = who(own_plane.certificate("alice", "devs"))
    assert user["username"] == "alice"
    assert "devs" in user["groups"]
    with pytest.raises(ApiError, match="401"):
        who(own_plane.certificate("alice", "devs", valid=-1))


def test_a_kubeconfig_names_user_namespace_and_server(own_plane: ControlPlane) -> None:
    user = own_plane.new_user()
    config = json.loads(own_plane.kubeconfig(user, "ns", server="https://127.0.0.1:1").read_text())
    assert config["users"][0]["user"] == {"token": own_plane.token(user)}
    assert config["contexts"][0]["context"]["namespace"] == "ns"
    assert config["clusters"][0]["cluster"]["server"] == "https://127.0.0.1:1"
    config = json.loads(own_plane.kubeconfig(user, tokenFile="/t").read_text())
    assert config["users"][0]["user"] == {"tokenFile": "/t"}
    one, two = own_plane.kubeconfig(user), own_plane.kubeconfig(user)
    assert one != two


@pytest.mark.usefixtures("garbage_collector")  # whose open watches must not hold the server
def test_the_api_server_restarts_on_the_same_port_with_the_same_state(own_plane: ControlPlane, namespace: str) -> None:
    own_plane.api.create(lease(namespace, "x", "me"))
    own_plane.apiserver.stop()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((LOOPBACK, own_plane.port))
    own_plane.apiserver.start()
    assert own_plane.api.get(lease_path(namespace, "x"))["spec"]["holderIdentity"] == "me"
    assert own_plane.as_user(own_plane.new_user()).get(lease_path(namespace, "x"))


def test_a_paused_api_server_accepts_connections_and_sends_no_response(own_plane: ControlPlane) -> None:
    own_plane.apiserver.pause()
    with pytest.raises(TimeoutError):
        own_plane.api.request("GET", "/readyz", timeout=0.2)
    own_plane.apiserver.resume()
    assert own_plane.api.request("GET", "/readyz")[0] == 200


def test_etcd_restarts(own_plane: ControlPlane, namespace: str) -> None:
    own_plane.etcd.kill()
    own_plane.etcd.start()
    wait_until(lambda: own_plane.api.request("GET", "/readyz")[0] == 200, "ready again")
    own_plane.api.create(lease(namespace, "x", "me"))


@pytest.mark.parametrize("mode", ["silent", "reset", "refuse", "trickle", "drop-answers"])
def test_a_tcp_proxy_forwards_requests_to_the_api_server(own_plane: ControlPlane, namespace: str, mode: Mode) -> None:
    user = own_plane.new_user()
    with Proxy(LOOPBACK, own_plane.port) as proxy:
        api = Api(proxy.url, own_plane.ca_file, token=own_plane.token(user))
        api.create(lease(namespace, "x", "me"))
        proxy.switch(mode)
        with pytest.raises(OSError):  # noqa: PT011 - each mode has its own
            api.request("GET", lease_path(namespace, "x"), timeout=0.5)
        assert len(own_plane.audit_requests(user)) == 1
        proxy.switch("pass")
        assert api.get(lease_path(namespace, "x"))


def test_a_write_whose_response_a_proxy_drops_has_happened(own_plane: ControlPlane, namespace: str) -> None:
    made = own_plane.api.create(lease(namespace, "x", "a"))
    made["spec"]["holderIdentity"] = "b"
    with HttpProxy(own_plane) as proxy:
        rule = proxy.on(faults.lose("reset"), method="PUT", path="/leases/x$")
        api = Api(proxy.url, own_plane.ca_file, token=own_plane.token(own_plane.new_user()))
        with pytest.raises(OSError):  # noqa: PT011 - reset, or an end of file from TLS
            api.put(made)
        assert rule.wait().json()["spec"]["holderIdentity"] == "b"
        assert api.get(lease_path(namespace, "x"))["spec"]["holderIdentity"] == "b"


def test_a_watch_passes_the_proxy_and_its_end_reaches_the_server(own_plane: ControlPlane, namespace: str) -> None:
    user = own_plane.new_user()
    own_plane.api.create(lease(namespace, "x", "a"))
    with HttpProxy(own_plane) as proxy:
        events = Api(proxy.url, own_plane.ca_file, token=own_plane.token(user)).watch(lease_path(namespace, "x"))
        assert next(events)[0] == "ADDED"
        own_plane.api.merge(lease_path(namespace, "x"), {"spec": {"holderIdentity": "b"}})
        assert next(events)[1]["spec"]["holderIdentity"] == "b"
        events.close()
        wait_until(lambda: own_plane.audit_requests(user)[0]["stage"] == "ResponseComplete", "the watch has ended")


# --- what owns, and what elects
@pytest.mark.usefixtures("garbage_collector")
def test_objects_owned_by_a_pod_are_collected_with_it(plane: Plane, namespace: str) -> None:
    """The owner is recognised by its uid: a ConfigMap of an earlier Pod of that name goes, one of this Pod stays."""
    earlier = plane.new_pod(namespace, "web-0")
    old = plane.api.create(config_map(namespace, "old", owners=[earlier]))
    plane.api.delete(path_of(earlier))
    plane.api.wait(path_of(old), lambda seen: seen is None, "collected")
    later = plane.new_pod(namespace, "web-0")
    plane.api.create(config_map(namespace, "old", owners=[earlier]))
    kept = plane.api.create(config_map(namespace, "kept", owners=[later]))
    plane.api.wait(path_of(old), lambda seen: seen is None, "collected")
    assert plane.api.find(path_of(kept))


def test_a_pod_is_evicted_and_a_scheduled_pod_needs_a_forced_deletion(plane: Plane, namespace: str) -> None:
    evicted = plane.new_pod(namespace, "a")
    status = plane.api.merge(f"{path_of(evicted)}/status", pod_status("Failed", "Evicted"))["status"]
    assert (status["phase"], status["reason"]) == ("Failed", "Evicted")
    assert "terminated" in status["containerStatuses"][0]["state"]
    bound = plane.new_pod(namespace, "b", node="lost")
    plane.api.delete(path_of(bound))
    assert plane.api.get(path_of(bound))["metadata"]["deletionTimestamp"]
    plane.api.delete(path_of(bound) + "?gracePeriodSeconds=0")
    assert plane.api.find(path_of(bound)) is None


def test_the_control_plane_nominates_a_candidate_and_leaves_other_leases_alone(
    own_plane: ControlPlane, namespace: str
) -> None:
    """Those are expired and older than the one that it names, but have no candidates."""
    api = own_plane.api
    others = [api.create(lease(namespace, name, name, duration=1, renewTime=LONG_AGO)) for name in ("free", "held")]
    api.create(lease_candidate(namespace, "one", "elected"))
    named = api.wait(lease_path(namespace, "elected"), lambda seen: seen, "somebody is named")
    assert named is not None
    assert named["spec"]["holderIdentity"] == "one"
    assert [api.get(path_of(other)) for other in others] == others


def test_annotation_locks_and_services_are_kept_as_they_are_written(plane: Plane, namespace: str) -> None:
    for thing in (
        config_map(namespace, "x", record("me"), data={"key": "value"}),
        endpoints(namespace, "x", record("me"), subsets=[{"addresses": [{"ip": "10.0.0.1"}], "ports": [{"port": 80}]}]),
    ):
        made = plane.api.create(thing)
        assert read_record(made)["holderIdentity"] == "me"
        assert plane.api.get(path_of(thing)) == made
    plane.api.create(service(namespace, "x"))


# --- client-go
@pytest.fixture
def start(
    plane: Plane, namespace: str, processes: Processes, witness: Witness, clientgo: Callable[..., list[str]]
) -> Callable[..., Process]:
    def begin(identity: str, *options: str, **more: str | bool) -> Process:
        timing = {"lease_duration": "30s", "renew_deadline": "20s", "retry_period": "500ms"}
        kubeconfig = plane.kubeconfig(plane.new_user(), namespace)
        argv = clientgo(kubeconfig, namespace, "x", identity, witness.command(*options), **{**timing, **more})
        return processes.start(argv, name=identity)

    return begin


def test_client_go_hands_over_without_overlap_when_it_stops_its_command_first(
    start: Callable[..., Process], plane: Plane, namespace: str, witness: Witness, trials: Trials
) -> None:
    running = {identity: start(identity, "--term-delay=0.3", stop_first=True) for identity in ("a", "b")}
    for number in range(1, 4):
        term = witness.wait_start(number)
        assert plane.api.get(lease_path(namespace, "x"))["spec"]["holderIdentity"] == term.identity
        leader = running[term.identity]
        leader.signal(signal.SIGTERM)
        assert leader.wait() == 0
        running[term.identity] = start(term.identity, "--term-delay=0.3", stop_first=True)
        witness.wait_start(number + 1)
    witness.check()
    assert all(term.main.ended for term in witness.terms()[:3])
    trials.count(3, "planned client-go handovers")


def test_unmodified_client_go_releases_before_its_command_has_ended(
    start: Callable[..., Process], plane: Plane, namespace: str, witness: Witness
) -> None:
    """Its own order (kubernetes/kubernetes#139991): at the instant of the release the command is alive."""
    leader = start("a", "--ignore-term")
    term = witness.wait_start()
    leader.signal(signal.SIGTERM)
    released = plane.api.wait(lease_path(namespace, "x"), lambda now: now and not now["spec"]["holderIdentity"], "free")
    assert released is not None
    assert leader.wait() == 0
    wait_gone(term.pid)
    assert not witness.now(term).main.ended


def test_a_killed_client_go_ends_its_command_and_another_leads_after_the_lease(
    start: Callable[..., Process], witness: Witness
) -> None:
    leader = start("a", **QUICK)
    term = witness.wait_start()
    start("b", **QUICK)
    leader.kill()
    wait_gone(term.pid)
    second = witness.wait_start(2)
    assert second.identity == "b"
    witness.check(terms=2)


def test_client_go_that_loses_its_lease_kills_its_command_and_exits_1(
    start: Callable[..., Process], plane: Plane, namespace: str, witness: Witness
) -> None:
    leader = start("a", "--ignore-term", **QUICK)
    term = witness.wait_start()
    plane.api.merge(lease_path(namespace, "x"), {"spec": {"holderIdentity": "thief"}})
    assert leader.wait() == 1
    assert not alive(term.pid)


def test_client_go_ends_with_its_command(start: Callable[..., Process], witness: Witness) -> None:
    assert start("a", "--exit-after=0.1", "--status=7").wait() == 7
    witness.check(terms=1)


def test_the_server_s_certificate_is_of_the_tests_own_ca(own_plane: ControlPlane) -> None:
    with pytest.raises(ssl.SSLCertVerificationError):
        Api(own_plane.url, None).request("GET", "/readyz")
