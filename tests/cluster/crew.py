"""Candidates for one lock without expiry, each in a Pod that exists at the API server alone."""

from __future__ import annotations

import itertools
import signal
import sys
from typing import TYPE_CHECKING

from tests.cluster.fleet import kill_whole
from tests.support.api import path, path_of
from tests.support.objects import pod_status

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tests.support.api import Object
    from tests.support.checker import Witness
    from tests.support.plane import Plane
    from tests.support.processes import Process, Processes

LOCK = "leader-for-life"
QUICK = ("--retry-period=1s", "--renew-deadline=4s", "--lease-duration=6s")
DEADLINE = 4.0  # seconds; the renew deadline of QUICK
SLOW_TO_DIE = ("--term-delay=0.2",)


class Crew:
    """Candidates by the names of their Pods; each starts the witness under that name."""

    def __init__(
        self, plane: Plane, namespace: str, processes: Processes, witness: Witness, for_life: Callable[..., list[str]]
    ) -> None:
        self.plane, self.namespace, self.witness = plane, namespace, witness
        self._processes, self._for_life = processes, for_life
        self._numbers = itertools.count(1)
        self.path = path("v1", "ConfigMap", namespace, "x")
        self.pods: dict[str, Object] = {}
        self.running: dict[str, Process] = {}

    # --- Pods

    def pod(self, name: str, *, node: str = "") -> Object:
        """Make the Pod, if there is none of this name."""
        if name not in self.pods:
            self.pods[name] = self.plane.new_pod(self.namespace, name, node)
        return self.pods[name]

    def remove(self, name: str) -> None:
        """The Pod's object goes, as it does when its last process has."""
        self.plane.api.delete(f"{path_of(self.pods.pop(name))}?gracePeriodSeconds=0")

    def state(self, name: str, phase: str, reason: str = "", *, ended: bool = True) -> None:
        """Let the kubelet, or somebody in its place, write the Pod's status."""
        self.plane.api.merge(f"{path_of(self.pods[name])}/status", pod_status(phase, reason, ended=ended))

    # --- candidates

    def kleader(
        self,
        pod: str,
        *options: str,
        does: Sequence[str] = SLOW_TO_DIE,
        server: str | None = None,
        user: str | None = None,
        command: Sequence[str] | None = None,
        env: dict[str, str | None] | None = None,
        prefix: Sequence[str] = (),
    ) -> Process:
        self.pod(pod)
        config = self.plane.kubeconfig(user or "admin", self.namespace, server=server)
        argv = [*prefix, sys.executable, "-m", "kleader", "run", f"--lock={LOCK}", "--name=x", *QUICK]
        argv += [f"--kubeconfig={config}", f"--identity={pod}", *options, "--"]
        argv += command or self.witness.command(*does)
        home = {"POD_NAME": pod, "POD_NAMESPACE": self.namespace} | (env or {})
        self.running[pod] = self._processes.start(argv, name=pod, env=home)
        return self.running[pod]

    def lib(self, pod: str) -> Process:
        """One of operator-lib's."""
        self.pod(pod)
        config = self.plane.kubeconfig(namespace=self.namespace)
        argv = self._for_life(config, self.namespace, "x", pod, self.witness.command(*SLOW_TO_DIE), max_backoff="1s")
        self.running[pod] = self._processes.start(argv, name=pod)
        return self.running[pod]

    def fresh(self, start: Callable[[str], Process], letter: str) -> str:
        """One in a new Pod; returns its name."""
        name = f"{letter}-{next(self._numbers)}"
        start(name)
        return name

    def waiting(self, pod: str, *options: str, behind: str, **more: object) -> Process:
        """One that has seen somebody lead."""
        process = self.kleader(pod, *options, **more)  # type: ignore[arg-type]
        process.wait_log("leader_observed", rf"is {behind}\b")
        return process

    def ends(self, pod: str, *, crash: bool = False) -> int:
        """The candidate ends, and its Pod stays."""
        process = self.running.pop(pod)
        if crash:
            kill_whole(process)
        else:
            process.signal(signal.SIGTERM)
        return process.wait()

    # --- the lock

    def lock(self) -> Object | None:
        return self.plane.api.find(self.path)

    def owner(self) -> str:
        """The name of the only owner."""
        found = self.plane.api.get(self.path)
        (owner,) = found["metadata"]["ownerReferences"]
        name: str = owner["name"]
        return name
