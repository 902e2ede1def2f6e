"""The guards of the elector, of the file lock's guard, and of the link between them and the supervisor."""

from __future__ import annotations

from tests.mutation.guard import Guard

MUTANTS = [
    # --- beside a fork bomb
    Guard(
        "the elector renews, and kills in the supervisor's place, though a fork bomb wants the processor",
        "launch:elect",
        "system.take_priority(1)",
        "",
        "process/test_elector.py::test_the_supervisor_has_priority_over_the_elector_and_that_over_the_command",
    ),
    # --- the LeaseCandidate
    Guard(
        "a ping that comes before the answer to an earlier one is answered",
        "locks.lease_candidate:LeaseCandidate._request",
        "self._stale |= self._found is not before",
        "",
        "unit/test_lease_candidate.py::test_ping_before_the_response_to_an_earlier_renewal_is_answered_too",
    ),
    Guard(
        "after the answer to a ping a LeaseCandidate is renewed once more",
        "locks.lease_candidate:LeaseCandidate._put",
        "1 if pinged else max(0, self._extras - 1)",
        "max(0, self._extras - 1)",
        "unit/test_lease_candidate.py::"
        "test_observation_during_the_answer_to_a_ping_decides_on_further_renewals[nothing]",
    ),
    # --- Events, the Pod label, the registration
    Guard(
        "no best-effort request ends a term",
        "elector.best_effort:BestEffortCall.run",
        "Exception",
        "ValueError",
        "unit/test_best_effort.py::test_a_failure_is_returned_and_never_raised",
    ),
    Guard(
        "no failure of a registration ends a term",
        "elector.registration:Registration._keep",
        "Exception",
        "ValueError",
        "unit/test_registration.py::test_a_request_without_an_answer_is_repeated_until_the_list_is_right",
    ),
    Guard(
        "a lock that has the name of a list of candidates is not written",
        "elector.registration:Registration._find",
        "not registry.is_registry(found)",
        "False",
        "unit/test_registration.py::test_a_lock_of_another_program_is_left_as_it_is",
    ),
    Guard(
        "a transfer names no candidate that is unhealthy or out of date",
        "locks.candidate_registry:Registered.is_ready",
        "self.state == READY",
        "True",
        "unit/test_successor_choice.py::test_a_candidate_that_does_not_wait_is_refused",
    ),
    # --- its link to the supervisor
    Guard(
        "an elector ignores messages of another term",
        "elector.loop:Loop._on_message",
        "message.term != self._term",
        "False",
        "unit/test_elector_loop.py::test_messages_of_another_term_are_ignored",
    ),
    Guard(
        "an elector takes the end of its link for the supervisor's death",
        "elector.loop:Loop._receive",
        "if not self._channel.open:\n    self._supervisor_died()",
        "",
        "process/test_elector.py::test_elector_does_not_outlive_its_supervisor",
    ),
    Guard(
        "the processes that a dead supervisor leaves are killed",
        "elector.loop:Loop._supervisor_died",
        "self._tracker.kill_until_none(self._watchdog.deadline)",
        "True",
        "unit/test_elector_loop.py::test_a_replacement_elector_kills_the_processes_that_its_predecessor_knew",
    ),
    Guard(
        "a lock without expiry keeps its elector until the tree is empty",
        "elector.loop:Loop._supervisor_died",
        "self._plan.lock != FOR_LIFE",
        "True",
        "unit/test_elector_loop.py::test_an_elector_without_a_lock_stays_while_a_process_does_not_die",
    ),
    Guard(
        "an elector ignores signals",
        "elector.kube_elector:main",
        "signal.signal(number, signal.SIG_IGN)",
        "pass",
        "process/test_elector.py::test_elector_has_a_session_of_its_own_and_ignores_signals",
    ),
    Guard(
        "an elector has a session of its own",
        "ipc.spawn:connected",
        "os.setsid()",
        "pass",
        "process/test_elector.py::test_elector_has_a_session_of_its_own_and_ignores_signals",
    ),
    # --- the elector of the file lock
    Guard(
        "after a supervisor's death the tree is killed before the file lock is free",
        "elector.file_elector:FileElector._lead",
        "self._supervisor_died()",
        "",
        "process/test_file_lock.py::"
        "test_a_killed_supervisors_descendant_that_closed_the_lock_is_killed_before_the_next_term",
    ),
    Guard(
        "the file lock's elector, once it holds the lock, does not die with the supervisor",
        "elector.file_elector:FileElector._acquire",
        "system.die_with_parent(0)",
        "",
        "process/test_file_lock.py::"
        "test_a_file_elector_that_was_stopped_kills_a_dead_supervisors_tree_when_it_continues",
    ),
    Guard(
        "the file lock's elector dies with the supervisor while it waits",
        "elector.file_elector:FileElector._acquire",
        "system.die_with_parent(signal.SIGKILL)",
        "",
        "process/test_file_lock.py::test_a_waiting_file_elector_dies_with_its_supervisor",
    ),
    Guard(
        "a replacement elector of a file lock knows the command's processes",
        "elector.file_elector:FileElector.run",
        "self._tracker.add(pid, start)",
        "pass",
        "process/test_file_lock.py::test_a_replacement_file_elector_knows_a_daemon_that_outlived_the_main_process",
    ),
    Guard(
        "the file lock's elector keeps the lock until the tree is empty",
        "elector.file_elector:FileElector._supervisor_died",
        "while not self._tracker.kill_until_none():\n"
        '    self._log.repeated("some processes of the command do not die: the lock stays held", '
        "event='processes_not_killed')",
        "if not self._tracker.kill_until_none():\n"
        '    self._log.repeated("some processes of the command do not die: the lock stays held", '
        "event='processes_not_killed')",
        "unit/test_file_elector.py::test_the_file_elector_keeps_the_lock_until_a_dead_supervisors_processes_are_dead",
    ),
    Guard(
        "the lock file's path is checked again once its lock is held",
        "elector.file_elector:FileElector._lock",
        "return file_lock.in_place(self._fd, plan.file)",
        "return True",
        "unit/test_file_elector.py::test_the_path_is_checked_again_once_it_is_locked",
    ),
    Guard(
        "a leader on a removed lock file keeps new candidates away",
        "elector.file_elector:FileElector._lock",
        "path_lock.acquire_path(self._path_fds, keys)",
        "True",
        "unit/test_file_elector.py::test_a_leader_whose_file_was_removed_blocks_new_candidates",
    ),
    Guard(
        "a leader whose lock file was replaced has lost",
        "elector.file_elector:FileElector._lead",
        "not lost and (not file_lock.in_place(self._fd, self._plan.file))",
        "False",
        "process/test_file_lock_path.py::"
        "test_a_leader_whose_lock_file_is_removed_ends_its_term_before_another_leads[replaced]",
    ),
    Guard(
        "no term begins without its token on disk",
        "elector.file_elector:FileElector._become_leader",
        "file_lock.write_record(self._fd, record)",
        "pass",
        "process/test_file_lock.py::test_the_record_is_in_the_file_before_the_command_starts",
    ),
    # --- the link
    Guard(
        "a send never blocks",
        "ipc.channel:Channel.__init__",
        "sock.setblocking(False)",
        "sock.settimeout(1)",
        "unit/test_ipc.py::test_a_send_never_blocks",
    ),
    Guard(
        "the final messages are received before the end",
        "ipc.channel:Channel.receive",
        "continue",
        "break",
        "unit/test_ipc.py::test_the_last_messages_of_a_dead_peer_are_received",
    ),
    Guard(
        "a flood of messages delays no deadline",
        "ipc.channel:Channel.receive",
        "range(_MAX_MESSAGES)",
        "iter(int, 1)",
        "unit/test_ipc.py::test_a_flood_of_messages_is_received_in_parts",
    ),
]
