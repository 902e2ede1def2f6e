"""A leader that ends as planned, and the standby it recommends does not exist or dies, or its elector does."""

from __future__ import annotations

import json
import signal
import time
from contextlib import suppress
from typing import TYPE_CHECKING

import psutil

from kleader.election.record import micro_time
from tests.prove.candidate import Missed
from tests.prove.fault import Fault, Trial
from tests.prove.on_processes import send_signal
from tests.support.api import ApiError, lease_path

if TYPE_CHECKING:
    from tests.prove.candidate import Candidate
    from tests.prove.fleet import Fleet

PATIENCE = 30.0  # seconds
ENTRY = "kleader/candidate-prove"


class Recommends(Fault):
    """TERM for a leader, in whose list the best standby is one that does not exist, or one that is killed then."""

    ends = True

    def __init__(self, name: str, *, exists: bool) -> None:
        self.name, self._exists = name, exists

    def suits(self, fleet: Fleet, leader: Candidate) -> bool:  # noqa: ARG002
        return fleet.kind.expires and "--coordinated" not in fleet.kind.options

    def inject(self, trial: Trial) -> None:
        others = [each for each in trial.fleet.others(trial.leader) if not each.rival]
        if not others:
            raise Missed("nobody waits")
        named = trial.rng.choice(others)
        self._enter(trial, named.identity if self._exists else "nobody")
        time.sleep(trial.rng.uniform(0, 1))
        send_signal([trial.leader.supervisor()], signal.SIGTERM)
        if self._exists:
            time.sleep(trial.rng.uniform(0, 0.3))
            named.kill()

    @staticmethod
    def _enter(trial: Trial, identity: str) -> None:
        """Enter it into the list of candidates, with a priority above all others."""
        fleet, now = trial.fleet, micro_time(time.time_ns() // 1000)
        path = lease_path(fleet.namespace, "candidates.x")
        entry = {"identity": identity, "lock": fleet.kind.lock, "state": "ready", "priority": 9}
        entry |= {"since": now, "renewed": now}
        try:
            fleet.plane.api.merge(path, {"metadata": {"annotations": {ENTRY: json.dumps(entry)}}})
        except ApiError:
            raise Missed("no candidate is registered yet") from None
        trial.undo.callback(fleet.plane.api.merge, path, {"metadata": {"annotations": {ENTRY: None}}})

    def bound(self, fleet: Fleet, hold: float) -> float:
        """The others leave the lock to the recommended one for a retry period."""
        return super().bound(fleet, hold) + fleet.kind.period


class KilledAtTheEnd(Fault):
    """TERM for a leader whose elector is killed when the command is dead: before, in, or after its last write.

    That write releases the lock and records the run.
    """

    name = "leader ends, its elector killed at the release"
    ends = True

    def suits(self, fleet: Fleet, leader: Candidate) -> bool:  # noqa: ARG002
        return fleet.kind.expires

    def inject(self, trial: Trial) -> None:
        elector, command = trial.leader.elector(), trial.leader.command(trial.term)
        send_signal([trial.leader.supervisor()], signal.SIGTERM)
        until = time.monotonic() + PATIENCE
        with suppress(psutil.NoSuchProcess):
            while command.status() != psutil.STATUS_ZOMBIE and time.monotonic() < until:
                time.sleep(0.0005)
        time.sleep(trial.rng.uniform(0, 0.02))
        send_signal([elector], signal.SIGKILL)


FAULTS: tuple[Fault, ...] = (
    Recommends("leader ends, its list names nobody", exists=False),
    Recommends("leader ends, the standby that it names killed", exists=True),
    KilledAtTheEnd(),
)
