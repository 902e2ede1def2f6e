"""The file lock: no two candidates lead, whichever process is killed or stopped, or if the disk is full."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.process.conftest import file_elector_of
from tests.support.processes import alive, wait_gone, wait_until

if TYPE_CHECKING:
    from pathlib import Path

    from tests.conftest import Trials
    from tests.process.conftest import Start
    from tests.support.checker import Witness
    from tests.support.processes import Process

HANDOVERS = "handovers of the file lock"


def state(pid: int) -> str:
    """As proc(5) has it: T for stopped."""
    with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as stat:  # noqa: PTH123
        return stat.read().rpartition(")")[2].split()[0]


def stop(pid: int) -> None:
    """Stop a process, and wait until it is."""
    os.kill(pid, signal.SIGSTOP)
    wait_until(lambda: state(pid) == "T", f"the stop of {pid}")


def blocked(pid: int) -> bool:
    """Whether the process waits in flock(2)."""
    with open(f"/proc/{pid}/wchan", encoding="ascii") as wchan:  # noqa: PTH123
        return "lock" in wchan.read() or state(pid) == "S"


def waiting(candidate: Process) -> None:
    """Return once it waits for a leader's end."""
    candidate.wait_log("leader_observed")
    wait_until(lambda: blocked(file_elector_of(candidate)), "its wait")


def end_all(witness: Witness, *candidates: Process) -> None:
    """Stop who still runs, and hold what was seen against the promise."""
    for each in reversed(candidates):
        if each.running:
            each.signal(signal.SIGTERM)
            each.signal(signal.SIGCONT)
            each.wait()
    witness.check(restarts=True)


@pytest.mark.slow
def test_three_candidates_hand_over_in_turn(candidate: Start, witness: Witness, trials: Trials) -> None:
    rounds = 4
    running = [candidate(witness.command(), name=f"c{number}") for number in range(3)]
    for turn in range(1, 3 * rounds + 1):
        identity = witness.wait_start(turn).identity
        leader = next(each for each in running if each.name == identity)
        leader.signal(signal.SIGTERM)
        assert leader.wait() == 0
        running[running.index(leader)] = candidate(witness.command(), name=f"n{turn}")
    witness.wait_start(3 * rounds + 1)
    end_all(witness, *running)
    trials.count(3 * rounds, HANDOVERS)


@pytest.mark.slow
def test_candidate_reports_a_held_lock_file_without_a_record(candidate: Start, witness: Witness, lock: Path) -> None:
    """Otherwise a reader of the log would not know that it waits."""
    leader = candidate(witness.command(), name="leader")
    witness.wait_start()
    os.truncate(lock, 0)
    waits = candidate(witness.command(), name="waits")
    waits.wait_log("holder_unknown", role="candidate")
    leader.signal(signal.SIGTERM)
    assert leader.wait() == 0
    assert witness.wait_start(2).identity == "waits"
    end_all(witness, waits)


@pytest.mark.linux
def test_killing_every_process_of_a_candidate_frees_the_lock(
    candidate: Start, witness: Witness, trials: Trials
) -> None:
    first = candidate(witness.command(), name="first")
    main = witness.wait_start().pid
    second = candidate(witness.command(), name="second")
    waiting(second)
    guard = file_elector_of(first)
    first.signal(signal.SIGSTOP)  # it would replace a stopped guard
    os.kill(guard, signal.SIGSTOP)
    first.kill()
    os.kill(guard, signal.SIGKILL)
    wait_gone(main)
    witness.wait_start(2)
    end_all(witness, second)
    trials.count(1, HANDOVERS)


