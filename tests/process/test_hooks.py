"""What runs beside the command is no part of its tree, nor can that hide in it; nothing waits for it."""

from __future__ import annotations

import os
import shlex
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.process.conftest import lead, subreaper_of
from tests.support.processes import alive, wait_gone, wait_until

if TYPE_CHECKING:
    from tests.process.conftest import Scripted, Start
    from tests.support.checker import Witness
    from tests.support.processes import Process

BROOD = [sys.executable, str(Path("tests/support/brood.py").resolve())]


@pytest.fixture
def said(tmp_path: Path) -> Path:
    """Where hooks write."""
    return tmp_path / "said"


def shell(script: str) -> str:
    """An option's value that runs a script."""
    return shlex.join(["sh", "-c", script])


def lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


def observe(leader: str) -> dict[str, Any]:
    return {"leader": leader}


def end(kleader: Process, status: int = 0) -> None:
    kleader.signal(signal.SIGTERM)
    assert kleader.wait() == status


def end_now(kleader: Process, status: int = 0) -> None:
    """Do not wait for a hook that hangs: TERM again, once nothing but that is left."""
    if kleader.running:
        kleader.signal(signal.SIGTERM)
    kleader.wait_log("released")
    kleader.signal(signal.SIGTERM)
    assert kleader.wait() == status


@pytest.mark.slow
def test_on_new_leader_runs_for_the_first_leader_and_for_every_change(
    candidate: Start, witness: Witness, said: Path
) -> None:
    """On the file lock too, whose waiting candidates are told of no change."""
    hook = "--on-new-leader=" + shell(f"echo $KLEADER_IDENTITY sees $KLEADER_LEADER >>{said}")
    first = candidate(witness.command(), hook, name="first")
    witness.wait_start(1)
    third = candidate(witness.command(), hook, name="third")
    wait_until(lambda: "third sees first" in lines(said), "the waiting one's hook")
    end(first)
    assert witness.wait_start(2).identity == "third"
    wait_until(lambda: "third sees third" in lines(said), "the new leader's hook")
    fourth = candidate(witness.command(), hook, name="fourth")
    fifth = candidate(witness.command(), hook, name="fifth")
    for each in ("fourth", "fifth"):
        wait_until(lambda each=each: f"{each} sees third" in lines(said), f"the hook of {each}")  # type: ignore[misc]
    end(third)
    now = witness.wait_start(3).identity
    for each in ("fourth", "fifth"):
        wait_until(lambda each=each: f"{each} sees {now}" in lines(said), f"the news at {each}")  # type: ignore[misc]
    assert sorted(lines(said)) == sorted(
        ["first sees first", "third sees first", "third sees third"]
        + [f"{each} sees {leader}" for each in ("fourth", "fifth") for leader in ("third", now)]
    )
    end(fourth if now == "fourth" else fifth)
    witness.wait_start(4)


@pytest.mark.slow
def test_on_new_leader_runs_do_not_overlap_and_the_latest_leader_wins(
    scripted: Scripted, tmp_path: Path, said: Path
) -> None:
    go = tmp_path / "go"
    hook = shell(f"echo $KLEADER_LEADER >>{said}; until test -e {go}; do sleep 0.01; done; echo done >>{said}")
    script = [[0, "newleader", observe("a")], *([str(said), "newleader", observe(each)] for each in ("c", "", "b"))]
    script.append([str(tmp_path / "again"), "newleader", observe("b")])
    kleader = scripted(["true"], script, f"--on-new-leader={hook}")
    kleader.wait_log("leader_observed", r"is b\b")
    assert lines(said) == ["a"]
    go.touch()
    wait_until(lambda: lines(said) == ["a", "done", "b", "done"], "the latest")
    (tmp_path / "again").touch()
    kleader.wait_log("leader_observed", r"is b\b", count=2)
    end(kleader, 128 + signal.SIGTERM)
    assert lines(said) == ["a", "done", "b", "done"], "it is no change"


