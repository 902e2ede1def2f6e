"""`kleader resign`: the leader is asked on the lock itself, stops its command, and releases the lock."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import socket
import sys
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from kleader.locks.rbac import request_permissions, role_rules
from tests.cluster.asking import INCARNATION, NOT_DONE, REQUEST, USAGE, asker
from tests.cluster.contract import COORDINATED, LEADER, LOCKS, Place
from tests.cluster.crew import LOCK, Crew
from tests.cluster.fleet import DURATION, LOST, PATIENT, Fleet, elector, kill_whole
from tests.support.api import lease, path
from tests.support.httpproxy import HttpProxy
from tests.support.objects import config_map, endpoints, record

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.cluster.asking import Ask
    from tests.support.checker import Witness
    from tests.support.controlplane import ControlPlane
    from tests.support.httpproxy import Action, Exchange
    from tests.support.plane import Plane
    from tests.support.processes import Processes

SLOW = ("--term-delay=0.3", "--descendant")
NAME = "lease.coordination.k8s.io/x"


@pytest.fixture
def ask(plane: Plane, namespace: str, processes: Processes) -> Ask:
    return asker(plane, namespace, processes)


def leave(fleet: Fleet, **request: str) -> None:
    """Leave a request on the Lease, as anybody may who can write it."""
    fleet.plane.api.merge(fleet.path, {"metadata": {"annotations": {REQUEST: json.dumps(request)}}})


def test_resigning_leader_stops_its_command_and_the_next_candidate_leads(fleet: Fleet, ask: Ask) -> None:
    """Its status is that of a lost lock, and what it started was dead before."""
    first = fleet.start("a", does=SLOW, timings=PATIENT)
    fleet.witness.wait_descendant()
    second = fleet.waiting("b", behind="a", timings=PATIENT)
    asked = ask("resign")
    assert asked.wait() == 0, asked.err
    assert re.search(rf"^{NAME} b leads", asked.out.splitlines()[-1]), "it says who leads next"
    assert asked.err == "kleader: asked a to resign\n"
    assert fleet.witness.wait_start(2).identity == "b"
    assert first.wait() == LOST
    first.wait_log("stepping_down", rf"asked to resign, by \S+@{re.escape(socket.gethostname())}$")
    first.wait_log("released", "lock$")
    assert second.running
    assert REQUEST not in fleet.lease()["metadata"].get("annotations", {})
    fleet.witness.check(terms=2)


@pytest.mark.parametrize("lock", LOCKS)
def test_each_kind_of_lock_can_be_resigned_with_the_printed_role(  # noqa: PLR0917
    own_plane: ControlPlane, namespace: str, processes: Processes, witness: Witness, ask: Ask, lock: str
) -> None:
    place = Place(own_plane, namespace, lock)
    kind = "lease" if lock == COORDINATED else lock
    user = own_plane.new_bare_user()
    own_plane.grant(user, namespace, role_rules(request_permissions(kind, "x")))
    fleet = Fleet(own_plane, namespace, processes, witness)
    leader = fleet.start("a", *place.options, does=SLOW, kubeconfig=place.kubeconfig(), timings=PATIENT)
    fleet.witness.wait_descendant()
    asked = ask("resign", f"--lock={kind}", user=user)
    assert asked.wait() == 0, asked.err
    assert leader.wait() == LOST
    leader.wait_log("released", "lock$")
    writes = [each for each in own_plane.audit_requests(user) if each["verb"] not in {"get", "watch"}]
    assert {each["verb"] for each in writes} == {"update"}
    assert len([each for each in writes if each["responseStatus"]["code"] == 200]) == 1
    if lock == COORDINATED:
        path_ = path("coordination.k8s.io/v1beta1", "LeaseCandidate", namespace, "a")
        assert own_plane.api.find(path_) is None, "else it is named again at once"
    witness.check(terms=1)


def test_a_resigned_leader_with_on_loss_wait_contends_again_after_others(fleet: Fleet, ask: Ask) -> None:
    leader = fleet.start("a", "--on-loss=wait")
    fleet.witness.wait_start()
    began = time.monotonic()
    assert ask("resign").wait() == 0
    leader.wait_log("standing_aside", " for 5s, so that another candidate can lead")
    again = fleet.witness.wait_start(2)
    assert again.identity == "a"
    assert time.monotonic() - began >= DURATION
    fleet.witness.check(terms=2)


def test_a_resigned_coordinated_candidate_registers_again_only_when_it_contends(
    own_plane: ControlPlane, fleet: Fleet, ask: Ask
) -> None:
    """Else the control plane would name it again at once."""
    place = Place(own_plane, fleet.namespace, COORDINATED)
    candidate = path("coordination.k8s.io/v1beta1", "LeaseCandidate", fleet.namespace, "a")
    leader = fleet.start("a", *place.options, "--on-loss=wait", kubeconfig=place.kubeconfig())
    fleet.witness.wait_start()
    began = time.monotonic()
    assert ask("resign").wait() == 0
    leader.wait_log("standing_aside")
    assert own_plane.api.find(candidate) is None
    assert fleet.witness.wait_start(2).identity == "a"
    assert time.monotonic() - began >= DURATION
    assert own_plane.api.find(candidate)
    leader.signal(signal.SIGTERM)
    assert leader.wait() == 0
    assert own_plane.api.find(candidate) is None
    fleet.witness.check(terms=2)


def test_leader_with_no_release_resigns_when_asked(fleet: Fleet, ask: Ask) -> None:
    leader = fleet.start("a", "--no-release", timings=PATIENT)
    fleet.witness.wait_start()
    asked = ask("resign")
    assert asked.wait() == 0
    assert asked.out.startswith(f"{NAME} a has released the lock, after ")
    assert asked.err.endswith("kleader: no candidate has taken the lock yet\n")
    assert leader.wait() == LOST
    assert fleet.spec()["holderIdentity"] == ""


def test_a_request_for_another_term_or_another_holder_is_ignored_and_removed(fleet: Fleet, ask: Ask) -> None:
    leader = fleet.start("a", timings=PATIENT)
    fleet.witness.wait_start()
    incarnation = fleet.lease()["metadata"]["annotations"][INCARNATION]
    for request in (
        {"action": "resign", "holder": "a", "incarnation": "0" * 32},
        {"action": "resign", "holder": "b", "incarnation": incarnation},
        {"action": "transfer", "holder": "a", "incarnation": "0" * 32, "to": "b"},
        {"action": "transfer", "holder": "a", "incarnation": incarnation, "to": "a"},
        {"action": "stop", "holder": "a", "incarnation": incarnation},
    ):
        leave(fleet, **request)
        fleet.plane.api.wait(
            fleet.path, lambda seen: seen and REQUEST not in seen["metadata"]["annotations"], "the next renewal"
        )
    assert leader.running
    assert "giving up" not in leader.err
    assert ask("resign").wait() == 0
    fleet.witness.check(terms=1)


def test_a_replacement_elector_meets_the_request_to_its_predecessor(fleet: Fleet, ask: Ask) -> None:
    leader = fleet.start("a", "--stop-timeout=600s", does=("--ignore-term",), timings=PATIENT)
    term = fleet.witness.wait_start()
    asked = ask("resign")
    leader.wait_log("command_stopping")
    os.kill(elector(leader), signal.SIGKILL)
    leader.wait_log("elector_replaced")
    fleet.wait_renewals()
    os.kill(term.main.pid, signal.SIGKILL)
    assert asked.wait() == 0
    assert leader.wait() == LOST
    fleet.witness.check(terms=1)


def test_resign_exits_with_1_if_the_command_does_not_stop_in_time(fleet: Fleet, ask: Ask) -> None:
    fleet.start("a", "--stop-timeout=600s", does=("--ignore-term",), timings=PATIENT)
    fleet.witness.wait_start()
    asked = ask("resign", "--timeout=5s")
    assert asked.wait() == NOT_DONE
    assert asked.err.endswith("kleader: error: a has not resigned within 5s\n")


def test_resign_without_a_leader_sends_no_request(fleet: Fleet, ask: Ask) -> None:
    absent = ask("resign")
    missing = f"kleader: error: there is no lease lock x in the namespace {fleet.namespace}\n"
    assert (absent.wait(), absent.err) == (NOT_DONE, missing)
    fleet.plane.api.create(lease(fleet.namespace, "x", ""))
    free = ask("resign")
    assert (free.wait(), free.out) == (0, f"{NAME} free\n")


def test_the_answer_is_printed_in_the_requested_format(fleet: Fleet, ask: Ask) -> None:
    fleet.plane.api.create(lease(fleet.namespace, "x", ""))
    found = json.loads(_out(ask("resign", "-ojson")))
    assert (found["kind"], found["event"], found["lock"]["state"]) == ("LockChange", "present", "free")
    assert "event: present\n" in _out(ask("resign", "-oyaml"))
    assert _out(ask("resign", "-oname")) == f"{NAME}\n"


def _out(process: Any) -> str:  # noqa: ANN401
    assert process.wait() == 0, process.err
    text: str = process.out
    return text


# --- who cannot be asked


def test_a_client_go_leader_is_refused_and_not_written_to(
    fleet: Fleet, ask: Ask, processes: Processes, clientgo: Callable[..., list[str]]
) -> None:
    config = fleet.plane.kubeconfig(namespace=fleet.namespace)
    processes.start(clientgo(config, fleet.namespace, "x", "foreign", fleet.witness.command(), retry_period="1s"))
    fleet.witness.wait_start()
    for command in (("resign",), ("transfer", "--to=b")):
        asked = ask(*command)
        assert asked.wait() == NOT_DONE
        assert "held by foreign, which is not run by kleader and ignores requests" in asked.err
    forced = ask("resign", "--force", "--yes")
    assert forced.wait() == NOT_DONE
    assert "foreign is alive, because it has just written the lock: end its process" in forced.err
    assert fleet.spec()["holderIdentity"] == "foreign"
    now = ask("resign", "--force", "--now", "--yes")
    assert now.wait() == 0, now.err
    assert "if foreign is alive, it continues until it notices" in now.err
    assert now.out == f"{NAME} cleared: foreign held it\n"


def test_client_go_leader_that_kept_the_annotations_of_kleader_is_recognised(
    fleet: Fleet, ask: Ask, processes: Processes, clientgo: Callable[..., list[str]]
) -> None:
    """Though it keeps the incarnation, like all annotations."""
    leader = fleet.start("a")
    fleet.witness.wait_start()
    kill_whole(leader)
    config = fleet.plane.kubeconfig(namespace=fleet.namespace)
    timings = {"lease_duration": "5s", "renew_deadline": "3s", "retry_period": "1s"}
    processes.start(clientgo(config, fleet.namespace, "x", "foreign", fleet.witness.command(), **timings))
    fleet.witness.wait_start(2)
    assert INCARNATION in fleet.lease()["metadata"]["annotations"]
    asked = ask("resign")
    assert asked.wait() == NOT_DONE
    assert "held by foreign, written by current, which is not run by kleader and ignores requests" in asked.err
    assert REQUEST not in fleet.lease()["metadata"]["annotations"]
    fleet.witness.check(terms=2)


def test_force_clears_a_dead_leaders_lock_after_its_lease_duration(fleet: Fleet, ask: Ask) -> None:
    leader = fleet.start("a")
    fleet.witness.wait_start()
    fleet.wait_renewals()
    kill_whole(leader)
    began = time.monotonic()
    asked, forced = ask("resign"), ask("resign", "--force", "--yes")
    assert forced.wait() == 0, forced.err
    assert time.monotonic() - began >= DURATION
    assert "once it was observed unchanged for 5s" in forced.err
    assert asked.wait() in {0, NOT_DONE}
    spec = fleet.spec()
    assert (spec["holderIdentity"], spec["leaseDurationSeconds"]) == ("", 1)
    assert INCARNATION not in fleet.lease()["metadata"].get("annotations", {})
    fleet.witness.check(terms=1)


def test_force_does_not_clear_a_living_leader(fleet: Fleet, ask: Ask) -> None:
    fleet.start("a", timings=PATIENT)
    fleet.witness.wait_start()
    forced = ask("resign", "--force", "--yes")
    assert forced.wait() == NOT_DONE
    assert "a is alive, because it has just written the lock: ask it without --force" in forced.err
    assert fleet.spec()["holderIdentity"] == "a"


@pytest.mark.parametrize("kind", ["lease", "configmap", "endpoints"])
def test_force_clears_only_the_dead_holder_of_another_program(
    plane: Plane, namespace: str, ask: Ask, kind: str
) -> None:
    body = {
        "lease": lease(namespace, "x", "stranger", 1, leaseTransitions=7),
        "configmap": config_map(namespace, "x", record("stranger", 1, leaderTransitions=7), data={"a": "b"}),
        "endpoints": endpoints(namespace, "x", record("stranger", 1, leaderTransitions=7)),
    }[kind]
    made = plane.api.create(body)
    forced = ask("resign", f"--lock={kind}", "--force", "--yes")
    assert forced.wait() == 0, forced.err
    place = Place(plane, namespace, kind)
    entry = place.entry()
    assert entry
    assert (entry.holder, entry.duration, entry.transitions) == ("", 1, 7)
    assert place.objects()[0].get("data") == made.get("data")


@pytest.mark.parametrize("text", ["{", json.dumps({"holderIdentity": "x", "leaseDurationSeconds": -3})])
def test_force_clears_a_malformed_record(plane: Plane, namespace: str, ask: Ask, text: str) -> None:
    body = config_map(namespace, "x", data={"a": "b"})
    body["metadata"]["annotations"] = {LEADER: text, "other": "stays"}
    plane.api.create(body)
    asked = ask("resign", "--lock=configmap")
    assert asked.wait() == NOT_DONE
    assert "kleader resign --force clears it" in asked.err
    forced = ask("resign", "--lock=configmap", "--force", "--now", "--yes")
    assert forced.wait() == 0, forced.err
    place = Place(plane, namespace, "configmap")
    entry = place.entry()
    assert entry
    assert (entry.holder, entry.duration) == ("", 1)
    assert place.objects()[0]["metadata"]["annotations"]["other"] == "stays"


def test_force_leaves_a_malformed_record_that_is_still_being_written(plane: Plane, namespace: str, ask: Ask) -> None:
    """Though what is wrong with it stays the same."""
    body = config_map(namespace, "x")
    body["metadata"]["annotations"] = {LEADER: '{"holderIdentity":"x","leaseDurationSeconds":-3}'}
    made = plane.api.create(body)
    forced = ask("resign", "--lock=configmap", "--force", "--yes")
    forced.wait_err("once it was observed unchanged for 15s")
    text = '{"holderIdentity":"x","leaseDurationSeconds":-3,"renewTime":"2026-11-21T12:00:00Z"}'
    where = path("v1", "ConfigMap", namespace, "x")
    plane.api.merge(where, {"metadata": {"annotations": {LEADER: text}}})
    assert forced.wait() == NOT_DONE
    assert plane.api.get(where)["metadata"]["annotations"] == {LEADER: text}
    assert made["metadata"]["resourceVersion"] != plane.api.get(where)["metadata"]["resourceVersion"]


def test_force_without_a_terminal_requires_yes(fleet: Fleet, ask: Ask) -> None:
    fleet.plane.api.create(lease(fleet.namespace, "x", "stranger", 1))
    for options in (("--force",), ("--force", "--now"), ("--now",), ("--yes",)):
        asked = ask("resign", *options)
        assert asked.wait() == USAGE, options
    assert fleet.spec()["holderIdentity"] == "stranger"


def test_a_leader_for_life_releases_its_lock_when_asked_to_resign(  # noqa: PLR0917
    own_plane: ControlPlane,
    namespace: str,
    processes: Processes,
    witness: Witness,
    for_life: Callable[..., list[str]],
    ask: Ask,
) -> None:
    crew = Crew(own_plane, namespace, processes, witness, for_life)
    first = crew.kleader("a", does=SLOW)
    witness.wait_descendant()
    crew.kleader("b")
    for options, said in (
        (("transfer", "--to=b"), "use kleader resign"),
        (("resign", "--force", "--yes"), "does not expire"),
    ):
        refused = ask(*options, f"--lock={LOCK}")
        assert refused.wait() == NOT_DONE
        assert said in refused.err
    asked = ask("resign", f"--lock={LOCK}")
    assert asked.wait() == 0, asked.err
    assert first.wait() == LOST
    assert witness.wait_start(2).identity == "b"
    witness.check(terms=2)


@pytest.mark.parametrize(("answer", "status"), [("n\n", NOT_DONE), ("y\n", 0)])
def test_on_a_terminal_force_asks_before_it_acts(
    plane: Plane, namespace: str, processes: Processes, answer: str, status: int
) -> None:
    plane.api.create(lease(namespace, "x", "stranger", 1))
    master, slave = pty.openpty()
    config = plane.kubeconfig(namespace=namespace)
    argv = [sys.executable, "-m", "kleader", "resign", "x", "--force", f"--kubeconfig={config}"]
    asked = processes.start(argv, name="resign", stdin=slave)
    asked.wait_err(r"continue\? \[y/N\]")
    os.write(master, answer.encode())
    assert asked.wait() == status
    holder = plane.api.get(path("coordination.k8s.io/v1", "Lease", namespace, "x"))["spec"]["holderIdentity"]
    assert holder == ("" if status == 0 else "stranger")
    os.close(master)
    os.close(slave)


def behind(agent: str, *, without: str = "") -> Action:
    """Have the API server see this User-Agent, and nothing of the request's target that matches ``without``."""

    async def act(exchange: Exchange) -> None:
        request = exchange.request
        path = re.sub(without, "", request.path) if without else request.path
        exchange.request = replace(request, path=path, headers={**request.headers, "user-agent": agent})
        await exchange.relay()

    return act


@pytest.mark.parametrize(
    "on_the_way",
    [behind("envoy/1.36"), behind("kleader", without="[?&]fieldManager=[^&]*")],
    ids=["a proxy with a User-Agent of its own", "a kleader that names itself by its User-Agent alone"],
)
def test_a_kleader_leader_is_recognised_by_its_field_manager(
    own_plane: ControlPlane, fleet: Fleet, ask: Ask, on_the_way: Action
) -> None:
    with HttpProxy(own_plane) as proxy:
        proxy.on(on_the_way, times=None)
        leader = fleet.start("a", server=proxy.url, timings=PATIENT)
        fleet.witness.wait_start()
        fleet.wait_renewals()
        assert {each["manager"] for each in fleet.lease()["metadata"]["managedFields"]} == {"kleader"}
        asked = ask("resign")
        assert asked.wait() == 0, asked.err
        assert leader.wait() == LOST
        leader.wait_log("released", "lock$")
