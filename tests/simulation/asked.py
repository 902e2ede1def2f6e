"""Schedules in which leaders are asked to resign, or to name the next leader, beside all other faults."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kleader.election.request import Request
from tests.simulation.faults import FAULTS, NOBODY, Fault
from tests.simulation.schedule import Schedule

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


def asked_to_resign(world: Schedule, fault: Fault) -> None:
    """Whoever holds the lock by now; now and then somebody else, or an earlier term."""
    _ask(world, fault, "")


def asked_to_transfer(world: Schedule, fault: Fault) -> None:
    """Likewise; to anybody, or to nobody."""
    names = [*(host.me.identity for host in world.hosts), NOBODY]
    _ask(world, fault, names[int(fault.luck * len(names))])


def _ask(_: Schedule, fault: Fault, to: str) -> None:
    first = fault.host.kept[0]
    if first.stored:
        holder, incarnation = first.stored.record.holder, first.stored.incarnation
        stale = fault.chance < 0.1
        first.edit(request=Request(holder, "stale" if stale else incarnation, to))


ASKED = (asked_to_resign, asked_to_transfer, asked_to_transfer)


class AskedSchedule(Schedule):
    """A fleet of any kind whose leaders are asked for something again and again."""

    spare = 2  # who stood aside looks at the lock

    @property
    def possible(self) -> Sequence[Callable[[Schedule, Fault], None]]:
        """What may befall any, and requests."""
        return (*FAULTS, *3 * ASKED)

    @property
    def patience(self) -> float:  # type: ignore[override]
        """Somebody is named who is dead; whoever could take the lock stands aside for as long."""
        return 2.0 * self.lease
