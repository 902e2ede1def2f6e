"""The runs that a lock at the API keeps: read when it is acquired, recorded by the last write of a term."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kleader.election.events import Get, Kind
from kleader.elector import run_record

if TYPE_CHECKING:
    from kleader.election.events import Failure, Observed, Write
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
        """Have each write record the run, once it has ended."""
        if self.ran:
            lock.ended_run = run_record.run_of(self._plan, self.ran, lock.server_time)

    def refused(self, lock: Lock, request: Get | Write, failure: Failure) -> None:
        """Release the lock without a record or a recommendation where the server refuses the write: it may be full."""
        if failure.kind is not Kind.REFUSED or isinstance(request, Get):
            return
        lock.recommended = ""
        if self.ran and lock.ended_run:
            self.ran = lock.ended_run = None
            self._log.warning(f"did not record the run: {failure.message}", event="run_not_recorded")
