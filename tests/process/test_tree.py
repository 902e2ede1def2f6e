"""What the command leaves behind is dead before the lock is free."""

from __future__ import annotations

import os
import shlex
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest

from kleader.procs.bystanders import SCAN_EVERY
from tests.process.conftest import IN_NAMESPACE, KLEADER, as_pid_1, file_elector_of, words
from tests.process.test_terminal import PROMPT, Terminal
from tests.support.processes import alive, descendants, wait_gone, wait_until
from tests.support.trees import BROOD, bare_loop, pids, swept

if TYPE_CHECKING:
    from tests.conftest import Trials
    from tests.process.conftest import Start
    from tests.support.checker import Witness
    from tests.support.processes import Process, Processes

PYTHON = [sys.executable, "-I", "-S", "-c"]
ORPHANS = """
import os, sys
for _ in range(2000):
    if os.fork() == 0:
        if os.fork() == 0:
            os._exit(0)  # an orphan by now, or soon
        os._exit(0)
    os.wait()
open(sys.argv[1], "w").close()
sys.stdin.read()
"""


@pytest.mark.parametrize(("kind", "number", "size"), [
    ("flat", 100, 100), ("daemons", 100, 100), ("chain", 100, 100), ("bomb", 7, 127),
])  # fmt: skip
def test_the_tree_is_dead_when_the_lock_is_released(  # noqa: PLR0917
    candidate: Start, tmp_path: Path, trials: Trials, kind: str, number: int, size: int
) -> None:
    brood = tmp_path / "brood"
    kleader = candidate([*BROOD, kind, str(number), str(brood)], "--log-format=json")
    assert kleader.wait() == 0
    assert len(pids(brood)) == size
    assert not any(map(alive, pids(brood)))
    took = swept(kleader.err)
    print(f"{kind}: {size} processes gone after {took * 1000:.0f} ms")  # noqa: T201
    trials.count(size, "processes swept")


@pytest.mark.slow
@pytest.mark.alone
@pytest.mark.parametrize(("kind", "number", "size"), [
    ("flat", 1000, 1000), ("daemons", 1000, 1000), ("bomb", 10, 1023),
])  # fmt: skip
def test_a_tree_of_1000_processes_is_killed_in_three_times_a_bare_loop(  # noqa: PLR0917
    candidate: Start, processes: Processes, tmp_path: Path, trials: Trials, kind: str, number: int, size: int
) -> None:
    """The loop kills and reaps such a tree beside it. Noise may hit one of both: one of five trials must do."""
    took, floor = 1.0, 0.0
    for trial in range(5):
        ours, bare, flag = (tmp_path / f"{what}-{trial}" for what in ("ours", "bare", "flag"))
        os.mkfifo(flag)
        script = f"{' '.join(BROOD)} {kind} {number} {ours}; read line <{flag}"
        kleader = candidate(["sh", "-c", script], "--log-format=json")
        assert processes.start([*BROOD, kind, str(number), str(bare)]).wait() == 0
        wait_until(lambda ours=ours: ours.exists() and len(pids(ours)) == size, "its tree")  # type: ignore[misc]
        flag.write_text("\n")
        floor = bare_loop(pids(bare))
        kleader.wait()
        took = swept(kleader.err)
        print(f"{kind}: {size} processes gone after {took * 1000:.0f} ms; a bare loop: {floor * 1000:.0f} ms")  # noqa: T201
        assert not any(map(alive, pids(ours)))
        if took <= 3 * floor:
            break
    assert took <= 3 * floor
    trials.count(1, "trees of 1,000 processes beside a bare loop's")


@pytest.mark.slow
def test_2000_orphans_are_reaped_by_pid_1(candidate: Start, tmp_path: Path, trials: Trials) -> None:
    flag = tmp_path / "done"
    reading, writing = os.pipe()
    kleader = candidate([*PYTHON, ORPHANS, str(flag)], before=IN_NAMESPACE, stdin=reading)
    os.close(reading)
    wait_until(flag.exists, "2,000 orphans")
    first = as_pid_1(kleader)
    children = Path(f"/proc/{first}/task/{first}/children")
    wait_until(lambda: len(children.read_text().split()) == 2, "the command and the guard alone below PID 1")
    os.close(writing)
    assert kleader.wait() == 0
    trials.count(2000, "orphans reaped as PID 1")


