"""The tree killer kills every process of the tree: ones that it cannot see, may not kill, or has to wait for."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING, Any, cast

import pytest

from kleader import system
from kleader.procs import cgroup
from kleader.procs.bystanders import Bystanders
from kleader.procs.tree_killer import LOG_EVERY, ProcessTree, TreeKiller
from kleader.supervisor.child_process import ChildProcess
from kleader.supervisor.deadline import Deadline
from kleader.system import Process

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator
    from pathlib import Path

    from kleader.backoff import Backoff
    from kleader.log import Log
    from kleader.system import KillTimer

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
        self.traced: set[int] = set()  # by another process: they cannot be reaped
        self.groups: dict[int, int] = {}
        self.killed_groups: list[int] = []
        self.lists = 0  # of our own children
        self.pace = 0.0  # seconds that it takes to kill one
        self.looks = 0  # at the whole tree
        self.short = False  # of descriptors
        self.said: list[str] = []
        self.tree = tree = ProcessTree()
        tree.own_pids = {ELECTOR}
        self.armed: list[float] = []
        self.deadline = Deadline(cast("KillTimer", self), 0.5)
        self.sweep = TreeKiller(tree, self.deadline, cast("Log", self))

    def arm(self, at: float) -> None:
        self.armed.append(at - self.now)

    def error(self, message: str, **_: str) -> None:
        self.said.append(message)

    repeated = error

    def sigkill(self, target: Process) -> bool:
        try:
            self.kill(target.pid, 9)
        except PermissionError:
            return False
        return True

    def killpg(self, group: int, _signum: int) -> None:
        self.killed_groups.append(group)

    def kill(self, pid: int, _signum: int) -> None:
        if pid == -1:
            self.killed_groups.append(-1)
            return
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
        return self.sweep.poll(self.now), self.killed

    def _want_descriptor(self) -> None:
        if self.short:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    made = Machine()
    for name in ("children", "below"):
        monkeypatch.setattr(system, name, getattr(made, name))
    monkeypatch.setattr(system, "clock", lambda: made.now)
    monkeypatch.setattr(system, "kill", lambda target, signum: made.kill(target.pid, signum))
    monkeypatch.setattr(system, "sigkill", made.sigkill)
    monkeypatch.setattr(system, "dead_for_good", lambda pid: pid in made.traced and pid in made.dead)
    monkeypatch.setattr(system, "name_of", lambda pid: f"p{pid}")
    monkeypatch.setattr(os, "kill", made.kill)
    monkeypatch.setattr(os, "killpg", made.killpg)
    monkeypatch.setattr(os, "getpgid", lambda pid: made.groups.get(pid, 0))
    monkeypatch.setattr(os, "getpid", lambda: ME)
    return made


def test_children_are_killed_without_reading_proc_for_each(machine: Machine) -> None:
    machine.parents |= {1: ME, 2: ME}
    machine.sweep.begin(0)
    assert machine.killed == [1, 2]
    assert machine.looks == 0


def test_proc_is_not_scanned_while_killed_children_die(machine: Machine) -> None:
    """A look after each of a thousand deaths would keep the others from dying."""
    machine.parents |= {1: ME, 2: ME}
    machine.sweep.begin(0)
    machine.reap(1)
    assert machine.turn(0.001) == (False, [])
    assert (machine.lists, machine.looks) == (1, 0)
    machine.reap(2)
    assert machine.turn() == (True, [])


def test_an_orphan_that_is_reparented_to_the_supervisor_is_killed_at_once(machine: Machine) -> None:
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
def test_descendants_of_a_process_that_does_not_die_are_killed(machine: Machine, why: str) -> None:
    machine.parents |= {1: ME, 2: 1, 3: 2}
    getattr(machine, why).add(1)
    machine.sweep.begin(0)
    done, killed = machine.turn(0.1)
    assert not done
    assert {2, 3} <= set(killed)


def test_processes_that_do_not_die_are_logged_every_10_s(machine: Machine) -> None:
    machine.parents |= {1: ME, 2: ME}
    machine.proof.add(1)
    machine.sweep.begin(0)
    machine.reap(2)
    machine.turn(LOG_EVERY - 0.1)
    assert machine.said == []
    machine.turn(0.1)
    assert machine.said == ["processes 1 (p1) do not die: the lock is not released while they live"]
    machine.turn(LOG_EVERY - 0.1)
    machine.turn(0.1)
    assert len(machine.said) == 2


def test_processes_that_may_not_be_killed_are_logged_by_name_and_tried_again(machine: Machine) -> None:
    """It may become this user's own again."""
    machine.parents |= {1: ME, 2: ME, 3: 1}
    machine.foreign |= {1, 3}
    machine.sweep.begin(0)
    machine.reap(2)
    machine.turn(LOG_EVERY)
    assert machine.said == [
        "processes 1 (p1) 3 (p3) may not be killed by this user: the lock is not released while they live"
    ]
    machine.foreign.clear()
    assert set(machine.turn(0.1)[1]) == {1, 3}


