"""SIGKILL and SIGSTOP for each of a candidate's processes, and what is asked of a leader in good order.

What is not promised is not tried: descendants whose supervisor and elector die, or are stopped, in the same instant
outside of a PID namespace; a PID 1 that is stopped together with its elector; a frozen control group.
"""

from __future__ import annotations

import signal
from contextlib import suppress
from typing import TYPE_CHECKING

import psutil

from tests.prove.candidate import Missed, signal_each
from tests.prove.fault import Fault, Trial

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from tests.prove.candidate import Candidate
    from tests.prove.fleet import Fleet

    Victims = Callable[[Trial], Iterable[psutil.Process]]
    Condition = Callable[[Candidate], bool]


def always(_: Candidate) -> bool:
    return True


def alone(leader: Candidate) -> bool:
    """Without descendants: who dies with supervisor and elector at once is promised of the command alone."""
    return not leader.style.brood


def alone_outside(leader: Candidate) -> bool:
    """The kernel kills no PID 1 that is stopped: with its elector stopped too, nobody does."""
    return alone(leader) and not leader.style.init


def with_brood(leader: Candidate) -> bool:
    return leader.style.brood


def send_signal(victims: Iterable[psutil.Process], number: int) -> list[psutil.Process]:
    """Send a signal to each; returns whom it reached. Missed where it was nobody."""
    reached = signal_each(victims, number)
    if not reached:
        raise Missed("whom to strike has ended")
    return reached


class Killed(Fault):
    """SIGKILL, to the children first: a descendant that outlives supervisor and elector is promised nothing.

    (A file's lock goes with these, and a descendant that closed what it inherited may live on for a moment.)
    """

    def __init__(self, name: str, victims: Victims, condition: Condition = always, *, ends: bool = False) -> None:
        self.name, self._victims, self._condition, self.ends = f"{name} killed", victims, condition, ends

    def suits(self, fleet: Fleet, leader: Candidate) -> bool:  # noqa: ARG002
        return self._condition(leader)

    def inject(self, trial: Trial) -> None:
        send_signal(reversed([*self._victims(trial)]), signal.SIGKILL)


class Stopped(Fault):
    """SIGSTOP, and SIGCONT later, to who is still there."""

    blocks = True  # where nobody may take the lock of one that is stopped: a file's, a Pod's

    def __init__(self, name: str, victims: Victims, condition: Condition = always) -> None:
        self.name, self._victims, self._condition = f"{name} stopped", victims, condition

    def suits(self, fleet: Fleet, leader: Candidate) -> bool:  # noqa: ARG002
        return self._condition(leader)

    def inject(self, trial: Trial) -> None:
        for each in send_signal(self._victims(trial), signal.SIGSTOP):
            trial.undo.callback(_go_on, each)
        trial.lasts(0.5, trial.fleet.kind.duration + 3)


def _go_on(process: psutil.Process) -> None:
    with suppress(psutil.NoSuchProcess):
        process.send_signal(signal.SIGCONT)


class Asked(Fault):
    """TERM for the leader."""

    name = "leader asked to stop (TERM)"
    ends = True

    def inject(self, trial: Trial) -> None:
        send_signal([trial.leader.supervisor()], signal.SIGTERM)


class AskedWithStopped(Fault):
    """TERM for a leader whose command, or what that has left, does not run just now."""

    name = "leader asked to stop, its descendant stopped"
    ends = True

    def suits(self, fleet: Fleet, leader: Candidate) -> bool:  # noqa: ARG002
        return with_brood(leader)

    def inject(self, trial: Trial) -> None:
        send_signal([trial.leader.descendant(trial.term)], signal.SIGSTOP)
        send_signal([trial.leader.supervisor()], signal.SIGTERM)


def supervisor(trial: Trial) -> list[psutil.Process]:
    return [trial.leader.supervisor()]


def elector(trial: Trial) -> list[psutil.Process]:
    return [trial.leader.elector()]


def both(trial: Trial) -> list[psutil.Process]:
    return [trial.leader.supervisor(), trial.leader.elector()]


def command(trial: Trial) -> list[psutil.Process]:
    return [trial.leader.command(trial.term)]


def descendant(trial: Trial) -> list[psutil.Process]:
    return [trial.leader.descendant(trial.term)]


def everybody(trial: Trial) -> list[psutil.Process]:
    return trial.leader.everybody()


def _waiting(trial: Trial) -> Candidate:
    if others := [each for each in trial.fleet.others(trial.leader) if not each.rival]:
        return trial.rng.choice(others)
    raise Missed("nobody waits")


class KilledWaiting(Fault):
    """SIGKILL for all processes of a candidate that waits."""

    name = "waiting candidate killed"

    def inject(self, trial: Trial) -> None:
        _waiting(trial).kill()


def waiting_elector(trial: Trial) -> list[psutil.Process]:
    return [_waiting(trial).elector()]


def waiting_supervisor(trial: Trial) -> list[psutil.Process]:
    return [_waiting(trial).supervisor()]


FAULTS: tuple[Fault, ...] = (
    Killed("supervisor", supervisor, ends=True),
    Stopped("supervisor", supervisor),
    Killed("elector", elector),
    Stopped("elector", elector),
    Killed("supervisor and elector", both, lambda leader: alone(leader) or leader.style.init, ends=True),
    Stopped("supervisor and elector", both, alone_outside),
    Killed("command", command, ends=True),
    Stopped("command", command),
    Killed("descendant", descendant, with_brood),
    Stopped("descendant", descendant, with_brood),
    Killed("whole leader", everybody, ends=True),
    Stopped("whole leader", everybody, alone_outside),
    KilledWaiting(),
    Killed("elector of a waiting candidate", waiting_elector),
    Stopped("supervisor of a waiting candidate", waiting_supervisor),
    Asked(),
    AskedWithStopped(),
)
