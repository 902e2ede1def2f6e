"""A lock in a Lease whose holder the control plane names (KEP-4355), among the candidates with a LeaseCandidate.

The record and its rules are a Lease's. The control plane's own fields beside the record are kept, as client-go keeps
them, and read.
"""

from __future__ import annotations

from contextlib import aclosing
from dataclasses import replace
from math import inf
from typing import TYPE_CHECKING, Any

from kleader.election.events import Kind
from kleader.kube.errors import LockError, WatchError
from kleader.kube.timeout import seconds_left
from kleader.locks.base import LockProperties
from kleader.locks.lease import LeaseLock

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from kleader.election.events import Observed
    from kleader.election.record import Record
    from kleader.locks.lease_candidate import LeaseCandidate


class CoordinatedLease(LeaseLock):
    """A Lease. ``candidate`` is registered after the lock was read: so what was there before a nomination is known.

    Where there is no Lease, it is registered when a watch has shown that: so the first candidate of all has seen that
    nothing but its nomination has happened.
    """

    properties = LockProperties(coordinated=True)
    candidate: LeaseCandidate
    registers_at_once = False  # by the first read: a candidate that tries once does not watch
    _was_missing = False

    async def get(self, timeout: float) -> Observed:
        """The Lease now. A candidate that may hold it reads it though its LeaseCandidate cannot be written."""
        left = seconds_left(timeout)
        try:
            seen = await super().get(timeout)
        except LockError as error:
            if error.failure.kind is Kind.MISSING:
                if self._was_missing or self.registers_at_once:  # there is no watch, or it has ended
                    await self.candidate.ensure_registered(left())
                self._was_missing = True
            raise
        if seen.record.holder == self.candidate.identity:
            self.candidate.keep_registered()
        else:
            await self.candidate.ensure_registered(left())
        return seen

    async def watch(self, after: Observed | None, timeout: float) -> AsyncGenerator[Observed | None, None]:
        """Each later state of the Lease."""
        async with aclosing(super().watch(after, timeout)) as states:
            async for seen in states:
                yield seen
                try:
                    await self.candidate.ensure_registered(timeout)
                except LockError as error:  # the next read says so
                    raise WatchError(str(error), moved=True) from None

    def register(self) -> None:
        """The next read of the lock creates the LeaseCandidate again."""
        self.candidate.register()

    async def unregister(self, timeout: float) -> None:
        """Delete the LeaseCandidate: else the control plane would name this candidate again at once."""
        await self.candidate.unregister(timeout)

    def observed(self, found: dict[str, Any]) -> Observed:
        """The observation, with the control plane's fields, and whether a candidate has written it.

        Each candidate, client-go's too, writes leaseTransitions. A nominated candidate that writes nothing is dead.
        """
        seen = super().observed(found)
        if seen.record.holder:
            self.candidate.schedule_renewals(seen.record.duration if seen.record.acquired is None else inf)
        spec = found.get("spec")
        if not isinstance(spec, dict):
            return seen
        is_new = seen.record.acquired is None and spec.get("leaseTransitions") is None and not seen.incarnation
        preferred = str(spec.get("preferredHolder") or "")
        return replace(seen, preferred=preferred, only_control_plane_wrote=is_new and not seen.fault)

    def encode(self, body: dict[str, Any], record: Record) -> None:
        """Keep the strategy, and while the lock is held the preferred holder."""
        spec = body.get("spec") or {}
        kept = ("strategy", "preferredHolder") if record.holder else ("strategy",)
        super().encode(body, record)
        body["spec"] |= {key: spec[key] for key in kept if spec.get(key)}
