"""An unhealthy candidate does not compete, and an unhealthy leader steps down; on the file lock."""

from __future__ import annotations

import shlex
import signal
from typing import TYPE_CHECKING

import pytest

from tests.process.conftest import file_elector_of, lead
from tests.support.processes import alive, wait_gone, wait_until

if TYPE_CHECKING:
    from pathlib import Path

    from tests.process.conftest import Heard, Scripted, Start
    from tests.support.checker import Witness
    from tests.support.processes import Process

SHORT = ("--lease-duration=3s", "--renew-deadline=2s", "--retry-period=1s", "--loss-grace=10ms")


@pytest.fixture
def well(tmp_path: Path) -> Path:
    """A candidate is well as long as this file is there."""
    return tmp_path / "well"


def health(well: Path) -> list[str]:
    return [f"--health={shlex.join(['test', '-e', str(well)])}", "--health-period=500ms", "--health-failures=2"]


def end(kleader: Process, status: int = 0) -> None:
    kleader.signal(signal.SIGTERM)
    assert kleader.wait() == status


def test_a_candidate_contends_from_its_first_healthy_check(
    candidate: Start, witness: Witness, lock: Path, well: Path
) -> None:
    kleader = candidate(witness.command(), *health(well), name="a")
    kleader.wait_log("", "the --health command", role="resting", count=2)  # failed, or on a slow machine killed
    assert lock.read_bytes() == b"", "it was opened, and nobody has led"
    assert not kleader.logged("unhealthy"), "it never did"
    well.touch()
    kleader.wait_err("health check succeeding; competing again\n.*became leader")
    witness.wait_start()
    end(kleader)
    witness.check(terms=1)


def test_an_unhealthy_candidate_does_not_contend(candidate: Start, witness: Witness, well: Path) -> None:
    """It waits in no flock(2): the free lock stays free, and goes to the first healthy candidate."""
    well.touch()
    first = candidate(witness.command(), name="first")
    witness.wait_start()
    sick = candidate(witness.command(), *health(well), name="sick")
    sick.wait_log("leader_observed", r"is first\b", role="candidate")
    guard = file_elector_of(sick)
    well.unlink()
    sick.wait_log("unhealthy")
    wait_gone(guard)
    end(first)
    other = candidate(witness.command(), "--no-wait", name="other")
    assert witness.wait_start(2).identity == "other"
    well.touch()
    sick.wait_log("healthy", role="resting")
    end(other)
    assert witness.wait_start(3).identity == "sick"
    end(sick)
    witness.check(terms=3)


def test_an_unhealthy_leader_steps_down(candidate: Start, witness: Witness, well: Path) -> None:
    well.touch()
    kleader = candidate(witness.command("--term-delay=0.3", "--descendant"), *health(well), "--loss-exit-code=9")
    term, other = witness.wait_start(), witness.wait_descendant()
    well.unlink()
    assert kleader.wait() == 9
    kleader.wait_log("stepping_down", "the --health command failed 2 times in a row")
    assert kleader.logged("command_stopping")
    kleader.wait_log("released")
    assert witness.now(term).main.ended
    assert not alive(other.pid)
    witness.check(terms=1)


@pytest.mark.slow
def test_with_on_loss_wait_an_unhealthy_leader_contends_again_after_a_lease_duration(
    candidate: Start, witness: Witness, well: Path
) -> None:
    well.touch()
    kleader = candidate(witness.command("--ignore-term"), *health(well), *SHORT, "--on-loss=wait", "--stop-timeout=1s")
    first = witness.wait_start()
    well.unlink()
    kleader.wait_log("released", role="resting")
    dead = witness.now(first).main.last
    well.touch()
    kleader.wait_log("healthy", role="resting")
    second = witness.wait_start(2)
    assert second.born - dead >= 2.8e9, "three seconds, as far as beats and ticks tell"
    assert second.token > first.token
    end(kleader, 128 + signal.SIGKILL)
    witness.check(terms=2)


@pytest.mark.slow
def test_a_leader_is_checked_from_the_start_of_its_command_on(candidate: Start, witness: Witness, well: Path) -> None:
    """A command has a period to come up; one failure is not enough."""
    well.touch()
    script = f"test -e {well} || test $(($(date +%N | sed 's/^0*//') % 2)) = 0"
    kleader = candidate(witness.command(), f"--health={shlex.join(['sh', '-c', script])}", "--health-period=300ms",
                        "--health-failures=1000")  # fmt: skip
    witness.wait_start()
    well.unlink()
    kleader.wait_log("hook_failed", "the --health command exited with status 1", role="leader", count=3)
    end(kleader)
    witness.check(terms=1)


