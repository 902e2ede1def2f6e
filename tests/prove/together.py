"""A fault of the network, and while it lasts one of the processes."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from tests.prove import on_network, on_processes
from tests.prove.fault import Fault, Trial

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.prove.candidate import Candidate
    from tests.prove.fleet import Fleet


class Together(Fault):
    """One of each, drawn anew each time."""

    name = "network fault, and a process fault meanwhile"
    blocks = True

    def suits(self, fleet: Fleet, leader: Candidate) -> bool:  # noqa: ARG002
        return fleet.kind.api

    def inject(self, trial: Trial) -> None:
        self._one_of(on_network.FAULTS, trial)
        lasts = trial.hold
        begun = time.monotonic()
        time.sleep(trial.rng.uniform(0, lasts / 2))
        trial.hold = 0
        self._one_of(on_processes.FAULTS, trial)
        trial.hold = max(trial.hold, begun + lasts - time.monotonic(), 0)

    def _one_of(self, faults: Sequence[Fault], trial: Trial) -> None:
        trial.rng.choice([each for each in faults if each.suits(trial.fleet, trial.leader)]).inject(trial)

    def bound(self, fleet: Fleet, hold: float) -> float:
        """Whoever leads next may lose it to the same network."""
        return super().bound(fleet, hold) + fleet.kind.duration


FAULTS: tuple[Fault, ...] = (Together(),)
