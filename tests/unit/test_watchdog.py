"""The elector as watchdog: when it asks the supervisor, which processes it kills, and which it never kills."""

from __future__ import annotations

import math
import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, cast

import pytest

from kleader import system
from kleader.elector.watchdog import Watchdog
from kleader.procs import cgroup, process_tracker
from kleader.procs.process_tracker import ProcessTracker
from kleader.supervisor.deadline import Deadline
from tests.support.processes import alive, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kleader.log import Log
    from tests.support.checker import Witness
    from tests.support.processes import Processes

KILL_AT, BUDGET = 100.0, 0.5
SOON, LONG = BUDGET / 10, BUDGET / 2  # how long an answer is waited for: to kill the tree, and the supervisor too


class Scene:
    """A watchdog on a clock that stands still until it is moved; what it does is written down in order."""

    def __init__(self) -> None:
        self.now = 0.0
        self.did: list[str] = []
        self.fails: Exception | None = None
        self.cleared = True
        self.said = ""
        self.dog = Watchdog(cast("ProcessTracker", self), cast("Log", self), BUDGET, lambda: self.did.append("ask"))
        self.dog.kill_at = KILL_AT

    def kill_below_supervisor(self, _seconds: float) -> bool:
        self.did.append("clear")
        if self.fails:
            raise self.fails
        return self.cleared

    def kill_as_last_resort(self, *, supervisor: bool) -> None:
        self.did.append("last resort, supervisor too" if supervisor else "last resort")

    def kill_cgroup(self) -> None:
        self.did.append("cgroup")

    def kill_supervisor(self) -> None:
        self.did.append("kill")

    def kill_once(self) -> int:
        self.did.append("sweep")
        return 0

    def repeated(self, message: str, **_: str) -> None:
        self.did.append("log")
        self.said = message

    def at(self, now: float) -> list[str]:
        self.now, self.did = now, []
        struck = self.dog.check()
        assert struck is ("clear" in self.did)
        return self.did


@pytest.fixture
def scene(monkeypatch: pytest.MonkeyPatch) -> Scene:
    monkeypatch.setattr(system, "clock", lambda: 0.0)
    found = Scene()
    monkeypatch.setattr(system, "clock", lambda: found.now)
    return found


def test_the_supervisor_is_not_asked_until_shortly_before_kill_at(scene: Scene) -> None:
    assert scene.dog.due == KILL_AT - SOON
    assert scene.at(KILL_AT - SOON - 0.001) == []


def test_a_supervisor_that_answers_is_left_to_kill_its_tree(scene: Scene) -> None:
    """However long the tree takes to die: only the supervisor can prove it empty."""
    for _ in range(20):
        assert scene.at(scene.dog.due) == ["ask"]
        scene.dog.answered()
    assert scene.now > KILL_AT


def test_the_tree_of_a_silent_supervisor_is_killed_before_anything_is_logged(scene: Scene) -> None:
    """While the supervisor is still the parent of all orphans. The log comes last: a disk that hangs delays no kill."""
    assert scene.at(KILL_AT - SOON) == ["ask"]
    assert scene.at(KILL_AT - SOON / 2) == []
    assert scene.at(KILL_AT) == ["clear", "log"]
    assert scene.at(KILL_AT + LONG / 2) == []
    for turn in range(1, 5):  # until it is gone, or answers
        assert scene.at(KILL_AT + turn * LONG) == ["clear", "kill", "sweep", "log"]
    scene.dog.answered()
    assert scene.at(KILL_AT + 5 * LONG) == ["ask"]


def test_a_kill_is_logged_only_when_it_is_proven(scene: Scene) -> None:
    scene.at(KILL_AT - SOON)
    scene.cleared = False
    scene.at(KILL_AT)
    assert scene.said == (
        "the supervisor missed its deadline: the elector kills the command, of which some processes are still alive"
    )
    scene.cleared = True
    scene.at(KILL_AT + LONG)
    assert scene.said == "the supervisor missed its deadline: the elector killed the command"


def test_processes_that_survive_a_round_are_killed_with_the_cgroup(scene: Scene) -> None:
    """Before the log, for a disk that hangs must delay no kill."""
    scene.at(KILL_AT - SOON)
    scene.cleared = False
    assert scene.at(KILL_AT) == ["clear", "cgroup", "log"]


