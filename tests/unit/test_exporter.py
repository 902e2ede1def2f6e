"""What the exporter makes of a status that may be old, and what the supervisor measures for it."""

from __future__ import annotations

import json
import math
import os
import threading
from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import click
import pytest
from prometheus_client.parser import text_string_to_metric_families as parsed

from kleader import system
from kleader.cli.types import listen_address
from kleader.election import events as e
from kleader.election.state import Phase, State
from kleader.elector.measure import measured
from kleader.exporter import health, metrics
from kleader.exporter.main import Exporter
from kleader.exporter.state_file import StateFile, state_of
from kleader.ipc import messages as m
from kleader.log import Log
from tests.support.election import TERM, candidate
from tests.support.processes import wait_until

if TYPE_CHECKING:
    from pathlib import Path

    from kleader.ipc.channel import Channel

D = 15.0
LEADS = m.Status(
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


def test_a_status_is_received_as_it_was_sent() -> None:
    for each in (LEADS, WAITS):
        assert m.decode(m.encode(m.Message(1, each))) == m.Message(1, each)


@pytest.mark.parametrize(
    ("last_status", "now", "code"),
    [
        (LEADS, 100.0, 200),
        (LEADS, 100.0 + D + 20, 200),
        (LEADS, 100.1 + D + 20, 503),
        (LEADS._replace(role="stopping"), 100.1 + D + 20, 503),
        (LEADS._replace(role="sweeping", held=False), 100.1 + D + 20, 503),
        (LEADS._replace(renewed=math.inf), 1e9, 200),
        (WAITS, 1e9, 200),
        (WAITS._replace(silent_since=100.0), 100.0 + D + 20, 200),
        (WAITS._replace(silent_since=100.0), 100.1 + D + 20, 503),
        (LEADS._replace(renewed=math.inf, silent_since=100.0), 100.1 + D + 20, 503),
    ],
)
def test_healthz_fails_twenty_seconds_after_an_expiry_or_a_silent_elector(
    last_status: m.Status, now: float, code: int
) -> None:
    """client-go's TestLeaderElectionHealthChecker: expired within the tolerance is ok, another's lease too."""
    assert health.healthz(last_status, D, now).status == code


@pytest.mark.parametrize(("renewed", "status"), [(0.0, 200), (-D - 21, 503)])
def test_healthz_answers_at_the_path_of_kube_controller_managers_check(renewed: float, status: int) -> None:
    """https://kubernetes.io/docs/reference/using-api/health-checks/: each check has a path of its own."""
    plan: Any = SimpleNamespace(state_file="", timing=SimpleNamespace(lease_duration=D))
    exporter = Exporter(plan, cast("Channel", None), Log())
    exporter.last_status = LEADS._replace(renewed=system.clock() + renewed)
    assert exporter.respond("/healthz/leaderElection", "") == exporter.respond("/healthz", "")
    assert exporter.respond("/healthz/leaderElection", "").status == status
    assert exporter.respond("/healthz/other", "").status == 404


@pytest.mark.parametrize(("path", "status"), [("/healthz", 200), ("/readyz", 503), ("/leader", 503), ("/metrics", 503)])
def test_an_exporter_that_has_received_no_status_is_healthy_and_not_ready(path: str, status: int) -> None:
    """As between its start and the supervisor's first status."""
    exporter = Exporter(cast("Any", SimpleNamespace(state_file="")), cast("Channel", None), Log())
    assert exporter.respond(path, "").status == status


def test_a_leader_counts_as_leading_until_kill_at_if_the_supervisor_is_silent() -> None:
    def response(now: float) -> dict[str, Any]:
        return dict(json.loads(health.leader(LEADS, now).body))

    assert response(112.0) == {
        "name": "me",
        "identity": "me",
        "role": "leader",
        "leading": True,
        "token": "7",
        "secondsLeft": 1.0,
    }
    assert response(113.0)["leading"] is False
    assert response(113.0)["name"] == ""
    assert state_of(LEADS, 113.0)["leading"] is False


def test_readiness_does_not_follow_leadership() -> None:
    assert health.readyz(WAITS, D, 1e9).status == health.readyz(LEADS, D, 100.0).status == 200
    assert health.readyz(WAITS._replace(read=False), D, 100.0).status == 503


def test_a_candidate_whose_elector_is_silent_is_not_ready() -> None:
    """Nor is one in whose place none has come; it is replaced long before."""
    hangs = WAITS._replace(silent_since=100.0)
    assert health.readyz(hangs, D, 100.0 + D + 20).status == 200
    assert health.readyz(hangs, D, 100.1 + D + 20).status == 503
    assert "no heartbeats" in health.healthz(hangs, D, 200.0).body.decode()


def samples(status: m.Status) -> dict[str, float]:
    text = metrics.response(status, 104.0, "").body.decode()
    found = [sample for family in parsed(text) for sample in family.samples]
    assert {sample.labels["name"] for sample in found} == {"beat"}
    return {f"{each.name}{each.labels.get('le', '')}": each.value for each in found}


def test_the_metrics_are_those_of_the_last_status() -> None:
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
def test_an_unknown_metrics_format_is_answered_in_the_default_one(kind: str, version: str) -> None:
    answer = metrics.response(LEADS, 104.0, f"{kind}; version={version}")
    assert answer.body
    assert answer.content_type.isprintable()


@pytest.mark.parametrize(
    ("lock", "absent"),
    [
        ("lease", ()),
        ("leader-for-life", ("renewal", "slowpath")),
        ("file", ("renewal", "slowpath", "watch")),
        ("", ("renewal", "slowpath", "watch", "master", "elector", "transitions")),
    ],
)
def test_metrics_that_a_lock_does_not_have_are_absent(lock: str, absent: tuple[str, ...]) -> None:
    every = samples(LEADS)
    left = {name for name in every if not any(map(name.__contains__, absent))}
    assert set(samples(LEADS._replace(lock=lock))) == left
    assert set(samples(WAITS)) == set(every) - {"kleader_time_since_renewal_seconds"}


def test_a_hanging_disk_delays_nothing_and_the_newest_state_is_written(
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


def test_the_state_file_is_not_written_through_a_symbolic_link_at_its_temporary_path(tmp_path: Path) -> None:
    (tmp_path / "state.tmp").symlink_to(tmp_path / "other")
    StateFile(str(tmp_path / "state"), Log(verbosity=-1)).put({})
    wait_until((tmp_path / "state").exists, "the state")
    assert not (tmp_path / "other").exists()


def test_a_state_that_cannot_be_written_leaves_no_temporary_file(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "state").mkdir()
    StateFile(str(tmp_path / "state"), Log()).put({})
    wait_until(lambda: "cannot write the state file" in capfd.readouterr().err, "the failure")
    assert list(tmp_path.iterdir()) == [tmp_path / "state"]


LEADING = State(candidate(), TERM, phase=Phase.LEADING, observed_at=1.0, t0=10.0)
WAITING = State(candidate(), TERM)
ANY = cast("Any", None)


@pytest.mark.parametrize(
    ("before", "event", "after", "expected"),
    [
        (LEADING, e.WriteDone(ANY, ANY), replace(LEADING, t0=11.0), m.Measured(False, 0, 0, 0.5)),  # noqa: FBT003
        (LEADING, e.GetDone(ANY, ANY), LEADING, m.Measured(False, 1, 0, 0.0)),  # noqa: FBT003
        (LEADING, e.WatchEnded(), LEADING, m.Measured(False, 0, 1, 0.0)),  # noqa: FBT003
        (WAITING, e.WatchEnded(begun=False), WAITING, None),
        (WAITING, e.GetDone(ANY, ANY), replace(WAITING, observed_at=1.0), m.Measured(True, 0, 0, 0.0)),  # noqa: FBT003
        (WAITING, e.WriteDone(ANY, ANY), LEADING, m.Measured(True, 0, 0, 0.0)),  # noqa: FBT003
        (LEADING, e.TimerFired(), LEADING, None),
    ],
)
def test_renewals_reads_and_watch_ends_are_measured(
    before: State, event: e.Event, after: State, expected: m.Measured | None
) -> None:
    """The first write of a term is no renewal, and a waiting candidate has no slow path."""
    assert measured(before, event, after, 11.5) == expected


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("127.0.0.1:80", ("127.0.0.1", 80)),
        (":8080", ("", 8080)),
        ("[::1]:0", ("::1", 0)),
        ("localhost:65535", ("127.0.0.1", 65535)),
    ],
)
def test_an_http_address_is_parsed(given: str, meant: tuple[str, int]) -> None:
    assert listen_address(given) == meant


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
def test_an_invalid_http_address_is_refused(given: str) -> None:
    with pytest.raises(click.BadParameter, match="is not an address"):
        listen_address(given)
