"""What ``status`` prints, once or as it follows; on a terminal the changes scroll by above a live view."""

from __future__ import annotations

import math
import os
import shutil
import sys
from typing import TYPE_CHECKING

from kleader import system
from kleader.cli import formatters, locate, waiting
from kleader.cli.console import RepeatedWarning, can_show, fail, takes_colours, warn
from kleader.election.record import display_name
from kleader.exits import FAILED, NOT_DONE
from kleader.log import printable
from kleader.observe.assemble import assemble
from kleader.observe.follow import follow_locks, poll
from kleader.observe.snapshot import LockState, status_from_read
from kleader.observe.tracker import LockTracker

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kleader.cli.locate import Clock, Query
    from kleader.kube.errors import LockError
    from kleader.observe.follow import LockSource
    from kleader.observe.snapshot import LockStatus
    from kleader.observe.tracker import Change

_REFRESH_SECONDS = 0.2
_STANDBY_SECONDS = 5.0
_BAR = 20  # cells
_BAR_SIGNS = ("█", "░")
_MARGIN = 2  # lines for the heading and the cursor


async def once(query: Query, form: str) -> None:
    """Read the locks once, print them, and warn about what the table does not show."""
    sources, namespace = await locate.sources(query)
    clock = locate.Clock(sources)
    updates = await poll(sources)
    errors = [update.error for update in updates if update.error]
    found = [lock for update in updates for lock in update.snapshots.values() if lock]
    locks = sorted(
        assemble(found, query.kind, by_name=bool(query.name)), key=lambda lock: (lock.namespace, lock.name, lock.kind)
    )
    _report_missing(query, namespace, errors, any_found=bool(locks), warn_if_none=True)
    locks, unknown = await waiting.with_candidates(query, namespace, sources, locks)
    if unknown:
        warn(unknown)
    at = clock.now()
    statuses = [status_from_read(lock, at) for lock in locks]
    if statuses or form in {"json", "yaml"}:
        formatters.print_locks(statuses, form, with_namespace=not namespace)
    _explain([status.state for status in statuses], clock)
    for fault in formatters.faults(statuses):
        warn(fault)


def _report_missing(
    query: Query, namespace: str, errors: list[LockError], *, any_found: bool, warn_if_none: bool
) -> None:
    """Warn about sources that cannot be read; exit if no lock is left to show."""
    if errors and (query.kind or not any_found):
        fail(str(errors[0]), FAILED)
    where = f"the namespace {namespace}" if namespace else "any namespace"
    if not any_found and query.path:
        fail(f"there is no lock file {query.path}", NOT_DONE)
    if not any_found and query.name:
        kind = f"{query.kind} " if query.kind else ""
        fail(f"there is no {kind}lock {query.name} in {where}", NOT_DONE)
    if not any_found and warn_if_none:
        warn(f"no locks found in {where}")
    for error in [] if query.name else errors:
        warn(f"not shown: {error}")


def _explain(states: list[LockState], clock: Clock) -> None:
    if clock.behind:
        way = "behind" if clock.behind > 0 else "ahead of"
        warn(f"this machine's clock is {abs(clock.behind):.0f}s {way} the API server's, by which times are shown")
    overdue = states.count(LockState.OVERDUE)
    if overdue:
        locks = "1 lock is" if overdue == 1 else f"{overdue} locks are"
        warn(f"{locks} overdue: a single read cannot prove that a lease has expired, but --watch can")


async def follow(query: Query, form: str) -> None:
    """Print the locks and their changes, until interrupted."""
    sources, namespace = await locate.sources(query)
    clock = locate.Clock(sources)
    tracker = LockTracker(len(sources), query.kind, by_name=bool(query.name))
    on_terminal = not form and sys.stdout.isatty() and os.environ.get("TERM") != "dumb"
    view = LiveView(with_namespace=not namespace) if on_terminal else None
    warning = RepeatedWarning()
    standbys = _Standbys(query, namespace, sources)
    errors: list[LockError] = []
    is_first = True
    async for update in follow_locks(sources, tracker, clock.now, _redraw_at if on_terminal else lambda: math.inf):
        errors += [update.error] if update.error and is_first else []
        if not tracker.is_complete:
            continue
        statuses = tracker.statuses(system.clock(), clock.now())
        if is_first:
            _report_missing(query, namespace, errors, any_found=bool(statuses), warn_if_none=False)
        changes = [change for change in update.changes if change.event]
        error = None if is_first else update.error
        is_first = False
        if view:
            view.show(changes, statuses, error, await standbys.line(statuses))
            continue
        for change in changes:
            formatters.print_change(change, form)
        if error:
            warning.warn(str(error))


