"""leader-for-life through the whole program, beside operator-lib's own, with the real garbage collector."""

from __future__ import annotations

import os
import signal
import time
from typing import TYPE_CHECKING

import pytest

from kleader.locks.rbac import Permission, event_permissions, lock_permissions, registration_permissions, role_rules
from tests.cluster.crew import DEADLINE, LOCK, Crew
from tests.cluster.fleet import elector
from tests.support.api import path_of
from tests.support.objects import config_map, owned_by
from tests.support.processes import alive, wait_gone, wait_until

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.conftest import Trials
    from tests.support.checker import Witness
    from tests.support.controlplane import ControlPlane
    from tests.support.plane import Plane
    from tests.support.processes import Process, Processes

ROUNDS = 5
PATIENT = ("--renew-deadline=20s", "--lease-duration=30s")  # and so has a request half of the former
INCARNATION = "kleader/incarnation"


@pytest.fixture
def crew(
    plane: Plane, namespace: str, processes: Processes, witness: Witness, for_life: Callable[..., list[str]]
) -> Crew:
    return Crew(plane, namespace, processes, witness, for_life)


@pytest.fixture
def uncollected(own_plane: ControlPlane) -> None:
    """Nobody but candidates deletes anything."""
    if own_plane.manager.running:
        own_plane.manager.pause()


# --- who leads next


@pytest.mark.usefixtures("garbage_collector")
def test_the_next_candidate_leads_once_the_leaders_pod_is_gone(crew: Crew) -> None:
    """The command's end alone hands nothing over: the lock stays with its Pod."""
    first = crew.kleader("a")
    crew.witness.wait_start()
    assert crew.owner() == "a"
    crew.waiting("b", behind="a")
    assert crew.ends("a") == 0
    assert first.logged("not_released", "the Pod a keeps it until that Pod is deleted")
    assert crew.owner() == "a"
    crew.remove("a")
    assert crew.witness.wait_start(2).identity == "b"
    assert crew.owner() == "b"
    crew.witness.check(terms=2)


@pytest.mark.usefixtures("uncollected")
def test_lock_of_a_deleted_pod_is_taken_over_without_a_garbage_collector(crew: Crew) -> None:
    crew.kleader("a")
    crew.witness.wait_start()
    second = crew.waiting("b", *PATIENT, behind="a")
    crew.ends("a", crash=True)
    crew.remove("a")
    assert crew.witness.wait_start(2).identity == "b"
    crew.witness.check(terms=2)
    assert not second.logged(level="WARNING")


@pytest.mark.usefixtures("uncollected")
def test_a_leaders_end_is_observed_at_once_after_the_api_servers_history_was_compacted(
    crew: Crew, own_plane: ControlPlane
) -> None:
    """Its lock and Pod were not written for months, and the API server was restarted since: no polling is needed."""
    crew.kleader("a")
    crew.witness.wait_start()
    own_plane.apiserver.stop()
    own_plane.apiserver.start()
    user = own_plane.new_bare_user()
    own_plane.grant(
        user,
        crew.namespace,
        role_rules((*lock_permissions(LOCK, "x"), *registration_permissions("x"), *event_permissions())),
    )
    second = crew.waiting("b", *PATIENT, behind="a", user=user)
    wait_until(lambda: {"pods", "configmaps"} <= _watched(own_plane, user), "watches of the present state")
    crew.ends("a", crash=True)
    crew.remove("a")
    assert crew.witness.wait_start(2).identity == "b"
    crew.witness.check(terms=2)
    assert "too old" not in second.err


def _watched(plane: ControlPlane, user: str) -> set[str]:
    """What this user watches without a version, as far as the API server has begun to answer."""
    asked = [each for each in plane.audit_requests(user) if each["verb"] == "watch"]
    begun = [each for each in asked if each["stage"] == "ResponseStarted" and "Version=" not in each["requestURI"]]
    return {each["objectRef"]["resource"] for each in begun}