@pytest.mark.slow
def test_a_killed_supervisors_descendant_that_closed_the_lock_is_killed_before_the_next_term(
    candidate: Start, witness: Witness, trials: Trials
) -> None:
    """The guard holds the lock until it has killed what the supervisor left."""
    for trial in range(3):
        first = candidate(witness.command("--descendant", "--ignore-term"), name=f"first-{trial}")
        witness.wait_start(2 * trial + 1)
        descendant = witness.wait_descendant(2 * trial + 1)
        second = candidate(witness.command(), name=f"second-{trial}")
        waiting(second)
        first.kill()
        witness.wait_start(2 * trial + 2)
        assert not alive(descendant.pid)
        end_all(witness, second)
    trials.count(3, HANDOVERS)


def test_a_file_elector_that_was_stopped_kills_a_dead_supervisors_tree_when_it_continues(
    candidate: Start, witness: Witness, trials: Trials
) -> None:
    """It has the lock until then: it does not die with the supervisor."""
    first = candidate(witness.command("--descendant", "--ignore-term"), name="first")
    witness.wait_start()
    descendant = witness.wait_descendant()
    second = candidate(witness.command(), name="second")
    waiting(second)
    guard = file_elector_of(first)
    stop(first.pid)  # it would replace a guard that is stopped
    stop(guard)
    first.kill()
    with contextlib.suppress(ProcessLookupError):
        os.kill(guard, signal.SIGCONT)
    witness.wait_start(2)
    assert not alive(descendant.pid)
    end_all(witness, second)
    trials.count(1, HANDOVERS)


@pytest.mark.linux
def test_a_replacement_file_elector_knows_a_daemon_that_outlived_the_main_process(
    candidate: Start, witness: Witness, trials: Trials
) -> None:
    """--until-empty, the main process ended, the guard replaced, and only then the supervisor killed."""
    command = witness.command("--descendant", "--exit-after=0.1")
    command = ["sh", "-c", 'exec env -i KLEADER_IDENTITY=first "$@"', "-", *command]  # no marker to be found by
    first = candidate(command, "--until-empty", name="first")
    descendant = witness.wait_descendant()
    first.wait_log("command_exited")
    os.kill(file_elector_of(first), signal.SIGKILL)
    first.wait_log("elector_replaced")
    second = candidate(witness.command(), name="second")
    waiting(second)
    first.kill()
    witness.wait_start(2)
    assert not alive(descendant.pid)
    end_all(witness, second)
    trials.count(1, HANDOVERS)


@pytest.mark.linux
def test_a_waiting_file_elector_dies_with_its_supervisor(candidate: Start, witness: Witness) -> None:
    """There is no command yet."""
    first = candidate(witness.command(), name="first")
    witness.wait_start()
    second = candidate(witness.command(), name="second")
    waiting(second)
    guard = file_elector_of(second)
    second.kill()
    wait_gone(guard)
    end_all(witness, first)


@pytest.mark.parametrize("fault", ["killed", "stopped"])
def test_a_leader_whose_file_elector_dies_leads_on(
    candidate: Start, witness: Witness, trials: Trials, fault: str
) -> None:
    first = candidate(witness.command(), name="first")
    term = witness.wait_start()
    second = candidate(witness.command(), name="second")
    waiting(second)
    os.kill(file_elector_of(first), signal.SIGKILL if fault == "killed" else signal.SIGSTOP)
    first.wait_log("elector_replaced", r"\d+; the command goes on")
    witness.wait_beats(3)
    assert witness.now(term).main.beats > 0
    assert len(witness.terms()) == 1
    first.signal(signal.SIGTERM)
    witness.wait_start(2)
    end_all(witness, first, second)
    trials.count(1, HANDOVERS)


@pytest.mark.parametrize("fault", ["killed", "stopped"])
def test_a_candidate_whose_file_elector_dies_gets_another_and_leads(
    candidate: Start, witness: Witness, trials: Trials, fault: str
) -> None:
    first = candidate(witness.command(), name="first")
    witness.wait_start()
    second = candidate(witness.command(), name="second")
    waiting(second)
    guard = file_elector_of(second)
    os.kill(guard, signal.SIGKILL if fault == "killed" else signal.SIGSTOP)
    wait_gone(guard)
    second.wait_log("leader_observed", r"is first\b", count=2)
    first.signal(signal.SIGTERM)
    assert witness.wait_start(2).identity == "second"
    end_all(witness, first, second)
    trials.count(1, HANDOVERS)