def test_a_tree_that_cannot_be_scanned_is_not_proven_empty(machine: Machine) -> None:
    machine.parents |= {1: ME}
    machine.sweep.begin(0)
    machine.reap(1)
    machine.short = True
    assert machine.turn(0.1) == (False, [])
    assert machine.said == ["cannot look for the command's processes: Too many open files"]
    machine.short = False
    assert machine.turn(0.1) == (True, [])


def test_a_supervisor_that_kills_puts_the_kernels_timer_off(machine: Machine) -> None:
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


def test_the_elector_is_not_killed_with_the_tree(machine: Machine) -> None:
    machine.parents |= {1: ELECTOR}
    machine.sweep.begin(0)
    assert machine.turn(0.1) == (True, [])
    assert machine.killed == []


def test_the_process_group_of_a_group_leader_is_killed_at_once(machine: Machine) -> None:
    """A fork bomb is faster than one that kills pid by pid. Once for all of a group, and each by itself besides."""
    machine.parents |= {11: ME, 12: ME, 13: ME}
    machine.groups = {11: 11, 12: 11, 13: 13}
    machine.sweep.begin(0)
    assert machine.killed_groups == [11, 13]
    assert machine.killed == [11, 12, 13]


def test_the_commands_process_group_is_killed_after_its_leader_was_reaped(machine: Machine) -> None:
    """Its leader has ended and is reaped. A child in the group keeps the number from being reused."""
    machine.parents |= {12: ME}
    machine.groups = {12: 11}
    machine.tree.group = 11
    machine.sweep.begin(0)
    assert machine.killed_groups == [11]


