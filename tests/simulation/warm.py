"""Schedules in which every kleader has a standby."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.simulation.machine import Machine
from tests.simulation.schedule import Schedule

if TYPE_CHECKING:
    from tests.simulation.host import Host


class WarmSchedule(Schedule):
    """A fleet on a Lease."""

    patience = 30.0  # a standby that does not die costs the lock for a renew deadline; so may the next one's

    def __init__(self, seed: int) -> None:
        super().__init__(seed, "lease")

    def join(self, kind: str, name: str, identity: str) -> Host:
        """One more candidate."""
        host = super().join(kind, name, identity)
        if isinstance(host, Machine):
            host.warm = True
        return host
