"""When each lease could be taken at the earliest: its record's duration after it was last seen to change."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from tests.bench.journal import clock
from tests.support.api import lease_path

if TYPE_CHECKING:
    from tests.support.plane import Plane


class Sight:
    """Watches one Lease, as a challenger would: its record counts from when its event has arrived here."""

    def __init__(self, plane: Plane, namespace: str, name: str) -> None:
        self._plane, self._path = plane, lease_path(namespace, name)
        self._seen: list[tuple[float, str, int]] = []  # when, holder, duration
        self._over = False
        threading.Thread(target=self._watch, daemon=True).start()

    def expiry(self, holder: str) -> float:
        """Return when the last record of this holder ran out, on :func:`clock`."""
        at, _, duration = [seen for seen in self._seen if seen[1] == holder][-1]
        return at + duration

    def end(self) -> None:
        """Let the thread end with its next event."""
        self._over = True

    def _watch(self) -> None:
        for _, found in self._plane.api.watch(self._path, timeout=3600):
            at = clock()
            spec = found["spec"]
            self._seen.append((at, spec.get("holderIdentity", ""), spec["leaseDurationSeconds"]))
            if self._over:
                return
