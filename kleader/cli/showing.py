"""What ``status`` prints, and how it follows."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from kleader import platform
from kleader.cli import forms, live, reach, words
from kleader.cli.say import FAILED, Repeated, fail, remark
from kleader.watching import fleet
from kleader.watching.board import Board
from kleader.watching.pairs import arrange
from kleader.watching.seen import State, at_a_look

if TYPE_CHECKING:
    from kleader.cli.reach import Asked, Clock
    from kleader.locks.base import LockError
    from kleader.watching.board import Change
    from kleader.watching.seen import Look

ABSENT = 1


async def once(what: Asked, form: str) -> None:
    """Look once, print, and say what the table has no room for."""
    sources, namespace = await reach.sources(what)
    clock = reach.Clock(sources)
    news = await fleet.look(sources)
    errors = [told.trouble for told in news if told.trouble]
    found = {key: seen for told in news for key, seen in told.seen.items() if seen}
    locks = arrange(found, what.kind, named=bool(what.name))
    if errors and (what.kind or not locks):
        fail(str(errors[0]), FAILED)
    if not locks:
        _none(what, namespace)
    for error in [] if what.name else errors:
        remark(f"not shown: {error}")
    wall = clock.now()
    looks = [at_a_look(seen, wall) for seen in sorted(locks, key=lambda seen: (*seen.key[1:], seen.kind))]
    if looks or form in {"json", "yaml"}:
        forms.show(looks, form, everywhere=not namespace)
    _explain([look.state for look in looks], clock)
    for fault in forms.faults(looks):
        remark(fault)


def _none(what: Asked, namespace: str) -> None:
    where = what.path or (f"the namespace {namespace}" if namespace else "any namespace")
    if what.name or what.path:
        kind = f"{what.kind} " if what.kind else ""
        fail(f"there is no {kind}lock {what.name} in {where}".replace(" lock  in ", " lock in "), ABSENT)
    remark(f"no locks found in {where}")


def _explain(states: list[State], clock: Clock) -> None:
    """What a look at the table would not tell."""
    if clock.behind:
        way = "behind" if clock.behind > 0 else "ahead of"
        remark(f"this machine's clock is {abs(clock.behind):.0f}s {way} the API server's: times are as seen there")
    overdue = states.count(State.OVERDUE)
    if overdue:
        locks = "1 lock is" if overdue == 1 else f"{overdue} locks are"
        remark(f"{locks} overdue: whether expired, one look cannot tell, --watch can")


async def follow(what: Asked, form: str) -> None:
    """Print what happens, until interrupted."""
    sources, namespace = await reach.sources(what)
    clock = reach.Clock(sources)
    board = Board(len(sources), what.kind, named=bool(what.name))
    on_terminal = not form and sys.stdout.isatty() and os.environ.get("TERM") != "dumb"
    view = _Live(everywhere=not namespace) if on_terminal else _Lines(form)
    errors: list[LockError] = []
    begun = False
    async for told in fleet.follow(sources, board, clock.now, view.every):
        errors += [told.trouble] if told.trouble and not begun else []
        if not board.complete:
            continue
        looks = board.looks(platform.clock(), clock.now())
        if not begun:
            begun = True
            if errors and (what.kind or not looks):
                fail(str(errors[0]), FAILED)
            if not looks and (what.name or what.path):
                _none(what, namespace)
            for error in [] if what.name else errors:
                remark(f"not shown: {error}")
        view.show([change for change in told.changes if change.event], looks, told.trouble if begun else None)


class _Lines:
    """A line for each change."""

    every = 60.0

    def __init__(self, form: str) -> None:
        self._form = form
        self._repeated = Repeated()

    def show(self, changes: list[Change], _looks: list[Look], trouble: LockError | None) -> None:
        for change in changes:
            forms.show_change(change, self._form, words.moment(change.look.wall))
        if trouble:
            self._repeated.remark(str(trouble))


class _Live:
    """The view on a terminal."""

    every = live.REFRESH

    def __init__(self, *, everywhere: bool) -> None:
        self._view = live.View(everywhere=everywhere)
        self._trouble = ""

    def show(self, changes: list[Change], looks: list[Look], trouble: LockError | None) -> None:
        if trouble or changes:
            self._trouble = f"kleader: {trouble}" if trouble else ""
        lines = [
            forms.line(change, "", words.moment(change.look.wall)) for change in changes if change.event != "present"
        ]
        self._view.draw(lines, looks, self._trouble)
