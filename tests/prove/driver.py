"""Deals faults to the fleets of one control plane, and sees what comes of each.

Every fleet has one fault of its own after the other; now and then, when all are whole, the control plane has one, which
is everybody's. Which it is, whom it hits and when is drawn from the seed; the classes that came least often come first.
"""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, TypeVar

from tests.prove.candidate import Missed
from tests.prove.fault import Broken, Trial
from tests.prove.fleet import Fleet, Setting, story
from tests.support.witness import clock

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from tests.prove.candidate import Style
    from tests.prove.fault import Fault, SharedFault
    from tests.prove.kinds import Kind
    from tests.prove.table import Table
    from tests.support.checker import Term
    from tests.support.controlplane import ControlPlane

F = TypeVar("F", "Fault", "SharedFault")
ALLOWANCE = 5.0  # seconds beyond the timings: for starting processes, and for a machine that has other work
PATIENCE = 90.0  # seconds until a fleet that is not whole is given up
SHARED_EVERY = (15.0, 30.0)  # seconds of the fleets' own faults between two of the control plane's


@dataclass
class Chaos:
    """What all groups have in common."""

    seed: int
    directory: Path
    kleader: Path
    faults: Sequence[Fault]
    shared: Sequence[SharedFault]
    styles: tuple[Style, ...]
    small_disk: bool
    first: bool  # it ends with the first overlap
    trials: int  # or after so many; 0: time alone ends it
    until: float  # an instant of time.monotonic()
    latest: float  # another, until which it goes on where a class has come fewer than `least` times
    least: int
    table: Table
    tell: Callable[[str], None]
    _dealt: Counter[str] = field(default_factory=Counter)
    _dealing: threading.Lock = field(default_factory=threading.Lock)

    def deal(self, faults: Sequence[F], rng: random.Random) -> F:
        """One of those that came least often: some fit a single fleet, or a leader that there seldom is."""
        with self._dealing:
            fewest = min(self._dealt[fault.name] for fault in faults)
            fault = rng.choice([fault for fault in faults if self._dealt[fault.name] == fewest])
            self._dealt[fault.name] += 1
            return fault

    def take_back(self, fault: Fault) -> None:
        """It was not brought about."""
        with self._dealing:
            self._dealt[fault.name] -= 1

    @property
    def over(self) -> bool:
        """Whether what was wanted has been tried, or found, or time is up."""
        if (self.first and self.table.overlaps) or (self.trials and self.table.trials >= self.trials):
            return True
        return time.monotonic() >= (self.latest if self.table.seldom(self.least) else self.until)


