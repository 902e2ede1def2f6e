"""How ``resign --force`` takes a lock away from who cannot be asked: only what was seen unchanged is overwritten."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NoReturn

import click

from kleader import platform
from kleader.cli import forms
from kleader.cli.asking import NOT_DONE, Errand, TimeIsUpError, late, term, who
from kleader.cli.say import fail, remark
from kleader.election.duration import text
from kleader.election.events import Kind
from kleader.election.record import Record, fresh_time
from kleader.election.release import DURATION
from kleader.locks.annotation import LEADER
from kleader.locks.base import LockError
from kleader.locks.notes import note
from kleader.locks.object import texts
from kleader.watching.board import Change
from kleader.watching.seen import Look, State, watched

if TYPE_CHECKING:
    from kleader.cli.reach import Asked
    from kleader.election.events import Observed
    from kleader.locks.object import ObjectLock

UNREADABLE = 15  # seconds for which a record is watched that does not say how long; client-go's lease duration


async def clear(what: Asked, timeout: float, form: str, *, now: bool, yes: bool) -> None:
    """Return when the lock is free, having printed that; exit with 1 where somebody is seen to write it meanwhile."""
    errand = Errand(what, timeout)
    first: dict[ObjectLock, Observed] = {}
    patience, since = 0.0, 0.0
    try:
        async for look, changes in errand.looks():
            if look is None:
                fail(f"there is no {what.kind} lock {what.name}", NOT_DONE)
            if look.state is State.FREE:
                forms.answer(look, changes, form)
                return
            if not first:
                if look.seen.lasting:
                    fail("the lock does not expire: it is free when the Pod that owns it is deleted", NOT_DONE)
                first = {lock: seen for lock in errand.objects if (seen := await _read(errand, lock))}
                patience, since = float(look.seen.record.duration or UNREADABLE), platform.clock()
                _warn(look, patience, now=now, yes=yes)
                errand.end = max(errand.end, platform.clock()) + patience
            elif any(change.event not in {"present", "expired"} for change in changes):
                _alive(look)
            # What is overwritten was read after the first look: it has its whole duration from then on.
            silent = look.state in {State.EXPIRED, State.MALFORMED} and platform.clock() >= since + patience
            if now or silent:
                for lock, seen in first.items():
                    await _empty(errand, lock, seen)
                said = f"cleared: {_holder(look)} held it"
                forms.answer(_freed(look), [Change("cleared", said, _freed(look))], form)
                return
    except TimeIsUpError as error:
        late(errand, error, f"{_holder(None)} was not seen unchanged for so long")


def _warn(look: Look, patience: float, *, now: bool, yes: bool) -> None:
    """Say what it risks, and have it confirmed where nobody has done so."""
    holder = _holder(look)
    if now:
        risk = f"if {holder} is alive, it goes on until it notices, and somebody else may lead meanwhile"
        remark(f"this takes the lock from {holder} at once: {risk}")
    else:
        risk = "unless that is a kleader, its work may still run then"
        remark(f"this takes the lock from {holder} once it was seen unchanged for {text(patience)}: {risk}")
    if not yes:
        click.confirm("kleader: go on?", abort=True, err=True)


def _holder(look: Look | None) -> str:
    return who(term(look)) or "whoever holds it"


def _alive(look: Look) -> NoReturn:
    mend = "ask it without --force" if look.seen.incarnation else "end its process"
    fail(f"{_holder(look)} is alive, it has just written the lock: {mend}", NOT_DONE)


async def _read(errand: Errand, lock: ObjectLock) -> Observed | None:
    while True:
        try:
            return await lock.get(errand.what.timeout)
        except LockError as error:
            if error.failure.kind is Kind.MISSING:
                return None
            await errand.again(error)


async def _empty(errand: Errand, lock: ObjectLock, first: Observed) -> None:
    """As client-go releases; over this very record alone, whatever else was written into the object meanwhile."""
    while True:
        seen = await _read(errand, lock)
        if seen is None or not (seen.record.holder or seen.fault):
            return
        if _told(seen) != _told(first):
            fail("somebody has just written the lock: it was not cleared", NOT_DONE)
        instant = fresh_time(seen.record.renewed, time.time_ns() // 1000, lock.traits.tick)
        try:
            record = Record("", DURATION, instant, instant, _transitions(seen))
            await lock.write(seen, record, "", errand.what.timeout)
        except LockError as error:
            await errand.again(error)
        else:
            return


def _told(seen: Observed) -> tuple[Any, ...]:
    """All that says who holds it, as it stands there: what cannot be read changes too."""
    return seen.base["metadata"]["uid"], seen.incarnation, seen.base.get("spec"), note(seen.base, LEADER)


def _transitions(seen: Observed) -> int:
    """They stay, where they can be read at least."""
    found = texts(seen.base.get("spec")).get("leaseTransitions")
    kept = seen.record.transitions if not seen.fault else found
    return kept if isinstance(kept, int) and 0 <= kept < 1 << 31 else 0


def _freed(look: Look) -> Look:
    seen = replace(look.seen, record=Record("", DURATION), incarnation="", fault="")
    return watched(seen, 0, look.wall)