def exec_session(processes: Processes, pid_1: int, script: str) -> Process:
    """What `kubectl exec` starts: it is in the PID namespace, and its parent is not."""
    user = [] if os.geteuid() == 0 else ["--user", "--preserve-credentials"]
    return processes.start(["nsenter", f"--target={pid_1}", *user, "--pid", "sh", "-c", script])


def test_a_process_that_entered_the_pid_namespace_lives_until_pid_1_ends(
    candidate: Start, processes: Processes, tmp_path: Path
) -> None:
    """As `kubectl exec` comes: its parent is no process of the namespace."""
    flag = tmp_path / "end"
    script = f"until test -e {flag}; do sleep 0.01; done; rm {flag}"
    kleader = candidate(["sh", "-c", script], "--restart=always", before=IN_NAMESPACE)
    kleader.wait_log("command_started")
    first = as_pid_1(kleader)
    session = exec_session(processes, first, "echo up; exec sleep 600")
    wait_until(lambda: "up" in session.out, "the session")
    flag.touch()
    kleader.wait_log("command_started", count=2)
    assert session.running
    os.kill(first, signal.SIGTERM)
    kleader.wait()
    assert session.wait() in {128 + signal.SIGKILL, -signal.SIGKILL}


def test_an_orphan_comes_to_kleader_where_it_is_not_pid_1(candidate: Start, tmp_path: Path) -> None:
    brood = tmp_path / "brood"
    script = f"{' '.join(BROOD)} daemons 1 {brood}; exec sleep 600"
    kleader = candidate(["sh", "-c", script])
    wait_until(lambda: brood.exists() and pids(brood), "the daemon")
    (daemon,) = pids(brood)
    wait_until(lambda: int(Path(f"/proc/{daemon}/stat").read_text().split()[3]) == kleader.pid, "its adoption")
    kleader.signal(signal.SIGTERM)
    assert kleader.wait() == 128 + signal.SIGTERM
    assert not alive(daemon)


@pytest.mark.parametrize("end", ["TERM", "by itself", "second TERM"])
def test_a_descendant_that_ignores_sigterm_is_dead_before_the_next_leader(
    candidate: Start, witness: Witness, trials: Trials, tmp_path: Path, end: str
) -> None:
    flag = tmp_path / "end"
    options = ["--descendant", f"--exit-when={flag}", *(["--ignore-term"] if end == "second TERM" else [])]
    first = candidate(witness.command(*options), name="first")
    witness.wait_start()
    descendant = witness.wait_descendant()
    second = candidate(witness.command(), name="second")
    second.wait_log("leader_observed", r"is first\b")
    if end == "by itself":
        flag.touch()
    else:
        first.signal(signal.SIGTERM)
    if end == "second TERM":
        first.wait_log("command_stopping")
        witness.wait_beats()
        first.signal(signal.SIGTERM)
    assert first.wait() == (128 + signal.SIGKILL if end == "second TERM" else 0)
    assert not alive(descendant.pid)
    witness.wait_start(2)
    second.signal(signal.SIGTERM)
    assert second.wait() == 0
    witness.check(terms=2)
    trials.count(1, "handovers of the file lock")


def test_a_command_that_ignores_term_is_killed_after_the_stop_timeout(candidate: Start, witness: Witness) -> None:
    kleader = candidate(witness.command("--ignore-term"), "--stop-timeout=200ms")
    witness.wait_start()
    kleader.signal(signal.SIGTERM)
    kleader.wait_log("command_killed", "not stop")
    assert kleader.wait() == 128 + signal.SIGKILL
    witness.check(terms=1)