@pytest.mark.usefixtures("uncollected")
def test_with_release_another_pod_leads_while_the_first_pod_still_exists(crew: Crew) -> None:
    """operator-lib finds nothing left; a kleader has seen it given up."""
    first = crew.kleader("a", "--release")
    crew.witness.wait_start()
    lib = crew.lib("b")
    lib.wait_err("Not the leader")
    assert crew.ends("a") == 0
    assert first.logged("released")
    assert crew.witness.wait_start(2).identity == "b"
    crew.ends("b")
    crew.waiting("c", "--release", behind="b")
    crew.remove("b")
    assert crew.witness.wait_start(3).identity == "c"
    crew.waiting("d", "--release", behind="c")
    crew.ends("c")
    assert crew.witness.wait_start(4).identity == "d"
    assert crew.ends("d") == 0
    assert crew.lock() is None
    crew.witness.check(terms=4)


@pytest.mark.usefixtures("garbage_collector")
def test_restarted_container_of_the_leading_pod_leads_again(crew: Crew) -> None:
    """However it ended: the lock is its Pod's, and the processes of the earlier term are dead."""
    crew.kleader("a")
    crew.witness.wait_start()
    crew.waiting("b", behind="a")
    for number, crash in enumerate((False, True), 2):
        crew.ends("a", crash=crash)
        again = crew.kleader("a")
        assert crew.witness.wait_start(number).identity == "a"
        assert again.logged("taking_over")
    crew.witness.check(terms=3)


@pytest.mark.usefixtures("uncollected")
def test_a_recreated_pod_of_the_same_name_is_another_pod(crew: Crew) -> None:
    """As a StatefulSet makes it; operator-lib would lead on there."""
    crew.kleader("a")
    crew.witness.wait_start()
    crew.ends("a", crash=True)
    crew.remove("a")
    old = crew.lock()
    crew.kleader("a")
    assert crew.witness.wait_start(2).identity == "a"
    new = crew.lock()
    assert old
    assert new
    assert new["metadata"]["ownerReferences"] == [owned_by(crew.pods["a"])]
    assert new["metadata"]["uid"] != old["metadata"]["uid"]
    crew.waiting("b", behind="a")
    crew.ends("a", crash=True)
    crew.remove("a")
    crew.pod("a")
    assert crew.witness.wait_start(3).identity == "b"
    crew.witness.check(terms=3)


@pytest.mark.usefixtures("garbage_collector")
@pytest.mark.parametrize(("phase", "reason"), [("Failed", "Evicted"), ("Failed", "Terminated"), ("Succeeded", "")])
def test_the_next_candidate_leads_once_every_container_of_the_leaders_pod_has_ended(
    crew: Crew, phase: str, reason: str
) -> None:
    """By an eviction, with its node, or by itself."""
    crew.kleader("a")
    crew.witness.wait_start()
    crew.waiting("b", behind="a")
    crew.state("a", phase, reason, ended=False)
    crew.ends("a", crash=True)
    assert crew.owner() == "a"
    crew.state("a", phase, reason)
    assert crew.witness.wait_start(2).identity == "b"
    assert crew.plane.api.find(path_of(crew.pods["a"])), "nobody has deleted the Pod"
    crew.witness.check(terms=2)


