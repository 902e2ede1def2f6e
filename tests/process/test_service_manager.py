"""A candidate as a unit of systemd: what it tells the service manager, on a real socket."""

from __future__ import annotations

import contextlib
import json
import math
import resource
import select
import signal
import socket
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, cast

import pytest

from kleader.log import Log
from kleader.supervisor.service_manager import ServiceManager
from kleader.supervisor.states import RunState
from kleader.supervisor.term import Term
from tests.process.conftest import KLEADER
from tests.process.test_command_environment import REPORTER
from tests.support.processes import PATIENCE, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kleader.ipc.plan import Plan
    from tests.process.conftest import Start
    from tests.support.processes import Processes

SLEEP = ["sleep", "1000"]


class Manager:
    """Has the socket of a unit, as systemd has it."""

    def __init__(self, address: str) -> None:
        self.env = {"NOTIFY_SOCKET": address, "WATCHDOG_USEC": "30000000", "WATCHDOG_PID": "1"}
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(address.replace("@", "\0"))
        self.socket.settimeout(PATIENCE)

    def until(self, line: str) -> list[str]:
        """Wait for a message that has this line; return all messages up to it."""
        told = [self.socket.recv(4096).decode()]
        while line not in told[-1].split("\n"):
            told.append(self.socket.recv(4096).decode())
        return told

    @property
    def is_silent(self) -> bool:
        return not select.select([self.socket], [], [], 0)[0]


@pytest.fixture(params=["path", "abstract"])
def manager(request: pytest.FixtureRequest) -> Iterator[Manager]:
    with tempfile.TemporaryDirectory(prefix="kleader-") as directory:  # an address has little room for a path
        path = Path(directory, "notify")
        found = Manager(f"@{path}" if request.param == "abstract" else str(path))
        with found.socket:
            yield found


def test_a_unit_is_ready_while_its_candidate_stands_by(candidate: Start, manager: Manager) -> None:
    candidate(SLEEP, name="a").wait_err("started the command")
    standby = candidate(SLEEP, name="b", env=manager.env)
    assert manager.until("READY=1")[-1].split("\n")[1].startswith("STATUS=candidate")
    standby.signal(signal.SIGTERM)
    assert manager.until("STATUS=ended")[-1].split("\n")[0] == "STOPPING=1"


def test_a_unit_shows_the_leader_and_its_end(candidate: Start, manager: Manager) -> None:
    kleader = candidate(SLEEP, name="a", env=manager.env)
    kleader.wait_err("started the command")
    kleader.signal(signal.SIGTERM)
    kleader.wait()
    told = manager.until("STATUS=ended")
    assert any(each.startswith("READY=1\nSTATUS=leader, token ") for each in told)
    flags = [each.split("\n")[0] for each in told]
    assert {*flags[flags.index("STOPPING=1") :]} == {"STOPPING=1"}  # never ready again
    assert manager.is_silent


def test_a_unit_is_not_ready_before_the_lock_was_read(processes: Processes, manager: Manager, tmp_path: Path) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    with socket.socket() as unanswered:
        unanswered.bind(("127.0.0.1", 0))
        cluster = {"server": f"http://127.0.0.1:{unanswered.getsockname()[1]}"}
        context = {"current-context": "c", "contexts": [{"name": "c", "context": {"cluster": "c"}}]}
        kubeconfig.write_text(json.dumps({**context, "clusters": [{"name": "c", "cluster": cluster}]}))
        argv = [*KLEADER, "run", f"--kubeconfig={kubeconfig}", "--name=t", "--", *SLEEP]
        kleader = processes.start(argv, env=manager.env)
        kleader.wait_err("refused")
        kleader.signal(signal.SIGTERM)
        kleader.wait()
    assert not any("READY" in each for each in manager.until("STATUS=ended"))


def test_the_command_does_not_get_the_notify_socket(candidate: Start, manager: Manager) -> None:
    """Its own READY=1 would come from another process than the unit's main one."""
    kleader = candidate(REPORTER, env=manager.env)
    assert kleader.wait() == 0
    assert not manager.env.keys() & json.loads(kleader.out)["env"].keys()


