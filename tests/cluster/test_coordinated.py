"""Coordinated election (KEP-4355): the real control plane names, and kleader leads when all before must have ended."""

from __future__ import annotations

import os
import random
import signal
import struct
import sys
import time
from typing import TYPE_CHECKING, Any

import pytest

from kleader.election.record import micro_time, parse_time
from kleader.locks.rbac import lock_permissions, role_rules
from tests.cluster.fleet import DEFAULTS, LOST, Fleet, History, elector, kill_whole
from tests.support import faults, wall_clock
from tests.support.api import path
from tests.support.checker import Witness
from tests.support.httpproxy import HttpProxy
from tests.support.objects import lease_candidate
from tests.support.processes import PATIENCE, wait_until

if TYPE_CHECKING:
    from pathlib import Path

    from tests.conftest import Trials
    from tests.support.api import Object
    from tests.support.controlplane import ControlPlane
    from tests.support.processes import Process, Processes

ANSWERED = 5.0  # seconds for which the control plane takes a sign of life for one
FAILED = 125
WHIMS = 12
BETA = "coordination.k8s.io/v1beta1"


class Coordinated:
    """Candidates for one Lease, all as one user who may do exactly what is needed."""

    def __init__(self, fleet: Fleet, plane: ControlPlane) -> None:
        self.fleet, self.witness, self.plane = fleet, fleet.witness, plane
        self.processes: dict[str, Process] = {}
        self.user = plane.new_bare_user()
        plane.grant(self.user, fleet.namespace, role_rules(lock_permissions("lease", fleet.name, candidate="")))

    def start(self, identity: str, version: str = "1.36.0", *options: str, **more: Any) -> Process:  # noqa: ANN401
        """Start one of this version: the older leads, and of two alike the one that was there first, by seconds."""
        config = self.plane.kubeconfig(self.user, self.fleet.namespace, server=more.pop("server", None))
        versions = ("--coordinated", f"--binary-version={version}")
        self.processes[identity] = self.fleet.start(identity, *versions, *options, kubeconfig=config, **more)
        return self.processes[identity]

    def candidate(self, identity: str) -> Object | None:
        """Its LeaseCandidate."""
        return self.plane.api.find(path(BETA, "LeaseCandidate", self.fleet.namespace, identity))

    def registered(self, *identities: str) -> None:
        """Return once all of these are candidates."""
        wait_until(lambda: all(map(self.candidate, identities)), f"the LeaseCandidates {identities}")

    def leads(self, number: int, identity: str, timeout: float = PATIENCE) -> None:
        """Return once this one's command has started, which is the so many-th term."""
        assert self.witness.wait_start(number, timeout).identity == identity, self.witness.story()


@pytest.fixture
def coordinated(fleet: Fleet, own_plane: ControlPlane) -> Coordinated:
    return Coordinated(fleet, own_plane)


# --- who leads


def test_of_three_versions_the_oldest_leads_in_the_end(coordinated: Coordinated, trials: Trials) -> None:
    """The worst comes first."""
    for number, (identity, version) in enumerate((("new", "1.36.0"), ("mid", "1.35.0"), ("old", "1.34.2")), 1):
        coordinated.start(identity, version, "--on-loss=wait", does=("--term-delay=0.2",))
        coordinated.registered(identity)
        if number == 1:
            coordinated.leads(1, "new")
    wait_until(lambda: coordinated.witness.terms()[-1].identity == "old", "the oldest leading")
    spec = coordinated.fleet.wait_spec("its term", holderIdentity="old")
    terms = coordinated.witness.terms()
    assert spec["strategy"] == "OldestEmulationVersion"
    assert spec["leaseTransitions"] >= len(terms), "a term may end before its command has written a line"
    assert spec["acquireTime"]
    coordinated.witness.check()
    trials.count(len(terms) - 1, "coordinated handovers to a better candidate")


def test_the_emulation_version_counts_before_the_binary_version(coordinated: Coordinated) -> None:
    coordinated.start("plain", "1.35.0", "--on-loss=wait")
    coordinated.leads(1, "plain")
    coordinated.start("emulating", "1.36.0", "--emulation-version=1.34.0")
    coordinated.leads(2, "emulating")
    coordinated.witness.check(terms=2)


