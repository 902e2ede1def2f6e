"""The guards of the election: pure functions, so that they are taken away in memory."""

from __future__ import annotations

from typing import NamedTuple

from tests.mutation.guard import Guard

_NOTHING = ""


class _Rows(NamedTuple):
    """Guards of one module of the election, with tests of one module."""

    module: str
    test: str

    def __call__(  # noqa: PLR0917 - a row
        self,
        keeps: str,
        function: str,
        old: str,
        new: str,
        test: str,
        schedule: tuple[str, int] | None = None,
        rare: str = "",
        beside: str = "",
    ) -> Guard:
        """A row: as Guard has it, without the module's name and the test's path."""
        path = f"unit/test_{self.test}.py" if "::" not in test else ""
        where = f"{path}::{test}" if path else f"unit/test_{test}"
        return Guard(keeps, f"{self.module}:{function}", old, new, where, schedule, rare, beside)


_ACQUIRE = _Rows("election.acquire", "election_acquire")
_DELAY = _Rows("election.lock_delay", "election_gaps")
_STATE = _Rows("election.state", "election_gone")
_RENEW = _Rows("election.renew", "election_renew")
_HOLD = _Rows("election.hold", "election_gone")
_TERM = _Rows("election.renew", "election_gone")
_RELEASE = _Rows("election.release", "election_release")
_STEP = _Rows("election.elector", "election_acquire")
_LOOK = _Rows("election.look", "election_watch")
_PAUSE = _Rows("election.transition", "election_watch")
_EVENTS = _Rows("election.events", "election_gone")
_COORDINATED = _Rows("election.acquire", "election_coordinated")
_REQUESTS = _Rows("election.renew", "election_requests")
_FOR_LIFE = _Rows("election.for_life", "for_life")
_MULTI = _Rows("locks.multilock", "multi")

