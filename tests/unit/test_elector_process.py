"""At most one elector at a time: the next one is started when the last one has been killed and reaped."""

from __future__ import annotations

import os
import signal
import socket
from math import inf
from typing import TYPE_CHECKING, Any, cast

import pytest

from kleader import system
from kleader.election import protocol as p
from kleader.ipc import messages as m
from kleader.ipc.channel import Channel
from kleader.ipc.spawn import Launcher
from kleader.log import Log
from kleader.procs.tree_killer import ProcessTree, reap
from kleader.supervisor.child import Child
from kleader.supervisor.elector_process import ElectorProcess
from kleader.supervisor.states import RunState
from kleader.supervisor.term import Term
from tests.support.heard import Heard
from tests.support.plans import plan_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kleader.supervisor.child import Command

PID = 4711  # of nobody


class Scene(Launcher):
    """An elector that is a socket; what becomes of it is written down in order."""

    heartbeat_timeout = 5.0
    releases = True
    runs = False

    def __init__(self) -> None:
        self.did: list[str] = []
        self.theirs: list[socket.socket] = []
        self.tree = ProcessTree()
        self.elector = self.made()

    def made(self, lock: str = "lease") -> ElectorProcess:
        known: dict[str, Any] = {
            "lock": lock, "wait": None, "request_timeout": 1.0, "lease_duration": 15.0, "release": True,
        }  # fmt: skip
        plan = plan_of(**known)
        return ElectorProcess(plan, Log(verbosity=-1), self, cast("Command", self))

    def start(self, *, leading: bool) -> tuple[int, Channel]:  # noqa: ARG002
        self.did.append("start")
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.theirs.append(theirs)
        return PID, Channel(ours)

    def reaped(self, waitstatus: int, now: float) -> None:
        self.elector.process.reaped(waitstatus, now)

    def kill(self, pid: int, number: int) -> None:
        assert (pid, number) == (PID, signal.SIGKILL)
        self.did.append("kill" if self.hears() else "kill after the link's end")

    def sent(self) -> list[m.Body]:
        """What the last elector was sent, and has not read."""
        return [message.body for message in Channel(self.theirs[-1]).receive()]

    def hears(self) -> bool:
        """Whether the elector's end of the link is open still."""
        channel = Channel(self.theirs[-1])
        channel.receive()
        return channel.open


@pytest.fixture
def scene(monkeypatch: pytest.MonkeyPatch) -> Iterator[Scene]:
    made = Scene()
    monkeypatch.setattr(os, "kill", made.kill)
    monkeypatch.setattr(system, "below", lambda *_: iter(()))
    made.elector.check(RunState.LEADING, leading(), 0)
    made.did = []
    yield made
    for each in made.theirs:
        each.close()
    made.elector._hang_up(0)


def leading() -> Term:
    term = Term(1, "n")
    term.lead = p.Acquired(50, 60, 70, "7", 0, 0)
    return term


def test_an_elector_that_hangs_is_killed_before_its_link_is_closed(scene: Scene) -> None:
    """Else it would take us for dead, and kill the command."""
    assert wake_until(scene, RunState.LEADING, leading(), 6) == 5
    assert scene.did == ["kill"]
    assert not scene.hears()


def test_the_next_elector_is_started_only_after_the_last_one_is_reaped(scene: Scene) -> None:
    """One that sleeps in the kernel may wake up, and release its successor's term."""
    term = leading()
    wake_until(scene, RunState.LEADING, term, 6)
    for now in (7, 70, 700):
        scene.elector.check(RunState.LEADING, term, now)
    assert "start" not in scene.did
    scene.reaped(signal.SIGKILL, 701)
    scene.elector.check(RunState.LEADING, term, 702)
    assert scene.did[-1] == "start"


def spoken(scene: Scene, now: float) -> None:
    """A heartbeat of the elector arrives."""
    Channel(scene.theirs[-1]).send(1, m.Heartbeat())
    scene.elector.receive(now)


def wake_until(scene: Scene, state: RunState, term: Term, until: float) -> float:
    """The supervisor wakes whenever something is due; when the elector is killed, or when there is no more."""
    now = 0.0
    while (due := scene.elector.due(state, term)) <= until and not scene.did:
        now = max(now, due)
        scene.elector.check(state, term, now)
    return now


@pytest.mark.parametrize(("state", "within"), [(RunState.LEADING, 5), (RunState.WAITING, 15)])
def test_a_hanging_elector_is_killed_whether_it_leads_or_waits(scene: Scene, state: RunState, within: float) -> None:
    """A candidate's hanging elector would never take the lock. Its heartbeats are rarer."""
    term = leading() if state is RunState.LEADING else Term(1)
    spoken(scene, 1)
    assert wake_until(scene, state, term, 100) == 1 + within
    assert scene.did == ["kill"]