@pytest.mark.parametrize("manager", ["path"], indirect=True)
def test_notify_command_leaves_the_service_manager_to_the_command(candidate: Start, manager: Manager) -> None:
    kleader = candidate(REPORTER, "--notify=command", env=manager.env)
    assert kleader.wait() == 0
    seen = json.loads(kleader.out)["env"]
    assert seen["NOTIFY_SOCKET"] == manager.env["NOTIFY_SOCKET"]
    assert seen["WATCHDOG_USEC"] == "30000000"
    assert "WATCHDOG_PID" not in seen  # it was kleader's
    assert manager.is_silent


@pytest.mark.parametrize("manager", ["path"], indirect=True)
@pytest.mark.parametrize("option", ["--standby", "--on-end"])
def test_hooks_and_standbys_never_get_the_notify_socket(
    candidate: Start, manager: Manager, tmp_path: Path, option: str
) -> None:
    """A standby is often the command's own program, and not ready to lead."""
    seen = tmp_path / "seen"
    beside = f"{option}=sh -c 'env >{seen}~; mv {seen}~ {seen}'"
    if option == "--standby":
        candidate(SLEEP, name="a").wait_err("started the command")
    candidate(["true"], "--notify=command", beside, name="b", env=manager.env)
    wait_until(seen.exists, "the environment")
    assert not manager.env.keys() & {line.partition("=")[0] for line in seen.read_text().splitlines()}


@pytest.mark.parametrize("manager", ["path"], indirect=True)
def test_a_service_manager_that_does_not_read_delays_no_term_and_is_notified_later(
    candidate: Start, manager: Manager
) -> None:
    with contextlib.suppress(BlockingIOError):
        while True:  # each by a socket of its own, whose buffer is not what is full
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as other:
                other.sendto(b"full", socket.MSG_DONTWAIT, manager.env["NOTIFY_SOCKET"])
    kleader = candidate(SLEEP, env=manager.env)
    kleader.wait_err("started the command")
    assert any(each.startswith("READY=1\nSTATUS=leader") for each in manager.until("READY=1"))


def test_a_missing_service_manager_gives_a_warning(candidate: Start, tmp_path: Path) -> None:
    kleader = candidate(["true"], env={"NOTIFY_SOCKET": str(tmp_path / "none")})
    assert kleader.wait() == 0
    assert kleader.err.count("NOTIFY_SOCKET: cannot notify the service manager") == 1


@pytest.fixture
def service_manager(manager: Manager, monkeypatch: pytest.MonkeyPatch) -> ServiceManager:
    monkeypatch.setenv("NOTIFY_SOCKET", manager.env["NOTIFY_SOCKET"])

    class WithNotify:
        notify = "kleader"

    return ServiceManager(cast("Plan", WithNotify()), Log())


@pytest.mark.parametrize("manager", ["path"], indirect=True)
def test_a_unit_is_ready_although_kleader_had_no_file_descriptor_left(
    manager: Manager, service_manager: ServiceManager
) -> None:
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, limits[1]))
    try:
        service_manager.notify(RunState.WAITING, Term(1), "a", read=True, now=0.0)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    assert service_manager.due < math.inf
    service_manager.notify(RunState.WAITING, Term(1), "a", read=True, now=service_manager.due)
    assert manager.until("READY=1") == ["READY=1\nSTATUS=candidate; the leader is a"]


@pytest.mark.parametrize("manager", ["path"], indirect=True)
def test_a_leaders_name_cannot_inject_a_notification(manager: Manager, service_manager: ServiceManager) -> None:
    """Another candidate chose it: a line of it may not stop the unit, or be its main process."""
    name = "a\nSTOPPING=1\u2028MAINPID=1" + "\udcff" + "x" * 100_000
    service_manager.notify(RunState.WAITING, Term(1), name, read=True, now=0.0)
    _, status = manager.until("READY=1")[0].split("\n")
    assert status.startswith("STATUS=candidate; the leader is a?STOPPING=1?MAINPID=1?xxx")
    assert service_manager.due == math.inf
