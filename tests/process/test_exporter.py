"""--http and --state-file: the exporter tells the truth whichever process is stopped, and none depends on it."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from prometheus_client.openmetrics import parser as openmetrics
from prometheus_client.parser import text_string_to_metric_families as parsed

from tests.process.conftest import KLEADER, file_elector_of, lead
from tests.process.test_file_lock import stop
from tests.support.processes import PATIENCE, alive, descendants, wait_gone, wait_until

if TYPE_CHECKING:
    from tests.process.conftest import Scripted, Start
    from tests.support.checker import Witness
    from tests.support.processes import Process, Processes

pytestmark = pytest.mark.slow

HTTP = "--http=127.0.0.1:0"


class Got(NamedTuple):
    """An answer."""

    status: int
    body: str
    headers: dict[str, str]


def port_of(process: Process) -> int:
    """Where it answers."""
    return int(process.wait_err(r"answering HTTP at 127\.0\.0\.1:(\d+)")[1])


def get(process: Process, path: str, method: str = "GET", **headers: str) -> Got:
    connection = http.client.HTTPConnection("127.0.0.1", port_of(process), timeout=PATIENCE)
    connection.request(method, path, headers=headers)
    answer = connection.getresponse()
    return Got(answer.status, answer.read().decode(), {name.lower(): value for name, value in answer.getheaders()})


def leader(process: Process) -> dict[str, Any]:
    return dict(json.loads(get(process, "/leader").body))


def says(process: Process, name: str) -> bool:
    return bool(leader(process)["name"] == name)


def metrics(process: Process) -> dict[str, float]:
    """Of samples with no label but the lock's name."""
    families = parsed(get(process, "/metrics").body)
    samples = [sample for family in families for sample in family.samples]
    assert {sample.labels["name"] for sample in samples} == {"t"}
    return {sample.name: sample.value for sample in samples if len(sample.labels) == 1}


def exporter_of(process: Process) -> int:
    """Its pid."""

    def found() -> list[int]:
        return [pid for pid in descendants(process.pid) if b"\0export\0" in _cmdline(pid)]

    wait_until(found, "an exporter")
    return found()[0]


