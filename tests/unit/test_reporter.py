"""What is told of a Status that may be old, and what is worth being told."""

from __future__ import annotations

import json
import math
import os
import threading
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import click
import pytest
from prometheus_client.parser import text_string_to_metric_families as parsed

from kleader.cli.types import Address
from kleader.election import events as e
from kleader.election.state import Phase, State
from kleader.elector.measure import measured
from kleader.link import messages as m
from kleader.log import Log
from kleader.reporter import answers, metrics
from kleader.reporter.file import StateFile
from tests.support.election import TERM, candidate
from tests.support.processes import wait_until

if TYPE_CHECKING:
    from pathlib import Path

D = 15.0
LEADS = m.Status(
    term=1,
    at=100.0,
    role="leader",
    held=True,
    leads=True,
    lock="lease",
    namespace="jobs",
    name="beat",
    identity="me",
    leader="me",
    token="7",
    transitions=3,
    acquired=1,
    renewed=100.0,
    stop_at=110.0,
    kill_at=113.0,
    pid=42,
    start=1,
    read=True,
    transitions_seen=2,
    restarts=4,
    electors=5,
    slow=6,
    reconnects=8,
    renewals=[0, 2, 0, 1, 0, 0, 0, 0, 0, 0, 1],
    renewing=9.5,
)
WAITS = LEADS._replace(role="candidate", held=False, leads=False, leader="other", renewed=math.inf, kill_at=math.inf)


def test_a_status_goes_over_the_link() -> None:
    for each in (LEADS, WAITS):
        assert m.decode(m.encode(each)) == each


@pytest.mark.parametrize(
    ("told", "now", "status"),
    [
        (LEADS, 100.0, 200),
        (LEADS, 100.0 + D + 20, 200),
        (LEADS, 100.1 + D + 20, 503),
        (LEADS._replace(role="stopping"), 100.1 + D + 20, 503),
        (LEADS._replace(role="sweeping", held=False), 100.1 + D + 20, 503),
        (LEADS._replace(renewed=math.inf), 1e9, 200),
        (WAITS, 1e9, 200),
    ],
)
def test_unhealthy_is_who_should_have_ended_twenty_seconds_ago_alone(told: m.Status, now: float, status: int) -> None:
    """client-go's TestLeaderElectionHealthChecker: expired within the tolerance is ok, another's lease too."""
    assert answers.healthz(told, D, now).status == status


def test_who_leads_does_so_until_its_deadline_though_nobody_says_that_it_is_over() -> None:
    def told(now: float) -> dict[str, Any]:
        return dict(json.loads(answers.leader(LEADS, now).body))

    assert told(112.0) == {
        "name": "me",
        "identity": "me",
        "role": "leader",
        "leading": True,
        "token": "7",
        "secondsLeft": 1.0,
    }
    assert told(113.0)["leading"] is False
    assert told(113.0)["name"] == ""
    assert answers.state(LEADS, 113.0)["leading"] is False


def test_readiness_does_not_follow_leadership() -> None:
    assert answers.readyz(WAITS).status == answers.readyz(LEADS).status == 200
    assert answers.readyz(WAITS._replace(read=False)).status == 503


def samples(told: m.Status) -> dict[str, float]:
    text = metrics.answer(told, 104.0, "").body.decode()
    found = [sample for family in parsed(text) for sample in family.samples]
    assert {sample.labels["name"] for sample in found} == {"beat"}
    return {f"{each.name}{each.labels.get('le', '')}": each.value for each in found}


def test_the_metrics_are_what_was_told() -> None:
    found = samples(LEADS)
    took = {
        name.removeprefix("kleader_renewal_duration_seconds_"): found.pop(name) for name in [*found] if "dur" in name
    }
    assert found == {
        "leader_election_master_status": 1,
        "leader_election_slowpath_total": 6,
        "kleader_transitions_total": 2,
        "kleader_command_restarts_total": 4,
        "kleader_elector_restarts_total": 5,
        "kleader_watch_reconnects_total": 8,
        "kleader_time_since_renewal_seconds": 4,
    }
    assert took["count"] == took["bucket+Inf"] == 4
    assert took["sum"] == 9.5
    assert took["bucket0.05"] == took["bucket5.0"] == 3


@pytest.mark.parametrize("version", ["abc", "1.0.x", "", "9" * 5000, "1.0.0\r\nX: y", "\0"])
@pytest.mark.parametrize("kind", ["text/plain", "application/openmetrics-text"])
def test_a_format_that_nobody_knows_is_answered_in_one_that_there_is(kind: str, version: str) -> None:
    answer = metrics.answer(LEADS, 104.0, f"{kind}; version={version}")
    assert answer.body
    assert answer.content.isprintable()


