"""`kleader status` beside the real API server and a fleet of kleader, client-go and operator-lib."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from tests.cluster.fleet import PATIENT, Fleet, kill_whole
from tests.process.test_terminal import Terminal
from tests.support.api import lease, path
from tests.support.objects import config_map, endpoints, record
from tests.support.port import LOOPBACK
from tests.support.processes import PATIENCE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.support.controlplane import ControlPlane
    from tests.support.plane import Plane
    from tests.support.processes import Process, Processes

ABSENT, USAGE, FAILED = 1, 2, 125
COMMAND = [sys.executable, "-c", "import signal; signal.pause()"]
OURS = {"lease", "configmap", "endpoints", "configmapsleases", "endpointsleases"}
HEAD = ["NAME", "TYPE", "STATE", "HOLDER", "SINCE", "RENEWED", "EXPIRES", "STANDBY", "LAST RUN"]
THEIRS = {"leases": "lease", **{f"{kind}": kind for kind in ("configmapsleases", "endpointsleases")}}
THEIRS |= {"configmaps": "configmap", "endpoints": "endpoints"}


class Asks:
    """Runs `kleader status`, as this user or another."""

    def __init__(self, plane: Plane, namespace: str, processes: Processes) -> None:
        self.plane, self.namespace, self._processes = plane, namespace, processes

    def start(self, *args: str, command: str = "status", user: str = "admin") -> Process:
        config = self.plane.kubeconfig(user, self.namespace)
        argv = [sys.executable, "-m", "kleader", command, f"--kubeconfig={config}", *args]
        return self._processes.start(argv, name=command)

    def __call__(self, *args: str, status: int = 0, user: str = "admin") -> str:
        process = self.start(*args, user=user)
        assert process.wait() == status, process.err
        assert "Traceback" not in process.err
        self.err = process.err
        return process.out

    def locks(self, *args: str) -> dict[str, dict[str, Any]]:
        """The locks by name, from JSON."""
        return {each["name"]: each for each in json.loads(self(*args, "-o", "json"))["items"]}


@pytest.fixture
def asks(plane: Plane, namespace: str, processes: Processes) -> Asks:
    return Asks(plane, namespace, processes)


@pytest.fixture
def mixed(
    plane: Plane,
    namespace: str,
    processes: Processes,
    clientgo: Callable[..., list[str]],
    for_life: Callable[..., list[str]],
) -> Iterator[dict[str, tuple[str, str]]]:
    """One leader for each type of lock, of kleader and of the real others: name to type and identity."""
    config = plane.kubeconfig(namespace=namespace)
    leaders, started = {}, []
    for kind in sorted(OURS):
        argv = [sys.executable, "-m", "kleader", "run", f"--kubeconfig={config}", f"--lock={kind}", f"--name=k-{kind}"]
        started.append(processes.start([*argv, f"--identity=me-{kind}", "--", *COMMAND], name=f"k-{kind}"))
        leaders[f"k-{kind}"] = kind, f"me-{kind}"
    for given, kind in THEIRS.items():
        argv = clientgo(config, namespace, f"go-{kind}", f"go-{kind}-id", COMMAND, lock=given)
        started.append(processes.start(argv, name=f"go-{kind}"))
        leaders[f"go-{kind}"] = kind, f"go-{kind}-id"
    plane.new_pod(namespace, "pod-0")
    life = processes.start(for_life(config, namespace, "go-life", "pod-0", COMMAND), name="life")
    leaders["go-life"] = "leader-for-life", "pod-0"
    for each in started:
        each.wait_log("command_started") if each.name.startswith("k-") else each.wait_err("started the command")
    life.wait_err("Became the leader")
    yield leaders
    for each in (*started, life):
        kill_whole(each)


@pytest.mark.timeout(540)
def test_status_shows_locks_of_kleader_client_go_and_operator_lib(
    asks: Asks, mixed: dict[str, tuple[str, str]]
) -> None:
    """In the table, wide, as JSON, as YAML, by its objects' names, and one by one."""
    locks = asks.locks()
    assert {name: (each["type"], each["holder"]) for name, each in locks.items()} == mixed
    assert {each["state"] for each in locks.values()} == {"held"}
    assert {each["leaseDurationSeconds"] for name, each in locks.items() if name != "go-life"} == {15}
    assert locks["k-lease"]["incarnation"]
    assert not locks["go-lease"]["incarnation"]
    assert len(locks["go-endpointsleases"]["objects"]) == 2
    assert all(each["writer"] for lock in locks.values() for each in lock["objects"])
    documents = yaml.safe_load(asks("-o", "yaml"))
    assert [set(each) for each in documents["items"]] == [set(locks["k-lease"])] * len(mixed)

    plain = asks().splitlines()
    assert re.split(r"\s{3,}", plain[0]) == HEAD
    rows = {cells[0]: cells for cells in (re.split(r"\s{3,}", line) for line in plain[1:])}
    assert {name: (cells[1], cells[3]) for name, cells in rows.items()} == mixed
    assert rows["k-lease"][6].startswith("in ")
    assert rows["go-life"][5:7] == ["<none>", "<none>"]
    assert all(line.split()[0] == asks.namespace for line in asks("-A").splitlines() if "me-" in line)
    wide = asks("-o", "wide").splitlines()
    assert wide[0].endswith("DURATION   WRITER   INCARNATION") or "WRITER" in wide[0]
    named = set(asks("-o", "name").split())
    assert {"lease.coordination.k8s.io/k-lease", "configmap/go-life", "endpoints/go-endpoints"} <= named
    assert len(named) == len(mixed) + 4

    for name, (kind, holder) in mixed.items():
        (line,) = asks(name).splitlines()[1:]
        assert line.split()[:4] == [name, kind, "held", holder]
    assert set(asks.locks("--lock", "configmapsleases")) == {"k-configmapsleases", "go-configmapsleases"}
    assert set(asks.locks("--lock", "leader-for-life")) == {"go-life"}
    assert set(asks.locks("--lock", "leases")) == {n for n, (kind, _) in mixed.items() if kind.endswith(("lease", "es"))
                                                   and kind != "endpoints"}  # fmt: skip


