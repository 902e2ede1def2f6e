"""Standbys and hooks of coordinated candidates, while the control plane nominates."""

from __future__ import annotations

import os
import shlex
import signal
from typing import TYPE_CHECKING

import pytest

from tests.cluster.test_coordinated import Coordinated
from tests.support.checker import Witness
from tests.support.processes import wait_until

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cluster.fleet import Fleet
    from tests.conftest import Trials
    from tests.support.checker import Term
    from tests.support.controlplane import ControlPlane

PATIENT = ("--on-loss=wait", "--stop-timeout=600s")
DEAF = ("--ignore-term", "--descendant")


@pytest.fixture
def coordinated(fleet: Fleet, own_plane: ControlPlane) -> Coordinated:
    return Coordinated(fleet, own_plane)


def standby(witness: Witness) -> tuple[str, ...]:
    return f"--standby={shlex.join(witness.command(*DEAF))}", "--loss-grace=200ms"


def run(witness: Witness, number: int, *, standby: bool = False, after: Term | None = None) -> Term:
    """The so many-th run of the command, or of the standby with its descendant, born after that one."""

    def runs() -> list[Term]:
        terms = [each for each in witness.terms() if (each.token == "-") == standby]
        return [each for each in terms if (each.descendants or not standby) and (not after or each.born > after.born)]

    witness.wait(lambda: len(runs()) >= number, f"{'standby' if standby else 'command'} number {number}")
    return runs()[number - 1]


def test_standby_of_the_nominated_candidate_is_dead_before_its_command_starts(
    coordinated: Coordinated, tmp_path: Path, trials: Trials
) -> None:
    """With its tree, though it ignores SIGTERM; a candidate that stepped down starts its standby again."""
    both = {identity: Witness(tmp_path / identity) for identity in ("worse", "better")}

    def start(identity: str, version: str, *does: str) -> None:
        options = (*standby(both[identity]), *PATIENT)
        coordinated.start(identity, version, *options, command=both[identity].command(*does))

    start("worse", "1.36.0", "--ignore-term")
    first = run(both["worse"], 1)  # a standby may have been there before: the control plane takes its time
    start("better", "1.35.0")
    run(both["better"], 1, standby=True)
    coordinated.processes["worse"].wait_log("command_stopping")
    os.kill(first.pid, signal.SIGKILL)
    run(both["better"], 1)
    run(both["worse"], 1, standby=True, after=first)
    better = coordinated.processes["better"]
    better.signal(signal.SIGTERM)
    assert better.wait() == 0
    run(both["worse"], 2)
    for witness in both.values():
        witness.check(restarts=True)
    trials.count(2, "standbys of coordinated candidates that gave way")


def test_new_leader_hook_runs_once_for_each_leader_in_every_coordinated_candidate(
    coordinated: Coordinated, tmp_path: Path
) -> None:
    """For its own term too, and not for an empty holder; the name is the holder, not the preferred holder."""

    def seen(identity: str) -> list[str]:
        said = tmp_path / identity
        return said.read_text().splitlines() if said.exists() else []

    def start(identity: str, version: str, *does: str) -> None:
        hook = shlex.join(["sh", "-c", f'echo "$KLEADER_LEADER" >>{tmp_path / identity}'])
        coordinated.start(identity, version, f"--on-new-leader={hook}", *PATIENT, does=does)

    start("worse", "1.36.0", "--ignore-term")
    coordinated.leads(1, "worse")
    start("better", "1.35.0")
    wait_until(lambda: seen("better") == ["worse"], "whom the better one finds")
    coordinated.processes["worse"].wait_log("command_stopping")
    os.kill(coordinated.witness.terms()[0].pid, signal.SIGKILL)
    coordinated.leads(2, "better")
    wait_until(lambda: seen("better") == ["worse", "better"], "all that the better one sees")
    wait_until(lambda: seen("worse") == ["worse", "better"], "all that the worse one sees")
    better = coordinated.processes["better"]
    better.signal(signal.SIGTERM)
    assert better.wait() == 0
    coordinated.leads(3, "worse")
    wait_until(lambda: seen("worse") == ["worse", "better", "worse"], "its own term again")
    assert seen("better") == ["worse", "better"]
    coordinated.witness.check(terms=3)
