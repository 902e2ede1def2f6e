"""The deadlines hold whatever the elector sends, and whichever process is stopped meanwhile."""

from __future__ import annotations

import os
import resource
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.process.conftest import IN_NAMESPACE, lead
from tests.process.test_file_lock import state, stop
from tests.support.processes import PATIENCE, alive, wait_gone, wait_until

if TYPE_CHECKING:
    from tests.process.conftest import Heard, Scripted
    from tests.support.checker import Witness
    from tests.support.processes import Process, Processes


def wait_since_start(heard: Heard, seconds: float) -> None:
    """Until so long after the first elector's start, on whose clock the script is."""
    wait_until(lambda: any(time.clock_gettime(time.CLOCK_BOOTTIME) > a["at"] + seconds for a in heard("Assign")), "it")


def forked(heard: Heard) -> int:
    """The pid of the command that electors were told of."""
    (started,) = heard.wait("Started")
    (child,) = {int(each) for each in started["children"]} - {started["pid"]}
    return child


@pytest.mark.slow
def test_the_command_gets_sigterm_at_stop_at_and_is_dead_by_kill_at(
    scripted: Scripted, witness: Witness, heard: Heard
) -> None:
    """All that else could wake kleader meanwhile has been by stop_at. Its status says that the kernel did not kill."""
    script = [[0, "acquired", lead(3, 4.5)]]
    kleader = scripted(witness.command("--ignore-term", "--descendant"), script, plan={"kill": 60, "grace": 1.5})
    term, descendant = witness.wait_start(), witness.wait_descendant()
    kleader.wait_log("lost", "the renew deadline has passed")
    kleader.wait_log("command_stopping", "SIGTERM")
    assert kleader.wait() == 255
    assert not alive(term.pid)
    assert not alive(descendant.pid)
    (empty,) = heard.wait("AllProcessesExited")
    assert not empty["release"]


def test_a_loss_with_kill_now_has_no_grace(scripted: Scripted, witness: Witness, heard: Heard, tmp_path: Path) -> None:
    flag = tmp_path / "lost"
    script = [[0, "acquired", lead(60, 70)], [str(flag), "lost", {"reason": "another leads", "kill_now": True}]]
    kleader = scripted(witness.command("--term-delay=30"), script, "--loss-exit-code=7")
    witness.wait_start()
    flag.touch()
    assert kleader.wait() == 7
    assert not kleader.logged("command_stopping")
    assert not heard.wait("AllProcessesExited")[0]["release"]


@pytest.mark.slow
def test_a_renewal_moves_the_deadlines_and_only_forward(
    scripted: Scripted, witness: Witness, heard: Heard, tmp_path: Path
) -> None:
    flag = tmp_path / "renewed"
    backward = [0, "renewed", {"stop_at": 0.15, "kill_at": 0.2}]
    forward = [str(flag), "renewed", {"stop_at": 4.0, "kill_at": 4.5}]
    kleader = scripted(witness.command(), [[0, "acquired", lead(3.0, 3.5)], backward, forward])
    witness.wait_start()
    wait_since_start(heard, 0.2)
    flag.touch()
    assert kleader.wait() == 255
    (empty,) = heard.wait("AllProcessesExited")
    assert empty["at"] - empty["born"] >= 4
    assert "the renew deadline has passed" in kleader.err


@pytest.mark.slow
def test_messages_of_another_term_and_after_the_loss_are_ignored(
    scripted: Scripted, witness: Witness, tmp_path: Path
) -> None:
    flag = tmp_path / "lost"
    other = [0.1, "renewed", {"stop_at": 60, "kill_at": 70, "term": 7}]
    late = [str(flag), "renewed", {"stop_at": 60, "kill_at": 70}]
    lone = {"grace": 60}  # which would take it past the end of any lease: kill_at comes first
    kleader = scripted(witness.command("--ignore-term"), [[0, "acquired", lead(3.0, 3.6)], other, late], plan=lone)
    witness.wait_start()
    kleader.wait_log("lost")
    flag.touch()
    assert kleader.wait() == 255


@pytest.mark.slow
def test_a_stop_after_sigterm_lasts_no_longer_than_the_lease(scripted: Scripted, witness: Witness) -> None:
    kleader = scripted(witness.command("--ignore-term"), [[0, "acquired", lead(4.0, 4.4)]], "--stop-timeout=600s")
    term = witness.wait_start()
    kleader.signal(signal.SIGTERM)
    assert kleader.wait() == 128 + signal.SIGKILL
    assert kleader.logged("lost", "the renew deadline has passed")
    assert not alive(term.pid)


