"""The arithmetic that the promise rests on.

D  lease_duration, as advertised: whole seconds, at least 1
R  renew_deadline: a leader that could not renew for so long gives up
P  retry_period: at least 1 s
G  grace between the stop signal and SIGKILL when leadership is lost
K  kill budget (``kill``): from SIGKILL to a tree that is reaped
S  allowance for clocks that run at different rates (``skew``)

A term that was renewed by a request sent at t0 stops its command at ``t0 + R`` and has killed what is left of it at
``t0 + D - K - S``. So the whole must fit: R + G + K + S <= D. S = D/10 covers two clocks that are 5 % off in opposite
directions (1.05 / 0.95 = 1.105). The other two rules are client-go's (NewLeaderElector): D > R > 1.2 * P.
"""

from __future__ import annotations

from typing import NamedTuple

from kleader.election.duration import text

JITTER = 1.2  # client-go's JitterFactor
MAX_GRACE = 3.0
KILL_BUDGET = 0.5
FIRST_TRY = 1.0  # seconds that a first try to acquire gets, however short the wait: it finds the API server first


class TimingError(ValueError):
    """Timings that cannot be safe; the message shows the sum."""


class Timing(NamedTuple):
    """Checked timings, all in seconds. Make one with :func:`choose`."""

    lease_duration: int
    renew_deadline: float
    retry_period: float
    grace: float
    kill: float
    skew: float

    def stop_at(self, t0: float) -> float:
        """When a term last renewed by a request sent at ``t0`` is given up."""
        return t0 + self.renew_deadline

    def kill_at(self, t0: float) -> float:
        """When nothing of that term's command may be alive without having been sent SIGKILL."""
        return t0 + self.lease_duration - self.kill - self.skew

    @property
    def request_timeout(self) -> float:
        """The longest that one request may take: half the renew deadline, so that after a hung one another fits."""
        return self.renew_deadline / 2


def choose(  # noqa: PLR0913 - the six letters of the arithmetic
    lease_duration: float,
    renew_deadline: float,
    retry_period: float,
    *,
    grace: float | None = None,
    kill: float | None = None,
    skew: float | None = None,
) -> Timing:
    """Check what was given and derive what was not; TimingError shows the sum that does not fit."""
    advertised = int(lease_duration)
    if advertised < 1:
        msg = f"lease duration {text(lease_duration)}: whole seconds are advertised, so it must be at least 1s"
        raise TimingError(msg)
    if lease_duration <= renew_deadline:
        msg = f"lease duration {text(lease_duration)} must be greater than renew deadline {text(renew_deadline)}"
        raise TimingError(msg)
    if retry_period < 1:
        msg = f"retry period {text(retry_period)} must be at least 1s: records are compared at whole seconds"
        raise TimingError(msg)
    if renew_deadline <= JITTER * retry_period:
        msg = (
            f"renew deadline {text(renew_deadline)} must be greater than {JITTER} x retry period {text(retry_period)}"
            f" = {text(JITTER * retry_period)}"
        )
        raise TimingError(msg)
    k = KILL_BUDGET if kill is None else kill
    s = advertised / 10 if skew is None else skew
    rest = advertised - renew_deadline - k - s
    g = min(MAX_GRACE, rest) if grace is None else grace
    if g < 0 or g > rest + 1e-9:
        msg = _sum(advertised, renew_deadline, max(g, 0.0), k, s)
        raise TimingError(msg)
    return Timing(advertised, renew_deadline, retry_period, g, k, s)


def _sum(d: int, r: float, g: float, k: float, s: float) -> str:
    return (
        f"renew deadline {text(r)} + loss grace {text(g)} + kill budget {text(k)} + skew {text(s)}"
        f" = {text(r + g + k + s)} exceeds the lease duration {text(d)}: the command could outlive the lease;"
        " lengthen the lease or shorten the rest"
    )
