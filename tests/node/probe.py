"""`python -m tests.node.probe`: how long `kleader is-leader` takes as an exec probe, and a Python that does nothing.

The kubelet tells it, which counts what the container runtime takes too. Needs what tests/node/conftest.py names.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import sys
import time

from tests.node.conftest import PYTHON, Namespace
from tests.support.api import path
from tests.support.controlplane import given_kubeconfig
from tests.support.plane import GivenPlane

COMMANDS = {"Liveness": (*PYTHON, "-c", "pass"), "Readiness": ("/kleader/bin/kleader", "is-leader")}
LIMIT = 0.1  # seconds; a limit of the kubelet's histogram
METRIC = r'(?m)^prober_probe_duration_seconds_(\w+)\{.*namespace="(.*?)".*probe_type="(\w+)"(?:,le="(.+)")?\} (.+)$'


def measure(namespace: Namespace, trials: int) -> dict[str, dict[str, float]]:
    """Of each probe: ``count``, ``sum`` of seconds, and the count up to each limit, in seconds."""
    often = {"periodSeconds": 1, "timeoutSeconds": 30}
    container = {f"{kind.lower()}Probe": {"exec": {"command": each}, **often} for kind, each in COMMANDS.items()}
    pod = namespace.api.wait(
        namespace.pod("a", container=container), lambda thing: thing and thing["spec"].get("nodeName"), "its node"
    )
    assert pod
    metrics = path("v1", "Node", "", pod["spec"]["nodeName"]) + "/proxy/metrics/probes"
    found: dict[str, dict[str, float]] = {kind: {"count": 0} for kind in COMMANDS}
    while min(each["count"] for each in found.values()) < trials:
        time.sleep(1)
        for name, of, kind, limit, value in re.findall(METRIC, namespace.api.request("GET", metrics)[1]):
            if of == namespace.name:
                found[kind][limit or name] = float(value)
    return found


def main() -> int:
    """Measure, and print a line for each command."""
    parser = argparse.ArgumentParser(prog="python -m tests.node.probe", description=__doc__)
    parser.add_argument("--trials", type=int, default=30)
    trials = parser.parse_args().trials
    kubeconfig = given_kubeconfig()
    if not kubeconfig:
        print("KLEADER_TEST_KUBECONFIG is not set", file=sys.stderr)  # noqa: T201
        return 1
    plane = GivenPlane(kubeconfig)
    plane.start()
    namespace = Namespace(plane)
    try:
        print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")  # noqa: T201
        for kind, took in measure(namespace, trials).items():
            mean, within = took["sum"] / took["count"] * 1000, f"{took[str(LIMIT)]:.0f} of {took['count']:.0f}"
            print(f"{' '.join(COMMANDS[kind])}: mean {mean:.0f} ms, {within} within {LIMIT * 1000:.0f} ms")  # noqa: T201
    finally:
        plane.api.delete(f"/api/v1/namespaces/{namespace.name}")
        shutil.rmtree(namespace.shared, ignore_errors=True)
        plane.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
