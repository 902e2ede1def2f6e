"""The guards of the process that owns the command."""

from __future__ import annotations

from tests.mutation.guard import Guard

MUTANTS = [
    # --- the start
    Guard(
        "the command dies with its supervisor (PR_SET_PDEATHSIG)",
        "ipc.spawn:fork",
        "system.die_with_parent(signal_at_parents_death)",
        "",
        "process/test_life.py::test_the_command_dies_with_its_supervisor",
    ),
    Guard(
        "a child whose supervisor died at the fork executes nothing",
        "ipc.spawn:fork",
        "os.getppid() != parent",
        "False",
        "process/test_deadline.py::test_a_child_whose_supervisor_died_before_pdeathsig_executes_no_command",
    ),
    Guard(
        "a forked child waits at its exec barrier",
        "supervisor.child:spawn",
        "not os.read(barrier_out, 1)",
        "False",
        "process/test_deadline.py::test_the_elector_knows_the_command_before_its_exec",
    ),
    Guard(
        "the elector is sent the command's pid before the exec barrier opens",
        "supervisor.leadership:Leadership._start",
        "self._elector.send(term, m.Started(main.pid, main.start, self._command.tree.bystanders.listed))\n"
        "main.release()",
        "main.release()\n"
        "self._elector.send(term, m.Started(main.pid, main.start, self._command.tree.bystanders.listed))",
        "process/test_deadline.py::test_the_elector_knows_the_command_before_its_exec",
    ),
    Guard(
        "the clock is read once more just before exec",
        "supervisor.child:become",
        "system.clock() >= stop_at",
        "False",
        "process/test_deadline.py::test_a_supervisor_stopped_past_stop_at_before_the_exec_starts_no_command",
    ),
    Guard(
        "the command gets the mask and the dispositions that kleader was started with",
        "supervisor.child:become",
        "signals.restore()",
        "",
        "process/test_command_environment.py::test_the_command_has_the_signal_mask_and_dispositions_of_kleaders_parent",
    ),
    Guard(
        "the command inherits the file lock",
        "elector.launchers:FileElectors._open",
        "self.inherited = (self._fd,)",
        "",
        "process/test_command_environment.py::test_only_the_lock_files_descriptor_is_inherited",
    ),
    # --- the deadlines
    Guard(
        "at stop_at the term is given up",
        "supervisor.leadership:Leadership._check_end_of_term",
        "min(self._deadline.stop_at, self._kill_at)",
        "self._kill_at",
        "process/test_deadline.py::test_the_command_gets_sigterm_at_stop_at_and_is_dead_by_kill_at",
    ),
    Guard(
        "the supervisor wakes for its deadlines",
        "supervisor.leadership:Leadership.due",
        "due += [self._kill_at, math.inf if term.lost else self._deadline.stop_at]",
        "pass",
        "process/test_deadline.py::test_the_command_gets_sigterm_at_stop_at_and_is_dead_by_kill_at",
    ),
    Guard(
        "past kill_at there is no grace",
        "supervisor.leadership:Leadership._check_end_of_term",
        "now >= self._kill_at",
        "False",
        "process/test_deadline.py::test_a_supervisor_that_wakes_after_kill_at_kills_first",
    ),
    Guard(
        "a stop under way ends with the lease",
        "supervisor.leadership:Leadership._check_end_of_term",
        "run.state in LIMITED",
        "run.state is RunState.LEADING",
        "process/test_deadline.py::test_a_stop_after_sigterm_lasts_no_longer_than_the_lease",
    ),
    Guard(
        "the kernel's timer kills a supervisor that sleeps over kill_at",
        "supervisor.deadline:Deadline.begin",
        "self._arm(max(kill_at, now) + self.margin)",
        "",
        "process/test_deadline.py::test_a_stopped_supervisor_dies_at_kill_at_and_its_command_with_it",
    ),
    Guard(
        "the kernel's timer moves with each renewal",
        "supervisor.deadline:Deadline.extend",
        "self.begin(max(stop_at, self.stop_at), max(kill_at, self.kill_at), now)",
        "self.stop_at, self.kill_at = (max(stop_at, self.stop_at), max(kill_at, self.kill_at))",
        "process/test_deadline.py::test_a_renewal_moves_the_deadlines_and_only_forward",
    ),
    Guard(
        "deadlines move forward only",
        "supervisor.deadline:Deadline.extend",
        "self.begin(max(stop_at, self.stop_at), max(kill_at, self.kill_at), now)",
        "self.begin(stop_at, kill_at, now)",
        "process/test_deadline.py::test_a_renewal_moves_the_deadlines_and_only_forward",
    ),
    Guard(
        "a supervisor that kills past kill_at is not killed by the kernel's timer",
        "supervisor.deadline:Deadline.awake",
        "if now >= self.kill_at:\n    self._arm(now + self.margin)",
        "pass",
        "unit/test_tree_killer.py::test_a_supervisor_that_kills_puts_the_kernels_timer_off",
    ),
    Guard(
        "there is no grace where another candidate may lead",
        "supervisor.state_machine:RunStateMachine._on_message",
        "self._leadership.lose(reason, now, kill=kill_now)",
        "self._leadership.lose(reason, now, kill=False)",
        "process/test_deadline.py::test_a_loss_with_kill_now_has_no_grace",
    ),
    Guard(
        "messages of another term are ignored",
        "supervisor.state_machine:RunStateMachine.receive",
        "message.term == self._run.term.number",
        "True",
        "process/test_deadline.py::test_messages_of_another_term_and_after_the_loss_are_ignored",
    ),
    Guard(
        "a renewal that arrives after the loss is ignored",
        "supervisor.leadership:Leadership.renewed",
        "not term.lost",
        "True",
        "process/test_deadline.py::test_messages_of_another_term_and_after_the_loss_are_ignored",
    ),
    Guard(
        "without an elector the tree is killed a kill budget earlier",
        "supervisor.deadline:Deadline.kill_by",
        "min(self.kill_at, max(self.kill_at - self._budget, alone_since))",
        "self.kill_at",
        "process/test_deadline.py::test_a_supervisor_without_an_elector_kills_a_kill_budget_earlier",
    ),
    Guard(
        "the supervisor kills no earlier while it has an elector",
        "supervisor.elector_process:ElectorProcess.kill_alone_at",
        "if self._channel:\n    return math.inf",
        "",
        "process/test_deadline.py::test_a_supervisor_with_an_elector_uses_the_whole_grace",
    ),
    Guard(
        "the supervisor kills no earlier while the elector is replaced",
        "supervisor.elector_process:ElectorProcess.kill_alone_at",
        "0.0 if term.lost else _REPLACED_SECONDS",
        "0.0",
        "process/test_deadline.py::test_replacing_an_elector_ends_no_term_whatever_the_kill_budget",
    ),
    Guard(
        "after the loss the supervisor does not wait for an elector",
        "supervisor.elector_process:ElectorProcess.kill_alone_at",
        "0.0 if term.lost else _REPLACED_SECONDS",
        "_REPLACED_SECONDS",
        "unit/test_elector_process.py::"
        "test_the_supervisor_kills_earlier_when_the_next_elector_is_late_or_the_lock_lost",
    ),
    Guard(
        "an elector without a link does not count as one that would kill",
        "supervisor.elector_process:ElectorProcess.kill_alone_at",
        "self._channel",
        "self.process.pid",
        "unit/test_elector_process.py::"
        "test_the_supervisor_kills_earlier_when_the_next_elector_is_late_or_the_lock_lost",
    ),
    Guard(
        "a kill budget before kill_at may come before the renew deadline",
        "supervisor.leadership:Leadership._check_end_of_term",
        "min(self._deadline.stop_at, self._kill_at)",
        "self._deadline.stop_at",
        "process/test_deadline.py::test_a_supervisor_without_an_elector_kills_a_kill_budget_earlier",
    ),
    Guard(
        "a supervisor that leaves processes alive releases nothing after that",
        "supervisor.state_machine:RunStateMachine._act_once",
        "now >= self._run.term.standby_deadline and (not self.ended)",
        "now >= self._run.term.standby_deadline",
        "process/test_standby.py::test_a_third_sigterm_ends_kleader_without_a_release_if_a_standby_does_not_die",
    ),
    Guard(
        "a second TERM kills",
        "supervisor.leadership:Leadership.on_signal",
        "self._kill(now)",
        "",
        "process/test_life.py::test_many_sigterms_in_a_row_count_as_two",
    ),
    # --- the tree
    Guard(
        "a pid that was reaped is sent nothing",
        "supervisor.child:Child.send",
        "self.status is None",
        "True",
        "unit/test_elector_process.py::test_no_signal_is_sent_to_a_reaped_command",
    ),
    Guard(
        "processes that die all the time delay no deadline",
        "procs.tree_killer:reap",
        "len(found) < most",
        "True",
        "unit/test_elector_process.py::test_no_more_children_are_reaped_in_a_turn_than_the_maximum",
    ),
    Guard(
        "orphans come to the supervisor (PR_SET_CHILD_SUBREAPER)",
        "supervisor.main:_loop",
        "system.adopt_orphans()",
        "",
        "process/test_tree.py::test_an_orphan_comes_to_kleader_where_it_is_not_pid_1",
    ),
    Guard(
        "the tree is not reported empty before that is proven",
        "supervisor.leadership:Leadership._kill_more",
        "empty and self._after_killing(now)",
        "self._after_killing(now)",
        "process/test_deadline.py::test_a_third_sigterm_ends_kleader_without_a_release_if_processes_do_not_die",
    ),
    Guard(
        "a tree that cannot be listed is not empty",
        "procs.tree_killer:TreeKiller.poll",
        "children == []",
        "not children",
        "unit/test_tree_killer.py::test_a_tree_that_cannot_be_scanned_is_not_proven_empty",
    ),
    Guard(
        "a lock is not released while processes are left alive",
        "supervisor.leadership:Leadership.on_signal",
        "self._run.fire(Event.ABANDON)",
        "self._run.fire(Event.END)\nself._elector.end(self._run.term, self._killer.began_at)",
        "process/test_deadline.py::test_a_third_sigterm_ends_kleader_without_a_release_if_processes_do_not_die",
    ),
    Guard(
        "only a later signal leaves processes that do not die",
        "supervisor.leadership:Leadership.on_signal",
        "if now >= self._killer.began_at + _DELIBERATE_SECONDS:\n"
        "    self._log.error(f'{name(number)} came again: leaving processes that do not die; the lock is not "
        "released', event='processes_abandoned')\n    term.status = term.status or SIGNALLED + number\n"
        "    self._run.fire(Event.ABANDON)",
        "self._log.error(f'{name(number)} came again: leaving processes that do not die; the lock is not released', "
        "event='processes_abandoned')\nterm.status = term.status or SIGNALLED + number\n"
        "self._run.fire(Event.ABANDON)",
        "process/test_deadline.py::test_a_third_sigterm_ends_kleader_without_a_release_if_processes_do_not_die",
    ),
    Guard(
        "after the command's own end its tree is killed",
        "supervisor.leadership:Leadership._on_main",
        "self._kill(now)",
        "self._run.fire(Event.KILL)\nself._killer.poll = lambda _now: True",
        "process/test_tree.py::test_a_descendant_that_ignores_sigterm_is_dead_before_the_next_leader[by itself]",
    ),
    Guard(
        "between two starts of the command its tree is killed",
        "supervisor.leadership:Leadership._on_main",
        "self._kill(now)",
        "if self._command.restart_wanted:\n    self._run.fire(Event.KILL)\n    self._after_killing(now)\nelse:\n"
        "    self._kill(now)",
        "process/test_life.py::test_an_ended_command_is_restarted_as_requested[always-0-2]",
    ),
    Guard(
        "an orphan that a kill brings to the supervisor is killed",
        "procs.tree_killer:TreeKiller.poll",
        "self._kill_children(children or [])",
        "",
        "unit/test_tree_killer.py::test_an_orphan_that_is_reparented_to_the_supervisor_is_killed_at_once",
    ),
    Guard(
        "descendants of a process that does not die are killed",
        "procs.killer:kill_round",
        "not system.sigkill(process)",
        "False",
        "unit/test_tree_killer.py::test_descendants_of_a_process_that_does_not_die_are_killed",
    ),
    Guard(
        "the elector outlives the killing, to release",
        "supervisor.child_process:ChildProcess.start",
        "self._tree.own_pids.add(self.pid)",
        "pass",
        "process/test_deadline.py::test_the_lock_is_released_only_when_the_supervisor_has_no_descendants",
    ),
    Guard(
        "a supervisor that fails kills its tree",
        "supervisor.main:run",
        "machine.kill_after_fault()",
        "",
        "process/test_deadline.py::test_a_supervisor_with_an_internal_error_kills_its_tree_and_releases_no_lock",
    ),
]
