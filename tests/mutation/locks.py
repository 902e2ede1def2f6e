"""The guards that are in how a lock is kept: what is written, what counts as an answer, whose it is."""

from __future__ import annotations

from tests.mutation.mutant import Mutant

MUTANTS = [
    # --- the arithmetic
    Mutant(
        "timings that cannot be safe are refused",
        "election/timing.py",
        "    if g < 0 or g > rest + 1e-9:\n",
        "    if False:\n",
        "unit/test_timing.py::test_what_does_not_fit_into_the_lease_is_refused_with_the_sum",
    ),
    Mutant(
        "clocks may differ",
        "election/timing.py",
        "self.lease_duration - self.kill - self.skew",
        "self.lease_duration - self.kill",
        "unit/test_timing.py::"
        "test_a_command_is_dead_before_a_challenger_may_take_over_with_both_clocks_five_percent_off",
    ),
    Mutant(
        "after a request that hung there is time for another",
        "election/timing.py",
        "        return self.renew_deadline / 2\n",
        "        return self.renew_deadline\n",
        "unit/test_timing.py::test_a_request_may_take_half_the_renew_deadline",
    ),
    # --- one object
    Mutant(
        "an update names the uid of the object that the decision saw",
        "locks/object.py",
        '        metadata = dict(base["metadata"])\n',
        '        metadata = dict(base["metadata"])\n        metadata.pop("uid", None)\n',
        "unit/test_object.py::test_an_update_names_the_object_and_the_version_that_the_decision_saw",
    ),
    Mutant(
        "an update names the version that the decision saw",
        "locks/object.py",
        '        metadata = dict(base["metadata"])\n',
        '        metadata = dict(base["metadata"])\n        metadata.pop("resourceVersion", None)\n',
        "unit/test_object.py::test_an_update_names_the_object_and_the_version_that_the_decision_saw",
    ),
    Mutant(
        "a creation overwrites nothing",
        "locks/object.py",
        'self._api.call("POST", self._collection + query,',
        'self._api.call("PUT", self._target + query,',
        "unit/test_object.py::test_a_creation_overwrites_nothing",
    ),
    Mutant(
        "what is not the object is no answer",
        "locks/object.py",
        'or metadata.get("name") != name or found.get("kind") != kind:',
        "or False:",
        "unit/test_object.py::test_what_is_not_the_object_is_no_answer",
    ),
    Mutant(
        "an object without uid or version is no answer",
        "locks/object.py",
        '        if not isinstance(version, str) or not version or not isinstance(metadata.get("uid"), str):\n',
        "        if False:\n",
        "unit/test_object.py::test_what_is_not_the_object_is_no_answer",
    ),
    Mutant(
        "a record that says two things of its holder is held",
        "election/record.py",
        "found.setdefault(name.lower(), value) != value:",
        "found.update({name.lower(): value}):",
        "fuzz/test_records.py::test_an_annotation_is_free_only_where_encoding_json_reads_an_empty_holder",
    ),
    # --- two objects
    Mutant(
        "a pair: each is written on the version that the decision saw, and created where that saw none",
        "locks/multi.py",
        "lock.write(before, begun,",
        "lock.write(await _find(lock, timeout), begun,",
        "unit/test_multi.py::test_neither_is_written_on_another_version_than_the_decision_saw",
    ),
    Mutant(
        "a pair: the fencing token is the first one's",
        "locks/multi.py",
        'version=pair.first.version if pair.first else "",',
        'version=pair.second.version if pair.second else "",',
        "unit/test_multi.py::test_the_fencing_token_is_the_first_ones_version",
    ),
    # --- the road
    Mutant(
        "a call is bounded as a whole",
        "locks/api.py",
        "            async with within(timeout):\n                answer",
        "            async with within(60):\n                answer",
        "unit/test_calls.py::test_an_answer_that_trickles_in_is_bounded_as_a_whole",
    ),
    Mutant(
        "no call is repeated behind one's back",
        "locks/api.py",
        "            connection.close()\n            raise\n        self._dated",
        "            connection.close()\n            connection = await self._ready()\n"
        "            answer = await connection.call(method, target, headers, data, most)\n        self._dated",
        "unit/test_calls.py::test_a_call_that_fails_is_not_repeated_behind_ones_back",
    ),
    Mutant(
        "a watch whose version is too old goes on only where nothing was in between",
        "locks/api.py",
        '            if present is None or texts(present.get("metadata")).get("resourceVersion") != version:\n',
        "            if present is None:\n",
        "unit/test_api_changes.py::test_where_another_state_is_the_present_one_nobody_knows_what_was_in_between[later]",
    ),
    Mutant(
        "a watch that has told something does not go on from an earlier state",
        "locks/api.py",
        "            if told or not version:\n",
        "            if not version:\n",
        "unit/test_api_changes.py::test_a_watch_that_has_told_something_does_not_go_on_after_that",
    ),
    # --- leader-for-life
    Mutant(
        "a Pod that nobody evicted lives",
        "locks/pod.py",
        ' or status.get("reason") not in _ENDED:',
        ":",
        "unit/test_owned.py::test_a_pod_is_dead_where_it_is_gone_or_was_evicted_and_all_of_it_has_ended",
    ),
    Mutant(
        "a Pod of which a container may run lives",
        "locks/pod.py",
        " and all(ended)",
        " and any(ended)",
        "unit/test_owned.py::test_a_pod_is_dead_where_it_is_gone_or_was_evicted_and_all_of_it_has_ended",
    ),
    Mutant(
        "a Pod of which a container is not accounted for lives",
        "locks/pod.py",
        "bool(wanted) and all(isinstance(name, str) and name in known for name in wanted) and all(ended)",
        "all(ended)",
        "unit/test_owned.py::test_a_pod_is_dead_where_it_is_gone_or_was_evicted_and_all_of_it_has_ended",
    ),
    Mutant(
        "an owner that cannot be told from others is not dead",
        "locks/pod.py",
        "if known else None",
        "",
        "fuzz/test_objects.py::test_a_lock_whose_owner_cannot_be_read_is_held",
    ),
    Mutant(
        "Pods are told by their uid",
        "locks/owned.py",
        "        ours = found is not None and owner is not None and owner == me\n",
        "        ours = found is not None and owner is not None and me is not None and owner.name == me.name\n",
        "unit/test_owned.py::test_another_uid_under_ones_own_name_is_another_pod",
    ),
    Mutant(
        "of the processes of one Pod one contends",
        "locks/owned.py",
        "        return abstract.claim(self._home.socket, wanted)\n",
        "        return True\n",
        "unit/test_owned.py::test_of_two_of_one_pod_the_second_waits",
    ),
    Mutant(
        "what an earlier term has left keeps the lock",
        "locks/owned.py",
        '        if self._home.left(self._terms, _incarnation(found) if ours and found else ""):\n',
        "        if False:\n",
        "unit/test_owned.py::test_what_is_left_of_an_earlier_term_keeps_the_lock",
    ),
    Mutant(
        "what vanished is its last owner's",
        "locks/owned.py",
        "        owner = self._owner(found) if found else self._last\n",
        "        owner = self._owner(found) if found else None\n",
        "unit/test_owned.py::test_an_owner_whose_pod_could_not_be_looked_at_has_the_lock_when_it_vanishes",
    ),
    Mutant(
        "what an elector saw before is remembered for the next",
        "locks/owned.py",
        "        self._last = Owner(*json.loads(home.memory)) if home.memory else None\n",
        "        self._last: Owner | None = None\n",
        "unit/test_owned.py::test_an_owner_that_an_elector_before_saw_has_the_lock_when_it_vanishes",
    ),
    Mutant(
        "who is told of another owner meanwhile creates nothing",
        "locks/owned.py",
        "            if self._last not in {None, owner}:  # which",
        "            if False:  # which",
        "unit/test_owned.py::test_who_is_told_of_another_owner_before_it_creates_the_lock_does_not",
    ),
    Mutant(
        "a watch alone proves nobody dead",
        "locks/owned.py",
        "            if owner and not gone(await self._pod(owner.name, timeout), owner.uid):  # a watch only wakes\n",
        "            if False:\n",
        "cluster/test_lock_owned.py::test_a_watch_alone_proves_nobody_dead",
    ),
    Mutant(
        "nothing is deleted but what was seen",
        "locks/owned.py",
        '"kind": "DeleteOptions", "preconditions": conditions}',
        '"kind": "DeleteOptions"}',
        "cluster/test_lock_owned.py::test_what_has_changed_since_it_was_seen_is_not_deleted",
    ),
    Mutant(
        "whose own Pod is gone has nothing",
        "locks/owned.py",
        "        if seen is None or seen.dead:\n",
        "        if seen is None:\n",
        "cluster/test_lock_owned.py::test_whose_own_pod_is_gone_by_the_time_of_the_write_has_nothing",
    ),
    # --- the file
    Mutant(
        "the file lock is never unlocked",
        "elector/start.py",
        "            os.close(self._fd)\n            self._fd = -1\n",
        "            __import__('fcntl').flock(self._fd, 8)\n"
        "            os.close(self._fd)\n            self._fd = -1\n",
        "unit/test_guard.py::test_who_lets_go_leaves_it_to_all_others_that_have_it_open",
    ),
    Mutant(
        "a new candidacy for the file lock opens the file anew",
        "elector/start.py",
        "        self.let_go()\n        self._fd = file",
        "        self._fd = file",
        "unit/test_guard.py::test_a_new_candidacy_holds_nothing_of_the_last_one",
    ),
    Mutant(
        "path and lock are of one file",
        "locks/file.py",
        "    return (there.st_dev, there.st_ino) == (here.st_dev, here.st_ino)\n",
        "    return bool(here and there)\n",
        "unit/test_guard.py::test_a_lock_on_a_file_that_has_lost_its_name_is_none[replaced]",
    ),
    Mutant(
        "a file system of many machines is refused",
        "locks/file.py",
        "    if remote(kind):\n",
        "    if False:\n",
        "unit/test_guard.py::test_a_file_system_of_many_machines_is_refused",
    ),
    Mutant(
        "a symbolic link is refused",
        "locks/file.py",
        " | os.O_NOFOLLOW",
        "",
        "process/test_file_lock.py::test_a_path_that_is_no_lock_file_is_refused_and_left_as_it_is",
    ),
    Mutant(
        "a file lock's token grows",
        "locks/file.py",
        "        return max(int(previous) + 1, wall)\n",
        "        return wall\n",
        "process/test_file_lock.py::test_the_token_grows_though_the_wall_clock_goes_back",
    ),
    Mutant(
        "a file lock's token is on disk",
        "locks/file.py",
        "    os.fsync(fd)\n",
        "",
        "unit/test_guard.py::test_a_record_is_on_disk_before_it_counts",
    ),
    Mutant(
        "a full disk leaves the last record whole",
        "locks/file.py",
        "    os.posix_fallocate(fd, 0, len(padded))  # there",
        "    # there",
        "process/test_file_lock.py::test_a_limit_on_file_sizes_leaves_the_last_record_whole",
    ),
]
