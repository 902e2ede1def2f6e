"""A lock in a coordination.k8s.io/v1 Lease, as client-go's LeaseLock keeps it.

The Lease is created by PUT, which ``create`` with resourceNames permits, and which never overwrites a Lease.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kleader.election.record import from_lease_spec, to_lease_spec
from kleader.locks.object_lock import ObjectLock

if TYPE_CHECKING:
    from kleader.election.record import Record


class LeaseLock(ObjectLock):
    """A Lease. A write replaces its whole spec, as client-go's does."""

    api_version = "coordination.k8s.io/v1"
    kind = "Lease"
    plural = "leases"

    def decode(self, found: dict[str, Any]) -> Record:
        """The record in the spec."""
        return from_lease_spec(found.get("spec"))

    def encode(self, body: dict[str, Any], record: Record) -> None:
        """Put the record into the spec."""
        body["spec"] = to_lease_spec(record)

    async def create(self, body: dict[str, Any], timeout: float, query: str = "") -> dict[str, Any]:
        """PUT without a resourceVersion: refused if there is a Lease."""
        return await self._api.call("PUT", self._target + query, body, timeout)
