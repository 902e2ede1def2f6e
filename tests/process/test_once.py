"""--once and --once-per with real processes, on a lock file: a job that is done is not done again."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import pytest

from tests.process.conftest import KLEADER, start_run
from tests.support.processes import wait_until

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.processes import Process, Processes


class Host:
    """Runs the same line again and again; each run of the job leaves a letter."""

    def __init__(self, processes: Processes, directory: Path) -> None:
        self._processes, self._directory = processes, directory
        self.lock, self.ran = directory / "the.lock", directory / "ran"
        self.ran.touch()

    def start(self, *options: str, job: str = "") -> Process:
        script = f'printf x >>"{self.ran}"; {job}'
        words = [f"--lock=file:{self.lock}", "--name=job", *options, "--", "/bin/sh", "-c", script]
        return start_run(self._processes, words)

    def run(self, *options: str, job: str = "") -> int:
        """Its exit status."""
        return self.start(*options, job=job).wait()

    @property
    def runs(self) -> int:
        return len(self.ran.read_text())


@pytest.fixture
def host(processes: Processes, tmp_path: Path) -> Host:
    return Host(processes, tmp_path)


@pytest.mark.parametrize("option", ["--once-per=1h", "--once=2026-11-23"])
def test_a_job_that_has_succeeded_is_not_run_again(host: Host, option: str) -> None:
    assert host.run(option) == 0
    again = host.start(option, "--once-exit-code=9")
    assert again.wait() == 9
    assert again.logged("already_done")
    assert again.logged("released")
    assert host.runs == 1


def test_another_key_is_another_job(host: Host) -> None:
    assert [host.run(f"--once={key}") for key in ("a", "b", "a")] == [0, 0, 0]
    assert host.runs == 2


def test_a_job_that_failed_is_run_by_the_next(host: Host) -> None:
    assert host.run("--once-per=1h", job="exit 3") == 3
    assert host.run("--once-per=1h") == 0
    assert host.run("--once-per=1h") == 0
    assert host.runs == 2


def test_with_any_a_job_that_failed_is_not_run_again(host: Host) -> None:
    assert host.run("--once-per=1h", job="exit 3") == 3
    assert host.run("--once-per=1h", "--once-after=any") == 0
    assert host.runs == 1


def test_a_job_that_was_stopped_has_not_succeeded_whatever_its_status(host: Host) -> None:
    ready = host.lock.with_suffix(".ready")
    process = host.start("--once-per=1h", job=f"trap 'exit 0' TERM; >{ready}; while :; do sleep 0.01; done")
    wait_until(ready.exists, "the job catches TERM")
    process.signal(signal.SIGTERM)
    assert process.wait() == 0
    assert host.run("--once-per=1h") == 0
    assert host.runs == 2


def test_a_candidate_that_waited_for_a_long_job_does_not_run_it_again(host: Host) -> None:
    """Though it took longer than the duration of --once-per."""
    going = host.lock.with_suffix(".going")
    going.touch()
    first = host.start("--once-per=10ms", job=f"while [ -e {going} ]; do sleep 0.01; done")
    first.wait_log("command_started")
    second = host.start("--once-per=10ms")
    second.wait_log("leader_observed")
    going.unlink()
    assert (first.wait(), second.wait()) == (0, 0)
    assert second.logged("already_done")
    assert host.runs == 1


@pytest.mark.parametrize(("options", "reason"), [
    (["--leader-elect=false"], "no lock records a run"), (["--lock=leader-for-life"], "choose another lock type"),
    (["--standby=sleep 9"], "leave --standby out"), (["--once-per=0s"], "must be more than 0s"),
    (["--once= "], "is not a key"),
])  # fmt: skip
def test_once_on_a_lock_that_records_no_run_is_refused_in_one_line(
    processes: Processes, options: list[str], reason: str
) -> None:
    argv = [*KLEADER, "run", "--name=job", "--once-per=1h", *options, "--", "true"]
    process = processes.start(argv)
    assert process.wait() == 2
    assert reason in process.err
