"""A standby runs while its candidate waits; it is dead, tree and all, before its kleader starts the command."""

from __future__ import annotations

import os
import shlex
import signal
import time
from typing import TYPE_CHECKING, Any

import pytest

from tests.process.conftest import Heard, file_elector_of, lead, subreaper_of
from tests.process.test_file_lock import state, stop
from tests.support.processes import alive, masked, wait_gone, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.conftest import Trials
    from tests.process.conftest import Scripted, Start
    from tests.support.checker import Witness
    from tests.support.processes import Process

SHORT = ("--lease-duration=3s", "--renew-deadline=2s", "--retry-period=1s")
DEAF = ("--ignore-term", "--descendant")


@pytest.fixture
def flag(tmp_path: Path) -> Path:
    """When the elector says that the lock is held."""
    return tmp_path / "lead"


@pytest.fixture
def counted(trials: Trials) -> Iterator[None]:
    """Of a standby that gives way."""
    yield
    trials.count(1, "standbys that gave way")


def story(flag: Path, *more: Any) -> list[Any]:  # noqa: ANN401
    return [[str(flag), "acquired", lead(60, 70)], *more]


def standby(witness: Witness, *does: str) -> str:
    return f"--standby={shlex.join(witness.command(*does))}"


def shell(script: str) -> str:
    return "--standby=" + shlex.join(["sh", "-c", script])


def end(kleader: Process, status: int = 0) -> None:
    kleader.signal(signal.SIGTERM)
    assert kleader.wait() == status


@pytest.mark.parametrize("does", [(), ("--term-delay=0.3",), ("--ignore-term",), DEAF, ("--zombie-leader",)], ids=str)
@pytest.mark.usefixtures("counted")
def test_the_standby_is_dead_before_the_leading_command_starts(
    scripted: Scripted, witness: Witness, heard: Heard, flag: Path, does: tuple[str, ...]
) -> None:
    polite = not does or "delay" in does[0]
    grace = f"--loss-grace={'3s' if polite else '500ms'}"
    kleader = scripted(witness.command(), story(flag), standby(witness, *does), grace)
    first = witness.wait_start()
    if "--descendant" in does:
        witness.wait_descendant()
    flag.touch()
    second = witness.wait_start(2)
    assert (first.token, second.token) == ("-", "1")
    if polite:
        assert witness.now(first).main.ended, "it had the time to wind down"
    (started,) = heard.wait("Started")
    assert len(started["children"]) == 2, "the elector and the command, which waits at its gate"
    end(kleader)
    witness.check(terms=2)


@pytest.mark.usefixtures("counted")
@pytest.mark.parametrize("whom", ["main", "keeper"])
@pytest.mark.parametrize("number", [signal.SIGSTOP, signal.SIGKILL])
def test_the_standby_is_dead_first_though_one_of_its_processes_was_stopped_or_killed(
    scripted: Scripted, witness: Witness, flag: Path, whom: str, number: signal.Signals
) -> None:
    """What a keeper that was killed kept is the supervisor's, and killed with the rest."""
    kleader = scripted(witness.command(), story(flag), standby(witness, *DEAF), "--loss-grace=200ms")
    first, _ = witness.wait_start(), witness.wait_descendant()
    os.kill(first.pid if whom == "main" else subreaper_of(kleader), number)
    if whom == "keeper" or number == signal.SIGKILL:
        kleader.wait_log("standby_exited")
    flag.touch()
    wait_until(lambda: any(term.token == "1" for term in witness.terms()), "the command")
    wait_gone(*(life.pid for life in witness.now(first).descendants))
    end(kleader)
    witness.check()


@pytest.mark.usefixtures("counted")
def test_the_standby_is_dead_first_though_its_subreaper_is_killed_while_it_stops(
    scripted: Scripted, witness: Witness, flag: Path
) -> None:
    """That keeper can prove nothing any more; the supervisor does."""
    kleader = scripted(witness.command(), story(flag), standby(witness, *DEAF), plan={"grace": 60})
    first, descendant = witness.wait_start(), witness.wait_descendant()
    flag.touch()
    kleader.wait_log("standby_stopping")
    os.kill(subreaper_of(kleader), signal.SIGKILL)
    witness.wait_start(2)
    assert not alive(first.pid)
    assert not alive(descendant.pid)
    end(kleader)
    witness.check(terms=2)


