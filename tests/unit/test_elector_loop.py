"""The elector's process: what it guards while it cannot do its work yet."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import math
import socket
import sys
import time
import warnings
from typing import TYPE_CHECKING, Any, NoReturn, cast

import pytest

from kleader import system
from kleader.election import events as e
from kleader.election import protocol as p
from kleader.election.events import Kind, Observed
from kleader.election.record import Record
from kleader.election.step_function import Phase
from kleader.elector.loop import Loop
from kleader.ipc import messages as m
from kleader.ipc.channel import Channel, ReliableChannel
from kleader.ipc.plan import FOR_LIFE
from kleader.kube.errors import LockError
from kleader.locks.base import LockProperties
from kleader.log import Log
from kleader.procs.process_tracker import ProcessTracker
from tests.support.plans import plan_of

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Iterator

    from typing_extensions import Self

    from kleader.election.state import State
    from kleader.elector.best_effort import Follower
    from kleader.locks.base import Lock
    from tests.support.processes import Processes

TIMES: dict[str, Any] = {"lease_duration": 2, "kill": 0.2, "skew": 0.2, "renew_deadline": 60.0, "wait": None}


async def _never(_term: int, _assign: m.Assign) -> tuple[Lock, list[Follower]]:
    await asyncio.Event().wait()
    raise AssertionError


def test_a_replacement_elector_keeps_the_terms_deadline_before_it_has_read_the_lock(processes: Processes) -> None:
    """Its credentials may take long; a supervisor that is stopped then is killed after kill_at all the same."""
    plan = plan_of(**TIMES)
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    supervisor = processes.start(["/bin/sleep", "600"])  # it answers as a stopped one does
    born = system.process(supervisor.pid)
    assert born
    told = Channel(theirs)
    told.send(1, m.Assign("i", True, True, system.clock(), 0, 0, [], ""))  # noqa: FBT003

    async def elect() -> None:
        elector = Loop(plan, Channel(ours), Log(verbosity=-1), (supervisor.pid, born.start), _never)
        running = asyncio.ensure_future(elector.run())
        assert await asyncio.to_thread(supervisor.wait) == -9
        running.cancel()

    asyncio.run(elect())
    told.close()
    ours.close()


@pytest.mark.parametrize(
    ("wait", "candidacy", "given"),
    [
        *((0.001, 1, 5.0), (4.0, 1, 5.0), (10.0, 1, 5.0), (60.0, 1, 50.0), (0.0, 1, None), (None, 1, None)),
        (60.0, 2, None),
    ],
)
def test_a_short_wait_leaves_time_to_find_the_credentials(
    monkeypatch: pytest.MonkeyPatch, wait: float | None, candidacy: int, given: float | None
) -> None:
    """Or a wait shorter than a try would try nothing at all on a slow machine. --wait is for the first candidacy."""
    asked: list[float | None] = []

    class OverAtOnce(contextlib.AbstractAsyncContextManager[None]):
        def __init__(self, seconds: float | None) -> None:
            asked.append(seconds)

        async def __aenter__(self) -> None:
            raise asyncio.TimeoutError

        async def __aexit__(self, *_: object) -> None: ...

    monkeypatch.setattr("kleader.elector.loop.within", OverAtOnce)
    plan = plan_of(**TIMES)._replace(wait=wait, started=100.0)
    monkeypatch.setattr(system, "clock", lambda: 110.0)
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    elector = Loop(plan, Channel(ours), Log(verbosity=-1), (1, -1), _never)
    elector._term = candidacy
    asyncio.run(elector._begin(m.Assign("i", False, False, 0.0, 0, 0, [], "")))  # noqa: FBT003
    assert asked == [given]
    theirs.close()
    ours.close()


class Kept:
    """A lock without expiry that nobody has, another, or this candidate already."""

    namespace = "n"
    properties = LockProperties(non_expiring=True)

    def __init__(self, holder: str) -> None:
        self._seen = Observed(Record(holder), "i", "7", owned_by_me=holder == "me") if holder else None
        self.requests = 0

    async def get(self, _timeout: float) -> Observed:
        self.requests += 1
        if self._seen is None:
            raise LockError(Kind.MISSING, "there is none")
        return self._seen

    async def write(self, _base: object, record: Record, incarnation: str, _timeout: float) -> Observed:
        self._seen = Observed(record, incarnation, "7", owned_by_me=True)
        return self._seen

    async def watch(self, _after: Observed, _timeout: float) -> AsyncGenerator[Observed]:
        await asyncio.Event().wait()
        yield Observed(Record(), "", "2")

    async def unregister(self, _timeout: float) -> None: ...


class Peer:
    """A supervisor's end of the link of an elector that runs; ``heard`` is what it has read there."""

    def __init__(self, *, leading: bool, holder: str = "", renew_deadline: float = 60.0) -> None:
        ours, self._theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.channel, self.link = Channel(self._theirs), ReliableChannel(ours)
        self.heard: list[m.Body] = []
        known = {**TIMES, "lease_duration": 15, "retry_period": 2.0, "grace": 0.5, "request_timeout": 5.0}
        known |= {"identity": "me", "lock": FOR_LIFE, "renew_deadline": renew_deadline}
        plan = plan_of(**known)
        self.lock = Kept("me" if leading else holder)

        async def find_lock(_term: int, _assign: m.Assign) -> tuple[Lock, list[Follower]]:
            return cast("Lock", self.lock), []

        self._elector = Loop(plan, self.link, Log(verbosity=-1), (1, -1), find_lock)
        self.channel.send(1, m.Assign("i", leading, leading, math.inf, 0, 0, [], ""))

    async def __aenter__(self) -> Self:
        self._running = asyncio.ensure_future(self._elector.run())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._running.cancel()
        await asyncio.wait({self._running})
        for fd in (
            self.link.fd,
            self._elector._timer.fd,
        ):  # a closed link is the supervisor's death: it ends this process
            asyncio.get_running_loop().remove_reader(fd)
        self.channel.close()
        self.link.close()

    async def read(self, until: Callable[[], object], *, answer: bool) -> None:
        """Read until this is so; ``answer`` each message as a supervisor does."""
        give_up = time.monotonic() + 10
        while not until():
            assert time.monotonic() < give_up, self.heard[-5:]
            if found := self.channel.receive():
                self.heard += [message.body for message in found]
                if answer:
                    self.channel.send(1, m.Alive(math.inf))
            await asyncio.sleep(0.001)

    @property
    def leads(self) -> bool:
        state = self._elector._state
        return state is not None and state.phase is Phase.LEADING

    def count(self, kind: type[m.Body]) -> int:
        return sum(isinstance(each, kind) for each in self.heard)


