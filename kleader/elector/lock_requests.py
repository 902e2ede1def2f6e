"""The election's requests of a lock, as calls on it; their answers are events of the election."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import TYPE_CHECKING

from kleader import system
from kleader.election import events as e
from kleader.kube.errors import LockError, WatchError
from kleader.kube.timeout import seconds_left

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kleader.election.events import Observed
    from kleader.elector.api_run_record import RunRecord
    from kleader.elector.best_effort import Follower
    from kleader.elector.tasks import Tasks
    from kleader.locks.base import Lock
    from kleader.log import Log


class LockRequests:
    """One Get or Write at a time, which a later one supersedes, and beside it one watch. ``step`` gets each event."""

    def __init__(  # noqa: PLR0913, PLR0917 - the parts that take part in a request
        self,
        lock: Lock,
        followers: Sequence[Follower],
        run_record: RunRecord,
        tasks: Tasks,
        log: Log,
        timeout: float,
        step: Callable[[e.Event], None],
    ) -> None:
        self.lock, self._followers, self._run_record = lock, followers, run_record
        self._tasks, self._log, self._timeout, self._step = tasks, log, timeout, step
        self.under_way: asyncio.Task[None] | None = None
        self._watching: asyncio.Task[None] | None = None

    def begin(self, action: e.Get | e.Write | e.Watch | e.Unwatch, *, ends_term: bool) -> None:
        """Do what the election asks for. ``ends_term``: a Write is the last one of its term."""
        if isinstance(action, (e.Watch, e.Unwatch)):
            self._stop_watching()
            if isinstance(action, e.Watch):
                self._watching = self._tasks.spawn(self._watch(action.after))
            return
        if self.under_way:
            self.under_way.cancel()
        self.under_way = self._tasks.spawn(self._request(action, ends_term=ends_term))

    async def unregister(self, timeout: float) -> None:
        """Stop being a candidate, so that this one is not named again."""
        try:
            await self.lock.unregister(timeout)
        except LockError as error:
            self._log.warning(
                f"cannot remove this candidate's LeaseCandidate, so the next leader may come late: {error}",
                event="candidate_not_removed",
            )

    async def _request(self, request: e.Get | e.Write, *, ends_term: bool) -> None:
        lock, timeout = self.lock, request.timeout
        event: e.Event
        try:
            if isinstance(request, e.Get):
                event = e.GetDone(request, await lock.get(timeout))
            else:
                if ends_term:
                    began = system.clock()
                    await self._before_last_write(request, timeout / 2)
                    timeout -= system.clock() - began
                lock.ends_term = ends_term
                self._run_record.prepare(lock)
                event = e.WriteDone(
                    request, await lock.write(request.base, request.record, request.incarnation, timeout)
                )
        except LockError as error:
            self._run_record.refused(lock, request, error.failure)
            event = e.RequestFailed(request, error.failure)
        if self.under_way is asyncio.current_task():
            self.under_way = None
        self._step(event)

    async def _before_last_write(self, write: e.Write, timeout: float) -> None:
        """The Pod's label changes first, and a candidate that releases the lock is none any more."""
        left = seconds_left(timeout)
        for follower in self._followers:
            await follower.settle(timeout / 2)
        if not write.record.holder:
            await self.unregister(left())

    async def _watch(self, after: Observed | None) -> None:
        mine = asyncio.current_task()
        ended = e.WatchEnded("the watch ended")
        try:
            async with aclosing(self.lock.watch(after, self._timeout)) as states:
                async for seen in states:
                    if self._watching is not mine:  # a cancellation may be lost (before Python 3.12)
                        return
                    self._step(e.WatchEvent(seen))
        except WatchError as error:
            ended = error.ended
        if self._watching is mine:
            self._watching = None
            self._step(ended)

    def _stop_watching(self) -> None:
        watching, self._watching = self._watching, None
        if watching and watching is not asyncio.current_task():
            watching.cancel()
