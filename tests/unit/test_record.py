"""The leader election record: written to the letter as client-go does, read leniently where there is no doubt."""

from __future__ import annotations

import pytest

from kleader.election.record import (
    MAX_DURATION_SECONDS,
    MAX_HOLDER_CHARS,
    SECOND,
    MalformedRecordError,
    Record,
    fresh_time,
    from_annotation,
    from_lease_spec,
    micro_time,
    parse_time,
    to_lease_spec,
)

NOV_21 = 1_795_251_900 * SECOND  # 2026-11-21T09:05:00Z


@pytest.mark.parametrize(
    "record",
    [
        Record("me", 15, NOV_21, NOV_21 + 2 * SECOND, 3),
        Record("", 1, NOV_21 + 1, NOV_21 + 999_999, 2**31 - 1),
        Record("a holder, with spaces / and ünïcode", 1, 0, 0, 0),
        Record(),
    ],
)
def test_a_record_survives_the_round_trip_through_a_lease_spec(record: Record) -> None:
    assert from_lease_spec(to_lease_spec(record)) == record


def test_a_lease_spec_has_the_fields_that_client_go_writes() -> None:
    assert to_lease_spec(Record("me", 15, NOV_21, NOV_21 + 2_000_123, 3)) == {
        "holderIdentity": "me",
        "leaseDurationSeconds": 15,
        "acquireTime": "2026-11-21T09:05:00.000000Z",
        "renewTime": "2026-11-21T09:05:02.000123Z",
        "leaseTransitions": 3,
    }


@pytest.mark.parametrize("spec", [None, {}, {"holderIdentity": None}, {"holderIdentity": "", "strategy": "x"}])
def test_a_lease_without_a_record_is_free(spec: object) -> None:
    assert from_lease_spec(spec) == Record()


def test_a_record_of_the_python_client_is_read() -> None:
    spec = {
        "holderIdentity": "me",
        "leaseDurationSeconds": "15",
        "acquireTime": "2026-11-21 09:05:00",
        "renewTime": "2026-11-21 09:05:00.5",
        "leaseTransitions": "3",
    }
    assert from_lease_spec(spec) == Record("me", 15, NOV_21, NOV_21 + SECOND // 2, 3)


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ([], "spec"),
        ("held", "spec"),
        ({"holderIdentity": 7}, "spec.holderIdentity"),
        ({"holderIdentity": ["me"]}, "spec.holderIdentity"),
        ({"holderIdentity": "x" * (MAX_HOLDER_CHARS + 1), "leaseDurationSeconds": 15}, "spec.holderIdentity"),
        ({"holderIdentity": "me"}, "spec.leaseDurationSeconds"),
        ({"holderIdentity": "me", "leaseDurationSeconds": None}, "spec.leaseDurationSeconds"),
        ({"holderIdentity": "me", "leaseDurationSeconds": 0}, "spec.leaseDurationSeconds"),
        ({"holderIdentity": "me", "leaseDurationSeconds": -15}, "spec.leaseDurationSeconds"),
        ({"holderIdentity": "me", "leaseDurationSeconds": "-15"}, "spec.leaseDurationSeconds"),
        ({"holderIdentity": "me", "leaseDurationSeconds": 15.0}, "spec.leaseDurationSeconds"),
        ({"holderIdentity": "me", "leaseDurationSeconds": True}, "spec.leaseDurationSeconds"),
        ({"holderIdentity": "me", "leaseDurationSeconds": MAX_DURATION_SECONDS + 1}, "spec.leaseDurationSeconds"),
        ({"leaseTransitions": -1}, "spec.leaseTransitions"),
        ({"leaseTransitions": "many"}, "spec.leaseTransitions"),
        ({"leaseTransitions": "٣"}, "spec.leaseTransitions"),
        ({"acquireTime": 1795251900}, "spec.acquireTime"),
        ({"renewTime": "yesterday"}, "spec.renewTime"),
        ({"renewTime": "2026-13-01T00:00:00Z"}, "spec.renewTime"),
        ({"renewTime": "9999-12-31T23:59:59-01:00"}, "spec.renewTime"),
        ({"renewTime": ""}, "spec.renewTime"),
    ],
)
def test_an_ambiguous_record_is_malformed_and_the_error_names_the_field(spec: object, field: str) -> None:
    with pytest.raises(MalformedRecordError, match=rf"^{field} (is|has) "):
        from_lease_spec(spec)


@pytest.mark.parametrize("duration", [None, 0, -1, "x", 1.5])
def test_the_duration_of_a_free_lock_is_ignored(duration: object) -> None:
    assert from_lease_spec({"holderIdentity": "", "leaseDurationSeconds": duration}).holder == ""


@pytest.mark.parametrize(
    "text",
    [
        "2026-11-21T09:05:00Z",
        "2026-11-21t09:05:00z",
        "2026-11-21T09:05:00.000000Z",
        "2026-11-21T10:05:00+01:00",
        "2026-11-21T09:05:00.0000009Z",
        "2026-11-21 09:05:00",
    ],
)
def test_every_spelling_of_an_instant_is_the_same_instant(text: str) -> None:
    assert parse_time(text) == NOV_21


@pytest.mark.parametrize("instant", [NOV_21, NOV_21 + 1, 0, -1, parse_time("0001-01-01T00:00:00Z")])
def test_a_micro_time_has_fixed_digits_and_reads_back(instant: int) -> None:
    text = micro_time(instant)
    assert len(text) == len("2026-11-21T09:05:00.000000Z")
    assert parse_time(text) == instant


