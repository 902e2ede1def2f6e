"""Schedules in which leaders are asked to resign, or to name the next leader, beside all the other troubles."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kleader.election.request import Request
from tests.simulation.schedule import Schedule
from tests.simulation.troubles import MISFORTUNES, NOBODY, Trouble

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


def asked_to_resign(world: Schedule, trouble: Trouble) -> None:
    """Whoever holds the lock by now; now and then somebody else, or an earlier term."""
    _ask(world, trouble, "")


def asked_to_transfer(world: Schedule, trouble: Trouble) -> None:
    """Likewise; to anybody, or to nobody."""
    names = [*(host.me.identity for host in world.hosts), NOBODY]
    _ask(world, trouble, names[int(trouble.luck * len(names))])


def _ask(_: Schedule, trouble: Trouble, to: str) -> None:
    first = trouble.host.kept[0]
    if first.stored:
        holder, incarnation = first.stored.record.holder, first.stored.incarnation
        stale = trouble.chance < 0.1
        first.edit(request=Request(holder, "stale" if stale else incarnation, to))


ASKED = (asked_to_resign, asked_to_transfer, asked_to_transfer)


class AskedSchedule(Schedule):
    """A fleet of any kind whose leaders are asked for something again and again."""

    spare = 2  # who stood aside looks at the lock

    @property
    def possible(self) -> Sequence[Callable[[Schedule, Trouble], None]]:
        """What may befall any, and requests."""
        return (*MISFORTUNES, *3 * ASKED)

    @property
    def patience(self) -> float:  # type: ignore[override]
        """Somebody is named who is dead; whoever could take the lock stands aside for as long."""
        return 2.0 * self.lease
