"""A fault: which processes it may hit, how it is caused and undone, and what it needs of the machine."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import random

    from tests.prove.candidate import Candidate
    from tests.prove.fleet import Fleet
    from tests.support.checker import Term
    from tests.support.controlplane import ControlPlane


class Broken(Exception):  # noqa: N818 - an outcome
    """What is promised did not hold."""


@dataclass
class Trial:
    """One fault that befalls one fleet."""

    fleet: Fleet
    leader: Candidate
    term: Term
    rng: random.Random
    hold: float = 0  # seconds for which the fault lasts
    outcome: str = ""  # to be counted, beyond the trial itself
    undo: ExitStack = field(default_factory=ExitStack)

    def lasts(self, least: float, most: float) -> None:
        """Let the fault last for so many seconds, neither more nor less."""
        self.hold = self.rng.uniform(least, most)


class Fault:
    """One class of faults. `ends`: the leader's term, surely; `blocks`: while it lasts, nobody may be able to lead."""

    name: str
    ends = False
    blocks = False
    of_rivals = False  # it is for leaders that are not kleader

    def missing(self) -> str:
        """What this machine lacks; nothing: it can be tried."""
        return ""

    def suits(self, fleet: Fleet, leader: Candidate) -> bool:  # noqa: ARG002 - most do
        """Whether it may hit this fleet while this one leads: the promise is made for it."""
        return True

    def inject(self, trial: Trial) -> None:
        """Bring it about, and say in `trial.undo` how it ends; Missed where whom it is meant for has gone."""
        raise NotImplementedError

    def bound(self, fleet: Fleet, hold: float) -> float:
        """The longest time without a leader that is expected, in seconds, without the allowance."""
        return fleet.kind.expiry + (hold if self.blocks else 0)


class SharedFault:
    """A fault of the control plane, which befalls all fleets on it."""

    name: str

    def missing(self) -> str:
        return ""

    def inject(self, plane: ControlPlane, rng: random.Random, undo: ExitStack) -> float:
        """Bring it about; returns for how many seconds it is to last."""
        raise NotImplementedError
