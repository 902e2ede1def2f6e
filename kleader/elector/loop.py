"""Turns actions of the election into calls on a lock, and answers into events. No state of its own."""

from __future__ import annotations

import asyncio
import math
import os
import random
import time
from contextlib import aclosing
from typing import TYPE_CHECKING

from kleader import system
from kleader.election import events as e
from kleader.election.elector import Candidate, Phase, State, step
from kleader.election.timing import Timing
from kleader.elector import successor
from kleader.elector.api_run_record import RunRecord
from kleader.elector.measure import measured
from kleader.elector.predecessor import Predecessor
from kleader.elector.tasks import Tasks
from kleader.elector.watchdog import Watchdog
from kleader.exits import FAILED
from kleader.ipc import messages as m
from kleader.ipc.plan import FOR_LIFE
from kleader.kube.errors import LockError, SetUpError, WatchError
from kleader.kube.timeout import within
from kleader.procs.process_tracker import ProcessTracker

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from kleader.election.events import Observed
    from kleader.elector.k8s_events import EventRecorder
    from kleader.ipc.channel import Channel
    from kleader.ipc.plan import Plan
    from kleader.locks.base import Lock
    from kleader.log import Log

_PING = 1.0  # seconds between two heartbeats of a term; less than the supervisor waits for one
_RARELY = 2.5  # times as long while waiting; less than it waits for two of a term, which may begin meanwhile
_CREDENTIALS = 5.0  # seconds for them, however short the wait, which tries once: an interpreter starts, and imports
_PARTING = 0.5  # seconds: less than the supervisor waits for an elector that has nothing to release
_LAST_EVENTS = 0.5  # seconds that this process lives on for them, when all else is done


