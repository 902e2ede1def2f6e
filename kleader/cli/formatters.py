"""How locks are printed: tables and ages as kubectl's, and the stable forms that programs read."""

from __future__ import annotations

import json
import os
import re
import sys
import time
from collections import Counter
from typing import TYPE_CHECKING, Any

import click

from kleader.cli.console import takes_colours
from kleader.election.record import SECOND, UNKNOWN, display_name, micro_time
from kleader.locks import run_history
from kleader.locks.candidate_registry import READY, UNHEALTHY
from kleader.log import printable, printable_json
from kleader.observe.snapshot import LockState
from kleader.observe.tracker import Change

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kleader.locks.candidate_registry import Registered
    from kleader.locks.run_history import Run
    from kleader.observe.snapshot import LockSnapshot, LockStatus, ObjectRef

_NONE, _UNKNOWN = "<none>", "<unknown>"
_MINUTE, _HOUR, _DAY, _YEAR = 60, 3600, 86400, 365 * 86400
_COLOURS = {
    LockState.FREE: "33",
    LockState.HELD: "32",
    LockState.OVERDUE: "31",
    LockState.EXPIRED: "31",
    LockState.MALFORMED: "1;31",
}
_GAP = 3  # spaces between columns, kubectl's
_ESCAPE = re.compile("\x1b\\[[0-9;]*m")
_YEAR_10000 = 253_402_300_800 * SECOND


def human_duration(seconds: float) -> str:
    """A duration as kubectl shows ages: k8s.io/apimachinery's duration.HumanDuration."""
    whole = max(0, int(seconds))
    if whole < 2 * _MINUTE:
        return f"{whole}s"
    for unit, one, part, other, both, most in (
        (_MINUTE, "m", 1, "s", 10, 180),
        (_HOUR, "h", _MINUTE, "m", 8, 48),
        (_DAY, "d", _HOUR, "h", 8, 2 * 365),
    ):
        count, rest = divmod(whole, unit)
        if count < both and rest // part:
            return f"{count}{one}{rest // part}{other}"
        if count < most:
            return f"{count}{one}"
    years, rest = divmod(whole, _YEAR)
    days = rest // _DAY
    return f"{years}y{days}d" if years < 8 and days else f"{years}y"  # noqa: PLR2004 - kubectl's


def timestamp(at: int) -> str:
    """An instant, in microseconds since the epoch, to the millisecond as in logs."""
    return f"{micro_time(at)[:-4]}Z"


def age(instant: int | None, at: int) -> str:
    """The age of an instant, both in microseconds since the epoch."""
    return _UNKNOWN if instant is None else human_duration((at - instant) / SECOND)


def in_colour(text: str, state: LockState) -> str:
    """The text in the colour of a state."""
    return f"\x1b[{_COLOURS[state]}m{text}\x1b[0m"


def print_locks(statuses: Sequence[LockStatus], form: str, *, with_namespace: bool) -> None:
    """Print all locks in that form; "" is a table."""
    if form == "name":
        click.echo("".join(f"{name}\n" for status in statuses for name in _names(status)), nl=False)
    elif form in {"json", "yaml"}:
        print_document({"kind": "LockList", "items": [_as_json(status) for status in statuses]}, form)
    else:
        print_table(statuses, wide=form == "wide", with_namespace=with_namespace)
        if len(statuses) == 1:
            click.echo(_former(statuses[0]) + _unrecorded(statuses[0].snapshot.unrecorded), nl=False)
        if len(statuses) == 1 and statuses[0].snapshot.candidates:
            click.echo()
            _print_candidates(statuses[0])
        if form == "wide" and len(statuses) == 1 and statuses[0].snapshot.runs:
            click.echo()
            _print_runs(statuses[0].snapshot.runs)


def print_document(document: dict[str, Any], form: str) -> None:
    """Print a document as JSON or YAML."""
    if form == "json":
        click.echo(printable_json(json.dumps(document, indent=2)))
    else:
        from kleader.cli.yaml_output import as_yaml

        click.echo(as_yaml(document), nl=False)