@pytest.mark.timeout(720)
@pytest.mark.usefixtures("garbage_collector")
def test_ten_handovers_in_both_directions_have_no_overlap(crew: Crew, trials: Trials) -> None:
    """Two of each, planned and by crashes; each side sees the other's leaders."""

    def kleader(pod: str) -> Process:
        return crew.kleader(pod, "--release") if pod.endswith(("0", "5")) else crew.kleader(pod)

    leader = crew.fresh(crew.lib, "lib")
    assert crew.witness.wait_start().identity == leader
    to_kleader = to_lib = 0
    while min(to_kleader, to_lib) < ROUNDS:
        crash = to_kleader % 3 == 2
        waiting = "lib" if leader.startswith("k") else "k"
        for letter, start in (("k", kleader), ("lib", crew.lib)):
            for _ in range(2 - sum(name.startswith(letter) for name in crew.running)):
                crew.fresh(start, letter)
        if waiting == "lib":  # who waits on our side would be faster
            for name in [name for name in crew.running if name.startswith("k") and name != leader]:
                crew.ends(name)
                crew.remove(name)
        for name, process in crew.running.items():
            if name != leader:
                if name.startswith("k"):
                    process.wait_log("leader_observed", rf"is {leader}\b")
                else:
                    process.wait_err("Not the leader")
        terms = len(crew.witness.terms())
        crew.ends(leader, crash=crash)
        crew.remove(leader)
        leader = crew.witness.wait_start(terms + 1).identity
        to_kleader, to_lib = to_kleader + leader.startswith("k"), to_lib + leader.startswith("lib")
    crew.witness.check()
    trials.count(to_kleader + to_lib, "handovers between kleader and operator-lib")


# --- one kleader of a Pod


def test_the_second_candidate_of_a_pod_waits_for_the_end_of_the_first(crew: Crew) -> None:
    first = crew.kleader("a")
    crew.witness.wait_start()
    second = crew.kleader("a")
    second.wait_err("another kleader of this Pod competes for it")
    third = crew.kleader("a", "--no-wait", *PATIENT)
    assert third.wait() == 124
    assert "another kleader of this Pod" in third.err
    first.signal(signal.SIGTERM)
    assert first.wait() == 0
    crew.witness.wait_start(2)
    crew.witness.check(terms=2)


def test_processes_of_a_killed_kleader_are_dead_before_the_next_leads_in_its_pod(crew: Crew) -> None:
    """Its elector is killed with it, and the descendant is an orphan."""
    crew.kleader("a", does=["--descendant", "--ignore-term"])
    crew.witness.wait_start()
    crew.witness.wait_descendant(1)
    first = crew.running["a"]
    for pid in (elector(first), first.pid):
        os.kill(pid, signal.SIGKILL)
    crew.kleader("a")
    crew.witness.wait_start(2)
    crew.witness.check(terms=2)


# --- what a leader sees


SIGHTS: dict[str, Callable[[Crew], object]] = {
    "gone": lambda crew: crew.plane.api.delete(crew.path),
    "another owner": lambda crew: crew.plane.api.merge(
        crew.path, {"metadata": {"ownerReferences": [owned_by(crew.pod("other"))]}}
    ),
    "a second owner": lambda crew: crew.plane.api.merge(
        crew.path, {"metadata": {"ownerReferences": [owned_by(crew.pod(name)) for name in ("a", "other")]}}
    ),
    "another incarnation": lambda crew: crew.plane.api.merge(
        crew.path, {"metadata": {"annotations": {INCARNATION: "x"}}}
    ),
    "no incarnation": lambda crew: crew.plane.api.merge(crew.path, {"metadata": {"annotations": {INCARNATION: None}}}),
    "its Pod gone": lambda crew: crew.remove("a"),
    "its Pod evicted": lambda crew: crew.state("a", "Failed", "Evicted"),
}


@pytest.mark.usefixtures("uncollected")
@pytest.mark.parametrize("sight", SIGHTS)
def test_a_leader_whose_lock_or_pod_has_changed_kills_at_once(crew: Crew, sight: str) -> None:
    """Without grace: the command would take TERM's time."""
    leader = crew.kleader("a", does=["--ignore-term"])
    crew.witness.wait_start()
    SIGHTS[sight](crew)
    assert leader.wait() == 255, leader.err
    assert not leader.logged("command_stopping")
    crew.witness.check(terms=1)


