"""Durations as Go reads and writes them."""

from __future__ import annotations

import pytest

from kleader.election.duration import parse, text


@pytest.mark.parametrize(
    ("written", "seconds"),
    [
        ("0", 0),
        ("15s", 15),
        ("+15s", 15),
        ("1m30s", 90),
        ("1.5h", 5400),
        (".5s", 0.5),
        ("1.s", 1),
        ("2h0m5s", 7205),
        ("1s1s", 2),
        ("500ms", 0.5),
        ("10us", 1e-5),
        ("10µs", 1e-5),
        ("10μs", 1e-5),
        ("0s", 0),
        ("100ns", 1e-7),
    ],
)
def test_durations_that_go_accepts_are_accepted(written: str, seconds: float) -> None:
    assert parse(written) == pytest.approx(seconds)


@pytest.mark.parametrize(
    "written",
    [
        "",
        "+",
        "15",
        "s",
        ".s",
        "15 s",
        " 15s",
        "15s ",
        "1d",
        "15S",
        "1.5.5s",
        "1e3s",
        "\N{FULLWIDTH DIGIT ONE}s",
        "x15s",
        "1s-1s",
        "++1s",
    ],
)
def test_durations_that_go_refuses_are_refused_with_a_valid_spelling(written: str) -> None:
    with pytest.raises(ValueError, match=r"is not a duration: write it as 15s, 500ms or 1m30s$"):
        parse(written)


@pytest.mark.parametrize("written", ["-1s", "-0", "-"])
def test_a_negative_duration_is_refused_as_negative(written: str) -> None:
    with pytest.raises(ValueError, match=r"is negative$"):
        parse(written)


@pytest.mark.parametrize("written", ["2562048h", "9223372037s", "9" * 400 + "h"])
def test_a_duration_longer_than_gos_longest_is_refused(written: str) -> None:
    with pytest.raises(ValueError, match="longer than Go's longest"):
        parse(written)


@pytest.mark.parametrize(
    ("seconds", "written"),
    [
        (0, "0s"),
        (0.5, "500ms"),
        (0.0015, "1.5ms"),
        (1, "1s"),
        (2.4, "2.4s"),
        (59.9999, "1m0s"),
        (90, "1m30s"),
        (3600, "1h0m0s"),
        (7205.25, "2h0m5.25s"),
        (-0.5, "-500ms"),
    ],
)
def test_a_duration_is_written_as_a_person_reads_it(seconds: float, written: str) -> None:
    assert text(seconds) == written


@pytest.mark.parametrize("seconds", [0, 0.001, 0.999, 1.25, 15, 61.5, 86400])
def test_a_written_duration_reads_back(seconds: float) -> None:
    assert parse(text(seconds)) == pytest.approx(seconds)
