"""Waiting, restarting, stopping: the life of a run."""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.process.conftest import IN_NAMESPACE, as_pid_1, file_elector_of, file_electors_of
from tests.process.test_file_lock import state, stop
from tests.support.processes import alive, masked, wait_until
from tests.support.trees import BROOD

if TYPE_CHECKING:
    from tests.process.conftest import Start
    from tests.support.checker import Witness

ENDING = ["TERM", "INT", "HUP", "QUIT"]


def number_of(name: str) -> signal.Signals:
    return signal.Signals[f"SIG{name}"]


@pytest.mark.slow
@pytest.mark.parametrize("name", ENDING)
@pytest.mark.parametrize("pid_1", [False, True], ids=["anywhere", "as PID 1"])
def test_a_signal_ends_a_waiting_candidate(
    candidate: Start,
    witness: Witness,
    name: str,
    pid_1: bool,  # noqa: FBT001
) -> None:
    candidate(witness.command(), name="first")
    witness.wait_start()
    second = candidate(witness.command(), before=IN_NAMESPACE if pid_1 else [], name="second")
    second.wait_log("leader_observed", r"is first\b")
    os.kill(as_pid_1(second) if pid_1 else second.pid, number_of(name))
    assert second.wait() == 128 + number_of(name)
    assert second.logged("signal_received", f"SIG{name}")
    assert len(witness.terms()) == 1


@pytest.mark.parametrize("name", ["INT", "TERM"])
def test_sigterm_and_sigint_reach_the_command(candidate: Start, name: str) -> None:
    script = "trap 'echo TERM; exit 4' TERM; trap 'echo INT; exit 4' INT; echo up; while :; do sleep 0.01; done"
    kleader = candidate(["sh", "-c", script], "--restart=always")
    wait_until(lambda: "up" in kleader.out, "the command")
    kleader.signal(number_of(name))
    assert kleader.wait() == 4
    assert kleader.out.split() == ["up", name]
    assert kleader.logged("released")


def test_sighup_reaches_the_command_and_does_not_end_kleader(candidate: Start) -> None:
    script = "trap 'echo HUP' HUP; trap 'exit 0' TERM; echo up; while :; do sleep 0.01; done"
    kleader = candidate(["sh", "-c", script])
    wait_until(lambda: "up" in kleader.out, "the command")
    kleader.signal(signal.SIGHUP)
    wait_until(lambda: "HUP" in kleader.out, "its HUP")
    kleader.signal(signal.SIGTERM)
    assert kleader.wait() == 0


def test_a_stopped_command_gets_sigcont_after_sigterm(candidate: Start, witness: Witness) -> None:
    kleader = candidate(witness.command())
    term = witness.wait_start()
    os.kill(term.pid, signal.SIGSTOP)
    kleader.wait_log("command_suspended", "SIGSTOP")
    kleader.signal(signal.SIGTERM)
    assert kleader.wait() == 0
    witness.check(terms=1)


def test_the_command_gets_the_chosen_stop_signal(candidate: Start) -> None:
    script = "trap 'echo USR1; exit 6' USR1; echo up; while :; do sleep 0.01; done"
    kleader = candidate(["sh", "-c", script], "--stop-signal=USR1")
    wait_until(lambda: "up" in kleader.out, "the command")
    kleader.signal(signal.SIGTERM)
    assert kleader.wait() == 6


@pytest.mark.parametrize(("to", "expected"), [("main", {"main"}), ("group", {"main", "other"})])
def test_the_stop_signal_goes_to_the_main_process_or_to_its_group(
    candidate: Start, tmp_path: Path, to: str, expected: set[str]
) -> None:
    said = tmp_path / "said"
    other = f"trap 'echo other >>{said}' TERM; echo up >>{said}; while :; do sleep 0.01; done"
    main = f"trap 'echo main >>{said}' TERM; sh -c \"{other}\" & while :; do sleep 0.01; done"
    kleader = candidate(["sh", "-c", main], f"--stop-signal-to={to}", "--stop-timeout=600s")
    wait_until(lambda: said.exists() and "up" in said.read_text(), "the command")
    kleader.signal(signal.SIGTERM)
    wait_until(lambda: expected <= set(said.read_text().split()), f"TERM at {expected}")
    kleader.signal(signal.SIGTERM)
    assert kleader.wait() == 128 + signal.SIGKILL
    assert set(said.read_text().split()) == expected | {"up"}