@pytest.mark.usefixtures("uncollected")
def test_a_deleted_lock_belongs_to_its_owner_until_the_pod_is_gone(crew: Crew) -> None:
    """For a candidate that observed it; its own Pod may recreate it."""
    crew.kleader("a", "--on-loss=wait")
    crew.witness.wait_start()
    second = crew.waiting("b", behind="a")
    crew.plane.api.delete(crew.path)
    assert crew.witness.wait_start(2).identity == "a"
    crew.ends("a", crash=True)
    crew.plane.api.delete(crew.path)
    second.wait_err("the lock is gone, but not the Pod a, which had it: waiting for its end")
    assert crew.lock() is None
    crew.remove("a")
    assert crew.witness.wait_start(3).identity == "b"
    crew.witness.check(terms=3)


# --- faults


def test_a_replaced_elector_does_not_disturb_the_command(crew: Crew, trials: Trials) -> None:
    """Its successor has its place in the Pod, and looks on."""
    leader = crew.kleader("a")
    term = crew.witness.wait_start()
    crew.waiting("b", behind="a")
    before = crew.lock()
    for number, fault in enumerate((signal.SIGKILL, signal.SIGSTOP), 1):
        os.kill(elector(leader), fault)
        leader.wait_log("elector_replaced", r"\d+; the command goes on", count=number)
    assert alive(term.pid)
    beside = crew.kleader("a", "--no-wait", *PATIENT)
    assert beside.wait() == 124
    assert crew.lock() == before
    crew.plane.api.delete(crew.path)
    assert leader.wait() == 255
    crew.witness.check(terms=1)
    trials.count(2, "electors killed or stopped while leading")


@pytest.mark.usefixtures("uncollected")
def test_leader_survives_a_freeze_of_supervisor_and_elector_in_either_order(crew: Crew, trials: Trials) -> None:
    """For longer than the renew deadline: the elector wakes first here, and asks before it judges."""
    leader = crew.kleader("a")
    term = crew.witness.wait_start()
    for _ in range(2):
        processes = (leader.pid, elector(leader))
        for pid in processes:
            os.kill(pid, signal.SIGSTOP)
        _pass(DEADLINE + 0.5)
        for pid in reversed(processes):
            os.kill(pid, signal.SIGCONT)
            _pass(0.3)
        _pass(1.5)  # a heartbeat, and what follows from it
        assert alive(term.pid), leader.err
    leader.signal(signal.SIGTERM)
    assert leader.wait() == 0, leader.err
    crew.witness.check(terms=1)
    trials.count(2, "freezes of a supervisor and its elector")


def _pass(seconds: float) -> None:
    until = time.monotonic() + seconds
    wait_until(lambda: time.monotonic() >= until, "time to pass")


@pytest.mark.usefixtures("uncollected")
@pytest.mark.parametrize("lost", ["the lock", ""], ids=["and the lock is gone", "and nothing else happens"])
def test_a_supervisor_that_is_stopped_is_killed_by_its_elector(crew: Crew, lost: str, trials: Trials) -> None:
    """With its tree. There is no deadline that would: at once where the lock is lost, else when it does not answer."""
    leader = crew.kleader("a", does=["--ignore-term", "--descendant"])
    lives = [crew.witness.wait_start().pid, crew.witness.wait_descendant().pid]
    crew.waiting("b", behind="a")
    leader.signal(signal.SIGSTOP)
    if lost:
        crew.plane.api.delete(crew.path)
    assert leader.wait() == -signal.SIGKILL
    wait_gone(*lives)
    crew.remove("a")
    assert crew.witness.wait_start(2).identity == "b"
    crew.witness.check(terms=2)
    trials.count(1, "supervisors killed or stopped")


