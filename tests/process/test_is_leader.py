"""`kleader is-leader`: asked of the kleader itself, which answers whoever asks and is in nobody's way for it."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest

from kleader.link import local
from tests.process.conftest import KLEADER, guard_of, lead
from tests.process.test_file_lock import stop
from tests.support.processes import alive, wait_gone, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.process.conftest import Heard, Scripted, Start
    from tests.support.checker import Witness
    from tests.support.processes import Processes

LEADS, NOT, UNKNOWN = 0, 1, 125


@pytest.fixture
def place(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where the kleaders of this test are asked, and no others. An address has little room for a path."""
    with tempfile.TemporaryDirectory(prefix="kleader-") as directory:
        monkeypatch.setenv(local.RUNTIME_DIR, f"{directory}/here")
        yield Path(directory, "here")


def ask(*args: str, **env: str) -> tuple[int, str]:
    """The exit status, and what was said."""
    argv = [*KLEADER, "is-leader", *args]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=60, env={**os.environ, **env})
    return done.returncode, (done.stdout + done.stderr).rstrip("\n")


def sockets(place: Path) -> list[Path]:
    return sorted(place.glob("*.sock"))


def asked(place: Path, count: int = 1) -> None:
    """Wait until so many can be asked."""
    wait_until(lambda: len(sockets(place)) == count, "a socket")


def test_who_leads_says_so_until_it_ends(candidate: Start, witness: Witness, place: Path) -> None:
    assert ask()[0] == UNKNOWN
    leader = candidate(witness.command("--ignore-term"))
    witness.wait_start()
    assert ask() == (LEADS, "leader")
    leader.signal(signal.SIGTERM)
    leader.wait_err("stopping the command")
    assert ask() == (LEADS, "leader"), "the lock is held while the command winds down"
    leader.signal(signal.SIGTERM)
    leader.wait()
    assert ask()[0] == UNKNOWN
    assert list(place.iterdir()) == []


def test_who_waits_says_no_whoever_else_leads(candidate: Start, witness: Witness, place: Path) -> None:
    candidate(witness.command(), env={local.RUNTIME_DIR: str(place) + "-elsewhere"})
    witness.wait_start()
    waiting = candidate(["true"])
    waiting.wait_err("the leader is")
    assert ask() == (NOT, "candidate")


def test_of_two_candidates_for_one_lock_one_that_leads_is_enough(
    candidate: Start, witness: Witness, place: Path
) -> None:
    first, second = candidate(witness.command()), candidate(witness.command())
    witness.wait_start()
    asked(place, 2)
    assert ask() == (LEADS, "leader")
    leader, other = (first, second) if "became leader" in first.err else (second, first)
    leader.signal(signal.SIGTERM)
    other.wait_err("started the command")
    leader.wait()
    assert ask() == (LEADS, "leader")
    witness.check()


def test_two_locks_are_told_apart_by_name(candidate: Start, alone: Start, witness: Witness, place: Path) -> None:
    candidate(witness.command())
    witness.wait_start()
    other = alone(["sleep", "60"], "--name=other")
    other.wait_err("started the command")
    status, said = ask()
    assert status == UNKNOWN
    assert "several kleaders are here, file default/t, without election other: give --name" in said
    assert ask("--name=t") == (LEADS, "leader")
    assert ask("--name=t", "--namespace=default") == (LEADS, "leader")
    assert ask("--name=other") == (LEADS, "leader")
    assert ask("--name=t", "--namespace=jobs")[0] == ask("--name=none")[0] == UNKNOWN
    stop(other.pid)
    status, said = ask()
    assert status == UNKNOWN
    assert "one of other that does not answer" in said


def test_a_kleader_that_is_stopped_cannot_tell_and_one_whose_guard_is_can(
    candidate: Start, witness: Witness, place: Path
) -> None:
    leader = candidate(witness.command())
    witness.wait_start()
    os.kill(guard_of(leader), signal.SIGSTOP)
    assert ask() == (LEADS, "leader")
    stop(leader.pid)
    status, said = ask()
    assert status == UNKNOWN
    assert said.startswith("kleader: error: the kleader that is here does not answer")
    leader.signal(signal.SIGCONT)
    assert ask() == (LEADS, "leader")