def _redraw_at() -> float:
    return system.clock() + _REFRESH_SECONDS


class _Standbys:
    """The candidates that wait for one lock at the API, read every ``_STANDBY_SECONDS``."""

    def __init__(self, query: Query, namespace: str, sources: Sequence[LockSource]) -> None:
        self._query, self._namespace, self._sources = query, namespace, sources
        self._read_at, self._line = 0.0, ""

    async def line(self, statuses: Sequence[LockStatus]) -> str:
        """Each with its state, the best first; "" if they are not known, or several locks are shown."""
        if len(statuses) != 1 or not self._query.name or self._query.kind == "file":
            return ""
        if system.clock() >= self._read_at:
            snapshot = statuses[0].snapshot
            (lock,), _ = await waiting.with_candidates(self._query, self._namespace, self._sources, [snapshot])
            names = [f"{entry.identity} {entry.state}" for entry in lock.candidates or ()]
            self._line = "" if lock.candidates is None else f"standby: {', '.join(names) or 'none'}"
            self._read_at = system.clock() + _STANDBY_SECONDS
        return self._line


class LiveView:
    """The view on a terminal. The cursor stays below it, so that the screen is whole however the program ends."""

    def __init__(self, *, with_namespace: bool) -> None:
        self._with_namespace = with_namespace
        self._error = ""
        self._lines_drawn = 0
        self._colours = takes_colours(sys.stdout)
        self._full, self._empty = _BAR_SIGNS if can_show(sys.stdout, "".join(_BAR_SIGNS)) else ("#", "-")

    def show(
        self, changes: Sequence[Change], statuses: Sequence[LockStatus], error: LockError | None, standbys: str = ""
    ) -> None:
        """Print the changes, which stay, and draw all locks below them, and a line about the standbys of one lock."""
        if error or changes:
            self._error = printable(f"kleader: {error}") if error else ""
        size = shutil.get_terminal_size()
        frame = self._frame(statuses, size.columns, size.lines - _MARGIN - bool(self._error) - bool(standbys))
        frame += [printable(standbys)[: size.columns - 1]] if standbys else []
        frame += [self._error[: size.columns - 1]] if self._error else []
        up = f"\x1b[{self._lines_drawn}A" if self._lines_drawn else ""
        lines = [formatters.change_line(change) for change in changes if change.event != "present"]
        text = "".join(f"{line}\n" for line in [*lines, *frame])
        sys.stdout.write(f"{up}\r\x1b[J{text}")
        sys.stdout.flush()
        self._lines_drawn = len(frame)

    def _frame(self, statuses: Sequence[LockStatus], columns: int, lines: int) -> list[str]:
        shown = statuses if len(statuses) <= lines else statuses[: max(0, lines - 1)]
        rows = [("LOCK", " " * _BAR, "LEFT", "LED", "HOLDER"), *map(self._row, shown)]
        head, *frame = [line[: columns - 1] for line in formatters.aligned(rows)]
        if self._colours:
            frame = [formatters.in_colour(line, status.state) for line, status in zip(frame, shown, strict=True)]
        more = [f"and {len(statuses) - len(shown)} more"] if len(shown) < len(statuses) else []
        return [head, *frame, *more]

    def _row(self, status: LockStatus) -> tuple[str, str, str, str, str]:
        lock, record, left = status.snapshot, status.snapshot.record, status.seconds_left
        place = lock.path or (f"{lock.namespace}/{lock.name}" if self._with_namespace else lock.name)
        holder = display_name(record.holder)
        is_held = status.state is LockState.HELD
        if not is_held:
            holder = f"{status.state.value}: {holder or lock.fault}".removesuffix(": ")
        if left is None:
            bar, left_text = (self._full if is_held else self._empty) * _BAR, "for life" if is_held else ""
        else:
            count = max(0, min(_BAR, round(left / max(1, record.duration) * _BAR)))
            bar, left_text = self._full * count + self._empty * (_BAR - count), f"{left:.1f}s" if left > 0 else "0s"
        led = formatters.age(record.acquired, status.at) if record.holder else ""
        return printable(place), bar, left_text, led, printable(holder)