class Group:
    """The fleets on one control plane."""

    def __init__(self, chaos: Chaos, number: int, plane: ControlPlane | None, kinds: Sequence[Kind]) -> None:
        self._chaos, self._plane = chaos, plane
        self._rng = random.Random(f"{chaos.seed}:{number}")  # noqa: S311 - to be replayed
        self._in_vain: set[tuple[str, str]] = set()  # tried in this term: whom it was meant for had gone
        self.fleets = [self._fleet(f"{number}-{kind.name}", kind) for kind in kinds]
        self._pool = ThreadPoolExecutor(len(self.fleets))

    def _fleet(self, name: str, kind: Kind) -> Fleet:
        directory = self._chaos.directory / name
        directory.mkdir()
        rng = random.Random(f"{self._chaos.seed}:{name}")  # noqa: S311 - likewise
        chaos = self._chaos
        return Fleet(name, kind, self._plane, Setting(directory, rng, chaos.kleader, chaos.styles, chaos.small_disk))

    def run(self) -> None:
        """Go on until it is over."""
        try:
            list(self._pool.map(Fleet.open, self.fleets))
            list(self._pool.map(lambda fleet: self._whole(fleet, "the start"), self.fleets))
            while not self._chaos.over:
                pause = min(self._chaos.latest, time.monotonic() + self._rng.uniform(*SHARED_EVERY))
                list(self._pool.map(lambda fleet: self._own_faults(fleet, pause), self.fleets))  # noqa: B023
                if self._plane and self._chaos.shared and not self._chaos.over:
                    self._shared_fault(self._plane)
            for fleet in self.fleets:
                self._overlaps(fleet, "the end")
        finally:
            list(self._pool.map(Fleet.close, self.fleets))
            self._pool.shutdown()

    # --- a fault of its own for each

    def _own_faults(self, fleet: Fleet, until: float) -> None:
        while time.monotonic() < until and not self._chaos.over:
            try:
                leader, term = fleet.leader()
            except Missed:  # it has just lost it, by itself
                self._whole(fleet, "the last fault")
                continue
            suitable = [each for each in self._chaos.faults if each.of_rivals == leader.rival]
            suitable = [each for each in suitable if each.suits(fleet, leader)]
            suitable = [each for each in suitable if (each.name, term.main.key) not in self._in_vain] or suitable
            if not suitable:
                time.sleep(max(0.0, until - time.monotonic()))
                return
            fault = self._chaos.deal(suitable, fleet.rng)
            self._try(fault, Trial(fleet, leader, term, random.Random(fleet.rng.random())))  # noqa: S311 - likewise

    def _try(self, fault: Fault, trial: Trial) -> None:
        fleet = trial.fleet
        time.sleep(trial.rng.uniform(0, fleet.kind.period))  # at any moment between two renewals
        since = clock()
        try:
            with trial.undo:
                fault.inject(trial)
                time.sleep(trial.hold)
            if not fault.ends:  # it may end the term: by the deadline at the latest
                time.sleep(max(0.0, fleet.kind.deadline + fleet.kind.period - trial.hold))
        except Missed as missed:
            self._chaos.take_back(fault)
            self._in_vain.add((fault.name, trial.term.main.key))
            self._chaos.table.missed(fault.name, str(missed))
            self._whole(fleet, fault.name)
            return
        except Broken as broken:
            self._chaos.table.broken(fault.name, str(broken))
            self._chaos.tell(f"BROKEN: seed {self._chaos.seed}, {fleet.name}, {fault.name}: {broken}\n{story(fleet)}")
            self._whole(fleet, fault.name)
            return
        except Exception as error:  # noqa: BLE001 - the table tells which class cannot be injected
            self._chaos.table.failed(fault.name, f"{type(error).__name__}: {error}")
            self._whole(fleet, fault.name)
            return
        if trial.outcome:
            self._chaos.table.came(trial.outcome)
        bound = fault.bound(fleet, trial.hold) + ALLOWANCE
        self._judge(fleet, fault.name, since, bound, over=trial.term if fault.ends else None)

    # --- a fault for all

    def _shared_fault(self, plane: ControlPlane) -> None:
        fault = self._chaos.deal(self._chaos.shared, self._rng)
        since = clock()
        try:
            with ExitStack() as undo:
                time.sleep(fault.inject(plane, self._rng, undo))
        except Exception as error:  # noqa: BLE001 - likewise
            self._chaos.table.failed(fault.name, f"{type(error).__name__}: {error}")
            plane.recover()
            return
        took = (clock() - since) / 1e9

        def judge(fleet: Fleet) -> None:
            bound = fleet.kind.expiry + ALLOWANCE + (took if fleet.kind.api else 0)
            self._judge(fleet, fault.name, since, bound, counts=fleet is self.fleets[0])

        list(self._pool.map(judge, self.fleets))

    # --- what came of it

    def _judge(
        self, fleet: Fleet, name: str, since: int, bound: float, *, over: Term | None = None, counts: bool = True
    ) -> None:
        """Let the fleet become whole, and enter into the table what was seen since that instant."""
        whole = self._whole(fleet, name, over)
        terms = fleet.witness.terms()
        pairs = [(earlier, later) for earlier, later in pairwise(terms) if later.born >= since]
        gaps = [(later.born - earlier.last) / 1e9 for earlier, later in pairs]
        ours = [gap for gap, (earlier, _) in zip(gaps, pairs, strict=True) if not earlier.main.rival]
        late = not whole or max(gaps, default=0.0) > bound
        self._chaos.table.trial(name, ours, max(gaps, default=0.0), bound, late=late, counts=counts)
        if late and gaps:
            self._chaos.tell(f"late: {fleet.name}: {name}: {max(gaps):.1f} s without a leader, {bound:.1f} s expected")
        self._overlaps(fleet, name)

    def _whole(self, fleet: Fleet, name: str, over: Term | None = None) -> bool:
        """Wait until it is; one that does not become so is told of, and all of its candidates are started anew."""
        if fleet.settle(PATIENCE, over):
            return True
        self._chaos.table.stuck(name)
        self._chaos.tell(f"not whole within {PATIENCE:.0f} s after {name}: {fleet.name}\n{story(fleet)}")
        for candidate in list(fleet.slots.values()):
            fleet.put_down(candidate)
        return fleet.settle(PATIENCE) and False

    def _overlaps(self, fleet: Fleet, name: str) -> None:
        wrong = {_pair(each.earlier, each.later): str(each) for each in fleet.witness.overlaps()}
        for earlier, later in fleet.witness.wrong_tokens(restarts=True):
            key = ("token", *_pair(earlier, later))
            wrong[key] = f"token {later.token} came after {earlier.token}"
        if new := self._chaos.table.news(fleet.name, name, wrong):
            told = "\n".join(new)
            self._chaos.tell(f"OVERLAP: seed {self._chaos.seed}, {fleet.name}, {name}:\n{told}\n{story(fleet)}")


def _pair(earlier: Term | None, later: Term) -> tuple[str, ...]:
    return (earlier.main.key if earlier else "", later.main.key)
