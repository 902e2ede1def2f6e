"""Handovers in a healthy world: a few candidates do not wait for each other, a crowd does not stampede."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kleader.election.state import Candidate
from kleader.election.timing import choose
from tests.simulation.host import Network
from tests.simulation.machine import Machine
from tests.simulation.world import World

if TYPE_CHECKING:
    from tests.conftest import Trials

pytestmark = pytest.mark.slow

TIMING = choose(15, 10, 2)
HANDOVERS = 12


class Fleet(World):
    """Candidates without faults, which hand over. ``latency`` is the most in one direction, in seconds."""

    def __init__(self, seed: int, size: int, latency: float) -> None:
        super().__init__(seed)
        for number in range(size):
            me = Candidate(f"c{number}", TIMING, TIMING.request_timeout)
            self.hosts.append(Machine(self, me.identity, me, (self.server.lease,)))
        together = self.rng.random() < 0.5
        for machine in self.hosts:
            assert isinstance(machine, Machine)
            machine.network, machine.rate = Network(latency=latency), self.rng.uniform(0.9999, 1.0001)
            machine.release = 1.0
            self.after(0 if together else self.rng.uniform(0, 5), machine.start)
        self.run(30)

    def hand_over(self, *, crash: bool) -> tuple[float, int]:
        """Seconds from when the lock may be taken to the next start; and how many requests others made meanwhile."""
        old, begun, starts = self.running, self.now, len(self.starts)
        assert old
        if crash:
            old.crash()
            free_at = self._expiry()
        else:
            old.stop(0)
            free_at = begun
        while len(self.starts) == starts:
            self.run(self.now + 0.5)
        self.run(self.now + 3)
        others = [machine for machine in self.hosts if machine not in (old, self.running)]
        lost = sum(1 for machine in others for when in machine.asked if when >= free_at)
        self.run(self.now + 21)  # the old one comes back
        return self.starts[-1] - free_at, lost

    def _expiry(self) -> float:
        machines = [each for each in self.hosts if isinstance(each, Machine)]
        turns = [(each.state.acquire_at - each.boot) / each.rate for each in machines if each.state]
        return self.now + min(turns)


@pytest.mark.parametrize("crash", [False, True], ids=["planned", "crash"])
def test_three_candidates_hand_over_within_four_network_latencies(trials: Trials, crash: bool) -> None:  # noqa: FBT001
    for seed in range(20):
        fleet = Fleet(seed, 3, latency=0.01)
        for number in range(HANDOVERS):
            late, _ = fleet.hand_over(crash=crash)
            assert late <= 4 * 0.01, f"seed {seed}, handover {number}"
    trials.count(20 * HANDOVERS, "simulated handovers among three")


@pytest.mark.parametrize("crash", [False, True], ids=["planned", "crash"])
@pytest.mark.parametrize("latency", [0.005, pytest.param(0.03, marks=pytest.mark.slow)])
def test_at_most_ten_of_a_hundred_candidates_lose_a_race_from_the_fifth_handover_on(
    trials: Trials,
    latency: float,
    crash: bool,  # noqa: FBT001
) -> None:
    for seed in range(2):
        fleet = Fleet(seed, 100, latency)
        handovers = [fleet.hand_over(crash=crash) for _ in range(HANDOVERS)]
        assert max(lost for _, lost in handovers[4:]) <= 10
        assert max(late for late, _ in handovers[4:]) <= 0.25
    trials.count(2 * HANDOVERS, "simulated handovers among a hundred")
