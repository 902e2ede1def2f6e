"""The forms in which locks are printed: tables as kubectl's, and the stable ones that programs read."""

from __future__ import annotations

import json
import re
import sys
import time
from typing import TYPE_CHECKING, Any

import click

from kleader.cli import words
from kleader.election.record import SECOND, UNKNOWN, called, micro_time
from kleader.watching.board import Change
from kleader.watching.seen import State

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kleader.watching.seen import Look, Ref

_GAP = 3  # spaces between columns, kubectl's
_ESCAPE = re.compile("\x1b\\[[0-9;]*m")
_FAR = 253_402_300_800 * SECOND  # the year 10000


def show(looks: Sequence[Look], form: str, *, everywhere: bool) -> None:
    """Print them all; ``everywhere``: of more than one namespace."""
    if form == "name":
        click.echo("".join(f"{name}\n" for look in looks for name in names(look)), nl=False)
    elif form in {"json", "yaml"}:
        click.echo(_dump({"kind": "LockList", "items": [value(look) for look in looks]}, form), nl=False)
    else:
        table(looks, wide=form == "wide", everywhere=everywhere)


def show_change(change: Change, form: str, moment: str) -> None:
    """Print one change: a line, or in YAML a document."""
    look = change.look
    if form == "name":
        click.echo("\n".join(names(look)))
    elif form in {"json", "yaml"}:
        told = {"time": moment, "event": change.event, "message": change.sentence, "seconds": change.seconds}
        _document(told | {"lock": value(look)}, form)
    else:
        click.echo(line(change, form, moment))


def answer(look: Look | None, changes: Sequence[Change], form: str) -> None:
    """Print what has happened to a lock last, or what is; None: there is no such lock."""
    told = [change for change in changes if change.event]
    if told:
        change = told[-1]
    elif look:
        held = f"held by {called(look.seen.record.holder)}" if look.state is State.HELD else look.state.value
        change = Change("present", held, look)
    else:
        _absent(form)
        return
    if form:
        show_change(change, form, words.moment(change.look.wall))
    else:
        click.echo(f"{names(change.look)[0]} {words.printable(change.sentence)}")


def _absent(form: str) -> None:
    """As a change has it; of nothing there is no name."""
    said = "there is no such lock"
    if form in {"json", "yaml"}:
        moment = words.moment(time.time_ns() // 1000)
        _document({"time": moment, "event": "absent", "message": said, "seconds": None, "lock": None}, form)
    elif not form:
        click.echo(said)


def line(change: Change, form: str, moment: str) -> str:
    """One change for people."""
    look = change.look
    where = look.seen.path or f"{look.seen.namespace}/{look.seen.name}"
    writer = f" (written by {_writers(look)})" if form == "wide" and _writers(look) != words.NONE else ""
    said = words.printable(f"{moment} {where} {look.seen.kind}: {change.sentence}{writer}")
    return words.coloured(said, look.state) if words.colourful(sys.stdout) else said


def names(look: Look) -> list[str]:
    """As kubectl takes them; a lock file's path."""
    return [words.printable(_name(ref)) for ref in look.seen.objects] or [look.seen.path or look.seen.name]


def value(look: Look) -> dict[str, Any]:
    """All that is known of a lock, as JSON has it. Every key is always there; what is not known is null."""
    seen, record = look.seen, look.seen.record
    return {
        "type": seen.kind,
        "namespace": seen.namespace or None,
        "name": seen.name,
        "path": seen.path or None,
        "state": look.state.value,
        "watched": look.watched,
        "holder": record.holder or None,
        "incarnation": seen.incarnation or None,
        "preferredHolder": seen.preferred or None,
        "acquireTime": _time(record.acquired),
        "renewTime": _time(record.renewed),
        "leaseDurationSeconds": record.duration or None,
        "transitions": None if seen.fault else record.transitions,
        "renewedSecondsAgo": None if record.renewed is None else round((look.wall - record.renewed) / SECOND, 3),
        "expiresInSeconds": None if look.left is None else round(look.left, 3),
        "fault": seen.fault or None,
        "objects": [
            {
                "apiVersion": ref.api_version,
                "kind": ref.kind,
                "name": ref.name,
                "uid": ref.uid,
                "resourceVersion": ref.version,
                "writer": ref.writer or None,
            }
            for ref in seen.objects
        ],
    }


def table(looks: Sequence[Look], *, wide: bool, everywhere: bool) -> None:
    """As kubectl's."""
    head = ["NAME", "TYPE", "STATE", "HOLDER", "SINCE", "RENEWED", "EXPIRES", "TRANSITIONS"]
    head = [*(["NAMESPACE"] if everywhere else []), *head, *(["DURATION", "WRITER", "INCARNATION"] if wide else [])]
    coloured = words.colourful(sys.stdout)
    rows = [head]
    for look in looks:
        seen, record = look.seen, look.seen.record
        state = look.state.value
        row = [*([seen.namespace or words.NONE] if everywhere else []), seen.name, seen.kind]
        row += [words.coloured(state, look.state) if coloured else state, *_who(look)]
        if wide:
            duration = f"{record.duration}s" if record.holder and record.duration else words.NONE
            row += [duration, _writers(look), words.printable(seen.incarnation) or words.NONE]
        rows.append(row)
    widths = [max(len(_ESCAPE.sub("", row[i])) for row in rows) for i in range(len(head))]
    for row in rows:
        cells = [
            cell + " " * (width - len(_ESCAPE.sub("", cell)) + _GAP) for cell, width in zip(row, widths, strict=True)
        ]
        click.echo("".join(cells).rstrip())


def faults(looks: Sequence[Look]) -> list[str]:
    """What a table has no room for."""
    torn = "names different holders in its two objects: it is held until one of them has both"
    found = [f"{look.seen.namespace}/{look.seen.name} {torn}" for look in looks if look.seen.record.holder == UNKNOWN]
    return found + [words.printable(look.seen.fault) for look in looks if look.seen.fault]


def _who(look: Look) -> list[str]:
    """Holder, since, renewed, expires, transitions."""
    record, wall = look.seen.record, look.wall
    if look.seen.fault:
        return [words.UNKNOWN] * 5
    held = bool(record.holder)
    return [
        words.UNKNOWN if record.holder == UNKNOWN else words.printable(record.holder) or words.NONE,
        words.ago(record.acquired, wall) if held else words.NONE,
        words.ago(record.renewed, wall) if held and not look.seen.lasting else words.NONE,
        words.expires(look),
        str(record.transitions),
    ]


def _name(ref: Ref) -> str:
    group = ref.api_version.partition("/")[0] if "/" in ref.api_version else ""
    return f"{ref.kind.lower()}{'.' if group else ''}{group}/{ref.name}"


def _writers(look: Look) -> str:
    return words.printable(",".join(dict.fromkeys(ref.writer for ref in look.seen.objects if ref.writer))) or words.NONE


def _time(instant: int | None) -> str | None:
    return None if instant is None or not 0 <= instant < _FAR else micro_time(instant)


def _document(change: dict[str, Any], form: str) -> None:
    whole = {"kind": "LockChange", **change}
    click.echo(json.dumps(whole) if form == "json" else f"---\n{_dump(whole, form)}", nl=form == "json")


def _dump(whole: dict[str, Any], form: str) -> str:
    if form == "json":
        return json.dumps(whole, indent=2) + "\n"
    from kleader.cli.output import as_yaml

    return as_yaml(whole)
