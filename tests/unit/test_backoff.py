"""How long an attempt that failed waits for the next one."""

from __future__ import annotations

from kleader.backoff import Backoff

RESTARTS = (1.0, 30.0, 60.0)  # initial, maximum, steady


def test_each_pause_is_twice_the_last_up_to_half_a_minute() -> None:
    backoff = Backoff(*RESTARTS)
    assert [backoff.pause(0.1) for _ in range(7)] == [1, 2, 4, 8, 16, 30, 30]
    assert {backoff.pause(59.9) for _ in range(2000)} == {30}


def test_after_a_minute_of_running_the_pauses_start_over() -> None:
    backoff = Backoff(*RESTARTS)
    assert [backoff.pause(run) for run in (0, 0, 0, 60, 0, 0, 3600, 61, 1)] == [1, 2, 4, 1, 2, 4, 1, 1, 2]


def test_after_a_success_the_pauses_start_over() -> None:
    backoff = Backoff(0.5, 30.0)
    before = [backoff.pause() for _ in range(3)]
    backoff.reset()
    assert (before, backoff.pause()) == ([0.5, 1, 2], 0.5)