@pytest.mark.slow
def test_a_hook_has_no_input_no_terminal_no_lock_and_not_the_commands_output(candidate: Start, tmp_path: Path) -> None:
    found = tmp_path / "found"
    probe = "import os; print([os.readlink(f'/proc/self/fd/{n}') for n in os.listdir('/proc/self/fd') if n != '3'],"
    probe += f"os.getsid(0) == os.getpid(), 'KLEADER_FENCING_TOKEN' in os.environ, file=open({str(found)!r}, 'w'));"
    probe += "print('from the hook')"
    hook = shlex.join([sys.executable, "-c", probe])
    kleader = candidate(["sh", "-c", "echo from the command; sleep 600"], f"--on-new-leader={hook}")
    kleader.wait_err("from the hook")
    wait_until(lambda: kleader.out, "the command's word")
    assert kleader.out == "from the command\n"
    files, session, token = found.read_text().rpartition("]")[0], *found.read_text().split()[-2:]
    assert (session, token) == ("True", "True")
    assert "/dev/null" in files
    assert ".lock" not in files
    assert "pipe" not in files
    end(kleader, 128 + signal.SIGTERM)


@pytest.mark.slow
@pytest.mark.parametrize("status", [3, 126, 127])
def test_the_failure_of_a_hook_is_a_warning(candidate: Start, witness: Witness, tmp_path: Path, status: int) -> None:
    program = tmp_path / "program"
    program.write_text({3: "#!/bin/sh\nexit 3\n", 126: "no script", 127: "#!/no/such/interpreter\n"}[status])
    program.chmod(0o755)
    kleader = candidate(witness.command(), f"--on-new-leader={program}")
    witness.wait_start()
    kleader.wait_log("hook_failed", f"the --on-new-leader command exited with status {status}", level="WARNING")
    if status > 3:
        kleader.wait_err(f"the --on-new-leader command: cannot execute {program}: ")
    end(kleader)
    witness.check(terms=1)


def test_processes_that_a_hook_leaves_are_killed_when_it_ends(
    candidate: Start, witness: Witness, tmp_path: Path
) -> None:
    """Daemons too; the command is not."""
    brood = tmp_path / "brood"
    kleader = candidate(witness.command(), f"--on-new-leader={shlex.join([*BROOD, 'daemons', '5', str(brood)])}")
    term = witness.wait_start()
    wait_until(lambda: len(lines(brood)) == 5, "its daemons")
    wait_gone(*map(int, lines(brood)))
    witness.wait_beats(2)
    assert alive(term.pid)
    end(kleader)
    witness.check(terms=1)


def test_a_hook_may_finish_at_the_end_and_delays_no_release(candidate: Start, tmp_path: Path, said: Path) -> None:
    """It was killed, and called a failure. Here it waits for the next leader's command, so nothing may wait for it."""
    up, go, next_up = tmp_path / "up", tmp_path / "go", tmp_path / "next"
    script = f"touch {up}; until test -e {next_up}; do sleep 0.01; done; echo done >>{said}"
    hooked = ["sh", "-c", f"until test -e {go}; do sleep 0.01; done"]
    first = candidate(hooked, "--on-new-leader=" + shell(script), name="first")
    wait_until(up.exists, "the hook")
    second = candidate(["sh", "-c", f"touch {next_up}; sleep 600"], name="second")
    second.wait_log("leader_observed")
    go.touch()
    assert first.wait() == 0
    assert lines(said) == ["done"]
    assert not first.logged(level="WARNING")
    end(second, 128 + signal.SIGTERM)


@pytest.mark.slow
def test_a_hook_that_does_not_finish_at_the_end_is_killed_and_reported(candidate: Start, tmp_path: Path) -> None:
    up = tmp_path / "up"
    hooked = ["sh", "-c", f"until test -e {up}; do sleep 0.01; done; exit 4"]
    kleader = candidate(hooked, f"--on-new-leader={shell(f'echo $$ >{up}.new; mv {up}.new {up}; exec sleep 600')}")
    assert kleader.wait() == 4
    (line,) = kleader.logged(level="WARNING")
    assert line.is_of("hook_killed", "--on-new-leader command did not finish within 5s")
    wait_gone(int(up.read_text()))


