"""Faults of the network to the API server, and lost responses: no overlap, and the documented outcome."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import pytest

from tests.cluster.fleet import DURATION, LOST, PATIENT, Fleet, now
from tests.support import faults
from tests.support.httpproxy import HttpProxy
from tests.support.port import LOOPBACK
from tests.support.processes import alive, wait_gone, wait_until
from tests.support.proxy import Proxy

if TYPE_CHECKING:
    from tests.cluster.conftest import SideBySide
    from tests.conftest import Trials
    from tests.support.controlplane import ControlPlane
    from tests.support.httpproxy import Request

DEAF = ("--ignore-term", "--descendant")
LOSSES = ("silent", "reset")
ROOMY = ("--lease-duration=10s", "--renew-deadline=8s", "--retry-period=1s")  # another request has half of 8 s


def releases(request: Request) -> bool:
    return not request.json()["spec"]["holderIdentity"]


def test_leader_cut_off_from_the_api_is_dead_before_the_next_leader_starts(
    own_plane: ControlPlane, side_by_side: SideBySide, trials: Trials
) -> None:
    """Silent, reset, refused, a byte per half second, no answers: its TERM-ignoring tree is dead; it ends with 255."""

    def scenario(fleet: Fleet, mode: str) -> None:
        with Proxy(LOOPBACK, own_plane.port) as proxy:
            leader = fleet.start("a", server=proxy.url, does=DEAF)
            term, descendant = fleet.witness.wait_start(), fleet.witness.wait_descendant()
            fleet.waiting("b", behind="a")
            proxy.switch(mode)  # type: ignore[arg-type]
            assert leader.wait() == LOST
            assert not alive(term.pid)
            assert not alive(descendant.pid)
            assert leader.logged("lost")
            fleet.witness.wait_start(2)
        fleet.witness.check(terms=2)

    modes = ("silent", "reset", "refuse", "trickle", "drop-answers")
    side_by_side(scenario, modes)
    trials.count(len(modes), "roads to the API broken")


def test_connection_restored_before_the_renew_deadline_ends_no_term(
    own_plane: ControlPlane, side_by_side: SideBySide, trials: Trials
) -> None:
    def scenario(fleet: Fleet, mode: str) -> None:
        with Proxy(LOOPBACK, own_plane.port) as proxy:
            fleet.start("a", server=proxy.url, timings=ROOMY)
            fleet.witness.wait_start()
            fleet.waiting("b", behind="a", timings=ROOMY)
            for _ in range(3):
                before = proxy.connections
                proxy.switch(mode)  # type: ignore[arg-type]
                proxy.wait_connections(before + 1)  # it has given up the one that it had
                proxy.switch("pass")
                fleet.wait_renewals(2)
            fleet.witness.check(terms=1)

    side_by_side(scenario, ("silent", "reset"))
    trials.count(6, "roads to the API broken and mended in time")


@pytest.mark.parametrize("how", ["stopped", "paused"])
def test_an_outage_longer_than_the_lease_ends_the_term_and_one_candidate_leads_after_it(
    own_plane: ControlPlane, fleet: Fleet, how: str, trials: Trials
) -> None:
    leader = fleet.start("a", does=DEAF)
    term, descendant = fleet.witness.wait_start(), fleet.witness.wait_descendant()
    others = [fleet.waiting(identity, behind="a") for identity in ("b", "c")]
    out = now()
    own_plane.apiserver.kill() if how == "stopped" else own_plane.apiserver.pause()
    assert leader.wait() == LOST
    assert not alive(term.pid)
    assert not alive(descendant.pid)
    assert fleet.witness.terms()[0].last / 1e9 < out + DURATION
    wait_until(lambda: now() > out + 1.5 * DURATION, "an outage longer than the lease")
    assert len(fleet.witness.terms()) == 1
    assert all(other.running for other in others)
    own_plane.apiserver.start() if how == "stopped" else own_plane.apiserver.resume()
    fleet.witness.wait_start(2)
    fleet.wait_led_beyond(DURATION)
    fleet.witness.check(terms=2)
    trials.count(1, "outages of the API server")


# --- answers that are lost
def test_an_acquisition_without_a_response_is_confirmed_before_the_command_starts(
    own_plane: ControlPlane, side_by_side: SideBySide, trials: Trials
) -> None:
    """The term, and its token, are those of a fresh write; the transition was counted by the first."""

    def scenario(fleet: Fleet, then: str) -> None:
        with HttpProxy(own_plane) as proxy:
            first = proxy.on(faults.lose(then), method="PUT")
            second = proxy.on(faults.hold(), method="PUT", times=None)
            fleet.start("a", server=proxy.url)
            second.wait()
            first.wait_answered()
            lost = fleet.lease()
            assert lost["spec"]["holderIdentity"] == "a"
            assert not fleet.witness.terms()
            second.release()
            term = fleet.witness.wait_start()
            assert int(term.token) > int(lost["metadata"]["resourceVersion"])
            assert fleet.spec()["leaseTransitions"] == 0
            assert fleet.spec()["acquireTime"] == lost["spec"]["acquireTime"]

    side_by_side(scenario, LOSSES)
    trials.count(len(LOSSES), "answers lost")


def test_a_renewal_without_a_response_ends_no_term(
    own_plane: ControlPlane, side_by_side: SideBySide, trials: Trials
) -> None:
    def scenario(fleet: Fleet, then: str) -> None:
        with HttpProxy(own_plane) as proxy:
            fleet.start("a", server=proxy.url)
            term = fleet.witness.wait_start()
            fleet.waiting("b", behind="a")
            proxy.on(faults.lose(then), method="PUT").wait_answered()
            fleet.wait_led_beyond(DURATION)
            assert alive(term.pid)
            fleet.witness.check(terms=1)

    side_by_side(scenario, LOSSES)
    trials.count(len(LOSSES), "answers lost")


def test_a_release_without_a_response_frees_the_lock(
    own_plane: ControlPlane, side_by_side: SideBySide, trials: Trials
) -> None:
    def scenario(fleet: Fleet, then: str) -> None:
        with HttpProxy(own_plane) as proxy:
            leader = fleet.start("a", server=proxy.url, does=["--term-delay=0.2"], timings=ROOMY)
            fleet.witness.wait_start()
            fleet.waiting("b", behind="a", timings=ROOMY)
            lost = proxy.on(faults.lose(then), method="PUT", where=releases)
            leader.signal(signal.SIGTERM)
            assert leader.wait() == 0
            assert lost.hits == 1
            fleet.witness.wait_start(2)
        fleet.witness.check(terms=2)
        assert fleet.spec()["leaseTransitions"] == 1

    side_by_side(scenario, LOSSES)
    trials.count(len(LOSSES), "answers lost")


def test_candidate_that_ends_with_an_unanswered_acquisition_releases_the_lock(
    own_plane: ControlPlane, fleet: Fleet, trials: Trials
) -> None:
    with HttpProxy(own_plane) as proxy:
        lost = proxy.on(faults.lose("silent"), method="PUT")
        candidate = fleet.start("a", server=proxy.url, timings=PATIENT)
        lost.wait_answered()
        candidate.signal(signal.SIGTERM)
        assert candidate.wait() == 128 + signal.SIGTERM
    assert fleet.spec()["holderIdentity"] == ""
    fleet.witness.check(terms=0)
    trials.count(1, "answers lost")


# --- after a loss
def test_on_loss_wait_contends_again_under_a_new_term(own_plane: ControlPlane, fleet: Fleet, trials: Trials) -> None:
    with Proxy(LOOPBACK, own_plane.port) as proxy:
        candidate = fleet.start("a", "--on-loss=wait", server=proxy.url, does=DEAF)
        term = fleet.witness.wait_start()
        before = fleet.lease()
        proxy.switch("silent")
        candidate.wait_log("lost")
        wait_gone(term.pid)
        proxy.switch("pass")
        again = fleet.witness.wait_start(2)
        after = fleet.lease()
        assert candidate.running
        assert again.identity == "a"
        assert after["metadata"]["annotations"] != before["metadata"]["annotations"]
        assert after["spec"]["leaseTransitions"] == before["spec"]["leaseTransitions"] + 1
        fleet.witness.check(terms=2)
    trials.count(1, "terms lost and won again")


def test_the_grace_after_a_loss_is_that_of_the_option(
    own_plane: ControlPlane, side_by_side: SideBySide, trials: Trials
) -> None:
    """With 5s a command that takes 0.3 s ends by itself; with 0s it is killed at once."""
    timings = ("--lease-duration=12s", "--renew-deadline=3s", "--retry-period=1s")

    def scenario(fleet: Fleet, grace: str) -> None:
        with Proxy(LOOPBACK, own_plane.port) as proxy:
            grace_ = f"--loss-grace={grace}"
            leader = fleet.start("a", grace_, server=proxy.url, does=["--term-delay=0.3"], timings=timings)
            term = fleet.witness.wait_start()
            proxy.switch("silent")
            assert leader.wait() == LOST
            assert fleet.witness.now(term).main.ended == (grace == "5s")

    side_by_side(scenario, ("0s", "5s"))
    trials.count(2, "losses with a grace")


# --- one identity, two processes
def test_two_candidates_with_one_identity_have_one_leader(fleet: Fleet, trials: Trials) -> None:
    """Mine means identity and incarnation: the second waits as behind any other, and its term counts a transition."""
    pair = [fleet.start("same", does=["--term-delay=0.2"]) for _ in range(2)]
    fleet.witness.wait_start()
    fleet.wait_led_beyond(DURATION)
    assert len(fleet.witness.terms()) == 1
    leader = next(process for process in pair if process.logged("became_leader"))
    leader.signal(signal.SIGTERM)
    assert leader.wait() == 0
    fleet.witness.wait_start(2)
    fleet.witness.check(terms=2)
    assert fleet.spec()["leaseTransitions"] == 1
    trials.count(1, "identities used twice")


def test_a_new_process_of_the_same_identity_waits_for_the_old_lease(
    own_plane: ControlPlane, fleet: Fleet, trials: Trials
) -> None:
    """A StatefulSet's Pod name comes back while the old process lives on behind a dead network."""
    with Proxy(LOOPBACK, own_plane.port) as proxy:
        old = fleet.start("same", server=proxy.url, does=DEAF)
        fleet.witness.wait_start()
        proxy.switch("silent")
        fresh = fleet.start("same")
        fleet.witness.wait_start(2)
        assert old.wait() == LOST
        assert fresh.running
    fleet.witness.check(terms=2)
    trials.count(1, "identities used twice")
