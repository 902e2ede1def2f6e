"""Candidates for the file lock, started as an operator starts them, and supervisors whose elector follows a script."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol
from unittest import mock

import pytest
from click.testing import CliRunner

from kleader import launch
from kleader.cli.commands import cli
from kleader.ipc import status_socket
from tests.support.chance import EFFORT
from tests.support.processes import Process, descendants, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.processes import Processes

STANDALONE = os.environ.get("KLEADER_TEST_STANDALONE")  # the program that tests/standalone tries, in an image
KLEADER = [STANDALONE] if STANDALONE else [sys.executable, "-m", "kleader"]
IN_POD = "KUBERNETES_SERVICE_HOST"  # the kubelet gives it to every container
IN_NAMESPACE = [
    "unshare",
    *([] if os.geteuid() == 0 else ["--map-root-user"]),
    *("--pid", "--fork", "--mount-proc", "--kill-child"),
]


def may_take_priority() -> bool:
    """As root where nothing takes that right away, as containers do."""
    if pid := os.fork():
        return os.waitpid(pid, 0)[1] == 0
    try:
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
        os._exit(0)
    finally:
        os._exit(1)


def start_run(processes: Processes, words: list[str], **options: Any) -> Process:  # noqa: ANN401
    """Start `kleader run WORDS`; `before`: what executes it.

    The quick tests compute the command line here, and start the supervisor that it becomes: a Python for the command
    line alone takes longer than the rest of a short run.
    """
    before, env = options.pop("before", []), options.get("env")
    begun = _supervisor(words, env) if EFFORT == 1 and not before and not STANDALONE else None
    if begun is None:
        return processes.start([*before, *KLEADER, "run", *words], **options)
    argv, plan_fd = begun
    try:
        return processes.start(argv, pass_fds=(plan_fd,), **options)
    finally:
        os.close(plan_fd)


def _supervisor(words: list[str], env: dict[str, str | None] | None) -> tuple[list[str], int] | None:
    """Its arguments, and its plan's descriptor; None where the command line prints, logs or ends before that."""
    if any(word.startswith("--http") for word in words):  # logs where it listens
        return None
    begun: list[list[str]] = []
    with mock.patch.object(os, "execv", lambda _, argv: begun.append(argv)):
        log = mock.Mock(
            spec_set=["debug"]
        )  # without -v nothing of that is logged; else fails, and so does the command line
        with mock.patch.object(launch, "log_of", lambda plan: log if plan.verbosity == 1 else None):
            result = CliRunner().invoke(cli, ["run", *words], env=env)
    if not begun:
        return None
    plan_fd = int(begun[0][begun[0].index("supervise") + 1])
    if not result.exit_code and not result.output:
        return begun[0], plan_fd
    os.close(plan_fd)
    return None


class Start(Protocol):
    """Starts a candidate: `candidate(command, "--restart=always", name="a")`."""

    def __call__(self, command: list[str], *options: str, **more: Any) -> Process: ...  # noqa: ANN401


