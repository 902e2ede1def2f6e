"""`kleader check` against the real API server: what it finds is so, and nothing that is answered breaks it."""

from __future__ import annotations

import email.utils
import json
import os
import re
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

from kleader.cli.commands import cli
from kleader.election.duration import parse
from kleader.locks.rbac import Permission, event_permissions, lock_permissions, registration_permissions, role_rules
from tests.cluster.contract import OBJECTS, Entry, Place
from tests.support import faults
from tests.support.httpproxy import HttpProxy
from tests.support.objects import service

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.conftest import Trials
    from tests.support.controlplane import ControlPlane
    from tests.support.httpproxy import Action
    from tests.support.plane import Plane

LINE = re.compile(r"(ok  |warn|fail)  ([A-Za-z ]+): (.+)")
FOR_LIFE = "leader-for-life"
DEPRECATED = "the API server warns: v1 Endpoints is deprecated"  # since Kubernetes 1.33
PATIENT = ("--retry-period=10s", "--renew-deadline=40s", "--lease-duration=60s")  # whose latency is none to warn of
SERVED = [*(kind for kind in OBJECTS if kind != FOR_LIFE), FOR_LIFE]


class Report:
    """What it printed, line by line, but for the API server's word on Endpoints, of which there is one at most."""

    def __init__(self, config: Path, *options: str, **env: str) -> None:
        status, self.text, err = self.run(["check", "--name=x", f"--kubeconfig={config}", *options], env)
        assert "Traceback" not in err
        assert err == ""
        found = [LINE.fullmatch(line) for line in self.text.splitlines()]
        assert all(found), self.text
        every = [match.groups() for match in found if match]
        self.lines = [line for line in every if line[:2] != ("warn", "API") or not line[2].startswith(DEPRECATED)]
        self.deprecated = len(every) - len(self.lines)
        assert self.deprecated <= 1
        assert status == any(level == "fail" for level, *_ in self.lines), self.text

    def run(self, args: list[str], env: dict[str, str]) -> tuple[int, str, str]:
        """Exit status, standard output and error."""
        argv, env = [sys.executable, "-m", "kleader", *args], {**_surroundings(), **env}
        done = subprocess.run(argv, capture_output=True, text=True, check=False, env=env)
        return done.returncode, done.stdout, done.stderr

    def of(self, check: str) -> list[str]:
        """Level and message of each line about this."""
        return [f"{level.strip()} {message}" for level, what, message in self.lines if what == check]

    def worst(self) -> list[str]:
        """All lines that are not ok."""
        return [f"{level.strip()} {what}: {message}" for level, what, message in self.lines if level != "ok  "]


class ReportHere(Report):
    """The same from this process, which is quicker."""

    def run(self, args: list[str], env: dict[str, str]) -> tuple[int, str, str]:
        """Exit status, standard output and error."""
        absent = dict.fromkeys(os.environ.keys() - _surroundings().keys())
        done = CliRunner().invoke(cli, args, env={**absent, **env}, prog_name="kleader")
        assert done.exception is None or isinstance(done.exception, SystemExit), done.exc_info
        return done.exit_code, done.stdout, done.stderr


def _surroundings() -> dict[str, str]:
    return {key: value for key, value in os.environ.items() if not key.startswith(("KLEADER_", "POD_"))}


@pytest.fixture
def proxy(own_plane: ControlPlane) -> Iterator[HttpProxy]:
    with HttpProxy(own_plane) as between:
        yield between


def user_with(plane: ControlPlane, namespace: str, permissions: list[Permission]) -> Path:
    user = plane.new_bare_user()
    plane.grant(user, namespace, role_rules(permissions))
    return plane.kubeconfig(user, namespace)


@pytest.mark.parametrize("lock", SERVED)
def test_check_passes_with_exactly_the_printed_role(own_plane: ControlPlane, namespace: str, lock: str) -> None:
    permissions = [*lock_permissions(lock, "x"), *registration_permissions("x"), *event_permissions()]
    config = user_with(own_plane, namespace, permissions)
    env = {"POD_NAME": "x-0", "POD_NAMESPACE": namespace} if lock == FOR_LIFE else {}
    if lock == FOR_LIFE:
        own_plane.new_pod(namespace, "x-0")
    report = Report(config, f"--lock={lock}", *PATIENT, **env)
    assert report.worst() == []
    assert len(report.of("permission")) == len(permissions)
    assert [check for _, check, _ in report.lines][:5] == ["timings", "API", "latency", "clock", "name"]
    assert all(Place(own_plane, namespace, each).missing() for each in OBJECTS if each != FOR_LIFE)


