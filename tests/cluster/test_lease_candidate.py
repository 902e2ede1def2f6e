"""A LeaseCandidate at the real API server, and what discovery says of it."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

import pytest

from kleader.election.events import Kind
from kleader.election.record import micro_time, parse_time
from kleader.kube.errors import LockError
from kleader.locks import lease_candidate as candidates
from kleader.locks.lease_candidate import Description, LeaseCandidate, served_version
from kleader.locks.rbac import lock_permissions, role_rules
from tests.support import faults
from tests.support.api import path
from tests.support.controlplane import ControlPlane
from tests.support.httpproxy import HttpProxy
from tests.support.objects import lease_candidate
from tests.support.processes import PATIENCE

if TYPE_CHECKING:
    from tests.cluster.contract import Client
    from tests.conftest import Trials
    from tests.support.api import Object
    from tests.support.httpproxy import Action
    from tests.support.plane import Plane

BETA = "coordination.k8s.io/v1beta1"
GROUP = "/apis/coordination.k8s.io"
ROUNDS = 60
HOUR = 3600 * 1_000_000  # microseconds
ABOUT = Description("me", "x", "1.36.0", "1.35.1")


class Known:
    """One candidate, at the API server."""

    def __init__(self, client: Client, plane: Plane, namespace: str) -> None:
        self.client, self.plane, self.namespace = client, plane, namespace
        self.path = path(BETA, "LeaseCandidate", namespace, "me")
        self.said: list[str] = []

    def user(self) -> str:
        """One who may do just what is needed."""
        assert isinstance(self.plane, ControlPlane)
        user = self.plane.new_bare_user()
        self.plane.grant(user, self.namespace, role_rules(lock_permissions("lease", "x", candidate="me")))
        return user

    def make(self, *, user: str = "admin", server: str | None = None, **about: str) -> None:
        self.api = self.client.api(self.plane, self.namespace, user, server)
        self.candidate = self.client.run(self._another(ABOUT._replace(**about)))

    async def come_and_go(self, pause: float) -> None:
        candidate = await self._another(ABOUT)
        await candidate.ensure_registered(10)
        await asyncio.sleep(pause)
        await candidate.unregister(60)

    async def _another(self, about: Description) -> LeaseCandidate:
        return LeaseCandidate(self.api, "v1beta1", self.namespace, about, 10, 2, self.said.append)

    def registers(self, **options: Any) -> None:  # noqa: ANN401
        self.make(**options)
        self.client.run(self.candidate.ensure_registered(10))

    def leaves(self, timeout: float = 10) -> None:
        self.client.run(self.candidate.unregister(timeout))

    def found(self) -> Object | None:
        return self.plane.api.find(self.path)

    def spec(self) -> Object:
        found = self.found()
        assert found
        spec: Object = found["spec"]
        return spec

    def pinged(self, at: int) -> Object:
        """The control plane asks for a sign of life; the state with the first one since."""
        state = self.plane.api.merge(self.path, {"spec": {"pingTime": micro_time(at)}})
        while _time(state, "renewTime") < at:
            state = self.later(state)
        return state

    def later(self, state: Object, timeout: float = PATIENCE) -> Object:
        """The state with the next sign of life; TimeoutError."""
        for _, seen in self.plane.api.watch(self.path, version=state["metadata"]["resourceVersion"], timeout=timeout):
            if seen["spec"]["renewTime"] != state["spec"]["renewTime"]:
                return seen
        raise TimeoutError

    def gives_later(self, signs: int, state: Object) -> None:
        """So many signs of life, and then none for a while."""
        for _ in range(signs):
            state = self.later(state)
        with pytest.raises(TimeoutError):
            self.later(state, timeout=1.5)

    def schedule_renewals(self, seconds: float) -> None:
        async def tell() -> None:
            self.candidate.schedule_renewals(seconds)

        self.client.run(tell())


def _time(candidate: Object, field: str) -> int:
    return parse_time(candidate["spec"][field])


def now() -> int:
    return time.time_ns() // 1000


@pytest.fixture
def known(client: Client, own_plane: ControlPlane, namespace: str) -> Known:
    return Known(client, own_plane, namespace)


# --- kept


def test_lease_candidate_has_the_fields_of_client_go(known: Known) -> None:
    before = now()
    known.registers()
    spec = known.spec()
    assert before <= parse_time(spec.pop("renewTime")) <= now()
    assert spec == {
        "leaseName": "x",
        "binaryVersion": "1.36.0",
        "emulationVersion": "1.35.1",
        "strategy": "OldestEmulationVersion",
    }
    known.leaves()
    assert known.found() is None
    assert known.said == []


def test_ping_of_the_control_plane_is_answered(known: Known) -> None:
    known.registers()
    for _ in range(3):
        known.pinged(now())
    known.leaves()
    assert known.said == []


def test_answer_to_a_ping_is_never_earlier_than_the_ping(known: Known) -> None:
    """As it would be by a clock that is slow, and the control plane would take the candidate for dead."""
    known.registers()
    asked = now() + HOUR
    known.pinged(asked)
    assert parse_time(known.spec()["renewTime"]) == asked
    known.leaves()


def test_lease_candidate_is_renewed_in_time(known: Known, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(candidates, "RENEWAL", 0.3)
    known.registers()
    for _ in range(3):
        before = known.spec()["renewTime"]
        known.plane.api.wait(known.path, lambda seen: seen and seen["spec"]["renewTime"] > before, "a renewal")  # noqa: B023
    known.leaves()


def test_ping_without_a_new_leader_is_answered_once_more(known: Known, monkeypatch: pytest.MonkeyPatch) -> None:
    """By then the control plane ignores candidates that do not answer, and the first answer is too old."""
    monkeypatch.setattr(candidates, "PING_TIMEOUT", 0.1)
    known.registers()
    known.gives_later(1, known.pinged(now()))
    known.leaves()


def test_lease_candidate_is_renewed_twice_if_the_nominated_candidate_does_not_lead(
    known: Known, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(candidates, "PING_TIMEOUT", 0.1)
    known.registers()
    state = known.plane.api.get(known.path)
    known.schedule_renewals(0.2)
    known.gives_later(2, state)
    known.leaves()


def test_deleted_lease_candidate_is_created_again(known: Known) -> None:
    known.registers()
    for _ in range(2):
        found = known.found()
        assert found
        known.plane.api.delete(known.path)
        known.plane.api.wait(
            known.path,
            lambda seen: seen and seen["metadata"]["uid"] != found["metadata"]["uid"],  # noqa: B023
            "another",
        )
    known.leaves()
    assert known.found() is None


def test_lease_candidate_left_by_a_crash_is_reused_with_its_foreign_data(known: Known) -> None:
    left = lease_candidate(known.namespace, "me", "x", binary="1.30.0", emulation="1.30.0")
    left["metadata"]["labels"] = {"kept": "1"}
    uid = known.plane.api.create(left)["metadata"]["uid"]
    known.registers()
    found = known.found()
    assert found
    assert (found["metadata"]["uid"], found["metadata"]["labels"]) == (uid, {"kept": "1"})
    assert (found["spec"]["binaryVersion"], found["spec"]["emulationVersion"]) == ("1.36.0", "1.35.1")
    known.pinged(now())
    known.leaves()


def test_lease_candidate_of_another_lock_is_not_touched(known: Known) -> None:
    theirs = known.plane.api.create(lease_candidate(known.namespace, "me", "other"))
    with pytest.raises(LockError, match=r"/me belongs to the lock other: give another --identity") as error:
        known.registers()
    assert error.value.failure.kind is Kind.REFUSED
    known.leaves()
    assert known.found() == theirs


def test_candidate_without_watch_permission_on_its_lease_candidate_polls_it(
    known: Known, own_plane: ControlPlane
) -> None:
    user = own_plane.new_bare_user()
    allowed = [
        each for each in lock_permissions("lease", "x", candidate="me") if each[1:3] != ("leasecandidates", "watch")
    ]
    own_plane.grant(user, known.namespace, role_rules(allowed))
    known.registers(user=user)
    for _ in range(2):
        known.pinged(now())
    known.leaves()
    (said,) = known.said
    assert "cannot watch resource" in said
    assert said.endswith("; polling instead")


def test_pings_are_answered_again_when_the_api_server_is_back(known: Known, own_plane: ControlPlane) -> None:
    known.registers()
    own_plane.apiserver.kill()
    own_plane.apiserver.start()
    known.pinged(now())
    known.leaves()
    assert known.found() is None


# --- left


def test_pending_write_does_not_recreate_an_unregistered_lease_candidate(known: Known, own_plane: ControlPlane) -> None:
    with HttpProxy(own_plane) as proxy:
        known.registers(user=known.user(), server=proxy.url)
        held = proxy.on(faults.slow(before=1), method="PUT", path="/leasecandidates/")
        known.plane.api.merge(known.path, {"spec": {"pingTime": micro_time(now() + HOUR)}})
        held.wait()
        known.leaves()
    assert known.found() is None
    assert [each.method for each in proxy.requests if "/leasecandidates/" in each.path][-2:] == ["PUT", "DELETE"]


@pytest.mark.timeout(540)
def test_unregistering_at_any_moment_after_registering_deletes_the_lease_candidate(
    known: Known, trials: Trials
) -> None:
    """The watch is being opened then: its cancellation may be lost (asyncio.wait_for before Python 3.12)."""
    known.make()
    for number in range(ROUNDS):
        known.client.run(asyncio.wait_for(known.come_and_go(number / ROUNDS * 0.03), 20))
    assert known.found() is None
    trials.count(ROUNDS, "candidates left just after they were registered")


def test_lease_candidate_is_deleted_after_a_write_with_unknown_outcome(known: Known, own_plane: ControlPlane) -> None:
    with HttpProxy(own_plane) as proxy:
        proxy.on(faults.lose("reset"), method="PUT", path="/leasecandidates/")
        with pytest.raises(LockError):
            known.registers(user=known.user(), server=proxy.url)
        assert known.found()
        known.leaves()
    assert known.found() is None


def test_unregistered_lease_candidate_is_not_registered_again(known: Known) -> None:
    known.registers()
    known.leaves()
    known.client.run(known.candidate.ensure_registered(10))
    known.leaves()
    assert known.found() is None


def test_unregistering_a_missing_lease_candidate_succeeds(known: Known) -> None:
    known.make()
    known.leaves()
    known.registers()
    known.plane.api.delete(known.path)
    known.leaves()
    assert known.found() is None


def test_unregistering_is_bounded_by_its_timeout(known: Known, own_plane: ControlPlane) -> None:
    with HttpProxy(own_plane) as proxy:
        known.registers(user=known.user(), server=proxy.url)
        proxy.on(faults.silence(), path="/leasecandidates/", times=None)
        with pytest.raises(LockError, match=r"did not answer within \d+(\.\d+)?ms: "):
            known.leaves(timeout=0.5)


# --- discovery


def test_a_cluster_serves_lease_candidates_only_with_the_feature_gate(
    client: Client, plane: Plane, plain_plane: ControlPlane, namespace: str
) -> None:
    assert client.run(served_version(client.api(plane, namespace, "admin"), 10)) == "v1beta1"
    assert client.run(served_version(client.api(plain_plane, namespace, "admin"), 10)) == ""


def group(*versions: str) -> Object:
    return {"kind": "APIGroup", "versions": [{"version": version} for version in ("v1", *versions)]}


def resources(*names: str) -> Object:
    return {"kind": "APIResourceList", "resources": [{"name": name} for name in names]}


ANSWERS: list[tuple[dict[str, Object], str]] = [
    ({"": group()}, ""),
    ({"": group("v1beta1"), "/v1beta1": resources("leases")}, ""),  # Kubernetes 1.14 to 1.21
    ({"": group("v1alpha2"), "/v1alpha2": resources("leasecandidates")}, "v1alpha2"),
    ({"": group("v1beta1", "v1alpha2"), "/v1beta1": resources("leasecandidates")}, "v1beta1"),
    ({"": group("v1", "v1beta1"), "/v1": resources("leases", "leasecandidates")}, "v1"),
    ({"": group("v1alpha1"), "/v1alpha1": resources("leasecandidates")}, ""),  # of another shape
]


@pytest.mark.parametrize(("said", "version"), ANSWERS)
def test_first_served_version_of_lease_candidates_is_used(
    client: Client, own_plane: ControlPlane, namespace: str, said: dict[str, Object], version: str
) -> None:
    with HttpProxy(own_plane) as proxy:
        for where, body in said.items():
            proxy.on(faults.answer(200, body), path=f"{GROUP}{where}$")
        assert (
            client.run(served_version(client.api(own_plane, namespace, own_plane.new_user(), proxy.url), 10)) == version
        )


@pytest.mark.parametrize("where", ["", "/v1beta1"])
@pytest.mark.parametrize(
    "action",
    [
        faults.answer(401),
        faults.answer(403),
        faults.answer(404),
        faults.answer(500),
        faults.answer(200, b"<html>"),
        faults.answer(200, b"{}"),
        faults.answer(200, {"versions": None, "resources": None}),
        faults.answer(200, {"versions": ["v1"], "resources": ["leases"]}),
        faults.lose("reset"),
    ],
    ids=["401", "403", "404", "500", "page", "nothing", "null", "no objects", "lost"],
)
def test_failed_discovery_is_not_taken_for_missing_lease_candidates(
    client: Client, own_plane: ControlPlane, namespace: str, where: str, action: Action
) -> None:
    with HttpProxy(own_plane) as proxy:
        proxy.on(action, path=f"{GROUP}{where}$")
        api = client.api(own_plane, namespace, own_plane.new_user(), proxy.url)
        with pytest.raises(LockError):
            client.run(served_version(api, 10))