@pytest.mark.slow
@pytest.mark.parametrize("standby", [False, True])
def test_a_failure_of_a_check_that_began_before_the_command_does_not_count(
    scripted: Scripted, witness: Witness, tmp_path: Path, *, standby: bool
) -> None:
    """It may have asked the standby, which is made to end."""
    runs, asked, done = tmp_path / "runs", tmp_path / "asked", tmp_path / "done"
    until = f"touch {asked}; until test -e {done}; do sleep 0.01; done; exit 1"
    script = f"echo >>{runs}; test $(wc -l <{runs}) != 2 || {{ {until}; }}"
    options = [f"--health={shlex.join(['sh', '-c', script])}", "--health-period=2s", "--health-failures=1"]
    if standby:
        ends = f"trap 'touch {done}; sleep 0.5; exit' TERM; while :; do sleep 0.01; done"
        options.append(f"--standby={shlex.join(['sh', '-c', ends])}")
    kleader = scripted(witness.command(), [[str(asked), "acquired", lead(60, 70)]], *options)
    witness.wait_start()
    done.touch()
    wait_until(lambda: len(runs.read_text()) >= 3, "the next check, of one that leads still")
    witness.wait_beats(2)
    assert not kleader.logged("stepping_down")
    end(kleader)
    witness.check(terms=1)


@pytest.mark.slow
def test_a_check_that_hangs_is_killed_and_counts_as_failed(candidate: Start, witness: Witness, well: Path) -> None:
    """All that it has started, too; and it does not delay the end of the term."""
    pids = well.with_name("pids")
    well.touch()
    script = f"trap '' TERM; test -e {well} || {{ setsid sleep 600 & echo $! >>{pids}; echo $$ >>{pids}; sleep 600; }}"
    options = [f"--health={shlex.join(['sh', '-c', script])}", "--health-period=2s", "--health-failures=2"]
    kleader = candidate(witness.command(), *options)
    witness.wait_start()
    well.unlink()
    assert kleader.wait() == 255
    assert len(kleader.logged("hook_killed")) == 2
    wait_gone(*map(int, pids.read_text().split()))
    witness.check(terms=1)


@pytest.mark.slow
@pytest.mark.parametrize("patience", ["--no-wait", "--wait=300ms"])
def test_a_candidate_that_is_not_healthy_within_wait_has_not_acquired(
    candidate: Start, witness: Witness, well: Path, patience: str
) -> None:
    kleader = candidate(witness.command(), *health(well), patience)
    assert kleader.wait() == 124
    kleader.wait_log("not_acquired", "the --health command")
    assert not witness.terms()


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_ends_an_unhealthy_candidate(candidate: Start, well: Path, number: int) -> None:
    kleader = candidate(["true"], *health(well), "--health-period=10s")
    kleader.wait_log("hook_failed", "the --health command exited")
    kleader.signal(number)
    assert kleader.wait() == 128 + number


def test_a_lock_that_an_unhealthy_candidate_may_hold_is_released(scripted: Scripted, heard: Heard, well: Path) -> None:
    """Its elector ends as at any end, and the next one knows that there was one."""
    well.touch()
    again = well.with_name("again")
    kleader = scripted(["sleep", "600"], [], *health(well), next=[[0, "acquired", lead(60, 70)]])
    wait_until(lambda: heard("Assign"), "an elector")
    well.unlink()
    wait_until(lambda: heard("AllProcessesExited"), "its end")
    assert heard("AllProcessesExited")[0]["release"]
    again.touch()
    well.touch()
    kleader.wait_log("command_started")
    first, second = heard("Assign")
    assert (first["replaces"], second["replaces"]) == (False, True)
    assert first["incarnation"] == second["incarnation"], "patience is the candidacy's"
    assert first["pid"] != second["pid"]
    end(kleader, 128 + signal.SIGTERM)


@pytest.mark.slow
def test_an_unhealthy_leaders_next_candidacy_has_a_new_incarnation(
    scripted: Scripted, heard: Heard, well: Path
) -> None:
    well.touch()
    lost = [[0, "acquired", lead(60, 70)]]
    kleader = scripted(["sleep", "600"], lost, *health(well), *SHORT, "--on-loss=wait", next=[])
    kleader.wait_log("command_started")
    well.unlink()
    wait_until(lambda: heard("AllProcessesExited"), "its end")
    assert heard("AllProcessesExited")[0]["release"]
    well.touch()
    wait_until(lambda: len(heard("Assign")) == 2, "another candidacy")
    first, second = heard("Assign")
    assert second["term"] == first["term"] + 1
    assert second["at"] - heard("AllProcessesExited")[0]["at"] > 2, "3 s, less what the first message took"
    assert first["incarnation"] != second["incarnation"]
    end(kleader, 128 + signal.SIGTERM)