def test_a_late_lead_message_starts_no_command(scripted: Scripted, witness: Witness) -> None:
    kleader = scripted(witness.command(), [[0, "acquired", lead(-2, 5)]])
    assert kleader.wait() == 255
    assert witness.terms() == []


def test_the_lock_is_released_only_when_the_supervisor_has_no_descendants(
    scripted: Scripted, witness: Witness, heard: Heard
) -> None:
    kleader = scripted(witness.command("--descendant"), [[0, "acquired", lead(60, 70)]])
    witness.wait_descendant()
    kleader.signal(signal.SIGTERM)
    assert kleader.wait() == 0
    (assign,), (empty,) = heard("Assign"), heard("AllProcessesExited")
    assert empty["release"]
    assert empty["pid"] == assign["pid"], "it outlives the sweep"
    assert empty["children"] == [str(empty["pid"])]
    assert [each["type"] for each in heard("Stopping")] == ["Stopping"]


def test_the_elector_knows_the_command_before_its_exec(scripted: Scripted, witness: Witness, heard: Heard) -> None:
    kleader = scripted(witness.command("--exit-after=0.1"), [[0, "acquired", lead(60, 70)]], fault="before release")
    wait_until(lambda: heard("Started"), "its announcement")
    wait_until(lambda: state(kleader.pid) == "T", "the stop at the gate")
    child = forked(heard)
    wait_until(lambda: "pipe" in Path(f"/proc/{child}/wchan").read_text(encoding="ascii"), "its wait at the gate")
    assert witness.terms() == []
    kleader.signal(signal.SIGCONT)
    assert kleader.wait() == 0
    assert witness.terms()[0].pid == child
    witness.check(terms=1)


@pytest.mark.slow
@pytest.mark.parametrize("fault", ["before fork", "before release"])
def test_a_supervisor_stopped_past_stop_at_before_the_exec_starts_no_command(
    scripted: Scripted, witness: Witness, heard: Heard, fault: str
) -> None:
    """The start gate: the last look at the clock is the child's. A stop signal that ends nothing lets it be seen."""
    kleader = scripted(witness.command(), [[0, "acquired", lead(2.5, 60)]], "--stop-signal=WINCH", fault=fault)
    wait_until(lambda: kleader.logged("became_leader") and state(kleader.pid) == "T", "the stop")
    wait_since_start(heard, 2.5)
    kleader.signal(signal.SIGCONT)
    assert kleader.wait() == 255
    assert "the command was not started: the deadline had passed" in kleader.err
    assert witness.terms() == []


def test_a_child_whose_supervisor_died_before_pdeathsig_executes_no_command(
    scripted: Scripted, witness: Witness
) -> None:
    """PR_SET_PDEATHSIG tells of no death before it; the gate had been opened."""
    kleader = scripted(witness.command(), [[0, "acquired", lead(60, 70)]], "-v", fault="before PDEATHSIG")
    child = int(kleader.wait_log("command_forked").message.split()[-1])
    wait_until(lambda: state(child) == "T", "its stop")
    kleader.kill()
    os.kill(child, signal.SIGCONT)
    wait_gone(child)
    assert witness.terms() == []


def test_sigterm_that_arrives_with_the_lead_message_prevents_the_start(
    scripted: Scripted, witness: Witness, heard: Heard, tmp_path: Path
) -> None:
    """Both are there when the supervisor looks."""
    flag = tmp_path / "leads"
    kleader = scripted(witness.command(), [[str(flag), "acquired", lead(60, 70)]])
    wait_until(lambda: heard("Assign"), "the elector")
    stop(kleader.pid)
    kleader.signal(signal.SIGTERM)
    flag.touch()
    wait_until(flag.with_suffix(".said").exists, "its Acquired on the way")
    kleader.signal(signal.SIGCONT)
    assert kleader.wait() == 128 + signal.SIGTERM
    assert kleader.logged("became_leader")
    assert heard("AllProcessesExited")[0]["release"]
    assert witness.terms() == []


@pytest.mark.slow
@pytest.mark.parametrize("fault", ["before fork", "before release"])
def test_a_supervisor_that_sleeps_over_kill_at_is_killed_by_the_kernel(
    scripted: Scripted, witness: Witness, fault: str
) -> None:
    kleader = scripted(witness.command(), [[0, "acquired", lead(2, 2.5)]], fault=fault)
    assert kleader.wait() == -signal.SIGKILL
    assert witness.terms() == []


