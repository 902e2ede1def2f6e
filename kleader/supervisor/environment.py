"""What the command is told about its leadership."""

from __future__ import annotations

import os
import time

from kleader.link.messages import MARKER

TYPE_CHECKING = False
if TYPE_CHECKING:
    from kleader.link.messages import Lead
    from kleader.link.plan import Plan


_OF_THE_LOCK = frozenset(
    f"KLEADER_{name}" for name in ("LOCK", "NAMESPACE", "NAME", "FENCING_TOKEN", "TRANSITIONS", "ACQUIRE_TIME")
)


def environment(plan: Plan, lead: Lead | None, incarnation: str) -> dict[str, str]:
    """What kleader itself was given, and KLEADER_*; nested kleaders keep both markers.

    Without an election only the identity and the marker are added, and what an outer kleader said of its lock is not
    passed on: its token under our identity would be a lie.
    """
    added = {"KLEADER_IDENTITY": plan.identity, f"{MARKER}{incarnation}": "1"}
    if lead:
        seconds, micros = divmod(lead.acquired, 1_000_000)
        added |= {
            "KLEADER_LOCK": plan.lock,
            "KLEADER_NAMESPACE": lead.namespace,
            "KLEADER_NAME": plan.name,
            "KLEADER_FENCING_TOKEN": lead.token,
            "KLEADER_TRANSITIONS": str(lead.transitions),
            "KLEADER_ACQUIRE_TIME": f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(seconds))}.{micros:06d}Z",
        }
    return {name: value for name, value in os.environ.items() if name not in _OF_THE_LOCK} | added


def beside(plan: Plan, lead: Lead | None, incarnation: str, namespace: str) -> dict[str, str]:
    """What a command beside the leading one is given: the same, and which lock it is about while there is no token."""
    about = {"KLEADER_LOCK": plan.lock, "KLEADER_NAMESPACE": namespace, "KLEADER_NAME": plan.name}
    return environment(plan, lead, incarnation) | about