@pytest.mark.parametrize("kill_at", [0, math.inf], ids=["past kill_at", "before"])
def test_the_tree_of_a_dead_supervisor_is_killed_with_its_cgroup_past_kill_at(
    monkeypatch: pytest.MonkeyPatch, kill_at: float
) -> None:
    """By then its processes die too slowly to be killed one by one. Nothing expires where there is no kill_at."""
    tracker = ProcessTracker(1, -1, "KLEADER_TERM_none", (), "/its/cgroup")
    me = system.myself()
    tracker.add(me.pid, me.start)
    tracker.add(1, -1)  # it has ended: another process has its pid
    attempts, killed = [False, True], list[object]()
    monkeypatch.setattr(process_tracker, "kill_until_none", lambda *_: attempts.pop(0))
    monkeypatch.setattr(cgroup, "kill_all", lambda *given: killed.append(given))
    assert tracker.kill_until_none(kill_at)
    assert killed == ([("/its/cgroup", [me.pid])] if kill_at == 0 else [])


def test_the_elector_kills_no_cgroup_that_has_a_process_older_than_kleader(
    processes: Processes, monkeypatch: pytest.MonkeyPatch
) -> None:
    helper = system.process(processes.start(["sleep", "600"]).pid)
    assert helper
    killed: list[object] = []
    monkeypatch.setattr(cgroup, "kill_all", lambda *given: killed.append(given))
    ProcessTracker(1, -1, "KLEADER_TERM_none", [[helper.pid, helper.start]], "/its/cgroup").kill_cgroup()
    assert killed == []


@pytest.mark.parametrize("error", [AttributeError, MemoryError, OSError])
def test_the_electors_last_resort_kills_when_its_killer_fails(scene: Scene, error: type[Exception]) -> None:
    """And kills the supervisor, by whose end the command dies, once that has not answered for long."""
    scene.at(KILL_AT - SOON)
    scene.fails = error()
    assert scene.at(KILL_AT) == ["clear", "last resort", "log"]
    assert "some processes are still alive" in scene.said
    assert scene.at(KILL_AT + LONG) == ["clear", "last resort, supervisor too", "log"]


@pytest.mark.parametrize("asleep", [KILL_AT + each * SOON for each in (-9, -1.1, -0.9, -0.1, 0.1, 0.9, 1.1, 9)])
def test_the_tree_of_a_sleeping_supervisor_is_killed_before_the_kernel_kills_the_supervisor(
    scene: Scene, asleep: float
) -> None:
    """Which is a moment after kill_at, or after it said last that it is sweeping."""
    while "clear" not in scene.did:
        scene.at(scene.dog.due)
        if scene.now < asleep:
            scene.dog.answered()
    assert scene.now < max(KILL_AT, asleep) + Deadline(None, BUDGET).margin


@pytest.mark.parametrize("told", [KILL_AT - 10, KILL_AT + 10])
def test_an_earlier_kill_at_of_the_supervisor_counts(scene: Scene, told: float) -> None:
    """A stopped one has not heard of the last renewals, and the kernel kills it when that one has passed."""
    scene.dog.supervisor_kill_at = told
    at = min(told, KILL_AT)
    assert scene.dog.due == at - SOON
    assert scene.at(at - SOON) == ["ask"]
    assert scene.at(at) == ["clear", "log"]


def test_a_supervisor_that_answers_may_report_a_later_kill_at(scene: Scene) -> None:
    scene.dog.supervisor_kill_at = KILL_AT - 10
    assert scene.at(KILL_AT - 10 - SOON) == ["ask"]
    scene.dog.answered()
    scene.dog.supervisor_kill_at = KILL_AT
    assert scene.at(KILL_AT - 10) == []
    assert scene.dog.due == KILL_AT - SOON


def test_a_message_sent_before_the_question_is_no_answer(scene: Scene) -> None:
    scene.now = KILL_AT - SOON - 0.001
    scene.dog.answered()
    assert scene.at(KILL_AT - SOON) == ["ask"]
    assert "clear" in scene.at(KILL_AT)


def test_a_renewal_moves_the_next_question_and_the_kill(scene: Scene) -> None:
    scene.at(KILL_AT)
    scene.dog.kill_at = KILL_AT + 10
    assert scene.at(KILL_AT + LONG) == []
    assert scene.dog.due == KILL_AT + 10 - SOON
    assert scene.at(KILL_AT + 10) == ["ask"], "it may have slept since, and be awake now"


def test_an_elector_that_woke_late_asks_before_it_kills(scene: Scene) -> None:
    assert scene.at(KILL_AT + 3600) == ["ask"]
    assert scene.at(KILL_AT + 3600 + SOON) == ["clear", "log"]


def test_a_term_that_must_end_now_is_asked_about_now(scene: Scene) -> None:
    """Another candidate may lead: kill_at moves to now, and never to a later instant."""
    scene.now = KILL_AT - 50
    scene.dog.kill_now()
    assert scene.did == ["ask"]
    assert scene.at(KILL_AT - 50 + SOON) == ["clear", "log"]
    scene.dog.kill_at = KILL_AT - 60
    scene.dog.kill_now()
    assert scene.dog.kill_at == KILL_AT - 60