@pytest.mark.slow
def test_a_stopped_supervisor_dies_at_kill_at_and_its_command_with_it(scripted: Scripted, witness: Witness) -> None:
    kleader = scripted(witness.command("--ignore-term"), [[0, "acquired", lead(3.0, 3.5)]])
    term = witness.wait_start()
    stop(kleader.pid)
    assert kleader.wait() == -signal.SIGKILL
    wait_gone(term.pid)


@pytest.mark.slow
@pytest.mark.parametrize("gone", ["before the loss", "in the grace", "before a tight deadline", "undying"])
def test_a_supervisor_without_an_elector_kills_a_kill_budget_earlier(
    scripted: Scripted, witness: Witness, heard: Heard, tmp_path: Path, gone: str
) -> None:
    """It may be late itself, and the kernel's timer would leave the descendants behind. No other can be started."""
    full, flag, early = tmp_path / "full", tmp_path / "lost", 5
    told = [str(flag), "lost", {"reason": "not renewed", "kill_now": False}]
    stop_at = {"in the grace": 500, "before a tight deadline": 600}.get(gone, 3)
    script = [[0, "acquired", lead(stop_at, 600)], told]
    plan = {"grace": 600, "kill": 600 - early}
    more = {"plan": plan, "full": str(full), "fault": gone}
    kleader = scripted(witness.command("--ignore-term", "--descendant"), script, **more)
    term, descendant = witness.wait_start(), witness.wait_descendant()
    (assign,) = heard("Assign")
    full.touch()
    if gone == "in the grace":
        flag.touch()
        kleader.wait_log("command_stopping", "SIGTERM")
    os.kill(assign["pid"], signal.SIGSTOP if gone == "undying" else signal.SIGKILL)
    wait_gone(term.pid, descendant.pid, timeout=early + PATIENCE)
    assert time.clock_gettime(time.CLOCK_BOOTTIME) > assign["born"] + early
    assert bool(kleader.logged("command_stopping", "SIGTERM")) is (gone != "before a tight deadline")
    if gone == "undying":
        assert kleader.logged("elector_stopped")
        os.kill(assign["pid"], signal.SIGKILL)
    assert kleader.wait() == 255


@pytest.mark.slow
def test_a_supervisor_with_an_elector_uses_the_whole_grace(scripted: Scripted, witness: Witness, heard: Heard) -> None:
    plan = {"grace": 2, "kill": 600}
    kleader = scripted(witness.command("--ignore-term"), [[0, "acquired", lead(3, 600)]], plan=plan)
    term = witness.wait_start()
    wait_gone(term.pid, timeout=5 + PATIENCE)
    assert time.clock_gettime(time.CLOCK_BOOTTIME) > heard("Assign")[0]["born"] + 5
    assert kleader.wait() == 255
    assert kleader.logged("command_killed", "not stop")


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_replacing_an_elector_ends_no_term_whatever_the_kill_budget(
    scripted: Scripted, witness: Witness, heard: Heard, number: int
) -> None:
    kleader = scripted(witness.command(), [[0, "acquired", lead(500, 600)]], plan={"kill": 600})
    witness.wait_start()
    os.kill(heard("Assign")[0]["pid"], number)
    wait_until(lambda: len(heard("Assign")) == 2, "another elector")
    kleader.signal(signal.SIGTERM)
    assert kleader.wait() == 0
    assert not kleader.logged("lost")
    witness.check(terms=1)


@pytest.mark.slow
def test_a_supervisor_that_wakes_after_kill_at_kills_first(scripted: Scripted, witness: Witness, heard: Heard) -> None:
    """Without the kernel's guard, as PID 1 is: no grace, no second start."""
    script = [[0, "acquired", lead(3.0, 3.2)]]
    kleader = scripted(witness.command("--ignore-term"), script, "--restart=always", no_timer=True)
    term = witness.wait_start()
    stop(kleader.pid)
    wait_since_start(heard, 3.2)
    assert alive(term.pid)
    kleader.signal(signal.SIGCONT)
    assert kleader.wait() == 255
    assert not alive(term.pid)
    assert not kleader.logged("command_stopping")
    assert kleader.logged("lost", "the lease is about to expire")
    witness.check(terms=1)


@pytest.mark.slow
def test_a_command_is_not_restarted_after_stop_at(scripted: Scripted, witness: Witness) -> None:
    script = [[0, "acquired", lead(2.8, 6)]]  # it is restarted 1 s after it has ended
    kleader = scripted(witness.command("--exit-after=2"), script, "--restart=always")
    assert kleader.wait() == 255
    assert len(witness.terms()) == 1


