"""Candidates that wait make themselves known at the real API server, and nothing depends on that."""

from __future__ import annotations

import json
import os
import signal
import sys
from typing import TYPE_CHECKING, Any

import pytest

from kleader.locks.candidate_registry import REGISTRY
from kleader.locks.rbac import event_permissions, lock_permissions, registration_permissions, role_rules
from tests.cluster.fleet import PATIENT, elector, health
from tests.support.api import lease, lease_path
from tests.support.processes import wait_until

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cluster.fleet import Fleet
    from tests.support.controlplane import ControlPlane
    from tests.support.processes import Processes


def status(fleet: Fleet, processes: Processes, *options: str) -> str:
    config = fleet.plane.kubeconfig(namespace=fleet.namespace)
    argv = [sys.executable, "-m", "kleader", "status", f"--kubeconfig={config}", *options]
    asked = processes.start(argv, name="status")
    assert asked.wait() == 0, asked.err
    return asked.out


def wait_states(fleet: Fleet, **wanted: str) -> None:
    """Return once the list has these candidates, each in its state, and no other."""

    def listed(found: Any) -> bool:  # noqa: ANN401 - an object
        notes = found["metadata"].get("annotations", {}) if found else {}
        entries = [json.loads(text) for key, text in notes.items() if key != REGISTRY]
        return {each["identity"]: each["state"] for each in entries} == wanted

    fleet.plane.api.wait(lease_path(fleet.namespace, f"candidates.{fleet.name}"), listed, f"the candidates {wanted}")


def test_status_shows_the_leader_and_each_standby_with_its_state(
    fleet: Fleet, processes: Processes, well: Path
) -> None:
    fleet.start("beat-0", timings=PATIENT, env={"POD_NAME": "pod-0"})
    fleet.witness.wait_start()
    ready = fleet.waiting("beat-1", "--priority=3", behind="beat-0", timings=PATIENT, env={"POD_NAME": "pod-1"})
    sick = fleet.waiting("beat-2", *health(well), behind="beat-0", timings=PATIENT)
    well.unlink()
    wait_states(fleet, **{"beat-1": "ready", "beat-2": "unhealthy"})
    table, _, listed = status(fleet, processes, "x").partition("\n\n")
    assert "1 ready, 1 unhealthy" in table
    rows = [line.split() for line in listed.splitlines()]
    assert [row[:3] for row in rows[1:]] == [
        ["beat-0", "leader", "<none>"],
        ["beat-1", "ready", "3"],
        ["beat-2", "unhealthy", "0"],
    ]
    assert rows[1][-2:] == ["pod-0", "<none>"]
    (found,) = json.loads(status(fleet, processes, "-o", "json"))["items"]
    assert found["pod"] == "pod-0"
    assert [(each["identity"], each["pod"]) for each in found["candidates"]] == [("beat-1", "pod-1"), ("beat-2", "")]
    well.touch()
    wait_states(fleet, **{"beat-1": "ready", "beat-2": "ready"})
    sick.signal(signal.SIGTERM)
    assert sick.wait() == 128 + signal.SIGTERM
    wait_states(fleet, **{"beat-1": "ready"})
    ready.signal(signal.SIGTERM)
    assert ready.wait() == 128 + signal.SIGTERM
    wait_states(fleet)
    assert "<none>" in status(fleet, processes, "x")


def test_a_leader_is_not_listed_and_a_replaced_elector_leaves_no_second_entry(fleet: Fleet) -> None:
    first = fleet.start("a", timings=PATIENT)
    fleet.witness.wait_start()
    second = fleet.waiting("b", behind="a", timings=PATIENT)
    wait_states(fleet, b="ready")
    killed = elector(second)
    os.kill(killed, signal.SIGKILL)
    wait_until(lambda: elector(second) != killed, "another elector")
    first.signal(signal.SIGTERM)
    assert first.wait() == 0
    assert fleet.witness.wait_start(2).identity == "b"
    wait_states(fleet)
    second.signal(signal.SIGTERM)
    assert second.wait() == 0
    fleet.witness.check(terms=2)


@pytest.mark.parametrize("permissions", ["none", "exactly those of the Role"])
def test_candidate_that_may_not_register_warns_once_and_leads(
    own_plane: ControlPlane, fleet: Fleet, permissions: str
) -> None:
    granted = registration_permissions("x") if permissions != "none" else ()
    user = own_plane.new_bare_user()
    rules = role_rules((*lock_permissions("lease", "x"), *granted, *event_permissions()))
    own_plane.grant(user, fleet.namespace, rules)
    first = fleet.start("a", timings=PATIENT)
    fleet.witness.wait_start()
    config = own_plane.kubeconfig(user, fleet.namespace)
    second = fleet.waiting("b", behind="a", timings=PATIENT, kubeconfig=config)
    if granted:
        wait_states(fleet, b="ready")
    else:
        second.wait_err("warning: grant get, update, create and patch on the Lease candidates.x, so that")
    first.signal(signal.SIGTERM)
    assert first.wait() == 0
    assert fleet.witness.wait_start(2).identity == "b"
    if not granted:
        second.wait_err("warning: grant watch on the Lease candidates.x, so that")
    second.signal(signal.SIGTERM)
    assert second.wait() == 0
    assert second.err.count("warning: grant ") == (0 if granted else 2)
    fleet.witness.check(terms=2)


def test_lock_of_another_program_with_the_name_of_the_list_is_left_alone(fleet: Fleet) -> None:
    fleet.plane.api.create(lease(fleet.namespace, "candidates.x", "somebody"))
    fleet.start("a", timings=PATIENT)
    fleet.witness.wait_start()
    second = fleet.waiting("b", behind="a", timings=PATIENT)
    second.wait_err("warning: .*the Lease .*/candidates.x is another program's")
    found = fleet.plane.api.get(lease_path(fleet.namespace, "candidates.x"))
    assert found["spec"]["holderIdentity"] == "somebody"
    assert not found["metadata"].get("annotations")
