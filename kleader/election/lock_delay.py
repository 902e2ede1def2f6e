"""The lock delay: how a candidate knows that no process of an earlier holder is alive.

One instant, which never decreases, and one proof. tests/model checks these rules, and shows for each what happens
without it.

``safe_at``: before it a process of an earlier holder may be alive. ``L``: the longest lease duration seen on this lock,
and the candidate's own. "Ever held": this kleader has observed a record of a candidate on the lock, or sent a write to
it (``ever_held`` counts each object of a multilock). All three outlive the candidacy. The supervisor gives an elector
that replaces another one ``L`` and the term (incarnation, t0); a candidate's elector begins with ``safe_at`` at now +
``L``, and with a lock that was held.

A watch is *unbroken* if it has shown every change since the last observation: it began at the version of that
observation, and has had no error or restart since.

1. Every observation raises ``safe_at`` to now + ``L``, and none lowers it. These do not raise it:
   - the resourceVersion observed before; in an unbroken watch, the same record;
   - a release (an object without a record is none), and a handover to this candidate;
   - in an unbroken watch, a nomination of this candidate (9);
   - an object that is missing or has no record, of a lock never held; a missing object that was missing before. In
     coordinated election, where a candidate may wait long for the object: only the first look, or an unbroken watch.
   The event of a candidate's own write that waits for its answer is held back until then.
2. After a conflict nothing is written until a newer version was observed, or the same one was read twice.
3. A candidate writes at once over a release, over a handover or nomination to itself, and where a lock never held has
   no record. Over anything else, also where the object of a lock ever held is gone, it writes at ``safe_at``.
4. The command starts if the base of the acquiring write was a release, a handover to this candidate or no record of a
   lock never held (the "proof", which ends with its term); or if t0, the sending of the last write that counted, is
   at or after ``safe_at``. That now is past ``safe_at`` is not enough. Until then the candidate is HOLDING: at
   ``safe_at`` it renews, and starts.
5. HOLDING is a term, and past its deadline it ends: new incarnation, proof gone, ``safe_at`` raised. A HOLDING
   candidate that creates the object, or finds its own record under a version that no answer of its own has shown,
   raises ``safe_at``.
6. After a conflict or a lost answer of a renewal the candidate reads. Its own incarnation: it renews from that
   version. Gone: it creates the object; t0 moves only with the answer. Created again by the control plane, which
   nominates this candidate: it renews. Anything else: lost, the command is killed at once.
7. A release or a handover is written over the candidate's own record, by a candidate that was permitted to start (4),
   once its tree is proven empty, and before the term's deadline. One whose answer was lost is repeated over the same
   version only. An elector that replaces one which died while it released does not release: it renews once more,
   which records the run, and the lock runs out. So does a leader that is not to release the lock.
8. A handover is one if its mark's renewTime is the record's, and the incarnation is empty.
9. A nomination is a proof if in one unbroken watch only nominations lie between it and a release, or a sight of the
   object missing at ``safe_at`` or later. A watch of a missing object begins without a version: once it has begun the
   object is read.
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

    It raises ``safe_at`` unless it shows that the candidate has missed nothing, or proves that every process of an
    earlier holder is dead (rule 1). ``from_watch``: by a watch, which has shown every change since the last observation
    (after a gap its events are ignored, and the next watch begins from a read).
    """
    state = step.state
    nothing_missed = from_watch and not (state.observed and state.observed.some_object_is_missing)
    same = _is_same(state, observed, nothing_missed=nothing_missed)
    raises = not (same or _is_exempt(state, observed, nothing_missed=nothing_missed))
    note(state, observed)
    _count_read(state, observed)
    if raises:
        raise_safe_at(step)
    released = observed is not None and state.is_released(observed)
    missing = observed is None and nothing_missed and step.now.boot >= state.safe_at  # all earlier leaders are dead
    state.after_release = (
        released
        or missing
        or (state.after_release and nothing_missed and _is_only_change_a_nomination(state, observed))
    )
    if not same:
        state.observed_at = step.now.boot
    state.observed = observed
    return not same


def note(state: State, observed: Observed | None) -> None:
    """Remember what every later candidacy has to know: the longest duration, and which objects were ever held."""
    if observed is not None and not observed.is_blank:
        state.longest = max(state.longest, observed.record.duration)
        state.ever_held |= EVERY_OBJECT if observed.fault else EVERY_OBJECT - observed.objects_without_record


def raise_safe_at(step: Step) -> None:
    """A process of an earlier holder may be alive for the longest lease duration from now on."""
    state = step.state
    state.safe_at = max(state.safe_at, step.now.boot + longest(state))


def _is_same(state: State, observed: Observed | None, *, nothing_missed: bool) -> bool:
    """Whether the object was not written since. Under another version it may have been written, and put back."""
    before = state.observed
    if observed is None or before is None:  # in coordinated election a candidate may wait long for the object
        return state.has_observed and observed is before and (nothing_missed or not state.me.coordinated)
    return observed.version == before.version or (nothing_missed and observed.same_record(before))


def _is_exempt(state: State, observed: Observed | None, *, nothing_missed: bool) -> bool:
    """Whether it does not raise ``safe_at`` though something changed: nothing new can have been started (rule 1)."""
    if observed is None or observed.is_blank:
        return not state.ever_held and (nothing_missed or not (state.me.coordinated and state.has_observed))
    if state.is_released(observed) or state.is_handed_to_me(observed):
        return True
    return nothing_missed and state.is_nominated(observed) and _is_only_change_a_nomination(state, observed)


def _is_only_change_a_nomination(state: State, observed: Observed | None) -> bool:
    """Whether no candidate has written the lock since the last observation: the control plane has, to nominate one.

    A record without acquireTime is the control plane's or a client-go candidate's. It is a nomination if its holder is
    new, or if nothing in it has changed. Where there was no object before, the watch must have shown that (rule 9), and
    no candidate may have written the object since: a watch without a version can begin late.
    """
    if observed is None or not observed.is_nomination:
        return False
    if state.observed is None:
        return state.after_release and observed.only_control_plane_wrote
    before = state.observed.record
    return before.holder != observed.record.holder or before == observed.record


def _count_read(state: State, observed: Observed | None) -> None:
    """After a failed write: one read fewer to wait for if this shows the same version, none if another (rule 2)."""
    before = state.observed
    is_read_again = (observed and observed.version) == (before and before.version)
    state.reads_before_write = max(0, state.reads_before_write - 1) if is_read_again else 0