#: The rules of tests/model/README.md, by their numbers.
_LOCK_DELAY = [
    # 1: observing
    _DELAY(
        "rule 1: each observation raises safe_at",
        "observe",
        "if raises:\n    raise_safe_at(turn)",
        _NOTHING,
        "election_acquire.py::test_each_renewal_seen_starts_the_wait_anew()",
        ("lease", 1),
    ),
    _DELAY(
        "rule 1: another candidate's record counts from after its answer",
        "raise_safe_at",
        "turn.now.boot + longest(state)",
        "state.sent_at + longest(state)",
        "election_acquire.py::test_anothers_record_counts_from_after_its_answer_arrived()",
        ("annotation", 2),
    ),
    _STATE(
        "rule 1: the longest lease duration that was seen counts",
        "longest",
        "max(state.longest, state.me.timing.lease_duration)",
        "state.me.timing.lease_duration",
        "election_acquire.py::test_a_held_lock_is_taken_when_its_own_duration_has_passed_unchanged()",
        ("lease, any length", 2),
    ),
    _STATE(
        "rule 1: the candidate's own lease duration counts too",
        "longest",
        "max(state.longest, state.me.timing.lease_duration)",
        "state.longest",
        "election_gaps.py::test_one_like_this_candidate_that_was_never_seen_is_waited_for()",
        ("lease", 111),
    ),
    _DELAY(
        "rule 1: what is read under another version was written anew",
        "_is_same",
        "unbroken and observed.same_record(before)",
        "observed.same_record(before)",
        "test_the_record_of_long_ago_that_is_there_again_starts_the_wait_anew()",
        rare="two edits by hand between two reads",
    ),
    _DELAY(
        "rule 1: a label that a watch shows does not put a candidate off",
        "_is_same",
        "unbroken and observed.same_record(before)",
        "False",
        "election_acquire.py::test_a_label_seen_while_waiting_does_not_start_the_wait_anew()",
    ),
    _DELAY(
        "rule 1: a watch that begins with half a multilock leaves something out",
        "observe",
        "from_watch and not (state.observed and state.observed.lacks_component)",
        "from_watch",
        "test_half_a_watch_that_begins_late_leaves_out_who_had_that_half_until_then()",
        rare="one object is put back as it was while the watch of the other begins",
    ),
    _DELAY(
        "rule 1: a watch of a missing object leaves something out",
        "_is_only_nominated",
        "return state.after_release and observed.pristine",
        "return observed.pristine",
        'election_coordinated.py::test_a_lock_created_for_us_is_waited_for(["missing"], untouched=True)',
        rare="a Lease is deleted by hand before all have observed it",
    ),
    _EVENTS(
        "rule 1: an object without a record is no release",
        "Observed.is_release",
        "self.record.holder or self.record.unwritten or self.fault",
        "self.record.holder or self.fault",
        "election_coordinated.py::test_a_lock_created_anew_without_a_record_does_not_end_it()",
        ("coordinated", 153),
    ),
    _EVENTS(
        "rule 1: a malformed record is no release",
        "Observed.is_release",
        "self.record.holder or self.record.unwritten or self.fault",
        "self.record.holder or self.record.unwritten",
        "election_coordinated.py::test_a_malformed_record_is_no_empty_holder()",
        rare="the record has no holder, and an odd duration",
    ),
    _STATE(
        "rule 1: half a multilock is no release",
        "State.is_released",
        "observed.is_release and not (...)",
        "observed.is_release",
        "test_half_a_lock_that_is_missing_makes_the_lock_not_free_though_the_other_half_is_released()",
        ("from annotation", 119),
    ),
    _STATE(
        "rule 1: half a multilock is no handover",
        "State.is_handed_to_me",
        "observed.incomplete or self.me.coordinated or self.me.non_expiring",
        "self.me.coordinated or self.me.non_expiring",
        "test_half_a_lock_that_is_handed_over_is_handed_over_to_nobody()",
        rare="one object is deleted between a handover and the next write",
    ),
    _DELAY(
        "rule 1: gone is not free",
        "_is_exempt",
        "not state.touched",
        "True",
        "election_gone.py::test_a_lock_seen_held_and_then_deleted_is_created_only_after_the_holders_duration()",
        rare="a creation raises safe_at too",
    ),
    _STATE(
        "rule 1: an object that is gone is no proof",
        "State.is_proof",
        "not self.touched",
        "True",
        "test_a_lock_seen_held_and_then_deleted_is_created_only_after_the_holders_duration()",
        ("lease", 5),
    ),
    _DELAY(
        "touched: a candidate that has observed a record has touched the lock",
        "note",
        "state.touched |= ...",
        _NOTHING,
        "election_gone.py::test_a_lock_seen_held_and_then_deleted_is_created_only_after_the_holders_duration()",
        ("lease", 18),
    ),
    _ACQUIRE(
        "touched: a candidate that has sent a write has touched the lock",
        "_acquire",
        "state.proof, state.t0, state.touched = ..., ..., EVERY_OBJECT",
        "state.proof, state.t0 = ..., ...",
        "election_gone.py::test_a_lock_that_somebody_created_first_and_that_vanished_is_not_free()",
        rare="a creation conflicts, and the object is deleted before it is read",
    ),
    _STATE(
        "touched: the next elector has touched the lock",
        "resume_waiting",
        "State(me, incarnation, longest=longest, touched=EVERY_OBJECT)",
        "State(me, incarnation, longest=longest)",
        "test_the_successor_of_a_waiting_elector_does_not_take_a_missing_lock_for_free()",
        rare="an elector dies just before the object is deleted",
    ),
    _STATE(
        "touched: the next candidacy has touched the lock",
        "begin_candidacy",
        "candidacy.safe_at, candidacy.longest, candidacy.touched = ..., ..., EVERY_OBJECT",
        "candidacy.safe_at, candidacy.longest = ..., ...",
        "test_a_new_candidacy_does_not_take_a_missing_lock_for_free()",
        rare="it is deleted as a candidacy ends",
    ),
    _STATE(
        "the next candidacy knows the longest lease duration",
        "begin_candidacy",
        "candidacy.safe_at, candidacy.longest, candidacy.touched = ..., ..., EVERY_OBJECT",
        "candidacy.safe_at, candidacy.touched = ..., EVERY_OBJECT",
        "test_a_new_candidacy_waits_for_who_was_seen_to_have_taken_the_lock_though_that_is_gone_by_then()",
        rare="the record is made shorter, or goes, between two candidacies",
    ),
    _STATE(
        "the next elector knows the longest lease duration",
        "resume_waiting",
        "State(me, incarnation, longest=longest, touched=EVERY_OBJECT)",
        "State(me, incarnation, touched=EVERY_OBJECT)",
        "test_whoever_has_the_lock_by_then_does_not_shorten_that()",
        rare="the record is made shorter while no elector watches",
    ),
    _STATE(
        "the next elector has a safe_at",
        "resume_waiting",
        "state.safe_at = ...",
        _NOTHING,
        "successor.py::test_the_longest_lease_duration_that_was_seen_is_told_and_waited_for()",
        rare="its first observation raises it too, or proves that it is needless",
    ),
    _RENEW(
        "a candidate knows who took the lock from its last term",
        "got",
        "note(state, observed)",
        _NOTHING,
        "election_gone.py"
        "::test_a_new_candidacy_waits_for_who_was_seen_to_have_taken_the_lock_though_that_is_gone_by_then()",
        rare="it is deleted before the next candidacy reads it",
    ),
    _RELEASE(
        "a candidate knows who has the lock after its release",
        "got",
        "note(state, observed)",
        _NOTHING,
        "election_gone.py::test_a_new_candidacy_waits_for_who_was_seen_to_have_the_lock_after_its_release('long')",
        rare="it is deleted before the next candidacy reads it",
    ),
    _ACQUIRE(
        "rule 1: the event of a candidate's own write is held back",
        "saw",
        "isinstance(state.pending, e.Write) and observed and _is_expected(state, observed)",
        "False",
        "test_the_event_of_the_write_under_way_changes_nothing_when_its_answer_follows()",
    ),
    _STATE(
        "rule 1: the event of a candidate's own half is held back",
        "State.shows_me",
        "self.held_by_me(observed) or ...",
        "self.held_by_me(observed)",
        "election_own_record.py::test_ones_own_write_of_which_the_watch_tells_half_by_half_makes_a_leader_at_once()",
    ),
    _EVENTS(
        "a change of either object of a multilock is a change",
        "Observed._comparison_key",
        "(*seen, self.components, self.ours, self.dead)",
        "(*seen, self.ours, self.dead)",
        "election_gaps.py::test_renewals_of_one_half_count_though_the_record_of_both_stays_the_same()",
        ("from annotation", 195),
    ),
    _EVENTS(
        "a handover that is taken is a change",
        "Observed._comparison_key",
        "self.record, self.incarnation, self.fault, self.handed_over, self.incomplete",
        "self.record, self.incarnation, self.fault, self.incomplete",
        "election_requests.py::test_what_is_not_given_any_more_is_not_taken()",
        rare="a record by hand is that of a handover",
    ),
    _ACQUIRE(
        "an event of the version that is written over changes nothing",
        "_is_expected",
        "is_base or ...",
        "...",
        "test_a_late_event_of_the_version_that_is_written_over_changes_nothing()",
    ),
    _ACQUIRE(
        "touched: a write that was half done touches the lock",
        "_is_refusal",
        "... and not failure.half_done",
        "...",
        "election_gone.py::test_a_multilock_of_which_half_was_created_makes_no_leader_at_once_when_it_is_gone()",
        rare="one object of a multilock is created, the other refused, and the first deleted",
    ),
    _ACQUIRE(
        "touched: a refusal leaves touched what was",
        "failed",
        "_is_refusal(failure) and state.proof and is_current",
        "_is_refusal(failure)",
        "election_gone.py::test_a_refusal_to_create_what_is_gone_leaves_the_holder_to_be_waited_for()",
        rare="a creation is refused, of an object that was deleted by hand",
    ),
    _ACQUIRE(
        "touched: a refusal leaves touched the object that was seen",
        "failed",
        "state.touched -= _missing(request.base)",
        "state.touched = frozenset()",
        "election_gone.py::test_a_half_that_was_seen_is_touched_whatever_was_refused()",
        rare="one object of a multilock is created, as the other is deleted by hand",
    ),
    # 2: conflicts
    _ACQUIRE(
        "rule 2: after a conflict nothing is written over what was observed",
        "failed",
        "state.stale = 1 if state.me.non_expiring else 2",
        _NOTHING,
        "test_a_conflict_unheard_of_by_the_watch_is_looked_into_after_a_retry_period()",
        rare="compare-and-swap refuses it again",
    ),
    _DELAY(
        "rule 2: a conflict that no newer version explains stops nobody for ever",
        "_count_stale",
        "state.stale = max(0, state.stale - 1) if ... else 0",
        "state.stale = state.stale if ... else 0",
        "election_acquire.py::test_a_conflict_that_no_newer_version_explains_stops_nobody_for_ever()",
    ),
    # 3: when to write
    _ACQUIRE(
        "rule 3: a malformed record is held",
        "acquire_at",
        "if observed and observed.fault:\n    ...\n",
        _NOTHING,
        "election_watch.py::test_a_malformed_record_is_held_for_ever_and_the_error_says_why()",
        rare="safe_at covers: it is overwritten when its holder must have ended",
    ),
    _ACQUIRE(
        "rule 3: a lock that is held is written at safe_at",
        "acquire_at",
        "max(state.safe_at, now.boot) + later",
        "now.boot + later",
        "test_a_held_lock_is_not_taken_when_first_seen_however_old_its_times_are()",
    ),
    # 4: when to start
    _RENEW(
        "rule 4: a term counts from before its request",
        "count",
        "state = turn.state\nstate.t0, state.next_request_at = state.sent_at, ...",
        "state = turn.state\nstate.t0, state.next_request_at = turn.now.boot, ...",
        "test_a_renewal_counts_from_before_it_was_sent()",
        ("lease", 429),
    ),
    _STATE(
        "rule 4: a command starts when no process of an earlier holder can be alive",
        "State.permitted",
        "self.proof or self.t0 >= self.safe_at",
        "True",
        "test_a_lock_created_anew_makes_a_leader_only_after_a_lease_duration_and_a_fresh_write()",
        ("coordinated", 15),
    ),
    _TERM(
        "rule 4: that now is past safe_at is not enough",
        "begin_term",
        "if creates(write.base) and not state.proof:\n    raise_safe_at(turn)\nif state.permitted:\n    ...",
        "if creates(write.base) and not state.proof:\n    raise_safe_at(turn)\n"
        "if state.proof or turn.now.boot >= state.safe_at:\n    ...",
        "test_a_renewal_that_was_sent_before_safe_at_begins_no_term_when_it_is_answered_after()",
        rare="a record is put back over the candidate's own while its renewal is under way",
    ),
    _ACQUIRE(
        "rule 4: a handover that was observed is no term before a write",
        "got",
        "_observe(turn, observed, from_watch=False)",
        "if observed and turn.state.is_handed_to_me(observed):\n"
        "    return wrote(turn, e.Write(0, 0, turn.state.observed, observed.record, ''), observed)\n"
        "_observe(turn, observed, from_watch=False)",
        "election_requests.py::test_who_was_named_before_it_first_looked_takes_the_lock_at_once()",
    ),
    _ACQUIRE(
        "a late answer starts nothing",
        "wrote",
        "state.observed is not write.base or turn.now.boot >= ...",
        "state.observed is not write.base",
        "test_a_write_answered_after_its_own_renew_deadline_starts_nothing()",
        rare="the supervisor's start gate refuses such a term too",
    ),
    _ACQUIRE(
        "an overtaken answer starts nothing",
        "wrote",
        "state.observed is not write.base or ...",
        "...",
        "test_an_answer_starts_nothing_when_the_watch_has_shown_another_holder_before()",
        rare="it takes an edit by hand in the moment of an answer",
    ),
    # 5: HOLDING
    _TERM(
        "rule 5: a creation raises safe_at",
        "begin_term",
        "if creates(write.base) and not state.proof:\n    raise_safe_at(turn)",
        _NOTHING,
        "test_a_lock_created_anew_makes_a_leader_only_after_a_lease_duration_and_a_fresh_write()",
        ("lease", 390),
    ),
    _TERM(
        "rule 5: a creation of half a multilock raises safe_at",
        "creates",
        "base is None or base.lacks_component",
        "base is None",
        "test_half_a_lock_created_anew_makes_a_leader_only_after_a_lease_duration_and_a_fresh_write()",
        rare="half is deleted, held, and deleted again in one lease duration",
    ),
    _HOLD(
        "rule 5: the candidate's own record under an unknown version raises safe_at",
        "got",
        "if state.observed is None or observed.version != state.observed.version:\n    raise_safe_at(turn)",
        _NOTHING,
        "test_ones_own_record_under_another_version_raises_the_wait_of_who_holds_the_lock()",
        rare="the candidate's own record and an earlier leader's are put back, one after the other",
    ),
    _HOLD(
        "rule 5: the same where the object was gone in between",
        "got",
        "state.observed is None or observed.version != state.observed.version",
        "state.observed is not None and observed.version != state.observed.version",
        "test_ones_own_record_that_is_there_again_after_a_lost_creation_raises_the_wait_of_who_holds_the_lock()",
        rare="two records are put back while a creation has no answer",
    ),
    _HOLD(
        "rule 5: HOLDING past its deadline raises safe_at",
        "_end",
        "raise_safe_at(turn)",
        _NOTHING,
        "test_a_lock_that_is_held_and_not_renewed_in_time_is_held_no_more()",
        rare="what is observed then raises it too",
    ),
    _HOLD(
        "rule 5: HOLDING that ended leaves its incarnation",
        "_end",
        "next_incarnation(state.incarnation)",
        "state.incarnation",
        "test_a_lock_that_is_held_and_not_renewed_in_time_is_held_no_more()",
        rare="a record of the last term is put back over another leader's",
    ),
    _STATE(
        "rule 5: a candidate that gets another elector leaves its incarnation",
        "next_incarnation",
        "root, _, number = incarnation.partition('.')\nreturn f'{root}.{int(number or 0) + 1}'",
        "return incarnation",
        "successor.py::test_a_candidate_whose_elector_is_replaced_has_another_incarnation_and_a_leader_has_its_own()",
        rare="a late write of the last elector's lands on the next one's",
    ),
    # 6: renewing
    _RENEW(
        "rule 6: the leader recreates what was deleted",
        "got",
        "renew_from(turn, None)",
        "lose(turn, 'it is gone', kill_now=True)",
        "test_a_leader_recreates_a_deleted_lock_at_once_and_keeps_its_count_and_its_time()",
    ),
    # 7: releasing
    _RELEASE(
        "rule 7: a candidate that may not start releases nothing",
        "close",
        "leading or (state.phase is Phase.FOLLOWING and _may_hold(state))",
        "leading or state.phase is Phase.HOLDING or (state.phase is Phase.FOLLOWING and _may_hold(state))",
        "election_gone.py::test_a_lock_that_may_not_be_led_with_yet_is_left_to_run_out_at_the_end()",
        rare="a candidate ends in that moment: tests/model and tests/explore find it",
    ),
    _RELEASE(
        "rule 7: an acquiring write without an answer is released only where its command could start",
        "_may_hold",
        "state.t0 > -inf and state.permitted and not creates_again",
        "state.t0 > -inf and not creates_again",
        "election_coordinated.py::test_a_write_over_a_living_leader_without_an_answer_is_not_released()",
        rare="likewise",
    ),
    _RELEASE(
        "rule 7: a creation without an answer is not released",
        "_may_hold",
        "state.t0 > -inf and state.permitted and not creates_again",
        "state.t0 > -inf and state.permitted",
        "test_an_acquiring_write_without_an_answer_is_not_released_where_an_earlier_holder_may_run()",
        rare="it is deleted and created anew as its candidate ends",
    ),
    _RELEASE(
        "rule 7: an acquiring write without an answer is released where its command could start",
        "_may_hold",
        "state.t0 > -inf and state.permitted and not creates_again",
        "False",
        "test_an_acquiring_write_without_an_answer_at_safe_at_is_released()",
    ),
    _RELEASE(
        "rule 7: a release without an answer is repeated over the same version only",
        "got",
        "base is None or state.me.non_expiring",
        "True",
        "election_own_record.py::test_a_lock_that_was_released_without_an_answer_and_is_ones_own_again_is_let_be('')",
        rare="the record is put back over the next leader's at once",
    ),
    _RELEASE(
        "rule 7: half a release was done",
        "failed",
        "failure.kind is Kind.UNREACHABLE or failure.half_done",
        "failure.kind is Kind.UNREACHABLE",
        "election_own_record.py::test_a_multilock_that_was_released_by_half_and_is_ones_own_again_is_let_be('')",
        rare="a label comes between the two halves, hands before the next read",
    ),
    _RELEASE(
        "rule 7: a multilock of which one object is missing is not released",
        "proceed",
        "state.observed.incomplete",
        "False",
        "test_a_pair_of_which_one_is_missing_is_not_released()",
        rare="one is deleted just before a release",
    ),
    _RELEASE(
        "only the candidate's own record is released",
        "got",
        "_is_mine(turn, observed) and ...",
        "True",
        "test_what_is_somebody_elses_by_now_is_not_released('other', 'term-9')",
        ("lease", 152),
    ),
    _RELEASE(
        "a term that was lost is not released",
        "close",
        "leading or (state.phase is Phase.FOLLOWING and _may_hold(state))",
        "leading or state.phase is Phase.LOST or (state.phase is Phase.FOLLOWING and _may_hold(state))",
        "test_a_term_that_was_lost_is_not_released()",
        rare="the tree is empty by then",
    ),
    _RELEASE(
        "a release has its time",
        "close",
        "state.release_by = ...",
        "state.release_by = inf",
        "test_a_release_is_tried_no_longer_than_one_request_may_take()",
    ),
    # 9: nominations
    _STATE(
        "rule 9: a nomination over a leader is no proof",
        "State.is_proof",
        "self.is_nominated(observed) and self.after_release",
        "self.is_nominated(observed)",
        "election_coordinated.py"
        "::test_a_candidate_named_over_a_holder_renews_at_once_and_leads_when_that_one_must_have_ended()",
        ("coordinated", 15),
    ),
    _DELAY(
        "rule 9: only nominations lie between a release and the proof",
        "observe",
        "state.after_release and unbroken and ...",
        "state.after_release and unbroken",
        "election_coordinated.py::test_one_who_took_the_lock_unnamed_is_waited_for()",
        ("coordinated", 21),
    ),
    _DELAY(
        "rule 9: a gap between a release and a nomination leaves something out",
        "observe",
        "state.after_release and unbroken and ...",
        "state.after_release and ...",
        "election_coordinated.py::test_what_was_read_leaves_out_what_was_there_between()",
        rare="a nominated leader is followed by another nomination within a gap",
    ),
    _DELAY(
        "rule 1: a nomination that was read leaves something out",
        "_is_exempt",
        "unbroken and state.is_nominated(observed) and ...",
        "state.is_nominated(observed) and ...",
        "election_coordinated.py::test_what_was_read_leaves_out_what_was_there_between()",
        rare="the nomination is no proof either",
    ),
    _DELAY(
        "rule 9: a missing object proves nothing while a leader of before may be alive",
        "observe",
        "observed is None and unbroken and turn.now.boot >= state.safe_at",
        "observed is None and unbroken",
        'election_coordinated.py::test_a_lock_created_for_us_is_waited_for(["held", "missing"], untouched=True)',
        rare="a Lease is deleted by hand, and created before its leader has seen that",
    ),
    _DELAY(
        "rule 9: a candidate may have written an object as the watch of it began",
        "_is_only_nominated",
        "return state.after_release and observed.pristine",
        "return state.after_release",
        "election_coordinated.py::test_a_lock_that_was_written_as_its_watch_began_is_waited_for()",
        rare="an API server answers before a watch has begun",
    ),
    _DELAY(
        "rule 9: a missing object that was read proves nothing",
        "observe",
        "observed is None and unbroken and turn.now.boot >= state.safe_at",
        "observed is None and turn.now.boot >= state.safe_at",
        'election_coordinated.py::test_a_lock_created_for_us_is_waited_for(["missing"], untouched=True)',
        rare="a Lease is deleted by hand before all have observed it",
    ),
    _DELAY(
        "rule 1: in coordinated election a missing object that is read again may have been there",
        "_is_same",
        "state.known and observed is before and (unbroken or not state.me.coordinated)",
        "state.known and observed is before",
        "election_coordinated.py"
        "::test_a_lock_that_is_missing_after_a_gap_may_have_been_another_candidates_in_between()",
        rare="a Lease is deleted by hand before all have observed it",
    ),
    _DELAY(
        "rule 1: also to a candidate that has never observed the lock as held",
        "_is_exempt",
        "not state.touched and (unbroken or not (state.me.coordinated and state.known))",
        "not state.touched",
        "election_coordinated.py"
        "::test_a_lock_that_is_missing_after_a_gap_may_have_been_another_candidates_in_between()",
        rare="a Lease is deleted by hand before all have observed it",
    ),
    _DELAY(
        "rule 9: a holder that was nominated and writes is no nomination",
        "_is_only_nominated",
        "return before.holder != observed.record.holder or before == observed.record",
        "return True",
        "election_coordinated.py::test_who_is_nominated_and_writes_without_an_acquire_time_is_waited_for()",
        rare="no client-go candidate is coordinated in the model",
    ),
    _STATE(
        "a nomination is known by its missing acquireTime",
        "State.held_by_me",
        "is_mine and record.acquired is not None",
        "is_mine",
        "election_coordinated.py"
        "::test_who_was_named_under_an_old_annotation_does_not_go_on_leading_in_plain_election()",
        rare="who led in between has put another incarnation there",
    ),
]