@pytest.mark.parametrize("state", [RunState.WAITING, RunState.LEADING])
def test_a_suspend_of_any_length_is_one_missed_heartbeat_of_the_elector(scene: Scene, state: RunState) -> None:
    """It had no chance to speak: it has some time of the supervisor's waking life to do so."""
    term = leading() if state is RunState.LEADING else Term(1)
    spoken(scene, 1)
    for day in (1, 2, 3):
        now = 86400 * day
        scene.elector.check(state, term, now)
        assert scene.elector.due(state, term) > now + 1
        spoken(scene, now + 1)
    assert scene.did == []
    assert wake_until(scene, state, term, 86400 * 4) > 86400 * 3


def test_a_candidates_elector_may_start_slowly(scene: Scene) -> None:
    """On a crowded machine: no term waits for it, and one that were replaced over and over would never contend."""
    scene.elector.replace(0)
    scene.reaped(signal.SIGKILL, 0)
    scene.did.clear()
    scene.elector.check(RunState.WAITING, Term(1), 10)
    assert scene.did == ["start"]
    scene.did.clear()
    assert 40 < wake_until(scene, RunState.WAITING, Term(1), 100) < 60
    assert scene.did == ["kill"]


def test_silent_since_is_kept_until_an_elector_sends_a_heartbeat(scene: Scene) -> None:
    """The exporter must not report this kleader as healthy for ever."""
    elector, term = scene.elector, Term(1)
    spoken(scene, 1)
    assert elector.silent_since == inf
    wake_until(scene, RunState.WAITING, term, 100)
    assert 1 < elector.silent_since < 16, "hung"
    silent_since = elector.silent_since
    scene.reaped(signal.SIGKILL, 17)
    scene.elector.check(RunState.WAITING, term, 18)
    assert scene.did == ["kill", "start"]
    assert elector.silent_since == silent_since, "another has started, and not said a word"
    spoken(scene, 19)
    assert elector.silent_since == inf


def test_an_elector_that_has_ended_in_good_order_is_not_silent(scene: Scene) -> None:
    scene.elector.end(Term(1), 1)
    scene.theirs[-1].shutdown(socket.SHUT_WR)
    scene.elector.receive(2)
    scene.reaped(0, 2)
    assert scene.elector.silent_since == inf


def test_a_late_elector_is_not_silent_once_none_is_required(scene: Scene) -> None:
    """A candidate that is not well rests for as long as that lasts: what probes it is not to end it."""
    elector, term = scene.elector, Term(1)
    scene.elector.end(term, 1)
    scene.elector.check(RunState.NOT_CONTENDING, term, scene.elector.due(RunState.NOT_CONTENDING, term))
    assert scene.did == ["kill"]
    scene.theirs[-1].shutdown(socket.SHUT_WR)
    elector.receive(5)
    assert elector.silent_since == 5, "it cannot be reaped, perhaps"
    scene.reaped(signal.SIGKILL, 6)
    scene.elector.check(RunState.NOT_CONTENDING, term, 7)
    assert elector.silent_since == inf


def test_a_file_locks_elector_sends_nothing_while_it_waits_and_is_not_silent(scene: Scene) -> None:
    """It blocks in flock(2), where only the kernel can hang."""
    scene.elector._hang_up(0)
    scene.heartbeat_timeout = inf
    scene.elector = elector = scene.made()
    elector.check(RunState.WAITING, Term(1), 0)
    assert elector.due(RunState.WAITING, Term(1)) == inf
    scene.theirs[-1].shutdown(socket.SHUT_WR)
    elector.receive(5)
    assert elector.silent_since == 5
    scene.reaped(signal.SIGKILL, 6)
    elector.check(RunState.WAITING, Term(1), 7)
    assert elector.silent_since == inf


def test_an_elector_that_closed_its_link_is_killed(scene: Scene) -> None:
    """It may live, but its messages are lost; it is killed before it takes the supervisor for dead."""
    scene.theirs[-1].shutdown(socket.SHUT_WR)
    scene.elector.receive(1)
    assert scene.did == ["kill"]
    assert not scene.hears()


def test_an_elector_whose_queue_is_full_is_killed(scene: Scene) -> None:
    for _ in range(10_000):
        scene.elector.send(leading(), m.Alive(inf))
        if scene.did:
            break
    assert scene.did[0].startswith("kill")