def _cmdline(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def test_a_leader_and_a_standby_report_their_roles_over_http(candidate: Start, witness: Witness) -> None:
    first = candidate(witness.command(), HTTP, name="first")
    term = witness.wait_start()
    second = candidate(witness.command(), HTTP, name="second")
    second.wait_log("leader_observed", r"is first\b")
    for each in (first, second):
        wait_until(partial(says, each, "first"), "the leader is shown")
        assert get(each, "/healthz").body == get(each, "/healthz/leaderElection").body == "ok\n"
        assert get(each, "/readyz").status == 200
    wait_until(lambda: leader(first)["leading"], "the command runs")
    shown = leader(first)
    assert shown == {
        "name": "first",
        "identity": "first",
        "role": "leader",
        "leading": True,
        "token": term.token,
        "secondsLeft": None,
    }
    assert get(first, "/").body == get(first, "/leader?pretty").body
    assert {**leader(second), "identity": ""} == {
        **shown, "identity": "", "role": "candidate", "leading": False, "token": None,
    }  # fmt: skip
    assert metrics(first)["leader_election_master_status"] == 1
    assert metrics(second) == {
        "kleader_command_restarts_total": 0,
        "kleader_elector_restarts_total": 0,
        "kleader_transitions_total": 1,
        "leader_election_master_status": 0,
    }
    first.signal(signal.SIGTERM)
    first.wait()
    wait_until(lambda: leader(second)["leading"], "the handover")
    assert metrics(second)["kleader_transitions_total"] == 2
    witness.check()


def test_only_get_and_head_of_known_paths_are_answered(alone: Start) -> None:
    process = alone(["sleep", "60"], HTTP, "--name=t")
    assert get(process, "/nothing").status == 404
    assert get(process, "/healthz", "HEAD") == (200, "", get(process, "/healthz").headers)
    refused = get(process, "/leader", "POST")
    assert (refused.status, refused.headers["allow"]) == (405, "GET, HEAD")
    accept = "application/openmetrics-text; version=1.0.0"
    shown = get(process, "/metrics", Accept=accept)
    assert shown.headers["content-type"].startswith(accept)
    families = list(openmetrics.text_string_to_metric_families(shown.body))  # type: ignore[no-untyped-call]
    assert [family.name for family in families] == ["kleader_command_restarts"]


RUBBISH = [
    b"\0\r\n\r\n",
    b"GET / HTTP/1.1\r\n\r\n",
    b"GET /\r\n\r\n",
    b"x" * 100_000,
    b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * 5000,
]


@pytest.mark.parametrize("said", RUBBISH, ids=lambda said: f"{said[:20]!r}")
def test_malformed_http_requests_are_refused(alone: Start, said: bytes) -> None:
    process = alone(["sleep", "60"], HTTP)
    with socket.create_connection(("127.0.0.1", port_of(process)), timeout=PATIENCE) as connection:
        connection.sendall(said)
        try:
            assert connection.recv(100).startswith(b"HTTP/1.1 4")
        except ConnectionResetError:  # it reads only so much of a request
            assert len(said) > 8192
    assert get(process, "/healthz").status == 200
    assert "Traceback" not in process.err


def test_silent_connections_are_closed_and_block_no_request(alone: Start) -> None:
    process = alone(["sleep", "60"], HTTP)
    idle = [socket.create_connection(("127.0.0.1", port_of(process)), timeout=PATIENCE) for _ in range(200)]
    assert get(process, "/healthz").status == 200
    assert len(list(Path(f"/proc/{exporter_of(process)}/fd").iterdir())) < 100
    for each in idle:
        try:
            assert each.recv(1) == b""
        except ConnectionResetError:
            continue
        finally:
            each.close()


def test_a_port_in_use_is_refused_before_the_lock_is_touched(candidate: Start, lock: Path, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        process = candidate(["touch", str(tmp_path / "ran")], f"--http=127.0.0.1:{port}")
        assert process.wait() == 125
    assert process.err == (
        f"kleader: error: --http 127.0.0.1:{port}: Address already in use: choose another address or port\n"
    )
    assert not (tmp_path / "ran").exists()


def test_the_exporter_answers_while_the_supervisor_or_the_elector_is_stopped(
    candidate: Start, witness: Witness
) -> None:
    process = candidate(witness.command(), HTTP)
    witness.wait_start()
    wait_until(lambda: leader(process)["leading"], "the command runs")
    os.kill(file_elector_of(process), signal.SIGSTOP)
    wait_until(lambda: metrics(process)["kleader_elector_restarts_total"] == 1, "a new elector")
    stop(process.pid)
    assert leader(process)["leading"], "the lock does not expire, and the kernel holds it"
    assert get(process, "/healthz").status == 200


def test_a_leader_with_a_hanging_supervisor_is_reported_as_leading_until_kill_at(
    scripted: Scripted, witness: Witness
) -> None:
    script = [[0, "acquired", lead(3, 4)]]
    process = scripted(witness.command(), script, HTTP, no_timer=True)
    witness.wait_start()
    wait_until(lambda: leader(process)["leading"], "the command runs")
    assert 0 < leader(process)["secondsLeft"] <= 4
    stop(process.pid)
    wait_until(lambda: not leader(process)["leading"], "the deadline")
    shown = leader(process)
    assert (shown["name"], shown["token"], shown["secondsLeft"]) == ("", None, None)
    assert metrics(process)["leader_election_master_status"] == 0
    process.signal(signal.SIGCONT)
    assert process.wait() == 255


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP])
def test_an_exporter_that_is_killed_or_stopped_is_replaced_and_the_command_goes_on(
    candidate: Start, witness: Witness, how: signal.Signals
) -> None:
    process = candidate(witness.command(), HTTP)
    term = witness.wait_start()
    for _ in range(2):
        before = exporter_of(process)
        os.kill(before, how)
        wait_gone(before)
        assert leader(process)["leading"], "connections wait meanwhile"
    assert len(process.logged(level="WARNING")) == 1
    assert alive(term.pid)
    os.kill(exporter_of(process), signal.SIGTERM)
    assert get(process, "/healthz").status == 200
    process.signal(signal.SIGTERM)
    assert process.wait() == 0
    witness.check()


def test_the_exporter_is_no_part_of_the_command(candidate: Start, witness: Witness) -> None:
    process = candidate(witness.command("--exit-after=1", "--descendant"), "--until-empty", HTTP)
    descendant = witness.wait_descendant()
    before = exporter_of(process)
    os.kill(descendant.pid, signal.SIGKILL)
    assert process.wait() == 0
    assert not process.logged("exporter_restarted")
    wait_gone(before)


