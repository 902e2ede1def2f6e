"""--on-end and --metrics-file: what an operator learns of the end of a run, when the lock is released."""

from __future__ import annotations

import shlex
import signal
from typing import TYPE_CHECKING

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.process.conftest import start_run
from tests.support.processes import wait_until

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.processes import Process, Processes

TELL = 'echo "$KLEADER_REASON $KLEADER_STATUS ${KLEADER_STARTED:-never} ${KLEADER_ENDED:-never}"'


class Host:
    """Runs jobs under one lock file."""

    def __init__(self, processes: Processes, directory: Path) -> None:
        self._processes = processes
        self.lock, self.said, self.metrics = (directory / name for name in ("the.lock", "said", "job.prom"))

    def start(self, job: str, *options: str, tell: str = TELL) -> Process:
        hook = shlex.join(["sh", "-c", f"{tell} >>{self.said}"])
        words = [f"--lock=file:{self.lock}", "--name=job", f"--on-end={hook}", f"--metrics-file={self.metrics}"]
        return start_run(self._processes, [*words, *options, "--", "/bin/sh", "-c", job])

    @property
    def told(self) -> list[list[str]]:
        return [line.split() for line in self.said.read_text().splitlines()] if self.said.exists() else []

    @property
    def measured(self) -> dict[str, float]:
        """Each metric's one sample, whose labels are those of the lock."""
        found: dict[str, float] = {}
        for family in text_string_to_metric_families(self.metrics.read_text()):
            (sample,) = family.samples
            assert family.documentation
            assert (sample.labels.pop("namespace"), sample.labels.pop("name")) == ("default", "job")
            found[" ".join([family.name, *sample.labels.values()])] = sample.value
        return found


@pytest.fixture
def host(processes: Processes, tmp_path: Path) -> Host:
    return Host(processes, tmp_path)


def test_on_end_runs_when_every_process_is_dead_and_the_lock_is_free(host: Host, tmp_path: Path) -> None:
    left = tmp_path / "left"
    job = f"(trap '' TERM; exec sleep 600) & echo $! >{left}"
    tell = f"flock -n {host.lock} echo free; kill -0 $(cat {left}) || echo dead"
    assert host.start(job, tell=f"({tell})").wait() == 0
    assert host.told == [["free"], ["dead"]]


@pytest.mark.parametrize("status", [0, 3])
def test_on_end_gets_the_commands_exit_status_and_times(host: Host, status: int) -> None:
    assert host.start(f"sleep 0.01; exit {status}").wait() == status
    ((reason, code, started, ended),) = host.told
    assert (reason, code) == ("exited", str(status))
    assert "2000" < started < ended


def test_on_end_gets_the_signal_to_kleader(host: Host) -> None:
    process = host.start("exec sleep 600")
    process.wait_log("command_started")
    process.signal(signal.SIGTERM)
    assert process.wait() == 128 + signal.SIGTERM
    assert [line[:2] for line in host.told] == [["stopped", "143"]]


def test_on_end_runs_after_a_job_that_was_done_already(host: Host) -> None:
    assert host.start("true", "--once=k").wait() == 0
    assert host.start("true", "--once=k", "--once-exit-code=9").wait() == 9
    assert host.told[1] == ["skipped", "9", "never", "never"]


def test_on_end_does_not_run_without_a_term(host: Host) -> None:
    first = host.start("exec sleep 600")
    first.wait_log("command_started")
    second = host.start("true", "--no-wait")
    assert second.wait() == 124
    assert host.told == []
    assert host.measured["kleader_end_info not-led"] == 1
    assert host.measured["kleader_exit_status"] == 124


def test_an_on_end_that_hangs_delays_no_release_and_ends_with_one_more_signal(host: Host) -> None:
    first = host.start("true", tell="echo begun; exec sleep 600")
    wait_until(host.said.exists, "the hook")
    second = host.start("echo ran", tell="echo second")
    assert second.wait() == 0
    assert second.out == "ran\n"
    assert first.running
    first.signal(signal.SIGTERM)
    assert first.wait() == 0


def test_the_metrics_file_stays_and_keeps_the_last_success(host: Host) -> None:
    assert host.start("sleep 0.01").wait() == 0
    first = host.measured
    assert (first["kleader_exit_status"], first["kleader_end_info exited"]) == (0, 1)
    assert first["kleader_run_duration_seconds"] >= 0.01
    success = first["kleader_last_success_timestamp_seconds"]
    assert success <= first["kleader_end_timestamp_seconds"]
    assert host.start("exit 3").wait() == 3
    second = host.measured
    assert second["kleader_exit_status"] == 3
    assert second["kleader_last_success_timestamp_seconds"] == success
    assert second["kleader_end_timestamp_seconds"] > first["kleader_end_timestamp_seconds"]


def test_an_unwritable_metrics_file_is_refused_before_the_lock_is_touched(host: Host) -> None:
    process = host.start("true", f"--metrics-file={host.lock.parent}/none/x.prom")
    assert process.wait() == 125
    assert "--metrics-file" in process.err
    assert not host.lock.exists()


def test_a_failed_write_of_the_metrics_file_at_the_end_is_a_warning(host: Host, tmp_path: Path) -> None:
    directory = tmp_path / "gone"
    directory.mkdir()
    process = host.start(f"rmdir {directory}", f"--metrics-file={directory}/x.prom")
    assert process.wait() == 0
    assert f"cannot write the metrics file {directory}/x.prom" in process.err