def test_an_elector_that_was_stopped_is_killed(scene: Scene) -> None:
    scene.reaped(signal.SIGSTOP << 8 | 0x7F, 1)
    assert scene.did == ["kill"]


def test_the_final_messages_of_an_elector_that_is_replaced_are_received(scene: Scene) -> None:
    """It may have seen what the next elector has to know."""
    Channel(scene.theirs[-1]).send(1, said := m.ResumeState("60"))
    scene.elector.replace(1)
    assert scene.elector.receive(1) == [m.Message(1, said)]
    assert scene.elector.receive(1) == []


def test_no_signal_is_sent_to_a_reaped_command(monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_no_more_children_are_reaped_in_a_turn_than_the_maximum() -> None:
    """Processes that die all the time keep no deadline waiting."""
    for _ in range(3):
        if (pid := os.fork()) == 0:
            os._exit(0)
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    assert (len(reap(2)), len(reap(2))) == (2, 1)


def test_an_ended_elector_is_reaped_while_kleader_waits_for_another_process(scene: Scene) -> None:
    """Such as a standby that takes its time to stop."""
    term = Term(1)
    scene.elector.end(term, 0)
    assert scene.elector.due(RunState.RELEASING, term) == 3, "its last request, and a second"
    scene.reaped(0, 1)
    assert not scene.elector.process.pid
    assert scene.elector.due(RunState.RELEASING, term) == inf


def test_an_elector_that_died_before_the_release_request_is_replaced(scene: Scene) -> None:
    term = leading()
    scene.theirs[-1].shutdown(socket.SHUT_WR)
    scene.elector.receive(0)
    scene.reaped(signal.SIGKILL, 0)
    scene.did.clear()
    scene.elector.end(term, 1)
    scene.elector.check(RunState.RELEASING, term, 1)
    assert scene.did == ["start"]


def test_an_elector_that_died_after_the_release_request_is_not_replaced(scene: Scene) -> None:
    """The release may have been done, and the record have been put back."""
    term = leading()
    scene.elector.end(term, 0)
    scene.reaped(signal.SIGKILL, 1)
    scene.elector.check(RunState.RELEASING, term, 1)
    assert scene.did == []
    assert scene.elector.due(RunState.RELEASING, term) == inf


def test_a_second_end_does_not_replace_an_elector_that_was_asked_for_the_release(scene: Scene) -> None:
    """TERM after the end of a term, while the elector is dead and not reaped yet."""
    term = leading()
    scene.elector.end(term, 0)
    scene.theirs[-1].shutdown(socket.SHUT_WR)
    scene.elector.receive(0)
    scene.elector.end(term, 0)
    scene.reaped(signal.SIGKILL, 1)
    scene.did.clear()
    scene.elector.check(RunState.RELEASING, term, 1)
    assert scene.did == []


def test_an_elector_of_an_earlier_candidacy_was_not_asked_for_this_release(scene: Scene) -> None:
    term = leading()
    scene.elector.end(Term(1), 0)
    scene.reaped(0, 1)
    scene.elector.contend()
    scene.elector.check(RunState.LEADING, term, 1)
    scene.theirs[-1].shutdown(socket.SHUT_WR)
    scene.elector.receive(2)
    scene.reaped(signal.SIGKILL, 2)
    scene.did.clear()
    scene.elector.end(term, 3)
    scene.elector.check(RunState.RELEASING, term, 3)
    assert scene.did == ["start"]


def test_a_replacement_elector_of_a_file_lock_records_the_run(scene: Scene) -> None:
    """The kernel frees it when kleader has ended: it neither runs out, nor is it kept."""
    scene.elector._hang_up(0)
    scene.releases = False
    term, scene.elector = leading(), scene.made("file")
    scene.elector._log = log = Heard()
    scene.elector.check(RunState.LEADING, term, 0)
    term.ran = m.Ran("7", 0, "exited", 1.0, 2.0)
    scene.elector.end(term, 0)
    scene.reaped(signal.SIGKILL, 1)
    scene.elector.check(RunState.RELEASING, term, 1)
    assert scene.sent()[-2:] == [term.ran, p.AllProcessesExited(release=True, record=True)]
    assert not [line for line in log.of("WARNING") if "release" in line]
    scene.reaped(signal.SIGKILL, 1)
    assert scene.elector.due(RunState.RELEASING, term) == inf


def test_a_replacement_elector_releases_a_lock_that_does_not_expire(scene: Scene) -> None:
    """Once."""
    scene.elector._hang_up(0)
    term, scene.elector = leading(), scene.made("leader-for-life")
    scene.elector.check(RunState.LEADING, term, 0)
    scene.did.clear()
    scene.elector.end(term, 0)
    scene.reaped(signal.SIGKILL, 1)
    scene.elector.check(RunState.RELEASING, term, 1)
    assert scene.did == ["start"]
    sent = [type(each) for each in scene.sent()]
    assert sent == [m.Assign, m.Stopping, p.AllProcessesExited]
    scene.reaped(signal.SIGKILL, 2)
    assert scene.elector.due(RunState.RELEASING, term) == inf


@pytest.mark.parametrize("way", ["it hung", "it ended"])
def test_the_supervisor_kills_earlier_when_the_next_elector_is_late_or_the_lock_lost(scene: Scene, way: str) -> None:
    """One that was killed guards nothing, reaped or not; after the loss none is started any more."""
    term = leading()
    assert scene.elector.kill_alone_at(term) == inf
    if way == "it hung":
        assert wake_until(scene, RunState.LEADING, term, 6) == 5
    else:
        scene.theirs[-1].shutdown(socket.SHUT_WR)
        scene.elector.receive(5)
    assert scene.elector.kill_alone_at(term) == 7
    term.lost = True
    assert scene.elector.kill_alone_at(term) == 5


RAN = m.Ran("7", 0, "exited", 1, 5)


def ended() -> Term:
    """A term whose command has run and ended by itself."""
    term = leading()
    term.started_at = 1
    term.note_run(5)
    return term


@pytest.mark.parametrize("release", [True, False], ids=["released", "--no-release"])
def test_the_replacement_of_an_elector_dead_before_the_end_gets_the_run_and_the_end(
    scene: Scene,
    release: bool,  # noqa: FBT001
) -> None:
    scene.elector._plan = scene.elector._plan._replace(release=release)
    scene.theirs[-1].shutdown(socket.SHUT_WR)
    scene.elector.receive(0)
    scene.reaped(signal.SIGKILL, 0)
    scene.elector.end(ended(), 5)
    scene.elector.check(RunState.RELEASING, ended(), 5)
    assert scene.sent()[-2:] == [RAN, p.AllProcessesExited(release, record=True)]


@pytest.mark.parametrize("release", [True, False], ids=["released", "--no-release"])
def test_the_replacement_of_an_elector_dead_after_its_release_only_records_the_run(
    scene: Scene,
    release: bool,  # noqa: FBT001
) -> None:
    """Its release may have been done, and its record have been put back. It is replaced once."""
    scene.elector._plan = scene.elector._plan._replace(release=release)
    scene.elector.end(ended(), 5)
    assert scene.sent()[-2:] == [RAN, p.AllProcessesExited(release, record=True)]
    scene.reaped(signal.SIGKILL, 5)
    scene.elector.check(RunState.RELEASING, ended(), 5)
    assert scene.sent()[-2:] == [RAN, p.AllProcessesExited(release=False, record=True)]
    scene.reaped(signal.SIGKILL, 5)
    assert scene.elector.due(RunState.RELEASING, ended()) == inf


def test_an_elector_that_has_reported_the_release_is_not_replaced(scene: Scene) -> None:
    scene.elector.end(ended(), 5)
    scene.elector.released(p.Released(released=True, why=""), ended())
    scene.reaped(0, 5)
    assert scene.elector.due(RunState.RELEASING, ended()) == inf


@pytest.mark.parametrize("change", ["lost", "leader-for-life"])
def test_no_run_is_recorded_on_a_lost_lock_or_one_that_keeps_no_runs(scene: Scene, change: str) -> None:
    term, scene.elector._plan = ended(), scene.elector._plan._replace(lock=change)
    term.lost = change == "lost"
    scene.elector.end(term, 5)
    assert not [each for each in scene.sent() if isinstance(each, m.Ran)]


@pytest.mark.parametrize(("change", "reason"), [
    ({}, "exited"), ({"shutdown_signal": 15}, "stopped"), ({"step_down": p.StepDown("asked")}, "stepped-down"),
    ({"lost": True, "shutdown_signal": 15}, "lost"),
])  # fmt: skip
def test_a_stopped_run_records_its_reason(change: dict[str, Any], reason: str) -> None:
    """It is not a success, for any exit status."""
    term = leading()
    term.note_run(5)
    assert term.ran is None  # it never began
    term.started_at = 1
    for name, value in change.items():
        setattr(term, name, value)
    term.note_run(5)
    detail = "asked" if reason == "stepped-down" else ""
    assert term.ran == m.Ran("7", 0, reason, 1, 5, detail)
