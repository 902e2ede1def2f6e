"""The guards of one elector after another, and of one candidacy after another."""

from __future__ import annotations

from tests.mutation.mutant import Mutant

MUTANTS = [
    Mutant(
        "an elector that hangs is killed before it loses its link",
        "supervisor/elector_process.py",
        "        self.process.kill()\n"
        "        if self._channel:\n"
        "            self._final_messages += self._channel.receive()\n"
        "        self._hang_up(now)\n",
        "        self._hang_up(now)\n        self.process.kill()\n",
        "unit/test_elector_process.py::test_an_elector_that_hangs_is_killed_before_its_link_is_closed",
    ),
    Mutant(
        "a successor waits until its predecessor is reaped",
        "supervisor/child_process.py",
        "            os.kill(self.pid, signal.SIGKILL)\n",
        "            os.kill(self.pid, signal.SIGKILL)\n            self.pid = 0\n",
        "unit/test_elector_process.py::test_the_next_elector_is_started_only_after_the_last_one_is_reaped",
    ),
    Mutant(
        "the last words of an elector that is replaced are heard",
        "supervisor/elector_process.py",
        "            self._final_messages += self._channel.receive()\n",
        "            pass\n",
        "unit/test_elector_process.py::test_the_final_messages_of_an_elector_that_is_replaced_are_received",
    ),
    Mutant(
        "what finds no room on the link is not lost",
        "ipc/channel.py",
        "            if self.full:\n                break\n",
        "",
        "unit/test_elector_loop.py::test_a_lead_that_finds_no_room_on_the_link_is_said_once_there_is_room",
    ),
    Mutant(
        "no fact overtakes another",
        "ipc/channel.py",
        "            if self.full:\n                break\n            del",
        "            if self.full:\n                continue\n            del",
        "unit/test_ipc.py::test_no_message_overtakes_another_that_waits_for_room_in_the_queue",
    ),
    Mutant(
        "a supervisor is judged by its unanswered heartbeats",
        "elector/loop.py",
        "self._unanswered * _PING > self._plan.renew_deadline",
        "system.clock() - self._watchdog.answered_at > self._plan.renew_deadline",
        "unit/test_elector_loop.py::test_a_freeze_of_any_length_is_one_missed_heartbeat_of_the_supervisor",
    ),
    Mutant(
        "a supervisor that answers no heartbeat has lost",
        "elector/loop.py",
        "                self._unanswered += 1\n",
        "                pass\n",
        "unit/test_elector_loop.py::test_a_supervisor_that_answers_no_heartbeat_for_the_renew_deadline_has_lost_the_lock",
    ),
    Mutant(
        "an elector that hangs while it waits is replaced",
        "supervisor/elector_process.py",
        "            return self._last_heartbeat + period if self._channel else math.inf\n",
        "            return self._last_heartbeat + period if state is not State.WAITING else math.inf\n",
        "process/test_deadline.py::test_an_elector_that_hangs_while_its_candidate_waits_is_replaced_and_its_successor_leads",
    ),
    Mutant(
        "an elector sends heartbeats while it waits",
        "elector/loop.py",
        "                self._unanswered += 1\n                self._say(",
        "                self._unanswered += 1\n                _ = self._waits or self._say(",
        "unit/test_elector_loop.py::test_an_elector_that_waits_sends_heartbeats_and_asks_the_api_server_nothing",
    ),
    Mutant(
        "an elector is judged by missed heartbeats",
        "supervisor/elector_process.py",
        "            if self._missed >= _MAX_MISSED:\n",
        "            if True:\n",
        "unit/test_elector_process.py::test_a_suspend_of_any_length_is_one_missed_heartbeat_of_the_elector",
    ),
    Mutant(
        "an elector that hangs makes unhealthy until another speaks",
        "supervisor/elector_process.py",
        "            self._silent_since = min(self._silent_since, now)\n            if",
        "            if",
        "unit/test_elector_process.py::test_silent_since_is_kept_until_an_elector_sends_a_heartbeat",
    ),
    Mutant(
        "nobody misses a word of an elector that is not wanted",
        "supervisor/elector_process.py",
        "        return math.inf if self._ending and not self.process.pid else self._silent_since\n",
        "        return self._silent_since\n",
        "unit/test_elector_process.py::test_an_elector_that_did_not_end_in_time_is_not_silent_once_none_is_wanted",
    ),
    Mutant(
        "an elector tells for how long the lock is held",
        "elector/loop.py",
        "        if memory := successor.remember(self._term, before, self._state):\n            self._say(memory)\n",
        "",
        "unit/test_elector_loop.py::test_for_how_long_another_has_the_lock_is_told_before_who_it_is",
    ),
    Mutant(
        "a replacement elector tells its incarnation first",
        "elector/loop.py",
        "            if memory := successor.remember(self._term, None, self._state):\n"
        "                self._say(memory)\n",
        "",
        "unit/test_elector_loop.py::test_a_replacement_elector_tells_its_own_incarnation_first",
    ),
    Mutant(
        "what an elector has told is told to the next",
        "supervisor/state_machine.py",
        "                self._elector.resume_state = message.what\n",
        "                pass\n",
        "process/test_deadline.py::test_an_elector_whose_lead_message_was_lost_is_replaced",
    ),
    Mutant(
        "a successor waits for as long as its predecessor has told",
        "elector/successor.py",
        "longest = int(seconds)",
        "longest = 0",
        "unit/test_elector_loop.py"
        "::test_a_replacement_elector_waits_for_the_longest_duration_that_the_previous_one_has_seen",
    ),
    Mutant(
        "no elector releases after one that died while it released",
        "supervisor/elector_process.py",
        "            if release and self._end_sent and self._plan.lock != FOR_LIFE:\n",
        "            if False:\n",
        "unit/test_elector_process.py"
        "::test_the_next_elector_of_one_that_died_after_it_was_asked_for_the_release_only_records_the_run",
    ),
    Mutant(
        "an elector without a link is killed",
        "supervisor/elector_process.py",
        "            self.process.kill()  # first, as below\n",
        "",
        "unit/test_elector_process.py::test_an_elector_that_closed_its_link_is_killed",
    ),
    Mutant(
        "an elector without a link is killed before it loses ours",
        "supervisor/elector_process.py",
        "            self.process.kill()  # first, as below\n            self._hang_up(now)\n",
        "            self._hang_up(now)\n            self.process.kill()\n",
        "unit/test_elector_process.py::test_an_elector_that_closed_its_link_is_killed",
    ),
    Mutant(
        "an elector that takes no word any more is killed",
        "supervisor/elector_process.py",
        "        if self._channel and not self._channel.send(message):\n            self.process.kill()\n",
        "        if self._channel:\n            self._channel.send(message)\n",
        "unit/test_elector_process.py::test_an_elector_whose_queue_is_full_is_killed",
    ),
    Mutant(
        "an elector that was stopped is killed",
        "supervisor/child_process.py",
        "            self.kill()\n            return\n",
        "            return\n",
        "unit/test_elector_process.py::test_an_elector_that_was_stopped_is_killed",
    ),
    Mutant(
        "a replaced elector inherits the incarnation",
        "supervisor/term.py",
        "            self.incarnation,\n            lead is not None,\n",
        "            os.urandom(16).hex(),\n            lead is not None,\n",
        "process/test_deadline.py::test_an_elector_is_replaced_with_the_same_incarnation_while_the_command_runs_on",
    ),
    Mutant(
        "a replaced elector knows since when the term counts",
        "supervisor/leadership.py",
        "term.lead, term.led_at, term.t0 = lead, now, lead.stop_at - self._plan.renew_deadline\n",
        "term.lead, term.led_at, term.t0 = lead, now, lead.stop_at\n",
        "process/test_deadline.py::test_an_elector_is_replaced_with_the_same_incarnation_while_the_command_runs_on",
    ),
    Mutant(
        "a replaced elector knows that a command runs",
        "supervisor/term.py",
        "            lead is not None,\n",
        "            False,\n",
        "process/test_deadline.py::test_an_elector_is_replaced_with_the_same_incarnation_while_the_command_runs_on",
    ),
    Mutant(
        "a replaced elector knows whom to kill",
        "supervisor/term.py",
        "        known = tree.members() if lead else []\n",
        "        known = []\n",
        "process/test_deadline.py::test_an_elector_is_replaced_with_the_same_incarnation_while_the_command_runs_on",
    ),
    Mutant(
        "a replaced elector of a candidate knows that there was one before",
        "supervisor/term.py",
        "            replaces,\n",
        "            False,\n",
        "process/test_deadline.py::test_an_elector_whose_lead_message_was_lost_is_replaced",
    ),
    Mutant(
        "who renews what nobody heard it lead is replaced",
        "supervisor/state_machine.py",
        "            self._elector.replace(now)  # its Lead was lost",
        "            pass  # its Lead was lost",
        "process/test_deadline.py::test_an_elector_whose_lead_message_was_lost_is_replaced",
    ),
    Mutant(
        "no release is asked for after a loss",
        "supervisor/term.py",
        "            return release and not self.lost,",
        "            return release,",
        "process/test_deadline.py::test_with_kill_now_there_is_no_grace",
    ),
    Mutant(
        "nor after a loss of what was to be given up in good order",
        "supervisor/term.py",
        "if self.step_down is None or self.lost:",
        "if self.step_down is None:",
        "process/test_yield.py::test_after_a_loss_nothing_is_released",
    ),
    Mutant(
        "a new candidacy has a new incarnation",
        "supervisor/state_machine.py",
        "self._elector.send(m.Again(previous.number, self._run.term.incarnation))",
        "self._elector.send(m.Again(previous.number, previous.incarnation))",
        "process/test_yield.py::test_after_a_loss_nothing_is_released",
    ),
    # --- a candidate that is not well
    Mutant(
        "a sick candidate does not contend",
        "supervisor/state_machine.py",
        "        if self._run.state is State.WAITING and not self._health.healthy:\n",
        "        if False:\n",
        "process/test_health.py::test_an_unhealthy_candidate_does_not_contend",
    ),
    Mutant(
        "a candidate contends from its first healthy check",
        "supervisor/state_machine.py",
        "        elif not self._health.healthy:\n            self._run.fire(Event.STOP_CONTENDING)\n",
        "",
        "process/test_health.py::test_a_candidate_contends_from_its_first_healthy_check",
    ),
    Mutant(
        "a sick leader sits out a lease duration",
        "supervisor/state_machine.py",
        "self._stop_contending(now, 0.0 if healthy and not previous.asked else plan.lease_duration)",
        "self._stop_contending(now, 0.0)",
        "process/test_health.py::test_an_unhealthy_leaders_next_candidacy_has_a_new_incarnation",
    ),
    # --- an upgrade under a running supervisor
    Mutant(
        "an elector does not start on the plan of another version",
        "ipc/plan.py",
        '    if fields.pop("version", None) != __version__:\n',
        '    fields.pop("version", None)\n    if False:\n',
        "process/test_upgrade.py::test_a_candidate_whose_elector_dies_after_an_upgrade_ends_with_one_error",
    ),
    Mutant(
        "a leader without an elector of its version stops its command in time",
        "supervisor/leadership.py",
        "        if self._elector.other_version and run.state in _CAN_STEP_DOWN:\n",
        "        if False:\n",
        "process/test_upgrade.py::test_a_leader_of_which_no_elector_can_be_started_after_an_upgrade_stops_its_command_in_order",
    ),
    Mutant(
        "the file lock's next elector is of the version that runs",
        "elector/start.py",
        "        from kleader.elector.file_elector import FileElector  # noqa: PLC0415 - now: an upgrade may follow\n\n"
        "        self._guard = FileElector\n",
        "        self._guard = lambda *parts: "
        "__import__('kleader.elector.file_elector', fromlist=['FileElector']).FileElector(*parts)\n",
        "process/test_upgrade.py::test_a_leader_of_the_file_lock_gets_a_new_elector_of_the_code_that_runs",
    ),
]