_OF_A_WRITE = [
    _STEP(
        "a write counts only with a new version",
        "_counts",
        "moved = write.base is None or observed.version != write.base.version",
        "moved = True",
        "test_an_answer_that_does_not_show_the_very_write_is_a_lost_one(WRONG_ANSWERS['the version that was sent'])",
        ("annotation", 77),
    ),
    _STEP(
        "a write counts only if its answer shows it",
        "_counts",
        "shown and moved and ...",
        "moved and ...",
        "test_an_answer_that_does_not_show_the_very_write_is_a_lost_one(WRONG_ANSWERS['another holder'])",
        ("lease", 167),
    ),
    _STEP(
        "an answer belongs to its request",
        "_answered",
        "part is None or state.pending is None or state.pending.serial != event.request.serial",
        "part is None or state.pending is None",
        "election_gone.py::test_a_new_candidacy_ignores_the_answers_of_the_last_one()",
        ("lease", 5),
    ),
    _PAUSE(
        "a renewTime is a second after the last",
        "Transition.fresh_time",
        "fresh_time(previous, self.now.wall, self.state.me.tick)",
        "self.now.wall",
        "election_acquire.py"
        "::test_a_renew_time_is_a_second_after_the_one_it_replaces_where_the_clock_does_not_give_it()",
        ("annotation", 1),
    ),
    _STATE(
        "held by me means the incarnation too",
        "State.held_by_me",
        "(record.holder, observed.incarnation) == (self.me.identity, self.incarnation)",
        "record.holder == self.me.identity",
        "election_renew.py::test_a_leader_that_reads_another_holder_or_incarnation_has_lost_without_grace"
        "('me', 'term-0', 'another candidate with the same --identity holds the lock: give each its own')",
        rare="a process of the same name takes the lock over unseen",
    ),
    _STATE(
        "a candidate's own name alone gives no right to write",
        "State.is_handed_to_me",
        "observed.handed_over and not observed.incarnation and ...",
        "not observed.incarnation and ...",
        "election_requests.py::test_ones_own_name_that_nobody_was_given_is_somebody_else({'handed_over': False})",
        rare="no candidate of client-go's has the name of one of kleader's",
    ),
    _STATE(
        "a handover that was taken is another candidate's",
        "State.is_handed_to_me",
        "observed.handed_over and not observed.incarnation and ...",
        "observed.handed_over and ...",
        "election_requests.py::test_ones_own_name_that_nobody_was_given_is_somebody_else({'incarnation': 'term-7'})",
        rare="the lock does not call it handed over any more",
    ),
]

