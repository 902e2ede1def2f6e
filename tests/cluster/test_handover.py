"""How fast the lock goes from one candidate to the next, with the default timings and three candidates."""

from __future__ import annotations

import signal
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from tests.cluster.fleet import DEFAULTS, Fleet, History, epoch, instant, kill_whole, now
from tests.support.checker import Witness
from tests.support.noise import Noise

if TYPE_CHECKING:
    from pathlib import Path

    from tests.conftest import Trials
    from tests.support.plane import Plane
    from tests.support.processes import Process, Processes

PLANNED, CRASHES = 20, 5
LIMIT = 0.250  # seconds
DURATION = 15.0  # the default lease duration


class Trio:
    """Three candidates for one Lease; who has gone is replaced."""

    def __init__(self, fleet: Fleet) -> None:
        self.fleet, self.witness = fleet, fleet.witness
        self.terms = 1
        self._running = {"a": fleet.start("a", timings=DEFAULTS)}
        self.witness.wait_start(1)
        for identity in ("b", "c"):
            self._running[identity] = fleet.waiting(identity, behind="a", timings=DEFAULTS)

    def leader(self) -> Process:
        return self._running[self.witness.terms()[-1].identity]

    def hand_over(self) -> float:
        """Stop the leader politely; seconds from the last sign of life of its command to the birth of the next."""
        self.leader().signal(signal.SIGTERM)
        gap = self._next()
        assert self._running[self.witness.terms()[-2].identity].wait() == 0
        self._replace()
        return gap

    def crash(self) -> float:
        """SIGKILL the whole leader; seconds from the lease's expiry to the birth of the next command.

        The winner saw the last renewal after it was sent, and so after the renewTime that it carries: the expiry that
        is reckoned from that one is the earliest that can be.
        """
        history = History(self.fleet)
        self.fleet.wait_renewals(1)
        kill_whole(self.leader())
        killed = now()
        self._next()
        old, new = self.witness.terms()[-2:]
        assert old.last / 1e9 <= killed
        last = history.last_of(old.identity, new.token)
        expiry = instant(last["spec"]["renewTime"]) + DURATION - epoch()
        self._replace()
        return new.born / 1e9 - expiry

    def _next(self) -> float:
        self.terms += 1
        self.witness.wait_start(self.terms)
        return self.witness.gaps()[-1] / 1e9

    def _replace(self) -> None:
        gone, leader = (term.identity for term in self.witness.terms()[-2:])
        self._running[gone] = self.fleet.waiting(gone, behind=leader, timings=DEFAULTS)


@pytest.mark.alone
@pytest.mark.timeout(900)
def test_planned_handovers_and_crashes_have_no_overlap_and_bounded_gaps(
    plane: Plane, namespace: str, processes: Processes, tmp_path: Path, trials: Trials
) -> None:
    """None overlaps, each starts the next command within 250 ms: after the old tree's death, or past expiry.

    Where the machine is busy, within three times the longest start of a bare Python meanwhile.
    """
    names = ["planned", *(f"crashes-{number}" for number in range(CRASHES))]
    with Noise() as noise, ThreadPoolExecutor(len(names)) as pool:
        fleets = [Fleet(plane, namespace, processes, Witness(tmp_path / name), name) for name in names]
        planned, *crashing = pool.map(Trio, fleets)
        crashes = [pool.submit(trio.crash) for trio in crashing]
        gaps = [planned.hand_over() for _ in range(PLANNED)]
        past = [each.result() for each in crashes]
    for trio in (planned, *crashing):
        trio.witness.check(terms=trio.terms)
    trials.count(len(gaps), "planned handovers with default timings")
    trials.count(len(past), "crashes with default timings")
    print(f"planned: at most {max(gaps) * 1e3:.0f} ms; crashes: at most {max(past) * 1e3:.0f} ms past expiry")  # noqa: T201
    limit = max(LIMIT, 3 * noise.worst)
    assert max(gaps) < limit, sorted(gaps)
    assert min(past) > 0, sorted(past)
    assert max(past) < limit, sorted(past)