@pytest.mark.slow
@pytest.mark.parametrize(("restart", "status", "runs"), [
    ("no", 0, 1), ("no", 3, 1), ("on-failure", 0, 1), ("on-failure", 3, 2), ("always", 0, 2), ("always", 3, 2),
])  # fmt: skip
def test_an_ended_command_is_restarted_as_requested(
    candidate: Start, tmp_path: Path, restart: str, status: int, runs: int
) -> None:
    """After its tree was killed, with a pause, under the same token."""
    first = tmp_path / "brood"
    brood = f"brood={first}; test ! -e $brood || brood=$brood-2"
    script = f'echo "$KLEADER_FENCING_TOKEN"; {brood}; {" ".join(BROOD)} daemons 3 $brood; exit {status}'
    kleader = candidate(["sh", "-c", script], f"--restart={restart}")
    if runs == 1:
        assert kleader.wait() == status
    else:
        kleader.wait_log("command_restarting", "1s")
        assert not any(alive(int(pid)) for pid in first.read_text().split())
        kleader.wait_log("command_started", count=2)
        kleader.wait_log("command_restarting", "2s")
        kleader.signal(signal.SIGTERM)
        assert kleader.wait() == 128 + signal.SIGTERM
    assert len(kleader.out.split()) == runs
    assert len(set(kleader.out.split())) == 1


def test_many_sigterms_in_a_row_count_as_two(candidate: Start, witness: Witness) -> None:
    """One that comes while the tree is killed leaves no process alive."""
    kleader = candidate(witness.command("--ignore-term", "--descendant"))
    witness.wait_descendant()
    kleader.signal(signal.SIGTERM)
    kleader.wait_log("command_stopping")
    kleader.signal(signal.SIGTERM)
    kleader.signal(signal.SIGTERM)
    assert kleader.wait() == 128 + signal.SIGKILL
    witness.check(terms=1)


@pytest.mark.slow
@pytest.mark.parametrize(("content", "why"), [
    (b"\x7fELF nonsense", "Exec format error"),
    (b"echo hello\n", "Exec format error"),
    (b"#!/no/such/interpreter -x\n", "No such file or directory"),
    (b"#! /bin/sh\r\n", "No such file or directory"),
])  # fmt: skip
@pytest.mark.parametrize("named", ["by path", "in PATH"])
def test_an_exec_that_fails_while_leading_gives_the_same_status_after_the_release(
    candidate: Start, tmp_path: Path, content: bytes, why: str, named: str
) -> None:
    """No log line says before that it was started."""
    program = tmp_path / "program"
    program.write_bytes(content)
    program.chmod(0o755)
    command, path = ("program", f"{tmp_path}:{os.environ['PATH']}") if named == "in PATH" else (str(program), "/bin")
    kleader = candidate([command], "--restart=always", env={"PATH": path})
    assert kleader.wait() == (127 if "No such" in why else 126)
    assert f"cannot execute {command}: {why}\n" in kleader.err
    assert not kleader.logged("command_started")
    assert kleader.logged("released")


@pytest.mark.linux
def test_the_command_dies_with_its_supervisor(alone: Start, witness: Witness) -> None:
    """Also without an election: the kernel's doing (PR_SET_PDEATHSIG)."""
    kleader = alone(witness.command("--ignore-term"))
    term = witness.wait_start()
    kleader.kill()
    wait_until(lambda: not alive(term.pid), "its end")


def test_sigterm_at_any_moment_of_the_start_ends_pid_1(candidate: Start, lock: Path) -> None:
    """PID 1 has no default action: the signal stays blocked until a process takes it."""
    kleader = candidate(["sleep", "600"], before=IN_NAMESPACE)
    first = as_pid_1(kleader)
    wait_until(lambda: masked(first, "SigBlk", signal.SIGTERM), "its mask")
    os.kill(first, signal.SIGTERM)
    assert kleader.wait() == 128 + signal.SIGTERM


@pytest.mark.slow
def test_a_file_elector_stopped_while_it_acquires_blocks_no_candidate(candidate: Start, witness: Witness) -> None:
    """It is replaced, and its candidate contends again; a term too short to be observed does not count."""
    terms = stopped = 0
    while stopped < 5:
        kleader = candidate(witness.command("--exit-after=0"))
        wait_until(lambda kleader=kleader: file_electors_of(kleader) or not kleader.running, "the guard")  # type: ignore[misc]
        for guard in file_electors_of(kleader):
            with contextlib.suppress(ProcessLookupError):  # it has ended by itself
                os.kill(guard, signal.SIGSTOP)
                stopped += 1
        assert kleader.wait() == 0
        terms += 1
    witness.check(terms=terms)


def test_ctrl_z_during_the_acquisition_does_not_stop_the_leader(candidate: Start, witness: Witness) -> None:
    """The guard has the lock and said so; the supervisor finds both at once."""
    first = candidate(witness.command(), name="first")
    witness.wait_start()
    second = candidate(witness.command(), name="second")
    second.wait_log("leader_observed", r"is first\b")
    guard = file_elector_of(second)
    stop(second.pid)
    second.signal(signal.SIGTSTP)
    first.signal(signal.SIGTERM)
    assert first.wait() == 0
    wait_until(lambda: "poll" in Path(f"/proc/{guard}/wchan").read_text(), "the elector's Acquired")
    second.signal(signal.SIGCONT)
    assert witness.wait_start(2).identity == "second"
    witness.wait_beats(2)
    assert state(second.pid) != "T"
    second.signal(signal.SIGTERM)
    assert second.wait() == 0
    witness.check(terms=2)
