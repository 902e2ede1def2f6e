"""One lock, followed until something is observed: what ``wait``, ``resign`` and ``transfer`` have in common."""

from __future__ import annotations

import asyncio
import math
from typing import TYPE_CHECKING, NoReturn, TypeVar, cast

from kleader import system
from kleader.cli import locate
from kleader.cli.console import RepeatedWarning, fail
from kleader.election.duration import text
from kleader.election.events import Kind
from kleader.exits import FAILED, NOT_DONE
from kleader.kube.client import ApiClient
from kleader.kube.errors import LockError
from kleader.locks import base, factory
from kleader.observe.follow import follow_locks
from kleader.observe.tracker import LockTracker

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Coroutine

    from kleader.cli.locate import Query
    from kleader.locks.object_lock import ObjectLock
    from kleader.observe.kube_source import KubeSource
    from kleader.observe.snapshot import LockStatus
    from kleader.observe.tracker import Change

T = TypeVar("T")
_PERMANENT = {Kind.DENIED, Kind.REFUSED, Kind.PERMANENT}
_RETRY_SECONDS = 0.2  # before a request that failed is sent again


class TimeIsUpError(Exception):
    """The time is up. The message is the problem that kept the lock's state unknown, "" if the state is known."""


class FollowedLock:
    """A lock, followed until ``end`` (CLOCK_BOOTTIME). ``permissions``: what its commands need, for error messages.

    ``api``, ``namespace``, ``objects``: of a lock at the API, once it is followed.
    """

    api: ApiClient
    namespace: str

    def __init__(self, query: Query, seconds: float, permissions: str = "") -> None:
        self.query, self.seconds, self._permissions = query, seconds, permissions
        self.end = system.clock() + seconds
        self.check_at = math.inf  # when to yield the status once more even if nothing has changed
        self.objects: list[ObjectLock] = []  # that the lock is kept in, the primary first; none of a lock file
        self.problem = "no answer yet"
        self._last_error = ""

    async def statuses(self) -> AsyncGenerator[tuple[LockStatus | None, list[Change]], None]:
        """The status, None if there is no such lock, and what has changed: at each change, and at ``check_at``.

        TimeIsUpError at ``end``; exits with 125 if the first answer is an error that does not pass.
        """
        query = self.query
        sources, namespace = await locate.sources(query)
        if query.kind != "file":
            self.api, self.namespace = ApiClient(cast("KubeSource", sources[0]).api.credentials), namespace
            self.objects = factory.component_locks(query.kind, base.Place(self.api, namespace, query.name))
        clock, warning = locate.Clock(sources), RepeatedWarning()
        tracker = LockTracker(len(sources), query.kind, by_name=True)
        was_read = False
        async for update in follow_locks(sources, tracker, clock.now, self._wake_at):
            if update.error:
                self._last_error = str(update.error)
                if not was_read:
                    self._fail_if_permanent(update.error)
                warning.warn(self._last_error)
            self.problem = "" if tracker.is_current else self._last_error or "no answer yet"
            if system.clock() >= self.end:
                raise TimeIsUpError(self.problem)
            if tracker.is_current:
                statuses = tracker.statuses(system.clock(), clock.now())
                yield statuses[0] if statuses else None, update.changes
                was_read = True

    def _wake_at(self) -> float:
        return min(self.end, self.check_at) if self.check_at > system.clock() else self.end

    async def retry(self, attempt: Callable[[], Coroutine[None, None, T]]) -> T | None:
        """The result of the requests of ``attempt``, which is made again after an error; None if the object is missing.

        TimeIsUpError at the end; exits with 125 if the error does not pass.
        """
        while True:
            try:
                return await attempt()
            except LockError as error:
                if error.failure.kind is Kind.MISSING:
                    return None
                self._fail_if_permanent(error)
                if error.failure.kind is not Kind.CONFLICT:
                    self._last_error = str(error)
                pause = max(_RETRY_SECONDS, error.failure.retry_after)
            if system.clock() + pause >= self.end:
                raise TimeIsUpError(self._last_error)
            await asyncio.sleep(pause)

    def _fail_if_permanent(self, error: LockError) -> None:
        if error.failure.kind in _PERMANENT:
            denied = self._permissions and error.failure.kind is Kind.DENIED
            fail(f"{error}{f'; this command needs {self._permissions}' if denied else ''}", FAILED)

    def fail_missing(self) -> NoReturn:
        """Exit, because there is no such lock at the API."""
        fail(f"there is no {self.query.kind} lock {self.query.name} in the namespace {self.namespace}", NOT_DONE)

    def fail_late(self, problem: str, message: str, status: int) -> NoReturn:
        """Exit with the message and status, or with 125 if a problem kept the lock's state unknown."""
        if problem:
            fail(f"the state of the lock is unknown after {text(self.seconds)}: {problem}", FAILED)
        fail(f"{message} within {text(self.seconds)}", status)
