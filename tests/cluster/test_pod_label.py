"""The label of the Pod tells its role as far as the API server can be reached, and holds nothing up."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING, Any

import pytest

from kleader.locks.rbac import (
    event_permissions,
    lock_permissions,
    pod_label_permissions,
    registration_permissions,
    role_rules,
)
from tests.cluster.fleet import PATIENT, SHORT, elector, kill_whole
from tests.support import faults
from tests.support.api import path
from tests.support.httpproxy import HttpProxy
from tests.support.processes import wait_until

if TYPE_CHECKING:
    from tests.cluster.fleet import Fleet
    from tests.support.api import Object
    from tests.support.controlplane import ControlPlane
    from tests.support.processes import Process

KEY = "example.com/role"
OPTION = f"--pod-label={KEY}=leader,standby"
PATIENTLY, DEAF = ["--stop-timeout=600s"], ["--ignore-term"]


class Labelled:
    """Candidates in Pods."""

    def __init__(self, fleet: Fleet, plane: ControlPlane) -> None:
        self.fleet, self.plane, self.namespace = fleet, plane, fleet.namespace

    def user(self) -> str:
        """One who is allowed what the lock and the label need, and no more."""
        user: str = self.plane.new_bare_user()
        self.plane.grant(
            user,
            self.namespace,
            role_rules(
                (
                    *lock_permissions("lease", "x"),
                    *pod_label_permissions(),
                    *registration_permissions("x"),
                    *event_permissions(),
                )
            ),
        )
        return user

    def start(self, name: str, *options: str, **more: Any) -> Process:  # noqa: ANN401
        if self.plane.api.find(self.path(name)) is None:
            self.plane.new_pod(self.namespace, name)
        uid = self.plane.api.get(self.path(name))["metadata"]["uid"]
        home = {"POD_NAME": name, "POD_NAMESPACE": self.namespace, "POD_UID": uid} | more.pop("env", {})
        user, server = more.pop("user", "") or self.user(), more.pop("server", None)
        config = self.plane.kubeconfig(user, self.namespace, server=server)
        more = {"timings": PATIENT, **more}
        return self.fleet.start(name, *(options or (OPTION,)), env=home, kubeconfig=config, **more)

    def path(self, name: str) -> str:
        return path("v1", "Pod", self.namespace, name)

    def role(self, name: str) -> str | None:
        labels: Object = self.plane.api.get(self.path(name))["metadata"].get("labels", {})
        return labels.get(KEY)

    def wait_role(self, name: str, role: str | None) -> None:
        wait_until(lambda: self.role(name) == role, f"the label {role} of {name}")


@pytest.fixture
def labelled(fleet: Fleet, own_plane: ControlPlane) -> Labelled:
    return Labelled(fleet, own_plane)


def end(candidate: Process) -> None:
    candidate.signal(signal.SIGTERM)
    assert candidate.wait() == 0


def end_once_labelled(labelled: Labelled, candidate: Process, name: str, role: str | None) -> None:
    """Its command, deaf to TERM, ends when the label has been seen: the release waits but half a second for that."""
    command = labelled.fleet.witness.terms()[-1].pid
    candidate.signal(signal.SIGTERM)
    labelled.wait_role(name, role)
    os.kill(command, signal.SIGKILL)
    assert candidate.wait() == 128 + signal.SIGKILL


def test_label_shows_the_leader_and_is_taken_back_before_the_release(
    labelled: Labelled, own_plane: ControlPlane
) -> None:
    """It is taken back before the lock is released: as soon as the command is asked to stop."""
    user = labelled.user()
    first = labelled.start("a", OPTION, *PATIENTLY, user=user, does=DEAF)
    labelled.fleet.witness.wait_start()
    labelled.wait_role("a", "leader")
    second = labelled.start("b")
    labelled.wait_role("b", "standby")
    end_once_labelled(labelled, first, "a", "standby")
    labelled.fleet.witness.wait_start(2)
    labelled.wait_role("b", "leader")
    assert labelled.role("a") == "standby"
    asked = [(each["verb"], each["objectRef"]["resource"]) for each in own_plane.audit_requests(user)]
    last = max(at for at, what in enumerate(asked) if what == ("patch", "pods"))
    release = max(at for at, what in enumerate(asked) if what == ("update", "leases"))
    assert last < release
    end(second)
    labelled.fleet.witness.check(terms=2)


def test_replacement_elector_does_not_label_a_leader_that_is_stopping(labelled: Labelled) -> None:
    """It knows its predecessor's label."""
    leader = labelled.start("a", OPTION, *PATIENTLY, does=DEAF)
    term = labelled.fleet.witness.wait_start()
    labelled.wait_role("a", "leader")
    leader.signal(signal.SIGTERM)
    labelled.wait_role("a", "standby")
    os.kill(elector(leader), signal.SIGKILL)
    leader.wait_log("elector_replaced")
    labelled.fleet.wait_renewals(2)
    assert labelled.role("a") == "standby"
    os.kill(term.pid, signal.SIGKILL)
    assert leader.wait() == 128 + signal.SIGKILL
    assert labelled.role("a") == "standby"
    labelled.fleet.witness.check(terms=1)


