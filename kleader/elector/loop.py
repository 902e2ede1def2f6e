"""One elector: an election between a lock, whose answers are its events, and a supervisor, to which it answers."""

from __future__ import annotations

import asyncio
import math
import os
import random
import time
from typing import TYPE_CHECKING

from kleader import system
from kleader.election import events as e
from kleader.election.step_function import Candidate, Phase, State, step
from kleader.elector import resumption
from kleader.elector.api_run_record import RunRecord
from kleader.elector.lock_requests import LockRequests
from kleader.elector.measure import measured
from kleader.elector.previous_holder import PreviousHolder
from kleader.elector.tasks import Tasks
from kleader.elector.watchdog import Watchdog
from kleader.exits import FAILED
from kleader.ipc import messages as m
from kleader.ipc.plan import FOR_LIFE
from kleader.kube.errors import SetUpError
from kleader.kube.timeout import within
from kleader.procs.process_tracker import ProcessTracker

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from kleader.elector.best_effort import Follower
    from kleader.ipc.channel import Channel
    from kleader.ipc.plan import Plan
    from kleader.locks.base import Lock
    from kleader.log import Log

_HEARTBEAT_SECONDS = 1.0  # between two heartbeats of a term; less than the supervisor waits for one
_WAITING_FACTOR = 2.5  # times as long while a candidate waits; less than two periods of a term, which may begin
_MIN_SET_UP_SECONDS = 5.0  # however short the wait, which tries once: an interpreter starts, and imports
_UNREGISTER_SECONDS = 0.5  # less than the supervisor waits for an elector that has nothing to release
_DRAIN_SECONDS = 0.5  # that this process waits at its end for Events under way


