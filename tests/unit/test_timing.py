"""The arithmetic that the promise rests on."""

from __future__ import annotations

import pytest

from kleader.election.timing import Timing, TimingError, choose


def test_the_defaults_fill_the_lease_to_the_last_half_second() -> None:
    timing = choose(15, 10, 2)
    assert timing == Timing(15, 10, 2, 3, 0.5, 1.5)
    assert timing.renew_deadline + timing.grace + timing.kill + timing.skew == timing.lease_duration


def test_stop_and_kill_count_from_before_the_request() -> None:
    timing = choose(15, 10, 2)
    assert (timing.stop_at(100), timing.kill_at(100)) == (110, 113)


def test_a_command_is_dead_before_a_takeover_with_both_clocks_five_percent_off() -> None:
    timing = choose(15, 10, 2)
    dead_on_a_slow_clock = (timing.kill_at(0) + timing.kill) / 0.95
    taken_on_a_fast_clock = timing.lease_duration / 1.05
    assert dead_on_a_slow_clock < taken_on_a_fast_clock


def test_a_request_may_take_half_the_renew_deadline() -> None:
    assert choose(15, 10, 2).request_timeout == 5


@pytest.mark.parametrize(
    ("lease", "deadline", "period", "message"),
    [
        (0.9, 0.5, 0.1, "whole seconds are advertised, so it must be at least 1s"),
        (10, 10, 2, "lease duration 10s must be greater than renew deadline 10s"),
        (9, 10, 2, "lease duration 9s must be greater than renew deadline 10s"),
        (15, 2.4, 2, "renew deadline 2.4s must be greater than 1.2 x retry period 2s = 2.4s"),
        (15, 1, 2, "renew deadline 1s must be greater than 1.2 x retry period 2s = 2.4s"),
        (15, 10, 0.9, "retry period 900ms must be at least 1s"),
    ],
)
def test_client_gos_rules_and_the_whole_second_hold(lease: float, deadline: float, period: float, message: str) -> None:
    with pytest.raises(TimingError, match=message):
        choose(lease, deadline, period)


@pytest.mark.parametrize(
    ("lease", "deadline", "given", "the_sum"),
    [
        (15, 14, {}, "14s + loss grace 0s + kill budget 500ms + skew 1.5s = 16s exceeds"),
        (15.9, 13.5, {}, "13.5s + loss grace 0s + kill budget 500ms + skew 1.5s = 15.5s exceeds"),
        (15, 10, {"grace": 3.5}, "10s + loss grace 3.5s + kill budget 500ms + skew 1.5s = 15.5s exceeds"),
        (15, 10, {"kill": 4}, "10s + loss grace 0s + kill budget 4s + skew 1.5s = 15.5s exceeds"),
        (15, 10, {"grace": 3, "skew": 2}, "10s + loss grace 3s + kill budget 500ms + skew 2s = 15.5s exceeds"),
    ],
)
def test_timings_that_exceed_the_lease_are_refused_with_their_sum(
    lease: float, deadline: float, given: dict[str, float], the_sum: str
) -> None:
    with pytest.raises(TimingError) as refused:
        choose(lease, deadline, 2, **given)
    assert f"renew deadline {the_sum} the lease duration 15s" in str(refused.value)


@pytest.mark.parametrize(
    ("lease", "deadline", "period", "grace"), [(15, 11, 2, 2), (15, 13, 2, 0), (60, 40, 5, 3), (4, 2, 1, 1.1)]
)
def test_the_grace_is_three_seconds_or_the_rest_of_the_lease(
    lease: int, deadline: float, period: float, grace: float
) -> None:
    assert choose(lease, deadline, period).grace == pytest.approx(grace)


def test_an_explicit_grace_kill_budget_and_skew_are_kept() -> None:
    assert choose(15, 10, 2, grace=0, kill=1, skew=0.5) == Timing(15, 10, 2, 0, 1, 0.5)


def test_whole_seconds_are_advertised() -> None:
    assert choose(15.9, 10, 2).lease_duration == 15
