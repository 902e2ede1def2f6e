"""The guards of what clients are told: no client is sent to a leader that is none; no monitoring delays the command."""

from __future__ import annotations

from tests.mutation.guard import Guard

MUTANTS = [
    Guard(
        "a term that is over leaves no leader label on its Pod",
        "elector.pod_label:PodLabel._keep",
        "value != self._wanted",
        "False",
        "unit/test_pod_label.py::test_a_term_that_ends_at_once_never_writes_the_leaders_value[the phase]",
    ),
    Guard(
        "a leader's label whose answer was lost is written over once it cannot arrive any more",
        "elector.pod_label:PodLabel._keep",
        "asyncio.get_running_loop().call_later(_UNCERTAIN_SECONDS, self._write_again)",
        "pass",
        "unit/test_pod_label.py::test_an_unanswered_leaders_label_is_overwritten_once_it_can_no_longer_arrive",
    ),
    Guard(
        "a candidate that has lost the lock does not lead while its command stops",
        "supervisor.status_report:StatusReport._status",
        "state in {RunState.LEADING, RunState.STOPPING} and (not term.lost)",
        "state in {RunState.LEADING, RunState.STOPPING}",
        "process/test_is_leader.py::test_a_supervisor_that_has_lost_the_lock_does_not_lead_while_its_command_stops",
    ),
    Guard(
        "at an abstract address only root and the asking user are believed",
        "ipc.status_socket:ask",
        "(user := _peer_user(sock)) not in {0, os.geteuid()}",
        "(user := _peer_user(sock)) in ()",
        "process/test_is_leader.py::test_another_user_who_takes_an_abstract_address_is_not_trusted",
    ),
    Guard(
        "the last status shows no leader after kill_at",
        "exporter.health:is_leading",
        "status.leads and now < status.kill_at",
        "status.leads",
        "unit/test_exporter.py::test_a_leader_counts_as_leading_until_kill_at_if_the_supervisor_is_silent",
    ),
    Guard(
        "a leader that should have ended and has not is unhealthy",
        "exporter.health:healthz",
        "status.role in _LEADING_ROLES",
        "False",
        "unit/test_exporter.py::test_healthz_fails_twenty_seconds_after_an_expiry_or_a_silent_elector",
    ),
    Guard(
        "the exporter is no part of the command's tree",
        "supervisor.child_process:ChildProcess.start",
        "self._tree.own_pids.add(self.pid)",
        "",
        "process/test_exporter.py::test_the_exporter_is_no_part_of_the_command",
    ),
    Guard(
        "the state file is not written through another user's symbolic link",
        "system.fds:replace_file",
        "with ...:\n    os.unlink(temporary)\ntry:\n"
        "    with open(temporary, 'x', encoding='utf-8', errors='replace') as file:\n        file.write(text)\n"
        "    os.rename(temporary, path)\nexcept OSError:\n    with contextlib.suppress(OSError):\n"
        "        os.unlink(temporary)\n    raise",
        "with ...:\n    pass\ntry:\n"
        "    with open(temporary, 'w', encoding='utf-8', errors='replace') as file:\n        file.write(text)\n"
        "    os.rename(temporary, path)\nexcept OSError:\n    with contextlib.suppress(OSError):\n"
        "        os.unlink(temporary)\n    raise",
        "unit/test_exporter.py::test_the_state_file_is_not_written_through_a_symbolic_link_at_its_temporary_path",
    ),
]
