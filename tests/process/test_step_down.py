"""A term that the elector wants to end in good order."""

from __future__ import annotations

import os
import shlex
import signal
from typing import TYPE_CHECKING, Any

import pytest

from kleader.exits import LEADERSHIP_LOST
from tests.process.conftest import lead
from tests.support.processes import alive, wait_until

if TYPE_CHECKING:
    from pathlib import Path

    from tests.process.conftest import Heard, Scripted
    from tests.support.checker import Witness

REASON = "somebody better suited waits"


@pytest.fixture
def flag(tmp_path: Path) -> Path:
    """When to say it."""
    return tmp_path / "yield"


def story(flag: Path, *more: Any) -> list[Any]:  # noqa: ANN401
    """Leads with much time, and yields at the flag."""
    return [[0, "acquired", lead(60, 70)], [str(flag), "stepdown", {"reason": REASON}], *more]


@pytest.mark.parametrize("release", [True, False], ids=["released", "--no-release"])
def test_stepping_down_stops_the_command_as_sigterm_does_then_releases_the_lock(
    scripted: Scripted,
    witness: Witness,
    heard: Heard,
    flag: Path,
    release: bool,  # noqa: FBT001
) -> None:
    """Nothing is left when it is, and the status is that of a loss, not the command's own."""
    command = witness.command("--term-delay=0.3", "--descendant", "--status=4")
    options = ["--restart=always", "--loss-exit-code=7", "--loss-grace=10ms"]
    kleader = scripted(command, story(flag), *options, plan={"release": release})
    term, _ = witness.wait_start(), witness.wait_descendant()
    flag.touch()
    assert kleader.wait() == 7
    kleader.wait_log("stepping_down", REASON, level="INFO", role="leader")
    kleader.wait_log("command_stopping", "SIGTERM")
    assert witness.now(term).main.ended, "it had the time to wind down"
    assert not kleader.logged("lost")
    assert [each["type"] for each in heard("Stopping")] == ["Stopping"]
    (empty,) = heard("AllProcessesExited")
    assert (empty["release"], empty["children"]) == (release, [str(empty["pid"])])
    witness.check(terms=1)


def test_a_command_that_ignores_sigterm_is_killed_after_the_stop_timeout_of_a_step_down(
    scripted: Scripted, witness: Witness, flag: Path
) -> None:
    kleader = scripted(witness.command("--ignore-term"), story(flag), "--stop-timeout=200ms", "--stop-signal=WINCH")
    term = witness.wait_start()
    flag.touch()
    assert kleader.wait() == 255
    kleader.wait_log("command_stopping", "SIGWINCH")
    kleader.wait_log("command_killed", "not stop")
    assert not alive(term.pid)


@pytest.mark.parametrize("release", [True, False], ids=["released", "--no-release"])
def test_a_leader_with_on_loss_wait_steps_down_and_contends_again(
    scripted: Scripted,
    witness: Witness,
    heard: Heard,
    flag: Path,
    release: bool,  # noqa: FBT001
) -> None:
    """Its elector records the run and ends; the next candidacy has another elector, and an incarnation of its own."""
    again = flag.with_name("again")
    following = [[str(again), "acquired", lead(60, 70, term=2, token="2")]]
    kleader = scripted(witness.command(), story(flag), "--on-loss=wait", plan={"release": release}, next=following)
    witness.wait_start()
    flag.touch()
    wait_until(lambda: len(heard("Assign")) == 2, "another candidacy")
    (ran,), (told,), (before, after) = heard("Ran"), heard("AllProcessesExited"), heard("Assign")
    assert (ran["reason"], told["release"], told["children"]) == ("stepped-down", release, [str(told["pid"])])
    assert before["incarnation"] != after["incarnation"]
    assert (after["leading"], after["replaces"]) == (False, True)
    again.touch()
    assert witness.wait_start(2).token == "2"
    kleader.signal(signal.SIGTERM)
    assert kleader.wait() == 0
    witness.check(terms=2)