@pytest.mark.slow
def test_a_hook_that_may_not_be_killed_does_not_delay_kleaders_end(scripted: Scripted, tmp_path: Path) -> None:
    """As `sudo` without root: its subreaper ends only when it does."""
    up = tmp_path / "up"
    hook = shell(f"echo $$ >{up}.new; mv {up}.new {up}; exec sleep 600")
    command = ["sh", "-c", f"until test -e {up}; do sleep 0.01; done; exit 4"]
    unasked = ["env", f"KLEADER_RUNTIME_DIR={tmp_path}/run"]  # by other tests, whose questions would wake it up
    story = [[0, "acquired", lead(600, 600)]]
    kleader = scripted(command, story, f"--on-new-leader={hook}", fault="may not kill", before=unasked)
    wait_until(up.exists, "the hook")
    try:
        assert kleader.wait() == 4
    finally:
        os.kill(int(up.read_text()), signal.SIGKILL)


def test_a_health_check_that_runs_at_the_end_is_killed_without_a_warning(candidate: Start, tmp_path: Path) -> None:
    runs, checked = tmp_path / "runs", tmp_path / "checked"
    check = f"test ! -e {runs} || {{ touch {checked}; exec sleep 600; }}"
    hooked = ["sh", "-c", f"touch {runs}; until test -e {checked}; do sleep 0.01; done"]
    kleader = candidate(hooked, f"--health={shell(check)}", "--health-period=1s", "--health-failures=1000")
    assert kleader.wait() == 0
    assert not kleader.logged("hook_failed", "exited with status")


@pytest.mark.parametrize("way", ["TERM", "KILL"])
def test_a_hook_that_hangs_is_killed_when_kleader_ends(
    candidate: Start, witness: Witness, tmp_path: Path, way: str
) -> None:
    """All that descends from it, also when kleader itself is killed; a second TERM does not wait for it."""
    brood = tmp_path / "brood"
    script = f"trap '' TERM; {shlex.join([*BROOD, 'daemons', '5', str(brood)])}; echo $$ >>{brood}; sleep 600"
    kleader = candidate(witness.command(), f"--on-new-leader={shell(script)}")
    witness.wait_start()
    wait_until(lambda: len(lines(brood)) == 6, "its daemons")
    if way == "TERM":
        end_now(kleader)
    else:
        kleader.kill()
    wait_gone(*map(int, lines(brood)))
    witness.check(terms=1)


def test_killing_the_command_kills_no_hook(candidate: Start, tmp_path: Path) -> None:
    """Its daemons too: the command is started again, and has ended when nothing but its own tree has."""
    brood, mine = tmp_path / "brood", tmp_path / "mine"
    hook = shell(f"{shlex.join([*BROOD, 'daemons', '5', str(brood)])}; sleep 600")
    go = tmp_path / "go"  # for the first start alone: the second one is there when TERM comes
    command = ["sh", "-c", f"until rm {go} 2>/dev/null; do sleep 0.01; done; {' '.join(BROOD)} daemons 2 {mine}"]
    kleader = candidate(command, f"--on-new-leader={hook}", "--restart=always")
    wait_until(lambda: len(lines(brood)) == 5, "the hook's daemons")
    go.touch()
    kleader.wait_log("command_restarting")
    assert not any(alive(int(pid)) for pid in lines(mine))
    assert all(alive(int(pid)) for pid in lines(brood))
    kleader.wait_log("command_started", count=2)
    end_now(kleader, 128 + signal.SIGTERM)
    wait_gone(*map(int, lines(brood)))