def test_a_zombie_with_a_working_thread_is_alive(candidate: Start, witness: Witness) -> None:
    """The lock stays until that one is dead, too."""
    first = candidate(witness.command("--zombie-leader"), "--stop-timeout=200ms", name="first")
    term = witness.wait_start()
    witness.wait_beats()
    second = candidate(witness.command(), name="second")
    second.wait_log("leader_observed", r"is first\b")
    first.signal(signal.SIGTERM)
    assert first.wait() in {0, 128 + signal.SIGKILL, 128 + signal.SIGTERM}
    wait_gone(term.pid)
    witness.wait_start(2)
    second.signal(signal.SIGTERM)
    second.wait()
    witness.check(terms=2)


@pytest.mark.parametrize("end", ["second TERM", "KILL"])
def test_processes_in_the_process_group_of_kleader_are_not_killed_with_the_command(
    processes: Processes, witness: Witness, lock: Path, tmp_path: Path, end: str
) -> None:
    """`kleader run … | less` at a terminal: kleader, the command and the pager are one group, which kleader leads."""
    err, said = tmp_path / "err", tmp_path / "said"
    shell = Terminal(processes, ["bash", "--norc", "--noprofile", "--noediting", "-i"])
    shell.wait(PROMPT)
    command = " ".join(witness.command("--ignore-term", "--descendant"))
    run = f"{shlex.join(KLEADER)} run --lock=file:{lock} --name=t -- {command} 2>{err}"
    shell.type(f"{run} | (cat; echo the pager ends by itself) >{said}\n")
    term, descendant = witness.wait_start(), witness.wait_descendant()
    kleader = psutil.Process(term.pid).ppid()
    assert os.getpgid(term.pid) == kleader == shell.foreground()
    if end == "second TERM":
        os.kill(kleader, signal.SIGTERM)
        wait_until(lambda: "stopping the command" in err.read_text(), "the stop")
        os.kill(kleader, signal.SIGTERM)
    else:
        os.kill(kleader, signal.SIGKILL)
    shell.wait(PROMPT)
    assert said.read_text().endswith("the pager ends by itself\n")
    wait_gone(term.pid, descendant.pid)
    shell.close()


def test_until_empty_keeps_the_lock_for_a_daemon(candidate: Start, tmp_path: Path) -> None:
    brood = tmp_path / "brood"
    kleader = candidate([*BROOD, "daemons", "1", str(brood)], "--until-empty")
    kleader.wait_log("command_exited", " status 0")
    (daemon,) = pids(brood)
    assert alive(daemon)
    assert kleader.running
    os.kill(daemon, signal.SIGKILL)
    assert kleader.wait() == 0
    assert kleader.logged("released")


def test_until_empty_sends_a_daemon_sigterm_before_sigkill(candidate: Start, tmp_path: Path) -> None:
    """Also one that the main process leaves when it is itself asked to."""
    said = tmp_path / "said"
    daemon = f"trap 'echo asked >>{said}; exit' TERM; echo up >>{said}; while :; do sleep 0.01; done"
    main = f"trap 'exit 3' TERM; (setsid sh -c \"{daemon}\") & while :; do sleep 0.01; done"
    kleader = candidate(["sh", "-c", main], "--until-empty")
    wait_until(lambda: said.exists() and "up" in said.read_text(), "the daemon")
    kleader.signal(signal.SIGTERM)
    assert kleader.wait() == 3
    assert "asked" in said.read_text()


def test_until_empty_delays_a_restart_until_the_daemon_has_ended(candidate: Start, tmp_path: Path) -> None:
    """Each run is the main process and what it left; the status of the last one counts."""
    flag = tmp_path / "end"
    daemon = f"setsid sh -c 'while [ ! -e {flag} ]; do sleep 0.01; done; echo the daemon ended'"
    kleader = candidate(["sh", "-c", f"echo up; {daemon} & exit 3"], "--until-empty", "--restart=always")
    kleader.wait_log("command_exited", " status 3")
    assert "restarting" not in kleader.err
    flag.touch()
    kleader.wait_log("command_started", count=2)
    assert kleader.out.splitlines()[:2] == ["up", "the daemon ended"]
    kleader.signal(signal.SIGTERM)
    assert kleader.wait() in {3, 128 + signal.SIGTERM}  # it may have been about to exit