@pytest.mark.timeout(900)  # many processes, one after the other
@pytest.mark.parametrize("lock", SERVED)
def test_each_missing_permission_is_reported(
    own_plane: ControlPlane, namespace: str, lock: str, trials: Trials
) -> None:
    whole = [*lock_permissions(lock, "x"), *registration_permissions("x"), *event_permissions()]
    env = {"POD_NAME": "x-0", "POD_NAMESPACE": namespace} if lock == FOR_LIFE else {}
    for missing in whole:
        report = ReportHere(
            user_with(own_plane, namespace, [each for each in whole if each != missing]), f"--lock={lock}", **env
        )
        (line,) = [line for line in report.of("permission") if not line.startswith("ok ")]
        what = f"{missing.verb} {missing.resource}{f'/{missing.name}' if missing.name else ''} in {namespace}"
        assert line.startswith(f"{'warn' if missing.without else 'fail'} {what} is not allowed")
        assert line.endswith("grant it in a Role: kleader manifest prints one")
    trials.count(len(whole), "permissions found missing")


@pytest.mark.parametrize("lock", [each for each in SERVED if each != FOR_LIFE])
def test_check_shows_holder_and_writer_of_a_held_lock(plane: Plane, namespace: str, lock: str) -> None:
    place = Place(plane, namespace, lock)
    place.plant(Entry("rival", 15, 0, 0, 3))
    found = Report(plane.kubeconfig(namespace=namespace), f"--lock={lock}").of("lock")
    assert len(found) == len(place.kinds)
    for line, kind in zip(found, place.kinds, strict=True):
        assert re.match(rf"ok the {kind} {namespace}/x is held by rival for 15s, renewed .* ago, written by ", line)


def test_a_lock_without_a_holder_is_reported_as_free(plane: Plane, namespace: str) -> None:
    """One that was released, and an object that has no record yet."""
    config = plane.kubeconfig(namespace=namespace)
    Place(plane, namespace, "lease").plant(Entry("", 1, 0, 0, 3))
    Place(plane, namespace, "configmap").plant_one("ConfigMap", metadata={})
    for lock, kind in (("lease", "Lease"), ("configmap", "ConfigMap")):
        (line,) = Report(config, f"--lock={lock}").of("lock")
        assert re.fullmatch(rf"ok the {kind} {namespace}/x exists(, written by \S+)?, and is free", line), line


def test_a_rivals_shorter_duration_gives_a_warning_on_annotation_locks(plane: Plane, namespace: str) -> None:
    Place(plane, namespace, "configmap").plant(Entry("rival", 10))
    Place(plane, namespace, "lease").plant(Entry("rival", 10))
    config = plane.kubeconfig(namespace=namespace)
    (line,) = Report(config, "--lock=configmap").of("lock")
    assert line.startswith("warn ")
    assert "for 10s" in line
    assert "less than this run's 15s" in line
    (line,) = Report(config, "--lock=lease").of("lock")
    assert line.startswith("ok ")


def test_a_malformed_record_fails_with_the_field_and_a_remedy(plane: Plane, namespace: str) -> None:
    place = Place(plane, namespace, "configmap")
    place.plant_one("ConfigMap", metadata={"annotations": {"control-plane.alpha.kubernetes.io/leader": "{"}})
    (line,) = Report(plane.kubeconfig(namespace=namespace), "--lock=configmap").of("lock")
    assert line.startswith("fail ")
    assert "kubectl edit configmap" in line


def test_a_missing_namespace_fails_even_if_every_permission_is_granted(plane: Plane) -> None:
    (line,) = Report(plane.kubeconfig(), "-n", "nowhere").of("lock")
    assert line.startswith("fail ")
    assert "kubectl create namespace nowhere" in line


def test_a_service_that_would_lose_its_endpoint_slices_fails_without_force(plane: Plane, namespace: str) -> None:
    plane.api.create(service(namespace, "x"))
    config = plane.kubeconfig(namespace=namespace)
    (line,) = Report(config, "--lock=endpoints").of("lock")
    assert line.startswith("fail ")
    assert "the lock would replace its EndpointSlices" in line
    forced = Report(config, "--lock=endpoints", "--force", *PATIENT)
    assert forced.worst() == []
    assert forced.deprecated == 1


