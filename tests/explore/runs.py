"""What is explored: bounds within which the worlds of two candidates are visited breadth first."""

from __future__ import annotations

from tests.explore.world import Bounds, Faults

HANDS = frozenset({"delete", "strip", "edit", "restore"})
DELETED = frozenset({"delete"})

#: How many versions of the object, and how many faults of each kind, in all.
RUNS = {
    "never held, late": Bounds(6, Faults(late=1)),
    "never held, two answers lost": Bounds(5, Faults(lost=2)),
    "never held, an answer lost, a manual edit": Bounds(5, Faults(lost=1, edits=1), HANDS),
    "acquired, late": Bounds(4, Faults(late=2), begins="acquired"),
    "led, late": Bounds(4, Faults(late=2), begins="led"),
    "led, late, an answer lost": Bounds(4, Faults(late=1, lost=1), begins="led"),
    "led, an end, an answer lost": Bounds(5, Faults(ends=1, lost=1), begins="led"),
    "led, two manual edits": Bounds(6, Faults(edits=2), HANDS, begins="led"),
    "led, a manual edit, an answer lost": Bounds(6, Faults(edits=1, lost=1), HANDS, begins="led"),
    "led, a manual edit, a gap": Bounds(6, Faults(edits=1, gaps=1), HANDS, begins="led"),
    "led, a manual edit, an elector replaced": Bounds(5, Faults(edits=1, replaced=1), HANDS, begins="led"),
    "led, an answer lost, an elector replaced": Bounds(6, Faults(lost=1, replaced=1), begins="led"),
    "led, a crash, a manual edit": Bounds(5, Faults(crashes=1, edits=1), HANDS, begins="led"),
    "led, an end, a manual edit": Bounds(5, Faults(ends=1, edits=1), HANDS, begins="led"),
    "led, late, a manual edit": Bounds(6, Faults(late=1, edits=1), HANDS, begins="led"),
    "led by a longer lease, late": Bounds(6, Faults(late=1), frozenset(), (8, 4), begins="led"),
    "led by a longer lease, a deletion, late": Bounds(6, Faults(late=1, edits=1), DELETED, (8, 4), begins="led"),
}
#: Wider, for `make test-all` and the nightly run.
DEEP = {
    "led, late, a manual edit, a gap": Bounds(6, Faults(late=1, edits=1, gaps=1), HANDS, begins="led"),
    "led, a manual edit, an answer lost, a gap": Bounds(6, Faults(edits=1, lost=1, gaps=1), HANDS, begins="led"),
    "led, a manual edit, an answer lost, an elector replaced": Bounds(
        6, Faults(edits=1, lost=1, replaced=1), HANDS, begins="led"
    ),
    "led, an end, a manual edit, an answer lost": Bounds(6, Faults(ends=1, edits=1, lost=1), HANDS, begins="led"),
    "led, an end, a manual edit, an elector replaced": Bounds(
        6, Faults(ends=1, edits=1, replaced=1), HANDS, begins="led"
    ),
    "led, two manual edits, a gap": Bounds(6, Faults(edits=2, gaps=1), HANDS, begins="led"),
    "led, a crash, a manual edit, an answer lost": Bounds(6, Faults(crashes=1, edits=1, lost=1), HANDS, begins="led"),
    "never held, two answers lost, late": Bounds(5, Faults(lost=2, late=1)),
}
