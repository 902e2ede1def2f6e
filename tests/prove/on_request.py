"""What is asked of a leader on the lock itself: to resign, or to name the next one."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

from tests.prove.candidate import Missed
from tests.prove.fault import Fault, Trial
from tests.prove.on_processes import strike

if TYPE_CHECKING:
    from tests.prove.candidate import Candidate
    from tests.prove.fleet import Fleet

PATIENCE = 60.0  # seconds; kleader's own is twice as long


class Asked(Fault):
    """`kleader resign`, or `kleader transfer` to one that waits, by an administrator; and what befalls whom then."""

    ends = True

    def __init__(self, name: str, *, transfer: bool = False, then_kill: str = "") -> None:
        self.name, self._transfer, self._then_kill = name, transfer, then_kill

    def suits(self, fleet: Fleet, leader: Candidate) -> bool:  # noqa: ARG002
        coordinated = "--coordinated" in fleet.kind.options  # the control plane names who leads next
        return fleet.kind.expires and not (self._transfer and coordinated)

    def inject(self, trial: Trial) -> None:
        fleet = trial.fleet
        config = fleet.plane.kubeconfig(namespace=fleet.namespace)
        argv = ["x", f"--lock={fleet.kind.lock}", f"--kubeconfig={config}", f"--timeout={PATIENCE:g}s"]
        others = fleet.others(trial.leader)
        if not others:
            raise Missed("nobody waits")
        chosen = trial.rng.choice(others)
        led = chosen.led
        argv = ["transfer", *argv, f"--to={chosen.identity}"] if self._transfer else ["resign", *argv]
        asking = subprocess.Popen(
            [sys.executable, "-m", "kleader", *argv],
            cwd=fleet.kleader,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        trial.undo.callback(asking.kill)
        assert asking.stderr is not None
        first = asking.stderr.readline()
        if self._then_kill == "elector":
            strike([trial.leader.elector()], signal.SIGKILL)
        elif self._then_kill == "chosen":
            strike(chosen.everybody(), signal.SIGKILL)
        said = first + asking.communicate(timeout=PATIENCE + 30)[1]
        if asking.returncode != 0 and self._then_kill != "chosen":
            raise Missed(said.strip())
        if self._transfer and not self._then_kill:
            self._taken(chosen, led)

    @staticmethod
    def _taken(chosen: Candidate, led: int) -> None:
        """Whoever is told to lead says so, too; it may lose the lock again before it starts anything."""
        until = time.monotonic() + PATIENCE
        while chosen.led == led:
            assert time.monotonic() < until, f"{chosen.identity} does not lead after a transfer to it"
            if not chosen.running:
                raise Missed(f"{chosen.identity} has ended")
            time.sleep(0.05)

    def bound(self, fleet: Fleet, hold: float) -> float:
        """Who was named and does not come keeps the lock for a lease duration."""
        return super().bound(fleet, hold) + (fleet.kind.duration if self._then_kill else 0)


FAULTS: tuple[Fault, ...] = (
    Asked("leader asked to resign"),
    Asked("leader asked to resign, its elector killed", then_kill="elector"),
    Asked("leader asked to transfer", transfer=True),
    Asked("leader asked to transfer, the next one killed", transfer=True, then_kill="chosen"),
    Asked("leader asked to transfer, its elector killed", transfer=True, then_kill="elector"),
)
