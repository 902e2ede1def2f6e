"""A Lease on a cluster, as the place of the demo's lock."""

from __future__ import annotations

import os
import secrets
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kleader.cli.demo_stage import DemoError, clock_ns
from tests.support.controlplane import ControlPlane
from tests.support.daemon import DaemonError
from tests.support.gobuild import GoError
from tests.support.processes import keep

if TYPE_CHECKING:
    from collections.abc import Sequence

_REQUEST = 5.0  # seconds
_SECOND = 1_000_000_000


class Lease:
    """A Lease of a name that nobody has, on the cluster that the environment names, else on one that is started."""

    title = "three candidates for one Lease at a Kubernetes API server"
    remarks: Sequence[str] = ()
    DURATION = 4

    def __init__(self) -> None:
        self._name = f"kleader-demo-{secrets.token_hex(3)}"
        self._plane: ControlPlane | None = None
        self._config: list[str] = []
        self._reached = False
        try:
            self._reach()
            self._reached = True
        except BaseException:
            self.end()
            raise

    def options(self) -> list[str]:
        timing = ["--lease-duration", f"{self.DURATION}s", "--renew-deadline", "2s", "--retry-period", "1s"]
        return [*self._config, "--namespace", self._namespace, "--name", self._name, "--no-register", *timing]

    def free_at(self) -> int | None:
        """Its record's duration after the last renewal, by this machine's own wall clock."""
        found = self._client.read_namespaced_lease(self._name, self._namespace, _request_timeout=_REQUEST)
        renewed = int(found.spec.renew_time.timestamp() * _SECOND)
        return renewed + clock_ns() - time.time_ns() + self.DURATION * _SECOND

    def end(self) -> None:
        """Delete the Lease, if we may, or the whole cluster, if it is ours."""
        if self._plane:
            self._plane.stop()
            return
        if not self._reached:
            return
        try:
            self._client.delete_namespaced_lease(self._name, self._namespace, _request_timeout=_REQUEST)
        except Exception as error:  # noqa: BLE001 - whatever the package raises
            if getattr(error, "status", None) != 404:
                print(f"the Lease {self._namespace}/{self._name} is left behind: {_sentence(error)}", file=sys.stderr)

    def _reach(self) -> None:
        from kubernetes import client, config  # noqa: PLC0415 - half a second

        configuration = client.Configuration()
        where = ""
        if not _named():
            where = self._start()
        try:
            if os.environ.get("KUBERNETES_SERVICE_HOST") and not _kubeconfig():
                config.load_incluster_config(client_configuration=configuration)
                self._namespace = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace").read_text().strip()
            else:
                given = self._config[1] if self._config else None
                config.load_kube_config(config_file=given, client_configuration=configuration)
                _, context = config.list_kube_config_contexts(config_file=given)
                self._namespace = context["context"].get("namespace") or "default"
                where = where or f"of the context {context['name']}"
        except Exception as error:  # noqa: BLE001 - likewise
            raise DemoError(f"cannot read the kubeconfig: {_sentence(error)}") from None
        configuration.retries = False
        self._client: Any = client.CoordinationV1Api(client.ApiClient(configuration))
        self._probe(configuration.host)
        self.remarks = (
            f"{self._namespace}/{self._name}, on the cluster {where or 'of this Pod'}.",
            f"For the demo a dead leader's Lease runs out after {self.DURATION} s; the default is 15 s.",
        )

    def _probe(self, host: str) -> None:
        try:
            self._client.read_namespaced_lease(self._name, self._namespace, _request_timeout=_REQUEST)
        except Exception as error:  # noqa: BLE001 - likewise
            if getattr(error, "status", None) != 404:
                where = f"the Leases of namespace {self._namespace} at {host}"
                raise DemoError(f"cannot read {where}: {_sentence(error)}") from None

    def _start(self) -> str:
        """Start a cluster, as the tests have it."""
        plane = ControlPlane()
        try:
            plane.start()
        except GoError as error:
            raise DemoError(f"{error}, or give a cluster: KUBECONFIG") from None
        except DaemonError as error:
            raise DemoError(str(error)) from None
        self._plane = plane
        keep(plane.pids)
        self._config = ["--kubeconfig", str(plane.kubeconfig(plane.new_user(), "default"))]
        return "started for this (a real kube-apiserver)"


def _kubeconfig() -> bool:
    return bool(os.environ.get("KUBECONFIG")) or (Path.home() / ".kube" / "config").exists()


def _named() -> bool:
    """Whether the environment names a cluster."""
    return _kubeconfig() or bool(os.environ.get("KUBERNETES_SERVICE_HOST"))


def _sentence(error: Exception) -> str:
    """One line."""
    said = getattr(error, "reason", None) or str(error) or type(error).__name__
    return " ".join(str(said).rpartition("new connection: ")[2].split())[:200]
