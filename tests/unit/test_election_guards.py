"""Each guard of the step function is held by a test: without the guard, that test fails."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from kleader.election.events import Kind
from kleader.election.request import Request
from tests.conftest import Trials
from tests.mutation.guards import TABLE
from tests.simulation import test_crowd as crowd
from tests.support.election import ME, TERM
from tests.support.guards import GUARDS
from tests.unit import test_election_acquire as acquiring
from tests.unit import test_election_claims as claims
from tests.unit import test_election_coordinated as naming
from tests.unit import test_election_durations as durations
from tests.unit import test_election_gaps as gaps
from tests.unit import test_election_gone as vanishing
from tests.unit import test_election_release as releasing
from tests.unit import test_election_renew as renewing
from tests.unit import test_election_requests as asking
from tests.unit import test_election_watch as watching
from tests.unit import test_for_life as lasting
from tests.unit import test_multi as pairing

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.mutation.guard import Guard


class Uncounted(Trials):
    """Trials of mutants are nobody's trials."""

    def count(self, number: int, what: str) -> None:
        pass


HELD_BY: dict[str, Callable[[], None]] = {
    "a term counts from before its request": renewing.test_a_renewal_counts_from_before_it_was_sent,
    "another's record counts from after its answer": (
        acquiring.test_anothers_record_counts_from_after_its_answer_arrived
    ),
    "a holder's own duration is waited out": (
        acquiring.test_a_held_lock_is_taken_when_its_own_duration_has_passed_unchanged
    ),
    "who was named over a holder does not shorten its time": (
        durations.test_who_was_named_over_a_holder_gives_no_right_to_take_the_lock_earlier_than_that_one_would
    ),
    "nor, when the lock is gone, the wait for it": lambda: (
        vanishing.test_a_shorter_record_over_who_may_still_run_does_not_shorten_the_wait_for_a_vanished_lock("edited")
    ),
    "who took a lock is known to a new candidacy": (
        vanishing.test_a_new_candidacy_waits_for_who_was_seen_to_have_taken_the_lock_though_that_is_gone_by_then
    ),
    "who has the lock after a release is known to a new candidacy": lambda: (
        vanishing.test_a_new_candidacy_waits_for_who_was_seen_to_have_the_lock_after_its_release("long")
    ),
    "a lock created anew without a record is not free": lambda: (
        vanishing.test_a_vanished_lock_that_is_created_anew_without_a_record_is_not_free(told=True)
    ),
    "a lock created anew without a record was not given up": (
        naming.test_a_lock_created_anew_without_a_record_does_not_end_it
    ),
    "who was read behind the watch's back is known": (
        vanishing.test_who_was_read_while_the_watch_told_of_one_before_is_waited_for_when_the_lock_is_gone_then
    ),
    "a write counts only with a new version": (
        renewing.test_a_no_op_answer_with_the_version_that_was_sent_does_not_count
    ),
    "a write counts only if its answer shows it": lambda: (
        acquiring.test_an_answer_that_does_not_show_the_very_write_is_a_lost_one(
            acquiring.WRONG_ANSWERS["another incarnation"]
        )
    ),
    "an answer belongs to its request": vanishing.test_a_new_candidacy_ignores_the_answers_of_the_last_one,
    "a renewTime is a second after the last": (
        renewing.test_two_renewals_within_one_second_are_a_whole_second_apart_on_the_object
    ),
    "a lost answer is followed by a fresh write": (
        acquiring.test_a_holder_by_a_lost_answer_leads_only_after_a_fresh_write_and_from_that_one
    ),
    "a late answer starts nothing": (
        acquiring.test_a_write_answered_after_its_own_renew_deadline_starts_nothing_but_a_fresh_write
    ),
    "an overtaken answer starts nothing": (
        acquiring.test_a_write_is_a_fresh_one_when_the_watch_has_shown_another_holder_before_its_answer
    ),
    "mine means the incarnation too": lambda: (
        acquiring.test_ones_own_identity_under_another_incarnation_is_somebody_else("term-0")
    ),
    "gone is not free": (vanishing.test_a_lock_seen_held_and_then_deleted_is_created_only_after_the_holders_duration),
    "a lock created anew is a claim at first": (
        vanishing.test_a_lock_created_anew_makes_a_leader_only_after_a_lease_duration_and_a_fresh_write
    ),
    "half a lock created anew is a claim at first": (
        vanishing.test_half_a_lock_created_anew_makes_a_leader_only_after_a_lease_duration_and_a_fresh_write
    ),
    "a claim of long ago says nothing about a creation": (
        vanishing.test_a_creation_at_the_end_is_no_more_than_a_claim_after_an_earlier_claim_that_somebody_took
    ),
    "half a lock that was deleted under the last write is no more than a claim": lambda: (
        vanishing.test_half_a_lock_that_was_held_and_deleted_under_the_last_write_is_left_to_run_out(told=False)
    ),
    "a pair: half a read may have seen its leader": (
        vanishing.test_a_pair_of_which_half_may_have_been_read_is_not_free_when_it_is_gone
    ),
    "a pair: what was read of one is known where the other was not": lambda: (
        pairing.test_what_was_read_of_one_where_the_other_could_not_be_was_there(pairing.Server())
    ),
    "half a lock is held for as long as any was": (
        vanishing.test_ones_own_half_alone_is_waited_for_as_long_as_the_longest_that_was_seen
    ),
    "half a lock that is gone was not given up": (
        vanishing.test_half_a_lock_that_is_gone_was_not_given_up_though_the_other_has_no_holder
    ),
    "a pair: half a read tells for how long": lambda: (
        pairing.test_what_was_read_of_one_where_the_other_could_not_be_was_there(pairing.Server())
    ),
    "a pair: client-go leaves the incarnation where it is": lambda: (
        pairing.test_what_client_go_has_taken_was_anothers_though_it_leaves_the_incarnation_there(pairing.Server())
    ),
    "half a lock found created anew is a claim at first": (
        vanishing.test_half_a_lock_found_to_be_ones_own_creation_makes_a_leader_no_sooner
    ),
    "half a lock that was deleted under the write is another": lambda: (
        vanishing.test_half_a_lock_that_was_held_and_deleted_under_the_write_makes_a_leader_no_sooner(told=False)
    ),
    "half a claim created anew is another": (
        vanishing.test_half_a_claim_that_is_deleted_and_created_anew_is_waited_out_anew
    ),
    "a lock found created anew is a claim at first": (
        vanishing.test_a_lock_found_to_be_ones_own_creation_makes_a_leader_no_sooner
    ),
    "gone is not free to a new candidacy": vanishing.test_a_new_candidacy_does_not_take_a_missing_lock_for_free,
    "who renewed unseen is waited for": gaps.test_a_shorter_record_that_is_read_hides_nobody_who_renewed_unseen,
    "a wait for who renewed unseen comes to an end": (
        gaps.test_the_wait_for_who_renewed_unseen_is_not_started_anew_by_each_look
    ),
    "one like this candidate that was never seen is waited for": (
        gaps.test_one_like_this_candidate_that_was_never_seen_is_waited_for
    ),
    "who had a lock without a record unseen is waited for": (
        gaps.test_who_had_it_between_two_looks_at_a_lock_without_a_record_is_waited_for
    ),
    "the same record in another version was written anew": (
        gaps.test_the_record_of_long_ago_that_is_there_again_starts_the_wait_anew
    ),
    "the second of a pair has a version too": (
        gaps.test_the_record_of_long_ago_in_the_second_object_of_a_pair_starts_the_wait_anew
    ),
    "a label is no sign of life": gaps.test_a_label_that_is_read_is_no_sign_of_life,
    "a release told late is of before": (
        gaps.test_a_release_that_the_watch_tells_late_does_not_forget_who_was_read_after_it
    ),
    "one named, told late, is of before": (
        gaps.test_one_who_was_named_that_the_watch_tells_late_does_not_forget_who_was_read_after_it
    ),
    "a watch is behind what was read beside it": (
        gaps.test_a_release_that_the_watch_tells_late_does_not_forget_who_was_read_after_it
    ),
    "a watch may begin behind": gaps.test_a_watch_that_begins_behind_does_not_forget_who_was_seen,
    "a leader that reads half a lock knows it then": (
        gaps.test_half_a_lock_that_a_leader_has_read_is_waited_for_by_its_next_candidacy
    ),
    "half of a watch may begin behind": gaps.test_half_of_a_watch_that_begins_behind_forgets_nobody,
    "one's own record was there too": gaps.test_a_late_creation_of_ones_own_that_is_gone_then_is_not_free,
    "half a claim hides who has the other": gaps.test_half_a_claim_hides_nobody,
    "a claim or a naming of one's own shows nobody's duration": lambda: (
        gaps.test_a_naming_that_is_read_over_an_earlier_one_hides_nobody_who_renewed_unseen(claimed=True)
    ),
    "who renewed unseen is waited for though the lock is gone then": (
        gaps.test_who_was_told_to_have_renewed_is_waited_for_though_a_shorter_record_was_read_meanwhile
    ),
    "a claim that is read in another version is no right to lead": lambda: (
        claims.test_ones_own_record_that_is_read_again_in_another_version_makes_no_leader(1_000_000)
    ),
    "a claim is one for as long as a term by it": lambda: (
        claims.test_ones_own_record_that_is_read_again_in_another_version_makes_no_leader(0)
    ),
    "a claim is none any more when another was seen": (
        claims.test_ones_own_claim_of_long_ago_that_is_restored_over_a_leader_makes_none
    ),
    "a claim is the very one that was written": (
        claims.test_an_earlier_claim_that_is_restored_beside_a_write_that_never_came_makes_no_leader
    ),
    "who renewed unseen is waited for by who reads its claim again": (
        claims.test_ones_own_claim_of_long_ago_that_is_read_over_a_leader_makes_none
    ),
    "a claim that is restored is not released": claims.test_a_claim_that_is_restored_is_not_released,
    "what was given back is no claim": lambda: (
        claims.test_a_claim_that_was_given_back_is_none_though_it_was_written_just_now("")
    ),
    "a release without an answer may have been done": lambda: (
        claims.test_a_lock_that_was_released_without_an_answer_and_is_ones_own_again_is_let_be("")
    ),
    "who saw nobody waits for one like itself": (claims.test_a_creation_of_long_ago_makes_no_leader_of_who_saw_nobody),
    "half a release was done": lambda: (
        claims.test_a_multilock_that_was_released_by_half_and_is_ones_own_again_is_let_be("")
    ),
    "what is told half by half is one's own": (
        claims.test_ones_own_write_of_which_the_watch_tells_half_by_half_makes_a_leader_at_once
    ),
    "who had half a lock since is another": (
        claims.test_a_claim_of_which_half_was_anothers_meanwhile_that_is_restored_makes_no_leader
    ),
    "half a watch that begins late leaves something out": (
        gaps.test_half_a_watch_that_begins_late_leaves_out_who_had_that_half_until_then
    ),
    "who takes half a lock was not named": gaps.test_who_takes_half_a_multilock_was_not_named,
    "who was read behind the watch's back is known at the next gap": (
        gaps.test_who_was_read_behind_the_watch_s_back_is_not_forgotten_by_the_next_gap
    ),
    "a pair: one that cannot be read is held as before": lambda: (
        pairing.test_one_that_cannot_be_read_any_more_is_held_for_as_long_as_it_was(pairing.Server())
    ),
    "half a claim that is restored is no right to lead": (
        claims.test_half_a_claim_of_long_ago_makes_no_leader_of_who_has_just_written_the_other
    ),
    "no two claims have one renewTime": claims.test_no_two_claims_have_one_renew_time,
    "what one has just written is one's own": lambda: (
        claims.test_lost_answers_to_the_renewals_of_a_claim_do_not_lengthen_its_wait(14)
    ),
    "renewals of half a lock move the end": (
        gaps.test_renewals_of_one_half_count_though_the_record_of_both_stays_the_same
    ),
    "a pair: one created late without an answer may have been another's": lambda: (
        pairing.test_one_that_was_created_late_and_without_an_answer_may_have_been_anothers_meanwhile(pairing.Server())
    ),
    "what was created without an answer may have been taken": (
        vanishing.test_a_lock_that_may_have_been_created_without_an_answer_and_is_not_there_makes_a_leader_no_sooner
    ),
    "also where one without a record took its place": (
        vanishing.test_a_lock_that_may_have_been_created_without_an_answer_and_has_no_record_by_then_is_not_free
    ),
    "or hands put a shorter record over who took it": (
        vanishing.test_a_lock_that_may_have_been_created_without_an_answer_and_is_anothers_is_not_had_sooner
    ),
    "half a lock that was read is held, whatever another reading shows": (
        vanishing.test_half_a_lock_that_was_read_is_waited_for_though_another_was_seen_before
    ),
    "a pair: a creation without an answer may have been done": lambda: (
        pairing.test_one_that_may_have_been_created_without_an_answer_was_there(pairing.Server())
    ),
    "a pair: one that is created anew without a record is missed": lambda: (
        pairing.test_one_that_was_there_and_is_created_anew_without_a_record_does_not_make_the_lock_free(
            pairing.Server(), "leases"
        )
    ),
    "a pair: one without a record is created anew": lambda: (
        pairing.test_one_that_was_created_anew_without_a_record_is_taken_as_one_that_was_created(pairing.Server())
    ),
    "a pair: one without a record says nothing of who had it": lambda: (
        pairing.test_one_that_was_there_and_is_created_anew_without_a_record_does_not_make_the_lock_free(
            pairing.Server(), "leases"
        )
    ),
    "gone is not free to who lost a race": (
        vanishing.test_a_lock_that_somebody_created_first_and_that_vanished_is_not_free
    ),
    "the leader recreates what was deleted": (
        renewing.test_a_leader_recreates_a_deleted_lock_at_once_and_keeps_its_count_and_its_time
    ),
    "a label does not start the wait anew": acquiring.test_a_label_seen_while_waiting_does_not_start_the_wait_anew,
    "a change starts the wait anew": acquiring.test_each_renewal_seen_starts_the_wait_anew,
    "a malformed record is held": watching.test_a_malformed_record_is_held_for_ever_and_the_error_says_why,
    "who leads gives up at stop_at": (
        renewing.test_leadership_is_given_up_at_the_renew_deadline_with_grace_and_not_later
    ),
    "no grace when somebody else leads": lambda: (
        renewing.test_whoever_sees_another_holder_or_incarnation_has_lost_without_grace("other", "term-9", "other")
    ),
    "who leads looks whose the lock is": lambda: (
        renewing.test_whoever_sees_another_holder_or_incarnation_has_lost_without_grace("other", "term-9", "other")
    ),
    "who leads knows its own writes": (
        renewing.test_a_second_writer_of_the_same_identity_and_incarnation_is_noticed_by_its_renew_time
    ),
    "only one's own is released": lambda: releasing.test_what_is_somebody_elses_by_now_is_not_released(
        "other", "term-9"
    ),
    "what was lost is not released": releasing.test_a_term_that_was_lost_is_not_released,
    "what may be one's own is released": (
        releasing.test_an_acquiring_write_whose_answer_was_lost_is_released_if_it_happened
    ),
    "a release has its time": releasing.test_a_release_is_tried_no_longer_than_one_request_may_take,
    "a request ends with the renew deadline": (
        renewing.test_no_request_of_a_leader_may_outlast_its_deadline_or_half_of_it
    ),
    "a failure is followed by a pause": acquiring.test_conflicts_without_end_do_not_spin,
    "a throttling is honoured": lambda: watching.test_a_candidate_makes_no_request_for_as_long_as_the_api_server_asks(
        Kind.THROTTLED
    ),
    "a throttling is honoured for a lease duration at most": lambda: (
        watching.test_a_candidate_that_is_told_to_come_back_in_an_hour_comes_back_within_its_lease_duration(0.0)
    ),
    "a silent watch is looked after": (watching.test_a_watch_that_says_nothing_for_long_is_checked_and_begun_anew),
    "a short-lived watch means polling": watching.test_a_watch_that_does_not_last_means_polling,
    "a watch that could not begin means polling": (
        watching.test_a_watch_that_cannot_begin_means_polling_however_long_that_took
    ),
    "a watch's trouble is told once": (
        watching.test_a_watch_that_does_not_last_is_told_once_and_again_only_after_one_has_lasted
    ),
    "a throttled watch is honoured": (
        watching.test_a_throttled_watch_is_honoured_in_full_by_polls_too_and_by_an_expiry
    ),
    "a throttled watch is honoured whatever else fails": (
        watching.test_a_throttled_watch_is_honoured_by_what_follows_a_write_that_was_under_way
    ),
    "a crowd spreads": lambda: crowd.test_from_the_fifth_handover_on_at_most_ten_of_a_hundred_try_and_lose(
        Uncounted(), 0.005, crash=False
    ),
    "a few do not wait for each other": lambda: crowd.test_three_candidates_hand_over_as_fast_as_the_road_allows(
        Uncounted(), crash=False
    ),
    "who is named waits for who led before": (
        naming.test_a_candidate_named_over_a_holder_renews_at_once_and_leads_when_that_one_must_have_ended
    ),
    "who is named waits for all who led before": naming.test_of_several_before_the_last_to_end_is_waited_for,
    "who is named waits for who led before one that was named": (
        naming.test_one_who_was_named_and_never_wrote_hides_nobody
    ),
    "what was not told leaves something out": naming.test_what_was_read_leaves_out_what_was_there_between,
    "a naming is known by its missing acquireTime": lambda: (
        naming.test_a_naming_is_known_by_its_missing_acquire_time_whatever_annotation_it_was_put_over(TERM)
    ),
    "a malformed record hides nobody": lambda: (
        vanishing.test_a_shorter_record_over_who_may_still_run_does_not_shorten_the_wait_for_a_vanished_lock(
            "half malformed"
        )
    ),
    "over a malformed record is not over an empty holder": naming.test_a_malformed_record_is_no_empty_holder,
    "a lock created for us is free if nobody has written it": lambda: naming.test_a_lock_created_for_us_is_waited_for(
        ["missing"], untouched=False
    ),
    "a lock created for us is free if it was missing": lambda: naming.test_a_lock_created_for_us_is_waited_for(
        [], untouched=True
    ),
    "a lock created for us is free if the watch tells so": (
        naming.test_a_lock_that_was_created_for_us_in_a_gap_is_waited_for
    ),
    "a predecessor's claim waits anew": claims.test_a_successor_takes_its_predecessors_claim_for_one_of_long_ago,
    "a naming that was read waits anew": claims.test_a_naming_that_is_restored_makes_no_leader,
    "a pair of which one is missing is not released": releasing.test_a_pair_of_which_one_is_missing_is_not_released,
    "a claim is not released": (naming.test_a_claim_is_not_released_before_all_who_held_the_lock_must_have_ended),
    "a claim is given back to who is preferred": naming.test_a_claim_given_back_may_be_named_again,
    "a claim is given back when all before must have ended": (
        naming.test_a_claim_is_given_back_to_who_is_preferred_when_all_before_must_have_ended_and_not_earlier
    ),
    "the answer to what was given back hides no news": (
        naming.test_the_answer_to_a_claim_given_back_hides_nothing_that_the_watch_told_since
    ),
    "a leader yields to who is preferred": (
        naming.test_a_leader_yields_to_who_is_preferred_and_renews_until_its_command_is_dead
    ),
    "also where its lock was created anew for it": (
        naming.test_a_leader_yields_to_who_is_preferred_also_where_its_lock_was_created_anew_for_it
    ),
    "a leader keeps a lock created anew for it": (
        naming.test_a_leader_whose_lock_was_deleted_and_created_anew_for_itself_goes_on
    ),
    "a leader keeps none but a lock created anew": lambda: naming.test_a_leader_that_is_named_anew_has_lost_at_once(
        TERM, replaced=False
    ),
    "a naming is no sign of life": naming.test_wait_live_takes_no_deed_of_the_control_plane_for_a_sign_of_life,
    "a request is for one term alone": lambda: _ignored(Request(ME, "term-0")),
    "a request to hand the lock to who has it is none": lambda: _ignored(Request(ME, TERM, ME)),
    "who cannot name the next leader names none": lambda: (
        asking.test_who_cannot_name_the_next_leader_ignores_a_transfer_but_resigns({"coordinated": True})
    ),
    "a transfer goes by no empty holder": (
        asking.test_a_transfer_names_the_next_holder_over_the_very_term_and_nobody_in_between
    ),
    "a transfer without an answer may have happened": lambda: (
        asking.test_a_transfer_without_an_answer_may_have_happened("")
    ),
    "a claim is given to nobody": asking.test_a_claim_is_given_to_nobody,
    "who was asked to end stands aside": (
        asking.test_who_was_asked_stands_aside_for_a_lease_duration_and_treats_the_lock_as_anothers
    ),
    "one's own name alone gives no right to write": lambda: _anothers({"given": False}),
    "what was given and taken is another's": lambda: _anothers({"incarnation": "term-7"}),
    "half a pair was given to nobody": lambda: _anothers({"torn": True}),
    "who was named writes before it leads": asking.test_who_was_named_before_it_first_looked_takes_the_lock_at_once,
    "to be named is no sign of a live leader": asking.test_wait_live_does_not_take_being_named_for_a_sign_of_life,
    "a lock that is not given any more starts the wait anew": asking.test_what_is_not_given_any_more_is_not_taken,
    "a pair: both answers must show the write": lambda: pairing.test_an_answer_that_does_not_show_the_write_is_none(
        pairing.Server()
    ),
    "a pair: one that was created is known, whatever becomes of the other": lambda: (
        pairing.test_one_that_was_created_where_the_other_could_not_be_written_was_there(pairing.Server(), pairing.FREE)
    ),
    "a pair: one that is created has no transitions": lambda: (
        pairing.test_one_that_is_created_begins_without_transitions_and_the_next_write_gives_it_the_other_s(
            pairing.Server(), "leases"
        )
    ),
    "a pair: one that was one's own and went is another's": lambda: (
        pairing.test_one_that_was_ones_own_and_went_is_anothers_until_it_is_proven(pairing.Server())
    ),
    "a pair: a conflict at a creation shows that it is there": lambda: (
        pairing.test_one_that_somebody_was_the_first_to_create_and_that_is_gone_when_it_is_read_was_there(
            pairing.Server()
        )
    ),
    "a pair: both must have one holder": lambda: (
        pairing.test_holders_that_differ_are_held_for_the_longest_that_anybody_may_lead(
            pairing.Server(), pairing.FREE, pairing.HELD
        )
    ),
    "a pair: holders that differ are held for the longest": lambda: (
        pairing.test_holders_that_differ_are_held_for_ones_own_duration_at_least(pairing.Server())
    ),
    "a pair: a change of either starts the wait anew": lambda: pairing.test_a_change_of_either_starts_the_wait_anew(
        pairing.Server()
    ),
    "a pair: one that was there is missed": lambda: (
        pairing.test_one_that_was_there_and_is_gone_does_not_make_the_lock_free(pairing.Server(), "leases")
    ),
    "a pair: a successor misses what it has not seen": lambda: (
        pairing.test_the_successor_of_an_elector_misses_one_that_it_has_never_seen(pairing.Server())
    ),
    "a pair: what a failed write did is no news": (
        acquiring.test_what_the_watch_of_a_pair_told_before_a_write_failed_is_read_again
    ),
    "for life: the lock is its owner's": lasting.test_whoever_has_it_keeps_it_however_long_nothing_is_heard,
    "for life: what nobody understands is held": lambda: lasting.test_what_cannot_be_understood_is_held_and_told_once(
        dead=True
    ),
    "for life: a lock that is gone is lost": lambda: _sight("gone"),
    "for life: another incarnation's lock is lost": lambda: _sight("another incarnation's"),
    "for life: who has no owner has lost": lambda: _sight("one's own, who is gone"),
    "for life: no grace": lambda: _sight("another's"),
    "for life: a watch begins no term": lasting.test_a_watch_event_alone_begins_no_term,
    "for life: an overtaken answer begins no term": (
        lasting.test_an_answer_that_the_watch_has_overtaken_is_looked_into_first
    ),
    "for life: what cannot be seen is not lost": lambda: (
        lasting.test_a_leader_goes_on_while_it_cannot_look_and_tries_once_in_a_retry_period(Kind.DENIED)
    ),
    "for life: a supervisor that sleeps is killed": (
        lasting.test_a_supervisor_that_does_not_answer_loses_the_term_without_grace
    ),
    "for life: what never led is given up": (
        lasting.test_what_may_have_been_acquired_without_a_term_is_given_up_although_nobody_asked
    ),
}


def _ignored(request: Request) -> None:
    asking.test_a_request_that_is_not_for_this_very_term_is_ignored(request)


def _anothers(found: dict[str, Any]) -> None:
    asking.test_ones_own_name_that_nobody_was_given_is_somebody_else(found)


def _sight(which: str) -> None:
    lasting.test_a_leader_that_sees_the_lock_or_its_own_pod_gone_or_another_s_has_lost_without_grace(which)


@pytest.mark.parametrize("row", TABLE, ids=lambda row: row.keeps)
def test_a_guard_of_the_table_that_is_taken_away_is_missed(row: Guard) -> None:
    row.run_test()
    with row.taken_away(), pytest.raises((AssertionError, pytest.fail.Exception)):
        row.run_test()


def test_every_guard_is_in_the_list() -> None:
    assert GUARDS.keys() == HELD_BY.keys()


@pytest.mark.parametrize("guard", GUARDS)
def test_a_guard_that_is_taken_away_is_missed(guard: str) -> None:
    HELD_BY[guard]()
    with GUARDS[guard](), pytest.raises((AssertionError, pytest.fail.Exception)):
        HELD_BY[guard]()