def test_heartbeat_leases_are_shown_only_with_all_leases(asks: Asks) -> None:
    """The API server elects for coordinated election, and has an identity; a node has one too."""
    node = lease("kube-node-lease", "node-1", "node-1", 40)
    namespaces = asks.plane.api
    if not namespaces.find("/api/v1/namespaces/kube-node-lease"):
        namespaces.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "kube-node-lease"}})
    if not namespaces.find(path("coordination.k8s.io/v1", "Lease", "kube-node-lease", "node-1")):
        namespaces.create(node)

    def shown(*args: str) -> set[str]:
        return {f"{each['namespace']}/{each['name']}" for each in json.loads(asks(*args, "-o", "json"))["items"]}

    usual, all_of_them = shown("-A"), shown("-A", "--all-leases")
    assert "kube-system/leader-election-controller" in usual
    hidden = all_of_them - usual
    assert "kube-node-lease/node-1" in hidden
    assert any(each.startswith("kube-system/apiserver-") for each in hidden)
    assert shown("-n", "kube-node-lease") == set()
    assert shown("-n", "kube-node-lease", "node-1") == {"kube-node-lease/node-1"}
    assert asks("-n", "kube-node-lease") == ""
    assert asks.err == "kleader: no locks found in the namespace kube-node-lease\n"


def test_silent_leader_is_overdue_in_one_read_and_expired_in_a_watch(asks: Asks) -> None:
    asks.plane.api.create(lease(asks.namespace, "x", "a", 3, renewTime="2020-01-01T00:00:00.000000Z"))
    assert asks("x").splitlines()[1].split()[:4] == ["x", "lease", "overdue", "a"]
    assert (
        asks.err == "kleader: 1 lock is overdue: a single read cannot prove that a lease has expired, but --watch can\n"
    )
    begun = time.monotonic()
    watching = asks.start("x", "--watch")
    wait_out(watching, "lease: held by a, for")
    wait_out(watching, "lease: a has not renewed it for 3s: any candidate may acquire it")
    assert time.monotonic() - begun > 3