def test_processes_older_than_kleader_survive_it(processes: Processes, lock: Path, tmp_path: Path) -> None:
    """`helper & exec kleader run …`, as entry points of containers are written: the helper is none of the command's."""
    pids = tmp_path / "pids"
    run = f"{shlex.join(KLEADER)} run --lock=file:{lock} --name=t --"
    helper = f"sh -c 'sleep 600 & echo $! $$ >{pids}; wait'"
    kleader = processes.start(["sh", "-c", f"{helper} & exec {run} sh -c 'until test -s {pids}; do :; done; exit 3'"])
    assert kleader.wait() == 3
    try:
        assert all(map(alive, map(int, pids.read_text().split())))
    finally:
        for pid in pids.read_text().split():
            os.kill(int(pid), signal.SIGKILL)


def test_a_replacement_file_elector_does_not_kill_processes_older_than_kleader(
    processes: Processes, lock: Path, tmp_path: Path
) -> None:
    """It learns of the command's processes during a term, and kills those that are left."""
    pids = tmp_path / "pids"
    run = f"{shlex.join(KLEADER)} run --lock=file:{lock} --name=t --"
    script = f"sleep 600 & echo $! >{pids}; exec {run} sh -c 'echo $$ >>{pids}; exec sleep 601'"
    kleader = processes.start(["sh", "-c", script])
    kleader.wait_log("command_started")
    wait_until(lambda: pids.read_text().count("\n") == 2, "both pids")
    helper, command = map(int, pids.read_text().split())
    os.kill(file_elector_of(kleader), signal.SIGKILL)
    kleader.wait_log("elector_replaced")
    kleader.signal(signal.SIGKILL)
    wait_until(lambda: kleader.logged("supervisor_died"), "the end of what is left")
    try:
        assert not alive(command)
        assert alive(helper)
    finally:
        os.kill(helper, signal.SIGKILL)


def test_process_started_by_a_sibling_while_kleader_waits_is_not_killed(
    processes: Processes, candidate: Start, lock: Path, tmp_path: Path
) -> None:
    """Its parent ended before the command began, and it was never found below kleader."""
    first, flag, pid = candidate(["sleep", "600"]), tmp_path / "end", tmp_path / "pid"
    first.wait_log("command_started")
    run = f"{shlex.join(KLEADER)} run --lock=file:{lock} --name=t -- true"
    helper = f"until test -e {flag}; do sleep 0.01; done; (sleep 600 & echo $! >{pid}); sleep 1; exec sleep 0.5"
    kleader = processes.start(["sh", "-c", f"sh -c '{helper}' & exec {run}"])
    kleader.wait_log("leader_observed")
    flag.touch()
    wait_until(lambda: pid.exists() and pid.read_text(), "what it starts")
    first.signal(signal.SIGTERM)
    assert kleader.wait() == 0
    assert alive(int(pid.read_text()))
    os.kill(int(pid.read_text()), signal.SIGKILL)


def test_process_started_by_a_sibling_while_kleader_waits_outlives_a_killed_supervisor(
    processes: Processes, candidate: Start, lock: Path, tmp_path: Path
) -> None:
    """The elector kills the command's processes then, and was started before that one."""
    first, flag, pid = candidate(["sleep", "600"]), tmp_path / "end", tmp_path / "pid"
    first.wait_log("command_started")
    run = f"{shlex.join(KLEADER)} run --lock=file:{lock} --name=t -- sh -c 'sleep 600 & exec sleep 600'"
    helper = f"until test -e {flag}; do sleep 0.01; done; (sleep 600 & echo $! >{pid})"
    script = tmp_path / "helper"
    script.write_text(helper)
    kleader = processes.start(["sh", "-c", f"sh {script} & exec {run}"])
    kleader.wait_log("leader_observed")
    flag.touch()
    wait_until(lambda: pid.exists() and pid.read_text(), "what it starts")
    first.signal(signal.SIGTERM)
    kleader.wait_log("command_started")
    helpers = int(pid.read_text())
    others = {*descendants(kleader.pid)} - {helpers, file_elector_of(kleader)}
    kleader.kill()
    wait_until(lambda: kleader.logged("supervisor_died"), "the elector's kill")
    wait_gone(*others)
    assert alive(helpers)
    os.kill(helpers, signal.SIGKILL)