def test_a_lost_term_is_not_released(scripted: Scripted, witness: Witness, heard: Heard, flag: Path) -> None:
    """Neither if the loss comes while a command winds down that was asked to stop in good order."""
    lost = flag.with_name("lost")
    script = story(flag, [str(lost), "lost", {"reason": "another leads", "kill_now": True}])
    kleader = scripted(witness.command("--ignore-term"), script, "--on-loss=wait", "--stop-timeout=600s")
    term = witness.wait_start()
    flag.touch()
    kleader.wait_log("command_stopping")
    lost.touch()
    wait_until(lambda: heard("Restart"), "another candidacy")
    (again,), (assign,) = heard("Restart"), heard("Assign")
    assert again["incarnation"] != assign["incarnation"]
    assert not heard("Ran") + heard("AllProcessesExited")
    assert not alive(term.pid)
    kleader.signal(signal.SIGTERM)
    assert kleader.wait() == 128 + signal.SIGTERM


def test_a_loss_while_the_command_stops_prevents_the_release(
    scripted: Scripted, witness: Witness, heard: Heard, flag: Path
) -> None:
    """The leader steps down, which releases the lock; then it loses the lock, and kleader ends without a release."""
    lost = flag.with_name("lost")
    script = story(flag, [str(lost), "lost", {"reason": "another leads", "kill_now": True}])
    kleader = scripted(witness.command("--ignore-term"), script, "--stop-timeout=600s")
    witness.wait_start()
    flag.touch()
    kleader.wait_log("command_stopping")
    lost.touch()
    assert kleader.wait() == LEADERSHIP_LOST
    (empty,) = heard.wait("AllProcessesExited")
    assert not empty["release"]


def test_sigterm_while_stepping_down_ends_kleader_with_the_commands_status(
    scripted: Scripted, witness: Witness, heard: Heard, flag: Path
) -> None:
    """A second one kills."""
    options = ["--on-loss=wait", "--restart=always", "--stop-timeout=600s"]
    kleader = scripted(witness.command("--ignore-term", "--descendant"), story(flag), *options)
    witness.wait_descendant()
    flag.touch()
    kleader.wait_log("command_stopping")
    kleader.signal(signal.SIGTERM)
    witness.wait_beats(2)
    kleader.signal(signal.SIGTERM)
    assert kleader.wait() == 128 + signal.SIGKILL
    assert heard("AllProcessesExited")[0]["release"]
    assert len(heard("Assign")) == 1
    witness.check(terms=1)


@pytest.mark.slow
@pytest.mark.parametrize("way", ["exit", "wait"])
def test_a_leader_steps_down_between_two_starts_of_the_command(
    scripted: Scripted, witness: Witness, heard: Heard, flag: Path, way: str
) -> None:
    kleader = scripted(witness.command("--exit-after=0"), story(flag), "--restart=always", f"--on-loss={way}")
    kleader.wait_log("command_restarting", "2s")
    flag.touch()
    if way == "wait":
        wait_until(lambda: len(heard("Assign")) == 2, "another candidacy")
        kleader.signal(signal.SIGTERM)
        assert kleader.wait() == 128 + signal.SIGTERM
    else:
        assert kleader.wait() == 255
    assert heard("AllProcessesExited")[0]["release"]
    assert len(witness.terms()) == 2


def test_a_step_down_while_the_command_is_stopping_is_ignored(
    scripted: Scripted, witness: Witness, heard: Heard, flag: Path, tmp_path: Path
) -> None:
    """The status is the command's own, and there is no new candidacy."""
    end = tmp_path / "end"
    command = witness.command("--ignore-term", f"--exit-when={end}", "--status=3")
    ping = [str(flag), "heartbeat", {}]
    kleader = scripted(command, story(flag, ping), "--on-loss=wait", "--stop-timeout=600s")
    witness.wait_start()
    kleader.signal(signal.SIGTERM)
    wait_until(lambda: heard("Stopping"), "the wind-down")
    alive_before = len(heard("Alive"))
    flag.touch()
    wait_until(lambda: len(heard("Alive")) > alive_before, "that both were heard")
    end.touch()
    assert kleader.wait() == 3
    assert not kleader.logged("stepping_down")
    assert len(heard("Assign")) == 1