_OF_A_LEADER = [
    _RENEW(
        "a leader gives up at stop_at",
        "proceed",
        "turn.now.boot >= turn.state.stop_at",
        "turn.now.boot >= turn.state.stop_at + 2",
        "test_leadership_is_given_up_at_the_renew_deadline_with_grace_and_not_later()",
        rare="the supervisor's own deadline does too",
    ),
    _RENEW(
        "no grace when another candidate leads",
        "got",
        "lose(turn, ..., kill_now=True)",
        "lose(turn, ..., kill_now=False)",
        "test_a_leader_that_reads_another_holder_or_incarnation_has_lost_without_grace"
        "('other', 'term-9', 'the lock is held by other')",
        rare="it takes an edit by hand: else all deadlines have passed by then",
    ),
    _RENEW(
        "a leader checks that the lock is its own",
        "is_mine",
        "state.held_by_me(observed) and is_own_write",
        "True",
        "test_a_leader_that_reads_another_holder_or_incarnation_has_lost_without_grace"
        "('other', 'term-9', 'the lock is held by other')",
        rare="it takes an edit by hand: else all deadlines have passed by then",
    ),
    _RENEW(
        "a leader knows its own writes",
        "is_mine",
        "state.held_by_me(observed) and is_own_write",
        "state.held_by_me(observed)",
        "test_a_second_writer_of_the_same_identity_and_incarnation_is_noticed_by_its_renew_time()",
        rare="no machine is cloned",
    ),
    _RENEW(
        "a request ends with the renew deadline",
        "renew",
        "write(turn, min(state.me.request_timeout, state.stop_at - now))",
        "write(turn, state.me.request_timeout)",
        "test_no_request_of_a_leader_may_outlast_its_deadline_or_half_of_it()",
    ),
    _RENEW(
        "a leader keeps a lock created anew for it",
        "got",
        "observed.pristine and observed.record.holder == state.me.identity",
        "False",
        "election_coordinated.py::test_a_leader_whose_lock_was_deleted_and_created_anew_for_itself_goes_on()",
    ),
    _RENEW(
        "a leader keeps none but a lock created anew",
        "got",
        "observed.pristine and observed.record.holder == state.me.identity",
        "observed.record.holder == state.me.identity",
        "election_coordinated.py::test_a_leader_that_is_named_anew_has_lost_at_once(TERM, replaced=False)",
    ),
    _RENEW(
        "a leader yields to who is preferred",
        "_check_preference",
        "turn.state.prefers_another(observed)",
        "False",
        "election_coordinated.py::test_a_leader_yields_to_who_is_preferred_and_renews_until_its_command_is_dead()",
    ),
    _HOLD(
        "a candidate that holds the lock stops renewing for who is preferred",
        "got",
        "renew.is_mine(turn, observed) and not state.prefers_another(observed)",
        "renew.is_mine(turn, observed)",
        "election_coordinated.py"
        "::test_a_holding_candidate_stops_renewing_when_another_is_preferred_and_gives_the_lock_back_when_it_may()",
    ),
    _COORDINATED(
        "a nomination is given back to who is preferred",
        "_acquire",
        "if base and state.prefers_another(base):\n    ...\n",
        _NOTHING,
        "test_a_nomination_is_given_back_unled_to_who_is_preferred_by_then()",
        ("coordinated", 636),
    ),
    _COORDINATED(
        "a nomination is given back when all before must have ended",
        "acquire_at",
        "observed and state.is_nominated(observed) and not state.prefers_another(observed)",
        "observed and state.is_nominated(observed)",
        "test_a_nomination_over_a_leader_is_not_given_back_before_that_one_must_have_ended()",
        ("coordinated", 646),
    ),
    _COORDINATED(
        "the answer to what was given back hides no news",
        "wrote",
        "state.observed is not write.base or ...",
        "...",
        "test_the_answer_to_a_lock_given_back_hides_nothing_that_the_watch_told_since()",
    ),
    _COORDINATED(
        "a nomination is no sign of life",
        "_is_sign_of_life",
        "state.me.coordinated and ...",
        "False",
        "test_wait_live_takes_no_deed_of_the_control_plane_for_a_sign_of_life()",
    ),
    _ACQUIRE(
        "a handover is no sign of life",
        "_is_sign_of_life",
        "state.is_handed_to_me(observed) or state.held_by_me(observed)",
        "state.held_by_me(observed)",
        "election_requests.py::test_wait_live_does_not_take_being_named_for_a_sign_of_life()",
    ),
    _ACQUIRE(
        "a label that is read is no sign of life",
        "_is_sign_of_life",
        "record.unwritten or before.same_record(observed)",
        "record.unwritten",
        "election_gaps.py::test_a_label_that_is_read_is_no_sign_of_life()",
    ),
    _REQUESTS(
        "a request is for one term alone",
        "is_asked_to_end",
        "(request.holder, request.incarnation) != (observed.record.holder, state.incarnation)",
        "False",
        "test_a_request_that_is_not_for_this_very_term_is_ignored(Request(ME, 'term-0'))",
    ),
    _REQUESTS(
        "a request to hand the lock to who has it is ignored",
        "is_asked_to_end",
        "request.to in {state.me.identity, observed.record.holder}",
        "False",
        "test_a_request_that_is_not_for_this_very_term_is_ignored(Request(ME, TERM, ME))",
    ),
    _REQUESTS(
        "who cannot name the next leader names none",
        "is_asked_to_end",
        "request.to and (state.me.coordinated or state.me.non_expiring)",
        "False",
        "test_who_cannot_name_the_next_leader_ignores_a_transfer_but_resigns({'coordinated': True})",
    ),
    _RELEASE(
        "a transfer goes by no empty holder",
        "proceed",
        "_hand_over if state.successor else _release",
        "_release",
        "election_requests.py::test_a_transfer_names_the_next_holder_over_the_very_term_and_nobody_in_between()",
    ),
    _RELEASE(
        "a transfer without an answer may have happened",
        "got",
        "observed.record.holder == state.successor",
        "observed.record.holder == ''",
        "election_requests.py::test_a_transfer_without_an_answer_may_have_happened('')",
    ),
    _HOLD(
        "a candidate that holds the lock and is asked to resign stands aside",
        "got",
        "turn.stand_aside()",
        _NOTHING,
        "election_requests.py::test_who_holds_the_lock_and_may_not_lead_yet_stands_aside_when_it_is_asked_to(RESIGN)",
    ),
]

