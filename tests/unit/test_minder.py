"""At most one elector at a time: a successor comes when its predecessor has been killed and reaped."""

from __future__ import annotations

import os
import signal
import socket
from math import inf
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from kleader import platform
from kleader.link import messages as m
from kleader.link.channel import Channel
from kleader.link.plan import Plan
from kleader.log import Log
from kleader.supervisor import child
from kleader.supervisor.child import Child
from kleader.supervisor.elector import Elector
from kleader.supervisor.minder import Minder
from kleader.supervisor.states import State
from kleader.supervisor.term import Term
from kleader.supervisor.tree import Tree

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kleader.supervisor.command import Command

PID = 4711  # of nobody


class Scene:
    """An elector that is a socket; what becomes of it is written down in order."""

    inherited: tuple[int, ...] = ()
    releases = True
    runs = False

    def __init__(self) -> None:
        self.did: list[str] = []
        self.theirs: list[socket.socket] = []
        self.tree = Tree()
        self.elector = Elector(self, silence=5)
        known: dict[str, Any] = {"lock": "lease", "wait": None}
        plan = Plan(**{name: known.get(name, "") for name in Plan.__annotations__})
        given: Any = self
        self.minder = Minder(plan, Log(verbosity=-1), given, self.elector, cast("Command", self))

    def start(self, *, leading: bool) -> tuple[int, Channel]:  # noqa: ARG002
        self.did.append("start")
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.theirs.append(theirs)
        return PID, Channel(ours)

    def holder(self) -> str:
        return ""

    def let_go(self) -> None:
        pass

    def kill(self, pid: int, number: int) -> None:
        assert (pid, number) == (PID, signal.SIGKILL)
        self.did.append("kill" if self.hears() else "kill after the link's end")

    def hears(self) -> bool:
        """Whether the elector's end of the link is open still."""
        channel = Channel(self.theirs[-1])
        channel.receive()
        return channel.open


@pytest.fixture
def scene(monkeypatch: pytest.MonkeyPatch) -> Iterator[Scene]:
    made = Scene()
    monkeypatch.setattr(os, "kill", made.kill)
    monkeypatch.setattr(platform, "below", lambda *_: iter(()))
    term = Term(1)
    term.lead = m.Lead(1, 60, 70, "7", 0, 0, "n")
    made.elector.start(0, term.assignment([], ""))
    made.did = []
    yield made
    for each in made.theirs:
        each.close()
    made.elector._hang_up(0)


def leading() -> Term:
    term = Term(1)
    term.lead = m.Lead(1, 60, 70, "7", 0, 0, "n")
    return term


def test_one_that_hangs_is_killed_before_it_loses_its_link(scene: Scene) -> None:
    """Else it would take us for dead, and kill the command."""
    assert scene.minder.mind(State.LEADING, leading(), 6)
    assert scene.did == ["kill"]
    assert not scene.hears()


def test_a_successor_comes_once_its_predecessor_is_reaped_and_not_before(scene: Scene) -> None:
    """One that sleeps in the kernel may wake up, and release its successor's term."""
    term = leading()
    scene.minder.mind(State.LEADING, term, 6)
    for now in (7, 70, 700):
        assert scene.minder.mind(State.LEADING, term, now)
    assert "start" not in scene.did
    scene.minder.ended(signal.SIGKILL, 701)
    scene.minder.mind(State.LEADING, term, 702)
    assert scene.did[-1] == "start"


def test_one_that_has_let_go_of_its_link_is_killed(scene: Scene) -> None:
    """It lives perhaps, and nobody hears what it does; and it is killed before it would take us for dead."""
    scene.theirs[-1].shutdown(socket.SHUT_WR)
    scene.elector.hear(1)
    assert scene.did == ["kill"]
    assert not scene.hears()


def test_one_that_takes_no_word_any_more_is_killed(scene: Scene) -> None:
    for _ in range(10_000):
        scene.elector.tell(m.Alive(1, inf))
        if scene.did:
            break
    assert scene.did[0].startswith("kill")


def test_one_that_was_stopped_is_killed(scene: Scene) -> None:
    scene.minder.ended(signal.SIGSTOP << 8 | 0x7F, 1)
    assert scene.did == ["kill"]


def test_the_last_words_of_one_that_was_stopped_are_heard(scene: Scene) -> None:
    """It may have seen what its successor has to know."""
    Channel(scene.theirs[-1]).send(said := m.Remember(1, "60"))
    scene.minder.ended(signal.SIGSTOP << 8 | 0x7F, 1)
    assert scene.elector.hear(1) == [said]
    assert scene.elector.hear(1) == []


def test_a_command_that_was_reaped_is_sent_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its pid may be another's."""
    sent: list[int] = []
    monkeypatch.setattr(os, "kill", lambda _pid, number: sent.append(number))
    (gate_out, gate_in), (news_out, news_in) = os.pipe(), os.pipe()
    command = Child(PID, gate_in, news_out, own_group=True, foreground=False)
    command.send(signal.SIGTERM)
    command.ended(0)
    command.send(signal.SIGKILL)
    assert sent == [signal.SIGTERM]
    for fd in (gate_out, news_out, news_in):
        os.close(fd)


def test_no_more_are_reaped_in_one_turn_than_asked_for() -> None:
    """Processes that die all the time keep no deadline waiting."""
    for _ in range(3):
        if (pid := os.fork()) == 0:
            os._exit(0)
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    assert (len(child.reap(2)), len(child.reap(2))) == (2, 1)


def test_who_has_done_all_about_the_lock_does_not_spin_while_kleader_waits_for_something_else() -> None:
    """A standby that takes its time to stop, where the elector has ended."""
    starter = SimpleNamespace(releases=True)
    elector: Any = SimpleNamespace(pid=0, starter=starter, tell=lambda _: None, kill=lambda: None)
    plan: Any = SimpleNamespace(release=True, request_timeout=1.0)
    nobody: Any = None
    minder, term = Minder(plan, nobody, nobody, elector, nobody), Term(1)
    minder.dismiss(term, 0.0)
    assert minder.due(State.RELEASING, term) == 0.0, "to find out that nothing is left to do"
    assert not minder.mind(State.RELEASING, term, 0.0)
    assert minder.due(State.RELEASING, term) == inf


@pytest.mark.parametrize("way", ["it hung", "it ended"])
def test_who_has_no_elector_is_alone_once_another_could_be_there_or_the_lock_is_lost(scene: Scene, way: str) -> None:
    """One that was killed guards nothing, reaped or not; after the loss none is started any more."""
    term = leading()
    assert scene.minder.alone_since(term) == inf
    if way == "it hung":
        scene.minder.mind(State.LEADING, term, 6)
    else:
        scene.theirs[-1].shutdown(socket.SHUT_WR)
        scene.elector.hear(6)
    assert scene.minder.alone_since(term) == 8
    term.lost = True
    assert scene.minder.alone_since(term) == 6