def test_a_running_hook_does_not_extend_until_empty(candidate: Start, tmp_path: Path) -> None:
    up = tmp_path / "up"
    kleader = candidate(
        ["sh", "-c", f"until test -e {up}; do sleep 0.01; done; exit 4"],
        f"--on-new-leader={shell(f'touch {up}; sleep 600')}",
        "--until-empty",
    )
    kleader.wait_log("released")
    kleader.signal(signal.SIGTERM)
    assert kleader.wait() == 4


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_a_hook_whose_subreaper_is_killed_dies_with_the_command(
    candidate: Start, witness: Witness, tmp_path: Path, number: signal.Signals
) -> None:
    """What is not provably a hook's is the command's, and the lock is not given up before it is dead."""
    brood = tmp_path / "brood"
    hook = shell(f"{shlex.join([*BROOD, 'daemons', '5', str(brood)])}; sleep 600")
    kleader = candidate(witness.command(), f"--on-new-leader={hook}")
    witness.wait_start()
    wait_until(lambda: len(lines(brood)) == 5, "the hook's daemons")
    os.kill(subreaper_of(kleader), number)
    kleader.wait_log("hook_failed", "the --on-new-leader command was ended by SIGKILL")
    witness.wait_beats(2)
    end(kleader)
    assert not any(alive(int(pid)) for pid in lines(brood))
    witness.check(terms=1)


@pytest.mark.parametrize("does", [
    "yes | head -c 10000000", "n=0; while test $((n+=1)) -lt 300; do sleep 600 & done", "kill -STOP $$",
])  # fmt: skip
def test_no_hook_delays_the_end_of_a_term(scripted: Scripted, witness: Witness, tmp_path: Path, does: str) -> None:
    """One that floods standard error, forks again and again or stops itself."""
    lost, up = tmp_path / "lost", tmp_path / "up"
    story = [[0, "acquired", lead(60, 70)], [str(lost), "lost", {"reason": "another leads", "kill_now": True}]]
    hook = shell(f"touch {up}; {does}; sleep 600")
    kleader = scripted(witness.command("--ignore-term", "--descendant"), story, f"--on-new-leader={hook}")
    term, other = witness.wait_start(), witness.wait_descendant()
    wait_until(up.exists, "the hook")
    lost.touch()
    kleader.wait_log("term_ended")
    assert not alive(term.pid)
    assert not alive(other.pid)
    kleader.signal(signal.SIGTERM)
    assert kleader.wait() == 255
    witness.check(terms=1)


@pytest.mark.slow
@pytest.mark.parametrize(("hook", "status"), [("no-such-command-anywhere", 127), ("/etc/passwd x", 126)])
@pytest.mark.parametrize("option", ["--on-new-leader", "--health"])
def test_a_hook_that_cannot_be_executed_is_refused_before_the_lock_is_touched(
    candidate: Start, lock: Path, option: str, hook: str, status: int
) -> None:
    kleader = candidate(["true"], f"{option}={hook}")
    assert kleader.wait() == status
    assert not lock.exists()
    assert kleader.err.startswith(f"kleader: error: cannot execute {hook.split(maxsplit=1)[0]}: ")


@pytest.mark.slow
def test_without_an_election_on_new_leader_does_not_run(alone: Start) -> None:
    kleader = alone(["true"], "--on-new-leader=false", "--health=false")
    assert kleader.wait() == 0
    for option in ("--on-new-leader", "--health"):
        kleader_said = f"{option} does nothing with --leader-elect=false"
        assert kleader_said in kleader.err


def test_no_subreaper_inherits_the_lock(candidate: Start, witness: Witness, tmp_path: Path) -> None:
    """Otherwise a hook that is stopped with its subreaper would keep the lock from the next leader."""
    brood = tmp_path / "brood"
    kleader = candidate(witness.command(), f"--on-new-leader={shell(f'echo $PPID >{brood}; sleep 600')}")
    witness.wait_start()
    wait_until(lambda: lines(brood), "the hook")
    (keeper,) = map(int, lines(brood))
    files = [os.readlink(each) for each in Path(f"/proc/{keeper}/fd").iterdir()]  # noqa: PTH115 - may be no path
    assert not [each for each in files if each.endswith(".lock")]
    end_now(kleader)
    witness.check(terms=1)