def test_the_standby_dies_with_its_subreaper_while_the_supervisor_is_stopped(
    scripted: Scripted, witness: Witness, flag: Path
) -> None:
    """The supervisor is stopped: it is the kernel's doing (PR_SET_PDEATHSIG)."""
    kleader = scripted(witness.command(), story(flag), standby(witness, "--ignore-term"))
    first = witness.wait_start()
    keeper = subreaper_of(kleader)
    stop(kleader.pid)
    os.kill(keeper, signal.SIGKILL)
    wait_gone(first.pid)
    kleader.signal(signal.SIGCONT)
    end(kleader, 128 + signal.SIGTERM)


@pytest.mark.slow
def test_processes_that_a_standby_leaves_are_killed_at_once(scripted: Scripted, witness: Witness, flag: Path) -> None:
    """It is started again, with pauses that grow, and in a term not at all."""
    kleader = scripted(witness.command(), story(flag), standby(witness, "--descendant", "--exit-after=0", "--status=3"))
    kleader.wait_log("standby_exited", ", with status 3; starting it again in 1s", level="WARNING")
    kleader.wait_log("standby_exited", ", with status 3; starting it again in 2s")
    assert not any(alive(life.pid) for term in witness.terms() for life in (term.main, *term.descendants))
    flag.touch()
    wait_until(lambda: any(term.token == "1" for term in witness.terms()), "the command")
    witness.wait_beats(2)
    end(kleader)
    witness.check(terms=3)


@pytest.mark.slow
def test_the_standby_is_started_again_after_a_loss(scripted: Scripted, witness: Witness, flag: Path) -> None:
    lost = flag.with_name("lost")
    script = story(flag, [str(lost), "lost", {"reason": "another leads", "kill_now": True}])
    kleader = scripted(witness.command(), script, standby(witness), "--on-loss=wait")
    witness.wait_start()
    flag.touch()
    witness.wait_start(2)
    lost.touch()
    third = witness.wait_start(3)
    assert third.token == "-"
    end(kleader, 128 + signal.SIGTERM)
    assert witness.now(third).main.ended
    witness.check(terms=3)


@pytest.mark.slow
@pytest.mark.parametrize(("end", "status"), [("lost", 255), ("stepdown", 255), ("TERM", 128 + signal.SIGTERM)])
def test_a_term_that_ends_while_the_standby_stops_starts_no_command(
    scripted: Scripted, witness: Witness, tmp_path: Path, end: str, status: int
) -> None:
    """The lock is given up only when it is dead."""
    flag, then, heard = tmp_path / "lead", tmp_path / "then", Heard(tmp_path / "heard")
    said = {
        "lost": {"reason": "another leads", "kill_now": True},
        "stepdown": {"reason": "somebody better suited waits"},
    }
    script = story(flag, *([[str(then), end, said[end]]] if end in said else []))
    kleader = scripted(witness.command(), script, standby(witness, *DEAF), "--loss-grace=3s")
    first, other = witness.wait_start(), witness.wait_descendant()
    flag.touch()
    kleader.wait_log("standby_stopping", role="giving way")
    then.touch() if end in said else kleader.signal(signal.SIGTERM)
    assert kleader.wait() == status
    assert not alive(first.pid)
    assert not alive(other.pid)
    (told,) = heard.wait("AllProcessesExited")
    assert len(told["children"]) == 1
    assert told["release"] == (end != "lost")
    witness.check(terms=1)


