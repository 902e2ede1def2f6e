"""The guards of what runs beside the command, and before it: the standby, hooks, and their keepers."""

from __future__ import annotations

from tests.mutation.guard import Guard

MUTANTS = [
    Guard(
        "a hook's processes are no part of the command's tree",
        "supervisor.child_process:ChildProcess.start",
        "self._tree.own_pids.add(self.pid)",
        "",
        "process/test_hooks.py::test_killing_the_command_kills_no_hook",
    ),
    Guard(
        "a hook's orphans stay with its subreaper (PR_SET_CHILD_SUBREAPER)",
        "supervisor.subtree:Subtree._contain",
        "system.adopt_orphans()",
        "",
        "process/test_hooks.py::test_killing_the_command_kills_no_hook",
    ),
    Guard(
        "processes that a hook leaves are killed",
        "supervisor.subtree:Subtree._contain",
        "TreeKiller(ProcessTree(), Deadline(None, 0.0), self._log).kill_until_empty()",
        "pass",
        "process/test_hooks.py::test_processes_that_a_hook_leaves_are_killed_when_it_ends",
    ),
    Guard(
        "the lock file is closed before kleader's exit waits for a hook",
        "supervisor.state_machine:RunStateMachine._without_elector",
        "self._elector.launcher.close_lock()\nself._on_end.start(now)\n"
        "if not (self._new_leader.subtree.running or self._on_end.subtree.running):\n"
        "    self._run.fire(Event.RELEASED)",
        "self._on_end.start(now)\n"
        "if not (self._new_leader.subtree.running or self._on_end.subtree.running):\n"
        "    self._run.fire(Event.RELEASED)",
        "process/test_hooks.py::test_a_hook_may_finish_at_the_end_and_delays_no_release",
    ),
    Guard(
        "the standby is asked to stop, then killed, before the command starts",
        "supervisor.leadership:Leadership.begin",
        "Event.ACQUIRED_BESIDE_STANDBY if self._plan.standby else Event.ACQUIRED",
        "Event.ACQUIRED",
        "process/test_standby.py::test_the_standby_is_dead_before_the_leading_command_starts[('--ignore-term',)]",
    ),
    Guard(
        "the standby's tree is killed until it is proven empty",
        "supervisor.leadership:Leadership._check_end_of_term",
        "if run.state is RunState.STOPPING_STANDBY and (not self._standby.subtree.process.pid):\n    self._kill(now)",
        "if run.state is RunState.STOPPING_STANDBY and (not self._standby.subtree.process.pid):\n"
        "    run.fire(Event.KILL)\n    self._after_killing(now)",
        "process/test_standby.py::test_the_standby_is_dead_first_though_one_of_its_processes_was_stopped_or_killed[9-keeper]",
    ),
    Guard(
        "a stopped subreaper is continued by its supervisor's death (PR_SET_PDEATHSIG)",
        "supervisor.subtree:Subtree._launch",
        "signal.SIGCONT",
        "0",
        "process/test_standby.py::test_a_standby_dies_with_a_supervisor_that_is_killed_while_waiting[stopped]",
    ),
    Guard(
        "a term that ends while the standby is stopped starts no command",
        "supervisor.leadership:Leadership._after_killing",
        "stopped_standby and (not (term.over or term.shutdown_signal))",
        "stopped_standby",
        "process/test_standby.py::test_a_term_that_ends_while_the_standby_stops_starts_no_command[TERM-143]",
    ),
    Guard(
        "once the standby is dead, the deadline is checked before the start",
        "supervisor.leadership:Leadership._after_killing",
        "term.start_at = now",
        "self._start(now)",
        "process/test_standby.py::test_no_command_starts_if_the_standby_dies_after_stop_at",
    ),
    Guard(
        "the end of a standby's subreaper does not prove that the standby is dead",
        "supervisor.leadership:Leadership._check_end_of_term",
        "if run.state is RunState.STOPPING_STANDBY and (not self._standby.subtree.process.pid):\n    self._kill(now)",
        "if run.state is RunState.STOPPING_STANDBY and (not self._standby.subtree.process.pid):\n"
        "    run.fire(Event.KILL)\n    self._after_killing(now)",
        "process/test_standby.py::test_the_standby_is_dead_first_though_its_subreaper_is_killed_while_it_stops",
    ),
    Guard(
        "a standby that does not die costs the lock",
        "supervisor.state_machine:RunStateMachine._act_once",
        "if now >= self._run.term.standby_deadline and (not self.ended):\n    self._give_up_lock(now)",
        "",
        "process/test_standby.py::test_a_standby_that_does_not_die_prevents_the_start_and_loses_the_lock",
    ),
    Guard(
        "the processes of a subreaper die with it",
        "supervisor.subtree:Subtree._contain",
        "signal.SIGKILL",
        "0",
        "process/test_standby.py::test_the_standby_dies_with_its_subreaper_while_the_supervisor_is_stopped",
    ),
    Guard(
        "neither hook nor standby inherits the lock file",
        "supervisor.subtree:Subtree._contain",
        "system.close_all_but({0, 1, 2, link, *self._log.descriptors})",
        "",
        "process/test_hooks.py::test_no_subreaper_inherits_the_lock",
    ),
]