def test_malformed_records_are_shown_as_malformed(asks: Asks) -> None:
    api = asks.plane.api
    api.create(config_map(asks.namespace, "a", "rubbish"))
    api.create(endpoints(asks.namespace, "b", record("x" * 5000)))
    api.create({**lease(asks.namespace, "c", "me", 15), "spec": {"holderIdentity": "me"}})
    api.create(config_map(asks.namespace, "d", record("\x1b[31mred\nline\ud83d\ude00")))
    rows = [line.split()[:3] for line in asks().splitlines()]
    assert rows[1:4] == [["a", "configmap", "malformed"], ["b", "endpoints", "malformed"], ["c", "lease", "malformed"]]
    assert "\x1b" not in asks()
    for what in ("ConfigMap {}/a: its annotation", "Endpoints {}/b: its annotation", "Lease {}/c: spec.leaseDuration"):
        assert what.format(asks.namespace) in asks.err
    assert asks.locks()["d"]["holder"].startswith("\x1b[31mred\nline")
    assert yaml.safe_load(asks("d", "-o", "yaml"))["items"][0]["holder"].startswith("\x1b[31mred")


def test_status_of_a_missing_lock_or_an_ordinary_config_map_exits_with_1(asks: Asks) -> None:
    asks.plane.api.create(config_map(asks.namespace, "plain"))
    for name, more in (("nope", ()), ("plain", ()), ("plain", ("--lock=configmap",)), ("nope", ("--watch",))):
        assert asks(name, *more, status=ABSENT) == ""
        assert asks.err.startswith("kleader: error: there is no ")
        assert asks.err.endswith(f"lock {name} in the namespace {asks.namespace}\n")