@pytest.mark.linux
@pytest.mark.parametrize("fault", [signal.SIGKILL, signal.SIGSTOP])
def test_an_elector_is_replaced_with_the_same_incarnation_while_the_command_runs_on(
    scripted: Scripted, witness: Witness, heard: Heard, fault: signal.Signals
) -> None:
    kleader = scripted(witness.command("--descendant"), [[0, "acquired", lead(60, 70, token="77")]])
    term, descendant = witness.wait_start(), witness.wait_descendant()
    first = heard("Assign")[0]["pid"]
    os.kill(first, fault)
    wait_until(lambda: len(heard("Assign")) == 2, "another elector")
    assert not alive(first)
    old, new = heard("Assign")
    renew_deadline = 10
    assert new["t0"] == pytest.approx(old["born"] + 60 - renew_deadline, abs=0.001)
    assert (new["incarnation"], new["term"]) == (old["incarnation"], old["term"])
    assert (old["leading"], new["leading"]) == (False, True)
    assert {term.pid, descendant.pid} <= {pid for pid, _ in new["started"]}
    witness.wait_beats(2)
    kleader.signal(signal.SIGTERM)
    assert kleader.wait() == 0
    assert heard("AllProcessesExited")[-1]["release"]
    witness.check(terms=1)


def test_a_replacement_elector_releases_the_lock_at_the_end(
    scripted: Scripted, witness: Witness, heard: Heard, tmp_path: Path
) -> None:
    flag = tmp_path / "end"
    kleader = scripted(witness.command(f"--exit-when={flag}"), [[0, "acquired", lead(60, 70)]])
    witness.wait_start()
    stop(kleader.pid)
    flag.touch()
    elector = heard("Assign")[0]["pid"]
    os.kill(elector, signal.SIGKILL)
    wait_until(lambda: not alive(elector) and not alive(witness.terms()[0].pid), "both ends")
    kleader.signal(signal.SIGCONT)
    assert kleader.wait() == 0
    assert heard("AllProcessesExited")[-1]["release"]
    assert kleader.logged("released")


def test_an_elector_whose_lead_message_was_lost_is_replaced(
    scripted: Scripted, witness: Witness, heard: Heard, tmp_path: Path
) -> None:
    """Its Acquired was lost: the next elector of the candidacy sends it, and has been sent the resume state."""
    flag = tmp_path / "renews"
    lost = [[0, "resumestate", {"state": "60"}], [str(flag), "renewed", {"stop_at": 60, "kill_at": 70}]]
    kleader = scripted(witness.command(), lost, next=[[0, "acquired", lead(60, 70)]])
    wait_until(lambda: heard("Assign"), "the elector")
    flag.touch()
    witness.wait_start()
    first, second = heard("Assign")
    assert not alive(first["pid"])
    assert (second["incarnation"], second["leading"], second["replaces"]) == (first["incarnation"], False, True)
    assert (first["resume_state"], second["resume_state"]) == ("", "60")
    kleader.signal(signal.SIGTERM)
    assert kleader.wait() == 0
    assert len(kleader.logged("became_leader")) == 1
    witness.check(terms=1)


@pytest.mark.linux
def test_a_supervisor_with_an_internal_error_kills_its_tree_and_releases_no_lock(
    scripted: Scripted, witness: Witness, heard: Heard, tmp_path: Path
) -> None:
    flag = tmp_path / "renewed"
    script = [[0, "acquired", lead(60, 70)], [str(flag), "renewed", {"stop_at": 61, "kill_at": 71}]]
    kleader = scripted(witness.command("--ignore-term", "--descendant"), script, fault="a bug")
    pids = witness.wait_start().pid, witness.wait_descendant().pid
    flag.touch()
    assert kleader.wait() == 125
    assert not any(map(alive, pids))
    (error,) = kleader.logged(level="ERROR", role="leader")
    assert error.message.startswith("internal error: RuntimeError: a bug")
    assert "Traceback" not in kleader.err
    assert heard("AllProcessesExited") == []
    witness.check(terms=1)