_OF_REQUESTS = [
    _PAUSE(
        "a failure is followed by a pause",
        "Transition.pause",
        "state.next_request_at = max(state.next_request_at, wait_until)",
        _NOTHING,
        "election_release.py::test_a_release_is_tried_no_longer_than_one_request_may_take()",
    ),
    _PAUSE(
        "a throttling is honoured",
        "Transition.pause",
        "asked and state.phase is Phase.FOLLOWING",
        "False",
        "test_a_candidate_makes_no_request_for_as_long_as_the_api_server_asks(Kind.THROTTLED)",
    ),
    _PAUSE(
        "a throttling is honoured for a lease duration at most",
        "Transition.retry_after",
        "min(seconds, ...)",
        "seconds",
        "test_a_candidate_that_is_told_to_come_back_in_an_hour_comes_back_within_its_lease_duration(0.0)",
    ),
    _PAUSE(
        "a throttled watch is honoured whatever else fails",
        "Transition.pause",
        "max(state.next_request_at, wait_until)",
        "wait_until",
        "test_a_throttled_watch_is_honoured_by_what_follows_a_write_that_was_under_way()",
    ),
    _LOOK(
        "a silent watch is looked after",
        "follow",
        "now + SILENCE",
        "inf",
        "test_a_watch_that_says_nothing_for_long_is_checked_and_begun_anew()",
    ),
    _LOOK(
        "a short-lived watch means polling",
        "watch_ended",
        "event.begun and now >= state.watch_began_at + state.me.timing.retry_period",
        "event.begun",
        "test_a_watch_that_does_not_last_means_polling()",
    ),
    _LOOK(
        "a watch that could not begin means polling",
        "watch_ended",
        "event.begun and now >= state.watch_began_at + state.me.timing.retry_period",
        "now >= state.watch_began_at + state.me.timing.retry_period",
        "test_a_watch_that_cannot_begin_means_polling_however_long_that_took()",
    ),
    _LOOK(
        "a watch's failure is reported once",
        "watch_ended",
        "not state.watch_warned",
        "True",
        "test_a_watch_that_does_not_last_is_told_once_and_again_only_after_one_has_lasted()",
    ),
    _LOOK(
        "a throttled watch is honoured",
        "watch_ended",
        "if event.retry_after:\n    ...\n",
        _NOTHING,
        "test_a_throttled_watch_is_honoured_in_full_by_polls_too_and_by_an_expiry()",
    ),
    _ACQUIRE(
        "a multilock: what a failed write did is no news",
        "failed",
        "state.me.is_multilock",
        "False",
        "test_what_the_watch_of_a_pair_told_before_a_write_failed_is_read_again()",
    ),
    _ACQUIRE(
        "a candidate that may write one object of a multilock alone ends",
        "is_permanent",
        "denied and failure.half_done",
        "False",
        "test_a_candidate_that_may_write_one_object_of_a_multilock_alone_ends()",
    ),
]

