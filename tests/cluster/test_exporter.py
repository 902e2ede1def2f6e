"""What --http and is-leader tell of a Lease at a real API server, while that goes away and comes back."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import tempfile
import time
from typing import TYPE_CHECKING

import pytest
from prometheus_client.parser import text_string_to_metric_families as parsed

from kleader.ipc import status_socket
from tests.cluster.contract import Place
from tests.cluster.crew import LOCK, Crew
from tests.cluster.fleet import Fleet, elector
from tests.process.conftest import KLEADER
from tests.process.test_exporter import HTTP, get, leader, says
from tests.support.processes import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.support.checker import Witness
    from tests.support.controlplane import ControlPlane
    from tests.support.plane import Plane
    from tests.support.processes import Process, Processes

D, PERIOD = 10, 1.0
ROOMY = (f"--lease-duration={D}s", "--renew-deadline=8s", "--retry-period=1s")


def metrics(process: Process) -> dict[str, float]:
    families = parsed(get(process, "/metrics").body)
    samples = [sample for family in families for sample in family.samples]
    return {f"{sample.name}{sample.labels.get('le', '')}": sample.value for sample in samples}


def grows(process: Process, name: str) -> Callable[[], bool]:
    """Whether this one has, since."""
    before = metrics(process)[name]
    return lambda: metrics(process)[name] > before


def is_leader(name: str) -> int:
    argv = [*KLEADER, "is-leader", f"--name={name}"]
    return subprocess.run(argv, capture_output=True, check=False).returncode


RENEWED = "kleader_renewal_duration_seconds_count"


@pytest.mark.timeout(360)
def test_metrics_count_renewals_and_a_candidate_stays_healthy_during_an_api_outage(
    own_plane: ControlPlane, fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    with tempfile.TemporaryDirectory(prefix="kleader-") as directory:
        monkeypatch.setenv(status_socket.RUNTIME_DIR, directory)
        first = fleet.start("a", HTTP, "--on-loss=wait", timings=ROOMY)
        fleet.witness.wait_start()
        second = fleet.waiting("b", HTTP, behind="a", timings=ROOMY)
        wait_until(lambda: leader(first)["leading"], "the start is told")
        wait_until(lambda: says(second, "a"), "its leader is told")
        assert is_leader(fleet.name) == 0
        wait_until(grows(first, RENEWED), "a renewal")
        found = metrics(first)
        assert found["kleader_renewal_duration_seconds_bucket+Inf"] == found[RENEWED]
        assert 0 <= found["kleader_time_since_renewal_seconds"] < D
        assert 0 < leader(first)["secondsLeft"] < D
        assert (found["leader_election_master_status"], found["leader_election_slowpath_total"]) == (1, 0)
        assert metrics(second)["leader_election_master_status"] == metrics(second)[RENEWED] == 0

        read_first = grows(first, "leader_election_slowpath_total")
        os.kill(elector(first), signal.SIGKILL)
        wait_until(read_first, "a renewal that reads first")
        assert metrics(first)["kleader_elector_restarts_total"] == 1
        own_plane.apiserver.stop()
        wait_until(lambda: metrics(first)["leader_election_master_status"] == 0, "the loss")
        assert is_leader(fleet.name) == 1
        assert leader(first)["leading"] is False
        for each in (first, second):
            assert get(each, "/healthz").status == get(each, "/readyz").status == 200
        new = fleet.start("c", HTTP, timings=ROOMY)
        wait_until(lambda: get(new, "/healthz").status == 200, "an answer")
        assert get(new, "/readyz").status == 503
        own_plane.apiserver.start()
        fleet.witness.wait_start(2)
        wait_until(lambda: get(new, "/readyz").status == 200, "the lock is read")
        wait_until(
            lambda: max(metrics(each)["kleader_watch_reconnects_total"] for each in (first, second)) > 0, "a new watch"
        )
        wait_until(
            lambda: sum(metrics(each)["leader_election_master_status"] for each in (first, second, new)) == 1, "one"
        )
        assert is_leader(fleet.name) == 0
        fleet.witness.check()


def test_the_state_file_is_written_at_each_renewal(fleet: Fleet, tmp_path: Path) -> None:
    """It is a file of its own each time."""
    state = tmp_path / "state"
    fleet.start("a", f"--state-file={state}", timings=ROOMY)
    fleet.witness.wait_start()
    seen: set[int] = set()

    def renewals() -> int:
        seen.update([state.stat().st_mtime_ns] if state.exists() else [])
        return len(seen)

    wait_until(lambda: renewals() > 3, "renewals")


@pytest.mark.parametrize("lock", ["configmapsleases", "endpointsleases"])
def test_metrics_and_state_file_of_a_multilock_count_each_renewal_once(  # noqa: PLR0917
    plane: Plane, namespace: str, processes: Processes, witness: Witness, tmp_path: Path, lock: str
) -> None:
    """Its renewals are counted once, though each is two requests."""
    place, fleet, state = Place(plane, namespace, lock), Fleet(plane, namespace, processes, witness), tmp_path / "state"
    first = fleet.start(
        "a", *place.options, HTTP, f"--state-file={state}", kubeconfig=place.kubeconfig(), timings=ROOMY
    )
    term = witness.wait_start()
    second = fleet.waiting("b", *place.options, HTTP, behind="a", kubeconfig=place.kubeconfig(), timings=ROOMY)
    wait_until(lambda: leader(first)["leading"], "the start is told")
    wait_until(lambda: says(second, "a"), "its leader is told")
    wait_until(lambda: json.loads(state.read_text())["leading"], "the start is told in the file")
    told = json.loads(state.read_text())
    assert (told["lock"], told["leader"], told["leading"], told["token"]) == (lock, "a", True, term.token)
    assert told["renewed"]["boot"] < told["stopAt"]["boot"] < told["killAt"]["boot"]
    began, before = time.monotonic(), metrics(first)[RENEWED]
    wait_until(lambda: metrics(first)[RENEWED] >= before + 5, "five renewals")
    assert time.monotonic() - began > 3 * PERIOD * 0.9, "two counts for each took two periods; the first may be late"
    wait_until(lambda: json.loads(state.read_text())["killAt"]["boot"] > told["killAt"]["boot"], "a later deadline")
    assert metrics(first)["leader_election_master_status"] == 1
    assert metrics(second)["leader_election_master_status"] == metrics(second)[RENEWED] == 0
    first.signal(signal.SIGTERM)
    assert first.wait() == 0
    witness.wait_start(2)
    wait_until(lambda: leader(second)["leading"], "the start is told")
    assert metrics(second)["leader_election_master_status"] == 1
    assert metrics(second)["kleader_transitions_total"] == 2
    wait_until(lambda: not state.exists(), "the file of a candidate that has ended is gone")
    witness.check(terms=2)


def test_a_lock_that_does_not_expire_has_no_renewals_and_no_deadline(  # noqa: PLR0917
    plane: Plane,
    namespace: str,
    processes: Processes,
    witness: Witness,
    for_life: Callable[..., list[str]],
    tmp_path: Path,
) -> None:
    """Missing values are absent or null; the leader is reported all the same."""
    crew, state = Crew(plane, namespace, processes, witness, for_life), tmp_path / "state"
    first = crew.kleader("a", HTTP, f"--state-file={state}", "--release")
    term = witness.wait_start()
    second = crew.waiting("b", HTTP, behind="a")
    wait_until(lambda: leader(first)["leading"], "the start is told")
    wait_until(lambda: says(second, "a"), "its leader is told")
    assert leader(first)["secondsLeft"] is None
    wait_until(lambda: json.loads(state.read_text())["leading"], "the start is told in the file")
    told = json.loads(state.read_text())
    assert (told["lock"], told["leader"], told["leading"], told["token"]) == (LOCK, "a", True, term.token)
    assert told["stopAt"] is told["killAt"] is None
    for each, leads in ((first, 1), (second, 0)):
        found = metrics(each)
        assert found["leader_election_master_status"] == leads
        assert found["kleader_transitions_total"] == 1
        assert not {RENEWED, "leader_election_slowpath_total", "kleader_time_since_renewal_seconds"} & set(found)
        assert get(each, "/healthz").status == get(each, "/readyz").status == 200
    assert crew.ends("a") == 0
    witness.wait_start(2)
    wait_until(lambda: metrics(second)["leader_election_master_status"] == 1, "the term")
    wait_until(lambda: not state.exists(), "the file of a candidate that has ended is gone")
    witness.check(terms=2)
