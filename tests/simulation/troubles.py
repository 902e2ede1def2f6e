"""What may befall a host, its command, the API server, or one of the objects that a lock is kept in."""

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


class Trouble(NamedTuple):
    """One thing that a schedule has planned. ``aimed``: it befalls whoever leads then, if anybody does."""

    when: float
    host: Host
    name: str
    what: Callable[[Schedule, Trouble], None]
    aimed: bool = False
    chance: float = 0.0  # in [0, 1), for what has to be drawn: of which kind
    luck: float = 0.0  # and how much
    awaits: bool = False  # something of its host from then on: it is laid ready before

    def befall(self, world: Schedule) -> None:
        """Now."""
        trouble = self._replace(host=world.running) if self.aimed and world.running else self
        self.what(world, trouble)

    def of(self, *choices: float) -> float:
        """One of these."""
        return choices[int(self.chance * len(choices))]

    @property
    def kept(self) -> Kept:
        """One of the objects that its host locks."""
        kept = self.host.kept
        return kept[int(self.chance * len(kept))]


def start(_: Schedule, trouble: Trouble) -> None:
    """A host begins."""
    trouble.host.start()


def at_once(what: Callable[[Schedule, Trouble], None]) -> Callable[[Schedule, Trouble], None]:
    """What befalls a host there and then."""

    def befall(world: Schedule, trouble: Trouble) -> None:
        world.befalls(trouble.host, trouble.name)
        what(world, trouble)

    return befall


def await_next(kind: str) -> Callable[[Schedule, Trouble], None]:
    """What befalls the host's next request, watch event or step; now and then all requests or events for a while.

    Also the next write of one who does not lead ("take"), and the next start: what comes close after is seldom else.
    """

    def prepare(world: Schedule, trouble: Trouble) -> None:
        once = kind not in {"request", "event"} or trouble.chance < 0.7
        long = kind in {"take", "start"} or not once
        until = trouble.when + (2 * world.lease * trouble.luck if long else 1)
        trouble.host.ahead[kind].append(Ahead(trouble.name, trouble.when, until, once, trouble.luck))

    return prepare


# --- processes


def kill_elector(world: Schedule, trouble: Trouble) -> None:
    """Now; or when it has the lock, and waits before it leads, for which it would have to be a lucky shot."""
    if trouble.luck < 0.7:
        trouble.host.crash_elector()
    else:
        now, luck = world.now, (trouble.luck - 0.7) / 0.3
        ahead = Ahead("elector dies while it holds", now, now + 4 * world.lease, once=True, luck=luck)
        trouble.host.ahead["holding"].append(ahead)


def stop_elector(_: Schedule, trouble: Trouble) -> None:
    trouble.host.pause(trouble.of(0.5, 5, 30) * trouble.luck)


def kill_supervisor(_: Schedule, trouble: Trouble) -> None:
    if isinstance(trouble.host, Machine) and trouble.host.up:
        trouble.host.supervisor.die()


def stop_supervisor(world: Schedule, trouble: Trouble) -> None:
    """The elector notices after R, the kernel's timer at kill_at."""
    host = trouble.host
    if isinstance(host, Machine) and host.up:
        host.supervisor.pause(trouble.of(0.3, 2) * world.lease * trouble.luck)
        life = host.life
        host.after(host.me.timing.renew_deadline, lambda: host.deserted(life))


def lose_extends(world: Schedule, trouble: Trouble) -> None:
    if isinstance(trouble.host, Machine):
        trouble.host.supervisor.deaf_until = world.now + world.lease * trouble.luck


def slow_start(world: Schedule, trouble: Trouble) -> None:
    if isinstance(trouble.host, Machine):
        trouble.host.supervisor.slow = 1.2 * world.lease * trouble.luck


def command_ends(_: Schedule, trouble: Trouble) -> None:
    if isinstance(trouble.host, Machine):
        trouble.host.supervisor.end(restart=trouble.chance < 0.7)


def machine_dies(_: Schedule, trouble: Trouble) -> None:
    trouble.host.crash()


def planned_stop(_: Schedule, trouble: Trouble) -> None:
    """The command winds down, seldom for long."""
    trouble.host.stop(trouble.of(0, 0, 0, 3, 3, 3, 40 if isinstance(trouble.host, Machine) else 3) * trouble.luck)


# --- clocks and roads


def wall_clock_set(_: Schedule, trouble: Trouble) -> None:
    """It decides nothing."""
    trouble.host.skew += trouble.of(-1, 1) * (0.5, 60, 1e5)[int(3 * trouble.luck)]


def partition(world: Schedule, trouble: Trouble) -> None:
    trouble.host.cut_off(2 * world.lease * trouble.luck)


def outage(world: Schedule, trouble: Trouble) -> None:
    world.server.down = True

    def end() -> None:
        world.server.down = False

    world.after(world.lease * trouble.luck, end)


# --- hands on an object


NOBODY = "nobody"  # is a candidate


def now(world: Schedule) -> int:
    """So that no record by hand is the very one that somebody saw long ago."""
    return WALL + round(world.now * SECOND)


def label(_: Schedule, trouble: Trouble) -> None:
    kept = trouble.kept
    if kept.stored:
        kept.edit(label=kept.stored.label + 1)


def seen_by_all(world: Schedule, kept: Kept) -> bool:
    """Whether whoever is up is a kleader that has seen it held, for as long as it is: hands may take it away."""
    least = max(
        kept.stored.record.duration if kept.stored else 0,
        world.running.me.timing.lease_duration if world.running else 0,  # hands may have hidden it
    )
    return all(
        isinstance(each, Machine) and (not each.up or each.saw.get(kept.name, -1) >= least)
        for each in world.hosts
        if kept in each.kept
    )


def delete(world: Schedule, trouble: Trouble) -> None:
    """Promised among kleaders that have seen the lock, held for as long: one that has not would create it at once."""
    kept = trouble.kept
    if kept.stored and seen_by_all(world, kept):
        world.log("deleted:", kept.name)
        kept.delete(world.now)


def recreate(world: Schedule, trouble: Trouble) -> None:
    """Deleted, and created by hand with a holder that does not exist, or without a record."""
    delete(world, trouble)
    kept = trouble.kept
    if kept.stored is None and kept.robbed_at == world.now:
        kept.create(Record(NOBODY, world.lease, renewed=now(world)) if trouble.luck < 0.5 else Record())


def steal(world: Schedule, trouble: Trouble) -> None:
    """An edit to a holder that does not exist, the incarnation left where it was."""
    kept = trouble.kept
    if kept.stored:
        was = kept.stored.record
        kept.edit(record=replace(was, holder=NOBODY, duration=world.lease, renewed=was.renewed or now(world)), fault="")


def garble(world: Schedule, trouble: Trouble) -> None:
    """An edit that no one can read, and that is mended when a leader must have noticed."""
    kept, fault, mended = trouble.kept, f"garbled at {world.now}", world.now + 1.2 * world.lease
    kept.edit(record=Record(), fault=fault)

    def mend() -> None:
        if kept.stored and kept.stored.fault == fault:
            kept.edit(record=Record("", 1), incarnation="", fault="")

    world.at(mended, mend)
    world.hindered_until = max(world.hindered_until, mended)


#: The more often it is here, the likelier it is.
MISFORTUNES: tuple[Callable[[Schedule, Trouble], None], ...] = (
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