_OF_A_MULTILOCK = [
    _MULTI(
        "a multilock: both answers must show the write",
        "_check",
        "not shown or ...",
        "False",
        "test_an_answer_that_does_not_show_the_write_is_none(Server())",
        rare="no answer shows what was asked for, and lies",
    ),
    _MULTI(
        "a multilock: both must have one holder",
        "MultiLock._together",
        "agreed = len({record.holder for record in records}) == 1",
        "agreed = True",
        "test_holders_that_differ_are_held_for_the_longest_that_anybody_may_lead(Server(), FREE, HELD)",
        ("to lease", 177),
    ),
    _MULTI(
        "a multilock: holders that differ are held for the longest",
        "MultiLock._together",
        "max(durations)",
        "durations[0]",
        "test_holders_that_differ_are_held_for_the_longest_that_anybody_may_lead(Server(), FREE, HELD)",
        rare="the longest that was seen counts too",
    ),
    _MULTI(
        "a multilock: a change of either is a change",
        "MultiLock._together",
        "tuple(part and (part.record, part.incarnation) for part in pair)",
        "()",
        "test_a_change_of_either_starts_the_wait_anew(Server())",
        ("from annotation", 494),
    ),
    _MULTI(
        "a multilock: an object that is missing is not released",
        "MultiLock._together",
        "any(part is None or part.unwritten for part in pair)",
        "False",
        "test_one_that_was_there_and_is_gone_does_not_make_the_lock_free(Server(), 'leases')",
        rare="one object is deleted by hand while its leader releases the other, or hands it over",
    ),
    _MULTI(
        "a multilock: an object without a record is not released",
        "MultiLock._together",
        "any(part is None or part.unwritten for part in pair)",
        "any(part is None for part in pair)",
        "test_one_that_was_created_anew_without_a_record_does_not_make_the_lock_free(Server(), 'leases')",
        rare="hands take the record out of one object while its leader releases the other, or hands it over",
    ),
    _MULTI(
        "a multilock: an acquiring write that the primary refuses goes no further",
        "MultiLock.write",
        "if incarnation:\n    break",
        _NOTHING,
        "test_a_write_that_the_primary_refuses_is_not_half_done_and_goes_no_further(Server())",
    ),
    _MULTI(
        "a multilock: a release goes on to the secondary",
        "MultiLock.write",
        "if incarnation:\n    break",
        "break",
        "test_a_release_goes_on_to_the_secondary_whatever_becomes_of_the_primary(Server(), Kind.CONFLICT)",
    ),
]

