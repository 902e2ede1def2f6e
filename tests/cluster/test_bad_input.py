"""Malformed answers, certificates and Leases: each is reported in one line with a remedy, and no lock is acquired."""

from __future__ import annotations

import copy
import datetime as dt
import json
import re
import sys
from typing import TYPE_CHECKING, Any

import pytest

from kleader.kube.errors import LockError
from tests.cluster.contract import Entry, Place
from tests.support import faults
from tests.support.api import lease, lease_path
from tests.support.httpproxy import HttpProxy
from tests.support.port import LOOPBACK
from tests.support.processes import PATIENCE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from tests.cluster.contract import Client
    from tests.conftest import Trials
    from tests.support.api import Object
    from tests.support.controlplane import ControlPlane
    from tests.support.httpproxy import Action
    from tests.support.plane import Plane
    from tests.support.processes import Process, Processes

NOT_ACQUIRED, FAILED = 124, 125
QUICK = ["--retry-period=1s", "--renew-deadline=4s", "--lease-duration=6s"]
PATIENT = ["--retry-period=1s", "--renew-deadline=50s", "--lease-duration=60s"]


@pytest.fixture
def proxy(own_plane: ControlPlane) -> Iterator[HttpProxy]:
    with HttpProxy(own_plane) as between:
        yield between


def start(
    processes: Processes,
    kubeconfig: Path,
    *options: str,
    name: str = "x",
    wait: str = "--no-wait",
    command: str = "true",
) -> Process:
    argv = [sys.executable, "-m", "kleader", "run", f"--name={name}", f"--kubeconfig={kubeconfig}", wait]
    return processes.start([*argv, *PATIENT, *options, "--", "echo", command], name=name)


def verdict(process: Process, status: int = FAILED) -> str:
    """What its last error says; every line is short, none is a traceback, and the command did not run.

    A warning of the elector may be written after it.
    """
    assert process.wait() == status, process.err
    assert "Traceback" not in process.err
    assert "internal error" not in process.err
    assert "the elector failed" not in process.err
    assert process.out == ""
    lines = process.err.splitlines()
    assert max(map(len, lines)) < 1000
    errors = process.logged(level="ERROR", role="candidate")
    assert errors, process.err
    return errors[-1].message


# --- what the server answers

FAILURE: Object = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure"}


def status(code: int, message: object, **more: object) -> Action:
    return faults.answer(code, {**FAILURE, "message": message, "code": code, **more})


def page(code: int) -> Action:
    return faults.answer(code, b"<html><body><h1>It works!</h1></body></html>", {"Content-Type": "text/html"})


def plain(code: int, text: str) -> Action:
    return faults.answer(code, text.encode(), {"Content-Type": "text/plain; charset=utf-8"})


