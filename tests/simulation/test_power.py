"""The simulator sees what it is for: without a guard that the promise rests on, some schedule soon breaks it.

Each guard is held by a unit test besides (tests/unit/test_election_guards.py).
"""

from __future__ import annotations

from contextlib import ExitStack
from itertools import chain
from typing import TYPE_CHECKING

import pytest

from tests.mutation.guards import TABLE
from tests.simulation.runs import schedule
from tests.support.guards import GUARDS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

ENOUGH = 1000  # schedules

#: Without which guard ("+": guards, where each covers for the other) which kind of schedule fails, and a seed that was
#: seen to. That is only where the search begins.
FOUND = {
    "a term counts from before its request": ("lease", 429),
    "another's record counts from after its answer": ("annotation", 2),
    "a holder's own duration is waited out": ("annotation", 3),
    "a write counts only with a new version": ("annotation", 77),
    "a write counts only if its answer shows it": ("lease", 119),
    "an answer belongs to its request": ("lease", 5),
    "a renewTime is a second after the last": ("annotation", 1),
    "a lost answer is followed by a fresh write": ("lease", 88),
    "mine means the incarnation too": ("lease", 18),
    "a change starts the wait anew": ("lease", 1),
    "a malformed record is held": ("lease", 102),
    "only one's own is released": ("lease", 152),
    "who is named waits for who led before": ("coordinated", 15),
    "who is named waits for who led before one that was named": ("coordinated", 72),
    "over a malformed record is not over an empty holder": ("coordinated", 391),
    "a claim is given back to who is preferred": ("coordinated", 23),
    "a claim is given back when all before must have ended": ("coordinated", 21),
    "a lock created anew is a claim at first+a lock found created anew is a claim at first": ("lease", 390),
    "who was named writes before it leads": ("asked", 194),
    "a pair: both must have one holder": ("to lease", 30),
    "a pair: holders that differ are held for the longest": ("to lease, client-go", 469),
    "a pair: a change of either starts the wait anew": ("from annotation", 494),
    "a pair: one that was there is missed": ("from annotation", 1437),
    "a lock created anew without a record is not free": ("lease", 14),
    "a lock created anew without a record was not given up": ("coordinated", 564),
    "who renewed unseen is waited for": ("lease, any length", 43),
    "who had a lock without a record unseen is waited for": ("lease", 216),
    "the same record in another version was written anew": ("to lease, any length", 480),
    "what was not told leaves something out": ("coordinated", 6703),
    "a claim that is read in another version is no right to lead": ("annotation", 965951680),
    "a claim is one for as long as a term by it": ("annotation", 965951680),
    "a claim that is restored is not released": ("coordinated", 1901949371),
    "a predecessor's claim waits anew": ("annotation", 965951680),
    "nor, when the lock is gone, the wait for it": ("lease, any length", 392),
    "a pair: one that is created anew without a record is missed": ("to lease, any length", 207),
    "or hands put a shorter record over who took it": ("from annotation", 586606187105),
}