@pytest.mark.parametrize("ahead", [-3600, -1.1, -1, -0.9, 0, 0.4, 1, 3599])
def test_a_new_time_is_at_least_a_second_later_and_never_behind_the_clock(ahead: float) -> None:
    previous = NOV_21 + round(ahead * SECOND)
    assert fresh_time(previous, NOV_21) == max(NOV_21, previous + SECOND)


@pytest.mark.parametrize("previous", [None, NOV_21 + 3601 * SECOND, parse_time("9999-12-31T23:59:59Z")])
def test_a_new_time_does_not_follow_a_clock_that_is_hours_ahead(previous: int | None) -> None:
    assert fresh_time(previous, NOV_21) == NOV_21


@pytest.mark.parametrize("duration", [10**400, 10**9, -1, 0, "15", 1.5, None])
def test_an_endless_duration_without_a_holder_is_ignored(duration: object) -> None:
    """A candidate that later finds the lock deleted would add it to a clock."""
    assert from_lease_spec({"holderIdentity": "", "leaseDurationSeconds": duration}).duration == 0


NOT_JSON = "it is not JSON"
NO_OBJECT = "it is not a JSON object"


AMBIGUOUS = {
    "": NOT_JSON,
    " ": NOT_JSON,
    "me": NOT_JSON,
    "{": NOT_JSON,
    '{"holderIdentity":"a"': NOT_JSON,
    "[" * 100_000: NOT_JSON,
    "[]": NO_OBJECT,
    "5": NO_OBJECT,
    "true": NO_OBJECT,
    '"me"': NO_OBJECT,
    '{"holderIdentity":5}': "holderIdentity is not a string",
    '{"holderIdentity":["a"],"leaseDurationSeconds":15}': "holderIdentity is not a string",
    '{"holderIdentity":"a"}': "leaseDurationSeconds is missing",
    '{"holderIdentity":"a","leaseDurationSeconds":null}': "leaseDurationSeconds is missing",
    '{"holderIdentity":"a","leaseDurationSeconds":0}': "leaseDurationSeconds is 0",
    '{"holderIdentity":"a","leaseDurationSeconds":-15}': "leaseDurationSeconds is -15",
    '{"holderIdentity":"a","leaseDurationSeconds":1e9}': "leaseDurationSeconds is not a whole number",
    '{"holderIdentity":"a","leaseDurationSeconds":1000000000}': "leaseDurationSeconds is 1000000000",
    '{"holderIdentity":"a","leaseDurationSeconds":1.5}': "leaseDurationSeconds is not a whole number",
    '{"holderIdentity":"a","leaseDurationSeconds":NaN}': "it is not JSON",
    '{"holderIdentity":"a","leaseDurationSeconds":true}': "leaseDurationSeconds is not a whole number",
    '{"holderIdentity":"a","leaseDurationSeconds":"15s"}': "leaseDurationSeconds is not a whole number",
    '{"holderIdentity":"a","leaseDurationSeconds":15,"renewTime":5}': "renewTime is not a time",
    '{"holderIdentity":"a","leaseDurationSeconds":15,"renewTime":""}': "renewTime is not an RFC 3339 time",
    '{"holderIdentity":"","acquireTime":"yesterday"}': "acquireTime is not an RFC 3339 time",
    '{"holderIdentity":"a","leaseDurationSeconds":15,"leaderTransitions":-1}': "leaderTransitions is -1",
    '{"holderIdentity":"","leaderTransitions":"many"}': "leaderTransitions is not a whole number",
    f'{{"holderIdentity":"{"h" * 200_000}","leaseDurationSeconds":15}}': "holderIdentity has 200000 characters",
}


def test_an_ambiguous_annotation_is_malformed_and_the_error_names_the_field() -> None:
    for text, sentence in AMBIGUOUS.items():
        with pytest.raises(MalformedRecordError) as error:
            from_annotation(text)
        assert str(error.value).startswith(sentence), text[:100]
        assert len(str(error.value)) < 500


@pytest.mark.parametrize(
    ("text", "record"),
    [
        ("null", Record()),
        ("{}", Record()),
        ('{"holderIdentity":null}', Record()),
        ('{"holderIdentity":"","leaseDurationSeconds":-1}', Record()),  # of nobody it says nothing
        ('{"holderIdentity":"a","leaseDurationSeconds":"15"}', Record("a", 15)),
        ('{"HOLDERIDENTITY":"a","leasedurationseconds":15}', Record("a", 15)),
        ('{"holderIdentity":"a","leaseDurationSeconds":15,"strategy":"x","preferredHolder":"b"}', Record("a", 15)),
        (
            '{"holderIdentity":"a","leaseDurationSeconds":15,"renewTime":"2026-11-21T10:05:00+01:00"}',
            Record("a", 15, None, NOV_21),
        ),
        (
            '{"holderIdentity":"a","leaseDurationSeconds":15,"renewTime":"2026-11-21 09:05:00.5"}',
            Record("a", 15, None, NOV_21 + SECOND // 2),
        ),
    ],
    ids=["null", "empty", "no holder", "free", "text", "case", "newer", "zone", "no zone"],
)
def test_an_unambiguous_annotation_of_another_writer_is_read(text: str, record: Record) -> None:
    assert from_annotation(text) == record
