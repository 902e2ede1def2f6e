"""An unhealthy candidate does not compete on a cluster; an unhealthy leader steps down, and another leads at once."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import pytest

from tests.cluster.crew import Crew
from tests.cluster.fleet import DURATION, PATIENT, health

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.cluster.fleet import Fleet
    from tests.support.checker import Witness
    from tests.support.plane import Plane
    from tests.support.processes import Processes


def test_unhealthy_leader_is_followed_at_once_and_does_not_compete_for_a_lease_duration(
    fleet: Fleet, well: Path
) -> None:
    """Well again at once, and alone, it still waits."""
    sick = fleet.start("sick", *health(well), "--on-loss=wait", does=["--descendant"])
    fleet.witness.wait_descendant()
    other = fleet.waiting("other", behind="sick", timings=PATIENT)
    well.unlink()
    assert fleet.witness.wait_start(2).identity == "other"
    sick.wait_log("released", role="resting")
    ended = fleet.witness.terms()[0].last
    well.touch()
    other.signal(signal.SIGTERM)
    assert other.wait() == 0
    third = fleet.witness.wait_start(3)
    assert third.identity == "sick"
    assert (third.born - ended) / 1e9 >= DURATION - 0.2
    sick.signal(signal.SIGTERM)
    assert sick.wait() == 0
    fleet.witness.check(terms=3)


def test_unhealthy_candidate_does_not_compete(fleet: Fleet, well: Path) -> None:
    first = fleet.start("first", timings=PATIENT)
    fleet.witness.wait_start()
    sick = fleet.waiting("sick", *health(well), behind="first", timings=PATIENT)
    well.unlink()
    sick.wait_log("unhealthy")
    first.signal(signal.SIGTERM)
    assert first.wait() == 0
    fleet.wait_spec("a free lock", holderIdentity="")
    other = fleet.start("other", timings=PATIENT)
    assert fleet.witness.wait_start(2).identity == "other"
    other.signal(signal.SIGTERM)
    assert other.wait() == 0
    well.touch()
    assert fleet.witness.wait_start(3).identity == "sick"
    sick.signal(signal.SIGTERM)
    assert sick.wait() == 0
    fleet.witness.check(terms=3)


@pytest.mark.parametrize("release", [True, False], ids=["--release", "kept"])
def test_an_unhealthy_leader_for_life_releases_the_lock_of_its_pod(  # noqa: PLR0917
    plane: Plane,
    namespace: str,
    processes: Processes,
    witness: Witness,
    for_life: Callable[..., list[str]],
    well: Path,
    release: bool,  # noqa: FBT001
) -> None:
    """Without --release it stays with the sick Pod, which leads again. Standbys are no earlier term's."""
    crew = Crew(plane, namespace, processes, witness, for_life)
    standby = "--standby=sleep 600"
    options = (*health(well), "--on-loss=wait", standby, *(["--release"] if release else []))
    sick = crew.kleader("a", *options)
    witness.wait_start()
    other = crew.waiting("b", standby, behind="a")
    well.unlink()
    if release:
        assert witness.wait_start(2).identity == "b"
        assert crew.owner() == "b"
        other.signal(signal.SIGTERM)
        assert other.wait() == 0
        sick.signal(signal.SIGTERM)
        assert sick.wait() == 128 + signal.SIGTERM
    else:
        sick.wait_log("not_released", "the Pod a keeps it until that Pod is deleted", role="resting")
        well.touch()
        assert witness.wait_start(2).identity == "a"
        sick.signal(signal.SIGTERM)
        assert sick.wait() == 0
    witness.check(terms=2)
