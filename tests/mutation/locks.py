"""The guards that are in how a lock is kept: what is written, what counts as an answer, whose it is."""

from __future__ import annotations

from tests.mutation.guard import Guard

MUTANTS = [
    # --- the arithmetic
    Guard(
        "timings that cannot be safe are refused",
        "election.timing:choose",
        "g < 0 or g > rest + 1e-09",
        "False",
        "unit/test_timing.py::test_what_does_not_fit_into_the_lease_is_refused_with_the_sum",
    ),
    Guard(
        "clocks may differ",
        "election.timing:Timing.kill_at",
        "t0 + self.lease_duration - self.kill - self.skew",
        "t0 + self.lease_duration - self.kill",
        "unit/test_timing.py"
        "::test_a_command_is_dead_before_a_challenger_may_take_over_with_both_clocks_five_percent_off",
    ),
    Guard(
        "after a request that hung there is time for another",
        "election.timing:Timing.request_timeout",
        "self.renew_deadline / 2",
        "self.renew_deadline",
        "unit/test_timing.py::test_a_request_may_take_half_the_renew_deadline",
    ),
    # --- one object
    Guard(
        "an update names the uid of the object that the decision saw",
        "locks.object_lock:ObjectLock._body",
        "metadata = dict(base['metadata'])",
        "metadata = dict(base['metadata'])\nmetadata.pop('uid', None)",
        "unit/test_object_lock.py::test_update_names_uid_and_resource_version_of_the_observation",
    ),
    Guard(
        "an update names the version that the decision saw",
        "locks.object_lock:ObjectLock._body",
        "metadata = dict(base['metadata'])",
        "metadata = dict(base['metadata'])\nmetadata.pop('resourceVersion', None)",
        "unit/test_object_lock.py::test_update_names_uid_and_resource_version_of_the_observation",
    ),
    Guard(
        "a creation overwrites nothing",
        "locks.object_lock:ObjectLock.create",
        "self._api.call('POST', self._collection + query, ..., ...)",
        "self._api.call('PUT', self._target + query, ..., ...)",
        "unit/test_object_lock.py::test_creation_never_overwrites_an_object",
    ),
    Guard(
        "what is not the object is no answer",
        "locks.object_lock:ObjectLock._metadata",
        "... or metadata.get('name') != name or found.get('kind') != kind",
        "... or False",
        "unit/test_object_lock.py::test_response_with_another_object_is_an_error",
    ),
    Guard(
        "an object without uid or version is no answer",
        "locks.object_lock:ObjectLock._metadata",
        "not isinstance(version, str) or not version or not isinstance(metadata.get('uid'), str)",
        "False",
        "unit/test_object_lock.py::test_response_with_another_object_is_an_error",
    ),
    Guard(
        "a record that says two things of its holder is held",
        "election.record:_fields",
        "found.setdefault(name.lower(), value) != value",
        "found.update({name.lower(): value})",
        "fuzz/test_records.py::test_an_annotation_is_free_only_where_encoding_json_reads_an_empty_holder",
    ),
    # --- two objects
    Guard(
        "a pair: each is written on the version that the decision saw, and created where that saw none",
        "locks.multilock:MultiLock.write",
        "lock.write(before, record, incarnation, end - clock())",
        "lock.write(await _find(lock, end - clock()), record, incarnation, end - clock())",
        "unit/test_multi.py::test_no_object_is_written_over_another_version_than_the_observed_one",
    ),
    Guard(
        "a pair: the fencing token is the first one's",
        "election.events:Observed.token",
        "self.version.partition('/')[0]",
        "self.version.partition('/')[2]",
        "unit/test_multi.py::test_the_fencing_token_is_the_version_of_the_primary",
    ),
    # --- the road
    Guard(
        "each address of an API server is tried, though the first one is silent",
        "kube.dial:_first_connected",
        "_NEXT_ADDRESS_SECONDS if len(attempts) < len(addresses) else None",
        "None",
        "unit/test_connection.py::test_api_server_is_reached_at_a_later_address_if_the_first_are_silent",
    ),
    Guard(
        "a call is bounded as a whole",
        "kube.client:ApiClient.call",
        "within(timeout)",
        "within(60)",
        "unit/test_api_client.py::test_call_timeout_holds_for_a_response_that_trickles_in",
    ),
    Guard(
        "no call is repeated behind one's back",
        "kube.client:ApiClient._call",
        "try:\n"
        "    response = await connection.call(method, target, headers, data, max_bytes)\n"
        "except BaseException:\n"
        "    connection.close()\n"
        "    raise",
        "try:\n"
        "    response = await connection.call(method, target, headers, data, max_bytes)\n"
        "except BaseException:\n"
        "    connection.close()\n"
        "    connection = await self._connected()\n"
        "    response = await connection.call(method, target, headers, data, max_bytes)",
        "unit/test_api_client.py::test_failed_call_is_never_repeated",
    ),
    Guard(
        "a watch whose version is too old goes on only where nothing was in between",
        "kube.client:ApiClient.watch_object",
        "present is None or string_map(...).get('resourceVersion') != version",
        "present is None",
        "unit/test_watch_object.py::test_a_watch_from_a_forgotten_version_ends_if_the_object_has_changed_since[later]",
    ),
    Guard(
        "a watch that has told something does not go on from an earlier state",
        "kube.client:ApiClient.watch_object",
        "received or not version",
        "not version",
        "unit/test_watch_object.py::test_a_watch_that_has_reported_a_change_ends_with_its_first_error",
    ),
    # --- leader-for-life
    Guard(
        "an owner whose phase is not final is alive",
        "kube.pod_owner:is_dead",
        "status.get('phase') not in _FINAL_PHASES or ...",
        "...",
        "unit/test_leader_for_life_lock.py::test_owner_is_alive_while_a_container_may_run",
    ),
    Guard(
        "an owner that Pod garbage collection has failed is alive",
        "kube.pod_owner:is_dead",
        "not collected and bool(...) and all(ended)",
        "bool(...) and all(ended)",
        "unit/test_leader_for_life_lock.py::test_owner_is_alive_while_a_container_may_run",
    ),
    Guard(
        "an owner with a container that may run is alive",
        "kube.pod_owner:_all_terminated",
        "all(...) and all(ended)",
        "all(...)",
        "unit/test_leader_for_life_lock.py::test_owner_is_alive_while_a_container_may_run",
    ),
    Guard(
        "an owner with a container that has no status is alive",
        "kube.pod_owner:_all_terminated",
        "all(...) and all(ended)",
        "all(ended)",
        "unit/test_leader_for_life_lock.py::test_owner_is_alive_while_a_container_may_run",
    ),
    Guard(
        "an owner with an init container that may run is alive",
        "kube.pod_owner:",
        "{'containers': ..., 'initContainers': ..., 'ephemeralContainers': ...}",
        "{'containers': ..., 'ephemeralContainers': 'ephemeralContainerStatuses'}",
        "unit/test_leader_for_life_lock.py::test_owner_is_alive_while_a_container_may_run",
    ),
    Guard(
        "an owner with an ephemeral container that may run is alive",
        "kube.pod_owner:",
        "{'containers': ..., 'initContainers': ..., 'ephemeralContainers': ...}",
        "{'containers': ..., 'initContainers': ...}",
        "unit/test_leader_for_life_lock.py::test_owner_is_alive_while_a_container_may_run",
    ),
    Guard(
        "an owner that cannot be told from others is not dead",
        "kube.pod_owner:owner_of",
        "... if valid else None",
        "...",
        "fuzz/test_objects.py::test_a_lock_whose_owner_cannot_be_read_is_held",
    ),
    Guard(
        "Pods are told by their uid",
        "locks.leader_for_life:LeaderForLifeLock._evaluate",
        "found is not None and owner is not None and owner == me",
        "found is not None and owner is not None and me is not None and owner.name == me.name",
        "unit/test_leader_for_life_lock.py::test_pod_of_the_same_name_with_another_uid_is_another_pod",
    ),
    Guard(
        "of the processes of one Pod one contends",
        "locks.leader_for_life:LeaderForLifeLock._acquire_instance_lock",
        "instance_lock.acquire(..., ...)",
        "True",
        "unit/test_leader_for_life_lock.py::test_second_candidate_of_a_pod_waits",
    ),
    Guard(
        "what an earlier term has left keeps the lock",
        "locks.leader_for_life:LeaderForLifeLock._blocked_reason",
        "self._context.has_earlier_processes(..., ...)",
        "False",
        "unit/test_leader_for_life_lock.py::test_lock_is_not_acquired_while_processes_of_an_earlier_term_run",
    ),
    Guard(
        "what vanished is its last owner's",
        "locks.leader_for_life:LeaderForLifeLock._owner_now",
        "self._last if found is None else ...",
        "None if found is None else ...",
        "unit/test_leader_for_life_lock.py::test_vanished_lock_belongs_to_an_owner_whose_pod_could_not_be_read",
    ),
    Guard(
        "what an elector saw before is remembered for the next",
        "locks.leader_for_life:LeaderForLifeLock.__init__",
        "... if context.resume_state else None",
        "None",
        "unit/test_leader_for_life_lock.py::test_vanished_lock_belongs_to_the_owner_that_an_earlier_elector_observed",
    ),
    Guard(
        "who is told of another owner meanwhile creates nothing",
        "locks.leader_for_life:LeaderForLifeLock.write",
        "self._last not in {None, owner}",
        "False",
        "unit/test_leader_for_life_lock.py::test_lock_is_not_created_after_the_watch_has_shown_another_owner",
    ),
    Guard(
        "a watch alone proves nobody dead",
        "locks.leader_for_life:LeaderForLifeLock.write",
        "owner and not is_dead(..., owner.uid)",
        "False",
        "cluster/test_lock_owned.py::test_watch_event_alone_does_not_prove_the_owner_dead",
    ),
    Guard(
        "nothing is deleted but what was seen",
        "locks.leader_for_life:LeaderForLifeLock._delete",
        "{'apiVersion': ..., 'kind': ..., 'preconditions': ...}",
        "{'apiVersion': ..., 'kind': ...}",
        "cluster/test_lock_owned.py::test_lock_changed_since_it_was_read_is_not_deleted",
    ),
    Guard(
        "whose own Pod is gone has nothing",
        "locks.leader_for_life:LeaderForLifeLock.write",
        "seen is None or seen.dead",
        "seen is None",
        "cluster/test_lock_owned.py::test_candidate_whose_pod_is_gone_at_the_write_does_not_acquire",
    ),
    # --- the file
    Guard(
        "the file lock is never unlocked",
        "elector.start:FileElectors.let_go",
        "if fd >= 0:\n    os.close(fd)",
        "if fd >= 0:\n    __import__('fcntl').flock(fd, 8)\n    os.close(fd)",
        "unit/test_file_elector.py::test_closing_a_lock_leaves_it_to_other_processes_that_have_it_open",
    ),
    Guard(
        "a new candidacy for the file lock opens the file anew",
        "elector.start:FileElectors._open",
        "self.let_go()",
        "",
        "unit/test_file_elector.py::test_a_new_candidacy_holds_no_file_of_the_last_one",
    ),
    Guard(
        "path and lock are of one file",
        "locks.file_lock:in_place",
        "(there.st_dev, there.st_ino) == (here.st_dev, here.st_ino)",
        "bool(here and there)",
        "unit/test_file_elector.py::test_a_lock_on_an_unlinked_file_does_not_count[replaced]",
    ),
    Guard(
        "a file system of many machines is refused",
        "locks.file_lock:_problem",
        "remote(...)",
        "False",
        "unit/test_file_elector.py::test_a_file_system_of_many_machines_is_refused",
    ),
    Guard(
        "a symbolic link is refused",
        "locks.file_lock:",
        "... | os.O_NOFOLLOW",
        "...",
        "process/test_file_lock.py::test_a_path_that_is_no_lock_file_is_refused_and_left_as_it_is",
    ),
    Guard(
        "no lock file is kept in another user's directory",
        "locks.file_lock:unsafe",
        "... and found.st_uid == os.geteuid() and not found.st_mode & 0o022",
        "... and not found.st_mode & 0o022",
        "unit/test_file_elector.py::test_a_directory_of_another_user_is_refused_for_lock_files",
    ),
    Guard(
        "nor in one that others may enter",
        "locks.file_lock:_make_user_directory",
        "os.chmod(path, 0o700)",
        "",
        "process/test_file_lock_place.py::test_a_directory_that_others_may_enter_is_the_users_alone_from_then_on",
    ),
    Guard(
        "a file lock's token grows",
        "locks.file_lock:next_token",
        "max(int(previous) + 1, wall)",
        "wall",
        "process/test_file_lock.py::test_the_token_grows_though_the_wall_clock_goes_back",
    ),
    Guard(
        "a file lock's token is on disk",
        "locks.file_lock:write_record",
        "os.fsync(fd)",
        "",
        "unit/test_file_elector.py::test_a_record_is_on_disk_before_the_term_begins",
    ),
    Guard(
        "a full disk leaves the last record whole",
        "locks.file_lock:write_record",
        "os.posix_fallocate(fd, ..., ...)",
        "",
        "process/test_file_lock.py::test_a_limit_on_file_sizes_leaves_the_last_record_whole",
    ),
    # --- the lock of a path
    Guard(
        "who waits for a path keeps to its bytes though they change",
        "elector.file_elector:FileElector._lock",
        "keys or path_lock.path_keys(plan.file)",
        "path_lock.path_keys(plan.file)",
        "unit/test_file_elector.py::test_a_waiting_candidate_keeps_the_bytes_of_its_path",
    ),
    Guard(
        "whoever has one of a path's bytes keeps newcomers away",
        "locks.path_lock:acquire_path",
        "return False",
        "return True",
        "unit/test_file_elector.py::test_a_leader_whose_file_was_removed_blocks_new_candidates",
    ),
    Guard(
        "a path's bytes are taken in one order",
        "locks.path_lock:path_keys",
        "sorted(...)",
        "list(...)",
        "unit/test_file_elector.py::test_the_bytes_of_a_path_are_taken_in_one_order",
    ),
    Guard(
        "a path is its leader's in its mount namespace",
        "locks.path_lock:path_keys",
        "(f'{_mount_namespace()}{given}', ..., ..., ...)",
        "(..., ..., ...)",
        "unit/test_file_elector.py::test_candidates_that_may_mean_the_same_lock_share_a_byte",
    ),
    Guard(
        "a path is its leader's on its device",
        "locks.path_lock:path_keys",
        "(..., f'{device}{given}', ..., ...)",
        "(..., ..., ...)",
        "unit/test_file_elector.py::test_candidates_that_may_mean_the_same_lock_share_a_byte",
    ),
    Guard(
        "a directory is its leader's by what it is called",
        "locks.path_lock:path_keys",
        "(..., ..., f'{device}{directory}/{name}', ...)",
        "(..., ..., ...)",
        "unit/test_file_elector.py::test_candidates_that_may_mean_the_same_lock_share_a_byte",
    ),
    Guard(
        "a directory is its leader's by whatever path",
        "locks.path_lock:path_keys",
        "(..., ..., ..., f'{device}:{found.st_ino:x}/{name}')",
        "(..., ..., ...)",
        "unit/test_file_elector.py::test_candidates_that_may_mean_the_same_lock_share_a_byte",
    ),
    Guard(
        "the lock of a path is found in its directory too",
        "locks.path_lock:open_path_locks",
        "'' if here == own else ...",
        "''",
        "process/test_file_lock_path.py"
        "::test_a_stopped_leader_in_another_container_that_shares_the_directory_has_its_path",
    ),
    Guard(
        "one file for paths is opened once",
        "locks.path_lock:open_path_locks",
        "... and not any(...)",
        "...",
        "process/test_file_lock_path.py::test_a_lock_file_beside_its_users_directory_is_taken[run]",
    ),
    Guard(
        "the lock of a path outlives the user's directory",
        "locks.path_lock:open_path_locks",
        "'.paths'",
        "'/paths'",
        "process/test_file_lock_place.py::test_lock_file_removed_with_its_directory_is_still_held_by_its_leader",
    ),
    Guard(
        "a file that strangers may have made locks no path",
        "locks.path_lock:_is_private",
        "own and not file_lock.remote(...)",
        "not file_lock.remote(...)",
        "process/test_file_lock_path.py::test_a_file_for_paths_that_strangers_may_have_made_is_not_used[readable]",
    ),
]