def test_the_next_candidate_of_a_pod_waits_for_a_killed_supervisors_elector(crew: Crew, trials: Trials) -> None:
    leader = crew.kleader("a", does=["--ignore-term", "--descendant"])
    crew.witness.wait_start()
    crew.witness.wait_descendant()
    guard = elector(leader)
    leader.signal(signal.SIGSTOP)  # it would replace a stopped elector
    os.kill(guard, signal.SIGSTOP)
    leader.kill()
    leader.wait()
    again = crew.kleader("a")
    again.wait_err("another kleader of this Pod competes for it, or has not ended yet")
    os.kill(guard, signal.SIGCONT)
    crew.witness.wait_start(2)
    crew.witness.check(terms=2)
    trials.count(1, "supervisors killed or stopped")


def test_a_leader_for_life_leads_on_through_an_api_outage(crew: Crew, own_plane: ControlPlane) -> None:
    leader = crew.kleader("a", does=["--ignore-term"])
    term = crew.witness.wait_start()
    own_plane.apiserver.stop()
    leader.wait_err("cannot reach the API server")
    own_plane.apiserver.start()
    assert alive(term.pid)
    own_plane.api.delete(crew.path)
    assert leader.wait() == 255
    assert "the lock object is gone" in leader.err


# --- what is missing


def plant(crew: Crew, missing: Permission) -> str:
    """What makes this permission needed; how long to wait."""
    if (missing.resource, missing.verb) in {("configmaps", "watch"), ("pods", "watch"), ("configmaps", "delete")}:
        crew.plane.api.create(config_map(crew.namespace, "x", owners=[crew.pod("other")]))
    if missing.verb == "delete":
        crew.remove("other")
    if missing.verb == "update":
        found = config_map(crew.namespace, "x", owners=[crew.pod("a")])
        found["metadata"]["annotations"] = {INCARNATION: "earlier"}
        crew.plane.api.create(found)
    return "--wait=60s" if missing.verb == "watch" else "--no-wait"


@pytest.mark.usefixtures("uncollected")
@pytest.mark.parametrize("missing", lock_permissions(LOCK, "x"), ids=lambda each: f"{each.verb} {each.resource}")
def test_each_missing_permission_is_reported_in_a_line_and_ends_no_term(
    crew: Crew, own_plane: ControlPlane, missing: Permission, trials: Trials
) -> None:
    user = own_plane.new_bare_user()
    own_plane.grant(
        user,
        crew.namespace,
        role_rules(
            each
            for each in (*lock_permissions(LOCK, "x"), *registration_permissions("x"), *event_permissions())
            if each != missing
        ),
    )
    patience = plant(crew, missing)
    before = crew.lock()
    process = crew.kleader("a", patience, *PATIENT, user=user, command=["echo", "ran"])
    if missing.verb == "watch":
        process.wait_log("watch_failed")
        crew.remove("other")
    status = process.wait()
    assert "Traceback" not in process.err
    said = [line for line in process.err.splitlines() if "cannot " in line]
    assert len(said) == 1, process.err
    assert f'User "{user}" cannot {missing.verb} resource "{missing.resource}"' in said[0]
    assert "grant it in a Role" in said[0]
    if missing.without:
        assert (status, process.out) == (0, "ran\n"), process.err
        assert "polling instead" in said[0]
    else:
        assert (status, process.out) == (125, ""), process.err
        assert crew.lock() == before
    trials.count(1, "permissions taken away")


@pytest.mark.usefixtures("garbage_collector")
def test_printed_role_suffices_to_acquire_take_over_and_release_the_lock_of_a_pod(
    crew: Crew, own_plane: ControlPlane
) -> None:
    users = {}
    for name in ("a", "b"):
        users[name] = own_plane.new_bare_user()
        own_plane.grant(
            users[name],
            crew.namespace,
            role_rules((*lock_permissions(LOCK, "x"), *registration_permissions("x"), *event_permissions())),
        )
    for number in (1, 2):
        crew.kleader("a", user=users["a"])
        crew.witness.wait_start(number)
        if number == 1:
            crew.waiting("b", "--release", behind="a", user=users["b"])
        crew.ends("a")
    crew.remove("a")
    crew.witness.wait_start(3)
    assert crew.ends("b") == 0
    assert crew.lock() is None
    asked = [request for user in users.values() for request in own_plane.audit_requests(user)]
    assert [request for request in asked if request.get("responseStatus", {}).get("code") == 403] == []
    crew.witness.check(terms=3)


