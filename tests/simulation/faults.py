"""The faults of a host, its command, the API server, and the objects that a lock is kept in."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from kleader.election.record import SECOND, Record
from tests.simulation.host import WALL, Ahead
from tests.simulation.machine import Machine

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.simulation.host import Host
    from tests.simulation.schedule import Schedule
    from tests.simulation.server import Kept


class Fault(NamedTuple):
    """One fault that a schedule has planned. ``aimed``: at the leader of that instant, if there is one."""

    when: float
    host: Host
    name: str
    what: Callable[[Schedule, Fault], None]
    aimed: bool = False
    chance: float = 0.0  # in [0, 1), for what has to be drawn: of which kind
    luck: float = 0.0  # and how much
    awaits: bool = False  # a request or step of its host from then on: it is prepared before

    def befall(self, world: Schedule) -> None:
        """Now."""
        fault = self._replace(host=world.running) if self.aimed and world.running else self
        self.what(world, fault)

    def of(self, *choices: float) -> float:
        """One of these."""
        return choices[int(self.chance * len(choices))]

    @property
    def kept(self) -> Kept:
        """One of the objects that its host locks."""
        kept = self.host.kept
        return kept[int(self.chance * len(kept))]


def start(_: Schedule, fault: Fault) -> None:
    """A host begins."""
    fault.host.start()


def at_once(what: Callable[[Schedule, Fault], None]) -> Callable[[Schedule, Fault], None]:
    """A fault that happens to a host at once."""

    def befall(world: Schedule, fault: Fault) -> None:
        world.note_fault(fault.host, fault.name)
        what(world, fault)

    return befall


def await_next(kind: str) -> Callable[[Schedule, Fault], None]:
    """A fault of the host's next request, watch event or step; now and then all requests or events for a while.

    Also the next write of one who does not lead ("take"), and the next start: what comes close after is seldom else.
    """

    def prepare(world: Schedule, fault: Fault) -> None:
        once = kind not in {"request", "event"} or fault.chance < 0.7
        long = kind in {"take", "start"} or not once
        until = fault.when + (2 * world.lease * fault.luck if long else 1)
        fault.host.ahead[kind].append(Ahead(fault.name, fault.when, until, once, fault.luck))

    return prepare


# --- processes


def kill_elector(world: Schedule, fault: Fault) -> None:
    """Now; or when it has the lock, and waits before it leads, for which it would have to be a lucky shot."""
    if fault.luck < 0.7:
        fault.host.crash_elector()
    else:
        now, luck = world.now, (fault.luck - 0.7) / 0.3
        ahead = Ahead("elector dies while it holds", now, now + 4 * world.lease, once=True, luck=luck)
        fault.host.ahead["holding"].append(ahead)


def stop_elector(_: Schedule, fault: Fault) -> None:
    fault.host.pause(fault.of(0.5, 5, 30) * fault.luck)


def kill_supervisor(_: Schedule, fault: Fault) -> None:
    if isinstance(fault.host, Machine) and fault.host.up:
        fault.host.supervisor.die()


def stop_supervisor(world: Schedule, fault: Fault) -> None:
    """The elector notices after R, the kernel's timer at kill_at."""
    host = fault.host
    if isinstance(host, Machine) and host.up:
        host.supervisor.pause(fault.of(0.3, 2) * world.lease * fault.luck)
        life = host.life
        host.after(host.me.timing.renew_deadline, lambda: host.deserted(life))


def lose_extends(world: Schedule, fault: Fault) -> None:
    if isinstance(fault.host, Machine):
        fault.host.supervisor.deaf_until = world.now + world.lease * fault.luck


def slow_start(world: Schedule, fault: Fault) -> None:
    if isinstance(fault.host, Machine):
        fault.host.supervisor.slow = 1.2 * world.lease * fault.luck


def command_ends(_: Schedule, fault: Fault) -> None:
    if isinstance(fault.host, Machine):
        fault.host.supervisor.end(restart=fault.chance < 0.7)


