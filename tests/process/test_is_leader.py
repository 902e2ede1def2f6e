"""`kleader is-leader` asks the kleader of this machine, whose answers never delay it."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kleader.ipc import status_socket
from kleader.log import Log
from kleader.supervisor.status_report import StatusServer
from tests.process.conftest import IN_POD, KLEADER, file_elector_of, lead
from tests.process.test_file_lock import stop
from tests.support.processes import PATIENCE, alive, wait_gone, wait_until

if TYPE_CHECKING:
    from tests.process.conftest import Scripted, Start
    from tests.support.checker import Witness
    from tests.support.processes import Processes

pytestmark = pytest.mark.slow

LEADS, NOT, UNKNOWN = 0, 1, 125


def ask(*args: str, **env: str) -> tuple[int, str]:
    """The exit status and the output."""
    argv = [*KLEADER, "is-leader", *args]
    done = subprocess.run(
        argv, capture_output=True, text=True, check=False, timeout=PATIENCE, env={**os.environ, **env}
    )
    return done.returncode, (done.stdout + done.stderr).rstrip("\n")


def sockets(place: Path) -> list[Path]:
    return sorted(place.glob("*.sock"))


def wait_listening(place: Path, count: int = 1) -> None:
    """Wait until so many kleaders listen."""
    wait_until(lambda: len(sockets(place)) == count, "a socket")


def test_is_leader_is_true_from_the_start_of_the_command_to_its_end(
    candidate: Start, witness: Witness, place: Path
) -> None:
    assert ask()[0] == UNKNOWN
    leader = candidate(witness.command("--ignore-term"))
    witness.wait_start()
    assert ask() == (LEADS, "leader")
    leader.signal(signal.SIGTERM)
    leader.wait_log("command_stopping")
    assert ask() == (LEADS, "leader"), "the lock is held while the command winds down"
    leader.signal(signal.SIGTERM)
    leader.wait()
    assert ask()[0] == UNKNOWN
    assert list(place.iterdir()) == []


def test_is_leader_is_false_for_a_waiting_candidate(candidate: Start, witness: Witness, place: Path) -> None:
    candidate(witness.command(), env={status_socket.RUNTIME_DIR: str(place) + "-elsewhere"})
    witness.wait_start()
    waiting = candidate(["true"])
    waiting.wait_log("leader_observed")
    assert ask() == (NOT, "candidate")


def test_is_leader_is_true_if_one_of_two_local_candidates_leads(
    candidate: Start, witness: Witness, place: Path
) -> None:
    first, second = candidate(witness.command()), candidate(witness.command())
    witness.wait_start()
    wait_listening(place, 2)
    assert ask() == (LEADS, "leader")
    leader, other = (first, second) if first.logged("became_leader") else (second, first)
    leader.signal(signal.SIGTERM)
    other.wait_log("command_started")
    leader.wait()
    assert ask() == (LEADS, "leader")
    witness.check()


def test_two_local_locks_need_a_name(candidate: Start, alone: Start, witness: Witness, place: Path) -> None:
    candidate(witness.command())
    witness.wait_start()
    other = alone(["sleep", "60"], "--name=other")
    other.wait_log("command_started")
    status, answer = ask()
    assert status == UNKNOWN
    assert (
        "more than one lock runs on this host: file default/t, without election other: choose one with --name" in answer
    )
    assert ask("--name=t") == (LEADS, "leader")
    assert ask("--name=t", "--namespace=default") == (LEADS, "leader")
    assert ask("--name=other") == (LEADS, "leader")
    assert ask("--name=t", "--namespace=jobs")[0] == ask("--name=none")[0] == UNKNOWN
    stop(other.pid)
    status, answer = ask()
    assert status == UNKNOWN
    assert "one of other that does not answer" in answer


def test_outside_a_pod_the_lock_must_be_named_even_if_only_one_kleader_runs(
    candidate: Start, witness: Witness, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may be of another lock than was meant, whose leader runs elsewhere."""
    monkeypatch.delenv(IN_POD)
    candidate(witness.command())
    witness.wait_start()
    wait_listening(place)
    sentence = "which lock? give --name: outside a Pod, several locks may run on this host"
    assert ask() == (UNKNOWN, f"kleader: error: {sentence}")
    assert ask("--name=t") == ask(KLEADER_IS_LEADER_NAME="t") == (LEADS, "leader")