def test_label_without_a_standby_value_is_removed_from_other_candidates(labelled: Labelled) -> None:
    """What an earlier process of the Pod has left is put right by the next."""
    one = f"--pod-label={KEY}=leader"
    first = labelled.start("a", one, timings=SHORT)
    labelled.fleet.witness.wait_start()
    labelled.wait_role("a", "leader")
    kill_whole(first)
    assert labelled.role("a") == "leader"
    second = labelled.start("b", one, *PATIENTLY, does=DEAF)
    labelled.fleet.witness.wait_start(2)
    labelled.wait_role("b", "leader")
    assert labelled.role("a") == "leader"
    again = labelled.start("a", one)
    labelled.wait_role("a", None)
    again.signal(signal.SIGTERM)
    assert again.wait() == 128 + signal.SIGTERM
    end_once_labelled(labelled, second, "b", None)


def test_candidate_without_permission_to_label_its_pod_leads_with_one_warning(
    labelled: Labelled, own_plane: ControlPlane
) -> None:
    """One warning, whatever the number of tries; and the release is not held up for longer than it says."""
    user = own_plane.new_bare_user()
    own_plane.grant(user, labelled.namespace, role_rules((*lock_permissions("lease", "x"), *event_permissions())))
    candidate = labelled.start("a", user=user)
    labelled.fleet.witness.wait_start()
    candidate.wait_log("", f"grant patch on pods, so that the label {KEY} shows which candidate leads", level="WARNING")
    end(candidate)
    assert candidate.err.count("grant patch on pods") == 1
    candidate.wait_log("released")
    labelled.fleet.witness.check(terms=1)


def test_hanging_label_requests_delay_neither_start_nor_renewal_nor_release(
    labelled: Labelled, own_plane: ControlPlane
) -> None:
    with HttpProxy(own_plane) as proxy:
        rule = proxy.on(faults.silence(), method="PATCH", path=r"/pods/", times=None)
        candidate = labelled.start("a", server=proxy.url, timings=SHORT)
        labelled.fleet.witness.wait_start()
        rule.wait()
        labelled.fleet.wait_led_beyond(6)
        end(candidate)
        candidate.wait_log("released")
    labelled.fleet.witness.check(terms=1)


def test_pod_of_the_same_name_with_another_uid_is_not_labelled(labelled: Labelled) -> None:
    candidate = labelled.start("a", env={"POD_UID": "00000000-0000-0000-0000-000000000000"})
    labelled.fleet.witness.wait_start()
    candidate.wait_log("", f"the Pod's label {KEY} is not written: ", level="WARNING")
    end(candidate)
    assert labelled.role("a") is None


def test_unhealthy_leader_gives_its_label_back(labelled: Labelled, tmp_path: Any) -> None:  # noqa: ANN401
    """Another leads, and has it."""
    well = tmp_path / "well"
    well.touch()
    health = (f"--health=test -e {well}", "--health-period=500ms", "--health-failures=2", "--on-loss=wait")
    first = labelled.start("a", OPTION, *health, timings=SHORT)
    labelled.fleet.witness.wait_start()
    labelled.wait_role("a", "leader")
    second = labelled.start("b")
    labelled.wait_role("b", "standby")
    well.unlink()
    assert labelled.fleet.witness.wait_start(2).identity == "b"
    labelled.wait_role("b", "leader")
    labelled.wait_role("a", "standby")
    first.signal(signal.SIGTERM)
    assert first.wait() == 128 + signal.SIGTERM
    end(second)
    labelled.fleet.witness.check(terms=2)