def test_a_lead_message_for_a_full_link_is_sent_once_there_is_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """The supervisor was stopped for long. Of a lock that does not expire there is no renewal to tell of the term."""
    monkeypatch.setattr("kleader.elector.loop._HEARTBEAT_SECONDS", 0.01)

    async def lead() -> None:
        peer = Peer(leading=False)
        while Channel.send(peer.link, 1, m.Heartbeat()):
            pass
        async with peer:
            while not peer.leads:  # noqa: ASYNC110 - tells nobody
                await asyncio.sleep(0)
            await peer.read(lambda: peer.count(p.Acquired), answer=True)

    asyncio.run(lead())


def test_a_suspend_of_any_length_is_one_missed_heartbeat_of_the_supervisor(monkeypatch: pytest.MonkeyPatch) -> None:
    """A frozen machine or container: the process that wakes first asks, and waits for the answer before it judges."""
    monkeypatch.setattr("kleader.elector.loop._HEARTBEAT_SECONDS", 0.02)
    real, frozen = system.clock, [0.0]
    monkeypatch.setattr(system, "clock", lambda: real() + frozen[0])

    async def lead() -> None:
        async with Peer(leading=True) as peer:
            for freezes in range(1, 6):
                await peer.read(lambda: peer.count(m.Heartbeat) > 3 * freezes, answer=True)  # noqa: B023 - at once
                frozen[0] += 3600
            await peer.read(lambda: peer.count(m.Heartbeat) > 30, answer=True)
            assert not peer.count(p.Lost), peer.heard

    asyncio.run(lead())


