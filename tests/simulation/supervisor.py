"""The supervisor of one machine, its command and the tree of that, reduced to what they promise.

A command runs from an Acquired, if its exec barrier opens before stop_at, until it is killed: at once when the lock was
lost to somebody else, else K after kill_at by this machine's own clock at the latest, even where the supervisor is
stopped or dead: the kernel's timer and the elector see to that. When it is dead, and not before, the elector is told.

K is enough for two guards one after the other, the first of which is stopped in the middle of its sweep: a sweep takes
three eighths of it at most, and a quarter goes by until the kernel notices.

A standby runs while there is no command, and is dead before one starts. It may run beside the leader of another
machine: where it does not die the lock is given up all the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from math import inf
from typing import TYPE_CHECKING

from kleader.election import events as e

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.simulation.machine import Machine

KILLS_FOR, NOTICED_AFTER = 3 / 8, 1 / 4  # of K; kleader.supervisor.deadline has the second
_UNDYING = 0.05  # how many standbys do not die when they should


@dataclass
class Command:
    """One term's. Instants are on the machine's clock."""

    lead: e.Acquired
    stop_at: float
    kill_at: float
    alive: bool = False  # it, or something that it has started
    dies_at: float = inf  # once set it is never put off
    lost: bool = False
    restarts: bool = False  # it ended by itself, and is to start once more
    asked: bool = False  # a person wants its end
    to: str = ""  # and this one to lead next


class Supervisor:
    """``command`` is what it minds."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.command: Command | None = None
        self.ending = False  # nothing runs, and nothing will: the elector is to release
        self.owed: Command | None = None  # whose run another elector records, should this one die
        self.rests = inf  # seconds from the elector's end to the next candidacy; inf: kleader ends
        self.stopped = False
        self._stopped_at = 0.0
        self.deaf_until = 0.0  # to renewals
        self.slow = 0.0  # seconds that its next start takes
        self._missed: list[Callable[[], None]] = []  # while stopped
        self.warm = False  # its standby is alive
        if machine.warm:
            machine.after(1, self._warm_up)

    def receive(self, said: e.Acquired | e.Renewed | e.Lost | e.StepDown) -> None:
        """What the elector says."""
        if self.stopped:
            self._missed.append(partial(self.receive, said))
            return
        command = self.command
        if self.ending:
            return
        if isinstance(said, e.Acquired):
            assert command is None, "a second command for one term"
            self.command = Command(said, said.stop_at, said.kill_at)
            if self.warm:
                self._give_way(self.command)
            else:
                self._begin(self.command, self.slow)
            self._mind(self.command)
        elif command is None or command.lost:
            return
        elif isinstance(said, e.Lost):
            self._lose(command, kill_now=said.kill_now)
        elif isinstance(said, e.StepDown):
            if command.dies_at == inf:
                command.asked, command.to = said.asked, said.to
            self.stop(3 * self.machine.fortune.random())
        elif self.machine.world.now >= self.deaf_until:
            command.stop_at = max(command.stop_at, said.stop_at)
            command.kill_at = max(command.kill_at, said.kill_at)

    # --- the standby

    def _warm_up(self) -> None:
        self.warm = self.warm or (self.command is None and not self.stopped)
        if self.machine.supervisor is self:
            self.machine.after(self.machine.me.timing.lease_duration, self._warm_up)

    def _give_way(self, command: Command) -> None:
        """The grace of a loss, then SIGKILL; now and then it does not die of that."""
        timing, fortune = self.machine.me.timing, self.machine.fortune
        if fortune.random() < _UNDYING:
            self.machine.after(timing.renew_deadline, partial(self._block, command))
        else:
            self.machine.after(timing.grace * fortune.random(), partial(self._cool, command))

    def _cool(self, command: Command) -> None:
        if self.command is command:
            self.warm = False
            self._begin(command, self.slow)

    def _block(self, command: Command) -> None:
        if self.stopped:
            self._missed.append(partial(self._block, command))
        elif self.command is command and not command.lost and command.dies_at == inf:
            self.command = None
            self.machine.emptied(command)

    # --- the command

    def _begin(self, command: Command, delay: float) -> None:
        self.slow = 0.0
        self.machine.after(delay, partial(self._start, command))

    def _start(self, command: Command) -> None:
        """The start gate: the forked child reads the clock once more."""
        if self.stopped:
            self._missed.append(partial(self._start, command))
        elif self.command is command and not command.lost and command.dies_at == inf:
            assert not self.warm, "a command starts beside the standby of its own kleader"
            if self.machine.boot < command.stop_at:
                command.alive = True
                self.machine.started(command.lead.token)
            else:
                self._lose(command, kill_now=True)

    def stop(self, seconds: float) -> None:
        """TERM: the command winds down for so long, the lock is renewed meanwhile."""
        if self.command:
            self._doom(self.command, self.machine.boot + seconds)

    def end(self, *, restart: bool) -> None:
        """The command ends by itself, what it leaves behind is swept."""
        if (command := self.command) and command.alive and command.dies_at == inf:
            command.restarts = restart
            self.stop(self._until_reaped())

    def _until_reaped(self) -> float:
        return self.machine.me.timing.kill * KILLS_FOR * self.machine.fortune.random()

    def _lose(self, command: Command, *, kill_now: bool) -> None:
        """The stop signal, and SIGKILL at kill_at; or SIGKILL now. A sweep takes its time."""
        now, fortune = self.machine.boot, self.machine.fortune
        command.lost = True
        last = command.kill_at + self._until_reaped()
        soon = now + self._until_reaped() if command.alive else now
        self._doom(command, soon if kill_now else fortune.choice((last, fortune.uniform(now, last))))

    def _doom(self, command: Command, dies_at: float) -> None:
        now = self.machine.boot
        if dies_at < command.dies_at:
            command.dies_at = max(dies_at, now)
            self.machine.after(command.dies_at - now, partial(self._mind, command))

    def _mind(self, command: Command) -> None:
        """The dead-man's timer: needs nobody's help."""
        now = self.machine.boot
        if self.command is not command:
            return
        if self.stopped:
            noticed = max(command.kill_at, self._stopped_at) + self.machine.me.timing.kill * NOTICED_AFTER
            if now >= noticed:
                self.die()
            else:
                self.machine.after(max(1e-6, noticed - now), partial(self._mind, command))
            return
        if now >= command.dies_at:
            self._emptied(command)
            return
        if now >= command.stop_at and not command.lost:
            self._lose(command, kill_now=False)
        due = min(command.dies_at, inf if command.lost else command.stop_at)
        self.machine.after(max(1e-6, due - now), partial(self._mind, command))

    def _emptied(self, command: Command) -> None:
        self.warm = False  # the sweep takes it with the rest
        self._gone(command)
        if command.restarts and not command.lost:
            command.restarts, command.dies_at = False, inf
            self._begin(command, self.machine.fortune.random())
            self._mind(command)
        else:
            self.command = None
            self.machine.emptied(command)

    def _gone(self, command: Command) -> None:
        if command.alive:
            command.alive = False
            self.machine.world.ended(self.machine)

    # --- its faults

    def pause(self, seconds: float) -> None:
        """SIGSTOP and SIGCONT."""
        if not self.stopped:
            self.stopped, self._stopped_at = True, self.machine.boot
            if self.command:
                self._mind(self.command)
            self.machine.world.after(seconds, partial(self.go_on, self))

    def go_on(self, which: Supervisor) -> None:
        """SIGCONT, if it is still for this one."""
        if which is self.machine.supervisor and self.stopped:
            self.stopped, missed, self._missed = False, self._missed, []
            for each in missed:
                each()
            if self.command:
                self._mind(self.command)

    def hasten(self) -> None:
        """Nothing takes longer than it has to any more."""
        self.deaf_until = self.slow = 0.0
        if self.command and self.command.dies_at < inf:
            self._doom(self.command, self.machine.boot + self._until_reaped())

    def die(self) -> None:
        """SIGKILL. The command dies by PDEATHSIG, its descendants by the elector's sweep; nothing is released."""
        command, self.command = self.command, None
        sweeps = self.machine.state is not None and not self.machine.paused
        if command and command.alive:
            self.machine.after(self._until_reaped() if sweeps else 0.0, partial(self._gone, command))
        self.machine.over()

    def vanish(self) -> None:
        """The machine dies."""
        command, self.command = self.command, None
        if command:
            self._gone(command)
