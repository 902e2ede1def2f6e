"""The manifests of the README are what a cluster takes, and their permissions are enough."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import yaml  # type: ignore[import-untyped,unused-ignore]

from tests.support.api import lease, lease_path

if TYPE_CHECKING:
    from tests.support.api import Object
    from tests.support.controlplane import ControlPlane
    from tests.support.plane import Plane
    from tests.support.processes import Processes

README = (Path(__file__).parents[2] / "README.md").read_text("utf-8")
MANIFESTS: dict[str, Object] = {
    found["kind"]: found for found in map(yaml.safe_load, re.findall(r"```yaml\n(.*?)```", README, re.DOTALL))
}


def test_the_role_is_enough_to_wait_lead_and_release(
    own_plane: ControlPlane, namespace: str, processes: Processes
) -> None:
    """It watches (it does not fall back to polling), takes over, creates where there is none, and releases."""
    user = own_plane.new_bare_user()
    own_plane.grant(user, namespace, MANIFESTS["Role"]["rules"])
    own_plane.api.create(lease(namespace, "worker", "somebody", duration=3600))
    config = own_plane.kubeconfig(user, namespace)
    argv = [sys.executable, "-m", "kleader", "run", "--name=worker", f"--kubeconfig={config}", "--", "echo", "ran"]
    process = processes.start(argv)
    process.wait_err("the leader is somebody")
    own_plane.api.merge(lease_path(namespace, "worker"), {"spec": {"holderIdentity": ""}})
    assert process.wait() == 0, process.err
    own_plane.api.delete(lease_path(namespace, "worker"))
    again = processes.start(argv)
    assert again.wait() == 0, again.err
    for each in (process, again):
        assert each.out == "ran\n"
        assert "released the lock" in each.err
        assert "polling" not in each.err


def test_the_deployment_is_taken_by_the_server(plane: Plane, namespace: str) -> None:
    status, text = plane.api.request(
        "POST", f"/apis/apps/v1/namespaces/{namespace}/deployments?dryRun=All", MANIFESTS["Deployment"]
    )
    assert status == 201, text
