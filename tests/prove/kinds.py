"""The kinds of locks that are proven, with their timings and what may be expected of them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Kind:
    """A kind of lock by its option, and its timings in seconds."""

    name: str
    lock: str
    duration: float = 4
    deadline: float = 2.5
    period: float = 1
    options: tuple[str, ...] = ()
    slack: float = 0  # what finding the next leader may take beyond the expiry
    rivals: bool = False  # client-go's candidates contend, too

    @property
    def api(self) -> bool:
        return self.lock != "file"

    @property
    def for_life(self) -> bool:
        return self.lock == "leader-for-life"

    @property
    def expires(self) -> bool:
        """Whether a lock whose leader is silent runs out."""
        return self.api and not self.for_life

    @property
    def expiry(self) -> float:
        """How long a dead leader's lock may keep everybody out: its duration, and a retry."""
        return self.duration + self.period + self.slack if self.expires else self.slack

    def arguments(self) -> list[str]:
        """The options of `kleader run`, without the lock's name and place."""
        if not self.api:
            return [*self.options]
        timings = [f"--{name}={value:g}s" for name, value in self._timings()]
        return [f"--lock={self.lock}", *timings, *self.options]

    def _timings(self) -> list[tuple[str, float]]:
        return [
            ("lease-duration", self.duration),
            ("renew-deadline", self.deadline),
            ("retry-period", self.period),
        ]


VERSIONS = ("--coordinated", "--binary-version=1.36.0", "--emulation-version=1.36.0")
FILE = Kind("file", "file", slack=1)
LEASE = Kind("lease", "lease")
CONFIGMAP = Kind("configmap", "configmap")
ENDPOINTS = Kind("endpoints", "endpoints")
CONFIGMAPSLEASES = Kind("configmapsleases", "configmapsleases")
ENDPOINTSLEASES = Kind("endpointsleases", "endpointsleases")
COORDINATED = Kind("coordinated", "lease", options=VERSIONS, slack=10)  # it asks whom it names whether they live
MIXED = Kind("lease-beside-client-go", "lease", slack=1, rivals=True)  # which polls
FOR_LIFE = Kind("leader-for-life", "leader-for-life", 6, 4, slack=3)

#: Who shares a control plane, and its faults.
GROUPS = (
    (LEASE, MIXED, FILE, CONFIGMAP, ENDPOINTSLEASES),
    (MIXED, FOR_LIFE, COORDINATED, ENDPOINTS, CONFIGMAPSLEASES),
)