class Loop:
    """One elector, from its assignment to its end.

    ``find_lock`` is told what this elector was told first of all, and may raise SetUpError.

    ``supervisor`` is its pid and start time: the parent may be another by the time that this runs.
    """

    def __init__(
        self,
        plan: Plan,
        channel: Channel,
        log: Log,
        supervisor: tuple[int, int],
        find_lock: Callable[[m.Assign], Awaitable[tuple[Lock, EventRecorder]]],
    ) -> None:
        self._plan, self._channel, self._log, self._find_lock = plan, channel, log, find_lock
        self._supervisor, self._say = supervisor, channel.send
        self._timing = Timing(
            plan.lease_duration, plan.renew_deadline, plan.retry_period, plan.grace, plan.kill, plan.skew,
        )  # fmt: skip
        self._lock: Lock | None = None
        self._recorder: EventRecorder | None = None
        self._predecessor = Predecessor()
        self._run_record = RunRecord(plan, log)
        self._term = 0
        self._state: State | None = None
        self._tracker: ProcessTracker | None = None
        self._excluded: list[list[int]] = []  # by whom the supervisor was started beside
        self._cgroup = ""  # in which it was alone
        self._watchdog: Watchdog | None = None
        self._tasks = Tasks(log)
        self._requesting: asyncio.Task[None] | None = None
        self._watching: asyncio.Task[None] | None = None
        self._alarm: asyncio.TimerHandle | None = None
        self._early: list[e.Event] = []  # what the supervisor said before the lock was found
        self._fresh = False  # no elector before this one has written anything
        self._runs = False  # the command does, and is not asked to stop
        self._unanswered = 0  # heartbeats in a row
        self._over = asyncio.Event()

    async def run(self) -> None:
        """Until the election or the supervisor is over."""
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(self._tasks.on_error)
        self._timer = system.Timer()
        if (fd := _descriptor(self._timer)) is not None:
            loop.add_reader(fd, self._on_timer)
        loop.add_reader(self._channel.fd, self._on_link)
        self._tasks.spawn(self._ping())
        await self._over.wait()
        if self._recorder:
            await self._recorder.drain(_LAST_EVENTS)

    async def _begin(self, assign: m.Assign) -> None:
        plan = self._plan
        patience = max(plan.wait, _CREDENTIALS) if plan.wait and not assign.leading else None
        while self._lock is None:
            try:
                async with within(patience):
                    self._lock, self._recorder = await self._find_lock(assign)
            except (SetUpError, asyncio.TimeoutError) as error:
                reason = str(error) or "no credentials for the API server were found in the time given by --wait"
                if not assign.leading:
                    self._say(m.Failed(self._term, reason, FAILED))
                    self._over.set()
                    return
                self._log.repeated(reason, event="elector_set_up_failed")  # a term goes on as long as there is time
                await asyncio.sleep(_PING)
        if self._recorder:
            self._recorder.command(runs=self._runs)
        self._log.add_context(namespace=self._lock.namespace)
        me = Candidate(
            plan.identity,
            self._timing,
            min(plan.request_timeout, self._timing.request_timeout),
            *((math.inf, False, False) if self._term > 1 else _patience(plan)),
            **self._lock.properties._asdict(),
        )
        if assign.leading or assign.replaces:
            self._state = successor.resumed(me, assign, system.clock())
            if memory := successor.remember(self._term, None, self._state):
                self._say(memory)
        else:
            self._state = State(me, assign.incarnation)
        for event in (e.TimerFired(), *self._early):
            self._feed(event)

    @property
    def _namespace(self) -> str:
        return self._lock.namespace if self._lock else ""

    # --- the election

    def _feed(self, event: e.Event) -> None:
        """One step, at this instant, and all that it asks for."""
        if self._state is None:
            if not isinstance(event, e.TimerFired):
                self._early.append(event)
            self._arm()
            return
        now = e.Instant(system.clock(), time.time_ns() // 1000, random.random())  # noqa: S311 - spreads rivals
        before, (self._state, actions) = self._state, step(self._state, event, now)
        if memory := successor.remember(self._term, before, self._state):
            self._say(memory)
        if facts := measured(self._term, before, event, self._state, now.boot):
            self._say(facts)
        if self._lock and before.incarnation != self._state.incarnation:
            self._lock.register()
        self._predecessor.note(self._state, now.boot, self._log)
        if self._lock and self._recorder:
            self._recorder.follow(self._lock, self._state)
        verdicts = [
            action.reason for action in actions if isinstance(action, e.AcquireFailed) and action.status == FAILED
        ]
        for action in actions:
            if not (isinstance(action, e.Report) and action.message in verdicts):  # said once is enough
                self._perform(action)
        self._arm()

    def _arm(self) -> None:
        due = [self._state.wake_at] if self._state else []
        if self._watchdog:
            due.append(self._watchdog.due)
        at = min(due, default=math.inf)
        self._timer.arm(at)
        if _descriptor(self._timer) is None:
            if self._alarm:
                self._alarm.cancel()
            if at < math.inf:
                wait = max(0.0, at - system.clock())
                self._alarm = asyncio.get_running_loop().call_later(wait, self._on_timer)

    def _perform(self, action: e.Action) -> None:
        if isinstance(action, (e.Get, e.Write, e.Watch, e.Unwatch)):
            self._ask(action)
        elif isinstance(action, e.Acquired):
            self._lead(action)
        elif isinstance(action, e.Renewed):
            self._extend(action)
        elif isinstance(action, e.Lost):
            self._lose(action)
        elif isinstance(action, e.StepDown):
            self._say(m.Yield(self._term, action.reason, action.asked, action.to))
        elif isinstance(action, e.NewLeader):
            self._say(m.Observe(self._term, action.leader, self._namespace))
        elif isinstance(action, e.Report):
            self._log.repeated(action.message, event=action.event, usual=action.usual)
        elif isinstance(action, e.AcquireFailed):
            self._tasks.spawn(self._end(m.Failed(self._term, action.reason, action.status)))
        elif isinstance(action, e.Released):
            self._tasks.spawn(self._end(m.Released(self._term, action.released, action.why)))

    def _ask(self, action: e.Get | e.Write | e.Watch | e.Unwatch) -> None:
        if isinstance(action, (e.Watch, e.Unwatch)):
            self._stop_watching()
            if isinstance(action, e.Watch):
                self._watching = self._tasks.spawn(self._watch(action.seen))
            return
        if self._requesting:
            self._requesting.cancel()
        self._requesting = self._tasks.spawn(self._request(action))

    def _lead(self, lead: e.Acquired) -> None:
        self._log.role = "leader"
        if self._watchdog:
            self._watchdog.kill_at = lead.kill_at
        token, acquired, transitions = lead.token, lead.acquired, lead.transitions
        done = ""
        if self._lock and self._state and self._state.observed:  # the answer to the write that acquired it
            done = self._run_record.done(self._lock, self._state.observed)
        self._say(m.Lead(self._term, lead.stop_at, lead.kill_at, token, acquired, transitions, self._namespace, done))
        self._predecessor.tell(self._log, system.clock())
        if self._recorder:
            self._recorder.became_leader()

    def _lose(self, lost: e.Lost) -> None:
        self._say(m.Lost(self._term, lost.reason, lost.kill_now))
        if self._watchdog and lost.kill_now:
            self._watchdog.kill_now()

    def _extend(self, extend: e.Renewed) -> None:
        if self._watchdog:
            self._watchdog.kill_at = max(self._watchdog.kill_at, extend.kill_at)
        self._say(m.Extend(self._term, extend.stop_at, extend.kill_at))
        self._log.debug("renewed", event="renewed")

    async def _request(self, request: e.Get | e.Write) -> None:
        lock, timeout = self._lock, request.timeout
        assert lock is not None  # noqa: S101 - there is no state before there is a lock
        event: e.Event
        try:
            if isinstance(request, e.Get):
                event = e.GetDone(request, await lock.get(timeout))
            else:
                timeout -= await self._part(request, timeout / 2)
                self._run_record.prepare(lock)
                event = e.WriteDone(
                    request, await lock.write(request.base, request.record, request.incarnation, timeout)
                )
        except LockError as error:
            self._run_record.refused(lock, request, error.failure)
            event = e.RequestFailed(request, error.failure)
        if self._requesting is asyncio.current_task():
            self._requesting = None
        self._feed(event)

    async def _part(self, write: e.Write, timeout: float) -> float:
        """What comes before the lock is given up: the Pod's label, and the candidacy if it is not to be had again."""
        state = self._state
        if state is None or state.phase is not Phase.RELEASING:
            return 0.0
        took = await self._recorder.settle(timeout / 2) if self._recorder else 0.0
        return took + (0.0 if write.record.holder else await self._leave(timeout - took))

    async def _leave(self, timeout: float) -> float:
        """Before the lock is given up, and at any end: or the next might be this one again. Seconds that it took."""
        began = system.clock()
        try:
            if self._lock:
                await self._lock.unregister(timeout)
        except LockError as error:
            self._log.warning(
                f"cannot remove this candidate's LeaseCandidate, so the next leader may come late: {error}",
                event="candidate_not_removed",
            )
        return system.clock() - began

    async def _end(self, last_words: m.Message) -> None:
        await self._leave(min(self._plan.request_timeout, _PARTING))
        self._say(last_words)
        self._over.set()

    async def _watch(self, after: Observed | None) -> None:
        lock, mine = self._lock, asyncio.current_task()
        assert lock is not None  # noqa: S101
        ended = e.WatchEnded("the watch ended")
        try:
            async with aclosing(lock.watch(after, self._plan.request_timeout)) as states:
                async for seen in states:
                    if self._watching is not mine:  # a cancellation may be lost (before Python 3.12)
                        return
                    self._feed(e.WatchEvent(seen))
        except WatchError as error:
            ended = error.ended
        if self._watching is mine:
            self._watching = None
            self._feed(ended)

    def _stop_watching(self) -> None:
        watching, self._watching = self._watching, None
        if watching and watching is not asyncio.current_task():
            watching.cancel()

    # --- the supervisor

    def _on_link(self) -> None:
        for message in self._channel.receive():
            self._unanswered = 0
            if self._watchdog:
                self._watchdog.answered()
            self._hear(message)
        if not self._channel.open:
            self._deserted()
        self._arm()

    def _hear(self, message: m.Message) -> None:
        if isinstance(message, m.Assign):
            self._assigned(message)
        elif message.term != self._term:
            return
        elif isinstance(message, m.Alive) and self._watchdog:
            self._watchdog.supervisor_kill_at = message.kill_at
        elif isinstance(message, m.Started):
            if self._tracker:
                self._tracker.add(message.pid, message.start, message.excluded)
            self._tell_label(runs=True)
        elif isinstance(message, m.Stopping):
            self._tell_label(runs=False)
        elif isinstance(message, m.Ran):
            self._run_record.ran = message
        elif isinstance(message, m.Empty):
            self._all_exited(message)
        elif isinstance(message, m.Again):
            self._disarm()
            self._term += 1
            self._log.role = "candidate"
            self._guard(message.incarnation)
            self._feed(e.Restart(message.incarnation))

    def _all_exited(self, message: m.Empty) -> None:
        self._disarm()
        if self._recorder:
            self._recorder.unhealthy = message.unhealthy
        if self._fresh and self._state is None:
            self._tasks.spawn(self._end(m.Released(self._term, released=False, why="the lock was not found yet")))
        self._feed(e.AllProcessesExited(message.release, message.to, record=self._run_record.ran is not None))

    def _tell_label(self, *, runs: bool) -> None:
        self._runs = runs
        if self._recorder and self._state and self._state.phase is Phase.LEADING:
            self._recorder.command(runs=runs)

    def _assigned(self, assign: m.Assign) -> None:
        self._term, self._excluded, self._cgroup = assign.term, assign.excluded, assign.cgroup
        self._fresh = not (assign.leading or assign.replaces)
        self._runs = bool(assign.started)
        self._guard(assign.incarnation)
        for pid, start in assign.started:
            if self._tracker:
                self._tracker.add(pid, start)
        if self._tracker:
            self._tracker.scan()
        if self._watchdog and assign.leading:
            self._log.role = "leader"
            self._watchdog.kill_at = self._timing.kill_at(assign.t0)
            self._watchdog.supervisor_kill_at = self._watchdog.kill_at
        self._arm()
        self._tasks.spawn(self._begin(assign))

    def _guard(self, incarnation: str) -> None:
        self._tracker = ProcessTracker(*self._supervisor, m.MARKER + incarnation, self._excluded, self._cgroup)
        self._watchdog = Watchdog(self._tracker, self._log, self._plan.kill, lambda: self._say(m.Ping(self._term)))

    def _disarm(self) -> None:
        if self._watchdog:
            self._watchdog.disarm()

    def _deserted(self) -> None:
        """The supervisor is dead: what is left of its tree is killed; the lock is not released."""
        if self._tracker and self._tracker.has_command:
            kill_at = self._watchdog.deadline if self._watchdog else math.inf
            while not (cleared := self._tracker.kill_until_none(kill_at)):
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
        self._on_link()  # or who was late itself would take an answer for none
        if self._watchdog and self._watchdog.check() and self._state:
            self._feed(e.SupervisorUnresponsive("the supervisor did not act on its deadline"))
        self._feed(e.TimerFired())

    async def _ping(self) -> None:
        """Send heartbeats. The supervisor is judged by those that it leaves unanswered: a freeze is one of them."""
        while True:
            await asyncio.sleep(_RARELY * _PING if self._waits else _PING)
            if self._tracker:
                self._tracker.scan()
            self._on_link()  # what has come counts, however late this process is itself
            if not self._waits and self._unanswered * _PING > self._plan.renew_deadline:
                self._feed(e.SupervisorUnresponsive(f"the supervisor has not answered {self._unanswered} heartbeats"))
            if self._watchdog:
                self._unanswered += 1
                self._say(m.Ping(self._term))

    @property
    def _waits(self) -> bool:
        return self._state is not None and self._state.phase in {Phase.FOLLOWING, Phase.HOLDING}


def _descriptor(timer: system.Timer) -> int | None:
    """None on systems without timers that can be waited for."""
    return timer.fd


def _patience(plan: Plan) -> tuple[float, bool, bool]:
    """Until when to wait, whether to try once, whether to give up on a sign of life: of the first candidacy alone."""
    return (plan.started + plan.wait if plan.wait else math.inf), plan.wait == 0, plan.live
