"""The roll: a leader of coordinated election that ends in good order asks the others for a sign of life first."""

from __future__ import annotations

import asyncio
import signal
import time
from typing import TYPE_CHECKING

import pytest

from kleader import platform
from kleader.election.record import micro_time
from kleader.election.state import Candidate, Phase, State
from kleader.election.timing import Timing
from kleader.elector import roll as rolls
from kleader.elector.roll import Roll
from kleader.locks.candidate import Description, LeaseCandidate
from kleader.locks.permissions import needed, rules
from kleader.log import Log
from tests.cluster.fleet import History, kill_whole
from tests.cluster.test_coordinated import BETA, Coordinated
from tests.support import faults
from tests.support.api import path
from tests.support.httpproxy import HttpProxy
from tests.support.objects import lease_candidate
from tests.support.processes import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.cluster.contract import Client
    from tests.cluster.fleet import Fleet
    from tests.conftest import Trials
    from tests.support.controlplane import ControlPlane
    from tests.support.processes import Process, Processes

MOST = 10  # seconds that a crashed candidate may delay a handover
WARNING = "grant list and patch on leasecandidates, so that one that crashed delays no handover long: "


class Handover(Coordinated):
    """From a leader whose command ends when it is told to, past a candidate that has crashed."""

    def __init__(self, fleet: Fleet, plane: ControlPlane, ends: Path) -> None:
        super().__init__(fleet, plane)
        self.ends = ends
        self._pinged: dict[str, str] = {}  # when they were asked before

    def leads_first(self) -> Process:
        leader = self.start("leader", "1.34.0", does=("--ignore-term", f"--exit-when={self.ends}"))
        self.leads(1, "leader")
        return leader

    def crashes(self) -> None:
        """One that is better than all that are left; its last sign of life is of just now."""
        crashed = self.start("crashed", "1.35.0")
        self.registered("crashed")
        kill_whole(crashed)
        self.plane.api.merge(self.where("crashed"), {"spec": {"renewTime": micro_time(time.time_ns() // 1000)}})

    def where(self, identity: str) -> str:
        return path(BETA, "LeaseCandidate", self.fleet.namespace, identity)

    def ends_the_term(self, leader: Process) -> None:
        """Ask the leader to stop."""
        self._pinged = {identity: self.pinged(identity) for identity in ("leader", "survivor", "crashed")}
        leader.signal(signal.SIGTERM)

    def pinged(self, identity: str) -> str:
        """When it was asked last for a sign of life."""
        found = self.plane.api.get(self.where(identity))
        return str(found["spec"].get("pingTime", ""))

    def asks(self, identity: str) -> str:
        """Return when this one was asked for a sign of life, as soon as it has been."""
        before = self._pinged[identity]
        found = self.plane.api.wait(
            self.where(identity), lambda seen: seen and seen["spec"].get("pingTime", "") > before, "a ping"
        )
        assert found
        return str(found["spec"]["pingTime"])

    def asks_all_but_itself(self) -> None:
        """Return once the living have answered; the dead one's last sign of life is none any more."""
        self.answered("survivor", self.asks("survivor"))
        assert self.asks("crashed") > self.plane.api.get(self.where("crashed"))["spec"]["renewTime"]
        assert self.pinged("leader") == self._pinged["leader"]

    def answered(self, identity: str, ping: str) -> None:
        self.plane.api.wait(self.where(identity), lambda seen: seen and seen["spec"]["renewTime"] >= ping, "an answer")

    def passes_to(self, survivor: str) -> History:
        """All of the Lease's states from the leader's end to the survivor's term."""
        history = History(self.fleet)
        self.ends.touch()
        self.leads(2, survivor)
        wait_until(lambda: survivor in holders(history), "its name in the history")
        return history

    @property
    def gap(self) -> float:
        """Seconds without a command."""
        (_, _, gap) = self.witness.handovers()[0]
        return gap / 1e9


@pytest.fixture
def handover(fleet: Fleet, own_plane: ControlPlane, tmp_path: Path) -> Handover:
    return Handover(fleet, own_plane, tmp_path / "ends")


def holders(history: History) -> set[str]:
    return {seen["spec"].get("holderIdentity") or "" for _, seen in history.states}


def since(history: History, holder: str) -> float:
    """When this one became the holder, in seconds."""
    return next(at for at, seen in history.states if seen["spec"].get("holderIdentity") == holder)


@pytest.mark.timeout(120)
def test_a_candidate_that_crashed_just_now_is_asked_while_the_command_winds_down_and_is_never_named(
    handover: Handover, trials: Trials
) -> None:
    """The living have answered by the time that the lock is free; the leader itself is not asked."""
    leader = handover.leads_first()
    handover.start("survivor", "1.36.0")
    handover.registered("survivor")
    handover.crashes()
    handover.ends_the_term(leader)
    handover.asks_all_but_itself()
    history = handover.passes_to("survivor")
    assert leader.wait() == 0
    assert holders(history) == {"leader", "", "survivor"}
    assert handover.gap < MOST, handover.witness.story()
    assert WARNING not in leader.err
    handover.witness.check(terms=2)
    trials.count(1, "handovers past a candidate that crashed just before")


@pytest.mark.timeout(120)
def test_a_client_go_candidate_answers_and_leads(
    handover: Handover, processes: Processes, clientgo: Callable[..., list[str]], trials: Trials
) -> None:
    """It is named when the control plane looks again, as it does every 5 s, and looks for that itself now and then."""
    fleet = handover.fleet
    leader = handover.leads_first()
    config = fleet.plane.kubeconfig(namespace=fleet.namespace)
    argv = clientgo(config, fleet.namespace, fleet.name, "survivor", fleet.witness.command(), coordinated=True)
    processes.start(argv, name="survivor").wait_err("new leader: leader$")
    handover.registered("survivor")
    handover.crashes()
    handover.ends_the_term(leader)
    handover.asks_all_but_itself()
    fleet.wait_renewals()
    history = handover.passes_to("survivor")
    assert leader.wait() == 0
    assert holders(history) == {"leader", "", "survivor"}
    assert since(history, "survivor") - since(history, "") < MOST
    handover.witness.check(terms=2)
    trials.count(1, "handovers past a candidate that crashed just before")


@pytest.mark.timeout(120)
@pytest.mark.parametrize("missing", ["list", "patch"])
def test_without_the_permission_one_line_says_so_and_the_handover_is_as_it_was(
    handover: Handover, own_plane: ControlPlane, missing: str
) -> None:
    """Who leads twice says it once."""
    handover.user = own_plane.new_bare_user()
    allowed = [each for each in needed("lease", "x", candidate="") if each.verb != missing]
    own_plane.grant(handover.user, handover.fleet.namespace, rules(allowed))
    leader = handover.start(
        "leader", "1.36.0", "--on-loss=wait", does=("--ignore-term", f"--exit-when={handover.ends}")
    )
    handover.leads(1, "leader")
    better = handover.start("better", "1.35.0")
    leader.wait_err(f"WARNING .*{WARNING}.* cannot {missing} resource")
    assert handover.plane.api.get(handover.where("better"))["spec"]["leaseName"] == "x"
    handover.ends.touch()
    handover.leads(2, "better")
    better.signal(signal.SIGTERM)
    handover.leads(3, "leader")
    wait_until(lambda: not handover.fleet.spec()["holderIdentity"], "its release")
    assert leader.wait() == 0
    assert leader.err.count(WARNING) == 1
    assert leader.err.count("released the lock") == 2
    handover.witness.check(terms=3)


def test_only_this_locks_candidates_are_asked_and_none_that_has_changed_since_it_was_listed(
    client: Client, own_plane: ControlPlane, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are listed page by page, among those of others."""
    api, log = own_plane.api, Log(verbosity=2)
    said: list[str] = []
    monkeypatch.setattr(log, "debug", said.append)
    monkeypatch.setattr(rolls, "_PAGE", "2")
    for lease, names in (("y", ("b", "c", "e", "g")), ("x", ("a", "d", "f", "me"))):
        for name in names:
            api.create(lease_candidate(namespace, name, lease))
    user = own_plane.new_bare_user()
    own_plane.grant(user, namespace, rules(needed("lease", "x", candidate="")))

    def where(name: str) -> str:
        return path(BETA, "LeaseCandidate", namespace, name)

    with HttpProxy(own_plane) as proxy:
        change = faults.call(lambda _: api.merge(where("d"), {"metadata": {"labels": {"changed": "1"}}}))
        proxy.on(change, method="PATCH", path="/leasecandidates/d$")
        road = client.road(own_plane, namespace, user, proxy.url)

        async def call() -> None:
            about = Description("me", "x", "1.36.0", "1.36.0")
            roll = Roll(road.credentials, log, LeaseCandidate(road, "v1beta1", namespace, about, 30, 2, print), 30)
            me = Candidate("me", Timing(15, 10, 2, 3, 0.5, 1.5), 5)
            roll.follow(State(me, "term", phase=Phase.LEADING, t0=platform.clock()))
            roll.call()
            await asyncio.wait(roll.under_way)

        client.run(call())
        asked = [request.path.rpartition("/")[2] for request in proxy.requests if request.method == "PATCH"]
        listed = sum("limit=2" in request.path for request in proxy.requests)
    assert sorted(asked) == ["a", "d", "f"]
    assert [name for name in "abcdefg" if "pingTime" in api.get(where(name))["spec"]] == ["a", "f"]
    assert listed == 4
    assert said == ["called the roll: asked 2 of 3 candidates for a sign of life"]