def test_a_stopped_supervisor_and_file_elector_keep_the_lock(candidate: Start, witness: Witness) -> None:
    first = candidate(witness.command(), name="first")
    witness.wait_start()
    guard = file_elector_of(first)
    stop(first.pid)
    stop(guard)
    second = candidate(witness.command(), "--wait=300ms", name="second")
    assert second.wait() == 124
    assert len(witness.terms()) == 1
    os.kill(guard, signal.SIGCONT)
    first.signal(signal.SIGCONT)
    first.signal(signal.SIGTERM)
    assert first.wait() == 0
    witness.check(terms=1)


@pytest.mark.linux
def test_a_stopped_file_elector_keeps_the_lock_of_a_killed_supervisor(candidate: Start, witness: Witness) -> None:
    first = candidate(witness.command("--descendant"), name="first")
    main, descendant = witness.wait_start().pid, witness.wait_descendant().pid
    guard = file_elector_of(first)
    stop(first.pid)
    stop(guard)
    first.kill()
    wait_gone(main)  # by PR_SET_PDEATHSIG
    second = candidate(witness.command(), name="second")
    waiting(second)
    assert alive(descendant)
    assert len(witness.terms()) == 1
    os.kill(guard, signal.SIGCONT)
    witness.wait_start(2)
    assert not alive(descendant)
    end_all(witness, second)


# --- the record


def test_the_token_grows_though_the_wall_clock_goes_back(candidate: Start, lock: Path) -> None:
    """The record was edited to a token far ahead: the next ones are counted on from there."""
    ahead = 10**19
    lock.write_text(json.dumps({"kleader": 1, "token": str(ahead), "transitions": 4}) + "\n")
    for turn in (1, 2):
        kleader = candidate(["sh", "-c", 'echo "$KLEADER_FENCING_TOKEN" "$KLEADER_TRANSITIONS"'])
        assert kleader.wait() == 0
        assert kleader.out.split() == [str(ahead + turn), str(4 + turn)]


def test_an_incomplete_record_after_a_crash_is_taken_over(candidate: Start, lock: Path) -> None:
    lock.write_text('{"kleader": 1, "holderIdentity": "x')
    assert candidate(["true"]).wait() == 0


def test_the_record_is_in_the_file_before_the_command_starts(candidate: Start, lock: Path) -> None:
    kleader = candidate(["cat", str(lock)], name="me")
    assert kleader.wait() == 0
    record = json.loads(kleader.out)
    assert record["holderIdentity"] == "me"
    assert record["token"].isdecimal()


# --- places that cannot serve


def refused(candidate: Start, pattern: str, *options: str) -> None:
    """One clear line, and the command never ran."""
    kleader = candidate(["echo", "it ran"], *options)
    assert kleader.wait() == 125
    assert kleader.out == ""
    warned = kleader.logged(level="WARNING")
    said = [line for line in kleader.err.splitlines() if not any(line.endswith(each.message) for each in warned)]
    assert len(said) == 1, kleader.err
    assert pattern in said[0]


@pytest.mark.parametrize(("kind", "pattern"), [
    ("directory", "Is a directory"), ("fifo", "not a regular file"), ("symlink", "symbolic link"),
    ("foreign", "content that kleader did not write"), ("nowhere", "No such file or directory"),
])  # fmt: skip
def test_a_path_that_is_no_lock_file_is_refused_and_stays_unchanged(
    candidate: Start, lock: Path, kind: str, pattern: str
) -> None:
    path = lock
    if kind == "directory":
        lock.mkdir()
    elif kind == "fifo":
        os.mkfifo(lock)
    elif kind == "symlink":
        lock.symlink_to(lock.with_name("target"))
    elif kind == "foreign":
        lock.write_text("precious\n")
    else:
        path = lock / "missing" / "lock"
    refused(candidate, pattern, f"--lock=file:{path}")
    if kind == "foreign":
        assert lock.read_text() == "precious\n"