def test_a_missing_namespace_or_pod_is_reported_with_the_option_to_set(crew: Crew) -> None:
    crew.pod("a")
    uid = crew.pods["a"]["metadata"]["uid"]
    for env, said in (
        ({"POD_NAME": "nobody"}, f"there is no Pod {crew.namespace}/nobody: set POD_NAME to the name of this Pod"),
        ({"POD_NAMESPACE": "nowhere"}, "there is no Pod nowhere/a: set POD_NAME to the name of this Pod"),
        ({"POD_UID": "u"}, f"is not the one that this runs in: its uid is {uid}, POD_UID says u"),
    ):
        process = crew.kleader("a", env=env)  # type: ignore[arg-type]
        assert process.wait() == 125
        assert process.err.count(said) == 1
        assert len(process.logged(level="ERROR")) == 1
    assert crew.lock() is None


def test_the_end_of_wait_names_the_holder(crew: Crew) -> None:
    crew.kleader("a")
    crew.witness.wait_start()
    for patience in ("--wait=8s", "--wait=live", "--no-wait"):
        process = crew.kleader("b", patience, *PATIENT)
        assert process.wait() == 124
        assert "held by a, " in process.err
    crew.witness.check(terms=1)


@pytest.mark.usefixtures("uncollected")
def test_lock_deleted_while_a_candidate_had_no_elector_still_belongs_to_its_pod(crew: Crew) -> None:
    """The elector that comes after knows whose it was."""
    crew.kleader("a", does=["--ignore-term"])
    crew.witness.wait_start()
    second = crew.waiting("b", behind="a")
    crew.running["a"].signal(signal.SIGSTOP)
    first = elector(crew.running["a"])
    os.kill(first, signal.SIGSTOP)
    second.signal(signal.SIGSTOP)
    os.kill(elector(second), signal.SIGKILL)
    crew.plane.api.delete(crew.path)
    second.signal(signal.SIGCONT)
    second.wait_err("the lock is gone, but not the Pod a, which had it: waiting for its end")
    for pid in (first, crew.running["a"].pid):
        os.kill(pid, signal.SIGKILL)
    assert crew.lock() is None
    crew.remove("a")
    assert crew.witness.wait_start(2).identity == "b"
    crew.witness.check(terms=2)


# --- what is no lock of a Pod


def test_a_config_map_without_one_owning_pod_counts_as_held_and_stays_unchanged(crew: Crew) -> None:
    api = crew.plane.api
    other = api.create(config_map(crew.namespace, "other"))
    pods = [crew.pod("one"), crew.pod("two")]
    candidate = None
    for owners, said in (
        ([], "has no owner, not one Pod"),
        (pods, "has 2 owners, not one Pod"),
        ([other], "belongs to the ConfigMap other, which is not a Pod"),
    ):
        found = api.create(config_map(crew.namespace, "x", owners=owners, data={"kept": "1"}))
        candidate = crew.kleader("a", "--no-wait", *PATIENT)
        assert candidate.wait() == 124
        assert candidate.err.count(f"the ConfigMap {crew.namespace}/x {said}") == 2  # a warning, and at the end
        assert crew.lock() == found
        api.delete(crew.path)


def test_lock_of_operator_lib_in_the_same_pod_counts_as_held(crew: Crew) -> None:
    crew.lib("a")
    crew.witness.wait_start()
    beside = crew.kleader("a", "--no-wait", *PATIENT)
    assert beside.wait() == 124
    assert "a process of this Pod that is not kleader has it" in beside.err
    crew.witness.check(terms=1)
