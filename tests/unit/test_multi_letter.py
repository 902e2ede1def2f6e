"""Where the two objects of a migrating fleet are kept by client-go's letter, two lead at once: by ours, one does."""

from __future__ import annotations

import asyncio
from contextlib import nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from kleader.election import renew
from kleader.election.events import Kind, Observed
from kleader.election.record import Record
from kleader.kube.errors import LockError
from kleader.locks import multilock
from tests.support.pair import Contender, World
from tests.support.rewriting import replaced, rewritten

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from contextlib import AbstractContextManager

FREE = Record("", 1, 0, 0, 3)  # as it is after a release
OLD, NEW, MULTI, RIVAL = "knows the annotation", "knows the Lease", "knows both", "knows both too"


async def one_is_released_and_the_other_held(world: World) -> None:
    """An earlier candidate for both has released the first; the second has been taken by one that knows it alone."""
    await world.put(world.endpoints(), FREE)
    await world.until_led_by(world.enter(NEW, world.lease()))
    world.enter(MULTI, world.both())
    await world.run(40)


async def the_answer_to_a_round_comes_late(world: World) -> None:
    """And no request of that leader arrives afterwards; the rival has seen the round when it was written."""
    slow = world.enter(MULTI, world.both())
    slow.delays = [0.0, 4.9]  # it reads, then writes
    await world.run(0.1)
    slow.cut = True
    world.enter(RIVAL, world.both())
    await world.run(40)


async def the_first_is_created_by_somebody_else(world: World) -> None:
    """Between the look that found neither and one's own creation."""
    old = world.enter(OLD, world.endpoints())
    world.server.before("POST", "endpoints", lambda: world.until_led_by(old))
    await world.step(both := world.enter(MULTI, world.both()))
    await _wait(world, both)


async def the_second_is_taken_by_somebody_else(world: World) -> None:
    """Between the look that found both free and one's own writes."""
    await world.put(world.endpoints(), FREE)
    await world.put(world.lease(), FREE)
    new = world.enter(NEW, world.lease())
    world.server.before("PUT", "endpoints", lambda: world.until_led_by(new))
    await world.step(both := world.enter(MULTI, world.both()))
    await _wait(world, both)


async def _wait(world: World, both: Contender) -> None:
    """It goes on alone until its round is over; then everybody does."""
    for _ in range(2):
        await world.step(both)
    await world.run(40)


# --- client-go's letter (resourcelock/multilock.go of v0.23)

_WRITE = multilock.MultiLock.write


async def _tolerant(
    self: multilock.MultiLock, base: Observed | None, record: Record, incarnation: str, timeout: float
) -> Observed:
    """Create: an AlreadyExists of the primary's is no error."""
    if base is not None:
        return await _WRITE(self, base, record, incarnation, timeout)
    first, second = self._locks
    try:
        await first.write(None, record, incarnation, timeout)
    except LockError as error:
        if error.failure.kind is not Kind.CONFLICT:
            raise
    return _as_one(await second.write(None, record, incarnation, timeout))


async def _overwriting(
    self: multilock.MultiLock, base: Observed | None, record: Record, incarnation: str, timeout: float
) -> Observed:
    """Update: the secondary is read again, and written over whatever is there."""
    if base is None:
        return await _WRITE(self, base, record, incarnation, timeout)
    first, second = self._locks
    await first.write(base.base.primary, record, incarnation, timeout)
    return _as_one(await second.write(await multilock._find(second, timeout), record, incarnation, timeout))


def _as_one(second: Observed) -> Observed:
    """What was written is not looked at."""
    return replace(second, base=multilock._Pair(None, second))


BREAKS: dict[str, tuple[Callable[[], AbstractContextManager[None]], Callable[[World], Coroutine[None, None, None]]]] = {
    "the primary's holder counts for both": (
        lambda: rewritten(multilock, "records[0].holder if agreed else UNKNOWN", "records[0].holder"),
        one_is_released_and_the_other_held,
    ),
    "a term counts from after the last answer": (
        lambda: rewritten(
            renew,
            "state.t0, state.next_request_at = state.sent_at,",
            "state.t0, state.next_request_at = step.now.boot,",
        ),
        the_answer_to_a_round_comes_late,
    ),
    "an AlreadyExists of the primary's is tolerated": (
        lambda: replaced((multilock.MultiLock,), "write", _tolerant),
        the_first_is_created_by_somebody_else,
    ),
    "the secondary is read again, and written over": (
        lambda: replaced((multilock.MultiLock,), "write", _overwriting),
        the_second_is_taken_by_somebody_else,
    ),
}


def overlaps(
    story: Callable[[World], Coroutine[None, None, None]], letter: AbstractContextManager[None]
) -> list[tuple[float, set[str]]]:
    world = World()
    with letter:
        asyncio.run(story(world))
    return world.overlaps


@pytest.mark.parametrize("name", BREAKS)
def test_kleaders_multilock_has_one_leader_where_client_gos_letter_has_two(name: str) -> None:
    letter, story = BREAKS[name]
    assert overlaps(story, nullcontext()) == []
    assert overlaps(story, letter())