@pytest.mark.slow
def test_an_elector_that_dies_while_the_standby_stops_is_replaced(
    scripted: Scripted, witness: Witness, heard: Heard, flag: Path
) -> None:
    kleader = scripted(witness.command(), story(flag), standby(witness, *DEAF), "--loss-grace=1s")
    witness.wait_descendant()
    flag.touch()
    kleader.wait_log("standby_stopping", role="giving way")
    os.kill(heard("Assign")[0]["pid"], signal.SIGKILL)
    witness.wait_start(2)
    wait_until(lambda: len(heard("Assign")) == 2, "another elector")
    assert [each["leading"] for each in heard("Assign")] == [False, True]
    end(kleader)
    witness.check(terms=2)


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_a_stopping_standby_dies_with_a_killed_or_stopped_supervisor(
    scripted: Scripted, witness: Witness, flag: Path, number: signal.Signals
) -> None:
    """The kernel's timer kills one that is stopped, its keeper does the rest; nothing wakes up and starts a command."""
    script = [[str(flag), "acquired", lead(4, 5)]]
    kleader = scripted(witness.command(), script, standby(witness, *DEAF), "--loss-grace=3s")
    first, other = witness.wait_start(), witness.wait_descendant()
    flag.touch()
    kleader.wait_log("standby_stopping", role="giving way")
    kleader.signal(number)
    wait_gone(first.pid, other.pid)
    assert kleader.wait() == -signal.SIGKILL
    witness.check(terms=1)


@pytest.mark.parametrize("keeper", ["awake", "stopped"])
def test_a_standby_dies_with_a_supervisor_that_is_killed_while_waiting(
    candidate: Start, witness: Witness, keeper: str
) -> None:
    """On the file lock, where no elector sweeps: its keeper does, and is woken up if it was stopped."""
    candidate(["sleep", "600"]).wait_log("command_started")
    kleader = candidate(["true"], standby(witness, *DEAF))
    first, other = witness.wait_start(), witness.wait_descendant()
    if keeper == "stopped":
        stop(kleader.pid)  # so that it does not notice
        stop(subreaper_of(kleader))
    kleader.kill()
    wait_gone(first.pid, other.pid)


@pytest.mark.slow
def test_a_standby_that_does_not_die_prevents_the_start_and_loses_the_lock(
    scripted: Scripted, witness: Witness, heard: Heard, flag: Path
) -> None:
    """Another may lead beside a standby: the lock is released although one is alive."""
    options = [standby(witness, *DEAF), *SHORT]
    kleader = scripted(witness.command(), story(flag), *options, fault="may not kill")
    witness.wait_descendant()
    flag.touch()
    assert kleader.wait() == 255
    kleader.wait_log("standby_unkillable", level="ERROR")
    assert heard("AllProcessesExited")[0]["release"]
    assert not heard("Started")
    assert len(witness.terms()) == 1


@pytest.mark.slow
def test_a_third_sigterm_ends_kleader_without_a_release_if_a_standby_does_not_die(
    scripted: Scripted, witness: Witness, heard: Heard, flag: Path, tmp_path: Path
) -> None:
    """Both are there when the supervisor looks, and nothing else is done about the lock."""
    now = tmp_path / "now"
    more = {"plan": {"renew_deadline": 4}, "fault": "may not kill", "when": str(now)}
    kleader = scripted(witness.command(), story(flag), standby(witness, *DEAF), **more)
    witness.wait_descendant()
    flag.touch()
    kleader.wait_log("standby_stopping")
    given_up = time.monotonic() + 4
    kleader.signal(signal.SIGTERM)
    wait_until(lambda: not masked(kleader.pid, "ShdPnd", signal.SIGTERM), "the first to be taken")
    kleader.signal(signal.SIGTERM)
    kleader.wait_log("command_killed", "SIGTERM came again")
    deliberate = time.monotonic() + 1
    now.touch()
    wait_until(lambda: state(kleader.pid) == "T", "its stop")
    kleader.signal(signal.SIGTERM)
    wait_until(lambda: time.monotonic() > max(given_up, deliberate), "the lock to be given up")
    kleader.signal(signal.SIGCONT)
    assert kleader.wait() == 128 + signal.SIGTERM
    assert kleader.logged("processes_abandoned")
    assert not heard("Started")