@pytest.mark.parametrize(
    ("options", "level"),
    [([], "ok"), (["--stop-timeout=29s"], "ok"), (["--stop-timeout=30s"], "fail"), (["--stop-timeout=2m"], "fail")],
)
def test_the_pods_grace_period_must_outlast_the_stop_timeout(
    plane: Plane, namespace: str, options: list[str], level: str
) -> None:
    plane.new_pod(namespace, "x-0")
    config = plane.kubeconfig(namespace=namespace)
    (line,) = Report(config, *options, POD_NAME="x-0", POD_NAMESPACE=namespace).of("grace period")
    said = {"ok": "has 30s, more than", "fail": "is killed after 30s, but --stop-timeout and the kill take"}[level]
    assert line.startswith(f"{level} the Pod x-0 {said}")


def test_an_unreadable_pod_gives_a_warning_with_the_values_to_compare(own_plane: ControlPlane, namespace: str) -> None:
    config = user_with(own_plane, namespace, [*lock_permissions("lease", "x"), *event_permissions()])
    (line,) = Report(config, POD_NAME="x-0", POD_NAMESPACE=namespace).of("grace period")
    assert line.startswith("warn the Pod x-0 cannot be read")
    assert line.endswith("it has to be more than 25.5s")


def test_check_reports_whether_coordinated_election_is_available(plane: Plane, namespace: str) -> None:
    options = ["--coordinated", "--binary-version=1.36.0"]
    report = Report(plane.kubeconfig(namespace=namespace), *options, *PATIENT)
    assert report.of("coordinated election") == ["ok the cluster serves leasecandidates, v1beta1"]
    assert report.worst() == []


def test_missing_coordinated_election_gives_a_warning(plain_plane: ControlPlane) -> None:
    namespace = plain_plane.new_namespace()
    report = Report(plain_plane.kubeconfig(namespace=namespace), "--coordinated", "--binary-version=1.36.0")
    (line,) = report.of("coordinated election")
    assert line.startswith("warn the cluster serves no leasecandidates: the election will be a plain one")


@pytest.mark.parametrize(("minutes", "direction"), [(10, "ahead"), (-10, "behind")])
def test_a_clock_that_differs_from_the_servers_gives_a_warning_with_the_difference(
    own_plane: ControlPlane, namespace: str, proxy: HttpProxy, minutes: int, direction: str
) -> None:
    began_at = int(time.time())
    date = began_at + 60 * minutes
    missing = {"kind": "Status", "status": "Failure", "code": 404, "details": {"name": "x", "kind": "leases"}}
    answer = faults.answer(404, missing, {"Date": email.utils.formatdate(date, usegmt=True)})
    proxy.on(answer, method="GET", path="/leases/x", times=None)
    (line,) = Report(own_plane.kubeconfig(own_plane.new_user(), namespace, server=proxy.url)).of("clock")
    took = time.time() - began_at  # the check read its own clock in the meantime
    warned = re.match(r"warn the API server's is (\S+) (ahead|behind), ", line)
    assert warned, line
    assert warned[2] == direction
    ahead = parse(warned[1]) * (1 if direction == "ahead" else -1)
    assert 60 * minutes - took <= ahead <= 60 * minutes + 1, line  # a Date is whole seconds


def test_check_warns_of_responses_slower_than_half_the_retry_period(
    own_plane: ControlPlane, namespace: str, proxy: HttpProxy
) -> None:
    proxy.on(faults.slow(after=0.6), method="GET", path="/leases/x", times=1)
    user = own_plane.new_user()
    config = own_plane.kubeconfig(user, namespace, server=proxy.url)
    timings = ["--retry-period=1s", "--renew-deadline=4s", "--lease-duration=6s"]
    (line,) = Report(config, *timings).of("latency")
    assert line.startswith("warn ")
    assert "two do not fit into the retry period 1s" in line


# --- whatever the server says