def test_a_third_sigterm_ends_kleader_without_a_release_if_processes_do_not_die(
    scripted: Scripted, witness: Witness, heard: Heard
) -> None:
    """Nor before, however often it is asked: a third one within a second of the second is the same hand's."""
    kleader = scripted(witness.command("--ignore-term"), [[0, "acquired", lead(60, 70)]], fault="may not kill")
    witness.wait_start()
    kleader.signal(signal.SIGTERM)
    kleader.wait_log("command_stopping", "SIGTERM")
    second = time.monotonic()
    kleader.signal(signal.SIGTERM)
    kleader.wait_log("command_killed", "SIGTERM came again")

    killing = time.monotonic()
    kleader.signal(signal.SIGTERM)
    wait_until(lambda: time.monotonic() > killing + 1 or not kleader.running, "a second to pass")
    assert time.monotonic() - second >= 1
    kleader.signal(signal.SIGTERM)  # one alone: another would end the elector as well
    assert kleader.wait() == 128 + signal.SIGTERM
    kleader.wait_log("processes_abandoned")
    assert heard("AllProcessesExited") == []


def test_the_lock_is_not_released_after_the_whole_namespace_was_killed(
    scripted: Scripted, heard: Heard, tmp_path: Path
) -> None:
    """As PID 1, whose killing did not end by kill_at: kill(-1) took the elector too, and the lock runs out."""
    left = tmp_path / "pid"
    executed = "until grep -qa ^sleep /proc/$!/cmdline; do :; done"  # in exec it has no command line to refuse by
    command = ["sh", "-c", f"sleep 600 & {executed}; echo $! >{left}; exit 3"]
    kleader = scripted(command, [[0, "acquired", lead(3, 3)]], before=IN_NAMESPACE, fault="may not kill")
    assert kleader.wait() == 255
    assert left.exists()
    assert kleader.logged("lost", "the deadline has passed")
    assert not any(said["release"] for said in heard("AllProcessesExited"))


def test_a_silent_elector_is_replaced(scripted: Scripted, witness: Witness, heard: Heard) -> None:
    kleader = scripted(witness.command(), [[0, "acquired", lead(60, 70)]], silence=0.5)
    witness.wait_start()
    kleader.wait_log("elector_unresponsive")
    wait_until(lambda: len(heard("Assign")) >= 2, "another elector")  # and another, each as silent
    kleader.signal(signal.SIGTERM)
    assert kleader.wait() == 0


def test_a_hanging_elector_of_a_waiting_candidate_is_replaced_and_the_next_leads(
    scripted: Scripted, witness: Witness, heard: Heard
) -> None:
    """With the identity, the incarnation, and what was to be remembered of the lock."""
    says = [[0, "heartbeat", {}], [0, "resumestate", {"state": "60"}]]
    kleader = scripted(witness.command(), says, next=[[0, "acquired", lead(60, 70)]], silence=0.5)
    kleader.wait_log("elector_unresponsive")
    witness.wait_start()
    first, second = heard("Assign")[:2]
    assert (second["replaces"], second["resume_state"]) == (True, "60")
    assert second["incarnation"] == first["incarnation"]
    assert first["pid"] != second["pid"]
    assert str(first["pid"]) not in second["children"], "it is killed and reaped before"
    kleader.signal(signal.SIGTERM)
    assert kleader.wait() == 0


@pytest.mark.alone
@pytest.mark.slow
def test_a_storm_of_signals_and_dying_children_does_not_delay_the_deadline(
    scripted: Scripted, processes: Processes
) -> None:
    """A child that forks and forgets all the time, and RT signals by the thousand: both deadlines are met.

    The kernel's guard comes late, by a quarter of the kill budget, for the machine may be busy.
    """
    ignore = "import os, signal as s\nfor number in s.SIGRTMIN, s.SIGTERM:\n  s.signal(number, s.SIG_IGN)"
    run = "os.execvp('sh', ['sh', '-c', 'echo up; while :; do (: &) ; done'])"
    command = [sys.executable, "-I", "-S", "-c", f"{ignore}\n{run}"]

    def start(seconds: int) -> Process:
        script = [[0, "acquired", lead(seconds, 2 * seconds)]]
        kleader = scripted(command, script, plan={"kill": 4 * seconds, "grace": seconds})
        wait_until(lambda: "up" in kleader.out or not kleader.running, "the command")
        return kleader

    kleader = start(2)
    if "up" not in kleader.out:  # so crowded a machine takes longer to start it
        kleader = start(30)
    few = 10_000  # of what all processes of this user share: kleaders of other tests want timers
    resource.prlimit(kleader.pid, resource.RLIMIT_SIGPENDING, (few, few))
    storm = "import os, signal, sys\nwhile True:\n    os.kill(int(sys.argv[1]), signal.SIGRTMIN)\n"
    noise = processes.start([sys.executable, "-I", "-S", "-c", storm, str(kleader.pid)])
    assert kleader.wait() == 255
    noise.kill()
    assert kleader.logged("lost", "the renew deadline has passed")