ADDRESS = r" the address in the kubeconfig \S+ \(context plane\)$"
ELSEWHERE = ": check what answers there, and" + ADDRESS
NETWORK = "check the network to it, and" + ADDRESS
NO_HTTP = "^cannot reach the API server .*; check what answers there, and" + ADDRESS
BROKEN_OFF = "^cannot reach the API server .*: the connection was closed; " + NETWORK
NO_JSON = "answered with something that is not a JSON object" + ELSEWHERE
NO_LEASE = "answered with something that is not the Lease .*" + ELSEWHERE
GRANT = ": grant it in a Role, and bind that to this user or service account$"
HEALTH = "; check its health with kubectl get --raw '/readyz[?]verbose'$"
FULL = ": remove something from it, or give another --name$"
ANSWERS: dict[str, tuple[Callable[[], Action], str]] = {
    "garbage": (lambda: faults.raw(b"\x00\xff garbage\r\n\r\n"), NO_HTTP),
    "nothing": (lambda: faults.raw(b""), BROKEN_OFF),
    "no-head": (lambda: faults.raw(b"HTTP/1.1 200 OK\r\nContent-Le"), BROKEN_OFF),
    "endless-head": (lambda: faults.raw(b"HTTP/1.1 200 OK\r\nA: " + b"x" * 300_000), NO_HTTP),
    "two-lengths": (
        lambda: faults.raw(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nxx"),
        NO_HTTP,
    ),
    "short-body": (lambda: faults.raw(b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{"), BROKEN_OFF),
    "html": (lambda: page(200), NO_JSON),
    "empty-body": (lambda: faults.answer(200, b""), NO_JSON),
    "binary": (lambda: faults.answer(200, bytes(range(256))), NO_JSON),
    "truncated": (lambda: faults.answer(200, b'{"kind": "Lease", "metadata": {'), NO_JSON),
    "array": (lambda: faults.answer(200, b"[]"), NO_JSON),
    "null": (lambda: faults.answer(200, b"null"), NO_JSON),
    "number": (lambda: faults.answer(200, b"9" * 5000), NO_JSON),
    "deep": (lambda: faults.answer(200, b"[" * 200_000 + b"]" * 200_000), NO_JSON),
    "ten-megabytes": (lambda: faults.answer(200, b'{"a": "' + b"x" * 10_000_000 + b'"}'), "is longer than 4 MiB"),
    "another-kind": (lambda: faults.answer(200, {"kind": "Pod", "metadata": {"name": "x"}}), NO_LEASE),
    "empty-object": (lambda: faults.answer(200, {}), NO_LEASE),
    "another-name": (lambda: faults.answer(200, {"kind": "Lease", "metadata": {"name": "q"}}), NO_LEASE),
    "metadata-list": (lambda: faults.answer(200, {"kind": "Lease", "metadata": []}), NO_LEASE),
    "moved": (lambda: faults.answer(301, b"", {"Location": "https://127.0.0.1:1/"}), "answered 301, not as Kubernetes"),
    "redirect": (lambda: faults.answer(307, b"", {"Location": "https://127.0.0.1:1/"}), "answered 307, .*" + ELSEWHERE),
    "no-content": (lambda: faults.raw(b"HTTP/1.1 204 No Content\r\n\r\n"), "answered 204, .*" + ELSEWHERE),
    "bad-request": (lambda: status(400, "what?"), "refuses the request: what[?]; check -n, --name and --lock-label$"),
    "teapot": (lambda: page(418), "answered 418, not as Kubernetes does" + ELSEWHERE),
    "gone": (lambda: status(410, "too old"), "refuses the request: too old; check"),
    "invalid": (lambda: status(422, "spec: Invalid value"), "refuses the request: spec: Invalid value; check"),
    "unauthorized": (
        lambda: status(401, "Unauthorized"),
        r"not accept kleader's credentials \(Unauthorized\): check the user in the kubeconfig \S+ \(context plane\)$",
    ),
    "forbidden": (lambda: status(403, "no"), "^no" + GRANT),
    "forbidden-page": (lambda: page(403), "forbids the request \\(403\\)" + ELSEWHERE),
    "anonymous": (
        lambda: status(403, 'User "system:anonymous" cannot'),
        r"cannot: kleader sent no credentials; check the user in the kubeconfig \S+ \(context plane\)$",
    ),
    "quota": (lambda: status(403, "x is forbidden: exceeded quota: q"), "exceeded quota: q: raise that ResourceQuota"),
    "webhook": (lambda: status(403, 'admission webhook "x" denied the request: no'), "let that admission policy"),
    "throttled": (
        lambda: plain(429, "Too many requests, please try again later.\n"),
        r"is too busy \(Too many requests, please try again later.\): it asks for a pause of 1s; a FlowSchema can",
    ),
    "broken": (lambda: status(500, "etcdserver: request timed out"), "answered 500: etcdserver: .*timed out" + HEALTH),
    "bad-gateway": (lambda: page(502), "answered 502, not as Kubernetes does" + ELSEWHERE),
    "balancer": (lambda: plain(503, "no healthy\nupstream"), r"answered 503 \(no healthy upstream\), .*" + ELSEWHERE),
    "unavailable": (lambda: status(503, "shutting down"), "answered 503: shutting down" + HEALTH),
    "message-number": (
        lambda: status(500, 5, details=5),
        "answered 500: 500" + HEALTH,
    ),
    "message-long": (lambda: status(500, "x" * 100_000), "answered 500: x{300}" + HEALTH),
    "message-lines": (lambda: status(500, "a\n\x1b[31mb\tc"), r"answered 500: a \\x1b\[31mb c" + HEALTH),
    "details-odd": (lambda: status(403, "no", details={"causes": [5, {"reason": []}, None]}), "^no" + GRANT),
    "details-list": (lambda: status(403, "no", details=[{"kind": "namespaces"}]), "^no" + GRANT),
    "web-server": (lambda: page(404), r"serves no leases of coordination.k8s.io/v1 \(404\)" + ELSEWHERE),
    "no-such-api": (
        lambda: status(404, "the server could not find the requested resource", details={}),
        r"serves no leases of coordination.k8s.io/v1 \(the server could not find .*\)" + ELSEWHERE,
    ),
    "long-for-http": (lambda: status(413, "too large: limit is 3145728"), r"is full \(too large: .*\)" + FULL),
    "long-for-etcd": (lambda: status(500, "etcdserver: request is too large"), r"is full \(etcdserver: .*\)" + FULL),
    "silence": (faults.silence, "^the API server .* did not answer within 2s: " + NETWORK),
}


def handfuls(kinds: Mapping[str, Any], size: int = 5) -> list[list[str]]:
    names = list(kinds)
    return [names[at : at + size] for at in range(0, len(names), size)]


ESCAPED = "message-lines"  # by the log
# One of each kind of failure, so that what kleader makes of a failure is seen too.
BY_A_PROCESS = (
    "garbage",
    "html",
    "another-kind",
    "unauthorized",
    "forbidden",
    "throttled",
    "broken",
    "silence",
    ESCAPED,
)


@pytest.mark.parametrize("names", handfuls(dict.fromkeys(BY_A_PROCESS), 3), ids=" ".join)
def test_unusable_response_is_reported_in_one_line(
    own_plane: ControlPlane, proxy: HttpProxy, namespace: str, processes: Processes, *, trials: Trials, names: list[str]
) -> None:
    """For any response to a read or a write: status 125, the reason, and the command did not run."""
    config = own_plane.kubeconfig(own_plane.new_user(), namespace, server=proxy.url)
    started: dict[str, Process] = {}
    for name in names:
        action, _ = ANSWERS[name]
        proxy.on(action(), path=f"/leases/read-{name}$", times=None)
        proxy.on(action(), method="PUT", path=f"/leases/write-{name}$", times=None)
        timings = QUICK if action is faults.silence else []
        for each in (f"read-{name}", f"write-{name}"):
            started[each] = start(processes, config, *timings, name=each)
    for name, process in started.items():
        said = verdict(process)
        assert re.search(ANSWERS[name.partition("-")[2]][1], said), (name, said)
        assert own_plane.api.find(lease_path(namespace, name)) is None
    trials.count(len(started), "answers that cannot be used")


@pytest.mark.parametrize("which", ["read", "write"])
def test_unusable_response_fails_the_command_with_a_reason(
    own_plane: ControlPlane, proxy: HttpProxy, namespace: str, client: Client, *, trials: Trials, which: str
) -> None:
    """Each of them, to the lock itself; nothing is written."""
    user = own_plane.new_user()
    for name, (action, said) in ANSWERS.items():
        proxy.on(action(), method="GET" if which == "read" else "PUT", path=f"/leases/{name}$", times=None)
        lock = client.lock(Place(own_plane, namespace, "lease", name), server=proxy.url, user=user)
        timeout = 2 if action is faults.silence else PATIENCE
        with pytest.raises(LockError) as refused:
            lock.get(timeout) if which == "read" else lock.write(None, Entry("me").record, timeout=timeout)
        assert name == ESCAPED or re.search(said, str(refused.value)), (name, str(refused.value))
        assert own_plane.api.find(lease_path(namespace, name)) is None
    trials.count(len(ANSWERS), "answers that cannot be used")


def test_a_wrong_token_and_an_expired_client_certificate_are_reported(
    own_plane: ControlPlane, namespace: str, processes: Processes
) -> None:
    certificate, key = own_plane.certificate("somebody", valid=-60)
    configs = [
        own_plane.kubeconfig("admin", namespace, token="wrong"),
        own_plane.kubeconfig("admin", namespace, client_certificate=certificate, client_key=key),
    ]
    started = [start(processes, config) for config in configs]
    for process in started:
        assert re.fullmatch(
            r"the API server \S+ does not accept kleader's credentials \(Unauthorized\):"
            r" check the user in the kubeconfig \S+ \(context plane\)",
            verdict(process),
        )


def test_an_invalid_server_certificate_is_reported_with_a_remedy(
    own_plane: ControlPlane, namespace: str, processes: Processes
) -> None:
    past = dt.datetime(2020, 1, 2, tzinfo=dt.timezone.utc)
    expired = own_plane.ca.issue_cert(LOOPBACK, not_before=past, not_after=past)
    elsewhere = own_plane.ca.issue_cert("elsewhere.example.org")
    user = own_plane.new_user()
    with HttpProxy(own_plane, certificate=expired) as late, HttpProxy(own_plane, certificate=elsewhere) as wrong:
        first = start(processes, own_plane.kubeconfig(user, namespace, server=late.url))
        second = start(processes, own_plane.kubeconfig(user, namespace, server=wrong.url))
        mend = r"; renew it, or correct the certificate authority in the kubeconfig \S+ \(context plane\)"
        said = verdict(first)
        assert said.startswith(f"the certificate of the API server {late.url} is not accepted: certificate has expired")
        assert re.search(mend, said)
        said = verdict(second)
        assert "is not accepted: " in said
        assert "mismatch" in said
        assert re.search(mend, said)
    config = json.loads(own_plane.kubeconfig(user, namespace).read_text())
    del config["clusters"][0]["cluster"]["certificate-authority"]
    unknown = own_plane.dir / f"{user}-unknown.kubeconfig"
    unknown.write_text(json.dumps(config))
    assert "is not accepted: " in verdict(start(processes, unknown))


def test_plain_http_response_to_a_tls_client_is_reported(
    own_plane: ControlPlane, namespace: str, processes: Processes
) -> None:
    """https:// where http is spoken, and the other way round."""
    config = own_plane.kubeconfig(own_plane.new_user(), namespace, server=own_plane.url.replace("https", "http"))
    said = verdict(start(processes, config))
    assert re.search(r"answered 400 \(Client sent an HTTP request to an HTTPS server.\), not as .*" + ELSEWHERE, said)


# --- what the Lease says

GOOD: Object = {
    "holderIdentity": "somebody",
    "leaseDurationSeconds": 1,
    "acquireTime": "2020-01-01T00:00:00.000000Z",
    "renewTime": "2020-01-01T00:00:00.000000Z",
    "leaseTransitions": 0,
}


def shown(namespace: str, name: str, spec: object, **metadata: object) -> Object:
    """A Lease as a server might answer it."""
    whole = {**copy.deepcopy(GOOD), **spec} if isinstance(spec, dict) else spec
    meta = {"name": name, "namespace": namespace, "uid": "u", "resourceVersion": "1", **metadata}
    return {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": meta, "spec": whole}


def test_a_malformed_record_counts_as_held_and_the_error_names_object_and_field(
    own_plane: ControlPlane, proxy: HttpProxy, namespace: str, processes: Processes
) -> None:
    """For its whole wait, longer than its own duration; nothing is written. unit/test_record.py has each field."""
    config = own_plane.kubeconfig(own_plane.new_user(), namespace, server=proxy.url)
    proxy.on(faults.answer(200, shown(namespace, "x", {"renewTime": "yesterday"})), path="/leases/x$", times=None)
    malformed = f"the Lease {namespace}/x is malformed: spec.renewTime is not an RFC 3339 time"
    expected = f"the lock counts as held: {malformed}"
    process = start(processes, config, wait="--wait=7s")
    said = verdict(process, FAILED)
    if process.err.count(expected) == 1:  # so busy a machine that the first answer came at the end
        process = start(processes, config, wait="--wait=60s")
        said = verdict(process, FAILED)
    assert said.startswith(expected)
    assert said.endswith(f"; fix it with kubectl edit lease -n {namespace} x")
    assert process.err.count(expected) == 2  # when it was read, and at the end
    assert not [request for request in proxy.requests if request.method != "GET"]


def test_a_holder_name_of_a_megabyte_counts_as_held(plane: Plane, namespace: str, processes: Processes) -> None:
    """The server accepts it, so another client may have written it; the line stays short."""
    plane.api.create(lease(namespace, "x", "h" * 1_000_000, duration=1))
    said = verdict(start(processes, plane.kubeconfig(plane.new_user(), namespace)), FAILED)
    assert f"the Lease {namespace}/x is malformed: spec.holderIdentity has 1000000 characters, more than 4096" in said
    assert said.endswith(f"; fix it with kubectl edit lease -n {namespace} x")


@pytest.mark.parametrize(
    "metadata",
    [{"uid": None}, {"resourceVersion": ""}, {"resourceVersion": 5}],
)
def test_a_lease_with_fields_that_kleader_cannot_write_back_is_not_taken(
    own_plane: ControlPlane, proxy: HttpProxy, namespace: str, processes: Processes, metadata: Object
) -> None:
    config = own_plane.kubeconfig(own_plane.new_user(), namespace, server=proxy.url)
    proxy.on(
        faults.answer(200, shown(namespace, "x", {"holderIdentity": ""}, **metadata)), path="/leases/x", times=None
    )
    assert re.search(
        "answered with a Lease without uid or resourceVersion" + ELSEWHERE, verdict(start(processes, config))
    )
    assert {request.method for request in proxy.requests} == {"GET"}


@pytest.mark.parametrize(
    "metadata",
    [
        {"annotations": []},
        {"annotations": {"kleader/incarnation": 5}},
        {"annotations": "x", "labels": 7},
        {"labels": []},
        {"labels": {"a": []}},
        {"managedFields": 3, "ownerReferences": "x"},
    ],
)
def test_malformed_metadata_causes_no_traceback(
    own_plane: ControlPlane, proxy: HttpProxy, namespace: str, processes: Processes, metadata: Object
) -> None:
    """A free lock with such metadata is written back, which the server refuses."""
    config = own_plane.kubeconfig(own_plane.new_user(), namespace, server=proxy.url)
    odd = shown(namespace, "x", {"holderIdentity": ""}, **metadata)
    proxy.on(faults.answer(200, odd), method="GET", path="/leases/x", times=None)
    process = start(processes, config, "--lock-label=a=b")
    assert process.wait() in {NOT_ACQUIRED, FAILED}, process.err
    assert "Traceback" not in process.err
    assert "the elector failed" not in process.err
    assert process.out == ""


@pytest.mark.parametrize(
    "spec",
    [
        {"leaseDurationSeconds": "1"},
        {"renewTime": "2020-01-01T00:00:00.123456", "acquireTime": "2020-01-01 00:00:00"},
        {"renewTime": None, "acquireTime": None, "leaseTransitions": None},
    ],
    ids=["a string for the duration", "times without a zone", "nothing but holder and duration"],
)
def test_records_with_loose_types_are_read_and_expire(
    own_plane: ControlPlane, proxy: HttpProxy, namespace: str, processes: Processes, spec: Object
) -> None:
    """Such records, which the Python client writes, expire like any other: the next word is a write."""
    config = own_plane.kubeconfig(own_plane.new_user(), namespace, server=proxy.url)
    proxy.on(faults.answer(200, shown(namespace, "x", spec)), method="GET", path="/leases/x", times=None)
    start(processes, config, *QUICK, wait="--wait=20s")
    written = proxy.wait_request("PUT", "/leases/x").json()
    assert written["spec"]["leaseDurationSeconds"] == 6
    assert written["spec"]["leaseTransitions"] == 1


# --- the watch


WATCHES: dict[str, tuple[Callable[[], Action], str]] = {
    "garbage": (lambda: faults.raw(b"\x00\xff\r\n\r\n"), "cannot reach the API server"),
    "page": (lambda: page(200), "the watch ended"),
    "array": (lambda: faults.answer(200, b"[]\n"), "answered with something that is not a watch event"),
    "odd-event": (
        lambda: faults.answer(200, b'{"type": 5, "object": []}\n'),
        "answered with something that is not a watch event",
    ),
    "error": (
        lambda: faults.answer(200, b'{"type": "ERROR", "object": {"message": "oops"}}\n'),
        "was ended .oops.",
    ),
    "forbidden": (lambda: status(403, "no watch for you"), "the watch was refused: no watch for you" + GRANT[:-1]),
    "broken": (lambda: page(500), "the watch was refused: the API server .* answered 500, not as Kubernetes does"),
    "too-long": (lambda: faults.answer(200, b'{"a": "' + b"x" * 10_000_000), "an event is longer than 4 MiB"),
}


def test_unusable_watch_is_reported_and_the_lock_is_polled(
    own_plane: ControlPlane, proxy: HttpProxy, namespace: str, processes: Processes, trials: Trials
) -> None:
    """Each candidate waits behind a holder, and polls until it is gone."""
    config = own_plane.kubeconfig(own_plane.new_user(), namespace, server=proxy.url)
    started, rules = {}, {}
    for name, (action, _) in WATCHES.items():
        own_plane.api.create(lease(namespace, name, "somebody", duration=3600))
        rules[name] = proxy.on(action(), path=rf"watch=.*name%3D{name}&", times=None)
        started[name] = start(processes, config, name=name, wait="--wait=150s", command=name)
    for name, process in started.items():
        process.wait_log("watch_failed", WATCHES[name][1])
        if name != "forbidden":  # which is not tried again
            rules[name].wait(3)
        own_plane.api.merge(lease_path(namespace, name), {"spec": {"holderIdentity": ""}})
    for name, process in started.items():
        assert process.wait() == 0, process.err
        assert process.out == f"{name}\n"
        assert "Traceback" not in process.err
        assert "the elector failed" not in process.err
    trials.count(len(WATCHES), "watches that cannot be used")


# --- how often


def test_an_error_is_repeated_at_most_every_ten_seconds_and_the_wait_ends_with_125(
    own_plane: ControlPlane, proxy: HttpProxy, namespace: str, processes: Processes
) -> None:
    config = own_plane.kubeconfig(own_plane.new_user(), namespace, server=proxy.url)
    rule = proxy.on(page(502), path="/leases/x", times=None)
    said, warnings = "", 0
    for seconds in (8, 60):  # so busy a machine asks but once in eight
        process = start(processes, config, wait=f"--wait={seconds}s")
        said = verdict(process)
        warnings = len(process.logged(about="answered 502", level="WARNING"))
        if rule.hits >= 2:
            break
    assert "answered 502, not as Kubernetes does" in said
    assert 1 <= warnings <= 1 + seconds // 10


def test_candidate_survives_bad_responses_and_acquires_the_lock_later(
    own_plane: ControlPlane, proxy: HttpProxy, namespace: str, processes: Processes
) -> None:
    """Bad answers are no reason to end a candidate that waits: the next good one is used."""
    config = own_plane.kubeconfig(own_plane.new_user(), namespace, server=proxy.url)
    for action in (page(500), faults.raw(b"garbage"), status(401, "Unauthorized"), faults.answer(200, b"[]")):
        proxy.on(action, path="/leases/x")
    process = start(processes, config, wait="--wait=60s", command="ran")
    assert process.wait() == 0, process.err
    assert process.out == "ran\n"


# --- what the server does not accept from us


def test_validation_error_of_the_server_is_quoted(plane: Plane, processes: Processes, namespace: str) -> None:
    """The command line's checks are the server's: only what slips through is refused there."""
    config = json.loads(plane.kubeconfig(plane.new_user(), namespace).read_text())
    config["contexts"][0]["context"]["namespace"] = "a/b c"
    odd = plane.dir / f"{namespace}-odd.kubeconfig"
    odd.write_text(json.dumps(config))
    said = verdict(start(processes, odd))
    assert re.search("refuses the request|does not exist|grant it in a Role", said), said
