"""What the log tells of a term once it is over."""

from __future__ import annotations

import json
import signal
from typing import TYPE_CHECKING, Any

import pytest

from tests.process.conftest import lead

if TYPE_CHECKING:
    from pathlib import Path

    from tests.process.conftest import Scripted, Start
    from tests.support.checker import Term, Witness
    from tests.support.processes import Process

pytestmark = pytest.mark.slow

NS = 1e-9


def term_end(process: Process) -> dict[str, Any]:
    """The one line on a term's end."""
    lines = [json.loads(line) for line in process.err.splitlines() if line.startswith("{")]
    (line,) = [each for each in lines if "led" in each]
    found: dict[str, Any] = line
    return found


def check(line: dict[str, Any], term: Term, *, signal: str | None, why: str) -> None:
    """It says what the witness saw of the term."""
    assert (line["signal"], line["why"]) == (signal, why)
    assert line["led"] > (term.last - term.born) * NS - 0.001
    assert f"until {why}; the last process of the command ended " in line["message"]


def test_the_log_says_that_a_signal_ended_the_term(candidate: Start, witness: Witness) -> None:
    """How long it led, and how long the command took to die of which signal."""
    kleader = candidate(witness.command("--term-delay=0.3"), "--log-format=json")
    term = witness.wait_start()
    witness.wait_beats(2)
    kleader.signal(signal.SIGTERM)
    assert kleader.wait() == 0
    line = term_end(kleader)
    check(line, witness.now(term), signal="SIGTERM", why="SIGTERM came")
    assert 0.3 <= line["dying"] <= line["led"]


def test_the_log_says_that_the_command_ended_the_term(candidate: Start, witness: Witness) -> None:
    kleader = candidate(witness.command("--exit-after=0.1", "--descendant"), "--log-format=json")
    term = witness.wait_start()
    assert kleader.wait() == 0
    check(term_end(kleader), witness.now(term), signal=None, why="the command ended")


def test_a_restarted_command_ends_no_term_in_the_log(candidate: Start, witness: Witness) -> None:
    kleader = candidate(witness.command("--exit-after=0.1", "--status=3"), "--restart=always", "--log-format=json")
    witness.wait_start(2)
    kleader.signal(signal.SIGINT)
    kleader.wait()
    line = term_end(kleader)
    assert line["why"] in {"SIGINT came", "the command ended"}
    assert line["led"] > 1, "the pause before the restart is a part of it"


@pytest.mark.parametrize("kill_now", [True, False], ids=["no grace", "grace"])
def test_the_log_says_why_a_term_was_lost(
    scripted: Scripted, witness: Witness, tmp_path: Path, *, kill_now: bool
) -> None:
    flag = tmp_path / "lost"
    lost = [str(flag), "lost", {"reason": "somebody came", "kill_now": kill_now}]
    script = [[0, "acquired", lead(60, 70)], lost]
    kleader = scripted(witness.command("--ignore-term"), script, "--log-format=json", "--loss-grace=200ms")
    term = witness.wait_start()
    flag.touch()
    assert kleader.wait() == 255
    line = term_end(kleader)
    signal = "SIGKILL" if kill_now else "SIGTERM"
    check(line, witness.now(term), signal=signal, why="the lock was lost: somebody came")
    assert kill_now or line["dying"] >= 0.2