def test_a_command_that_is_to_be_restarted_does_not_lead(candidate: Start, place: Path) -> None:
    leader = candidate(["false"], "--restart=always")
    leader.wait_err("restarting the command in 2s")
    assert ask() == (NOT, "leader, but its command does not run")


def test_what_was_lost_is_no_more_led(scripted: Scripted, witness: Witness, place: Path) -> None:
    options = ("--lease-duration=60s", "--loss-grace=20s")
    kleader = scripted(witness.command("--ignore-term"), [[0, "lead", lead(3, 60)]], *options)
    witness.wait_start()
    kleader.wait_err("lost the lock")
    assert ask() == (NOT, "stopping")


def test_the_socket_of_a_dead_kleader_is_taken_for_none_and_replaced(
    candidate: Start, witness: Witness, place: Path
) -> None:
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


def test_no_place_for_a_socket_is_a_warning_and_no_more(candidate: Start, place: Path) -> None:
    place.write_text("no directory")
    process = candidate(["true"])
    assert process.wait() == 0
    assert process.err.count("WARNING") == 1
    assert "is-leader cannot ask this kleader: File exists: see KLEADER_RUNTIME_DIR" in process.err
    long = candidate(["true"], env={local.RUNTIME_DIR: str(place.parent / ("x" * 120))})
    assert long.wait() == 0
    assert "path too long" in long.err


def test_the_longest_name_and_one_that_is_no_objects_name_are_found(
    alone: Start, place: Path, processes: Processes, tmp_path: Path
) -> None:
    long = "a" * 253
    alone(["sleep", "60"], f"--name={long}").wait_err("started")
    assert ask(f"--name={long}") == (LEADS, "leader")
    assert ask(f"--name={long[:-1]}")[0] == UNKNOWN
    odd = tmp_path / "ä \n.lock"
    processes.start([*KLEADER, "run", f"--lock=file:{odd}", "--", "sleep", "60"]).wait_err("started")
    assert ask("--name=ä \n") == (LEADS, "leader")


READ_ONLY = 'mount -t tmpfs -o ro none /run && mount -o remount,bind,ro / && exec "$@"'


def test_it_answers_in_a_read_only_container_and_from_beside_it(processes: Processes) -> None:
    """Who is beside it shares the network alone, as a sidecar does."""
    name = f"read-only-{os.getpid()}"
    mapped = [] if os.geteuid() == 0 else ["--map-root-user"]
    words = [*KLEADER, "run", "--leader-elect=false", f"--name={name}", "--", "sleep", "60"]
    argv = ["unshare", "--mount", *mapped, "sh", "-c", READ_ONLY, "sh", *words]
    leader = processes.start(argv, env={local.RUNTIME_DIR: None})
    leader.wait_err("started the command")
    assert "WARNING" not in leader.err
    with pytest.raises(OSError, match="Read-only"):
        Path(f"/proc/{leader.pid}/root/run/x").touch()
    inside = ["nsenter", f"--target={leader.pid}", "--mount", *(["--user", "--preserve-credentials"] if mapped else [])]
    argv = [*inside, f"--wd={Path.cwd()}", *KLEADER, "is-leader", f"--name={name}"]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (LEADS, "leader\n", "")
    assert ask(f"--name={name}") == (LEADS, "leader")


def test_whoever_else_takes_such_an_address_is_not_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(local.RUNTIME_DIR, raising=False)
    monkeypatch.setattr(local, "_USUAL", "/nowhere")
    monkeypatch.setattr(local, "_user", lambda _sock: 4711)
    name = f"stranger-{os.getpid()}"
    sock, _ = local.listen(name)
    with sock:
        assert local.ask(name, 1.0) == ([], set(), {4711})