@pytest.mark.slow
def test_orphans_of_an_exec_session_are_not_killed_with_the_command(
    candidate: Start, processes: Processes, tmp_path: Path
) -> None:
    """As `kubectl exec` does: its orphan comes to PID 1, which waits for it no more than it kills it."""
    flag = tmp_path / "end"
    script = f"until test -e {flag}; do sleep 0.01; done; rm {flag}"
    kleader = candidate(["sh", "-c", script], "--restart=always", before=IN_NAMESPACE)
    kleader.wait_log("command_started")
    first = as_pid_1(kleader)
    session = exec_session(processes, first, "sleep 600 & exec sleep 599")

    def sleeper(seconds: str) -> list[int]:
        return [pid for pid in descendants(session.pid) if seconds in words(pid)]

    wait_until(lambda: sleeper("599") and sleeper("600"), "what it leaves behind")
    (leader,), (orphan,) = sleeper("599"), sleeper("600")
    time.sleep(2 * SCAN_EVERY)
    os.kill(leader, signal.SIGKILL)
    wait_until(lambda: int(Path(f"/proc/{orphan}/stat").read_text().split()[3]) == first, "its adoption")
    flag.touch()
    kleader.wait_log("command_started", count=2)
    assert alive(orphan)
    os.kill(first, signal.SIGTERM)
    kleader.wait()
    wait_gone(orphan)


TRACED = """
import ctypes, os, signal
ctypes.CDLL(None).prctl(0x59616d61, ctypes.c_ulong(-1), 0, 0, 0)  # PR_SET_PTRACER_ANY
print(os.getpid(), flush=True)
signal.pause()
"""
TRACER = """
import ctypes, sys, time
libc = ctypes.CDLL(None, use_errno=True)
assert libc.ptrace(0x4206, int(sys.argv[1]), None, None) == 0, ctypes.get_errno()  # PTRACE_SEIZE
print("seized", flush=True)
time.sleep(600)
"""


def test_traced_zombie_does_not_delay_the_release(candidate: Start, processes: Processes) -> None:
    """A debugger or strace that hangs: until it lets go, the zombie cannot be reaped, and it is dead all the same."""
    kleader = candidate([*PYTHON, f"import os\nif os.fork() == 0:\n    exec({TRACED!r})\nos.wait()"])
    wait_until(lambda: kleader.out.count("\n") == 1, "its pid")
    traced = int(kleader.out)
    tracer = processes.start([*PYTHON, TRACER, str(traced)])
    wait_until(lambda: tracer.out, "a tracer")
    kleader.signal(signal.SIGTERM)
    assert kleader.wait() == 128 + signal.SIGTERM
    assert kleader.logged("released")
    assert Path(f"/proc/{traced}/stat").read_text().rpartition(") ")[2][0] == "Z"
    tracer.kill()


def test_the_command_does_not_inherit_the_priority_that_kleader_takes(processes: Processes, lock: Path) -> None:
    """Nor what runs beside it. kleader itself must not wait for the processor behind a thousand others."""
    show = "import os; print(os.getpriority(os.PRIO_PROCESS, 0), os.sched_getscheduler(0))"
    run = [*KLEADER, "run", f"--lock=file:{lock}", "--name=t", "--"]
    kleader = processes.start(["nice", "-n", "5", *run, *PYTHON, show])
    assert kleader.wait() == 0
    assert kleader.out.split() == [str(os.getpriority(os.PRIO_PROCESS, 0) + 5), str(os.SCHED_OTHER)]
