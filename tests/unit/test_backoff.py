"""How long a command that ended waits for its next start."""

from __future__ import annotations

from kleader.supervisor.command import Backoff


def test_each_pause_is_twice_the_last_up_to_half_a_minute_for_good() -> None:
    backoff = Backoff()
    assert [backoff.after(0.1) for _ in range(7)] == [1, 2, 4, 8, 16, 30, 30]
    assert {backoff.after(59.9) for _ in range(2000)} == {30}


def test_after_a_minute_of_running_the_pauses_start_anew() -> None:
    backoff = Backoff()
    assert [backoff.after(run) for run in (0, 0, 0, 60, 0, 0, 3600, 61, 1)] == [1, 2, 4, 1, 2, 4, 1, 1, 2]
