"""The lock in a Lease whose holder the control plane names (KEP-4355), among those that have a LeaseCandidate.

The Lease is what it is without: the same record, under the same rules. Beside it the control plane's own fields are
kept, as client-go keeps them, and read: whom it would rather have lead, and whether anybody but itself wrote the lock.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from math import inf
from typing import TYPE_CHECKING, Any, Protocol

from kleader.election.events import Kind
from kleader.locks.base import LockError, Traits
from kleader.locks.lease import Lease

if TYPE_CHECKING:
    from kleader.election.events import Observed
    from kleader.election.record import Record

    class Candidate(Protocol):
        """How the control plane knows of this candidate; see LeaseCandidate."""

        identity: str

        async def register(self, timeout: float) -> None:
            """Be known from now on."""

        def keep(self) -> None:
            """See to it, whenever that succeeds."""

        def again_in(self, seconds: float) -> None:
            """Give another sign of life then; inf: no more than usual."""

        def vacant(self) -> None:
            """Give another one in time, if the end of a term was announced by asking for one."""

        def enter(self) -> None:
            """Do so again after that."""

        async def leave(self, timeout: float) -> None:
            """Be known no more."""


class Coordinated(Lease):
    """One Lease, for a ``candidate`` that is registered once the lock has been read.

    In this order, so that what was there before it was named is known.
    """

    traits = Traits(coordinated=True)
    candidate: Candidate

    async def get(self, timeout: float) -> Observed:
        """The Lease as it is now. Who may hold it reads it whatever becomes of the LeaseCandidate."""
        clock = asyncio.get_running_loop().time
        end = clock() + timeout
        try:
            seen = await super().get(timeout)
        except LockError as error:
            if error.failure.kind is Kind.MISSING:
                await self.candidate.register(end - clock())
            raise
        if seen.record.holder == self.candidate.identity:
            self.candidate.keep()
        else:
            await self.candidate.register(end - clock())
        return seen

    def enter(self) -> None:
        """Have one when the lock is read next."""
        self.candidate.enter()

    async def leave(self, timeout: float) -> None:
        """Have no LeaseCandidate any more: else the control plane names this one again at once."""
        await self.candidate.leave(timeout)

    def observed(self, found: dict[str, Any]) -> Observed:
        """With what the control plane says; each candidate, client-go's too, writes the transitions."""
        seen = super().observed(found)
        if seen.record.holder:  # one who was named and never writes is dead
            self.candidate.again_in(seen.record.duration if seen.record.acquired is None else inf)
        elif not seen.fault:
            self.candidate.vacant()
        spec = found.get("spec")
        if not isinstance(spec, dict):
            return seen
        never = seen.record.acquired is None and spec.get("leaseTransitions") is None and not seen.incarnation
        return replace(seen, preferred=str(spec.get("preferredHolder") or ""), untouched=never and not seen.fault)

    def encode(self, body: dict[str, Any], record: Record) -> None:
        """The strategy stays, and who is preferred as long as somebody else holds the lock."""
        spec = body.get("spec") or {}
        kept = ("strategy", "preferredHolder") if record.holder else ("strategy",)
        super().encode(body, record)
        body["spec"] |= {key: spec[key] for key in kept if spec.get(key)}
