"""The promise under schedules drawn from seeds, fresh ones in each run.

KLEADER_TEST_EFFORT times twenty are played of each kind. KLEADER_TEST_SEED is the seed of the first; each next one is
greater by one. A failure names its seed and kind: with these, ``python -m tests.simulation`` replays
it exactly.
"""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.mutation.guards import TABLE
from tests.simulation import supervisor
from tests.simulation.faults import FAULTS
from tests.simulation.host import REQUEST_FAULTS, START_FAULTS, STEP_FAULTS, WATCH_FAULTS
from tests.simulation.manual_edits import MANUAL_EDITS
from tests.simulation.runs import KINDS, fewest, play, schedule
from tests.simulation.world import OverlapError
from tests.support.chance import EFFORT, SEED

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tests.conftest import Trials

SCHEDULES = 20 * EFFORT


@pytest.mark.timeout(60 + SCHEDULES)
@pytest.mark.parametrize("kind", KINDS)
def test_no_two_commands_run_and_a_candidate_leads_once_the_faults_are_over(trials: Trials, kind: str) -> None:
    tally = play(range(SEED, SEED + SCHEDULES), kind)
    for failure in tally.failures:
        pytest.fail(str(failure), pytrace=False)
    trials.count(tally.schedules, f"simulated schedules from seed {SEED} on")
    trials.count(tally.starts, "simulated starts")
    trials.count(tally.times.total(), "simulated faults")


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_every_fault_of_the_model_occurs_within_600_seeds() -> None:
    """A fault that no longer occurs would prove nothing, and its absence would not be noticed."""
    known = {
        *REQUEST_FAULTS,
        *WATCH_FAULTS,
        *START_FAULTS,
        *STEP_FAULTS,
        *MANUAL_EDITS,
        *(each.__name__.replace("_", " ") for each in FAULTS),
    }
    times = play(range(1, 601)).times
    assert known | {"elector dies while it holds"} <= times.keys()


