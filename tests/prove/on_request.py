"""What is asked of a leader on the lock itself: to resign, or to name the next one.

Whoever is told that a transfer was done must be right: the one that was named leads, and nobody did in between. What
was reported as failed may have ended as it likes.
"""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from tests.cluster.contract import OBJECTS, VERSIONS, entry_of
from tests.prove import on_network, on_processes
from tests.prove.candidate import Missed
from tests.prove.fault import Broken, Fault, Trial
from tests.prove.on_processes import send_signal
from tests.support.api import path

if TYPE_CHECKING:
    from tests.prove.candidate import Candidate
    from tests.prove.fleet import Fleet

PATIENCE = 60.0  # seconds; kleader's own is twice as long


class Holders(threading.Thread):
    """Whom the lock's first object has named since, by a watch of our own."""

    def __init__(self, fleet: Fleet) -> None:
        super().__init__(daemon=True)
        kind = OBJECTS[fleet.kind.lock][0]
        self._api, self._path = fleet.plane.api, path(VERSIONS[kind], kind, fleet.namespace, "x")
        self._begun, self._over = threading.Event(), threading.Event()
        self._seen: list[str] = []
        self.start()
        self._begun.wait(PATIENCE)

    def run(self) -> None:
        with suppress(OSError, AssertionError):
            for what, found in self._api.watch(self._path, timeout=PATIENCE):
                entry = entry_of(found) if what in {"ADDED", "MODIFIED"} else None
                self._seen.append(entry.holder if entry else "")
                self._begun.set()
                if self._over.is_set():
                    return

    def end(self) -> None:
        """With the next renewal."""
        self._over.set()

    def between(self, leader: str, chosen: str) -> set[str]:
        """Who held the lock after the one and before the other, which must come to hold it."""
        until = time.monotonic() + PATIENCE
        while True:
            found = between(seen := list(self._seen), leader, chosen)
            if found is not None:
                return found
            assert time.monotonic() < until, f"{chosen} was not seen to hold the lock after {leader}: {seen}"
            time.sleep(0.05)


def between(holders: list[str], leader: str, chosen: str) -> set[str] | None:
    """Who is between the one and the next of the other; None where that does not come."""
    if leader not in holders or chosen not in holders[holders.index(leader) :]:
        return None
    end = holders.index(chosen, holders.index(leader))
    last = max(i for i in range(end) if holders[i] == leader)
    return set(holders[last + 1 : end]) - {""}


class LeaderRequest:
    """`kleader resign`, or `kleader transfer` to one that waits, by an administrator; it has asked somebody."""

    def __init__(self, trial: Trial, *, transfer: bool) -> None:
        fleet, self._transfer = trial.fleet, transfer
        if not (others := fleet.others(trial.leader)):
            raise Missed("nobody waits")
        self.chosen = trial.rng.choice(others)
        self._led = self.chosen.led
        self._holders = Holders(fleet)
        trial.undo.callback(self._holders.end)
        config = fleet.plane.kubeconfig(namespace=fleet.namespace)
        what = ["transfer", "--force", f"--to={self.chosen.identity}"] if transfer else ["resign"]
        argv = [*what, "x", f"--lock={fleet.kind.lock}", f"--kubeconfig={config}", f"--timeout={PATIENCE:g}s"]
        self._process = subprocess.Popen(
            [sys.executable, "-m", "kleader", *argv],
            cwd=fleet.kleader,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        trial.undo.callback(self._process.kill)
        assert self._process.stderr is not None
        self._said = self._process.stderr.readline()

    def done(self) -> bool:
        """Whether it is, as told; Broken where that is not true. Missed where nobody could be asked."""
        self._said += self._process.communicate(timeout=PATIENCE + 30)[1]
        asked = re.search(r"^kleader: asked (\S+) to ", self._said, re.MULTILINE)
        if not asked:
            raise Missed(self.said)
        if self._process.returncode != 0:
            return False
        if self._transfer and (others := self._holders.between(asked[1], self.chosen.identity)):
            raise Broken(f"a transfer to {self.chosen.identity} was reported as done, and {others} led before")
        return True

    @property
    def said(self) -> str:
        return self._said.strip()

    def taken(self) -> None:
        """Whoever is told to lead says so, too; it may lose the lock again before it starts anything."""
        until = time.monotonic() + PATIENCE
        while self.chosen.led == self._led:
            assert time.monotonic() < until, f"{self.chosen.identity} does not lead after a transfer to it"
            if not self.chosen.running:
                raise Missed(f"{self.chosen.identity} has ended")
            time.sleep(0.05)


class Asked(Fault):
    """Somebody asks, and what befalls whom then."""

    ends = True

    def __init__(self, name: str, *, transfer: bool = False, then_kill: str = "") -> None:
        self.name, self._transfer, self._then_kill = name, transfer, then_kill

    def suits(self, fleet: Fleet, leader: Candidate) -> bool:  # noqa: ARG002
        coordinated = "--coordinated" in fleet.kind.options  # the control plane names who leads next
        return fleet.kind.expires and not (self._transfer and coordinated)

    def inject(self, trial: Trial) -> None:
        errand = LeaderRequest(trial, transfer=self._transfer)
        if self._then_kill == "elector":
            send_signal([trial.leader.elector()], signal.SIGKILL)
        elif self._then_kill == "chosen":
            errand.chosen.kill()
        done = errand.done()
        if not done and self._then_kill != "chosen":
            raise Missed(errand.said)
        if done and self._transfer and not self._then_kill:
            errand.taken()
        self._tell(trial, done=done)

    def _tell(self, trial: Trial, *, done: bool) -> None:
        what = "transfers" if self._transfer else "resignations"
        trial.outcome = f"{what} {'done' if done else 'reported as failed'}"

    def bound(self, fleet: Fleet, hold: float) -> float:
        """Who was named and does not come keeps the lock for a lease duration."""
        return super().bound(fleet, hold) + (fleet.kind.duration if self._then_kill else 0)


class Amid(Asked):
    """Somebody asks shortly before another fault, or in the midst of it: one of the network or of processes."""

    ends = False
    blocks = True

    def inject(self, trial: Trial) -> None:
        other = Trial(trial.fleet, trial.leader, trial.term, trial.rng)
        every = (*on_processes.FAULTS, *on_network.FAULTS)
        fault = trial.rng.choice([each for each in every if each.suits(trial.fleet, trial.leader)])
        with other.undo:
            if amid := trial.rng.random() < 0.5:
                fault.inject(other)
                time.sleep(trial.rng.uniform(0, other.hold))
            errand = LeaderRequest(trial, transfer=self._transfer)
            if not amid:
                with suppress(Missed):  # it was faster
                    fault.inject(other)
                time.sleep(other.hold)
        self._tell(trial, done=errand.done())

    def bound(self, fleet: Fleet, hold: float) -> float:
        """As long as such a fault may last, too; whoever leads next may lose it to the same network."""
        return super().bound(fleet, hold) + 3 * fleet.kind.duration


FAULTS: tuple[Fault, ...] = (
    Asked("leader asked to resign"),
    Asked("leader asked to resign, its elector killed", then_kill="elector"),
    Amid("leader asked to resign amid another fault"),
    Asked("leader asked to transfer", transfer=True),
    Asked("leader asked to transfer, the next one killed", transfer=True, then_kill="chosen"),
    Asked("leader asked to transfer, its elector killed", transfer=True, then_kill="elector"),
    Amid("leader asked to transfer amid another fault", transfer=True),
)
