"""`python -m tests.node`: rollouts and deletions of three Pods, kleader's beside client-go's, on one node, in one run.

A kleader with --no-register recommends no standby when it releases the lock: what a rollout costs without that.
kleader is injected into the foreign image, as README.md does it. Needs what tests/node/conftest.py names, and
$KLEADER_TEST_GLIBC_IMAGE, an image whose C library client-go's program finds.
"""

from __future__ import annotations

import argparse
import itertools
import os
import shutil
import statistics
import sys
import time
from typing import NamedTuple

from tests.bench import journal
from tests.node.conftest import IMAGE, LOCK, SHARED, Namespace, rolled_out
from tests.support import clientgo
from tests.support.api import lease, path
from tests.support.controlplane import given_kubeconfig
from tests.support.plane import GivenPlane
from tests.support.processes import PATIENCE, wait_until

KINDS = ("kleader", "kleader --no-register", "client-go")
ROLLOUT, DELETION = "rollout", "deletion of the leader's Pod"
BETWEEN = 3.0  # seconds: what the last trial started comes to rest


class Run(NamedTuple):
    """One run of the command: nanoseconds on CLOCK_BOOTTIME, 0 for an end that was not written."""

    identity: str
    start: int
    end: int


class Fleet:
    """A Deployment of three Pods, and what their command wrote."""

    def __init__(self, namespace: Namespace, kind: str) -> None:
        self.kind, self._namespace = kind, namespace
        self._journal = namespace.shared / "journal"
        for program in (journal.build(), clientgo.build()):
            shutil.copy(program, namespace.shared)
        self._deployment = path("apps/v1", "Deployment", namespace.name, LOCK)
        self._number = 0

    def start(self) -> None:
        """Apply what `kleader manifest` prints; for client-go with its program in the place of kleader."""
        command = [f"{SHARED}/command", f"{SHARED}/journal"]
        images = [f"--inject={IMAGE}", f"--image={os.environ['KLEADER_TEST_FOREIGN_IMAGE']}"]
        objects = self._namespace.manifest("--replicas=3", *images, *self.kind.split()[1:], "--", *command)
        (deployment,) = [each for each in objects if each["kind"] == "Deployment"]
        spec = deployment["spec"]["template"]["spec"]
        self._namespace.share(spec)
        (container,) = spec["containers"]
        container["imagePullPolicy"] = "Never"
        if self.kind == "client-go":
            where = [f"-namespace={self._namespace.name}", f"-name={LOCK}", "-identity=$(POD_NAME)", "-stop-first"]
            container["image"] = os.environ["KLEADER_TEST_GLIBC_IMAGE"]
            container["command"] = [f"{SHARED}/current", *where, *command]
            del container["args"], spec["initContainers"]
            self._namespace.apply(lease(self._namespace.name, LOCK, ""))  # the Role lets no POST create it
        self._namespace.apply(*objects)
        self._settle()

    def runs(self) -> list[Run]:
        """The runs so far."""
        found: dict[str, Run] = {}
        for line in self._journal.read_text().splitlines() if self._journal.exists() else []:
            event, at, _, identity = line.split()
            if event == "start":
                found[identity] = Run(identity, int(at), 0)
            else:
                found[identity] = found[identity]._replace(end=int(at))
        return sorted(found.values(), key=lambda run: run.start)

    def roll(self) -> list[float]:
        """Roll the Deployment; the gap of each handover, in milliseconds."""
        before = self.runs()
        self._number += 1
        template = {"metadata": {"annotations": {"roll": str(self._number)}}}
        self._namespace.api.merge(self._deployment, {"spec": {"template": template}})
        self._settle()
        wait_until(lambda: not self.runs()[-1].end, "the last leader")
        return self._gaps(before)

    def delete_leader(self) -> list[float]:
        """Delete the leader's Pod; the gap of the handover."""
        before = self.runs()
        pods = path("v1", "Pod", self._namespace.name)
        names = [pod["metadata"]["name"] for pod in self._namespace.api.list(pods)]
        (leader,) = [name for name in names if before[-1].identity.startswith(name)]
        self._namespace.api.delete(f"{pods}/{leader}")
        wait_until(lambda: len(self.runs()) > len(before), "the next leader")
        self._settle()
        return self._gaps(before)

    def end(self) -> None:
        self._namespace.api.delete(f"/api/v1/namespaces/{self._namespace.name}")
        shutil.rmtree(self._namespace.shared, ignore_errors=True)

    def _gaps(self, before: list[Run]) -> list[float]:
        runs = self.runs()[len(before) - 1 :]
        assert all(run.end for run in runs[:-1]), runs
        return [(later.start - earlier.end) / 1e6 for earlier, later in itertools.pairwise(runs)]

    def _settle(self) -> None:
        self._namespace.api.wait(self._deployment, rolled_out, "its three Pods available", timeout=3 * PATIENCE)
        wait_until(self.runs, "a leader")
        time.sleep(BETWEEN)


def main() -> int:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=10)
    parser.add_argument("--rollouts", action="store_true", help="no deletions")
    args = parser.parse_args()
    kubeconfig = given_kubeconfig()
    if not kubeconfig:
        print("KLEADER_TEST_KUBECONFIG is not set", file=sys.stderr)  # noqa: T201
        return 1
    plane = GivenPlane(kubeconfig)
    plane.start()
    machine = f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}"
    print(f"{args.trials} trials of each, 3 Pods, default timings; {machine}")  # noqa: T201
    fleets = [Fleet(Namespace(plane), kind) for kind in KINDS]
    try:
        for fleet in fleets:
            fleet.start()
        for what in (ROLLOUT,) if args.rollouts else (DELETION, ROLLOUT):
            gaps: dict[str, list[list[float]]] = {fleet.kind: [] for fleet in fleets}
            for _ in range(args.trials):
                for fleet in fleets:
                    gaps[fleet.kind].append(fleet.roll() if what == ROLLOUT else fleet.delete_leader())
            for kind, each in gaps.items():
                every = sorted(gap for one in each for gap in one)
                handovers = " ".join(str(len(one)) for one in each)
                shown = f"p50 {statistics.median(every):.0f} ms, {every[0]:.0f} to {every[-1]:.0f} ms"
                print(f"{what}, {kind}: {shown}; handovers in each: {handovers}", flush=True)  # noqa: T201
    finally:
        for fleet in fleets:
            fleet.end()
        plane.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