def machine_dies(_: Schedule, fault: Fault) -> None:
    fault.host.crash()


def planned_stop(_: Schedule, fault: Fault) -> None:
    """The command winds down, seldom for long."""
    fault.host.stop(fault.of(0, 0, 0, 3, 3, 3, 40 if isinstance(fault.host, Machine) else 3) * fault.luck)


# --- clocks and networks


def wall_clock_set(_: Schedule, fault: Fault) -> None:
    """It decides nothing."""
    fault.host.skew += fault.of(-1, 1) * (0.5, 60, 1e5)[int(3 * fault.luck)]


def partition(world: Schedule, fault: Fault) -> None:
    fault.host.cut_off(2 * world.lease * fault.luck)


def outage(world: Schedule, fault: Fault) -> None:
    world.server.down = True

    def end() -> None:
        world.server.down = False

    world.after(world.lease * fault.luck, end)


# --- an operator edits an object


NOBODY = "nobody"  # is a candidate


def now(world: Schedule) -> int:
    """So that no record by hand is the very one that somebody saw long ago."""
    return WALL + round(world.now * SECOND)


def label(_: Schedule, fault: Fault) -> None:
    kept = fault.kept
    if kept.stored:
        kept.edit(label=kept.stored.label + 1)


def seen_by_all(world: Schedule, kept: Kept) -> bool:
    """Whether every running candidate is a kleader that has seen it held, so that an operator may edit it."""
    least = max(
        kept.stored.record.duration if kept.stored else 0,
        world.running.me.timing.lease_duration if world.running else 0,  # an edit may have hidden it
    )
    return all(
        isinstance(each, Machine) and (not each.up or each.saw.get(kept.name, -1) >= least)
        for each in world.hosts
        if kept in each.kept
    )


def delete(world: Schedule, fault: Fault) -> None:
    """Promised among kleaders that have seen the lock, held for as long: one that has not would create it at once."""
    kept = fault.kept
    if kept.stored and seen_by_all(world, kept):
        world.log("deleted:", kept.name)
        kept.delete(world.now)


def recreate(world: Schedule, fault: Fault) -> None:
    """Deleted, and created by hand with a holder that does not exist, or without a record."""
    delete(world, fault)
    kept = fault.kept
    if kept.stored is None and kept.robbed_at == world.now:
        kept.create(Record(NOBODY, world.lease, renewed=now(world)) if fault.luck < 0.5 else Record())


def steal(world: Schedule, fault: Fault) -> None:
    """An edit to a holder that does not exist, the incarnation left where it was."""
    kept = fault.kept
    if kept.stored:
        was = kept.stored.record
        kept.edit(record=replace(was, holder=NOBODY, duration=world.lease, renewed=was.renewed or now(world)), fault="")


def garble(world: Schedule, fault: Fault) -> None:
    """An edit that no candidate can read, and that is repaired when a leader must have noticed."""
    kept, malformed, repaired = fault.kept, f"garbled at {world.now}", world.now + 1.2 * world.lease
    kept.edit(record=Record(), fault=malformed)

    def repair() -> None:
        if kept.stored and kept.stored.fault == malformed:
            kept.edit(record=Record("", 1), incarnation="", fault="")

    world.at(repaired, repair)
    world.hindered_until = max(world.hindered_until, repaired)


#: The more often it is here, the likelier it is.
FAULTS: tuple[Callable[[Schedule, Fault], None], ...] = (
    kill_elector,
    kill_elector,
    stop_elector,
    stop_elector,
    kill_supervisor,
    stop_supervisor,
    lose_extends,
    slow_start,
    command_ends,
    machine_dies,
    machine_dies,
    planned_stop,
    planned_stop,
    planned_stop,
    partition,
    partition,
    outage,
    wall_clock_set,
    label,
    delete,
    recreate,
    steal,
    garble,
)
