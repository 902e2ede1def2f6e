"""The second guard: whom it asks, whom it kills, and whom it never touches."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING, cast

import pytest

from kleader import platform
from kleader.elector.orphans import Orphans
from kleader.elector.watchdog import Watchdog
from tests.support.processes import alive, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kleader.log import Log
    from tests.support.checker import Witness
    from tests.support.processes import Processes

KILL_AT, MARGIN = 100.0, 0.25


class Scene:
    """A watchdog on a clock that stands still until it is moved; what it does is written down in order."""

    def __init__(self) -> None:
        self.now = 0.0
        self.did: list[str] = []
        self.dog = Watchdog(cast("Orphans", self), cast("Log", self), 2 * MARGIN, lambda: self.did.append("ask"))
        self.dog.kill_at = KILL_AT

    def look(self) -> None:
        self.did.append("look")

    def kill_supervisor(self) -> None:
        self.did.append("kill")

    def sweep(self) -> int:
        self.did.append("sweep")
        return 0

    def repeated(self, _message: str) -> None:
        self.did.append("log")

    def at(self, now: float) -> list[str]:
        self.now, self.did = now, []
        self.dog.ring()
        return self.did


@pytest.fixture
def scene(monkeypatch: pytest.MonkeyPatch) -> Scene:
    monkeypatch.setattr(platform, "clock", lambda: 0.0)
    found = Scene()
    monkeypatch.setattr(platform, "clock", lambda: found.now)
    return found


def test_nobody_is_asked_before_kill_at(scene: Scene) -> None:
    assert scene.dog.due == KILL_AT
    assert scene.at(KILL_AT - 0.001) == []


def test_a_supervisor_that_answers_is_left_to_its_sweep(scene: Scene) -> None:
    """However long the tree takes to die: only the supervisor can prove it empty."""
    for turn in range(20):
        assert scene.at(KILL_AT + turn * MARGIN) == ["ask"]
        scene.dog.heard()


def test_a_supervisor_that_does_not_answer_is_killed_before_it_is_written_of(scene: Scene) -> None:
    """First the look at its tree, which it takes with it; the log last, for a disk that hangs must delay no kill."""
    assert scene.at(KILL_AT) == ["ask"]
    assert scene.at(KILL_AT + MARGIN / 2) == []
    assert scene.at(KILL_AT + MARGIN) == ["look", "kill", "sweep", "log", "ask"]
    assert scene.at(KILL_AT + 2 * MARGIN) == ["look", "kill", "sweep", "log", "ask"], "until it is gone or answers"


def test_a_word_from_before_kill_at_is_no_answer(scene: Scene) -> None:
    scene.now = KILL_AT - 0.001
    scene.dog.heard()
    assert scene.at(KILL_AT) == ["ask"]
    assert "kill" in scene.at(KILL_AT + MARGIN)


def test_a_renewal_moves_it_all(scene: Scene) -> None:
    scene.at(KILL_AT)
    scene.dog.kill_at = KILL_AT + 10
    assert scene.at(KILL_AT + MARGIN) == []
    assert scene.dog.due == KILL_AT + 10
    assert scene.at(KILL_AT + 10) == ["ask"], "it may have slept since, and be awake now"


def test_who_has_to_be_dead_now_is_asked_now(scene: Scene) -> None:
    """Somebody else may lead: kill_at is brought forward, and never put off."""
    scene.now = KILL_AT - 50
    scene.dog.hurry()
    assert scene.did == ["ask"]
    assert scene.at(KILL_AT - 50 + MARGIN) == ["look", "kill", "sweep", "log", "ask"]
    scene.dog.kill_at = KILL_AT - 60
    scene.dog.hurry()
    assert scene.dog.kill_at == KILL_AT - 60


@pytest.fixture
def family() -> Iterator[tuple[int, int]]:
    """A parent and its child, neither of which has to do with kleader."""
    with subprocess.Popen(["/bin/sh", "-c", "sleep 600 & echo $!; wait"], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout
        child = int(parent.stdout.readline())
        yield parent.pid, child
        for pid in (child, parent.pid):
            if found := platform.process(pid):
                platform.kill(found)


def test_who_has_the_supervisors_pid_but_not_its_start_is_somebody_else(
    family: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A guard that starts late may find its supervisor dead, and init its parent: nobody is swept there."""
    parent, child = family
    found = platform.process(parent)
    assert found
    orphans = Orphans(parent, found.start + 1, "KLEADER_TERM_none")
    orphans.any = True
    orphans.look()
    assert orphans.sweep() == 0
    killed: list[int] = []
    monkeypatch.setattr(platform, "kill", lambda target: killed.append(target.pid))
    orphans.kill_supervisor()
    assert not killed
    monkeypatch.undo()
    assert alive(parent)
    assert alive(child)