def test_an_elector_that_dies_while_stepping_down_is_replaced(
    scripted: Scripted, witness: Witness, heard: Heard, flag: Path
) -> None:
    """Its successor renews while the command winds down, and releases."""
    kleader = scripted(witness.command("--ignore-term"), story(flag), "--stop-timeout=600s")
    term = witness.wait_start()
    flag.touch()
    kleader.wait_log("command_stopping")
    os.kill(heard("Assign")[0]["pid"], signal.SIGKILL)
    wait_until(lambda: len(heard("Assign")) == 2, "another elector")
    os.kill(term.pid, signal.SIGKILL)
    assert kleader.wait() == 255
    assert heard("AllProcessesExited")[-1]["release"]


# --- where a person has asked for it

ASKED = {"reason": "it was asked to", "asked": True}
HEIR = ASKED | {"to": "heir"}


@pytest.mark.parametrize("asked", [ASKED, HEIR], ids=["resign", "transfer"])
def test_a_requested_handover_is_made_in_spite_of_no_release(
    scripted: Scripted, witness: Witness, heard: Heard, flag: Path, asked: dict[str, Any]
) -> None:
    script = [[0, "acquired", lead(60, 70)], [str(flag), "stepdown", asked]]
    kleader = scripted(witness.command("--term-delay=0.2", "--descendant"), script, plan={"release": False})
    witness.wait_descendant()
    flag.touch()
    assert kleader.wait() == 255
    (empty,) = heard("AllProcessesExited")
    assert (empty["release"], empty["to"], empty["children"]) == (True, asked.get("to", ""), [str(empty["pid"])])
    assert kleader.logged("released")
    witness.check(terms=1)


def test_a_resigned_leader_with_on_loss_wait_lets_another_lead_first(
    scripted: Scripted, witness: Witness, heard: Heard, flag: Path
) -> None:
    script = [[0, "acquired", lead(60, 70)], [str(flag), "stepdown", HEIR]]
    kleader = scripted(witness.command(), script, "--on-loss=wait", plan={"release": False})
    witness.wait_start()
    flag.touch()
    kleader.wait_log("standing_aside", "15s")
    wait_until(lambda: heard("AllProcessesExited"), "the handover")
    (empty,) = heard("AllProcessesExited")
    assert (empty["release"], empty["to"]) == (True, "heir")
    kleader.signal(signal.SIGTERM)
    assert kleader.wait() == 128 + signal.SIGTERM
    assert len(heard("Assign")) == 1


def test_the_first_request_counts_and_outlives_the_elector_that_received_it(
    scripted: Scripted, witness: Witness, heard: Heard, flag: Path
) -> None:
    second = flag.with_name("second")
    more = [str(second), "stepdown", HEIR | {"to": "another"}]
    script = [[0, "acquired", lead(60, 70)], [str(flag), "stepdown", HEIR], more]
    kleader = scripted(witness.command("--ignore-term"), script, "--stop-timeout=600s")
    term = witness.wait_start()
    flag.touch()
    kleader.wait_log("command_stopping")
    alive_before = len(heard("Alive"))
    second.touch()
    wait_until(lambda: len(heard("Alive")) > alive_before, "that it was heard")
    os.kill(heard("Assign")[0]["pid"], signal.SIGKILL)
    wait_until(lambda: len(heard("Assign")) == 2, "another elector")
    os.kill(term.pid, signal.SIGKILL)
    assert kleader.wait() == 255
    assert heard("AllProcessesExited")[-1]["to"] == "heir"


def test_if_the_elector_is_dead_at_the_end_the_next_one_makes_the_handover(
    scripted: Scripted, witness: Witness, heard: Heard, flag: Path, tmp_path: Path
) -> None:
    """Also with --on-loss wait, after an earlier candidacy."""
    full = tmp_path / "full"
    script = [[0, "acquired", lead(60, 70)], [str(flag), "stepdown", HEIR]]
    kleader = scripted(
        witness.command("--ignore-term"), script, "--on-loss=wait", "--stop-timeout=600s", full=str(full)
    )
    term = witness.wait_start()
    flag.touch()
    kleader.wait_log("command_stopping")
    full.touch()
    os.kill(heard("Assign")[0]["pid"], signal.SIGKILL)
    kleader.wait_log("elector_not_started")
    full.unlink()
    os.kill(term.pid, signal.SIGKILL)
    wait_until(lambda: [each for each in heard("AllProcessesExited") if each["to"] == "heir"], "the handover")
    kleader.signal(signal.SIGTERM)
    assert kleader.wait() == 128 + signal.SIGTERM
    witness.check(terms=1)


