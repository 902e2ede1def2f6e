"""Another version of kleader is installed while this one runs."""

from __future__ import annotations

import os
import signal
import sys
from typing import TYPE_CHECKING

import pytest

from tests.process.conftest import file_elector_of, lead
from tests.process.test_elector import elector_of
from tests.process.test_exporter import exporter_of
from tests.support.processes import wait_gone
from tests.support.upgrade import Installed

if TYPE_CHECKING:
    from pathlib import Path

    from tests.process.conftest import Heard, Scripted
    from tests.support.checker import Witness
    from tests.support.processes import Processes

pytestmark = pytest.mark.source

ENDS = "cannot start an elector"


@pytest.fixture
def installed(tmp_path: Path) -> Installed:
    return Installed(tmp_path / "lib")


def test_a_candidate_whose_elector_dies_after_an_upgrade_ends_with_one_error(
    processes: Processes, installed: Installed
) -> None:
    """The new version's elector does not start on the old version's plan."""
    argv = [sys.executable, "-m", "kleader", "run", "--name=jobs", "-s", "https://127.0.0.1:1", "--", "true"]
    candidate = processes.start(argv, cwd=installed.place)
    elector = elector_of(candidate)
    installed.upgrade()
    os.kill(elector, signal.SIGKILL)
    assert candidate.wait() == 125
    (error,) = candidate.logged(level="ERROR")
    assert error.is_of("version_changed", ENDS)
    assert "Traceback" not in candidate.err


def test_a_leader_that_cannot_start_an_elector_after_an_upgrade_stops_its_command(
    scripted: Scripted, witness: Witness, heard: Heard
) -> None:
    """The command gets the stop signal at once and the loss status follows; the lock is left to expire."""
    process = scripted(witness.command(), [[0, "acquired", lead(60, 70)]], other_version=True)
    term = witness.wait_start()
    os.kill(heard("Assign")[0]["pid"], signal.SIGKILL)
    assert process.wait() == 255
    wait_gone(term.pid)
    (error,) = process.logged(level="ERROR")
    assert error.is_of("version_changed", ENDS)
    assert process.logged("command_stopping", "SIGTERM")
    assert not process.logged("command_killed")
    witness.check(terms=1)


def test_a_file_lock_leaders_replacement_elector_has_the_running_version(
    processes: Processes, installed: Installed, witness: Witness, lock: Path
) -> None:
    """It is a fork of the supervisor, whose code was loaded when it started."""
    argv = [sys.executable, "-m", "kleader", "run", f"--lock=file:{lock}", "--name=t", "--", *witness.command()]
    leader = processes.start(argv, cwd=installed.place)
    term = witness.wait_start()
    installed.spoil()
    os.kill(file_elector_of(leader), signal.SIGKILL)
    leader.wait_log("elector_replaced", r"\d+; the command goes on")
    file_elector_of(leader)
    witness.wait_beats(3)
    assert witness.now(term).main.beats > 0
    leader.signal(signal.SIGTERM)
    assert leader.wait() == 0
    assert not leader.logged(level="ERROR")
    witness.check(terms=1)


def test_an_exporter_that_dies_after_an_upgrade_is_not_replaced(
    processes: Processes, installed: Installed, witness: Witness, lock: Path, tmp_path: Path
) -> None:
    options = [f"--lock=file:{lock}", "--name=t", f"--state-file={tmp_path}/state"]
    leader = processes.start(
        [sys.executable, "-m", "kleader", "run", *options, "--", *witness.command()], cwd=installed.place
    )
    term = witness.wait_start()
    installed.upgrade()
    os.kill(exporter_of(leader), signal.SIGKILL)
    leader.wait_log("version_changed", "nothing answers HTTP or writes the state file")
    witness.wait_beats(3)
    assert witness.now(term).main.beats > 0
    leader.signal(signal.SIGTERM)
    assert leader.wait() == 0
    assert len(leader.logged(level="WARNING")) <= 1, "the first attempt to restart it"
    witness.check(terms=1)
