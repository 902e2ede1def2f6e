"""How often a rolling update of three Pods changes the leader: once, also if it is paused in between or rolled back."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.node.conftest import IMAGE, LOCK, rolled_out
from tests.support.api import ApiError, lease_path, path
from tests.support.processes import wait_until

if TYPE_CHECKING:
    from tests.node.conftest import Namespace
    from tests.support.api import Object

pytestmark = pytest.mark.timeout(900)
LONG = 500  # seconds for which a new Pod has to be ready: the rollout stops with one of them


class Deployment:
    """Three Pods of kleader as its manifest describes them, whose command takes a second to stop."""

    def __init__(self, namespace: Namespace) -> None:
        self._namespace, self._api = namespace, namespace.api
        self._path = namespace.deploy("--replicas=3", f"--image={IMAGE}", "--", *namespace.command("--term-delay=1"))
        self._ready_seconds = self._api.get(self._path)["spec"]["minReadySeconds"]
        namespace.witness.wait_start()

    def roll(self, *, back: bool = False, **spec: object) -> None:
        """To another template, or back to the one before."""
        template = {"metadata": {"annotations": {"template": None if back else "another"}}}
        self._api.merge(self._path, {"spec": {"template": template, **spec}})

    def settled(self) -> int:
        """Wait until it is rolled out, no old Pod is left, and a candidate leads; the number of terms so far."""
        self._api.wait(self._path, rolled_out, "three Pods of the newest template")
        pods = path("v1", "Pod", self._namespace.name)
        wait_until(lambda: len(self._api.list(pods)) == 3, "the end of the old Pods")
        wait_until(lambda: not self._namespace.witness.terms()[-1].main.ended, "a leader")
        return len(self._namespace.witness.terms())

    def roll_half_and_pause(self) -> None:
        """Beside the three old Pods one of another template waits for the lock."""
        wait_until(lambda: self._standbys == 2, "two standbys in the list")
        self.roll(minReadySeconds=LONG)
        wait_until(lambda: self._standbys == 3, "the new standby in the list")
        self._api.merge(self._path, {"spec": {"paused": True, "minReadySeconds": self._ready_seconds}})
        self._api.wait(self._path, _is_observed, "the pause")

    def resume(self) -> None:
        self._api.merge(self._path, {"spec": {"paused": False}})

    @property
    def leads(self) -> str:
        """Which template the leader's Pod has: a hash."""
        pod = self._api.get(self._namespace.pod_of(self._namespace.leader()))
        return str(pod["metadata"]["labels"]["pod-template-hash"])

    @property
    def _standbys(self) -> int:
        try:
            listed = self._api.get(lease_path(self._namespace.name, f"candidates.{LOCK}"))["metadata"]["annotations"]
        except ApiError:
            return 0
        return sum(key.startswith("kleader/candidate-") for key in listed)


def _is_observed(deployment: Object | None) -> bool:
    """Whether the Deployment's controller has seen the last change."""
    assert deployment
    return bool(deployment["status"]["observedGeneration"] >= deployment["metadata"]["generation"])


def test_a_rolling_update_and_its_rollback_change_the_leader_once_each(namespace: Namespace) -> None:
    """A rollback makes the template of the older ReplicaSet the newest."""
    deployment = Deployment(namespace)
    first = deployment.leads
    deployment.roll()
    assert deployment.settled() == 2
    assert deployment.leads != first
    deployment.roll(back=True)
    assert deployment.settled() == 3
    assert deployment.leads == first


@pytest.mark.parametrize("then", ["resumed", "rolled back"])
def test_the_new_pod_of_a_paused_rollout_leads_next_and_stays_if_that_is_resumed(
    namespace: Namespace, then: str
) -> None:
    """If the rollout is rolled back, one of the old Pods leads next, and stays."""
    deployment = Deployment(namespace)
    first = deployment.leads
    deployment.roll_half_and_pause()
    namespace.api.delete(namespace.pod_of(namespace.leader()))
    namespace.witness.wait_start(2)
    assert deployment.leads != first
    if then == "resumed":
        deployment.resume()
    else:
        deployment.roll(back=True, paused=False)
    assert deployment.settled() == (2 if then == "resumed" else 3)
    assert (deployment.leads == first) is (then == "rolled back")
