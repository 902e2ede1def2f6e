"""--once and --once-per on a real API server: each kind of lock, others in between, faults, and mornings of cron."""

from __future__ import annotations

import json
import random
import re
import signal
import sys
from typing import TYPE_CHECKING, Any

import pytest

from tests.cluster.fleet import PATIENT, SHORT
from tests.cron.trial import LINES, Morning
from tests.support import faults
from tests.support.httpproxy import HttpProxy
from tests.support.processes import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from tests.conftest import Trials
    from tests.support.checker import Witness
    from tests.support.clientgo import Lock
    from tests.support.controlplane import ControlPlane
    from tests.support.httpproxy import Request
    from tests.support.plane import Plane
    from tests.support.processes import Process, Processes

LOCKS: dict[str, Lock] = {
    "lease": "leases",
    "configmap": "configmaps",
    "endpoints": "endpoints",
    "configmapsleases": "configmapsleases",
    "endpointsleases": "endpointsleases",
}
ONCE = "--once-per=1h"
MORNINGS = 2


class Job:
    """A job that leaves its host's name in a file, run by hosts for one lock."""

    def __init__(self, plane: Plane, namespace: str, processes: Processes, directory: Path) -> None:
        self.plane, self.namespace, self._processes, self._directory = plane, namespace, processes, directory
        self._ran = directory / "ran"
        self._ran.touch()
        self.config = plane.kubeconfig(namespace=namespace)

    def start(
        self, host: str, *options: str, job: str = "", server: str = "", timings: Sequence[str] = SHORT
    ) -> Process:
        config = self.plane.kubeconfig(namespace=self.namespace, server=server) if server else self.config
        argv = [sys.executable, "-m", "kleader", "run", f"--kubeconfig={config}", "--name=x", f"--identity={host}"]
        shell = f'echo {host} >>"{self._ran}"; {job}'
        return self._processes.start([*argv, *timings, *options, "--", "/bin/sh", "-c", shell], name=host)

    def run(self, host: str, *options: str, job: str = "") -> Process:
        """Return once the host has ended well."""
        process = self.start(host, *options, job=job)
        assert process.wait() == 0, process.err
        return process

    @property
    def ran(self) -> list[str]:
        """The hosts that ran it, in their order."""
        return self._ran.read_text().split()

    def recorded(self, kind: str) -> list[dict[str, Any]]:
        """The runs that `kleader status` shows."""
        runs: list[dict[str, Any]] = self.shown(kind)["runs"]
        return runs

    def shown(self, kind: str) -> dict[str, Any]:
        """What `kleader status` shows of the lock."""
        argv = [sys.executable, "-m", "kleader", "status", "x", f"--lock={kind}", f"--kubeconfig={self.config}"]
        process = self._processes.start([*argv, "-o", "json"], name="status")
        assert process.wait() == 0, process.err
        found: dict[str, Any] = json.loads(process.out)["items"][0]
        return found


@pytest.fixture
def job(plane: Plane, namespace: str, processes: Processes, tmp_path: Path) -> Job:
    return Job(plane, namespace, processes, tmp_path)


@pytest.mark.parametrize("kind", LOCKS)
def test_a_finished_job_is_not_run_again_after_client_go_has_led(
    job: Job, processes: Processes, witness: Witness, clientgo: Callable[..., list[str]], kind: str
) -> None:
    """client-go writes the record alone, and leaves annotations as it finds them."""
    lock = f"--lock={kind}"
    job.run("a", ONCE, lock)
    free = job.shown(kind)
    assert (free["state"], free["lastHolder"]) == ("free", "a")
    assert free["freeSince"] <= free["renewTime"]
    again = job.run("b", ONCE, lock)
    shown = job.shown(kind)
    assert (shown["lastHolder"], shown["unrecordedTerms"]) == (None, 0), "b led without a run, and ended in order"
    assert again.logged("already_done", "a at ")
    assert again.logged("released")
    config = job.plane.kubeconfig(namespace=job.namespace)
    argv = clientgo(config, job.namespace, "x", "go", witness.command(), lock=LOCKS[kind], stop_first=True)
    go = processes.start(argv, name="go")
    witness.wait_start()
    go.signal(signal.SIGTERM)
    go.wait()
    assert "already done by a at " in job.run("c", ONCE, lock).err
    assert job.ran == ["a"]
    assert [(run["identity"], run["status"], run["reason"]) for run in job.recorded(kind)] == [("a", 0, "exited")]


def test_a_leader_with_no_release_records_the_run_and_the_lock_expires(job: Job) -> None:
    first = job.run("a", ONCE, "--no-release")
    assert first.logged("not_released", level="INFO")
    assert job.recorded("lease")[0]["identity"] == "a"
    second = job.run("b", ONCE, "--wait=live")
    assert second.logged("already_done", "a at ")
    assert job.ran == ["a"]