_FOR_LIFE_ROWS = [
    _FOR_LIFE(
        "for life: the lock is its owner's",
        "_acquire_at",
        "observed.ours or observed.dead or not observed.record.holder",
        "True",
        "test_whoever_has_it_keeps_it_however_long_nothing_is_heard()",
    ),
    _FOR_LIFE(
        "for life: what nobody understands is held",
        "_acquire_at",
        "if observed.fault:\n    ...\n",
        _NOTHING,
        "test_what_cannot_be_understood_is_held_and_told_once(dead=True)",
    ),
    _FOR_LIFE(
        "for life: another incarnation's lock is lost",
        "_keep",
        "not state.held_by_me(observed)",
        "False",
        "test_a_leader_that_sees_the_lock_or_its_own_pod_gone_or_another_s_has_lost_without_grace"
        '("another incarnation\'s")',
    ),
    _FOR_LIFE(
        "for life: who has no owner has lost",
        "_keep",
        "observed.dead",
        "False",
        "test_a_leader_that_sees_the_lock_or_its_own_pod_gone_or_another_s_has_lost_without_grace"
        '("one\'s own, who is gone")',
    ),
    _FOR_LIFE(
        "for life: a lock that is gone is lost",
        "_keep",
        "renew.lose(turn, 'the lock object is gone', kill_now=True)",
        "pass",
        "test_a_leader_that_sees_the_lock_or_its_own_pod_gone_or_another_s_has_lost_without_grace('gone')",
    ),
    _FOR_LIFE(
        "for life: no grace",
        "_keep",
        "renew.lose(turn, f'the lock is not this term\\'s any more: {_whose(observed)}', kill_now=True)",
        "renew.lose(turn, f'the lock is not this term\\'s any more: {_whose(observed)}', kill_now=False)",
        'test_a_leader_that_sees_the_lock_or_its_own_pod_gone_or_another_s_has_lost_without_grace("another\'s")',
    ),
    _FOR_LIFE(
        "for life: a watch begins no term",
        "_acquire_at",
        "soon = now.boot + now.luck * acquire.spread(turn)\n"
        "if observed is None:\n    return soon\n"
        "if state.held_by_me(observed) and not observed.dead:\n    ...",
        "soon = now.boot + now.luck * acquire.spread(turn)\n"
        "if observed is None:\n    return soon\n"
        "if state.held_by_me(observed) and not observed.dead:\n    _lead(turn, observed)\n    return inf",
        "test_a_watch_event_alone_begins_no_term()",
    ),
    _FOR_LIFE(
        "for life: an overtaken answer begins no term",
        "wrote",
        "state.observed is not write.base and not state.held_by_me(state.observed)",
        "False",
        "test_an_answer_that_the_watch_has_overtaken_is_looked_into_first()",
    ),
    _FOR_LIFE(
        "for life: what cannot be seen is not lost",
        "failed",
        "failure.kind is Kind.HOPELESS",
        "failure.kind is not Kind.CONFLICT",
        "test_a_leader_goes_on_while_it_cannot_look_and_tries_once_in_a_retry_period(Kind.DENIED)",
    ),
    _FOR_LIFE(
        "for life: what never led is given up",
        "owes",
        "state.me.non_expiring and ...",
        "False",
        "test_what_may_have_been_acquired_without_a_term_is_given_up_although_nobody_asked()",
    ),
    Guard(
        "for life: a supervisor that sleeps is killed",
        "election.elector:step",
        "renew.lose(turn, reason, kill_now=turn.state.me.non_expiring)",
        "renew.lose(turn, reason, kill_now=False)",
        "unit/test_for_life.py::test_a_supervisor_that_does_not_answer_loses_the_term_without_grace()",
    ),
]

TABLE = [
    Guard(
        "the command is asked to stop a renew deadline after the last renewal",
        "election.timing:Timing.stop_at",
        "t0 + self.renew_deadline",
        "t0 + self.lease_duration",
        "unit/test_timing.py::test_stop_and_kill_count_from_before_the_request()",
    ),
    *_LOCK_DELAY,
    *_OF_A_WRITE,
    *_OF_A_LEADER,
    *_OF_REQUESTS,
    *_OF_A_MULTILOCK,
    *_FOR_LIFE_ROWS,
]
