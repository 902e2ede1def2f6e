"""The Lease deleted, edited and cleared by hand, and what two writes within a second look like to others."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from tests.cluster.fleet import DURATION, LOST, PATIENT, Fleet, History, instant, now
from tests.support.processes import PATIENCE, alive, wait_until

if TYPE_CHECKING:
    from tests.conftest import Trials
    from tests.support.plane import Plane

DEAF = ("--ignore-term", "--descendant")


def test_deleted_lease_is_created_again_by_its_leader_and_no_candidate_takes_it(
    plane: Plane, fleet: Fleet, trials: Trials
) -> None:
    fleet.start("a")
    term = fleet.witness.wait_start()
    others = [fleet.waiting(identity, behind="a") for identity in ("b", "c")]
    for number in range(1, 4):
        before = plane.api.delete(fleet.path)
        plane.api.wait(fleet.path, lambda seen: seen and seen["spec"]["holderIdentity"] == "a", "made anew")
        for other in others:
            other.wait_log("waiting_for_previous_leader", "the lock object is gone", count=min(number, 1))
        assert fleet.lease()["metadata"]["uid"] != before.get("details", {}).get("uid")
    fleet.wait_led_beyond(DURATION)
    assert alive(term.pid)
    assert fleet.spec()["leaseTransitions"] == 0
    fleet.witness.check(terms=1)
    trials.count(3, "Leases deleted")


def test_a_lease_edited_to_another_holder_ends_the_term_without_grace(fleet: Fleet, trials: Trials) -> None:
    leader = fleet.start("a", does=DEAF, timings=PATIENT)
    term, descendant = fleet.witness.wait_start(), fleet.witness.wait_descendant()
    fleet.waiting("b", behind="a")
    fleet.wait_renewals()
    fleet.edit(holderIdentity="thief", leaseDurationSeconds=5)
    assert leader.wait() == LOST
    assert not alive(term.pid)
    assert not alive(descendant.pid)
    assert leader.logged("lost", "the lock is held by thief")
    assert not leader.logged("command_stopping")
    fleet.witness.wait_start(2)
    fleet.witness.check(terms=2)
    trials.count(1, "Leases edited")


def test_a_lease_cleared_by_hand_ends_the_term(fleet: Fleet, trials: Trials) -> None:
    leader = fleet.start("a", does=DEAF, timings=PATIENT)
    term = fleet.witness.wait_start()
    fleet.edit(holderIdentity="")
    assert leader.wait() == LOST
    assert not alive(term.pid)
    assert "cleared" in leader.err
    trials.count(1, "Leases edited")


def test_foreign_label_on_the_lease_delays_neither_renewal_nor_takeover(plane: Plane, fleet: Fleet) -> None:
    """It makes a new version of the same record: the leader renews, and no challenger's wait restarts."""
    leader = fleet.start("a")
    fleet.witness.wait_start()
    fleet.waiting("b", behind="a")
    for number in range(3):
        plane.api.merge(fleet.path, {"metadata": {"labels": {"n": str(number)}}})
        fleet.wait_renewals()
    assert fleet.lease()["metadata"]["labels"] == {"n": "2"}
    fleet.wait_led_beyond(0)
    leader.kill()
    killed = now()
    while len(fleet.witness.terms()) < 2:
        plane.api.merge(fleet.path, {"metadata": {"labels": {"n": str(now())}}})
        assert now() < killed + PATIENCE, "the label keeps challengers from taking the lock"
    fleet.witness.check(terms=2)


def test_each_renew_time_is_in_a_later_second_than_the_one_before(fleet: Fleet, trials: Trials) -> None:
    """client-go compares at whole seconds: renewTime grows by one at least, at a period of 1s and from term to term."""
    assert fleet.start("first", command=["true"]).wait() == 0
    history = History(fleet)
    for number in range(2):
        assert fleet.start(f"short-{number}", command=["true"]).wait() == 0
    fleet.start("a")
    fleet.witness.wait_start()
    wait_until(lambda: len(history.states) >= 9, "nine writes")
    seconds = [math.floor(instant(seen["spec"]["renewTime"])) for _, seen in history.states]
    assert seconds == sorted(set(seconds))
    trials.count(len(seconds), "writes compared at whole seconds")