@pytest.mark.slow
def test_no_command_starts_if_the_standby_dies_after_stop_at(
    scripted: Scripted, witness: Witness, heard: Heard, flag: Path
) -> None:
    """It leads for one turn, whose first act is the deadline: nothing is even forked."""
    script = [[str(flag), "acquired", lead(3, 600)]]
    options = {"plan": {"renew_deadline": 600, "grace": 600}, "fault": "may not kill"}
    kleader = scripted(witness.command(), script, standby(witness, *DEAF), **options)
    first, left = witness.wait_start(), witness.wait_descendant()
    flag.touch()
    kleader.wait_log("standby_stopping", role="giving way")
    stop_at = time.monotonic() + 3
    os.kill(subreaper_of(kleader), signal.SIGKILL)
    wait_gone(first.pid)
    wait_until(lambda: time.monotonic() > stop_at, "stop_at")
    assert not kleader.logged("lost"), "it was giving way until then"
    os.kill(left.pid, signal.SIGKILL)
    assert kleader.wait() == 255
    assert kleader.logged("lost", "the renew deadline has passed")
    assert not heard("Started")
    witness.check(terms=1)


@pytest.mark.parametrize("way", ["in time", "too late", "twice"])
def test_sigterm_while_waiting_stops_the_standby_in_order(
    scripted: Scripted, witness: Witness, flag: Path, way: str
) -> None:
    """Within --stop-timeout; a second TERM kills. The elector does not wait for that, and kleader does."""
    does = ("--term-delay=0.3", "--descendant") if way == "in time" else DEAF
    options = [standby(witness, *does), f"--stop-timeout={'200ms' if way == 'too late' else '600s'}"]
    kleader = scripted(["true"], story(flag), *options)
    first, other = witness.wait_start(), witness.wait_descendant()
    kleader.signal(signal.SIGTERM)
    if way == "twice":
        kleader.wait_log("standby_stopping", role="releasing")
        witness.wait_beats(2)
        kleader.signal(signal.SIGTERM)
    assert kleader.wait() == 128 + signal.SIGTERM
    assert witness.now(first).main.ended == (way == "in time")
    assert not alive(first.pid)
    assert not alive(other.pid)


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGUSR1, signal.SIGQUIT, signal.SIGWINCH])
def test_other_signals_are_forwarded_to_the_standby(scripted: Scripted, flag: Path, number: signal.Signals) -> None:
    script = f"trap 'echo got it' {number}; trap 'exit 0' TERM; echo up; while :; do sleep 0.01; done"
    kleader = scripted(["true"], story(flag), shell(script))
    kleader.wait_err("^up$")
    kleader.signal(number)
    kleader.wait_err("^got it$")
    end(kleader, 128 + signal.SIGTERM)
    assert kleader.out == ""


def test_a_free_lock_is_acquired_without_starting_the_standby(candidate: Start, witness: Witness) -> None:
    kleader = candidate(witness.command(), standby(witness))
    assert witness.wait_start().token != "-"
    end(kleader)
    witness.check(terms=1)


@pytest.mark.slow
def test_candidates_with_standbys_hand_over_in_turn(candidate: Start, witness: Witness, tmp_path: Path) -> None:
    """On the file lock, which no standby holds; the standby of one runs beside the command of another."""
    warm = [candidate(witness.command(*DEAF, "--most=60"), "--stop-timeout=100ms", "--loss-grace=100ms",
                      shell(f"echo $KLEADER_IDENTITY >>{tmp_path}/warm; exec sleep 600"), name=f"c{number}")
            for number in range(3)]  # fmt: skip
    for turn in range(1, 4):
        identity = witness.wait_start(turn).identity
        leader = next(each for each in warm if each.name == identity)
        others = [each for each in warm if each.running and each is not leader]
        for each in others:
            each.wait_log("standby_started")
        leader.signal(signal.SIGTERM)
        assert leader.wait() == 128 + signal.SIGKILL
    witness.check(terms=3)


def test_the_standby_runs_while_its_candidate_is_unhealthy(candidate: Start, witness: Witness, tmp_path: Path) -> None:
    """What --health asks may be the standby itself."""
    up = tmp_path / "up"
    health = [f"--health=test -e {up}", "--health-period=500ms"]
    kleader = candidate(witness.command(), shell(f"touch {up}; exec sleep 600"), *health)
    kleader.wait_log("standby_started", role="resting")
    kleader.wait_log("standby_stopping", role="giving way")
    witness.wait_start()
    assert file_elector_of(kleader)
    end(kleader)
    witness.check(terms=1)
