"""--metrics-file: how kleader ended, for node_exporter's textfile collector, as no scrape finds what lives so briefly.

It is written when all is over and the lock released, and stays: the next run on this host replaces it.
"""

from __future__ import annotations

import re
import time

from kleader import system
from kleader.supervisor.term import EXITED, NOT_LED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from kleader.ipc.plan import Plan
    from kleader.log import Log
    from kleader.supervisor.term import Term

_INFO = "kleader_end_info"
_SUCCESS = "kleader_last_success_timestamp_seconds"
_HELP = {
    "kleader_end_timestamp_seconds": "When kleader ended last.",
    "kleader_exit_status": "The exit status with which kleader ended last.",
    _INFO: "Why kleader ended last, as KLEADER_REASON; not-led: it did not acquire the lock.",
    "kleader_run_duration_seconds": "How long the command ran, if it was started.",
    _SUCCESS: "When the command ended last by itself and with status 0, on this host.",
}


def write(plan: Plan, log: Log, term: Term) -> None:
    """Replace the file. Where that fails it is old, which a warning says."""
    if not plan.metrics_file:
        return
    now, wall, ran = system.clock(), time.time(), term.ran
    reason = term.reason if term.lead or ran else NOT_LED
    values = {
        "kleader_end_timestamp_seconds": wall,
        "kleader_exit_status": float(term.status),
        _INFO: 1.0,
        "kleader_run_duration_seconds": ran.ended - ran.started if ran else None,
        _SUCCESS: wall - (now - ran.ended)
        if ran and (ran.status, reason) == (0, EXITED)
        else _former(plan.metrics_file),
    }
    labels = f'namespace="{_escaped(term.namespace)}",name="{_escaped(plan.name)}"'
    about = f',reason="{reason}"'
    text = "".join(
        f"# HELP {name} {_HELP[name]}\n# TYPE {name} gauge\n"
        f"{name}{{{labels}{about if name == _INFO else ''}}} {value:.3f}\n"
        for name, value in values.items()
        if value is not None
    )
    try:
        system.replace_file(plan.metrics_file, text)
    except OSError as error:
        what = f"cannot write the metrics file {plan.metrics_file}: {error.strerror}: what it says is old"
        log.warning(what, event="metrics_file_failed")


def _former(path: str) -> float | None:
    """The last success by the file that is replaced; None if it tells of none."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            found = re.search(rf"^{_SUCCESS}\{{.*\}} ([0-9]+\.[0-9]+)$", file.read(1 << 16), re.MULTILINE)
    except OSError:
        return None
    return float(found[1]) if found else None


def _escaped(label: str) -> str:
    return label.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
