"""The sweep kills whoever is there, whatever it may not see, may not kill, or has to wait for."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING, cast

import pytest

from kleader import platform
from kleader.platform import Process
from kleader.supervisor.deadline import Deadline
from kleader.supervisor.tree import TELL_EVERY, Sweep, Tree

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from kleader.log import Log
    from kleader.platform import KillTimer

ME = 1000
ELECTOR = 9


class Machine:
    """A process table on a clock that stands still until it is moved; who is killed waits to be reaped."""

    def __init__(self) -> None:
        self.now = 0.0
        self.parents: dict[int, int] = {ELECTOR: ME}
        self.dead: set[int] = set()
        self.killed: list[int] = []
        self.proof: set[int] = set()  # in an uninterruptible sleep
        self.foreign: set[int] = set()  # another user's
        self.lists = 0  # of our own children
        self.pace = 0.0  # seconds that it takes to kill one
        self.looks = 0  # at the whole tree
        self.short = False  # of descriptors
        self.said: list[str] = []
        tree = Tree()
        tree.spared = {ELECTOR}
        self.armed: list[float] = []
        self.deadline = Deadline(cast("KillTimer", self), 0.5)
        self.sweep = Sweep(tree, self.deadline, cast("Log", self))

    def arm(self, at: float) -> None:
        self.armed.append(at - self.now)

    def error(self, message: str) -> None:
        self.said.append(message)

    repeated = error

    def kill(self, pid: int, _signum: int) -> None:
        if pid in self.foreign:
            raise PermissionError
        self.killed.append(pid)
        self.now += self.pace
        if pid not in self.proof:
            self.dead.add(pid)

    def children(self, but: Collection[int]) -> list[int]:
        self._want_descriptor()
        self.lists += 1
        return [pid for pid, parent in self.parents.items() if parent == ME and pid not in but]

    def below(self, root: int, but: Collection[int]) -> Iterator[Process]:
        self._want_descriptor()
        self.looks += 1
        parents = [root]
        for parent in parents:
            for pid in [pid for pid, of in self.parents.items() if of == parent and pid not in but]:
                parents.append(pid)
                yield Process(pid, parent, 0, "Z" if pid in self.dead else "S", 1, 0)

    def reap(self, *pids: int) -> None:
        """These end, and their children come to us."""
        for pid in pids:
            assert pid in self.dead
            del self.parents[pid]
            self.parents |= {child: ME for child, parent in self.parents.items() if parent == pid}
            self.sweep.reaped(pid)

    def turn(self, after: float = 0.0) -> tuple[bool, list[int]]:
        """Whether the sweep is done so long after, and whom it has killed meanwhile."""
        self.now += after
        self.killed = []
        return self.sweep.done(self.now), self.killed

    def _want_descriptor(self) -> None:
        if self.short:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    made = Machine()
    for name in ("children", "below"):
        monkeypatch.setattr(platform, name, getattr(made, name))
    monkeypatch.setattr(platform, "clock", lambda: made.now)
    monkeypatch.setattr(platform, "kill", lambda target, signum: made.kill(target.pid, signum))
    monkeypatch.setattr(os, "kill", made.kill)
    monkeypatch.setattr(os, "getpid", lambda: ME)
    return made


def test_our_own_children_are_killed_without_a_look_at_any(machine: Machine) -> None:
    machine.parents |= {1: ME, 2: ME}
    machine.sweep.begin(0)
    assert machine.killed == [1, 2]
    assert machine.looks == 0


def test_nobody_is_looked_for_while_they_die(machine: Machine) -> None:
    """A look after each of a thousand deaths would keep the others from dying."""
    machine.parents |= {1: ME, 2: ME}
    machine.sweep.begin(0)
    machine.reap(1)
    assert machine.turn(0.001) == (False, [])
    assert (machine.lists, machine.looks) == (1, 0)
    machine.reap(2)
    assert machine.turn() == (True, [])


def test_who_comes_to_us_by_a_death_is_killed_at_once(machine: Machine) -> None:
    machine.parents |= {1: ME, 2: 1, 3: 2}
    machine.sweep.begin(0)
    machine.reap(1)
    assert machine.turn() == (False, [2])
    machine.reap(2)
    assert machine.turn() == (False, [3])
    machine.reap(3)
    assert machine.turn() == (True, [])
    assert machine.looks == 0


@pytest.mark.parametrize("why", ["proof", "foreign"])
def test_who_is_below_a_process_that_will_not_die_is_killed_all_the_same(machine: Machine, why: str) -> None:
    machine.parents |= {1: ME, 2: 1, 3: 2}
    getattr(machine, why).add(1)
    machine.sweep.begin(0)
    done, killed = machine.turn(0.1)
    assert not done
    assert {2, 3} <= set(killed)


def test_who_will_not_die_is_told_of_every_10_s(machine: Machine) -> None:
    machine.parents |= {1: ME, 2: ME}
    machine.proof.add(1)
    machine.sweep.begin(0)
    machine.reap(2)
    machine.turn(TELL_EVERY - 0.1)
    assert machine.said == []
    machine.turn(0.1)
    assert machine.said == ["processes 1 do not die: the lock is not released while they live"]
    machine.turn(TELL_EVERY - 0.1)
    machine.turn(0.1)
    assert len(machine.said) == 2


def test_who_may_not_be_killed_is_told_of_by_name_and_tried_again(machine: Machine) -> None:
    """It may become this user's own again."""
    machine.parents |= {1: ME, 2: ME, 3: 1}
    machine.foreign |= {1, 3}
    machine.sweep.begin(0)
    machine.reap(2)
    machine.turn(TELL_EVERY)
    assert machine.said == ["processes 1 3 may not be killed by this user: the lock is not released while they live"]
    machine.foreign.clear()
    assert set(machine.turn(0.1)[1]) == {1, 3}


def test_who_cannot_be_looked_for_is_not_gone(machine: Machine) -> None:
    machine.parents |= {1: ME}
    machine.sweep.begin(0)
    machine.reap(1)
    machine.short = True
    assert machine.turn(0.1) == (False, [])
    assert machine.said == ["cannot look for the command's processes: Too many open files"]
    machine.short = False
    assert machine.turn(0.1) == (True, [])


def test_who_kills_does_not_count_as_asleep(machine: Machine) -> None:
    """Past kill_at the kernel's timer is put off before each kill, and the next round comes before it rings."""
    machine.parents |= dict.fromkeys(range(100, 200), ME)
    machine.proof |= set(machine.parents)
    machine.deadline.begin(0, 0, 0)
    machine.pace, machine.armed = 0.01, []
    machine.sweep.begin(0)
    assert machine.armed == pytest.approx([machine.deadline.margin] * 100)
    assert machine.sweep.next_at < machine.now + machine.deadline.margin
    machine.turn(machine.deadline.margin / 2)
    assert machine.armed == pytest.approx([machine.deadline.margin] * 300)
    assert machine.sweep.next_at < machine.now + machine.deadline.margin


def test_the_elector_is_spared_and_no_part_of_the_tree(machine: Machine) -> None:
    machine.parents |= {1: ELECTOR}
    machine.sweep.begin(0)
    assert machine.turn(0.1) == (True, [])
    assert machine.killed == []