def in_mounts(script: str) -> list[str]:
    """What runs a command in mounts of its own, after the script."""
    root = [] if os.geteuid() == 0 else ["--map-root-user"]
    return ["unshare", *root, "--mount", "sh", "-ec", f'{script}; exec "$@"', "-"]


def test_a_read_only_directory_is_refused(candidate: Start, lock: Path) -> None:
    script = f"mount -t tmpfs -o ro none {lock.parent}"
    kleader = candidate(["true"], before=in_mounts(script))
    assert kleader.wait() == 125
    assert "Read-only file system" in kleader.err
    assert len(kleader.err.splitlines()) == 1


def test_on_a_full_disk_no_command_starts_without_its_token(candidate: Start, lock: Path) -> None:
    place = lock.parent / "full"
    place.mkdir()
    script = (
        f"mount -t tmpfs -o size=64k none {place}; touch {place}/l; "
        f"dd if=/dev/zero of={place}/fill bs=4k 2>/dev/null || true"
    )
    kleader = candidate(["echo", "it ran"], f"--lock=file:{place}/l", before=in_mounts(script))
    assert kleader.wait() == 125
    assert kleader.out == ""
    assert "cannot write the fencing token" in kleader.err
    assert "No space left on device" in kleader.err


def test_a_limit_on_file_sizes_leaves_the_last_record_whole(lock: Path) -> None:
    code = (
        "import os, resource, sys; from kleader.locks import file_lock;"
        "fd = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT);"
        "file_lock.write_record(fd, {'token': '1'}); resource.setrlimit(resource.RLIMIT_FSIZE, (40, 40));"
        "file_lock.write_record(fd, {'token': '2' * 99})"
    )
    done = subprocess.run([sys.executable, "-c", code, lock], check=False, capture_output=True, text=True)
    assert "File too large" in done.stderr
    assert json.loads(lock.read_text()) == {"kleader": 1, "token": "1"}


@pytest.mark.linux
@pytest.mark.parametrize("election", [True, False])
def test_a_process_limit_is_reported_in_one_line(candidate: Start, alone: Start, election: bool) -> None:  # noqa: FBT001
    """In a PID namespace whose first process has ended, fork fails."""
    root = [] if os.geteuid() == 0 else ["--map-root-user"]
    before = ["unshare", *root, "--pid", "sh", "-c", '/bin/true; exec "$@"', "-"]
    kleader = candidate(["true"], "--wait=300ms", before=before) if election else alone(["true"], before=before)
    assert kleader.wait() == 125
    assert f"cannot start the {'elector' if election else 'command'}: Cannot allocate memory" in kleader.err
    assert len(kleader.err.splitlines()) == 1


@pytest.mark.slow
def test_end_of_wait_names_the_holder_of_a_file_lock(candidate: Start, witness: Witness) -> None:
    first = candidate(witness.command(), name="first")
    witness.wait_start()
    for option in ("--wait=200ms", "--no-wait", "--wait=live"):
        second = candidate(["true"], option)
        assert second.wait() == 124
        assert "held by first for " in second.err
    end_all(witness, first)


@pytest.mark.slow
@pytest.mark.parametrize("option", ["--no-wait", "--wait=live"])
def test_a_lost_race_in_cron_logs_one_line_and_exits_with_the_chosen_status(
    candidate: Start, witness: Witness, option: str
) -> None:
    first = candidate(witness.command(), name="first")
    witness.wait_start()
    second = candidate(["true"], option)
    assert second.wait() == 124
    assert len(second.err.splitlines()) == 1
    assert second.logged("not_acquired", "held by first for ", level="INFO")
    quiet = candidate(["true"], option, "-q", "--busy-exit-code=0")
    assert (quiet.wait(), quiet.err) == (0, "")
    end_all(witness, first)