STATUS = {"kind": "Status", "status": "Failure", "message": "no\nway\x1b[2J", "code": 500}
ANSWERS: dict[str, Action] = {
    "garbage": faults.raw(b"\x00\xff\r\n\r\n"),
    "nothing": faults.raw(b""),
    "a page": faults.answer(200, b"<html>Sign in</html>", {"Content-Type": "text/html"}),
    "a list": faults.answer(200, b"[]"),
    "an empty object": faults.answer(200, b"{}"),
    "nulls": faults.answer(200, {"metadata": None, "spec": None, "status": None, "gitVersion": None, "groups": None}),
    "wrong types": faults.answer(200, {"metadata": [1], "spec": "x", "status": [], "gitVersion": 7, "groups": 7}),
    "deep": faults.answer(200, b"[" * 100_000),
    "401": faults.answer(401, {**STATUS, "code": 401}),
    "403": faults.answer(403, {**STATUS, "code": 403}),
    "404": faults.answer(404, {**STATUS, "code": 404}),
    "409": faults.answer(409, {**STATUS, "code": 409}),
    "422": faults.answer(422, {**STATUS, "code": 422, "details": {"causes": [7, {"field": 7}]}}),
    "429": faults.answer(429, {**STATUS, "code": 429}, {"Retry-After": "9" * 400}),
    "500": faults.answer(500, STATUS),
    "302": faults.answer(302, b"", {"Location": "/elsewhere"}),
}
PATHS = [
    "^/version",
    "/leases/x",
    "selfsubjectaccessreviews",
    "/pods/x-0",
    "leasecandidates|/coordination.k8s.io(/v1.*)?$",
]


@pytest.mark.timeout(900)  # many processes, one after the other
@pytest.mark.parametrize("path", PATHS)
def test_check_reports_any_response_of_the_server_in_lines(
    own_plane: ControlPlane, namespace: str, proxy: HttpProxy, path: str, trials: Trials
) -> None:
    config = own_plane.kubeconfig(own_plane.new_user(), namespace, server=proxy.url)
    options = ["--coordinated", "--binary-version=1.36.0"]
    for answer in ANSWERS.values():
        rule = proxy.on(answer, path=path, times=None)
        report = ReportHere(config, *options, POD_NAME="x-0", POD_NAMESPACE=namespace)
        assert rule.hits
        assert report.worst()
        assert "\x1b" not in report.text
        rule.remove()
    trials.count(len(ANSWERS), "answers that are none")


@pytest.mark.parametrize(
    "metadata", [{"managedFields": 7, "annotations": [], "ownerReferences": 7}, {"managedFields": [7]}]
)
@pytest.mark.parametrize("lock", ["lease", "leader-for-life"])
def test_check_reports_an_object_with_malformed_metadata_in_one_line(
    own_plane: ControlPlane, namespace: str, proxy: HttpProxy, lock: str, metadata: dict[str, Any]
) -> None:
    kind = "Lease" if lock == "lease" else "ConfigMap"
    thing = {"kind": kind, "metadata": {"name": "x", "uid": "u", "resourceVersion": "1", **metadata}, "spec": {}}
    proxy.on(faults.answer(200, thing), path="/(leases|configmaps)/x", times=None)
    config = own_plane.kubeconfig(own_plane.new_user(), namespace, server=proxy.url)
    report = Report(config, f"--lock={lock}", POD_NAME="x-0", POD_NAMESPACE=namespace)
    assert len(report.of("lock")) == 1


def test_an_unreachable_server_is_one_failure_that_ends_the_check(
    own_plane: ControlPlane, namespace: str, tmp_path: Path
) -> None:
    for config in (own_plane.kubeconfig(server="https://127.0.0.1:1"), own_plane.kubeconfig(token="wrong")):
        report = Report(config)
        assert [check for _, check, _ in report.lines] == ["timings", "API"]
        assert report.of("API")[0].startswith("fail ")
    report = Report(tmp_path / "none")
    assert "cannot use the kubeconfig" in report.of("API")[0]


def test_the_json_report_has_the_same_results(plane: Plane, namespace: str) -> None:
    argv = [sys.executable, "-m", "kleader", "check", "-o", "json", *PATIENT, "--", "./worker"]
    config = str(plane.kubeconfig(namespace=namespace))
    done = subprocess.run(
        argv, capture_output=True, text=True, check=True, env={**_surroundings(), "KUBECONFIG": config}
    )
    report = json.loads(done.stdout)
    assert report["ok"] is True
    assert {each["level"] for each in report["findings"]} == {"ok"}
    assert f"lease {namespace}/worker" in [each["message"] for each in report["findings"]]
