"""The lock delay: how a candidate knows that no process of an earlier holder is alive.

One instant, ``State.safe_at``, which never decreases; and one proof, what the acquiring write was sent over. The rule,
with the numbers that are used here, is in tests/model/README.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kleader.election.state import EVERY_OBJECT, longest

if TYPE_CHECKING:
    from kleader.election.events import Observed
    from kleader.election.state import State
    from kleader.election.step import Step


def observe(step: Step, observed: Observed | None, *, from_watch: bool) -> bool:
    """Take in an observation; whether it differs from the last one.

    It raises ``safe_at`` unless it shows that the candidate has missed nothing, or proves that all processes of earlier
    holders are dead (rule 1). ``from_watch``: by a watch, which leaves out nothing since the last observation.
    """
    state = step.state
    unbroken = from_watch and not (state.observed and state.observed.lacks_component)
    same = _is_same(state, observed, unbroken=unbroken)
    raises = not (same or _is_exempt(state, observed, unbroken=unbroken))
    note(state, observed)
    _count_stale(state, observed)
    if raises:
        raise_safe_at(step)
    released = observed is not None and state.is_released(observed)
    missing = observed is None and unbroken and step.now.boot >= state.safe_at  # all earlier leaders are dead
    state.after_release = (
        released or missing or (state.after_release and unbroken and _is_only_nominated(state, observed))
    )
    if not same:
        state.observed_at = step.now.boot
    state.observed = observed
    return not same


def note(state: State, observed: Observed | None) -> None:
    """Remember what every later candidacy has to know: the longest duration, and which objects were ever held."""
    if observed is not None and not observed.unwritten:
        state.longest = max(state.longest, observed.record.duration)
        state.ever_held |= EVERY_OBJECT if observed.fault else EVERY_OBJECT - observed.missing_objects


def raise_safe_at(step: Step) -> None:
    """A process of an earlier holder may be alive for the longest lease duration from now on."""
    state = step.state
    state.safe_at = max(state.safe_at, step.now.boot + longest(state))


def _is_same(state: State, observed: Observed | None, *, unbroken: bool) -> bool:
    """Whether the object was not written since. Under another version it may have been written, and put back."""
    before = state.observed
    if observed is None or before is None:  # in coordinated election a candidate may wait long for the object
        return state.known and observed is before and (unbroken or not state.me.coordinated)
    return observed.version == before.version or (unbroken and observed.same_record(before))


def _is_exempt(state: State, observed: Observed | None, *, unbroken: bool) -> bool:
    """Whether no process of an earlier holder can be alive that was not alive before."""
    if observed is None or observed.unwritten:
        return not state.ever_held and (unbroken or not (state.me.coordinated and state.known))
    if state.is_released(observed) or state.is_handed_to_me(observed):
        return True
    return unbroken and state.is_nominated(observed) and _is_only_nominated(state, observed)


def _is_only_nominated(state: State, observed: Observed | None) -> bool:
    """Whether the control plane has nominated the holder since, which has not written the lock yet.

    client-go's candidates leave the acquireTime out, as the control plane does: only a change of the holder is a
    nomination. A watch of a missing object begins without a version: unless it has shown that the object is missing,
    its first event proves nothing. An API server may answer before such a watch has begun: so an object that a
    candidate has written since proves nothing either.
    """
    if observed is None or not observed.is_nomination:
        return False
    if state.observed is None:
        return state.after_release and observed.pristine
    before = state.observed.record
    return before.holder != observed.record.holder or before == observed.record


def _count_stale(state: State, observed: Observed | None) -> None:
    """After a conflict nothing is written until a newer version was observed (rule 2), or the same one twice."""
    before = state.observed
    is_read_again = (observed and observed.version) == (before and before.version)
    state.stale = max(0, state.stale - 1) if is_read_again else 0