def print_change(change: Change, form: str) -> None:
    """Print one change: in a line, or in YAML as a document."""
    if form == "name":
        click.echo("\n".join(_names(change.status)))
    elif form in {"json", "yaml"}:
        _print_change(timestamp(change.status.at), change.event, change.sentence, change.seconds, change.status, form)
    else:
        click.echo(change_line(change, form))


def print_result(status: LockStatus | None, changes: Sequence[Change], form: str) -> None:
    """Print the last change of a lock, or else its status; None: there is no such lock."""
    events = [change for change in changes if change.event]
    if events:
        change = events[-1]
    elif status:
        held = f"held by {display_name(status.snapshot.record.holder)}"
        change = Change("present", held if status.state is LockState.HELD else status.state.value, status)
    else:
        message = "there is no such lock"
        if form in {"json", "yaml"}:
            _print_change(timestamp(time.time_ns() // 1000), "absent", message, None, None, form)
        elif not form:
            click.echo(message)
        return
    if form:
        print_change(change, form)
    else:
        click.echo(f"{_names(change.status)[0]} {printable(change.sentence)}")


def change_line(change: Change, form: str = "") -> str:
    """One change in a line for people."""
    status, lock = change.status, change.status.snapshot
    place = lock.path or f"{lock.namespace}/{lock.name}"
    writer = f" (written by {_writers(status)})" if form == "wide" and _writers(status) != _NONE else ""
    text = printable(f"{timestamp(status.at)} {place} {lock.kind}: {change.sentence}{writer}")
    return in_colour(text, status.state) if takes_colours(sys.stdout) else text


def print_table(statuses: Sequence[LockStatus], *, wide: bool, with_namespace: bool) -> None:
    """Print a table as kubectl's."""
    head = ["NAME", "TYPE", "STATE", "HOLDER", "SINCE", "RENEWED", "EXPIRES", "STANDBY", "LAST RUN"]
    more = ["TRANSITIONS", "DURATION", "WRITER", "INCARNATION"] if wide else []
    head = [*(["NAMESPACE"] if with_namespace else []), *head, *more]
    _print_rows([head, *(_row(status, wide=wide, with_namespace=with_namespace) for status in statuses)])


def _former(status: LockStatus) -> str:
    """Since when a lock is free, and who led last: a line of what is known; "" for nothing."""
    lock, since = status.snapshot, _free_since(status)
    known = [f"free since {timestamp(since)}"] if since is not None else []
    known += [f"last leader {printable(lock.last_holder)}"] if lock.last_holder else []
    return "; ".join(known) + "\n" * bool(known)


def _unrecorded(count: int | None) -> str:
    """A line about the terms after the last run that are in no history; "" for none."""
    if not count:
        return ""
    what = "1 later term ended" if count == 1 else f"{count} later terms ended"
    return f"{what} without a record of its run: its leader crashed, lost the lock or ran nothing, or is no kleader\n"


def _free_since(status: LockStatus) -> int | None:
    """Never in the future: the renewTime of a release may be, for each write advances it by at least a second."""
    since = status.snapshot.free_since
    return None if since is None else min(since, status.at)


def _print_candidates(status: LockStatus) -> None:
    """The leader and the candidates that wait for one lock, the best first."""
    lock, record = status.snapshot, status.snapshot.record
    rows = [["CANDIDATE", "STATE", "PRIORITY", "WAITING", "SEEN", "POD", "VERSION"]]
    if record.holder not in {"", UNKNOWN}:
        seen = _NONE if record.renewed is None else age(record.renewed, status.at)
        rows.append([printable(record.holder), "leader", _NONE, _NONE, seen, printable(lock.pod) or _NONE, _NONE])
    for entry in lock.candidates or ():
        times = (age(instant, status.at) if instant else _UNKNOWN for instant in (entry.since, entry.renewed))
        of_run = (printable(word) or _NONE for word in (entry.pod, entry.version))
        rows.append([printable(entry.identity), entry.state, str(entry.priority), *times, *of_run])
    _print_rows(rows)


def _print_runs(runs: Sequence[Run]) -> None:
    """The latest runs of one lock, with the time by the lock's clock."""
    rows = [["STARTED", "TOOK", "STATUS", "REASON", "KEY", "IDENTITY"]]
    for run in runs:
        took = _UNKNOWN if run.seconds is None else human_duration(run.seconds)
        started = _UNKNOWN if run.started is None else f"{micro_time(run.started)[:19]}Z"  # the clock shows seconds
        reason = f"{run.reason}: {run.detail}" if run.detail else run.reason
        names = (printable(name) or _NONE for name in (reason, run.key, run.identity))
        rows.append([started, took, str(run.status), *names])
    _print_rows(rows)


def _print_rows(rows: Sequence[Sequence[str]]) -> None:
    """A table; on a terminal that is too narrow for it, a block of lines for each row."""
    lines = aligned(rows)
    if _fits(max(len(_ESCAPE.sub("", line)) for line in lines)):
        click.echo("\n".join(lines))
        return
    head, *below = rows
    margin = max(map(len, head)) + _GAP
    blocks = ["".join(f"{name:{margin}}{cell}\n" for name, cell in zip(head, row, strict=True)) for row in below]
    click.echo("\n".join(blocks), nl=False)


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """A line for each row, with its cells in columns."""
    widths = [max(len(_ESCAPE.sub("", row[i])) for row in rows) + _GAP for i in range(len(rows[0]))]
    return [
        "".join(
            cell + " " * (width - len(_ESCAPE.sub("", cell))) for cell, width in zip(row, widths, strict=True)
        ).rstrip()
        for row in rows
    ]


def _fits(width: int) -> bool:
    """Whether so many columns fit: always, unless standard output is a terminal that knows its width."""
    try:
        columns = os.get_terminal_size(sys.stdout.fileno()).columns
    except OSError:
        return True
    return not columns or width <= columns


def _row(status: LockStatus, *, wide: bool, with_namespace: bool) -> list[str]:
    lock, record, state = status.snapshot, status.snapshot.record, status.state.value
    row = list(map(printable, [*([lock.namespace or _NONE] if with_namespace else []), lock.name, lock.kind]))
    row.append(in_colour(state, status.state) if takes_colours(sys.stdout) else state)
    if lock.fault:
        row += [_UNKNOWN] * 4
    else:
        row += [
            _UNKNOWN if record.holder == UNKNOWN else printable(record.holder) or _NONE,
            age(record.acquired, status.at) if record.holder else _NONE,
            age(record.renewed, status.at) if record.holder and not lock.non_expiring else _NONE,
            _expiry(status),
        ]
    row.append(_standbys(lock.candidates))
    row.append(_last_run(lock, status.at))
    if wide:
        duration = f"{record.duration}s" if record.holder and record.duration else _NONE
        transitions = _UNKNOWN if lock.fault else str(record.transitions)
        row += [transitions, duration, _writers(status), printable(lock.incarnation) or _NONE]
    return row


def _standbys(candidates: Sequence[Registered] | None) -> str:
    """How many candidates wait, by their state."""
    if candidates is None:
        return _UNKNOWN
    count = Counter(entry.state for entry in candidates)
    return ", ".join(f"{count[state]} {state}" for state in (READY, UNHEALTHY) if count[state]) or _NONE


def _last_run(lock: LockSnapshot, at: int) -> str:
    """The age of its end, and how it ended unless that was well; and of how many later terms no run is known."""
    later = f"{lock.unrecorded} unrecorded" if lock.unrecorded else ""
    if not lock.runs:
        return later or _NONE
    run = lock.runs[0]
    how = "" if run.succeeded else f"status {run.status}" if run.reason == run_history.EXITED else printable(run.reason)
    return ", ".join(filter(None, (age(run.ended, at), how, later and f"then {later}")))


def _expiry(status: LockStatus) -> str:
    """When the lock expires or has expired, as far as that is known."""
    left = status.seconds_left
    if left is None:
        held = status.state in {LockState.HELD, LockState.OVERDUE} and not status.snapshot.non_expiring
        return _UNKNOWN if held or status.state is LockState.MALFORMED else _NONE
    return f"in {human_duration(left)}" if left > 0 else f"{human_duration(-left)} ago"


def faults(statuses: Sequence[LockStatus]) -> list[str]:
    """A sentence for each lock whose record cannot be read or is contradictory."""
    locks = [status.snapshot for status in statuses]
    rule = "its two objects name different holders, and it counts as held until both name the same one"
    found = [f"{lock.namespace}/{lock.name}: {rule}" for lock in locks if lock.record.holder == UNKNOWN]
    return found + [printable(lock.fault) for lock in locks if lock.fault]


def _as_json(status: LockStatus) -> dict[str, Any]:
    """Everything that is known of a lock. Every key is always there; null is unknown."""
    lock, record = status.snapshot, status.snapshot.record
    return {
        "type": lock.kind,
        "namespace": lock.namespace or None,
        "name": lock.name,
        "path": lock.path or None,
        "state": status.state.value,
        "watched": status.from_watch,
        "holder": record.holder or None,
        "lastHolder": lock.last_holder or None,
        "freeSince": _time(_free_since(status)),
        "unrecordedTerms": lock.unrecorded,
        "pod": lock.pod or None,
        "incarnation": lock.incarnation or None,
        "preferredHolder": lock.preferred_holder or None,
        "acquireTime": _time(record.acquired),
        "renewTime": _time(record.renewed),
        "leaseDurationSeconds": record.duration or None,
        "transitions": None if lock.fault else record.transitions,
        "renewedSecondsAgo": None if record.renewed is None else round((status.at - record.renewed) / SECOND, 3),
        "expiresInSeconds": None if status.seconds_left is None else round(status.seconds_left, 3),
        "fault": lock.fault or None,
        "runs": run_history.as_json(lock.runs),
        "candidates": None if lock.candidates is None else [_candidate_as_json(entry) for entry in lock.candidates],
        "objects": [
            {
                "apiVersion": ref.api_version,
                "kind": ref.kind,
                "name": ref.name,
                "uid": ref.uid,
                "resourceVersion": ref.resource_version,
                "writer": ref.writer or None,
            }
            for ref in lock.objects
        ],
    }


def _candidate_as_json(candidate: Registered) -> dict[str, Any]:
    times = {"since": _time(candidate.since or None), "renewed": _time(candidate.renewed or None)}
    return candidate._asdict() | times


def _time(instant: int | None) -> str | None:
    return None if instant is None or not 0 <= instant < _YEAR_10000 else micro_time(instant)


def _names(status: LockStatus) -> list[str]:
    """The names of the objects as kubectl takes them; the path of a lock file."""
    lock = status.snapshot
    return list(map(printable, map(_object_name, lock.objects))) or [printable(lock.path or lock.name)]


def _object_name(ref: ObjectRef) -> str:
    group = ref.api_version.partition("/")[0] if "/" in ref.api_version else ""
    return f"{ref.kind.lower()}{'.' if group else ''}{group}/{ref.name}"


def _writers(status: LockStatus) -> str:
    return printable(",".join(dict.fromkeys(ref.writer for ref in status.snapshot.objects if ref.writer))) or _NONE


def _print_change(  # noqa: PLR0913, PLR0917 - the keys
    time: str, event: str, message: str, seconds: float | None, status: LockStatus | None, form: str
) -> None:
    lock = _as_json(status) if status else None
    what = {"time": time, "event": event, "message": message, "seconds": seconds}
    document = {"kind": "LockChange", **what, "lock": lock}
    if form == "json":
        click.echo(printable_json(json.dumps(document)))
    else:
        click.echo("---")
        print_document(document, form)
