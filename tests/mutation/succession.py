"""The guards of one elector after another, and of one candidacy after another."""

from __future__ import annotations

from tests.mutation.mutant import Mutant

MUTANTS = [
    Mutant(
        "an elector that hangs is killed before it loses its link",
        "supervisor/elector.py",
        "        self.kill()\n        if self._channel:\n            self._last_words += self._channel.receive()\n"
        "        self._hang_up()\n",
        "        self._hang_up()\n        self.kill()\n",
        "unit/test_minder.py::test_one_that_hangs_is_killed_before_it_loses_its_link",
    ),
    Mutant(
        "a successor waits until its predecessor is reaped",
        "supervisor/elector.py",
        "            os.kill(self.pid, signal.SIGKILL)\n",
        "            os.kill(self.pid, signal.SIGKILL)\n            self.pid = 0\n",
        "unit/test_minder.py::test_a_successor_comes_once_its_predecessor_is_reaped_and_not_before",
    ),
    Mutant(
        "the last words of an elector that is replaced are heard",
        "supervisor/elector.py",
        "            self._last_words += self._channel.receive()\n",
        "            pass\n",
        "unit/test_minder.py::test_the_last_words_of_one_that_was_stopped_are_heard",
    ),
    Mutant(
        "an elector tells for how long the lock is held",
        "elector/loop.py",
        "            self._say(memory)\n",
        "            pass\n",
        "unit/test_elector_loop.py::test_for_how_long_another_has_the_lock_is_told_before_who_it_is",
    ),
    Mutant(
        "what an elector has told is told to the next",
        "supervisor/life.py",
        "                self._minder.memory = message.what\n",
        "                pass\n",
        "process/test_deadline.py::test_an_elector_that_renews_what_nobody_heard_it_lead_is_replaced",
    ),
    Mutant(
        "a successor waits for as long as its predecessor has told",
        "elector/loop.py",
        ", held=held, ",
        ", ",
        "unit/test_elector_loop.py::test_a_successor_waits_for_as_long_as_its_predecessor_has_told",
    ),
    Mutant(
        "a missing lock is not free to a successor for so long",
        "election/state.py",
        "gone_wait=wait, inherits",
        "inherits",
        "unit/test_election_gone.py"
        "::test_the_successor_of_a_waiting_elector_waits_for_as_long_as_its_predecessor_saw_the_lock_held",
    ),
    Mutant(
        "a multilock is missed for so long",
        "elector/api.py",
        "            held=successor.heard(plan, assign),\n",
        "",
        "cluster/test_process_faults.py::test_a_candidate_s_elector_that_is_replaced_misses_half_of_a_multilock",
    ),
    Mutant(
        "an elector without a link is killed",
        "supervisor/elector.py",
        "            self._hang_up()\n            self.kill()\n",
        "            self._hang_up()\n",
        "unit/test_minder.py::test_one_that_has_let_go_of_its_link_is_killed",
    ),
    Mutant(
        "an elector that takes no word any more is killed",
        "supervisor/elector.py",
        "        if self._channel and not self._channel.send(message):\n            self.kill()\n",
        "        if self._channel:\n            self._channel.send(message)\n",
        "unit/test_minder.py::test_one_that_takes_no_word_any_more_is_killed",
    ),
    Mutant(
        "an elector that was stopped is killed",
        "supervisor/minder.py",
        '            self._log.warning("the elector was stopped: replacing it")\n            self._elector.replace()\n',
        '            self._log.warning("the elector was stopped: replacing it")\n',
        "unit/test_minder.py::test_one_that_was_stopped_is_killed",
    ),
    Mutant(
        "a replaced elector inherits the incarnation",
        "supervisor/term.py",
        "            self.incarnation,\n            lead is not None,\n",
        "            os.urandom(16).hex(),\n            lead is not None,\n",
        "process/test_deadline.py::test_an_elector_is_replaced_with_the_same_incarnation_while_the_command_runs_on",
    ),
    Mutant(
        "a replaced elector inherits the token",
        "supervisor/term.py",
        '            lead.token if lead else "",\n',
        '            "",\n',
        "process/test_deadline.py::test_an_elector_is_replaced_with_the_same_incarnation_while_the_command_runs_on",
    ),
    Mutant(
        "a replaced elector knows since when the term counts",
        "supervisor/life.py",
        "        self._term.t0 = lead.stop_at - self._plan.renew_deadline\n",
        "        self._term.t0 = lead.stop_at\n",
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
        "supervisor/minder.py",
        "            known = self._command.tree.members() if leading else []\n",
        "            known = []\n",
        "process/test_deadline.py::test_an_elector_is_replaced_with_the_same_incarnation_while_the_command_runs_on",
    ),
    Mutant(
        "a replaced elector of a candidate knows that there was one before",
        "supervisor/elector.py",
        "        replaces, self._born = self._born > 0, now\n",
        "        replaces, self._born = False, now\n",
        "process/test_deadline.py::test_an_elector_that_renews_what_nobody_heard_it_lead_is_replaced",
    ),
    Mutant(
        "who renews what nobody heard it lead is replaced",
        "supervisor/life.py",
        "            self._elector.replace()\n        elif not self._term.lost:\n",
        "            pass\n        elif not self._term.lost:\n",
        "process/test_deadline.py::test_an_elector_that_renews_what_nobody_heard_it_lead_is_replaced",
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
        "if self.yielded is None or self.lost:",
        "if self.yielded is None:",
        "process/test_yield.py::test_after_a_loss_nothing_is_released",
    ),
    Mutant(
        "a new candidacy has a new incarnation",
        "supervisor/life.py",
        "m.Again(previous.number, self._term.incarnation,",
        "m.Again(previous.number, previous.incarnation,",
        "process/test_yield.py::test_on_loss_wait_it_releases_and_contends_again[released]",
    ),
    # --- a candidate that is not well
    Mutant(
        "a sick candidate does not contend",
        "supervisor/life.py",
        '        elif self._state is State.WAITING:\n            self._log.warning("not well',
        '        elif False:\n            self._log.warning("not well',
        "process/test_health.py::test_a_sick_standby_does_not_contend",
    ),
    Mutant(
        "a candidate contends from its first healthy check",
        "supervisor/life.py",
        "        elif not self._hooks.health.well:\n            self._to(State.RESTING)\n",
        "",
        "process/test_health.py::test_a_candidate_contends_from_its_first_healthy_check",
    ),
    Mutant(
        "a sick leader sits out a lease duration",
        "supervisor/life.py",
        "self._begin_rest(now, self._plan.lease_duration if aside else 0.0)",
        "self._begin_rest(now, 0.0)",
        "process/test_health.py::test_a_sick_leader_s_next_candidacy_is_another",
    ),
]