def test_the_exporter_ends_with_a_supervisor_that_is_killed(candidate: Start, witness: Witness, tmp_path: Path) -> None:
    state = tmp_path / "state"
    process = candidate(witness.command(), f"--state-file={state}")
    term = witness.wait_start()
    exporter = exporter_of(process)
    wait_until(state.exists, "the state")
    process.kill()
    wait_gone(exporter, term.pid)


# --- the state file


def read(path: Path) -> dict[str, Any]:
    return dict(json.loads(path.read_text()))


def test_the_state_file_follows_each_renewal_and_change(scripted: Scripted, witness: Witness, tmp_path: Path) -> None:
    state = tmp_path / "state"
    script = [
        [0, "acquired", lead(10, 13, token="7")],
        [str(tmp_path / "one"), "renewed", {"stop_at": 60, "kill_at": 63}],
        [str(tmp_path / "two"), "lost", {"reason": "a test", "kill_now": True}],
    ]
    process = scripted(witness.command(), script, f"--state-file={state}", "--on-loss=wait", next=[])
    term = witness.wait_start()
    wait_until(lambda: state.exists() and read(state)["leading"], "the start is written")
    shown = read(state)
    assert (shown["role"], shown["token"], shown["identity"], shown["pid"]) == (
        "leader",
        "7",
        "scripted",
        term.main.pid,
    )
    now, wall = time.clock_gettime(time.CLOCK_BOOTTIME), time.time()
    assert now < shown["stopAt"]["boot"] == shown["killAt"]["boot"] - 3 < now + 10
    written = time.mktime(time.strptime(shown["killAt"]["time"][:19], "%Y-%m-%dT%H:%M:%S")) - time.timezone
    assert abs((written - wall) - (shown["killAt"]["boot"] - now)) < 2
    before = state.stat().st_ino
    (tmp_path / "one").touch()
    wait_until(lambda: read(state)["stopAt"]["boot"] > shown["stopAt"]["boot"] + 40, "the renewal is written")
    assert state.stat().st_ino != before, "it was replaced as a whole"
    (tmp_path / "two").touch()
    wait_until(lambda: read(state)["role"] == "candidate", "the loss is written")
    assert [read(state)[each] for each in ("leading", "token", "stopAt", "killAt", "pid")] == [
        False,
        None,
        None,
        None,
        None,
    ]
    process.signal(signal.SIGTERM)
    process.wait()
    wait_until(lambda: not state.exists(), "its removal")
    assert not list(tmp_path.glob("state*"))


def test_a_state_file_that_cannot_be_written_is_refused_before_the_lock_is_touched(
    candidate: Start, tmp_path: Path
) -> None:
    for path, why in ((tmp_path, "it is a directory"), (tmp_path / "no" / "state", "No such file or directory")):
        process = candidate(["true"], f"--state-file={path}")
        assert process.wait() == 125
        assert process.err.startswith(f"kleader: error: --state-file {path}: {why}")
        assert process.err.count("\n") == 1


FULL = 'mount -t tmpfs -o size=4k none "$1" && head -c 4096 /dev/zero >"$1/filler"; shift; exec "$@"'


def on_full_disk(processes: Processes, tmp_path: Path, *words: str) -> Process:
    """A run whose state file is to be on a disk that is full."""
    place = tmp_path / "disk"
    place.mkdir()
    mapped = [] if os.geteuid() == 0 else ["--map-root-user"]
    run = [*KLEADER, "run", f"--lock=file:{tmp_path}/lock", "--name=t", f"--state-file={place}/state", *words]
    return processes.start(["unshare", "--mount", *mapped, "sh", "-c", FULL, "sh", place, *run])


def test_a_full_disk_is_reported_once_and_the_command_goes_on(
    processes: Processes, witness: Witness, tmp_path: Path
) -> None:
    process = on_full_disk(processes, tmp_path, "--restart=always", "--", *witness.command("--exit-after=0.2"))
    process.wait_log("command_restarting")
    witness.wait_start(2)
    process.signal(signal.SIGTERM)
    process.wait()
    assert process.err.count("cannot write the state file") == 1
    assert "No space left on device" in process.err
    witness.check(restarts=True)


def test_a_full_disk_is_reported_even_if_the_command_ends_at_once(processes: Processes, tmp_path: Path) -> None:
    """Nothing was said of it: the state was to be written after the command had ended, and no more by then."""
    process = on_full_disk(processes, tmp_path, "-q", "--", "true")
    assert process.wait() == 0
    assert f"--state-file {tmp_path}/disk/state cannot be written now: No space left" in process.err
