"""`kleader wait`: for a leader, for none, for a change, for one leader; beside kleader and client-go."""

from __future__ import annotations

import contextlib
import itertools
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

from tests.cluster.fleet import PATIENT, Fleet, kill_whole
from tests.support.api import lease
from tests.support.faults import silence
from tests.support.httpproxy import HttpProxy
from tests.support.objects import config_map, record
from tests.support.port import LOOPBACK
from tests.support.processes import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support.controlplane import ControlPlane
    from tests.support.plane import Plane
    from tests.support.processes import Process, Processes

    Wait = Callable[..., Process]

NOT_YET, FAILED = 124, 125
DEAD = {"renewTime": "2020-01-01T00:00:00.000000Z"}


def begun(plane: ControlPlane, process: Process, user: str, plural: str = "leases") -> Process:
    """Return the process once it has looked, and watches."""

    def watches() -> bool:
        asked = [each for each in plane.audit_requests(user) if each["objectRef"]["resource"] == plural]
        return any(each["verb"] == "watch" for each in asked)

    wait_until(watches, f"{process.name} watches")
    return process


@pytest.fixture
def wait(plane: Plane, namespace: str, processes: Processes) -> Wait:
    """Start `kleader wait --for WANTED x`."""

    def start(wanted: str, *args: str, user: str = "admin", server: str | None = None) -> Process:
        config = plane.kubeconfig(user, namespace, server=server)
        argv = [sys.executable, "-m", "kleader", "wait", f"--for={wanted}", "x", f"--kubeconfig={config}", *args]
        return processes.start(argv, name=f"wait-{wanted}")

    return start


def test_wait_for_leader_ends_when_a_leader_is_observed_alive(fleet: Fleet, wait: Wait) -> None:
    """A holder of which only the record is known may be dead."""
    fleet.plane.api.create(lease(fleet.namespace, "x", "old", 5))
    hasty, patient, named = wait("leader", "--timeout=4s"), wait("leader"), wait("a", "--timeout=60s")
    assert hasty.wait() == NOT_YET
    assert hasty.err == "kleader: error: no leader was observed within 4s\n"
    assert patient.running
    fleet.start("a")
    assert (patient.wait(), named.wait()) == (0, 0)
    assert patient.out.startswith("lease.coordination.k8s.io/x a leads, ")
    running = wait("a")
    assert running.wait() == 0
    assert running.out == "lease.coordination.k8s.io/x held by a\n"
    assert wait("b", "--timeout=4s").wait() == NOT_YET


def test_wait_for_free_ends_at_a_release_a_deletion_or_an_observed_expiry(fleet: Fleet, wait: Wait) -> None:
    assert wait("free").wait() == 0
    leader = fleet.start("a")
    fleet.witness.wait_start()
    free = wait("free")
    assert wait("free", "--timeout=5s").wait() == NOT_YET
    leader.signal(signal.SIGTERM)
    assert free.wait() == 0
    assert "a has released the lock" in free.out
    killed = fleet.start("b")
    fleet.witness.wait_start(2)
    dead = wait("free")
    kill_whole(killed)
    assert dead.wait() == 0
    assert dead.out == "lease.coordination.k8s.io/x b has not renewed it for 5s: any candidate may acquire it\n"


def test_a_silent_lease_is_not_free_at_the_first_read(plane: Plane, namespace: str, wait: Wait) -> None:
    plane.api.create(lease(namespace, "x", "a", 3, **DEAD))
    begun = time.monotonic()
    assert wait("free").wait() == 0
    assert time.monotonic() - begun > 3


def test_wait_for_change_ends_with_another_leader_or_the_end_of_one(
    own_plane: ControlPlane, fleet: Fleet, wait: Wait, processes: Processes, clientgo: Callable[..., list[str]]
) -> None:
    """A real client-go's too; a renewal is none."""
    config = fleet.plane.kubeconfig(namespace=fleet.namespace)
    argv = clientgo(config, fleet.namespace, "x", "go", fleet.witness.command(), retry_period="1s")
    go = processes.start(argv, name="go")
    fleet.witness.wait_start()
    assert wait("change", "--timeout=5s").wait() == NOT_YET
    user = own_plane.new_user()
    change, ours = begun(own_plane, wait("change", user=user), user), wait("kleader")
    fleet.waiting("kleader", behind="go", timings=PATIENT)
    assert change.running
    go.signal(signal.SIGTERM)
    assert (change.wait(), ours.wait()) == (0, 0)
    assert "go has released the lock" in change.out


@pytest.mark.parametrize("lock", ["configmap", "configmapsleases", "leader-for-life"])
def test_wait_follows_each_kind_of_lock(plane: Plane, namespace: str, wait: Wait, lock: str) -> None:
    pod = plane.new_pod(namespace, "a")
    waiting = wait("a", f"--lock={lock}", "--timeout=60s")
    if lock == "leader-for-life":
        plane.api.create(config_map(namespace, "x", owners=[pod]))
        assert waiting.wait() == 0
        return
    made = plane.api.create(config_map(namespace, "x", record("a")))
    if lock == "configmapsleases":
        plane.api.create(lease(namespace, "x", "a", 15))
    for number in itertools.count():  # renewals, as many as it takes to be seen
        made["metadata"]["annotations"]["control-plane.alpha.kubernetes.io/leader"] = record(
            "a", leaderTransitions=number
        )
        made = plane.api.put(made)
        with contextlib.suppress(subprocess.TimeoutExpired):
            assert waiting.popen.wait(0.2) == 0
            return


def test_wait_fails_at_once_without_permission_and_at_its_timeout_without_a_response(
    own_plane: ControlPlane, namespace: str, wait: Wait
) -> None:
    """A permission that is missing; an API server that does not answer, or not any more."""
    denied = wait("free", user=own_plane.new_bare_user())
    assert denied.wait() == FAILED
    assert 'cannot get resource "leases"' in denied.err
    gone = wait("leader", "--timeout=5s", "-s", f"https://{LOOPBACK}:9")
    assert gone.wait() == FAILED
    assert "kleader: error: the state of the lock is unknown after 5s: cannot reach the API server" in gone.err
    with HttpProxy(own_plane) as proxy:
        proxy.on(silence(), times=None)
        silent = wait("leader", "--timeout=5s", user=own_plane.new_user(), server=proxy.url)
        assert silent.wait() == FAILED
        assert "kleader: error: the state of the lock is unknown after 5s: no answer yet" in silent.err