def test_what_is_below_the_supervisor_itself_is_swept(family: tuple[int, int]) -> None:
    """The other way round, so that the test before means something."""
    parent, child = family
    found = platform.process(parent)
    assert found
    orphans = Orphans(parent, found.start, "KLEADER_TERM_none")
    orphans.any = True
    orphans.look()
    assert orphans.sweep() == 1
    wait_until(lambda: not alive(child), "the child is dead", 30)


def test_a_pid_that_is_another_processs_by_now_is_not_swept(family: tuple[int, int]) -> None:
    parent, _ = family
    found = platform.process(parent)
    assert found
    orphans = Orphans(1, -1, "KLEADER_TERM_none")
    orphans.started(parent, found.start + 1)
    assert orphans.sweep() == 0
    assert alive(parent)


def test_who_descends_from_the_command_is_swept_with_it(family: tuple[int, int]) -> None:
    """Seen by nobody while the supervisor lived."""
    parent, child = family
    found = platform.process(parent)
    assert found
    orphans = Orphans(1, -1, "KLEADER_TERM_none")
    orphans.started(parent, found.start)
    assert orphans.sweep() == 2
    wait_until(lambda: not alive(child), "the child is dead")


def test_who_carries_the_terms_marker_is_swept_whoever_its_parent_is(processes: Processes) -> None:
    running = processes.start(["/bin/sleep", "600"], env={"KLEADER_TERM_of_test_watchdog": "1"})
    orphans = Orphans(1, -1, "KLEADER_TERM_of_test_watchdog")
    orphans.any = True
    wait_until(orphans.sweep, "it is found")
    assert running.wait() == -9


def test_a_zombie_whose_second_thread_works_is_swept(witness: Witness, processes: Processes) -> None:
    command = processes.start(witness.command("--zombie-leader"))
    witness.wait_start()
    wait_until(lambda: (found := platform.process(command.pid)) and found.state == "Z", "the zombie")
    found = platform.process(command.pid)
    assert found
    orphans = Orphans(1, -1, "KLEADER_TERM_none")
    orphans.started(found.pid, found.start)
    orphans.look()
    assert orphans.sweep() == 1
    assert command.wait() == -9


def test_the_sweep_ends_when_nothing_is_found_twice_in_a_row() -> None:
    """What forked during the first look is met by the second."""

    class Brood(Orphans):
        found = [1, 0, 1, 0, 0, 1]  # noqa: RUF012 - of one test

        def sweep(self) -> int:
            return self.found.pop(0)

    brood = Brood(1, -1, "KLEADER_TERM_none")
    assert brood.sweep_until_none()
    assert brood.found == [1]


def test_what_is_below_a_supervisor_is_known_when_that_is_dead(processes: Processes) -> None:
    parent = processes.start(["/bin/sh", "-c", "sleep 600 & echo $!; wait"])
    wait_until(lambda: "\n" in parent.out, "the child's pid")
    child, found = int(parent.out), platform.process(parent.pid)
    assert found
    orphans = Orphans(parent.pid, found.start, "KLEADER_TERM_none")
    orphans.any = True
    orphans.look()
    parent.kill()
    assert orphans.sweep() == 1
    wait_until(lambda: not alive(child), "the child is dead")