def test_a_child_whose_process_group_is_unreadable_is_killed(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """SELinux has a permission for that alone."""

    def getpgid(_pid: int) -> int:
        raise PermissionError

    machine.parents[11] = ME
    monkeypatch.setattr(os, "getpgid", getpgid)
    machine.sweep.begin(0)
    assert machine.killed == [11]


@pytest.mark.parametrize("group", [0, 1, 7])
def test_a_process_group_that_may_have_other_members_is_not_killed(machine: Machine, group: int) -> None:
    """As kleader's own in `kleader run … | less`; and to kill(2) 0 is its own group, 1 every process."""
    machine.parents |= {12: ME}
    machine.groups = {12: group}
    machine.sweep.begin(0)
    assert machine.killed_groups == []
    assert machine.killed == [12]


def bomb(machine: Machine) -> None:
    """Past kill_at, and more of it comes than was killed."""
    machine.parents |= {11: os.getpid()}
    machine.proof.add(11)
    machine.deadline.begin(0, 0, 0)
    machine.now = 1
    machine.sweep.begin(machine.now)
    machine.turn(0.01)
    assert machine.killed_groups == [], "an ordinary tree gets the time to die"


def test_past_kill_at_pid_1_kills_every_process_of_its_namespace(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "getpid", lambda: 1)
    monkeypatch.setattr(system, "children", lambda _but: [11])
    bomb(machine)
    machine.turn(0.1)
    assert machine.killed_groups == [-1]
    assert machine.sweep.killed_all


def test_before_kill_at_pid_1_kills_only_the_command(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """As long as the lease is renewed there is time, and the elector is needed."""
    monkeypatch.setattr(os, "getpid", lambda: 1)
    monkeypatch.setattr(system, "children", lambda _but: [11])
    bomb(machine)
    machine.deadline.begin(100, 100, 1)
    machine.turn(5)
    assert machine.killed_groups == []


@pytest.fixture
def alone_in(machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cgroup that kleader was started alone in, and is in still."""
    monkeypatch.setattr(cgroup, "_PROC", str(tmp_path))
    (tmp_path / "self").mkdir()
    (tmp_path / "self/cgroup").write_text("0::/a\n")
    (tmp_path / "cgroup.procs").write_text(f"{ME}\n11\n")
    machine.tree.cgroup = str(tmp_path)
    return tmp_path / "cgroup.kill"


def test_past_kill_at_kleader_kills_the_cgroup_that_it_was_started_alone_in(machine: Machine, alone_in: Path) -> None:
    bomb(machine)
    assert not alone_in.exists()
    machine.turn(0.1)
    assert alone_in.read_text() == "1"
    assert machine.sweep.killed_all


def test_the_cgroup_is_not_killed_while_a_process_of_the_command_is_outside_it(
    machine: Machine, alone_in: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is in another cgroup. It is looked for once in a round, and each is awake that kills."""
    asked: list[list[int]] = []
    monkeypatch.setattr(cgroup, "kill_all", lambda _place, pids: asked.append([*pids]))
    bomb(machine)
    machine.parents |= {12: 11, 13: 11}
    machine.proof |= {12, 13}
    machine.dead.add(13)
    assert machine.turn(0.1) == (False, [11, 12])
    assert asked == [[11, 12]]
    assert not alone_in.exists()
    assert not machine.sweep.killed_all


def test_before_kill_at_the_cgroup_is_not_killed(machine: Machine, alone_in: Path) -> None:
    bomb(machine)
    machine.deadline.begin(100, 100, 1)
    machine.turn(5)
    assert not alone_in.exists()


@pytest.mark.parametrize("why", ["beside a bystander", "moved to another"])
def test_a_cgroup_that_may_have_other_members_is_not_killed(
    machine: Machine, alone_in: Path, monkeypatch: pytest.MonkeyPatch, why: str
) -> None:
    if why == "beside a bystander":
        monkeypatch.setattr(Bystanders, "any_from_start", True)
    else:
        alone_in.with_name("cgroup.procs").write_text("7\n")
    bomb(machine)
    machine.turn(5)
    assert not alone_in.exists()
    assert not machine.sweep.killed_all


@pytest.mark.parametrize("why", ["not PID 1", "beside a bystander"])
def test_only_pid_1_without_bystanders_kills_every_process_at_once(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, why: str
) -> None:
    if why == "beside a bystander":
        monkeypatch.setattr(os, "getpid", lambda: 1)
        monkeypatch.setattr(system, "children", lambda _but: [11])
        monkeypatch.setattr(Bystanders, "any_from_start", True)
    bomb(machine)
    machine.turn(5)
    machine.turn(5)
    assert machine.killed_groups == []
    assert not machine.sweep.killed_all


def test_a_traced_zombie_counts_as_dead_and_delays_no_release(machine: Machine) -> None:
    """It cannot be reaped before its tracer lets it go."""
    machine.parents |= {11: ME, 12: 11}
    machine.traced.add(11)
    machine.sweep.begin(0)
    assert machine.turn() == (False, []), "it may be reaped in a moment, as any other"
    machine.parents[12] = ME  # what it has left comes to us as it ends
    assert machine.turn(0.1)[0] is False
    machine.reap(12)
    assert machine.turn(0.2)[0] is True


def test_an_orphan_of_a_traced_zombie_is_found(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """It comes to us as its parent ends: perhaps after our children were listed, and before that one was looked at."""
    machine.parents |= {11: ME, 12: 11}
    machine.traced.add(11)
    machine.sweep.begin(0)

    def dies_now(pid: int) -> bool:
        machine.parents[12] = ME
        return pid in machine.traced

    monkeypatch.setattr(system, "dead_for_good", dies_now)
    assert machine.turn(0.1)[0] is False


def test_a_process_older_than_kleader_is_not_killed(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """From then on its pid may be one of the command's."""
    machine.parents |= {5: ME, 6: 5, 11: ME}
    monkeypatch.setattr(Bystanders, "living", lambda _self: {5: 1})
    machine.sweep.begin(0)
    assert machine.killed == [11]
    machine.reap(11)
    assert machine.turn(0.1) == (True, [])
    monkeypatch.setattr(Bystanders, "living", lambda *_: {})
    assert machine.tree.children() == [5]


def test_a_process_of_the_command_with_the_pid_of_a_reaped_elector_is_killed(machine: Machine) -> None:
    machine.tree.own_pids.clear()
    elector = ChildProcess(machine.tree, lambda *_: None, cast("Backoff", None))
    elector.start(0, lambda: (ELECTOR, cast("Any", None)))
    assert machine.tree.children() == []
    elector.reaped(0, 1)
    assert machine.tree.children() == [ELECTOR]


def test_ended_bystanders_wake_no_process() -> None:
    """Or the supervisor would be awake all the time from then on, before all others on this processor."""
    bystanders = Bystanders({2**22 + 1: 1})  # no pid is as great
    bystanders.scan(1)
    bystanders.scan(2)
    assert bystanders.scan_at == float("inf")


def test_a_process_older_than_kleader_is_not_logged_or_stopped(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also before the first scan of the killer."""
    machine.parents |= {5: ME, 6: 5, 11: ME}
    monkeypatch.setattr(Bystanders, "living", lambda _self: {5: 1})
    assert [each.pid for each in machine.tree.below()] == [11]
    machine.tree.signal(15)
    assert machine.killed == [11]
