"""The guards of the elector, of the file lock's guard, and of the link between them and the supervisor."""

from __future__ import annotations

from tests.mutation.mutant import Mutant

MUTANTS = [
    # --- the roll
    Mutant(
        "who has not answered an earlier ping is not asked again",
        "elector/roll.py",
        " or each.pinged > each.renewed or ",
        " or ",
        "unit/test_roll.py::test_who_has_not_answered_yet_is_not_asked_again",
    ),
    Mutant(
        "whose clock is ahead is not asked",
        "elector/roll.py",
        " or each.renewed >= most:",
        ":",
        "unit/test_roll.py::test_whose_clock_is_ahead_of_the_api_servers_is_not_asked",
    ),
    Mutant(
        "a ping is later than the last sign of life",
        "elector/roll.py",
        "    return max(least, each.renewed + 1)\n",
        "    return least\n",
        "unit/test_roll.py::test_who_may_have_given_its_last_sign_of_life_since_then_is_asked_for_any_later_one",
    ),
    Mutant(
        "nobody who is past the deadline calls the roll",
        "elector/roll.py",
        " and platform.clock() < self._until:",
        ":",
        "unit/test_roll.py::test_who_is_past_the_deadline_calls_none",
    ),
    Mutant(
        "who is asked is what was listed",
        "elector/roll.py",
        '        body = {"metadata": {"uid": each.uid, "resourceVersion": each.version}, "spec": ',
        '        body = {"spec": ',
        "unit/test_roll.py::test_all_others_of_this_lock_are_asked_the_latest_sign_of_life_first",
    ),
    Mutant(
        "the roll is called while the command winds down",
        "elector/recorder.py",
        "            self._roll.call()\n",
        "            pass\n",
        "unit/test_roll.py::test_the_end_waits_a_moment_for_one_that_is_under_way",
    ),
    Mutant(
        "a ping that is told before an earlier answer is not forgotten",
        "locks/candidate.py",
        "        self._doubtful |= self._found is not known\n",
        "",
        "unit/test_lease_candidate.py"
        "::test_a_ping_that_comes_before_the_answer_to_an_earlier_sign_of_life_is_answered_too",
    ),
    Mutant(
        "a sign of life follows when all have had their time",
        "locks/candidate.py",
        "            self._again_at, self._agains = due, 1\n",
        "            pass\n",
        "unit/test_lease_candidate.py::test_who_was_asked_just_before_the_leader_left_gives_one_more_sign_of_life[now]",
    ),
    # --- what is told beside the lock
    Mutant(
        "no errand ends a term",
        "elector/errand.py",
        "        except Exception as error:  # noqa: BLE001 - as the module says\n",
        "        except ValueError as error:\n",
        "unit/test_errand.py::test_nothing_is_raised_and_who_asked_is_told",
    ),
    # --- its words with the supervisor
    Mutant(
        "to an elector the words of another term count for nothing",
        "elector/loop.py",
        "        elif message.term != self._term:\n            return\n",
        "",
        "unit/test_elector_loop.py::test_words_of_another_term_count_for_nothing",
    ),
    Mutant(
        "the end of the link is the supervisor's death",
        "elector/loop.py",
        "        if not self._channel.open:\n            self._deserted()\n",
        "",
        "process/test_elector.py::test_it_does_not_outlive_its_supervisor",
    ),
    Mutant(
        "what a dead supervisor leaves is swept",
        "elector/loop.py",
        "            while not self._orphans.sweep_until_none():\n",
        "            while False:\n",
        "unit/test_elector_loop.py::test_what_a_predecessor_was_told_of_is_killed_when_the_supervisor_dies",
    ),
    Mutant(
        "a lock without expiry keeps its elector until that is done",
        "elector/loop.py",
        "if self._plan.lock != FOR_LIFE:",
        "if True:",
        "unit/test_elector_loop.py::"
        "test_an_elector_that_has_not_found_the_lock_stays_for_what_would_not_die_if_that_keeps_others_away",
    ),
    Mutant(
        "an elector is deaf to signals",
        "elector/api.py",
        "        signal.signal(number, signal.SIG_IGN)\n",
        "        pass\n",
        "process/test_elector.py::test_it_is_in_a_session_of_its_own_and_deaf_to_every_signal_that_can_be_ignored",
    ),
    Mutant(
        "an elector has a session of its own",
        "link/start.py",
        "        os.setsid()\n",
        "        pass\n",
        "process/test_elector.py::test_it_is_in_a_session_of_its_own_and_deaf_to_every_signal_that_can_be_ignored",
    ),
    # --- the file lock's guard
    Mutant(
        "a supervisor's death is followed by a sweep before the file lock is free",
        "elector/guard.py",
        "                self._deserted()\n",
        "",
        "process/test_file_lock.py::"
        "test_a_supervisor_killed_with_a_descendant_that_closed_the_lock_is_cleaned_up_first",
    ),
    Mutant(
        "a guard that holds the lock does not die with the supervisor",
        "elector/guard.py",
        "        platform.die_with_parent(0)\n",
        "",
        "process/test_file_lock.py"
        "::test_a_guard_that_could_not_run_when_its_supervisor_was_killed_cleans_up_when_it_can",
    ),
    Mutant(
        "a guard that waits does",
        "elector/guard.py",
        "        platform.die_with_parent(signal.SIGKILL)\n",
        "",
        "process/test_file_lock.py::test_a_guard_that_waits_dies_with_its_supervisor",
    ),
    Mutant(
        "a replaced guard knows whom to kill",
        "elector/guard.py",
        "            self._orphans.started(pid, start)\n        self._orphans.look()\n",
        "            pass\n        self._orphans.look()\n",
        "process/test_file_lock.py::test_a_daemon_that_outlived_its_main_process_is_known_to_a_replaced_guard",
    ),
    Mutant(
        "a guard keeps the lock until nothing is left",
        "elector/guard.py",
        "            while not self._orphans.sweep_until_none():\n",
        "            if not self._orphans.sweep_until_none():\n",
        "unit/test_guard.py::test_it_keeps_the_lock_until_what_a_dead_supervisor_left_is_dead",
    ),
    Mutant(
        "the name is looked at again once its socket is had",
        "elector/guard.py",
        "                return file.in_place(self._fd, plan.file)\n",
        "                return True\n",
        "unit/test_guard.py::test_the_name_is_looked_at_again_once_its_socket_is_had",
    ),
    Mutant(
        "who leads on a file that was removed keeps newcomers away",
        "elector/guard.py",
        "            if file.claim(self._claims, wanted):\n",
        "            if True:\n",
        "unit/test_guard.py::test_who_leads_on_a_file_that_was_removed_keeps_newcomers_away",
    ),
    Mutant(
        "a leader whose lock file was replaced has lost",
        "elector/guard.py",
        "            if not lost and not file.in_place(self._fd, self._plan.file):\n",
        "            if False:\n",
        "process/test_file_lock_path.py::"
        "test_a_leader_whose_lock_file_goes_away_ends_its_term_before_a_newcomer_leads[replaced]",
    ),
    Mutant(
        "no term begins without its token on disk",
        "elector/guard.py",
        "            file.write(self._fd, record)\n",
        "            pass\n",
        "process/test_file_lock.py::test_the_record_is_in_the_file_before_the_command_starts",
    ),
    # --- the link
    Mutant(
        "a send never blocks",
        "link/channel.py",
        "        sock.setblocking(False)\n",
        "        sock.settimeout(1)\n",
        "unit/test_link.py::test_a_send_never_blocks",
    ),
    Mutant(
        "last words are heard before the end",
        "link/channel.py",
        "still there\n                continue\n",
        "still there\n                break\n",
        "unit/test_link.py::test_last_words_are_heard_before_the_end",
    ),
    Mutant(
        "what has a field of another type is no message",
        "link/messages.py",
        "            elif not _CHECKS[wanted[name]](value):\n                return None\n",
        "",
        "unit/test_link.py::test_what_is_no_message_is_none",
    ),
    Mutant(
        "a flood of words keeps no deadline waiting",
        "link/channel.py",
        "        for _ in range(_FULLEST):\n",
        "        while True:\n",
        "unit/test_link.py::test_a_flood_is_taken_in_parts",
    ),
]
