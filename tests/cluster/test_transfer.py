"""`kleader transfer`: the lock goes from one leader to the named candidate, and no other holds it in between."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from kleader.locks.rbac import request_permissions, role_rules
from kleader.locks.run_history import LAST_ENDED, LAST_RUN
from tests.cluster.asking import GIVEN, INCARNATION, NOT_DONE, REQUEST, USAGE, asker
from tests.cluster.contract import COORDINATED, OBJECTS, Place, entry_of
from tests.cluster.fleet import DURATION, LOST, PATIENT, Fleet, History, elector, health, kill_whole
from tests.support import faults
from tests.support.httpproxy import HttpProxy

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from typing import Any

    from tests.cluster.asking import Ask
    from tests.support.checker import Witness
    from tests.support.controlplane import ControlPlane
    from tests.support.plane import Plane
    from tests.support.processes import Processes

SLOW = ("--term-delay=0.3", "--descendant")
NAME = "lease.coordination.k8s.io/x"
NOT_ACQUIRED = 124
GO = {"lease_duration": "5s", "renew_deadline": "3s", "retry_period": "1s"}


@pytest.fixture
def ask(plane: Plane, namespace: str, processes: Processes) -> Ask:
    return asker(plane, namespace, processes)


def holders(history: History) -> list[tuple[str, int]]:
    """Each holder that the Lease has shown, with the transitions, once for each time in a row."""
    shown = [(seen["spec"].get("holderIdentity") or "", seen["spec"]["leaseTransitions"]) for _, seen in history.states]
    return [each for i, each in enumerate(shown) if i == 0 or shown[i - 1] != each]


def test_transfer_gives_the_lock_to_the_named_candidate_alone(fleet: Fleet, ask: Ask) -> None:
    """Though others wait, too; what the old leader started was dead before, and the lock was never free."""
    first = fleet.start("a", does=SLOW, timings=PATIENT)
    fleet.witness.wait_descendant()
    for other in ("b", "c", "d"):
        fleet.waiting(other, behind="a", timings=PATIENT)
    fleet.wait_registered("c")
    history = History(fleet)
    asked = ask("transfer", "--to=c")
    assert asked.wait() == 0, asked.err
    assert asked.out.startswith(f"{NAME} c leads, ")
    assert asked.err.splitlines()[0] == "kleader: asked a to hand the lock to c"
    term = fleet.witness.wait_start(2)
    assert term.identity == "c"
    assert first.wait() == LOST
    first.wait_log("released", ": c leads next$")
    fleet.wait_renewals()
    assert holders(history) == [("a", 0), ("c", 1)]
    given = next(seen for _, seen in history.states if GIVEN in seen["metadata"]["annotations"])
    assert INCARNATION not in given["metadata"]["annotations"]
    assert given["spec"]["acquireTime"] == given["spec"]["renewTime"]
    assert fleet.lease()["metadata"]["annotations"].keys() == {INCARNATION, LAST_RUN, LAST_ENDED}
    assert ask("transfer", "--to=c").wait() == NOT_DONE, "it leads already"
    fleet.witness.check(terms=2)


@pytest.mark.parametrize("registration", ["on", "off", "forbidden"])
def test_transfer_to_an_unknown_candidate_is_refused_before_the_leader_stops(
    own_plane: ControlPlane, fleet: Fleet, ask: Ask, registration: str
) -> None:
    """Also where it cannot be checked: for want of a list, or of the permission to read it."""
    leader = fleet.start("a", timings=PATIENT)
    fleet.witness.wait_start()
    user = "admin"
    if registration == "on":
        fleet.registered("beat-1", behind="a", timings=PATIENT)
        said = "no candidate beat-l is registered; ready: beat-1; candidates of client-go and those with --no-register"
    elif registration == "off":
        fleet.waiting("beat-1", "--no-register", behind="a", timings=PATIENT)
        said = "no candidate beat-l is registered; ready: none; "
    else:
        fleet.waiting("beat-1", behind="a", timings=PATIENT)
        user = own_plane.new_bare_user()
        own_plane.grant(user, fleet.namespace, role_rules(request_permissions("lease", "x")))
        said = "it is not known which candidates wait: "
    refused = ask("transfer", "--to=beat-l", user=user)
    assert refused.wait() == NOT_DONE
    assert said in refused.err
    assert refused.err.endswith("--to IDENTITY --force hands the lock over without this check\n")
    best = ask("transfer", user=user)
    if registration == "on":
        assert best.wait() == 0, best.err
    else:
        assert best.wait() == NOT_DONE
        assert leader.running
        assert REQUEST not in fleet.lease()["metadata"]["annotations"]
        assert ask("transfer", "--to=beat-1", "--force", user=user).wait() == 0
    assert fleet.witness.wait_start(2).identity == "beat-1"
    fleet.witness.check(terms=2)


def test_transfer_without_a_name_takes_the_best_standby_and_refuses_an_unhealthy_one(
    fleet: Fleet, ask: Ask, well: Path
) -> None:
    fleet.start("a", does=SLOW, timings=PATIENT)
    fleet.witness.wait_descendant()
    fleet.registered("early", behind="a", timings=PATIENT)
    fleet.registered("best_1", "--priority=1", behind="a", timings=PATIENT)
    sick = fleet.registered("sick", "--priority=2", *health(well), behind="a", timings=PATIENT)
    well.unlink()
    sick.wait_log("unhealthy")
    fleet.wait_registered("sick", state="unhealthy")
    sick_now = ask("transfer", "--to=sick")
    assert sick_now.wait() == NOT_DONE
    assert "the candidate sick is unhealthy; ready: best_1, early; " in sick_now.err
    asked = ask("transfer")
    assert asked.wait() == 0, asked.err
    assert asked.err.splitlines()[0] == "kleader: asked a to hand the lock to best_1"
    assert fleet.witness.wait_start(2).identity == "best_1"
    fleet.witness.check(terms=2)


def test_completion_offers_the_candidates_that_are_ready(fleet: Fleet) -> None:
    fleet.start("a", timings=PATIENT)
    fleet.witness.wait_start()
    fleet.registered("b_1", behind="a", timings=PATIENT)
    config = fleet.plane.kubeconfig(namespace=fleet.namespace)
    words = f"kleader transfer --kubeconfig={config} x --to"
    env = {"_KLEADER_COMPLETE": "fish_complete", "COMP_WORDS": words, "COMP_CWORD": ""}
    argv = [sys.executable, "-m", "kleader"]
    done = subprocess.run(argv, env=os.environ | env, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["plain,b_1"]


@pytest.mark.parametrize("lock", [lock for lock in OBJECTS if lock != "lease"])
def test_every_record_can_be_handed_over(  # noqa: PLR0917
    plane: Plane, namespace: str, processes: Processes, witness: Witness, ask: Ask, lock: str
) -> None:
    place = Place(plane, namespace, lock)
    fleet = Fleet(plane, namespace, processes, witness)
    fleet.start("a", *place.options, does=SLOW, kubeconfig=place.kubeconfig(), timings=PATIENT)
    witness.wait_descendant()
    for other in ("b", "c"):
        fleet.waiting(other, *place.options, behind="a", kubeconfig=place.kubeconfig(), timings=PATIENT)
    asked = ask("transfer", "--force", f"--lock={lock}", "--to=c")
    assert asked.wait() == 0, asked.err
    assert witness.wait_start(2).identity == "c"
    witness.check(terms=2)


def test_a_multilock_leader_can_be_asked_on_either_object(
    plane: Plane, namespace: str, processes: Processes, witness: Witness, ask: Ask
) -> None:
    """An operator may not know that there are two."""
    place = Place(plane, namespace, "endpointsleases")
    fleet = Fleet(plane, namespace, processes, witness)
    leader = fleet.start("a", *place.options, does=SLOW, kubeconfig=place.kubeconfig())
    witness.wait_descendant()
    fleet.waiting("b", *place.options, behind="a", kubeconfig=place.kubeconfig())
    fleet.waiting("c", *place.options, behind="a", kubeconfig=place.kubeconfig())
    asked = ask("transfer", "--force", "--lock=lease", "--to=c")
    assert asked.wait() == 0, asked.err
    assert witness.wait_start(2).identity == "c"
    assert leader.wait() == LOST
    asked = ask("resign", "--lock=endpoints")
    assert asked.wait() == 0, asked.err
    assert witness.wait_start(3).identity == "b"
    assert all(REQUEST not in each["metadata"].get("annotations", {}) for each in place.objects())
    witness.check(terms=3)


CLIENT_GO = {"lease": "leases", "configmap": "configmaps", "endpointsleases": "endpointsleases"}


@pytest.mark.parametrize("lock", CLIENT_GO)
def test_client_go_candidate_acquires_a_lock_that_is_handed_to_it(  # noqa: PLR0917
    fleet: Fleet, ask: Ask, processes: Processes, clientgo: Callable[..., list[str]], plane: Plane, lock: str
) -> None:
    place = Place(plane, fleet.namespace, lock)
    fleet.start("a", *place.options, does=SLOW, kubeconfig=place.kubeconfig(), timings=PATIENT)
    fleet.witness.wait_descendant()
    fleet.waiting("b", *place.options, behind="a", kubeconfig=place.kubeconfig(), timings=PATIENT)
    config = plane.kubeconfig(namespace=fleet.namespace)
    go = clientgo(config, fleet.namespace, "x", "go", fleet.witness.command(), lock=CLIENT_GO[lock], retry_period="1s")
    processes.start(go).wait_err("new leader: a")
    asked = ask("transfer", "--force", f"--lock={lock}", "--to=go")
    assert asked.wait() == 0, asked.err
    assert fleet.witness.wait_start(2).identity == "go"
    entries = map(entry_of, place.objects())  # which it renews one after the other
    assert {entry and (entry.holder, entry.transitions) for entry in entries} == {("go", 1)}
    fleet.witness.check(terms=2)


def test_lock_handed_to_an_absent_candidate_is_free_after_one_lease_duration(fleet: Fleet, ask: Ask) -> None:
    fleet.start("a", does=SLOW)
    fleet.witness.wait_descendant()
    fleet.waiting("b", behind="a")
    asked = ask("transfer", "--force", "--to=nobody")
    assert asked.wait() == NOT_DONE
    assert asked.err.endswith("kleader: error: nobody has not taken the lock: b leads instead\n")
    term = fleet.witness.wait_start(2)
    ((_, _, gap),) = fleet.witness.handovers()
    assert term.identity == "b"
    assert gap / 1e9 >= DURATION - 0.5
    fleet.witness.check(terms=2)


def test_transfer_exits_with_1_if_the_named_candidate_is_killed_while_it_acquires(
    own_plane: ControlPlane, fleet: Fleet, ask: Ask
) -> None:
    fleet.start("a")
    fleet.witness.wait_start()
    with HttpProxy(own_plane) as proxy:
        target = fleet.waiting("c", behind="a", server=proxy.url)
        taking = proxy.on(faults.silence(), method="PUT", path="/leases/x", times=None)
        fleet.waiting("b", behind="a")
        asked = ask("transfer", "--force", "--to=c")
        taking.wait()
        kill_whole(target)
        assert asked.wait() == NOT_DONE
        assert "b leads instead" in asked.err
    assert fleet.witness.wait_start(2).identity == "b"
    fleet.witness.check(terms=2)


def test_a_standby_that_did_not_take_the_lock_is_not_chosen_again(fleet: Fleet, ask: Ask) -> None:
    """It was killed, and is listed for minutes: a second transfer would leave no leader for a lease duration again."""
    fleet.start("a", "--on-loss=wait")
    fleet.witness.wait_start()
    kill_whole(fleet.registered("b", behind="a"))
    failed = ask("transfer")
    assert failed.wait() == NOT_DONE
    assert "b has not taken the lock" in failed.err
    assert fleet.witness.wait_start(2).identity == "a"
    refused = ask("transfer")
    assert refused.wait() == NOT_DONE
    assert "no standby is registered as ready" in refused.err
    fleet.witness.check(terms=2)


@pytest.mark.parametrize("when", ["asked", "stopping", "given"])
def test_transfer_survives_the_death_of_the_elector_at_any_step(
    own_plane: ControlPlane, fleet: Fleet, ask: Ask, when: str
) -> None:
    """Before it has seen what is asked; while the command winds down; or as it names the next, without an answer."""
    with HttpProxy(own_plane) as proxy:
        timings, does = PATIENT, ("--ignore-term",)
        leader = fleet.start("a", "--stop-timeout=600s", does=does, server=proxy.url, timings=timings)
        term = fleet.witness.wait_start()
        for other in ("b", "c"):
            fleet.waiting(other, behind="a", timings=timings)
        first = elector(leader)
        renewal = proxy.on(faults.silence(), method="PUT", path="/leases/x") if when == "asked" else None
        asked = ask("transfer", "--force", "--to=c")
        if renewal:
            asked.wait_err("asked a to hand the lock to c")
            os.kill(first, signal.SIGKILL)
            renewal.remove()
        leader.wait_log("command_stopping")
        if when == "asked":
            os.kill(term.main.pid, signal.SIGKILL)
        elif when == "stopping":
            os.kill(first, signal.SIGKILL)
            leader.wait_log("elector_replaced")
            os.kill(term.main.pid, signal.SIGKILL)
        else:
            lost = proxy.on(
                faults.lose(),
                method="PUT",
                path="/leases/x",
                where=lambda put: put.json()["spec"]["holderIdentity"] == "c",
            )
            os.kill(term.main.pid, signal.SIGKILL)
            lost.wait_answered()
            os.kill(first, signal.SIGKILL)
        assert asked.wait() == 0, asked.err
        assert leader.wait() == LOST
    assert fleet.witness.wait_start(2).identity == "c"
    fleet.witness.check(terms=2)


def test_a_leader_with_on_loss_wait_does_not_take_a_transferred_lock_back(fleet: Fleet, ask: Ask) -> None:
    leader = fleet.start("a", "--on-loss=wait", does=SLOW)
    fleet.witness.wait_descendant()
    target = fleet.waiting("b", behind="a", timings=PATIENT)
    assert ask("transfer", "--force", "--to=b").wait() == 0
    fleet.witness.wait_start(2)
    leader.wait_log("leader_observed", r"is b\b")
    fleet.wait_led_beyond(DURATION)
    assert ask("transfer", "--force", "--to=a").wait() == 0, "it contends again, and can be named"
    assert fleet.witness.wait_start(3).identity == "a"
    assert target.wait() == LOST
    fleet.witness.check(terms=3)


def test_of_two_candidates_with_the_target_identity_one_leads(fleet: Fleet, ask: Ask) -> None:
    fleet.start("a", does=SLOW)
    fleet.witness.wait_descendant()
    twins = [fleet.waiting("twin", behind="a") for _ in range(2)]
    assert ask("transfer", "--force", "--to=twin").wait() == 0
    fleet.witness.wait_start(2)
    fleet.wait_led_beyond(DURATION)
    assert all(twin.running for twin in twins)
    fleet.witness.check(terms=2)


def test_a_client_go_leader_is_not_taken_for_a_kleader_of_the_same_name(
    fleet: Fleet, ask: Ask, processes: Processes, clientgo: Callable[..., list[str]]
) -> None:
    """Its writes keep every annotation: those of the transfer by which it came to lead, too."""
    fleet.start("a", does=SLOW)
    fleet.witness.wait_descendant()
    config = fleet.plane.kubeconfig(namespace=fleet.namespace)
    go = clientgo(config, fleet.namespace, "x", "go", fleet.witness.command(), **GO)
    processes.start(go).wait_err("new leader: a")
    assert ask("transfer", "--force", "--to=go").wait() == 0
    fleet.witness.wait_start(2)
    assert GIVEN in fleet.lease()["metadata"]["annotations"]
    twin = fleet.start("go", f"--wait={DURATION + 2:g}s")
    assert twin.wait() == NOT_ACQUIRED, twin.err
    assert "held by go" in twin.err
    fleet.witness.check(terms=2)


def test_impossible_transfer_is_refused_with_a_reason(own_plane: ControlPlane, fleet: Fleet, ask: Ask) -> None:
    for to in ("", " ", "leaderelection.k8s.io/unknown"):
        assert ask("transfer", f"--to={to}").wait() == USAGE
    assert ask("transfer", "--force").wait() == USAGE
    place = Place(own_plane, fleet.namespace, COORDINATED)
    fleet.start("a", *place.options, kubeconfig=place.kubeconfig())
    fleet.witness.wait_start()
    refused = ask("transfer", "--force", "--to=b")
    assert refused.wait() == NOT_DONE
    assert "the control plane chooses the leader of the lock x: use kleader resign" in refused.err
    assert REQUEST not in fleet.lease()["metadata"]["annotations"]


def test_an_operators_request_that_cannot_be_met_is_ignored(own_plane: ControlPlane, fleet: Fleet) -> None:
    place = Place(own_plane, fleet.namespace, COORDINATED)
    leader = fleet.start("a", *place.options, kubeconfig=place.kubeconfig())
    fleet.witness.wait_start()
    incarnation = fleet.lease()["metadata"]["annotations"][INCARNATION]
    request: dict[str, Any] = {"action": "transfer", "holder": "a", "incarnation": incarnation, "to": "b"}
    fleet.plane.api.merge(fleet.path, {"metadata": {"annotations": {REQUEST: json.dumps(request)}}})
    leader.wait_log("request_ignored", "the control plane names the next leader")
    fleet.wait_renewals()
    assert REQUEST not in fleet.lease()["metadata"]["annotations"]
    assert leader.running