@pytest.mark.parametrize(
    ("lock", "absent"),
    [
        ("lease", ()),
        ("leader-for-life", ("renewal", "slowpath")),
        ("file", ("renewal", "slowpath", "watch")),
        ("", ("renewal", "slowpath", "watch", "master", "elector", "transitions")),
    ],
)
def test_what_a_lock_has_not_is_absent(lock: str, absent: tuple[str, ...]) -> None:
    every = samples(LEADS)
    left = {name for name in every if not any(map(name.__contains__, absent))}
    assert set(samples(LEADS._replace(lock=lock))) == left
    assert set(samples(WAITS)) == set(every) - {"kleader_time_since_renewal_seconds"}


def test_a_disk_that_hangs_keeps_nobody_waiting_and_the_newest_state_wins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hangs, reached, rename = threading.Event(), threading.Event(), os.rename

    def slow(*paths: str) -> None:
        reached.set()
        assert hangs.wait(60)
        rename(*paths)

    monkeypatch.setattr(os, "rename", slow)
    path = tmp_path / "state"
    file = StateFile(str(path), Log(verbosity=-1))
    file.put({"role": 1})
    assert reached.wait(60)
    file.put({"role": 2})
    file.put({"role": 3})
    assert not path.exists()
    hangs.set()
    wait_until(lambda: path.exists() and json.loads(path.read_text()) == {"role": 3}, "the newest")
    hangs.clear()
    reached.clear()
    file.put({"role": 4})
    assert reached.wait(60)
    file.remove()  # returns, though it cannot be done
    assert json.loads(path.read_text()) == {"role": 3}
    hangs.set()
    wait_until(lambda: not path.exists(), "the removal")


def test_a_link_that_somebody_put_where_the_file_is_made_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "state.tmp").symlink_to(tmp_path / "other")
    StateFile(str(tmp_path / "state"), Log(verbosity=-1)).put({})
    wait_until((tmp_path / "state").exists, "the state")
    assert not (tmp_path / "other").exists()


LEADING = State(candidate(), TERM, phase=Phase.LEADING, known=True, t0=10.0)
WAITING = State(candidate(), TERM)
ANY = cast("Any", None)


@pytest.mark.parametrize(
    ("before", "event", "after", "told"),
    [
        (LEADING, e.Wrote(ANY, ANY), replace(LEADING, t0=11.0), m.Measured(1, False, 0, 0, 0.5)),  # noqa: FBT003
        (LEADING, e.Got(ANY, ANY), LEADING, m.Measured(1, False, 1, 0, 0.0)),  # noqa: FBT003
        (LEADING, e.WatchEnded(), LEADING, m.Measured(1, False, 0, 1, 0.0)),  # noqa: FBT003
        (WAITING, e.WatchEnded(begun=False), WAITING, None),
        (WAITING, e.Got(ANY, ANY), replace(WAITING, known=True), m.Measured(1, True, 0, 0, 0.0)),  # noqa: FBT003
        (WAITING, e.Wrote(ANY, ANY), LEADING, m.Measured(1, True, 0, 0, 0.0)),  # noqa: FBT003
        (LEADING, e.Woke(), LEADING, None),
    ],
)
def test_what_is_measured(before: State, event: e.Event, after: State, told: m.Measured | None) -> None:
    """The first write of a term is no renewal, and who waits has no slow path."""
    assert measured(1, before, event, after, 11.5) == told


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("127.0.0.1:80", ("127.0.0.1", 80)),
        (":8080", ("", 8080)),
        ("[::1]:0", ("::1", 0)),
        ("localhost:65535", ("127.0.0.1", 65535)),
    ],
)
def test_an_address_is_understood(given: str, meant: tuple[str, int]) -> None:
    assert Address().convert(given, None, None) == meant


BAD = [
    "",
    "80",
    "127.0.0.1",
    "127.0.0.1:",
    "::1:80",
    "[::1]",
    "a.b:80",
    ":65536",
    ":-1",
    ":\u0663",
    "1.2.3.4\0:1",
    "[]:1",
]


@pytest.mark.parametrize("given", BAD)
def test_what_is_no_address_is_refused(given: str) -> None:
    with pytest.raises(click.BadParameter, match="is no address"):
        Address().convert(given, None, None)
