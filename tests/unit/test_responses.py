"""What an API server's answers mean, as far as it is arithmetic."""

from __future__ import annotations

import json
import random
import time

import pytest

from kleader.election.events import Kind
from kleader.kube.connection import Response
from kleader.kube.responses import Server, clock_skew, error_of

NOW = 1_800_000_000


def date(at: float) -> str:
    return time.strftime("%a, %d %b %Y %H:%M:%S GMT", time.gmtime(at))


def test_true_clock_skew_is_always_within_the_error() -> None:
    rng = random.Random(1)  # noqa: S311 - replayed from its seed
    for _ in range(1000):
        ahead, sent = rng.uniform(-5000, 5000), NOW + rng.uniform(0, 1e8)
        there, back = rng.uniform(0, 3), rng.uniform(0, 3)
        found = clock_skew(date(sent + there + ahead), sent, sent + there + back)
        assert found
        assert abs(found.seconds - ahead) <= found.error
        assert found.error == pytest.approx((1 + there + back) / 2)


STATUS = json.dumps({"kind": "Status", "message": "busy"}).encode()


@pytest.mark.parametrize("body", [STATUS, b"a proxy's own words"])
@pytest.mark.parametrize(("status", "kind"), [
    (429, Kind.THROTTLED), (500, Kind.UNREACHABLE), (503, Kind.UNREACHABLE), (504, Kind.UNREACHABLE),
])  # fmt: skip
def test_retry_after_counts_on_a_429_and_on_every_5xx_as_in_client_go(status: int, kind: Kind, body: bytes) -> None:
    failure = error_of(Response(status, {"retry-after": "7"}, body), "/x", Server("it", "a", "b")).failure
    assert (failure.kind, failure.retry_after) == (kind, 7)


@pytest.mark.parametrize(("status", "header", "seconds"), [
    (404, "7", 0), (409, "7", 0), (503, "Wed, 21 Oct 2026 07:28:00 GMT", 0), (503, "-1", 0), (503, "", 0),
    (429, "soon", 1), (503, "9" * 400, 3600),
])  # fmt: skip
def test_retry_after_must_be_whole_seconds_and_is_capped(status: int, header: str, seconds: float) -> None:
    answer = Response(status, {"retry-after": header} if header else {}, STATUS)
    assert error_of(answer, "/x", Server("it", "a", "b")).failure.retry_after == seconds


@pytest.mark.parametrize(
    "text", ["", "now", "Sun, 06 Nov 1994 08:49:37", "Sun, 36 Nov 1994 08:49:37 GMT", "Sun, 06 Xyz 1994 08:49:37 GMT"]
)
def test_invalid_date_gives_no_clock_skew(text: str) -> None:
    assert clock_skew(text, NOW, NOW) is None