def test_a_leader_that_becomes_unhealthy_still_hands_over_as_requested(
    scripted: Scripted, witness: Witness, heard: Heard, flag: Path, tmp_path: Path
) -> None:
    well = tmp_path / "well"
    well.touch()
    options = [f"--health=test -e {well}", "--health-period=1s", "--health-failures=1", "--on-loss=wait"]
    script = [[0, "acquired", lead(600, 700)], [str(flag), "stepdown", HEIR]]
    kleader = scripted(
        witness.command("--ignore-term"), script, *options, "--stop-timeout=600s", plan={"release": False}
    )
    term = witness.wait_start()
    flag.touch()
    kleader.wait_log("command_stopping")
    well.unlink()
    os.kill(term.pid, signal.SIGKILL)
    wait_until(lambda: heard("AllProcessesExited"), "the handover")
    (told,) = heard("AllProcessesExited")
    assert (told["release"], told["to"]) == (True, "heir")
    kleader.signal(signal.SIGTERM)
    assert kleader.wait() == 128 + signal.SIGTERM


def test_a_step_down_while_the_standby_stops_starts_no_command(
    scripted: Scripted, witness: Witness, heard: Heard, flag: Path, tmp_path: Path
) -> None:
    """Nothing of the standby is alive when the lock is handed over."""
    up, held = tmp_path / "up", tmp_path / "held"
    deaf = f"trap '' TERM; touch {up}; while :; do sleep 0.05; done"
    script = [[str(held), "acquired", lead(600, 700)], [str(flag), "stepdown", HEIR]]
    kleader = scripted(witness.command(), script, f"--standby={shlex.join(['sh', '-c', deaf])}", plan={"grace": 60.0})
    wait_until(up.exists, "the standby")
    held.touch()
    kleader.wait_log("standby_stopping")
    flag.touch()
    assert kleader.wait() == 255
    (empty,) = heard("AllProcessesExited")
    assert (empty["release"], empty["to"], empty["children"]) == (True, "heir", [str(empty["pid"])])
    assert not witness.terms()


def test_a_loss_while_stepping_down_prevents_the_release(
    scripted: Scripted, witness: Witness, heard: Heard, flag: Path
) -> None:
    lost = flag.with_name("lost")
    more = [str(lost), "lost", {"reason": "another leads", "kill_now": True}]
    script = [[0, "acquired", lead(60, 70)], [str(flag), "stepdown", HEIR], more]
    kleader = scripted(witness.command("--ignore-term"), script, "--stop-timeout=600s")
    witness.wait_start()
    flag.touch()
    kleader.wait_log("command_stopping")
    lost.touch()
    assert kleader.wait() == 255
    (empty,) = heard("AllProcessesExited")
    assert (empty["release"], empty["to"]) == (False, "")


def test_a_step_down_while_the_tree_is_killed_before_a_restart_prevents_the_restart(
    scripted: Scripted, witness: Witness, heard: Heard, flag: Path
) -> None:
    """A process that the supervisor may not kill delays the end of the killing."""
    script = [[0, "acquired", lead(60, 70)], [str(flag), "stepdown", HEIR]]
    command = witness.command("--descendant", f"--exit-when={flag.with_name('end')}")
    kleader = scripted(command, script, "--restart=always", fault="may not kill")
    left = witness.wait_descendant()
    flag.with_name("end").touch()
    kleader.wait_log("command_exited")
    flag.touch()
    kleader.wait_log("stepping_down")
    os.kill(left.pid, signal.SIGKILL)
    assert kleader.wait() == 255
    assert heard("AllProcessesExited")[-1]["to"] == "heir"
    assert len(witness.terms()) == 1
