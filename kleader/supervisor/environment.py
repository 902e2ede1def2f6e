"""The environment of the command, of hooks and of the standby."""

from __future__ import annotations

import os
import time

from kleader import system
from kleader.ipc.messages import MARKER

TYPE_CHECKING = False
if TYPE_CHECKING:
    from kleader.ipc.plan import Plan
    from kleader.supervisor.term import Term


_OF_THE_LOCK = frozenset(
    f"KLEADER_{name}" for name in ("LOCK", "NAMESPACE", "NAME", "FENCING_TOKEN", "TRANSITIONS", "ACQUIRE_TIME")
)


_OF_THE_SERVICE_MANAGER = frozenset({"NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"})


def environment(plan: Plan, term: Term) -> dict[str, str]:
    """The environment of the command: that of kleader itself, and KLEADER_*. Nested kleaders keep the markers of both.

    Without an election only the identity and the marker are added. The variables of an outer kleader's lock are
    removed: its token would not belong to this identity. The variables of the service manager are removed too, unless
    the command notifies it: then only kleader's pid is, for which the command would leave the watchdog alone
    (sd_watchdog_enabled(3)).
    """
    lead = term.lead
    added = {"KLEADER_IDENTITY": plan.identity, f"{MARKER}{term.incarnation}": "1"}
    if lead:
        added |= {
            "KLEADER_LOCK": plan.lock,
            "KLEADER_NAMESPACE": term.namespace,
            "KLEADER_NAME": plan.name,
            "KLEADER_FENCING_TOKEN": lead.token,
            "KLEADER_TRANSITIONS": str(lead.transitions),
            "KLEADER_ACQUIRE_TIME": _time(lead.acquired),
        }
    removed = _OF_THE_LOCK | ({"WATCHDOG_PID"} if plan.notify == "command" else _OF_THE_SERVICE_MANAGER)
    return {name: value for name, value in os.environ.items() if name not in removed} | added


def end_variables(term: Term) -> dict[str, str]:
    """What --on-end learns of the term that has ended."""
    now, wall = system.clock(), time.time()
    ran = term.ran
    instants = (round((wall - (now - at)) * 1e6) for at in (ran.started, ran.ended)) if ran else ()
    started, ended = map(_time, instants) if ran else ("", "")
    about = {"KLEADER_STATUS": str(term.status), "KLEADER_REASON": term.reason}
    return about | {"KLEADER_STARTED": started, "KLEADER_ENDED": ended}


def _time(instant: int) -> str:
    """RFC 3339, of microseconds since the epoch."""
    seconds, micros = divmod(instant, 1_000_000)
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(seconds))}.{micros:06d}Z"


def hook_environment(plan: Plan, term: Term) -> dict[str, str]:
    """The environment of a hook or a standby: the same, and the lock's name also while there is no token."""
    about = {"KLEADER_LOCK": plan.lock, "KLEADER_NAMESPACE": term.namespace, "KLEADER_NAME": plan.name}
    return environment(plan._replace(notify="kleader"), term) | about
