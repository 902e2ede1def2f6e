"""The runs that a lock at the API keeps: read when it is acquired, recorded when it is released."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kleader.election.events import Kind
from kleader.elector import run_record
from kleader.ipc.plan import FOR_LIFE
from kleader.kube.errors import LockError
from kleader.kube.timeout import seconds_left

if TYPE_CHECKING:
    from collections.abc import Callable

    from kleader.election.events import Failure, Observed
    from kleader.ipc.messages import Ran
    from kleader.ipc.plan import Plan
    from kleader.locks.base import Lock
    from kleader.log import Log

_MAX_SKEW_SECONDS = 60  # between the clocks of two API servers of one cluster


class RunRecord:
    """Of one elector."""

    def __init__(self, plan: Plan, log: Log) -> None:
        self._plan, self._log = plan, log
        self.ran: Ran | None = None  # in the term that ends now

    def done(self, lock: Lock, seen: Observed) -> str:
        """Why the command is not started, ``seen`` being the answer to the write that acquired the lock; "": it is."""
        if not run_record.has_once(self._plan):
            return ""
        return run_record.done(self._plan, lock.runs(seen), lock.server_time, _MAX_SKEW_SECONDS * run_record.SECOND)

    def prepare(self, lock: Lock) -> None:
        """Have the next write that releases the lock record the run."""
        if self.ran and self._plan.lock != FOR_LIFE:
            lock.ended_run = run_record.run_of(self._plan, self.ran, lock.server_time)

    def forget(self, lock: Lock) -> None:
        """A new candidacy begins."""
        if self.ran:
            self.ran = lock.ended_run = None

    def refused(self, lock: Lock, failure: Failure) -> None:
        """Release the lock without a record where the server refuses the write: the object may be full."""
        if self.ran and failure.kind is Kind.REFUSED:
            self.forget(lock)
            self._log.warning(f"the run is not recorded: {failure.message}", event="run_not_recorded")

    async def add(self, lock: Lock, incarnation: str, timeout: float) -> None:
        """Record the run though the lock is not released (--no-release), over the record of this very term."""
        if not self.ran or not run_record.has_once(self._plan):
            return
        left = seconds_left(timeout)
        try:
            while not await self._added(lock, self.ran, incarnation, left):
                pass
        except LockError as error:
            self._log.warning(f"the run is not recorded: {error}", event="run_not_recorded")

    async def _added(self, lock: Lock, ran: Ran, incarnation: str, left: Callable[[], float]) -> bool:
        """False: somebody has written the lock in between."""
        seen = await lock.get(left())
        if (seen.record.holder, seen.incarnation) != (self._plan.identity, incarnation):
            raise LockError(Kind.CONFLICT, "the lock is no longer ours")
        try:
            await lock.add_run(seen, run_record.run_of(self._plan, ran, lock.server_time), left())
        except LockError as error:
            if error.failure.kind is not Kind.CONFLICT:
                raise
            return False
        return True
