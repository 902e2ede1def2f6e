"""The guards of killing: groups and namespaces at once, who is spared, who is dead, and the last resort."""

from __future__ import annotations

from tests.mutation.guard import Guard

SWEEP = "unit/test_tree_killer.py::"
LAST_RESORT = "process/test_last_resort.py::"

MUTANTS = [
    # --- groups
    Guard(
        "a group that a child leads is killed at once",
        "procs.tree_killer:TreeKiller._kill_group_of",
        "os.killpg(group, signal.SIGKILL)",
        "pass",
        "unit/test_tree_killer.py::test_the_process_group_of_a_group_leader_is_killed_at_once",
    ),
    Guard(
        "and the group that was made for the command, though its leader is gone",
        "procs.tree_killer:TreeKiller._kill_group_of",
        "group not in {pid, self._tree.group}",
        "group != pid",
        "unit/test_tree_killer.py::test_the_commands_process_group_is_killed_after_its_leader_was_reaped",
    ),
    Guard(
        "a group that is not the command's is left alone",
        "procs.tree_killer:TreeKiller._kill_group_of",
        "group in done or group <= 1 or group not in {pid, self._tree.group}",
        "group in done or group <= 1",
        "unit/test_tree_killer.py::test_a_process_group_that_may_have_other_members_is_not_killed",
    ),
    Guard(
        "what kill(2) takes for its own group, or for all processes, is none",
        "procs.tree_killer:TreeKiller._kill_group_of",
        "group in done or group <= 1 or group not in {pid, self._tree.group}",
        "group in done or group not in {pid, self._tree.group}",
        "unit/test_tree_killer.py::test_a_process_group_that_may_have_other_members_is_not_killed",
    ),
    # --- PID 1
    Guard(
        "as PID 1 what outlives a round is killed with all of the namespace",
        "procs.tree_killer:TreeKiller._kill_all",
        "os.kill(-1, signal.SIGKILL)",
        "pass",
        "unit/test_tree_killer.py::test_past_kill_at_pid_1_kills_every_process_of_its_namespace",
    ),
    Guard(
        "not before kill_at",
        "procs.tree_killer:TreeKiller._found",
        "max(self.began_at, self._deadline.kill_at)",
        "self.began_at",
        "unit/test_tree_killer.py::test_before_kill_at_pid_1_kills_only_the_command",
    ),
    Guard(
        "all processes are killed as PID 1 alone",
        "procs.tree_killer:TreeKiller._kill_all",
        "os.getpid() != 1",
        "False",
        "unit/test_tree_killer.py::test_only_pid_1_without_bystanders_kills_every_process_at_once",
    ),
    Guard(
        "not beside what was there before kleader",
        "procs.tree_killer:TreeKiller._kill_all",
        "self._tree.bystanders.any_from_start",
        "False",
        "unit/test_tree_killer.py::test_only_pid_1_without_bystanders_kills_every_process_at_once",
    ),
    Guard(
        "nothing is released once all processes were killed",
        "supervisor.leadership:Leadership._kill_more",
        "self._killer.killed_all and (not self._run.term.lost)",
        "False",
        "process/test_deadline.py::test_the_lock_is_not_released_after_the_whole_namespace_was_killed",
    ),
    # --- the cgroup that kleader was started alone in
    Guard(
        "past kill_at what outlives a round is killed with its cgroup",
        "procs.tree_killer:TreeKiller._kill_all",
        "self.killed_all = cgroup.kill_all(self._tree.cgroup, self._living())",
        "",
        "unit/test_tree_killer.py::test_past_kill_at_kleader_kills_the_cgroup_that_it_was_started_alone_in",
    ),
    Guard(
        "and by the elector in the supervisor's place",
        "elector.watchdog:Watchdog._kill",
        "self._tracker.kill_cgroup()",
        "pass",
        "unit/test_watchdog.py::test_processes_that_survive_a_round_are_killed_with_the_cgroup",
    ),
    Guard(
        "and when the supervisor is dead",
        "procs.process_tracker:ProcessTracker.kill_until_none",
        "system.clock() >= kill_at",
        "False",
        "unit/test_watchdog.py::test_the_tree_of_a_dead_supervisor_is_killed_with_its_cgroup_past_kill_at",
    ),
    Guard(
        "no cgroup is killed before kill_at",
        "procs.process_tracker:ProcessTracker.kill_until_none",
        "system.clock() >= kill_at",
        "True",
        "unit/test_watchdog.py::test_the_tree_of_a_dead_supervisor_is_killed_with_its_cgroup_past_kill_at",
    ),
    Guard(
        "a cgroup is killed where kleader was started alone in it",
        "procs.cgroup:alone_in",
        "_pids(place) == [os.getpid()] and (not below)",
        "not below",
        "unit/test_cgroup.py::test_no_cgroup_is_found_that_has_another_process",
    ),
    Guard(
        "and alone below it",
        "procs.cgroup:alone_in",
        "_pids(place) == [os.getpid()] and (not below)",
        "_pids(place) == [os.getpid()]",
        "unit/test_cgroup.py::test_no_cgroup_is_found_that_has_a_child_cgroup",
    ),
    Guard(
        "and is in it still",
        "procs.cgroup:kill_all",
        "not place or os.getpid() not in _pids(place) or (not _all_in(_path('self'), pids))",
        "not place or not _all_in(_path('self'), pids)",
        "unit/test_cgroup.py::test_a_process_that_was_moved_to_another_cgroup_kills_none",
    ),
    Guard(
        "no cgroup is killed that a process of the command would outlive",
        "procs.cgroup:kill_all",
        "not place or os.getpid() not in _pids(place) or (not _all_in(_path('self'), pids))",
        "not place or os.getpid() not in _pids(place)",
        "unit/test_cgroup.py::test_no_cgroup_is_killed_while_a_process_of_the_command_is_in_another",
    ),
    Guard(
        "and the elector asks of all that it knows to be alive",
        "procs.process_tracker:ProcessTracker.kill_cgroup",
        "[pid for pid, start in self._known.items() if is_alive(pid, start)]",
        "[]",
        "unit/test_watchdog.py::test_the_tree_of_a_dead_supervisor_is_killed_with_its_cgroup_past_kill_at",
    ),
    Guard(
        "the second guard kills no cgroup beside what was there before kleader",
        "procs.process_tracker:ProcessTracker.kill_cgroup",
        "not self._bystanders.any_from_start",
        "True",
        "unit/test_watchdog.py::test_the_elector_kills_no_cgroup_that_has_a_process_older_than_kleader",
    ),
    # --- who is dead
    Guard(
        "a traced zombie with one thread is dead",
        "procs.tree_killer:TreeKiller.poll",
        "children == [] or (now >= self.next_at and self._tree.is_empty())",
        "children == []",
        "unit/test_tree_killer.py::test_a_traced_zombie_counts_as_dead_and_delays_no_release",
    ),
    Guard(
        "what a traced zombie leaves behind is looked for once more",
        "procs.tree_killer:ProcessTree.is_empty",
        "all(map(system.dead_for_good, children)) and self.children() == children",
        "all(map(system.dead_for_good, children))",
        "unit/test_tree_killer.py::test_an_orphan_of_a_traced_zombie_is_found",
    ),
    # --- who is spared
    Guard(
        "what was there before kleader is not killed",
        "procs.tree_killer:ProcessTree.children",
        "[pid for pid in found if pid not in bystanders]",
        "found",
        "unit/test_tree_killer.py::test_a_process_older_than_kleader_is_not_killed",
    ),
    Guard(
        "what was there before kleader is not the tree's for who signals or lists that",
        "procs.tree_killer:ProcessTree.below",
        "self.own_pids | self.bystanders.living().keys()",
        "self.own_pids",
        "unit/test_tree_killer.py::test_a_process_older_than_kleader_is_not_logged_or_stopped",
    ),
    Guard(
        "a child is killed whose group may not be asked for",
        "procs.tree_killer:TreeKiller._kill_group_of",
        "try:\n    group = os.getpgid(pid)\nexcept PermissionError:\n    return",
        "try:\n    group = os.getpgid(pid)\nfinally:\n    pass",
        "unit/test_tree_killer.py::test_a_child_whose_process_group_is_unreadable_is_killed",
    ),
    Guard(
        "nobody is woken for bystanders that are gone",
        "procs.bystanders:Bystanders.scan",
        "now + SCAN_EVERY if self._may_grow else float('inf')",
        "now + SCAN_EVERY",
        "unit/test_tree_killer.py::test_ended_bystanders_wake_no_process",
    ),
    Guard(
        "who is there before the command is none of it",
        "supervisor.child:Command.fork",
        "self.tree.bystanders.add_all_but(self.tree.own_pids)",
        "pass",
        "process/test_tree.py::test_process_started_by_a_sibling_while_kleader_waits_is_not_killed",
    ),
    Guard(
        "the elector kills no bystanders that came after it",
        "procs.process_tracker:ProcessTracker.add",
        "self._bystanders.add(excluded)",
        "",
        "process/test_tree.py::test_process_started_by_a_sibling_while_kleader_waits_outlives_a_killed_supervisor",
    ),
    Guard(
        "an elector's pid is excluded until it is reaped, and no longer",
        "supervisor.child_process:ChildProcess.reaped",
        "self._tree.own_pids.discard(self.pid)",
        "pass",
        "unit/test_tree_killer.py::test_a_process_of_the_command_with_the_pid_of_a_reaped_elector_is_killed",
    ),
    # --- the last resort
    Guard(
        "a Python without pidfd_open kills by pid",
        "system.procfs:kill",
        "(OSError, AttributeError)",
        "OSError",
        "unit/test_procfs.py::test_a_python_without_pidfd_open_kills_by_pid",
    ),
    Guard(
        "the supervisor has a last resort",
        "supervisor.leadership:Leadership.kill_after_fault",
        "last_resort.kill_children(main.pid if main else 0, tree.own_pids, tree.bystanders)",
        "",
        "process/test_last_resort.py::test_the_last_resort_kills_the_tree_when_the_killer_has_no_memory",
    ),
    Guard(
        "it kills no process that was there before kleader",
        "supervisor.leadership:Leadership.kill_after_fault",
        "last_resort.kill_children(main.pid if main else 0, tree.own_pids, tree.bystanders)",
        "last_resort.kill_children(main.pid if main else 0, tree.own_pids)",
        "process/test_last_resort.py::test_the_last_resort_kills_no_process_that_was_there_before_kleader",
    ),
    Guard(
        "it is taken whatever has failed before it",
        "supervisor.leadership:Leadership.kill_after_fault",
        "BaseException",
        "OSError",
        "process/test_last_resort.py::test_the_last_resort_kills_the_tree_when_the_killer_has_no_memory",
    ),
    Guard(
        "the elector has one, too",
        "procs.process_tracker:ProcessTracker.kill_as_last_resort",
        "last_resort.kill_known(self._known, self.supervisor if supervisor else 0)",
        "pass",
        "process/test_last_resort.py::test_the_elector_kills_the_commands_group_when_its_killer_fails",
    ),
    Guard(
        "it kills no process that has the pid of another",
        "procs.last_resort:kill_known",
        "pid > 1 and _start(pid) == known[pid]",
        "pid > 1",
        "process/test_last_resort.py::test_the_elector_kills_the_commands_group_when_its_killer_fails",
    ),
    Guard(
        "the second guard's last resort is taken whatever has failed",
        "elector.watchdog:Watchdog._kill",
        "Exception",
        "OSError",
        "unit/test_watchdog.py::test_the_electors_last_resort_kills_when_its_killer_fails",
    ),
    Guard(
        "a kill is claimed where it is proven",
        "elector.watchdog:Watchdog._kill",
        "'killed the command' if killed else ...",
        "'killed the command' if True else ...",
        "unit/test_watchdog.py::test_a_kill_is_logged_only_when_it_is_proven",
    ),
]
