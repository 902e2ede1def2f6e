"""What an API server's answers mean, as far as it is arithmetic."""

from __future__ import annotations

import random
import time

import pytest

from kleader.locks.answers import skew

NOW = 1_800_000_000


def date(at: float) -> str:
    return time.strftime("%a, %d %b %Y %H:%M:%S GMT", time.gmtime(at))


def test_the_true_skew_is_within_the_error_wherever_in_its_second_and_its_way_an_answer_was_dated() -> None:
    rng = random.Random(1)  # noqa: S311 - replayed from its seed
    for _ in range(1000):
        ahead, sent = rng.uniform(-5000, 5000), NOW + rng.uniform(0, 1e8)
        there, back = rng.uniform(0, 3), rng.uniform(0, 3)
        found = skew(date(sent + there + ahead), sent, sent + there + back)
        assert found
        assert abs(found.seconds - ahead) <= found.error
        assert found.error == pytest.approx((1 + there + back) / 2)


@pytest.mark.parametrize(
    "text", ["", "now", "Sun, 06 Nov 1994 08:49:37", "Sun, 36 Nov 1994 08:49:37 GMT", "Sun, 06 Xyz 1994 08:49:37 GMT"]
)
def test_what_is_no_date_tells_nothing(text: str) -> None:
    assert skew(text, NOW, NOW) is None