def test_a_waiting_elector_sends_heartbeats_and_no_request(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Or its supervisor would not notice that it hangs."""
    monkeypatch.setattr("kleader.elector.loop._HEARTBEAT_SECONDS", 0.01)

    async def wait() -> None:
        async with Peer(leading=False, holder="other") as peer:
            await peer.read(lambda: peer.count(m.Heartbeat) > 20 and peer.count(p.NewLeader), answer=True)
            before = peer.lock.requests
            await peer.read(lambda: peer.count(m.Heartbeat) > 40, answer=True)
            assert before == peer.lock.requests == 1

    asyncio.run(wait())


def test_a_supervisor_that_answers_no_heartbeat_for_the_renew_deadline_has_lost_the_lock(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("kleader.elector.loop._HEARTBEAT_SECONDS", 0.02)

    async def lead() -> None:
        async with Peer(leading=True, renew_deadline=0.2) as peer:
            await peer.read(lambda: peer.count(p.Lost), answer=False)
            assert peer.count(m.Heartbeat) >= 10

    asyncio.run(lead())


def test_an_elector_ended_before_its_start_sends_no_message() -> None:
    """A watch that is wanted, and not wanted any more, in one turn: Python would warn of it on standard error."""
    plan = plan_of(**TIMES)
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)

    async def elect() -> None:
        task = Loop(plan, Channel(ours), Log(verbosity=-1), (1, 1), _never)._tasks.spawn(asyncio.sleep(0))
        task.cancel()
        await asyncio.wait({task})

    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        asyncio.run(elect())
        gc.collect()
    assert not said
    theirs.close()
    ours.close()


@pytest.fixture
def elector() -> Iterator[Loop]:
    """One that was told of its term, and has no lock yet."""
    plan = plan_of(**TIMES)
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    made = Loop(plan, Channel(ours), Log(verbosity=-1), (1, -1), _never)
    made._term, made._timer = 3, system.Timer()
    made._watch_supervisor("i")
    yield made
    theirs.close()
    ours.close()


def test_the_electors_kill_at_moves_only_forward(elector: Loop) -> None:
    dog, now = elector._watchdog, system.clock()
    elector._perform(e.Acquired(now, now + 60, now + 90, "7", 0, 0))
    assert dog.kill_at == now + 90
    elector._perform(e.Renewed(now + 10, now + 70, now + 100))
    assert dog.kill_at == now + 100
    elector._perform(e.Renewed(now + 5, now + 65, now + 95))
    assert dog.kill_at == now + 100


def test_the_log_of_the_previous_leader_is_sent_before_the_term_begins(
    elector: Loop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An operator reads of the handover first, and then of the command that starts."""
    order: list[type] = []
    found = m.Succession("acquired the lock 1s after a released it", "a", True, 1.0)  # noqa: FBT003
    monkeypatch.setattr(elector._previous_holder, "succession", lambda _: found)
    monkeypatch.setattr(elector, "_send", lambda body: order.append(type(body)))
    elector._perform(e.Acquired(0.0, 60.0, 90.0, "7", 0, 0))
    assert order == [m.Succession, e.Acquired]


def test_the_elector_knows_the_supervisors_kill_at(elector: Loop) -> None:
    """A stopped one does not hear of renewals, and is killed by the kernel when the last one that it heard of ends."""
    dog, now = elector._watchdog, system.clock()
    assert dog.supervisor_kill_at == math.inf, "it has not begun"
    elector._on_message(m.Message(3, m.Alive(now + 80)))
    assert dog.supervisor_kill_at == now + 80
    elector._on_message(m.Message(2, m.Alive(now + 5)))
    assert dog.supervisor_kill_at == now + 80, "of another term"
    elector._on_message(m.Message(3, p.AllProcessesExited(False, "")))  # noqa: FBT003
    assert dog.supervisor_kill_at == dog.kill_at == math.inf


def test_a_replacement_elector_knows_the_supervisors_kill_at(elector: Loop) -> None:
    """That may be stopped before it answers a word, while the new elector renews on."""

    async def elect() -> None:
        elector._assigned(m.Assign("i", True, True, now, 0, 0, [], ""))  # noqa: FBT003
        dog = elector._watchdog
        elector._perform(e.Renewed(now + 10, now + 70, now + 100))
        assert dog.supervisor_kill_at == pytest.approx(plan_of(**TIMES).timing.kill_at(now))
        assert dog.kill_at == now + 100

    now = system.clock()
    asyncio.run(elect())


def test_an_elector_that_has_to_kill_stops_renewing(elector: Loop, monkeypatch: pytest.MonkeyPatch) -> None:
    fed: list[e.Event] = []
    monkeypatch.setattr(elector, "_step", fed.append)
    monkeypatch.setattr(elector, "_receive", lambda: None)
    dog = elector._watchdog
    monkeypatch.setattr(dog, "check", lambda: True)
    elector._on_timer()
    assert fed == [e.TimerFired()], "it has not begun to"
    elector._state = cast("State", object())
    elector._on_timer()
    assert isinstance(fed[1], e.SupervisorUnresponsive)


def test_an_answer_that_has_arrived_is_read_before_the_supervisor_counts_as_silent(
    elector: Loop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By one that was late itself."""
    done: list[str] = []
    dog = elector._watchdog
    monkeypatch.setattr(elector, "_receive", lambda: done.append("hear"))
    monkeypatch.setattr(dog, "check", lambda: done.append("check"))
    elector._on_timer()
    assert done == ["hear", "check"]


@pytest.mark.parametrize(("kill_now", "hurries"), [(True, True), (False, False)])
def test_the_elector_kills_now_when_another_candidate_may_lead(elector: Loop, *, kill_now: bool, hurries: bool) -> None:
    dog, now = elector._watchdog, system.clock()
    dog.kill_at = now + 90
    elector._perform(e.Lost("another leads", kill_now=kill_now))
    assert (dog.kill_at < now + 90) is hurries


class Held:
    """A lock that another has, for longer than this candidate would."""

    namespace = "n"
    properties = LockProperties()

    async def get(self, _timeout: float) -> Observed:
        return Observed(Record("other", 40, 1, 1, 1), "i", "1")

    async def watch(self, _after: Observed, _timeout: float) -> AsyncGenerator[Observed]:
        await asyncio.Event().wait()
        yield Observed(Record(), "", "2")


def observing_another_holder(assign: m.Assign) -> tuple[list[State], list[m.Body]]:
    """The states of an elector before and after it has read that another has the lock, and what it told meanwhile."""
    times = {"lease_duration": 15, "renew_deadline": 10.0, "retry_period": 2.0, "kill": 1.0, "grace": 0.5, "skew": 0.5}
    known: dict[str, Any] = {**times, "identity": "me", "request_timeout": 5.0}
    plan = plan_of(**known)
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    states: list[State] = []

    async def find_lock(_term: int, _assign: m.Assign) -> tuple[Lock, list[Follower]]:
        return cast("Lock", Held()), []

    async def follow() -> None:
        elector = Loop(plan, Channel(ours), Log(verbosity=-1), (1, -1), find_lock)
        elector._timer, elector._term = system.Timer(), 2
        await elector._begin(assign)
        assert elector._state
        assert elector._requests
        assert elector._requests.under_way
        states.append(elector._state)
        await elector._requests.under_way
        states.append(elector._state)

    asyncio.run(follow())
    told = Channel(theirs)
    said = [message.body for message in told.receive()]
    told.close()
    ours.close()
    return states, said


@pytest.mark.parametrize(("memory", "longest"), [("", 15), ("60 i", 60)])
def test_a_replacement_elector_waits_for_the_longest_duration_that_its_predecessor_observed(
    memory: str, longest: int
) -> None:
    before = system.clock()
    (state, _), _ = observing_another_holder(m.Assign("i", False, True, 0.0, 0, 0, [], memory))  # noqa: FBT003
    assert state.ever_held
    assert before + longest <= state.safe_at <= system.clock() + longest


def test_a_replacement_elector_sends_its_own_incarnation_first() -> None:
    _, said = observing_another_holder(m.Assign("i", False, True, 0.0, 0, 0, [], "60 i.1"))  # noqa: FBT003
    assert next(each for each in said if isinstance(each, m.ResumeState)) == m.ResumeState("60 i.2")


def test_a_holders_duration_is_sent_before_its_name() -> None:
    _, said = observing_another_holder(m.Assign("i", False, False, 0.0, 0, 0, [], ""))  # noqa: FBT003
    told = [each for each in said if isinstance(each, (m.ResumeState, p.NewLeader))]
    assert told == [m.ResumeState("40 i"), p.NewLeader("other")]


def test_messages_of_another_term_are_ignored(elector: Loop) -> None:
    """The command of a term that is over need not be killed, and its end disarms the watchdog of its term."""
    dog, tracker = elector._watchdog, elector._tracker
    dog.kill_at = system.clock() + 90
    elector._on_message(m.Message(2, m.Started(1, 1)))
    elector._on_message(m.Message(2, p.AllProcessesExited(True, "")))  # noqa: FBT003
    assert dog.kill_at < math.inf
    assert not tracker.has_command
    elector._on_message(m.Message(3, m.Started(1, 1)))
    assert tracker.has_command


def test_a_replacement_elector_kills_the_processes_that_its_predecessor_knew(
    monkeypatch: pytest.MonkeyPatch, processes: Processes
) -> None:
    monkeypatch.setattr("os._exit", sys.exit)
    plan = plan_of(**TIMES)
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)

    async def elect(started: list[list[int]]) -> None:
        elector = Loop(plan, Channel(ours), Log(verbosity=-1), (1, -1), _never)
        elector._timer = system.Timer()
        elector._assigned(m.Assign("i", True, True, system.clock(), 0, 0, started, ""))  # noqa: FBT003
        elector._supervisor_died()

    command = processes.start(["/bin/sleep", "600"])
    found = system.process(command.pid)
    assert found
    with pytest.raises(SystemExit):
        asyncio.run(elect([[found.pid, found.start]]))
    assert command.wait() == -9
    theirs.close()
    ours.close()


class Undying(ProcessTracker):
    """Some that die when they are looked for the third time."""

    sweeps = 0

    def kill_until_none(self, _kill_at: float = 0) -> bool:
        self.sweeps += 1
        return self.sweeps == 3


@pytest.mark.parametrize(("lock", "sweeps"), [(FOR_LIFE, 3), ("lease", 1)])
def test_an_elector_without_a_lock_stays_while_a_process_does_not_die(
    monkeypatch: pytest.MonkeyPatch, lock: str, sweeps: int
) -> None:
    monkeypatch.setattr("os._exit", sys.exit)
    plan = plan_of(**TIMES)._replace(lock=lock)
    ours, theirs = socket.socketpair()
    elector = Loop(plan, Channel(ours), Log(verbosity=-1), (1, 1), _never)
    elector._tracker = tracker = Undying(1, -1, "KLEADER_TERM_none")
    tracker.has_command = True
    with pytest.raises(SystemExit):
        elector._supervisor_died()
    assert tracker.sweeps == sweeps
    theirs.close()
    ours.close()


def test_a_shortage_of_descriptors_does_not_end_the_killing(
    monkeypatch: pytest.MonkeyPatch, processes: Processes
) -> None:
    """Too many open files on the machine: the guard goes on looking, and holds the lock meanwhile."""
    command = processes.start(["/bin/sleep", "600"])
    found = system.process(command.pid)
    assert found
    tracker = ProcessTracker(1, -1, "KLEADER_TERM_none")
    tracker.add(found.pid, found.start)
    looks: list[int] = []
    real = system.processes

    def short() -> dict[int, system.Process]:
        looks.append(1)
        if len(looks) <= 3:
            _too_many()
        command.popen.poll()
        return real()

    monkeypatch.setattr(system, "processes", short)
    assert tracker.kill_until_none()
    assert len(looks) == 5, "what the last resort did is no proof: nothing was found twice after it could be looked for"
    assert command.wait() == -9


def _too_many() -> NoReturn:
    raise OSError(24, "Too many open files")


def test_a_run_reported_before_the_elector_has_read_the_lock_is_recorded(elector: Loop) -> None:
    """It replaces one that died as the command ended, with --no-release."""
    elector._on_message(m.Message(3, m.Ran("7", 0, "exited", 1, 2)))
    elector._on_message(m.Message(3, p.AllProcessesExited(release=False, record=True)))
    assert elector._early == [e.AllProcessesExited(release=False, record=True)]
    assert elector._run_record.ran


@pytest.mark.parametrize(("asked", "by", "reason"), [
    (True, "root@ops", "asked to resign, by root@ops"),
    (True, "", "asked to resign"), (False, "root@ops", "asked to resign"),
])  # fmt: skip
def test_the_log_names_the_sender_of_a_request(
    elector: Loop, monkeypatch: pytest.MonkeyPatch, by: str, reason: str, *, asked: bool
) -> None:
    """A term that ends for another reason may leave a request unanswered on the lock."""
    sent: list[m.Body] = []
    monkeypatch.setattr(elector, "_requested_by", lambda: by)
    monkeypatch.setattr(elector, "_send", sent.append)
    elector._perform(e.StepDown("asked to resign", asked=asked))
    assert sent == [e.StepDown(reason, asked=asked)]