@pytest.fixture
def place(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where the kleaders of this test are asked, as in a Pod, and no others. An address has little room for a path."""
    with tempfile.TemporaryDirectory(prefix="kleader-") as directory:
        monkeypatch.setenv(status_socket.RUNTIME_DIR, f"{directory}/here")
        monkeypatch.setenv(IN_POD, "10.0.0.1")
        yield Path(directory, "here")


@pytest.fixture
def lock(tmp_path: Path) -> Path:
    return tmp_path / "the.lock"


@pytest.fixture
def candidate(processes: Processes, lock: Path) -> Start:
    def start(command: list[str], *options: str, **more: Any) -> Process:  # noqa: ANN401
        identity = [f"--identity={more['name']}"] if "name" in more else []
        words = [f"--lock=file:{lock}", "--name=t", *identity, *options, "--", *command]
        return start_run(processes, words, **more)

    return start


@pytest.fixture
def alone(processes: Processes) -> Start:
    def start(command: list[str], *options: str, **more: Any) -> Process:  # noqa: ANN401
        return start_run(processes, ["--leader-elect=false", *options, "--", *command], **more)

    return start


class Scripted(Protocol):
    """Starts a supervisor whose elector follows a script."""

    def __call__(self, command: list[str], script: list[Any], *options: str, **more: Any) -> Process: ...  # noqa: ANN401


def lead(stop_at: float, kill_at: float, **more: Any) -> dict[str, Any]:  # noqa: ANN401
    """An Acquired's fields; seconds after the elector's start."""
    known = {"token": "1", "acquired": 1, "transitions": 0}
    return {"stop_at": stop_at, "kill_at": kill_at, **known, **more}


@pytest.fixture
def scripted(processes: Processes, tmp_path: Path, place: Path) -> Scripted:
    """Supervisors whose status socket no other test finds: a connection would wake them."""

    def start(command: list[str], script: list[Any], *options: str, **more: Any) -> Process:  # noqa: ANN401
        plan, before = tmp_path / "script.json", more.pop("before", [])
        words = ["--lock=file:/dev/shm/none", "--name=t", "--identity=scripted", *options, "--", *command]
        begun = _supervisor(words, None)
        fds = begun[1:] if begun else ()
        known = {"words": words, "plan_fd": begun and begun[1], "script": script, "heard": str(tmp_path / "heard")}
        plan.write_text(json.dumps({**known, **more}))
        try:
            return processes.start([*before, sys.executable, "-m", "tests.process.scripted", plan], pass_fds=fds)
        finally:
            for fd in fds:
                os.close(fd)

    return start


@pytest.fixture
def heard(tmp_path: Path) -> Heard:
    return Heard(tmp_path / "heard")


class Heard:
    """What the electors heard."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __call__(self, kind: str) -> list[dict[str, Any]]:
        """All of one type so far."""
        lines = self._path.read_text().splitlines() if self._path.exists() else []
        return [each for each in map(json.loads, lines) if each["type"] == kind]

    def wait(self, kind: str) -> list[dict[str, Any]]:
        """The same, once there is one: the elector notes a message after the supervisor has gone on."""
        wait_until(lambda: self(kind), f"{kind}, heard by an elector")
        return self(kind)


def as_pid_1(process: Process) -> int:
    """The pid, out here, of what runs as PID 1 below this `unshare`, once it is there."""
    wait_until(lambda: descendants(process.pid), "the namespace's PID 1")
    return descendants(process.pid)[0]


def file_elector_of(candidate: Process) -> int:
    """The pid of its guard, once there is one."""
    found: list[int] = []

    def look() -> bool:
        found[:] = file_electors_of(candidate)
        return bool(found)

    wait_until(look, "a guard")
    return found[0]


def file_electors_of(candidate: Process) -> list[int]:
    """The pids of its guards: none before its start and after its end, two while one replaces another."""
    return [pid for pid in descendants(candidate.pid) if is_file_elector(pid)]


def is_file_elector(pid: int) -> bool:
    """One that has ended meanwhile is none."""
    try:
        return os.getsid(pid) == pid and "supervise" in words(pid)
    except ProcessLookupError:
        return False


def subreaper_of(candidate: Process) -> int:
    """The pid of who keeps its standby or a hook: neither the command, elector nor guard, which lead other groups."""
    found: list[int] = []

    def look() -> bool:
        found[:] = [pid for pid in descendants(candidate.pid) if is_subreaper(pid)]
        return bool(found)

    wait_until(look, "a keeper")
    return found[0]


def is_subreaper(pid: int) -> bool:
    """One that has ended meanwhile is none."""
    try:
        kept = "supervise" in words(pid) or "tests.process.scripted" in words(pid)
        return kept and os.getpgid(pid) == pid != os.getsid(pid)
    except ProcessLookupError:
        return False


def words(pid: int) -> list[str]:
    """Its command line; none once it has ended."""
    try:
        with open(f"/proc/{pid}/cmdline", encoding="utf-8", errors="replace") as file:  # noqa: PTH123
            return file.read().split("\0")
    except OSError:
        return []
