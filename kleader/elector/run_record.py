"""--once and --once-per for any kind of lock: is the command's work done already, and what is recorded of a run.

The election takes no part in this. A candidate for which there is nothing to do leads like any other, with a command
that is never started, and releases the lock.
"""

from __future__ import annotations

from kleader import system
from kleader.election.duration import text
from kleader.locks.run_history import Once, Run, timestamp

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from kleader.ipc.messages import Ran
    from kleader.ipc.plan import Plan

SECOND = 1_000_000  # microseconds


def has_once(plan: Plan) -> bool:
    """Whether a run may make another one needless."""
    return bool(plan.once or plan.once_per)


def done(plan: Plan, runs: Sequence[Run], now: int | None, ahead: int) -> str:
    """Why the command is not started now that the lock is acquired; "" if it is.

    ``now``, by the lock's clock, and ``ahead`` as in Once.done_by.
    """
    since = 0 if now is None else now - round((system.clock() - plan.started) * SECOND)
    run = Once(plan.once, plan.once_per, plan.once_after_any).done_by(runs, now, since, ahead)
    if run is None:
        return ""
    at = f" at {timestamp(run.started)[: -len('.000000Z')]}Z" if run.started is not None else ""  # it is no more exact
    took = f", {text(round(run.seconds, 1))}" if run.seconds is not None else ""
    return f"already done by {run.identity}{at}, status {run.status}{took}"


def run_of(plan: Plan, ran: Ran, now: int | None) -> Run:
    """The run as it is recorded; ``now``: the instant of this call by the lock's clock."""
    boot_now = system.clock()

    def instant(boot: float) -> int | None:
        return None if now is None else now - round((boot_now - boot) * SECOND)

    times = instant(ran.started), instant(ran.ended)
    return Run(plan.identity, ran.token, plan.once, *times, ran.status, ran.reason, detail=ran.detail)