def test_a_lock_that_does_not_expire_has_no_deadline(scene: Scene) -> None:
    """Nor what has ended."""
    scene.dog.supervisor_kill_at = KILL_AT
    scene.dog.disarm()
    assert scene.dog.due == math.inf
    assert scene.at(KILL_AT + 3600) == []
    scene.now = KILL_AT + 4000
    scene.dog.kill_now()
    assert scene.did == ["ask"]


@pytest.fixture
def family() -> Iterator[tuple[int, int]]:
    """A parent and its child, neither of which has to do with kleader."""
    with subprocess.Popen(["/bin/sh", "-c", "sleep 600 & echo $!; wait"], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout
        child = int(parent.stdout.readline())
        yield parent.pid, child
        for pid in (child, parent.pid):
            if found := system.process(pid):
                system.kill(found)


def test_a_process_with_the_supervisors_pid_and_another_start_is_not_the_supervisor(
    family: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An elector that starts late may find its supervisor dead and init as its parent: it kills no process of init."""
    parent, child = family
    found = system.process(parent)
    assert found
    tracker = ProcessTracker(parent, found.start + 1, "KLEADER_TERM_none")
    tracker.has_command = True
    tracker.scan()
    assert tracker.kill_once() == 0
    killed: list[int] = []
    monkeypatch.setattr(system, "kill", lambda target: killed.append(target.pid))
    tracker.kill_supervisor()
    assert not killed
    monkeypatch.undo()
    assert alive(parent)
    assert alive(child)


def test_a_child_of_the_supervisor_is_killed(family: tuple[int, int]) -> None:
    """The other way round, so that the test before means something."""
    parent, child = family
    found = system.process(parent)
    assert found
    tracker = ProcessTracker(parent, found.start, "KLEADER_TERM_none")
    tracker.has_command = True
    tracker.scan()
    assert tracker.kill_once() == 1
    wait_until(lambda: not alive(child), "the child is dead", 30)


def test_every_descendant_of_a_stopped_supervisor_is_killed(processes: Processes) -> None:
    """Also orphans, which the supervisor has adopted by then. The supervisor itself is not killed."""
    parent = processes.start([sys.executable, "-I", "-S", "-c", ADOPTS])
    wait_until(lambda: parent.out.count("\n") == 2, "both pids")
    os.kill(parent.pid, signal.SIGSTOP)
    found = system.process(parent.pid)
    assert found
    tracker = ProcessTracker(parent.pid, found.start, "KLEADER_TERM_none")
    tracker.kill_below_supervisor(60)
    child, grandchild = map(int, parent.out.split())
    assert alive(child)
    assert alive(grandchild), "no command was started"
    tracker.has_command = True
    tracker.kill_below_supervisor(60)
    assert not alive(child)
    assert not alive(grandchild)
    assert alive(parent.pid)


ADOPTS = """
import ctypes, os, signal
ctypes.CDLL(None).prctl(36, ctypes.c_ulong(1), 0, 0, 0)
if os.fork() == 0:
    if os.fork() == 0:
        os.setsid()
    print(os.getpid(), flush=True)
    while True:
        signal.pause()
signal.pause()
"""


def family_tree(*states: tuple[int, str]) -> list[system.Process]:
    return [system.Process(pid, 1000, pid, state, 1, 1) for pid, state in states]


def test_a_tree_is_empty_once_two_scans_find_the_same_dead_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that died between the look at the list and the look at itself has left its children to the supervisor."""
    looks = [
        family_tree((1, "S")),
        family_tree((1, "Z")),
        family_tree((1, "Z"), (2, "S")),
        family_tree((1, "Z"), (2, "Z")),
        family_tree((1, "Z"), (2, "Z")),
        family_tree((3, "S")),
    ]
    killed: list[int] = []
    monkeypatch.setattr(system, "below", lambda *_: iter(looks.pop(0)))
    monkeypatch.setattr(system, "sigkill", lambda target: killed.append(target.pid))
    tracker = ProcessTracker(1000, 1, "KLEADER_TERM_none")
    tracker.has_command = True
    monkeypatch.setattr(tracker, "supervisor_lives", lambda: True)
    tracker.kill_below_supervisor(60)
    assert killed == [1, 2]
    assert len(looks) == 1


def test_a_process_that_does_not_die_is_waited_for_within_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[int] = []

    def below(*_: object) -> Iterator[system.Process]:
        looks.append(1)
        assert len(looks) < 1000, "between two lies a millisecond"
        return iter(family_tree((1, "D")))

    monkeypatch.setattr(system, "below", below)
    monkeypatch.setattr(system, "sigkill", lambda _: False)
    tracker = ProcessTracker(1000, 1, "KLEADER_TERM_none")
    tracker.has_command = True
    monkeypatch.setattr(tracker, "supervisor_lives", lambda: True)
    tracker.kill_below_supervisor(0.01)


def test_known_processes_are_killed_before_any_environment_is_read(
    family: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """That may take for ever: of a process, say, that waits for a disk that hangs."""
    parent, child = family
    found = system.process(parent)
    assert found

    read: list[int] = []

    def hangs(pid: int, _marker: str) -> bool:
        read.append(pid)
        wait_until(lambda: not alive(parent) and not alive(child), "their death")
        return False

    monkeypatch.setattr(system, "environment_has", hangs)
    tracker = ProcessTracker(0, -1, "KLEADER_TERM_none")
    tracker.add(parent, found.start)
    assert tracker.kill_once() == 2
    assert read


def test_a_reused_pid_is_not_killed(family: tuple[int, int]) -> None:
    parent, _ = family
    found = system.process(parent)
    assert found
    tracker = ProcessTracker(1, -1, "KLEADER_TERM_none")
    tracker.add(parent, found.start + 1)
    assert tracker.kill_once() == 0
    assert alive(parent)


def test_a_process_of_the_command_with_the_pid_of_the_dead_supervisor_is_killed(family: tuple[int, int]) -> None:
    parent, _ = family
    found = system.process(parent)
    assert found
    tracker = ProcessTracker(parent, found.start - 1, "KLEADER_TERM_none")
    tracker.add(parent, found.start)
    assert tracker.kill_once() == 2
    wait_until(lambda: not alive(parent), "its death")


def test_a_descendant_of_the_command_is_killed_with_it(family: tuple[int, int]) -> None:
    """It was not found while the supervisor lived."""
    parent, child = family
    found = system.process(parent)
    assert found
    tracker = ProcessTracker(1, -1, "KLEADER_TERM_none")
    tracker.add(parent, found.start)
    assert tracker.kill_once() == 2
    wait_until(lambda: not alive(child), "the child is dead")


def test_a_process_with_the_terms_marker_is_killed_whatever_its_parent(processes: Processes) -> None:
    running = processes.start(["/bin/sleep", "600"], env={"KLEADER_TERM_of_test_watchdog": "1"})
    tracker = ProcessTracker(1, -1, "KLEADER_TERM_of_test_watchdog")
    tracker.has_command = True
    wait_until(tracker.kill_once, "it is found")
    assert running.wait() == -9


def test_a_descendant_of_a_process_with_the_terms_marker_is_killed(processes: Processes) -> None:
    env = {"KLEADER_TERM_of_test_watchdog_too": "1"}
    parent = processes.start(["/bin/sh", "-c", "env -i sleep 600 & echo $!; wait"], env=env)
    wait_until(lambda: "\n" in parent.out, "the child's pid")
    child = int(parent.out)
    wait_until(lambda: not system.environment_has(child, *env), "its own environment")
    (marker,) = env
    tracker = ProcessTracker(1, -1, marker)
    assert tracker.kill_once() == 2
    wait_until(lambda: not alive(child), "the child is dead")


def test_a_zombie_with_a_working_thread_is_killed(witness: Witness, processes: Processes) -> None:
    command = processes.start(witness.command("--zombie-leader"))
    witness.wait_start()
    wait_until(lambda: (found := system.process(command.pid)) and found.state == "Z", "the zombie")
    found = system.process(command.pid)
    assert found
    tracker = ProcessTracker(1, -1, "KLEADER_TERM_none")
    tracker.add(found.pid, found.start)
    tracker.scan()
    assert tracker.kill_once() == 1
    assert command.wait() == -9


def test_killing_ends_when_two_scans_in_a_row_find_no_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """What forked during the first look is met by the second."""
    looks = [family_tree((1, "S")), [], family_tree((2, "S")), [], [], family_tree((3, "S"))]
    monkeypatch.setattr(system, "sigkill", lambda _: True)
    tracker = ProcessTracker(1, -1, "KLEADER_TERM_none")
    monkeypatch.setattr(tracker, "_find", lambda: looks.pop(0))
    assert tracker.kill_until_none()
    assert len(looks) == 1


def test_the_descendants_of_a_supervisor_are_known_after_its_death(processes: Processes) -> None:
    parent = processes.start(["/bin/sh", "-c", "sleep 600 & echo $!; wait"])
    wait_until(lambda: "\n" in parent.out, "the child's pid")
    child, found = int(parent.out), system.process(parent.pid)
    assert found
    tracker = ProcessTracker(parent.pid, found.start, "KLEADER_TERM_none")
    tracker.has_command = True
    tracker.scan()
    parent.kill()
    assert tracker.kill_once() == 1
    wait_until(lambda: not alive(child), "the child is dead")