def test_candidate_nominated_by_a_foreign_strategy_controller_leads(coordinated: Coordinated) -> None:
    """The control plane creates the Lease, and nominates no candidate."""
    strategy = "example.com/by-hand"
    for identity in ("a", "b"):
        coordinated.start(identity, "1.36.0", f"--coordinated-strategy={strategy}")
    coordinated.registered("a", "b")
    api, fleet = coordinated.plane.api, coordinated.fleet
    assert [coordinated.candidate(each)["spec"]["strategy"] for each in "ab"] == [strategy] * 2  # type: ignore[index]
    api.wait(fleet.path, lambda seen: seen and seen["spec"].get("strategy") == strategy, "the Lease of that strategy")
    assert not fleet.spec().get("holderIdentity")
    renewed = micro_time(time.time_ns() // 1000)
    api.merge(fleet.path, {"spec": {"holderIdentity": "b", "leaseDurationSeconds": 15, "renewTime": renewed}})
    coordinated.leads(1, "b")
    assert fleet.wait_spec("its own write", holderIdentity="b", strategy=strategy)
    coordinated.witness.check(terms=1)


def test_a_leader_steps_down_for_a_better_candidate(coordinated: Coordinated) -> None:
    """The command is asked to stop and has the time that it needs; then the lock is released, and the better leads."""
    worse = coordinated.start("worse", "1.36.0", does=("--term-delay=2",))
    coordinated.leads(1, "worse")
    assert not worse.logged("waiting_for_previous_leader"), "nobody has held the lock before"
    coordinated.start("better", "1.35.0")
    assert worse.wait() == LOST
    assert worse.logged("stepping_down", "the control plane prefers better as the leader")
    assert worse.logged("released")
    assert not worse.logged("command_killed")
    coordinated.leads(2, "better")
    (first, second, gap) = coordinated.witness.handovers()[0]
    assert (first.identity, second.identity) == ("worse", "better")
    assert 0 < gap < 5e9, coordinated.witness.story()
    assert coordinated.candidate("worse") is None
    coordinated.witness.check(terms=2)


def test_leader_replaced_by_a_better_candidate_stays_a_candidate(coordinated: Coordinated) -> None:
    """With --on-loss wait: when the better one goes, it leads again."""
    coordinated.start("worse", "1.36.0", "--on-loss=wait")
    coordinated.leads(1, "worse")
    better = coordinated.start("better", "1.35.0")
    coordinated.leads(2, "better")
    coordinated.registered("worse")
    better.signal(signal.SIGTERM)
    coordinated.leads(3, "worse")
    assert better.wait() == 0
    coordinated.witness.check(terms=3)


# --- how it ends


def test_a_leader_that_ends_deletes_its_leasecandidate_before_the_release(coordinated: Coordinated) -> None:
    leader = coordinated.start("first", "1.35.0")
    coordinated.leads(1, "first")
    history = History(coordinated.fleet)
    coordinated.start("second")
    coordinated.registered("second")
    leader.signal(signal.SIGTERM)
    assert leader.wait() == 0
    coordinated.leads(2, "second")
    assert coordinated.candidate("first") is None
    holders = [seen["spec"]["holderIdentity"] for _, seen in history.states]
    assert "first" not in holders[holders.index("") :]
    coordinated.witness.check(terms=2)


def test_a_candidate_that_ends_deletes_its_leasecandidate(coordinated: Coordinated) -> None:
    coordinated.start("leader", "1.35.0")
    coordinated.leads(1, "leader")
    ending = coordinated.start("ending")
    giving_up = coordinated.start("giving-up", "1.36.0", "--wait=12s")
    coordinated.registered("giving-up")
    coordinated.registered("ending")
    ending.signal(signal.SIGTERM)
    assert ending.wait() == 128 + signal.SIGTERM
    assert giving_up.wait() == 124
    assert "held by leader" in giving_up.err
    assert [coordinated.candidate(each) for each in ("ending", "giving-up")] == [None, None]
    assert coordinated.candidate("leader")


@pytest.mark.timeout(360)
@pytest.mark.parametrize("just_now", [False, True], ids=["long ago", "just now"])
def test_a_crashed_candidate_that_is_still_registered_does_not_delay_a_handover_for_long(
    coordinated: Coordinated, trials: Trials, *, just_now: bool
) -> None:
    """It would be preferred to who is left, and is asked for a sign of life, for 5 s.

    One that has just given one may be named, for 5 s: the command ends at once, and leaves no time to ask before.
    """
    leader = coordinated.start("leader", "1.34.0")
    coordinated.leads(1, "leader")
    coordinated.start("survivor", "1.36.0")
    crashed = coordinated.start("crashed", "1.35.0")
    coordinated.registered("survivor", "crashed")
    kill_whole(crashed)
    registered = coordinated.candidate("crashed")
    assert registered
    renewed = parse_time(registered["spec"]["renewTime"]) / 1e6
    wait_until(lambda: just_now or time.time() > renewed + ANSWERED, "the end of its last sign of life")
    leader.signal(signal.SIGTERM)
    leader.wait()
    coordinated.leads(2, "survivor")
    (_, _, gap) = coordinated.witness.handovers()[0]
    assert gap < PATIENCE * 1e9, coordinated.witness.story()  # it is forgotten by itself after half an hour
    coordinated.witness.check(terms=2)
    trials.count(1, "handovers past a crashed candidate")


# --- an elector that replaces another


def test_a_leaders_replacement_elector_reads_the_lock_before_it_registers(
    coordinated: Coordinated, own_plane: ControlPlane
) -> None:
    """Another has the lock: the command, which does not mind being asked, is killed without grace."""
    with HttpProxy(own_plane) as proxy:
        leader = coordinated.start("leader", server=proxy.url, timings=DEFAULTS, does=("--ignore-term",))
        coordinated.leads(1, "leader")
        proxy.on(faults.silence(), path="/leasecandidates", times=None)
        leader.signal(signal.SIGSTOP)
        os.kill(elector(leader), signal.SIGKILL)
        coordinated.fleet.edit(holderIdentity="other")
        leader.signal(signal.SIGCONT)
        assert leader.wait() == LOST
    assert leader.logged("lost", "the lock is held by other")
    assert not leader.logged("command_stopping")
    coordinated.witness.check(terms=1)


# --- a control plane that is wrong

LAGGING = ("--lease-duration=6s", "--renew-deadline=3s", "--retry-period=2s")  # a renewTime gains 1 s in 2 s


@pytest.mark.timeout(360)
def test_a_leader_with_a_slow_clock_is_replaced_without_an_overlap(
    coordinated: Coordinated, tmp_path: Path, trials: Trials
) -> None:
    """It is taken for dead, and another is named over it: that one waits until it has seen no sign of it for so long.

    The leader's command and its descendant do not mind being asked to stop.
    """
    wall = tmp_path / "wall"
    wall.write_bytes(struct.pack("d", -20))
    slow = coordinated.start(
        *("slow", "1.36.0"),
        timings=LAGGING,
        does=("--ignore-term", "--descendant"),
        prefix=[sys.executable, wall_clock.__file__],
        env={"WALL": str(wall)},
    )
    coordinated.leads(1, "slow")
    slow.wait_err("this machine's clock is 20s behind the API server's")

    def expired() -> bool:
        spec = coordinated.fleet.spec()
        ends: float = parse_time(spec["renewTime"]) / 1e6 + spec["leaseDurationSeconds"]
        return ends < time.time()

    wait_until(expired, "a renewal that is too old by the control plane's clock")
    history = History(coordinated.fleet)
    coordinated.start("better", "1.35.0", timings=LAGGING)
    assert slow.wait() == LOST
    assert slow.logged("lost", "the lock is held by better")
    coordinated.leads(2, "better")
    coordinated.witness.check(terms=2)
    assert coordinated.processes["better"].logged("waiting_for_previous_leader")
    holders = list(dict.fromkeys(seen["spec"].get("holderIdentity", "") for _, seen in history.states))
    assert holders == ["slow", "better"]
    trials.count(1, "leaders replaced alive by the control plane")


@pytest.mark.timeout(540)
def test_no_two_commands_run_whichever_candidate_the_control_plane_nominates(
    coordinated: Coordinated, trials: Trials
) -> None:
    """Often over a living leader, or before the nominated one has begun; the commands ignore SIGTERM."""
    names = ("a", "b", "c")
    for number, identity in enumerate(names):
        coordinated.start(identity, f"1.36.{number}", "--on-loss=wait", does=("--ignore-term", "--descendant"))
    coordinated.registered(*names)
    coordinated.witness.wait_start(1)
    draw = random.Random(4355)  # noqa: S311 - whims

    def name(identity: str) -> None:
        renewed = micro_time(time.time_ns() // 1000)
        naming = {"holderIdentity": identity, "acquireTime": None, "renewTime": renewed, "leaseDurationSeconds": 5}
        coordinated.fleet.edit(**naming, preferredHolder=None)

    for _ in range(WHIMS):
        name(draw.choice(names))
        coordinated.fleet.wait_renewals(draw.randrange(1, 4))
    led = len(coordinated.witness.terms())
    name("c")
    coordinated.witness.wait_start(led + 1)
    coordinated.witness.check()
    trials.count(WHIMS + 1, "leaders named over living ones")


@pytest.mark.timeout(360)
def test_two_candidates_with_one_identity_never_lead_at_once(coordinated: Coordinated) -> None:
    """The control plane cannot tell them apart; the second waits a lease duration after the first has crashed."""
    first = coordinated.start("twin")
    coordinated.leads(1, "twin")
    known = coordinated.candidate("twin")
    coordinated.start("twin")
    wait_until(lambda: coordinated.candidate("twin") != known, "the second's sign of life")
    coordinated.fleet.wait_renewals(3)
    kill_whole(first)
    coordinated.leads(2, "twin")
    coordinated.witness.check(terms=2)


def test_identity_used_for_two_locks_is_reported(coordinated: Coordinated, own_plane: ControlPlane) -> None:
    own_plane.api.create(lease_candidate(coordinated.fleet.namespace, "me", "another"))
    process = coordinated.start("me", "1.36.0", "--wait=10s")
    assert process.wait() == FAILED
    assert "/me belongs to the lock another: give another --identity" in process.err
    assert coordinated.candidate("me")


def test_a_killed_elector_ends_neither_the_term_nor_the_candidacy(coordinated: Coordinated) -> None:
    leader = coordinated.start("leader")
    coordinated.leads(1, "leader")
    os.kill(elector(leader), signal.SIGKILL)
    leader.wait_log("elector_replaced")
    coordinated.fleet.wait_renewals(2)
    known = coordinated.candidate("leader")
    assert known
    pinged = micro_time(time.time_ns() // 1000)
    where = path(BETA, "LeaseCandidate", coordinated.fleet.namespace, "leader")
    coordinated.plane.api.merge(where, {"spec": {"pingTime": pinged}})
    coordinated.plane.api.wait(where, lambda seen: seen and seen["spec"]["renewTime"] >= pinged, "a sign of life")
    leader.signal(signal.SIGTERM)
    assert leader.wait() == 0
    assert coordinated.candidate("leader") is None
    coordinated.witness.check(terms=1)


def test_a_leader_whose_lease_is_deleted_leads_on(coordinated: Coordinated) -> None:
    """The control plane recreates it for the best candidate, which is the leader."""
    leader = coordinated.start("leader")
    coordinated.leads(1, "leader")
    coordinated.start("other", "1.37.0").wait_log("leader_observed", r"is leader\b")
    before = coordinated.fleet.spec()
    for _ in range(3):
        coordinated.plane.api.delete(coordinated.fleet.path)
        coordinated.plane.api.wait(
            coordinated.fleet.path, lambda seen: seen and seen["spec"].get("acquireTime"), "the leader's own write"
        )
    after = coordinated.fleet.spec()
    assert (after["acquireTime"], after["leaseTransitions"]) == (before["acquireTime"], before["leaseTransitions"])
    assert leader.running
    coordinated.witness.check(terms=1)


@pytest.mark.timeout(360)
def test_candidates_with_and_without_coordination_share_a_lock(coordinated: Coordinated, trials: Trials) -> None:
    """As while a fleet changes from the one to the other, and back."""
    fleet, witness = coordinated.fleet, coordinated.witness
    plain = fleet.start("plain-1")
    witness.wait_start(1)
    named = coordinated.start("named-1", does=("--term-delay=0.2",))
    coordinated.registered("named-1")
    fleet.wait_renewals(3)  # the control plane prefers the other, in vain
    plain.signal(signal.SIGTERM)
    assert plain.wait() == 0
    coordinated.leads(2, "named-1")
    again = fleet.waiting("plain-2", behind="named-1")
    kill_whole(named)
    coordinated.leads(3, "plain-2")
    last = coordinated.start("named-2", "1.35.0")
    coordinated.registered("named-2")
    kill_whole(again)
    coordinated.leads(4, "named-2")
    last.signal(signal.SIGTERM)
    assert last.wait() == 0
    witness.check(terms=4)
    trials.count(3, "handovers between plain and coordinated candidates")


# --- where there is no such thing


@pytest.mark.parametrize("patience", ["--no-wait", "--wait=8s"])
def test_a_refused_discovery_does_not_fall_back_to_plain_election(
    coordinated: Coordinated, own_plane: ControlPlane, patience: str
) -> None:
    with HttpProxy(own_plane) as proxy:
        body = {"kind": "Status", "code": 403, "message": "groups is forbidden"}
        proxy.on(faults.answer(403, body), path="^/apis/coordination.k8s.io$", times=None)
        process = coordinated.start("a", "1.36.0", patience, server=proxy.url)
        assert process.wait() == FAILED
        assert "groups is forbidden" in process.err
        assert "plain election" not in process.err
        assert not [request for request in proxy.requests if "/leases/" in request.path]


def test_hanging_discovery_does_not_delay_the_end_of_a_candidate(
    coordinated: Coordinated, own_plane: ControlPlane
) -> None:
    with HttpProxy(own_plane) as proxy:
        rule = proxy.on(faults.silence(), path="^/apis/coordination.k8s.io$", times=None)
        timings = ("--lease-duration=1h", "--renew-deadline=50m")
        process = coordinated.start("a", timings=timings, server=proxy.url)
        rule.wait()
        process.signal(signal.SIGTERM)
        assert process.wait() == 128 + signal.SIGTERM
        assert "did not end in time" not in process.err


def test_an_unreachable_api_server_at_the_start_is_waited_for(
    coordinated: Coordinated, own_plane: ControlPlane
) -> None:
    own_plane.apiserver.stop()
    process = coordinated.start("a")
    process.wait_err("cannot reach the API server")
    own_plane.apiserver.start()
    coordinated.leads(1, "a")
    assert coordinated.candidate("a")
    assert "plain election" not in process.err


def test_without_the_feature_gate_kleader_logs_once_that_it_uses_plain_election(
    plain_plane: ControlPlane, processes: Processes, tmp_path: Path
) -> None:
    fleet = Fleet(plain_plane, plain_plane.new_namespace(), processes, Witness(tmp_path / "plain.log"))
    coordinated = Coordinated(fleet, plain_plane)
    first = coordinated.start("first", "1.36.0")
    coordinated.leads(1, "first")
    second = coordinated.start("second", "1.35.0")
    second.wait_log("leader_observed", r"is first\b")
    first.signal(signal.SIGTERM)
    assert first.wait() == 0
    coordinated.leads(2, "second")
    second.signal(signal.SIGTERM)
    assert second.wait() == 0
    for process in (first, second):
        assert process.err.count("the cluster has no coordinated election: it serves no leasecandidates") == 1
        assert process.err.count("taking part in plain election instead") == 1
    assert fleet.spec()["leaseTransitions"] == 1
    fleet.witness.check(terms=2)
