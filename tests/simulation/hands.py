"""Hands on a lock that somebody holds, at the worst of moments, beside candidates who hear of it late.

All that they do is within the promise: whoever is up has seen the lock held, for as long as it is, and no fresh process
starts beside it soon after. What is told is told in order; only what is read leaves something out.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from kleader.election.record import Record
from tests.simulation.troubles import NOBODY, Trouble, now, seen_by_all

if TYPE_CHECKING:
    from tests.simulation.schedule import Schedule
    from tests.simulation.server import Kept, Stored

Hands = Callable[["Schedule", "Kept", "Stored", float], None]

BACKUPS = 16  # of the latest states of an object


def blind(world: Schedule, trouble: Trouble) -> None:
    """Whoever waits hears nothing for a while, and then reads what has become of the lock."""
    world.befalls(trouble.host, trouble.name)
    for host in world.hosts:
        if host is not world.running:
            host.cut_off(world.lease * trouble.luck)


# --- what they leave of a lock


def deleted(world: Schedule, kept: Kept, _was: Stored, _luck: float) -> None:
    kept.delete(world.now)


def replaced(world: Schedule, kept: Kept, _was: Stored, _luck: float) -> None:
    """By an object without a record."""
    kept.delete(world.now)
    kept.create(Record())


def shortened(world: Schedule, kept: Kept, was: Stored, luck: float) -> None:
    """The record of whoever has it, with another lease duration."""
    kept.edit(record=replace(was.record, duration=_short(world, luck)), fault="")


def stolen(world: Schedule, kept: Kept, was: Stored, luck: float) -> None:
    """For one that does not exist, for as long as the hands like."""
    kept.edit(record=replace(was.record, holder=NOBODY, duration=_short(world, luck), renewed=now(world)), fault="")


def restored(world: Schedule, kept: Kept, was: Stored, luck: float) -> None:
    """From a backup, in place or as another object, to exactly what was there before.

    Not to a lock that was given up, or to the next: that is what the end of a command looks like.
    """
    states = [seen for _, seen in kept.history[-BACKUPS:] if seen and seen.record.holder and not seen.handed_over]
    if states:
        number, rest = divmod(luck * len(states), 1)
        then = states[int(number)]
        if rest < 0.5:
            kept.delete(world.now)
            kept.create(then.record, incarnation=then.incarnation)
        else:
            kept.edit(record=then.record, incarnation=then.incarnation, fault="", handed_over=False)


def _short(world: Schedule, luck: float) -> int:
    return 1 + int(luck**2 * world.lease)


# --- and when


def laid(hands: Hands, world: Schedule, trouble: Trouble) -> None:
    """If what comes of it is promised."""
    kept, was = trouble.kept, trouble.kept.stored
    if was and seen_by_all(world, kept):
        world.befalls(trouble.host, trouble.name)
        kept.robbed_at = world.now
        hands(world, kept, was, trouble.luck)


def laid_on_who_is_cut_off(hands: Hands, world: Schedule, trouble: Trouble) -> None:
    """In that very instant: whoever leads cannot know of it."""
    if world.running:
        world.running.cut_off(world.lease * (1 + trouble.luck))
        laid(hands, world, trouble)


#: What may befall a fleet of kleaders alone, by name.
GAPS: dict[str, Callable[[Schedule, Trouble], None]] = {"others blind": blind}
GAPS |= {f"lock {each.__name__}": partial(laid, each) for each in (shortened, stolen, restored)}
GAPS |= {
    f"cut off, lock {each.__name__}": partial(laid_on_who_is_cut_off, each)
    for each in (deleted, replaced, shortened, stolen, restored)
}