@pytest.mark.usefixtures("place")
def test_a_dead_socket_that_cannot_be_removed_keeps_nobody_from_being_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is another user's, or another kleader has removed it a moment before."""
    dead, _ = local.listen("t")
    dead.close()

    def refuse(_path: str) -> None:
        raise PermissionError

    with monkeypatch.context() as patch:
        patch.setattr(os, "unlink", refuse)
        sock, path = local.listen("t")
    with sock:
        assert path


RUBBISH = [b"", b"{}", b"7", b"[" * 5000, b'{"leads": true}', b"\xff\n", b"x" * 200_000]


@pytest.mark.parametrize("said", RUBBISH, ids=lambda said: f"{said[:10]!r}")
@pytest.mark.usefixtures("place")
def test_an_answer_that_is_none_counts_as_silence(said: bytes, place: Path) -> None:
    sock, _ = local.listen("t")
    with sock:
        sock.setblocking(True)  # noqa: FBT003 - socket's own
        pid = os.fork()
        if pid == 0:
            asker = sock.accept()[0]
            try:
                asker.sendall(said)
            finally:
                os._exit(0)
        assert local.ask("t", 30.0) == ([], {"t"}, set())
        os.waitpid(pid, 0)


@pytest.mark.usefixtures("place")
def test_a_full_queue_is_waited_for_no_longer_than_asked() -> None:
    sock, path = local.listen("t")
    waiting = []
    with sock:
        while True:
            waiting.append(socket.socket(socket.AF_UNIX))
            waiting[-1].setblocking(False)  # noqa: FBT003 - socket's own
            if waiting[-1].connect_ex(path):
                break
        assert local.ask("t", 0.2) == ([], {"t"}, set())
    for each in waiting:
        each.close()


FLOOD = """
import socket, sys
kept = []
print("ready", flush=True)
while True:
    sock = socket.socket(socket.AF_UNIX)
    sock.setblocking(False)
    try:
        sock.connect(sys.argv[1])
        sock.send(b"x" * 1000)
        kept = [sock, *kept[:50]]
    except OSError:
        pass
"""


def test_a_flood_of_askers_takes_neither_the_deadline_nor_the_processor(
    scripted: Scripted, witness: Witness, heard: Heard, place: Path, processes: Processes
) -> None:
    """The kernel's guard is there for who is late: it is not needed."""
    options = ("--lease-duration=60s", "--kill-budget=12s", "--stop-signal=USR1", "--loss-grace=0s")
    kleader = scripted(witness.command("--ignore-term", "--descendant"), [[0, "lead", lead(4, 5)]], *options)
    term, descendant = witness.wait_start(), witness.wait_descendant()
    flood = processes.start([sys.executable, "-c", FLOOD, sockets(place)[0]])
    wait_until(lambda: "ready" in flood.out, "the flood")
    before, began = psutil.Process(kleader.pid).cpu_times(), time.monotonic()
    assert ask()[0] in {LEADS, UNKNOWN}
    wait_until(lambda: time.monotonic() > began + 1, "a second")
    after, took = psutil.Process(kleader.pid).cpu_times(), time.monotonic() - began
    assert after.user + after.system - before.user - before.system < took / 5
    assert kleader.wait() == 255
    assert not alive(term.pid)
    assert not alive(descendant.pid)
    assert witness.terms()[0].last / 1e9 < heard("Assign")[0]["at"] + 7
    witness.check()


def test_it_takes_little_more_than_python_itself(alone: Start, place: Path) -> None:
    """The best of each, in turn, as often as a busy machine needs: 100 ms where Python alone takes 12."""
    alone(["sleep", "60"]).wait_err("started the command")
    asked(place)
    commands = {"python": [sys.executable, "-c", "pass"], "is-leader": [*KLEADER, "is-leader"]}
    best = dict.fromkeys(commands, 60.0)
    for rounds in range(60):
        if rounds >= 5 and best["is-leader"] < 8 * best["python"]:
            break
        for name, argv in commands.items():
            began = time.perf_counter()
            subprocess.run(argv, check=True, capture_output=True)
            best[name] = min(best[name], time.perf_counter() - began)
    assert best["is-leader"] < 8 * best["python"], best