#: Guards of the promise that a unit test alone holds, and why no schedule was seen to need them.
UNIT_TESTS_ONLY = {
    "a late answer starts nothing": "the supervisor's start gate refuses such a term too",
    "who leads gives up at stop_at": "the supervisor's own deadline does too",
    "gone is not free": "who creates a lock anew waits once more before it leads",
    "gone is not free to a new candidacy": "likewise",
    "gone is not free to who lost a race": "likewise",
    "an overtaken answer starts nothing": "it takes an edit by hand in the moment of an answer",
    "no grace when somebody else leads": "it takes an edit by hand: else all deadlines have passed by then",
    "who leads looks whose the lock is": "likewise",
    "who leads knows its own writes": "no machine is cloned",
    "what was lost is not released": "the tree is empty by then",
    "a pair: both answers must show the write": "no answer shows what was asked for, and lies",
    "a pair: a successor misses what it has not seen": "rare: one is deleted just before an elector is replaced",
    "a pair of which one is missing is not released": "rare: likewise",
    "who is named waits for all who led before": "rare: of two who led the earlier one ends later",
    "a claim is not released": "rare: an elector dies between being named and leading, cut off from all news",
    "a claim is the very one that was written": "rare: hands restore one while a later one of one's own never came",
    "a naming that was read waits anew": "rare: hands restore one that was never answered by a claim",
    "half a lock that was deleted under the write is another": "whoever else was seen to have it makes a claim wait",
    "a naming is known by its missing acquireTime": "who led in between has put another incarnation there",
    "a claim of long ago says nothing about a creation": "rare: a candidate ends between that and its answer",
    "a pair: one that was one's own and went is another's": "rare: hands delete it twice, and then an answer is lost",
    "a pair: a conflict at a creation shows that it is there": "rare: hands delete it before it is read",
    "a lock created for us is free if nobody has written it": "rare: deleted, named and renewed before it is seen",
    "one's own name alone gives no right to write": "no candidate of client-go's has the name of one of kleader's",
    "what was given and taken is another's": "the lock does not call it given any more",
    "half a pair was given to nobody": "rare: one is deleted between a transfer and the next write",
    "a claim is given to nobody": "nobody is named before there is a term",
    "a malformed record hides nobody": "rare: whoever had the lock just before was not seen",
    "who took a lock is known to a new candidacy": "rare: it is deleted before that candidacy reads it",
    "who has the lock after a release is known to a new candidacy": "likewise",
    "who was read behind the watch's back is known": "rare: a watch is late, ends, and the lock is deleted",
    "what was created without an answer may have been taken": "rare: whoever took it is not seen, and it is gone",
    "also where one without a record took its place": "rare: likewise",
    "half a lock that was read is held, whatever another reading shows": "rare: half is read, then hands write both",
    "a pair: a creation without an answer may have been done": "rare: whoever took half is not seen, and it is gone",
    "a pair: one that was created is known, whatever becomes of the other": "rare: likewise",
    "a pair: one without a record is created anew": "rare: hands do so twice, and who took half in between is not seen",
    "a pair: one without a record says nothing of who had it": "a half without a record counts as gone all the same",
    "half a claim that is restored is no right to lead": "rare: hands restore it as the other half is written",
    "half a release was done": "rare: a label comes between the two halves, hands before the next look",
    "who had half a lock since is another": "rare: within a lease duration hands let it in, and put the claim back",
    "half a watch that begins late leaves something out": "a watch of the model begins when it is asked for",
    "who takes half a lock was not named": "rare: hands leave half without an acquireTime, then lay on the other",
    "who was read behind the watch's back is known at the next gap": "rare: it is read beside a watch that then ends",
    "a pair: one that cannot be read is held as before": "hands leave no lock that they garbled unmended",
    "a claim is none any more when another was seen": "rare: none of 17,000 schedules needs it beside the next two",
    "half a lock found created anew is a claim at first": "rare: likewise",
    "a pair: one that is created has no transitions": "rare: likewise",
    "a lock created for us is free if it was missing": "rare: deleted while a machine is down that is named next",
}


#: The name of each case, what takes its guards away, and the schedule to begin with.
CASES: dict[str, tuple[list[Callable[[], AbstractContextManager[None]]], tuple[str, int]]] = {
    **{guard: ([GUARDS[each] for each in guard.split("+")], found) for guard, found in FOUND.items()},
    **{
        row.keeps: ([each.taken_away for each in TABLE if each.keeps in {row.keeps, row.beside}], row.schedule)
        for row in TABLE
        if row.schedule
    },
}


@pytest.mark.timeout(900)
@pytest.mark.parametrize("guard", CASES)
def test_some_schedule_breaks_a_promise_without(guard: str) -> None:
    guards, (kind, known) = CASES[guard]
    with ExitStack() as taken_away:
        for each in guards:
            taken_away.enter_context(each())
        assert any(_failures(kind, known)), f"{ENOUGH} schedules do not need it"


def test_what_a_unit_test_alone_holds_is_a_guard() -> None:
    assert UNIT_TESTS_ONLY.keys() <= GUARDS.keys()


def _failures(kind: str, known: int) -> Iterator[AssertionError | None]:
    return (schedule(seed, kind).play_or_fail() for seed in chain([known], range(1, ENOUGH)))
