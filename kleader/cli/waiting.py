"""How ``wait`` finds out that what it waits for has come."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from kleader import platform
from kleader.cli import forms, reach
from kleader.cli.say import FAILED, Repeated, fail
from kleader.election.duration import text
from kleader.election.events import Kind
from kleader.locks.within import within
from kleader.watching import fleet
from kleader.watching.board import Board
from kleader.watching.seen import State

if TYPE_CHECKING:
    from kleader.cli.reach import Asked
    from kleader.watching.board import Change
    from kleader.watching.fleet import Told
    from kleader.watching.seen import Look

NOT_YET = 124
_HOPELESS = {Kind.DENIED, Kind.REFUSED, Kind.HOPELESS}
_CHANGES = {"acquired", "released", "deleted"}


async def until(what: Asked, wanted: str, timeout: float | None, form: str) -> None:
    """Return when it is so, having printed what is; exit with 124 after ``timeout`` seconds, 125 if nobody can tell."""
    last: list[Told] = []
    try:
        async with within(timeout):
            await _until(what, wanted, last, form)
    except asyncio.TimeoutError:
        assert timeout is not None  # noqa: S101 - else there is no end
        trouble = last[-1].trouble if last else None
        if trouble or not last:
            fail(f"nobody can tell after {text(timeout)}: {trouble or 'no answer yet'}", FAILED)
        fail(f"{_goal(wanted)} within {text(timeout)}", NOT_YET)


async def _until(what: Asked, wanted: str, last: list[Told], form: str) -> None:
    sources, _ = await reach.sources(what)
    clock, board, repeated = reach.Clock(sources), Board(len(sources), what.kind, named=True), Repeated()
    seen = False
    async for told in fleet.follow(sources, board, clock.now):
        last[:] = [told]
        if told.trouble:
            if told.trouble.failure.kind in _HOPELESS and not seen:
                fail(str(told.trouble), FAILED)
            repeated.remark(str(told.trouble))
        if not board.complete or board.blind:
            continue
        looks = board.looks(platform.clock(), clock.now())
        if _is_so(wanted, told.changes, looks, first=not seen):
            forms.answer(looks[0] if looks else None, told.changes, form)
            return
        seen = True


def _is_so(wanted: str, changes: list[Change], looks: list[Look], *, first: bool) -> bool:
    """Whether what is waited for has come."""
    if wanted == "free":
        return all(look.state in {State.FREE, State.EXPIRED} for look in looks)
    if wanted == "change":
        return not first and any(change.event in _CHANGES for change in changes)
    alive = [change.look for change in changes if change.alive]
    alive += [look for look in looks if look.seen.lasting]
    leading = [look.seen.record.holder for look in alive if look.state is State.HELD]
    return bool(leading) if wanted == "leader" else wanted in leading


def _goal(wanted: str) -> str:
    return {"leader": "nobody was seen to lead", "free": "it was not free", "change": "nothing changed"}.get(
        wanted, f"{wanted} was not seen to lead"
    )