def test_is_leader_inside_a_run_asks_about_its_own_lock(
    candidate: Start, alone: Start, witness: Witness, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(IN_POD)
    alone(["sleep", "60"], "--name=other").wait_log("command_started")
    wait_listening(place)
    leader = candidate([*KLEADER, "is-leader"])
    assert leader.wait() == 0, leader.err
    assert leader.out == "leader\n"


def test_a_stopped_supervisor_does_not_answer_and_one_with_a_stopped_elector_does(
    candidate: Start, witness: Witness, place: Path
) -> None:
    leader = candidate(witness.command())
    witness.wait_start()
    os.kill(file_elector_of(leader), signal.SIGSTOP)
    assert ask() == (LEADS, "leader")
    stop(leader.pid)
    status, answer = ask()
    assert status == UNKNOWN
    assert answer.startswith("kleader: error: the kleader on this host does not answer")
    leader.signal(signal.SIGCONT)
    assert ask() == (LEADS, "leader")


def test_a_leader_whose_command_is_about_to_be_restarted_does_not_lead(candidate: Start, place: Path) -> None:
    leader = candidate(["false"], "--restart=always")
    leader.wait_log("command_restarting", "2s")
    assert ask() == (NOT, "leader, but its command does not run")


def test_a_supervisor_that_has_lost_the_lock_does_not_lead_while_its_command_stops(
    scripted: Scripted, witness: Witness, place: Path
) -> None:
    options = ("--lease-duration=60s", "--loss-grace=20s")
    kleader = scripted(witness.command("--ignore-term"), [[0, "acquired", lead(3, 60)]], *options)
    witness.wait_start()
    kleader.wait_log("lost")
    assert ask() == (NOT, "stopping")


def test_the_socket_of_a_dead_kleader_is_ignored_and_replaced(candidate: Start, witness: Witness, place: Path) -> None:
    leader = candidate(witness.command())
    first = witness.wait_start()
    (left,) = sockets(place)
    leader.kill()
    wait_gone(first.pid)
    assert ask()[0] == UNKNOWN
    candidate(witness.command())
    witness.wait_start(2)
    assert ask() == (LEADS, "leader")
    (new,) = sockets(place)
    assert new != left


def test_sockets_of_dead_kleaders_are_removed_whatever_their_locks(alone: Start, place: Path) -> None:
    """Else there would be one more of each name that was ever used."""
    for number in range(3):
        dead = alone(["sleep", "60"], f"--name=n{number}")
        wait_listening(place)
        dead.wait_log("command_started")
        dead.kill()
    alive = alone(["sleep", "60"], "--name=last")
    alive.wait_log("command_started")
    assert [each.name.partition(".")[0] for each in sockets(place)] == ["last"]


def test_a_run_without_a_place_for_its_socket_warns_and_goes_on(candidate: Start, place: Path) -> None:
    place.write_text("no directory")
    process = candidate(["true"])
    assert process.wait() == 0
    (warning,) = process.logged(level="WARNING")
    assert warning.is_of("status_socket_failed", "File exists: .*KLEADER_RUNTIME_DIR")
    long = candidate(["true"], env={status_socket.RUNTIME_DIR: str(place.parent / ("x" * 120))})
    assert long.wait() == 0
    assert long.logged("status_socket_failed", "path too long")


def test_a_kleader_with_a_long_or_unusual_name_is_found(
    alone: Start, place: Path, processes: Processes, tmp_path: Path
) -> None:
    long = "a" * 253
    alone(["sleep", "60"], f"--name={long}").wait_log("command_started")
    assert ask(f"--name={long}") == (LEADS, "leader")
    assert ask(f"--name={long[:-1]}")[0] == UNKNOWN
    odd = tmp_path / "ä \n.lock"
    processes.start([*KLEADER, "run", f"--lock=file:{odd}", "--", "sleep", "60"]).wait_log("command_started")
    assert ask("--name=ä \n") == (LEADS, "leader")


READ_ONLY = 'mount -t tmpfs -o ro none /run && mount -o remount,bind,ro / && exec "$@"'


def test_a_kleader_in_a_read_only_container_answers_from_inside_and_outside(processes: Processes) -> None:
    """The other container shares only the network, as a sidecar does."""
    name = f"read-only-{os.getpid()}"
    mapped = [] if os.geteuid() == 0 else ["--map-root-user"]
    words = [*KLEADER, "run", "--leader-elect=false", f"--name={name}", "--", "sleep", "60"]
    argv = ["unshare", "--mount", *mapped, "sh", "-c", READ_ONLY, "sh", *words]
    leader = processes.start(argv, env={status_socket.RUNTIME_DIR: None})
    leader.wait_log("command_started")
    assert not leader.logged(level="WARNING")
    with pytest.raises(OSError, match="Read-only"):
        Path(f"/proc/{leader.pid}/root/run/x").touch()
    inside = ["nsenter", f"--target={leader.pid}", "--mount", *(["--user", "--preserve-credentials"] if mapped else [])]
    argv = [*inside, f"--wd={Path.cwd()}", *KLEADER, "is-leader", f"--name={name}"]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (LEADS, "leader\n", "")
    assert ask(f"--name={name}") == (LEADS, "leader")


def test_another_user_who_takes_an_abstract_address_is_not_trusted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(status_socket.RUNTIME_DIR, raising=False)
    monkeypatch.setattr(status_socket, "_DEFAULT_DIR", "/nowhere")
    monkeypatch.setattr(status_socket, "_peer_user", lambda _sock: 4711)
    name = f"stranger-{os.getpid()}"
    sock, _ = status_socket.listen(name)
    with sock:
        assert status_socket.ask(name, 1.0) == ([], set(), {4711})


@pytest.mark.usefixtures("place")
def test_a_dead_socket_that_cannot_be_removed_does_not_keep_a_kleader_from_listening(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It is another user's, or another kleader has removed it a moment before."""
    dead, _ = status_socket.listen("t")
    dead.close()

    def refuse(_path: str) -> None:
        raise PermissionError

    with monkeypatch.context() as patch:
        patch.setattr(os, "unlink", refuse)
        sock, path = status_socket.listen("t")
    with sock:
        assert path


RUBBISH = [b"", b"{}", b"7", b"[" * 5000, b'{"leads": true}', b"\xff\n", b"x" * 200_000]


@pytest.mark.parametrize("answer", RUBBISH, ids=lambda answer: f"{answer[:10]!r}")
@pytest.mark.usefixtures("place")
def test_unreadable_response_counts_as_no_response(answer: bytes, place: Path) -> None:
    sock, _ = status_socket.listen("t")
    with sock:
        sock.setblocking(True)  # noqa: FBT003 - socket's own
        pid = os.fork()
        if pid == 0:
            client = sock.accept()[0]
            try:
                client.sendall(answer)
            finally:
                os._exit(0)
        assert status_socket.ask("t", 30.0) == ([], {"t"}, set())
        os.waitpid(pid, 0)


@pytest.mark.usefixtures("place")
def test_a_full_queue_does_not_make_is_leader_wait_beyond_its_timeout() -> None:
    sock, path = status_socket.listen("t")
    waiting = []
    with sock:
        while True:
            waiting.append(socket.socket(socket.AF_UNIX))
            waiting[-1].setblocking(False)  # noqa: FBT003 - socket's own
            if waiting[-1].connect_ex(path):
                break
        assert status_socket.ask("t", 0.2) == ([], {"t"}, set())
    for each in waiting:
        each.close()


def test_answers_are_sent_at_a_bounded_rate(
    place: Path,
) -> None:
    server, answered = StatusServer("t", Log()), list[float]()
    (path,) = sockets(place)

    def answer() -> bytes:
        answered.append(now)
        return b"answer"

    with socket.socket(socket.AF_UNIX) as first, socket.socket(socket.AF_UNIX) as second:
        for now, client in (1.0, first), (1.001, second):
            client.connect(str(path))
            server.serve(now, answer)
        assert answered == [1.0]
        assert server.fd is None
        now = server.due
        server.serve(now, answer)
    server.close()
    assert answered == [1.0, now]
    assert 1.001 < now < 60.0


def test_a_delayed_answer_does_not_delay_the_next_one(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a probe on a crowded machine would find no answer."""
    ticks = count(step=10)
    monkeypatch.setattr(time, "monotonic", lambda: float(next(ticks)))
    server = StatusServer("t", Log())
    (path,) = sockets(place)
    with socket.socket(socket.AF_UNIX) as asker:
        asker.connect(str(path))
        server.serve(1.0, lambda: b"answer")
    due = server.due
    server.close()
    assert due < 2


FLOOD = """
import socket, sys
kept = []
while True:
    sock = socket.socket(socket.AF_UNIX)
    sock.setblocking(False)
    try:
        sock.connect(sys.argv[1])
    except BlockingIOError:  # the queue is full
        continue
    except OSError:
        break
    kept.append(sock)
    try:
        sock.send(b"x" * 1000)
    except BrokenPipeError:  # answered already
        pass
    if len(kept) > 50:
        try:
            kept.pop(0).recv(1)
        except BlockingIOError:
            continue
        except ConnectionResetError:  # an answer from one that reads nothing
            pass
        print("answered", flush=True)
"""


def test_a_flood_of_status_requests_does_not_delay_the_deadline(
    scripted: Scripted, witness: Witness, place: Path, processes: Processes
) -> None:
    """The supervisor kills in time by itself: its kernel timer would make this status -9."""
    options = ("--lease-duration=60s", "--kill-budget=12s", "--stop-signal=USR1", "--loss-grace=0s")
    kleader = scripted(witness.command("--ignore-term", "--descendant"), [[0, "acquired", lead(4, 5)]], *options)
    term, descendant = witness.wait_start(), witness.wait_descendant()
    began = time.monotonic()
    flood = processes.start([sys.executable, "-c", FLOOD, sockets(place)[0]])
    wait_until(lambda: "answered" in flood.out, "the flood")
    assert ask()[0] in {LEADS, UNKNOWN}
    assert kleader.wait() == 255
    assert not alive(term.pid)
    assert not alive(descendant.pid)
    flood.kill()
    most = 16 * 20 * (1 + time.monotonic() - began)
    assert flood.out.count("answered") <= most, "more than 16 in a twentieth of a second"
    witness.check()


def test_is_leader_takes_little_more_than_python_itself(alone: Start, place: Path) -> None:
    """The best of each, in turn, as often as a busy machine needs: 25 ms where Python alone takes 10."""
    alone(["sleep", "60"]).wait_log("command_started")
    wait_listening(place)
    commands = {"python": [sys.executable, "-c", "pass"], "is-leader": [*KLEADER, "is-leader"]}
    best = dict.fromkeys(commands, 60.0)
    for rounds in range(60):
        if rounds >= 5 and best["is-leader"] < 4 * best["python"]:
            break
        for name, argv in commands.items():
            began = time.perf_counter()
            subprocess.run(argv, check=True, capture_output=True)
            best[name] = min(best[name], time.perf_counter() - began)
    assert best["is-leader"] < 4 * best["python"], best