def test_a_supervisor_stopped_while_it_kills_its_tree_causes_no_overlap(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With clocks as far apart as is allowed. Were two sweeps longer than the kill budget, there would be one."""
    seed = 1532417064
    assert schedule(seed, "lease, client-go").play_or_fail() is None
    monkeypatch.setattr(supervisor, "KILLS_FOR", 1)
    assert isinstance(schedule(seed, "lease, client-go").play_or_fail(), OverlapError)


@pytest.mark.parametrize(
    ("seed", "kind"),
    [
        (2083663506, "lease, client-go"),
        (2083754545, "lease, client-go"),
        (2083735558, "to lease, client-go"),
        (2944935922, "from annotation, client-go"),
        (2945167215, "annotation, client-go"),
    ],
)
def test_an_overlap_of_client_go_with_itself_is_no_failure_of_kleader(seed: int, kind: str) -> None:
    """It may write the same second again, long after, or by a clock set back; or, in the model alone, over garbage."""
    assert schedule(seed, kind).play_or_fail() is None


@pytest.mark.parametrize(
    ("seed", "kind"), [(2426325091, "from annotation, client-go"), (2426375688, "multilock, any length")]
)
def test_a_candidate_that_the_model_keeps_from_leading_is_no_failure(seed: int, kind: str) -> None:
    """It kills an elector after the last fault, or lets no candidate start after a deletion."""
    assert schedule(seed, kind).play_or_fail() is None


def test_an_overlap_after_an_operator_deletes_a_config_map_during_its_creation_is_no_failure() -> None:
    """It has written the ConfigMap, and the answer that says so is on its way: it leads on that, for a moment."""
    assert schedule(3065477542, "leader-for-life").play_or_fail() is None


def test_a_secondary_held_and_deleted_between_the_two_writes_is_waited_for() -> None:
    """It was missing when the first was written, another's when that was done, and deleted before it was created."""
    assert schedule(2945218166, "to lease").play_or_fail() is None


@pytest.mark.parametrize(
    ("seed", "kind"),
    [(9104400, "standbys"), (9108137, "coordinated"), (9229465, "to lease, any length")],
    ids=["twice, and taken in between", "named over what is malformed", "half of a multilock"],
)
def test_a_lock_that_an_operator_recreates_without_a_record_is_not_free(seed: int, kind: str) -> None:
    assert schedule(seed, kind).play_or_fail() is None


@pytest.mark.parametrize(
    ("seed", "kind"),
    [(216, "lease"), (43, "lease, any length"), (480, "to lease, any length"), (564, "coordinated")],
    ids=["restored and stolen", "a shorter record", "the same record again", "named over no record"],
)
def test_a_leader_whose_renewals_an_operator_has_hidden_is_waited_for(seed: int, kind: str) -> None:
    assert schedule(seed, kind).play_or_fail() is None


def test_a_candidates_old_record_restored_by_an_operator_begins_no_term() -> None:
    """To an earlier state, over a holder that took it unobserved, while a response is missing."""
    assert schedule(965951680, "annotation").play_or_fail() is None


def test_a_candidates_old_record_restored_in_one_object_of_a_multilock_begins_no_term() -> None:
    """The other half was written just now."""
    assert schedule(370866742, "to lease, any length").play_or_fail() is None


def test_a_leader_whose_lock_was_recreated_for_it_steps_down_for_a_preferred_candidate() -> None:
    """It never did: its one read was of a lock without a holder, and every write after it succeeded."""
    assert schedule(499979177429, "coordinated").play_or_fail() is None


def test_a_candidates_old_record_restored_by_an_operator_is_not_released() -> None:
    """Its candidate was stopped, asked to end, and did not know of the leader; the control plane then named a third."""
    assert schedule(1901949371, "coordinated").play_or_fail() is None


def test_a_lock_that_an_operator_takes_from_its_holder_is_not_acquired_sooner() -> None:
    """A creation had no answer, nor had any reading until then."""
    assert schedule(586606187105, "from annotation").play_or_fail() is None


def test_an_overlap_after_an_operator_deletes_a_lock_unobserved_is_no_failure() -> None:
    """The Pod had it before too: a candidate that was stopped knew of that, and hears late that it was given up."""
    assert schedule(586606197637, "leader-for-life").play_or_fail() is None


def test_a_leader_past_its_deadline_sends_no_request() -> None:
    """Its elector was stopped while its lock was recreated for it."""
    assert schedule(965844014, "coordinated").play_or_fail() is None


@pytest.mark.slow
def test_a_seed_replays_its_schedule_exactly_in_another_process() -> None:
    stories = [_told_with(hash_seed) for hash_seed in ("1", "2")]
    assert stories[0] == stories[1]
    assert "STARTS" in stories[0]


def _told_with(hash_seed: str) -> str:
    argv = [sys.executable, "-m", "tests.simulation", "--tell", f"--seed={SEED}", f"--schedules={len(KINDS)}"]
    env = {**os.environ, "PYTHONHASHSEED": hash_seed}
    return subprocess.run(argv, env=env, capture_output=True, text=True, check=True).stdout


@pytest.mark.slow
def test_a_reported_failure_needs_each_of_its_faults() -> None:
    def overlaps(numbers: Iterable[int]) -> bool:
        world = schedule(seed, "lease")
        return isinstance(world.play_or_fail(frozenset(range(len(world.plan))).difference(numbers)), OverlapError)

    row = next(each for each in TABLE if each.keeps == "rule 4: a term counts from before its request")
    with row.taken_away():
        seed = next(seed for seed in range(1, 1000) if isinstance(schedule(seed, "lease").play_or_fail(), OverlapError))
        needed = fewest(seed, "lease", OverlapError)
        assert overlaps(needed)
        assert not any(overlaps(set(needed) - {number}) for number in needed)
