"""The guards of who kills when the supervisor does not, and of the log, for which nobody waits."""

from __future__ import annotations

from tests.mutation.mutant import Mutant

MUTANTS = [
    # --- the second guard
    Mutant(
        "the second guard asks before it kills",
        "elector/watchdog.py",
        "        silent = self.heard_at < self._asked_at and ",
        "        silent = ",
        "unit/test_watchdog.py::test_a_supervisor_that_answers_is_left_to_its_sweep",
    ),
    Mutant(
        "it asks anew at each kill_at",
        "elector/watchdog.py",
        " and self._asked_at >= self._at - self._patience\n",
        "\n",
        "unit/test_watchdog.py::test_a_renewal_moves_it_all",
    ),
    Mutant(
        "it acts on the kill_at that the supervisor keeps to",
        "elector/watchdog.py",
        "        return min(self.kill_at, self.told)\n",
        "        return self.kill_at\n",
        "process/test_watchdog.py::test_what_a_stopped_supervisors_command_daemonised_last_dies_before_it",
    ),
    Mutant(
        "it acts on its own where that is less",
        "elector/watchdog.py",
        "        return min(self.kill_at, self.told)\n",
        "        return self.told\n",
        "unit/test_watchdog.py::test_what_the_supervisor_keeps_to_counts_where_it_is_less",
    ),
    Mutant(
        "it strikes before the kernel does",
        "elector/watchdog.py",
        "        self._patience = max(kill_budget, 0.08) / 10  #",
        "        self._patience = max(kill_budget, 0.08) / 4  #",
        "unit/test_watchdog.py::test_whenever_one_falls_asleep_its_tree_is_killed_before_the_kernel_kills_it",
    ),
    Mutant(
        "it kills what is below the supervisor before that itself",
        "elector/watchdog.py",
        "            self._orphans.clear(self._margin)\n",
        "            self._orphans.kill_supervisor()\n",
        "process/test_watchdog.py::test_what_a_stopped_supervisors_command_daemonised_last_dies_before_it",
    ),
    Mutant(
        "who goes on saying nothing is killed",
        "elector/watchdog.py",
        "                self._orphans.kill_supervisor()\n",
        "",
        "unit/test_watchdog.py::"
        "test_the_tree_of_one_that_does_not_answer_is_killed_first_and_nothing_is_written_before",
    ),
    Mutant(
        "it sweeps after that",
        "elector/watchdog.py",
        "                self._orphans.sweep()\n",
        "",
        "unit/test_watchdog.py::"
        "test_the_tree_of_one_that_does_not_answer_is_killed_first_and_nothing_is_written_before",
    ),
    Mutant(
        "it hears before it judges",
        "elector/loop.py",
        "        self._on_link()  # or",
        "        # or",
        "unit/test_elector_loop.py::test_an_answer_that_has_come_is_heard_before_it_is_missed",
    ),
    Mutant(
        "who has to kill renews no longer",
        "elector/loop.py",
        "        if self._watchdog and self._watchdog.ring() and self._state:\n",
        "        if self._watchdog and self._watchdog.ring() and False:\n",
        "unit/test_elector_loop.py::test_an_elector_that_has_to_kill_renews_no_longer",
    ),
    Mutant(
        "it knows what the supervisor keeps to",
        "elector/loop.py",
        "            self._watchdog.told = message.kill_at\n",
        "            pass\n",
        "process/test_watchdog.py::test_what_a_stopped_supervisors_command_daemonised_last_dies_before_it",
    ),
    Mutant(
        "the supervisor tells what it keeps to",
        "supervisor/life.py",
        "m.Alive(self._term.number, self._deadline.kill_at)",
        "m.Alive(self._term.number, math.inf)",
        "process/test_watchdog.py::test_what_a_stopped_supervisors_command_daemonised_last_dies_before_it",
    ),
    Mutant(
        "who takes over knows it too",
        "elector/loop.py",
        "            self._watchdog.told = self._watchdog.kill_at = assign.t0 +",
        "            self._watchdog.kill_at = assign.t0 +",
        "unit/test_elector_loop.py::test_who_takes_over_knows_what_the_supervisor_keeps_to",
    ),
    Mutant(
        "it hurries where somebody else may lead",
        "elector/loop.py",
        "            self._watchdog.hurry()\n",
        "            pass\n",
        "unit/test_elector_loop.py::test_the_second_guard_hurries_where_somebody_else_may_lead",
    ),
    Mutant(
        "who hurries does not put off",
        "elector/watchdog.py",
        "        self.kill_at = min(self.kill_at, platform.clock())\n",
        "        self.kill_at = platform.clock()\n",
        "unit/test_watchdog.py::test_who_has_to_be_dead_now_is_asked_now",
    ),
    Mutant(
        "it is armed when the term begins",
        "elector/loop.py",
        "            self._watchdog.kill_at = lead.kill_at\n",
        "",
        "unit/test_elector_loop.py::test_the_second_guard_keeps_to_the_terms_kill_at_which_moves_forward_only",
    ),
    Mutant(
        "it moves forward only",
        "elector/loop.py",
        "max(self._watchdog.kill_at, extend.kill_at)",
        "extend.kill_at",
        "unit/test_elector_loop.py::test_the_second_guard_keeps_to_the_terms_kill_at_which_moves_forward_only",
    ),
    Mutant(
        "it is armed in an elector that takes over",
        "elector/loop.py",
        "        if self._watchdog and assign.leading:\n",
        "        if False:\n",
        "unit/test_elector_loop.py::test_a_replaced_elector_guards_the_term_before_it_has_found_the_lock",
    ),
    Mutant(
        "who takes over knows whom its predecessor was told of",
        "elector/loop.py",
        "        for pid, start in assign.started:\n            if self._orphans:\n",
        "        for pid, start in assign.started:\n            if False:\n",
        "unit/test_elector_loop.py::test_what_a_predecessor_was_told_of_is_killed_when_the_supervisor_dies",
    ),
    # --- whom it sweeps
    Mutant(
        "a supervisor is known by its start time, too",
        "elector/orphans.py",
        "and now and now.start == self._start:",
        "and now:",
        "unit/test_watchdog.py::test_who_has_the_supervisors_pid_but_not_its_start_is_somebody_else",
    ),
    Mutant(
        "what is below a supervisor that is dead is nobody's",
        "elector/orphans.py",
        "            if self.supervisor_lives():  # else",
        "            if True:  # else",
        "unit/test_watchdog.py::test_who_has_the_supervisors_pid_but_not_its_start_is_somebody_else",
    ),
    Mutant(
        "what was seen is known by its start time, too",
        "elector/orphans.py",
        " if pid in table and table[pid].start == start}",
        " if pid in table}",
        "unit/test_watchdog.py::test_a_pid_that_is_another_processs_by_now_is_not_swept",
    ),
    Mutant(
        "what the supervisor has below it is seen while it lives",
        "elector/orphans.py",
        "                self._known |= seen\n",
        "                pass\n",
        "unit/test_watchdog.py::test_what_is_below_a_supervisor_is_known_when_that_is_dead",
    ),
    Mutant(
        "who carries the term's marker is found",
        "elector/orphans.py",
        "and pid not in own and platform.environment_has(pid, self._marker)\n",
        "and False\n",
        "unit/test_watchdog.py::test_who_carries_the_terms_marker_is_swept_whoever_its_parent_is",
    ),
    Mutant(
        "who descends from what is known is found",
        "elector/orphans.py",
        "        known |= {each.pid: each for each in platform.descendants(table, roots, own)}\n",
        "",
        "unit/test_watchdog.py::test_who_descends_from_the_command_is_swept_with_it",
    ),
    Mutant(
        "who descends from who carries the marker is found",
        "elector/orphans.py",
        "        marked |= {each.pid: each for each in below}\n",
        "",
        "unit/test_watchdog.py::test_who_descends_from_one_that_carries_the_terms_marker_is_swept_with_it",
    ),
    Mutant(
        "who is known is killed before environments are read",
        "elector/orphans.py",
        "        left = _strike(known.values())\n"
        "        marked = {\n"
        "            pid: each\n"
        "            for pid, each in table.items()\n"
        "            if pid not in known and pid not in own and platform.environment_has(pid, self._marker)\n"
        "        }\n",
        "        marked = {\n"
        "            pid: each\n"
        "            for pid, each in table.items()\n"
        "            if pid not in known and pid not in own and platform.environment_has(pid, self._marker)\n"
        "        }\n"
        "        left = _strike(known.values())\n",
        "unit/test_watchdog.py::test_who_is_known_is_killed_before_anybodys_environment_is_read",
    ),
    Mutant(
        "below a supervisor is nobody once the same are dead twice",
        "elector/orphans.py",
        "            elif pids == dead:\n",
        "            elif True:\n",
        "unit/test_watchdog.py::test_below_a_supervisor_is_nobody_once_the_same_are_dead_twice",
    ),
    Mutant(
        "what will not die there is not waited for without end",
        "elector/orphans.py",
        "        while time.monotonic() < give_up:\n",
        "        while True:\n",
        "unit/test_watchdog.py::test_what_will_not_die_is_not_waited_for_without_end",
    ),
    Mutant(
        "a sweep goes on until nothing is found twice",
        "elector/orphans.py",
        "        while quiet < 2:",
        "        while quiet < 1:",
        "unit/test_watchdog.py::test_the_sweep_ends_when_nothing_is_found_twice_in_a_row",
    ),
    Mutant(
        "a shortage of descriptors does not end a sweep",
        "elector/orphans.py",
        "            except (OSError, MemoryError):  # too many open files on this machine: again in a moment\n"
        "                quiet = 0\n",
        "            except (OSError, MemoryError):  # too many open files on this machine: again in a moment\n"
        "                quiet += 1\n",
        "unit/test_elector_loop.py::test_a_shortage_does_not_end_the_sweep",
    ),
    Mutant(
        "a zombie with a second thread is alive",
        "platform/table.py",
        " and self.threads <= 1",
        "",
        "unit/test_watchdog.py::test_a_zombie_whose_second_thread_works_is_swept",
    ),
    # --- the log
    Mutant(
        "nobody waits for the disk of a log",
        "log.py",
        "                self._write = self._behind = _Behind(self._write)\n",
        "                self._behind = _Behind(self._write)\n",
        "unit/test_log.py::test_nobody_waits_for_a_disk_that_hangs_and_what_finds_no_room_is_counted",
    ),
    Mutant(
        "nor at the end, for long",
        "log.py",
        "lambda: not lines.unfinished_tasks, seconds)",
        "lambda: not lines.unfinished_tasks)",
        "unit/test_log.py::test_nobody_waits_for_a_disk_that_hangs_and_what_finds_no_room_is_counted",
    ),
    Mutant(
        "an elector has a thread write its log",
        "boot.py",
        "    log.write_behind()\n",
        "",
        "unit/test_log.py::test_an_elector_gives_signs_of_life_whatever_becomes_of_its_log",
    ),
    Mutant(
        "and the file lock's guard",
        "elector/start.py",
        "                self._log.write_behind()\n",
        "",
        "unit/test_log.py::test_the_file_locks_guard_takes_the_lock_whatever_becomes_of_its_log",
    ),
]
