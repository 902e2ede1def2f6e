"""An operator edits or deletes a lock that is held, at the worst instants, while candidates learn of it late.

Each edit is one that the promise allows: every running candidate has seen the lock held, and no process starts soon
after. A watch reports changes in order; only a read can miss some.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from kleader.election.record import Record
from tests.simulation.faults import NOBODY, Fault, now, seen_by_all

if TYPE_CHECKING:
    from tests.simulation.schedule import Schedule
    from tests.simulation.server import Kept, Stored

ManualEdit = Callable[["Schedule", "Kept", "Stored", float], None]

BACKUPS = 16  # of the latest states of an object


def blind(world: Schedule, fault: Fault) -> None:
    """Every waiting candidate is cut off for a while, and then reads the lock."""
    world.note_fault(fault.host, fault.name)
    for host in world.hosts:
        if host is not world.running:
            host.cut_off(world.lease * fault.luck)


# --- what an edit leaves of a lock


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
    """To a holder that does not exist, for any duration."""
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


def edited(edit: ManualEdit, world: Schedule, fault: Fault) -> None:
    """If what comes of it is promised."""
    kept, was = fault.kept, fault.kept.stored
    if was and seen_by_all(world, kept):
        world.note_fault(fault.host, fault.name)
        kept.robbed_at = world.now
        edit(world, kept, was, fault.luck)


def edited_while_cut_off(edit: ManualEdit, world: Schedule, fault: Fault) -> None:
    """In that very instant: whoever leads cannot know of it."""
    if world.running:
        world.running.cut_off(world.lease * (1 + fault.luck))
        edited(edit, world, fault)


#: What may befall a fleet of kleaders alone, by name.
MANUAL_EDITS: dict[str, Callable[[Schedule, Fault], None]] = {"others blind": blind}
MANUAL_EDITS |= {f"lock {each.__name__}": partial(edited, each) for each in (shortened, stolen, restored)}
MANUAL_EDITS |= {
    f"cut off, lock {each.__name__}": partial(edited_while_cut_off, each)
    for each in (deleted, replaced, shortened, stolen, restored)
}