KILL_ELECTOR = "for each in $(cat /proc/$PPID/task/$PPID/children); do [ $each = $$ ] || kill -KILL $each; done"


@pytest.mark.parametrize("option", ["--release", "--no-release"])
def test_a_replacement_elector_records_the_run_of_a_command_that_has_ended(job: Job, option: str) -> None:
    first = job.run("a", ONCE, option, job=KILL_ELECTOR)
    assert first.logged("elector_replaced")
    assert [(run["identity"], run["reason"]) for run in job.recorded("lease")] == [("a", "exited")]


def test_a_candidate_of_coordinated_election_finds_the_job_done(job: Job) -> None:
    """The control plane writes its own fields of the Lease alone."""
    options = (ONCE, "--coordinated", "--binary-version=1.36.0")
    job.run("a", *options)
    assert "already done by a at " in job.run("b", *options).err
    assert job.ran == ["a"]


def test_a_transfer_records_the_run_as_not_successful(job: Job) -> None:
    """The next holder is named by the very write that records it. The record says who asked for the transfer."""
    first = job.start("a", ONCE, job="exec sleep 600", timings=PATIENT)
    first.wait_log("command_started")
    second = job.start("b", ONCE, timings=PATIENT)
    second.wait_log("leader_observed", r"is a\b")
    argv = [sys.executable, "-m", "kleader", "transfer", "x", "--force", "--to=b", f"--kubeconfig={job.config}"]
    assert job._processes.start(argv, name="transfer").wait() == 0
    assert (first.wait(), second.wait()) == (255, 0)
    assert job.ran == ["a", "b"]
    assert [(run["identity"], run["reason"]) for run in job.recorded("lease")] == [
        ("b", "exited"),
        ("a", "stepped-down"),
    ]
    assert re.fullmatch(r"asked to hand the lock to b, by \S+@\S+", job.recorded("lease")[1]["detail"])


def releases(request: Request) -> bool:
    return not request.json()["spec"]["holderIdentity"]


@pytest.mark.parametrize("then", ["silent", "reset"])
def test_a_release_without_a_response_records_the_run_once(own_plane: ControlPlane, job: Job, then: str) -> None:
    with HttpProxy(own_plane) as proxy:
        lost = proxy.on(faults.lose(then), method="PUT", where=releases)
        process = job.start("a", ONCE, server=proxy.url)
        assert process.wait() == 0
        assert lost.hits == 1
    assert "already done by a at " in job.run("b", ONCE).err
    assert len(job.recorded("lease")) == 1


def test_a_release_refused_for_its_size_is_repeated_without_the_run(own_plane: ControlPlane, job: Job) -> None:
    """The next host does not wait for it, and runs the job again."""
    full = {"kind": "Status", "status": "Failure", "code": 422, "reason": "Invalid", "message": "too long"}
    with HttpProxy(own_plane) as proxy:
        proxy.on(faults.answer(422, full), method="PUT", where=releases)
        process = job.start("a", ONCE, server=proxy.url)
        assert process.wait() == 0
    assert process.logged("run_not_recorded")
    assert process.logged("released")
    assert job.recorded("lease") == []


def test_a_job_whose_leader_is_killed_is_run_by_the_next(job: Job) -> None:
    first = job.start("a", ONCE, job="exec sleep 600")
    wait_until(lambda: job.ran, "the job's start")
    second = job.start("b", ONCE)
    second.wait_log("leader_observed", r"is a\b")
    first.kill()
    assert second.wait() == 0
    assert job.ran == ["a", "b"]


@pytest.mark.timeout(360)
@pytest.mark.parametrize("kill", [False, True], ids=["", "leader killed"])
@pytest.mark.parametrize("line", LINES)
def test_the_crontab_of_the_readme_keeps_its_promise(  # noqa: PLR0917 - fixtures
    plane: Plane, namespace: str, processes: Processes, tmp_path: Path, trials: Trials, line: str, *, kill: bool
) -> None:
    """Of three hosts with wrong clocks; `python -m tests.cron` plays many more mornings."""
    config = None if line == "one host" else plane.kubeconfig(namespace=namespace)
    for number in range(MORNINGS):
        morning = Morning(processes, tmp_path, config, f"m{number}")
        draw = random.Random(f"{line} {kill} {number}")  # noqa: S311 - whims
        outcome = morning.play(line, draw.choice((0.1, 1.0)), draw, kill=kill)
        assert not outcome.overlaps
        assert outcome.starts >= 1
        assert line != "--once-per" or outcome.once, (outcome, morning.journal)
    trials.count(MORNINGS, f"mornings of cron, {line}")