class Loop:
    """One elector, from its assignment to its end.

    ``find_lock`` gets the candidacy's number and the Assign; it may raise SetUpError. ``supervisor``: its pid and start
    time, for the parent may be another process by the time that this runs.
    """

    def __init__(
        self,
        plan: Plan,
        channel: Channel,
        log: Log,
        supervisor: tuple[int, int],
        find_lock: Callable[[int, m.Assign], Awaitable[tuple[Lock, list[Follower]]]],
    ) -> None:
        self._plan, self._channel, self._log, self._find_lock = plan, channel, log, find_lock
        self._supervisor = supervisor
        self._requests: LockRequests | None = None  # None: the lock is not found yet
        self._followers: list[Follower] = []
        self._previous_holder = PreviousHolder()
        self._run_record = RunRecord(plan, log)
        self._term = 0
        self._state: State | None = None
        self._excluded: list[list[int]] = []  # the bystanders that the supervisor found: pid and start time of each
        self._cgroup = ""  # the directory of the cgroup that kleader was started alone in; "": none
        self._tasks = Tasks(log)
        self._alarm: asyncio.TimerHandle | None = None
        self._early: list[e.Event] = []  # events that came before the lock was found
        self._fresh = False  # no earlier elector of this candidacy has written to the lock
        self._runs = False  # the command runs, and has not been asked to stop
        self._unhealthy = False  # why the candidacy ends
        self._unanswered = 0  # heartbeats in a row
        self._ended = asyncio.Event()
        self._watch_supervisor("")

    async def run(self) -> None:
        """Until the election or the supervisor is over."""
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(self._tasks.on_error)
        self._timer = system.Timer()
        if (fd := _descriptor(self._timer)) is not None:
            loop.add_reader(fd, self._on_timer)
        loop.add_reader(self._channel.fd, self._receive)
        self._tasks.spawn(self._send_heartbeats())
        await self._ended.wait()
        ends = (follower.end(_DRAIN_SECONDS, unhealthy=self._unhealthy) for follower in self._followers)
        await asyncio.gather(*ends)

    async def _begin(self, assign: m.Assign) -> None:
        plan = self._plan
        wait, timeout = plan.wait_of(self._term), None
        if wait.until < math.inf and not assign.leading:
            timeout = max(_MIN_SET_UP_SECONDS, wait.until - system.clock())
        found: tuple[Lock, list[Follower]] | None = None
        while found is None:
            try:
                async with within(timeout):
                    found = await self._find_lock(self._term, assign)
            except (SetUpError, asyncio.TimeoutError) as error:
                reason = str(error) or "no credentials for the API server were found in the time given by --wait"
                if not assign.leading:
                    self._send(e.AcquireFailed(reason, FAILED))
                    self._ended.set()
                    return
                self._log.repeated(reason, event="elector_set_up_failed")  # a term goes on as long as there is time
                await asyncio.sleep(_HEARTBEAT_SECONDS)
        lock, self._followers = found
        self._requests = LockRequests(
            lock, self._followers, self._run_record, self._tasks, self._log, plan.request_timeout, self._step
        )
        for follower in self._followers:
            follower.command(runs=self._runs)
        self._log.add_context(namespace=lock.namespace)
        self._send(m.LockFound(lock.namespace))
        me = Candidate(plan.identity, plan.timing, plan.request_timeout, *wait, **lock.properties._asdict())
        if assign.leading or assign.replaces:
            self._state = resumption.resumed(me, assign, system.clock())
            if resume_state := resumption.resume_state(None, self._state):
                self._send(resume_state)
        else:
            self._state = State(me, assign.incarnation)
        for event in (e.TimerFired(), *self._early):
            self._step(event)

    # --- the election

    def _step(self, event: e.Event) -> None:
        """One step, at this instant, and all that it asks for."""
        if self._state is None:
            if not isinstance(event, e.TimerFired):
                self._early.append(event)
            self._arm()
            return
        now = e.Instant(system.clock(), time.time_ns() // 1000, random.random())  # noqa: S311 - spreads rivals
        before, (self._state, actions) = self._state, step(self._state, event, now)
        if resume_state := resumption.resume_state(before, self._state):
            self._send(resume_state)
        if facts := measured(before, event, self._state, now.boot):
            self._send(facts)
        if self._requests and before.incarnation != self._state.incarnation:
            self._requests.lock.register()
        self._previous_holder.note(self._state, now.boot)
        for follower in self._followers:
            follower.follow(self._state)
        failures = [each.reason for each in actions if isinstance(each, e.AcquireFailed) and each.status == FAILED]
        for action in actions:
            if not (isinstance(action, e.Report) and action.message in failures):  # the supervisor logs it
                self._perform(action)
        self._arm()

    def _arm(self) -> None:
        at = min(self._watchdog.due, self._state.wake_at if self._state else math.inf)
        self._timer.arm(at)
        if _descriptor(self._timer) is None:
            if self._alarm:
                self._alarm.cancel()
            if at < math.inf:
                wait = max(0.0, at - system.clock())
                self._alarm = asyncio.get_running_loop().call_later(wait, self._on_timer)

    def _perform(self, action: e.Action) -> None:
        match action:
            case e.Get() | e.Write() | e.Watch() | e.Unwatch():
                assert self._requests and self._state  # noqa: S101, PT018 - there is no action before
                self._requests.begin(action, ends_term=self._state.phase is Phase.RELEASING)
            case e.Report(event, message, info):
                self._log.repeated(message, event=event, info=info, growing=True)
            case e.AcquireFailed() | e.Released():
                self._tasks.spawn(self._end(action))
            case e.Acquired():
                self._acquired(action)
            case e.StepDown(reason, asked=True) if by := self._requested_by():
                self._send(action._replace(reason=f"{reason}, by {by}"))
            case e.Renewed(_, _, kill_at):
                self._watchdog.kill_at = max(self._watchdog.kill_at, kill_at)
                self._send(action)
                self._log.debug("renewed", event="renewed")
            case e.Lost(_, kill_now):
                self._send(action)
                if kill_now:
                    self._watchdog.kill_now()
            case _:
                self._send(action)

    def _acquired(self, acquired: e.Acquired) -> None:
        self._log.role = "leader"
        self._watchdog.kill_at = acquired.kill_at
        done = ""
        if self._requests and self._state and self._state.observed:  # the answer to the write that acquired it
            done = self._run_record.done(self._requests.lock, self._state.observed)
        if succession := self._previous_holder.succession(system.clock()):
            self._send(succession)
        self._send(acquired._replace(done=done))
        for follower in self._followers:
            follower.became_leader()

    def _requested_by(self) -> str:
        observed = self._state.observed if self._state else None  # it shows the request
        return self._requests.lock.requested_by(observed) if self._requests and observed else ""

    async def _end(self, outcome: e.AcquireFailed | e.Released) -> None:
        if self._requests:
            await self._requests.unregister(min(self._plan.request_timeout, _UNREGISTER_SECONDS))
        self._send(outcome)
        self._ended.set()

    # --- the supervisor

    def _send(self, body: m.Body) -> None:
        self._channel.send(self._term, body)

    def _receive(self) -> None:
        for message in self._channel.receive():
            self._unanswered = 0
            self._watchdog.answered()
            self._on_message(message)
        if not self._channel.open:
            self._supervisor_died()
        self._arm()

    def _on_message(self, message: m.Message) -> None:
        match message.body:
            case m.Assign() as assign:
                self._term = message.term
                self._assigned(assign)
            case _ if message.term != self._term:
                return
            case m.Alive(kill_at):
                self._watchdog.supervisor_kill_at = kill_at
            case m.Started(pid, start, excluded):
                self._tracker.add(pid, start, excluded)
                self._note_command(runs=True)
            case m.Stopping():
                self._note_command(runs=False)
            case m.Ran() as ran:
                self._run_record.ran = ran
            case e.AllProcessesExited() as exited:
                self._all_exited(exited)
            case e.Restart(incarnation) as restart:
                self._watchdog.disarm()
                self._term += 1
                self._log.role = "candidate"
                self._watch_supervisor(incarnation)
                self._step(restart)

    def _all_exited(self, exited: e.AllProcessesExited) -> None:
        self._watchdog.disarm()
        self._unhealthy = exited.unhealthy
        if self._fresh and self._state is None:
            self._tasks.spawn(self._end(e.Released(released=False, why="the lock was not found yet")))
        self._step(exited)

    def _note_command(self, *, runs: bool) -> None:
        self._runs = runs
        for follower in self._followers if self._state and self._state.phase is Phase.LEADING else ():
            follower.command(runs=runs)

    def _assigned(self, assign: m.Assign) -> None:
        self._excluded, self._cgroup = assign.excluded, assign.cgroup
        self._fresh = not (assign.leading or assign.replaces)
        self._runs = bool(assign.started)
        self._watch_supervisor(assign.incarnation)
        for pid, start in assign.started:
            self._tracker.add(pid, start)
        self._tracker.scan()
        if assign.leading:
            self._log.role = "leader"
            self._watchdog.kill_at = self._plan.timing.kill_at(assign.t0)
            self._watchdog.supervisor_kill_at = self._watchdog.kill_at
        self._arm()
        self._tasks.spawn(self._begin(assign))

    def _watch_supervisor(self, incarnation: str) -> None:
        self._tracker = ProcessTracker(*self._supervisor, m.MARKER + incarnation, self._excluded, self._cgroup)
        self._watchdog = Watchdog(self._tracker, self._log, self._plan.timing.kill, lambda: self._send(m.Heartbeat()))

    def _supervisor_died(self) -> None:
        """The supervisor is dead: kill what is left of its tree, then exit without a release."""
        if self._tracker.has_command:
            while not (cleared := self._tracker.kill_until_none(self._watchdog.deadline)):
                self._log.repeated("some processes of the command do not die", event="processes_not_killed")
                if self._plan.lock != FOR_LIFE:  # else nothing but this process keeps others away
                    break
            did = "killed the remaining processes of" if cleared else "could not kill all processes of"
            self._log.error(
                f"the supervisor died: {did} the command; the lock is not released", event="supervisor_died"
            )
        self._log.finish()
        os._exit(FAILED)

    def _on_timer(self) -> None:
        self._timer.drain()
        self._receive()  # an elector that was late itself may have an answer to read
        if self._watchdog.check() and self._state:
            self._step(e.SupervisorUnresponsive("the supervisor did not act on its deadline"))
        self._step(e.TimerFired())

    async def _send_heartbeats(self) -> None:
        """Send heartbeats, and count those without an answer: not seconds, for the machine may have been frozen."""
        while True:
            await asyncio.sleep(_WAITING_FACTOR * _HEARTBEAT_SECONDS if self._waits else _HEARTBEAT_SECONDS)
            self._tracker.scan()
            self._receive()  # what has come counts, however late this process is itself
            if not self._waits and self._unanswered * _HEARTBEAT_SECONDS > self._plan.timing.renew_deadline:
                self._step(e.SupervisorUnresponsive(f"the supervisor has not answered {self._unanswered} heartbeats"))
            self._unanswered += 1
            self._send(m.Heartbeat())

    @property
    def _waits(self) -> bool:
        return self._state is not None and self._state.phase in {Phase.FOLLOWING, Phase.HOLDING}


def _descriptor(timer: system.Timer) -> int | None:
    """None on systems without timers that can be waited for."""
    return timer.fd