def test_status_shows_permitted_locks_and_reports_denied_ones(own_plane: ControlPlane, asks: Asks) -> None:
    own_plane.api.create(lease(asks.namespace, "x", "a", 15))
    rules = [{"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["get", "list"]}]
    user = own_plane.new_bare_user()
    own_plane.grant(user, asks.namespace, rules)
    assert asks(user=user).splitlines()[1].split()[:4:3] == ["x", "a"]
    assert len(re.findall(r"^kleader: not shown: .* is forbidden: ", asks.err, re.MULTILINE)) == 2
    assert asks("x", user=user).splitlines()[1].startswith("x ")
    assert "not shown" not in asks.err
    for args in (("nope",), ("--lock=configmap",), ("-A",), ("--lock=configmap", "--watch")):
        assert asks(*args, user=user, status=FAILED) == ""
        assert re.fullmatch(r"kleader: error: .* is forbidden: .*: grant it in a Role, .*\n", asks.err)


def test_status_of_one_lock_needs_a_role_for_its_name_alone(own_plane: ControlPlane, asks: Asks) -> None:
    own_plane.api.create(lease(asks.namespace, "x", "a", 15))
    user = own_plane.new_bare_user()
    rule = {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "resourceNames": ["x"], "verbs": ["get"]}
    own_plane.grant(user, asks.namespace, [rule])
    polled = asks.start("--lock=lease", "x", "--watch", user=user)
    polled.wait_err("the watch was refused")
    own_plane.api.merge(path("coordination.k8s.io/v1", "Lease", asks.namespace, "x"), {"spec": {"holderIdentity": ""}})
    wait_out(polled, "a has released the lock")
    own_plane.grant(user, asks.namespace, [{**rule, "verbs": ["watch"]}])
    watching = asks.start("--lock=lease", "x", "--watch", user=user)
    wait_out(watching, "lease: free")
    own_plane.api.merge(path("coordination.k8s.io/v1", "Lease", asks.namespace, "x"), {"spec": {"holderIdentity": "b"}})
    wait_out(watching, "b leads")
    assert watching.err == ""


def test_watch_in_a_pipe_prints_a_line_for_each_change_with_its_duration(
    asks: Asks, fleet: Fleet, processes: Processes, clientgo: Callable[..., list[str]]
) -> None:
    """From kleader to client-go and back; the same as JSON, a document a line."""
    first = fleet.start("a", timings=PATIENT)
    fleet.witness.wait_start()
    lines, values = asks.start("x", "-w"), asks.start("--watch", "-o", "json", "--name=x")
    wait_out(lines, "held by a, for")
    wait_out(values, "present")
    config = asks.plane.kubeconfig(namespace=asks.namespace)
    times = {"lease_duration": "8s", "renew_deadline": "6s", "retry_period": "1s"}
    other = processes.start(
        clientgo(config, asks.namespace, "x", "go", fleet.witness.command(), stop_first=True, **times), name="go"
    )
    other.wait_err("new leader: a")
    first.signal(signal.SIGTERM)
    wait_out(lines, r"lease: a has released the lock, after \S+$")
    wait_out(lines, r"lease: go leads, \S+ after a had released it$")
    kill_whole(other)
    wait_out(lines, r"lease: go has not renewed it for 8s: any candidate may acquire it$")
    wait_out(values, '"event": "expired"')
    fleet.start("b", timings=PATIENT)  # which watches it for as long; one that had waited might be faster than they
    wait_out(lines, r"lease: b leads, \S+ after the lease of go had expired, and go had not renewed it for 8s$")
    wait_out(values, '"event": "acquired".*"holder": "b"')
    changes = [json.loads(line) for line in values.out.splitlines()]
    assert [each["event"] for each in changes] == ["present", "released", "acquired", "expired", "acquired"]
    assert [each["kind"] for each in changes] == ["LockChange"] * 5
    assert all(each["lock"]["watched"] for each in changes)
    assert all(each["seconds"] >= 0 for each in changes[1:])
    assert "\x1b" not in lines.out
    assert len(lines.out.splitlines()) == 5
    fleet.witness.check()


@pytest.mark.parametrize("no_color", ["", "1"])
def test_a_watch_on_a_terminal_is_a_live_view(asks: Asks, fleet: Fleet, processes: Processes, no_color: str) -> None:
    """With a bar for the time left, and events above it; colours unless NO_COLOR is set."""
    leader = fleet.start("a")
    fleet.witness.wait_start()
    config = asks.plane.kubeconfig(namespace=asks.namespace)
    argv = [sys.executable, "-m", "kleader", "status", f"--kubeconfig={config}", "--watch"]
    size = {"COLUMNS": "100", "LINES": "20", "TERM": "xterm", "PYTHONIOENCODING": "utf-8"}
    terminal = Terminal(processes, argv, **size, NO_COLOR=no_color)
    terminal.wait(r"LOCK +LEFT +LED +HOLDER")
    terminal.wait(r"x +█{10,20}░{0,10} +[345]\.\ds +\d+s +a")
    leader.signal(signal.SIGTERM)
    terminal.wait(r"x lease: a has released the lock, after ")
    terminal.wait(r"x +░{20} +free")
    fleet.start("b")
    seen = terminal.wait(r"(\x1b\[32m)?20\d\d-\S+ \S+/x lease: b leads, \S+ after a had released it")
    assert bool(seen[1]) is not bool(no_color)
    terminal.wait(r"x +█+░* +[\d.]+s +\d+s +b")
    terminal.type("\x03")
    assert terminal.leader.wait() == -signal.SIGINT
    terminal.close()


def test_a_table_on_a_terminal_is_coloured(asks: Asks, processes: Processes) -> None:
    asks.plane.api.create(lease(asks.namespace, "x", "a", 15))
    config = asks.plane.kubeconfig(namespace=asks.namespace)
    argv = [sys.executable, "-m", "kleader", "status", f"--kubeconfig={config}"]
    for env, cell in (
        ({"TERM": "xterm", "NO_COLOR": ""}, r"\x1b\[32mheld\x1b\[0m {4}a"),
        ({"NO_COLOR": "1"}, r"   held    a"),
    ):
        terminal = Terminal(processes, argv, **env)
        terminal.wait(cell)
        terminal.leader.wait()
        terminal.close()


def test_the_watch_survives_a_restart_of_the_api_server(own_plane: ControlPlane, asks: Asks) -> None:
    """What it did not see it does not call expired."""
    own_plane.api.create(lease(asks.namespace, "x", "a", 4))
    watching = asks.start("--watch", "x")
    wait_out(watching, "held by a")
    own_plane.apiserver.stop()
    watching.wait_err(r"kleader: .*(cannot reach|closed|did not answer)")
    own_plane.apiserver.start()
    own_plane.api.merge(path("coordination.k8s.io/v1", "Lease", asks.namespace, "x"), {"spec": {"holderIdentity": "b"}})
    wait_out(watching, "b leads")
    assert "Traceback" not in watching.err


@pytest.mark.timeout(540)
def test_a_thousand_locks_are_shown_within_a_second(
    own_plane: ControlPlane, asks: Asks, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Of all kinds; of its own work, which is measured against a Python that does nothing."""
    pod = own_plane.new_pod(asks.namespace, "pod-0")

    def create(number: int) -> None:
        name, kind = f"lock-{number:04d}", number % 6
        api = own_plane.as_user("admin")
        if kind in {0, 3, 4}:
            api.create(lease(asks.namespace, name, f"holder-{number}", 15))
        if kind in {1, 3}:
            api.create(config_map(asks.namespace, name, record(f"holder-{number}"), data={"much": "x" * 10_000}))
        if kind in {2, 4}:
            api.create(endpoints(asks.namespace, name, record(f"holder-{number}")))
        if kind == 5:
            api.create(config_map(asks.namespace, name, owners=[pod]))

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(create, range(1000)))
    config = own_plane.kubeconfig(namespace=asks.namespace)
    ask = [sys.executable, "-m", "kleader", "status", "-A", f"--kubeconfig={config}"]

    def work(argv: list[str]) -> float:
        """User and system time, of its children too."""
        with (tmp_path / "out").open("wb") as out:
            process = subprocess.Popen(argv, stdout=out, stderr=subprocess.DEVNULL)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = status
        assert status == 0
        return usage.ru_utime + usage.ru_stime

    nothing = min(work([sys.executable, "-c", "pass"]) for _ in range(5))
    took = min(work(ask) for _ in range(3))
    lines = [line for line in (tmp_path / "out").read_text().splitlines() if line.startswith(asks.namespace)]
    assert len(lines) == 1000
    kinds = Counter(line.split()[2] for line in lines)
    assert set(kinds) == OURS | {"leader-for-life"}
    assert min(kinds.values()) == 1000 // 6
    with capsys.disabled():
        told = f"{took * 1000:.0f} ms of work, {took / nothing:.0f} x python -c pass"
        sys.stdout.write(f"\n1,000 locks in 1,333 objects: {told}\n")
    assert took / nothing < 100  # 10 ms each on the machine that the aim of a second is meant for


def test_unreachable_api_server_is_reported_in_one_line(asks: Asks) -> None:
    process = asks.start("-s", f"https://{LOOPBACK}:9", "--watch")
    assert process.wait() == FAILED
    assert re.fullmatch(r"kleader: error: cannot reach the API server https://127.0.0.1:9: .*\n", process.err)


def wait_out(process: Process, pattern: str, timeout: float = PATIENCE) -> None:
    """Return once a line of what it printed has the pattern."""
    end = time.monotonic() + timeout
    while not re.search(pattern, process.out, re.MULTILINE):
        assert process.running, process.err
        assert time.monotonic() < end, f"{pattern!r} is not in {process.out!r}\n{process.err}"
        time.sleep(0.02)
