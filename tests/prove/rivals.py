"""client-go's candidates beside kleader's, and their faults.

One thing is promised there, and judged: no process of an earlier term of kleader's is alive when anybody's command
starts. How long a rival's own command lives is the rival's affair; so the witness looks at when it starts.

That holds beside a client-go that starts nothing while the Lease is another's, so these are not tried:

- ReleaseOnCancel of the current version, which may empty a Lease that it has lost meanwhile: of these two only the old
  one, which does not, releases. Either stops its command first.
- SIGSTOP for one that waits: the answer to the write by which it took the Lease may be waiting for it, and it leads
  from that answer on, however late that is.
- A Lease that is deleted: who follows client-go's rules takes at once what is not there.
"""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

from tests.prove.candidate import PLAIN, Missed
from tests.prove.fault import Fault
from tests.prove.on_processes import Killed, Stopped, everybody, send_signal
from tests.support import clientgo

if TYPE_CHECKING:
    from tests.prove.candidate import Candidate
    from tests.prove.fault import Trial
    from tests.prove.fleet import Fleet


def build() -> None:
    """What `argv` names; GoError where that cannot be."""
    clientgo.build("current")
    clientgo.build("legacy")


def argv(fleet: Fleet, identity: str) -> list[str]:
    """The command line of one, on either version."""
    kind, version = fleet.kind, fleet.rng.choice(("current", "legacy"))
    return clientgo.candidate(
        *(fleet.plane.kubeconfig(namespace=fleet.namespace), fleet.namespace, "x", identity),
        fleet.witness.command("--rival", *PLAIN.does, "--most=100000"),
        version="current" if version == "current" else "legacy",
        lease_duration=f"{kind.duration:g}s",
        renew_deadline=f"{kind.deadline:g}s",
        retry_period=f"{kind.period / 2:g}s",  # it polls, where kleader watches: else it would hardly ever lead
        release_on_cancel=version == "legacy",
        stop_first=True,
    )


class LeaderKilled(Killed):
    """SIGKILL for all of its processes."""

    of_rivals = True

    def __init__(self) -> None:
        super().__init__("client-go leader", everybody, ends=True)


class LeaderStopped(Stopped):
    """SIGSTOP for all of its processes, and SIGCONT when the Lease may be another's."""

    of_rivals = True

    def __init__(self) -> None:
        super().__init__("client-go leader", everybody)


class LeaderAsked(Fault):
    """TERM."""

    name = "client-go leader asked to stop (TERM)"
    ends = of_rivals = True

    def inject(self, trial: Trial) -> None:
        trial.leader.process.signal(signal.SIGTERM)


class WaitingEnds(Fault):
    """SIGKILL or TERM for one that waits, perhaps with its write under way."""

    name = "waiting client-go candidate killed, or asked to stop"

    def suits(self, fleet: Fleet, leader: Candidate) -> bool:
        return bool(_waiting(fleet, leader))

    def inject(self, trial: Trial) -> None:
        waiting = _waiting(trial.fleet, trial.leader)
        if not waiting:
            raise Missed("none waits")
        send_signal(trial.rng.choice(waiting).everybody(), trial.rng.choice((signal.SIGKILL, signal.SIGTERM)))


def _waiting(fleet: Fleet, leader: Candidate) -> list[Candidate]:
    return [each for each in fleet.others(leader) if each.rival]


FAULTS: tuple[Fault, ...] = (LeaderKilled(), LeaderStopped(), LeaderAsked(), WaitingEnds())
