"""A bad kubeconfig, lock file or environment gives one line with a hint, and never a traceback."""

from __future__ import annotations

import json
import os
import signal
import sys
from typing import TYPE_CHECKING, Any

import psutil
import pytest

from tests.process.conftest import KLEADER
from tests.support.kubeconfig import NO_SERVER, cluster, config
from tests.support.processes import wait_gone, wait_until

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from tests.conftest import Trials
    from tests.support.processes import Process, Processes

pytestmark = pytest.mark.slow

FAILED, NOT_EXECUTABLE, NOT_FOUND = 125, 126, 127
SURROUNDINGS: dict[str, str | None] = dict.fromkeys(
    ("KUBECONFIG", "KUBERNETES_SERVICE_HOST", "HTTPS_PROXY", "https_proxy", "POD_NAMESPACE", "NO_PROXY", "no_proxy"),
)
NO_CLUSTER = (
    "no Kubernetes cluster is configured: give --kubeconfig or set KUBECONFIG, put a kubeconfig into ~/.kube/config"
)


def run(
    processes: Processes,
    *options: str | Path,
    env: Mapping[str, str | None] | None = None,
    name: str | None = None,
) -> Process:
    """A candidate that tries once."""
    timings = ["--retry-period=1s", "--renew-deadline=10s"]
    argv = [*KLEADER, "run", "--name=t", "--no-wait", *timings, *options, "--", "true"]
    return processes.start(argv, env={**SURROUNDINGS, "HOME": "/nowhere", **(env or {})}, name=name)


def verdict(process: Process, status: int = FAILED) -> str:
    """The message of its only line."""
    assert process.wait() == status, process.err
    assert "Traceback" not in process.err
    lines = process.err.splitlines()
    assert len(lines) == 1, process.err
    assert len(lines[0]) < 1000
    return lines[0].split(": ", 1)[1].removeprefix("error: ")


def plugin(script: str) -> dict[str, object]:
    entry = {"command": "/bin/sh", "args": ["-c", script], "interactiveMode": "Never"}
    return config(user={"exec": {"apiVersion": "client.authentication.k8s.io/v1", **entry}})


def credential(**status: object) -> str:
    return json.dumps({"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": status})


# A sample: tests/unit/test_kubeconfig.py has the rest.
KUBECONFIGS: dict[str, tuple[object, str]] = {
    "an unknown context": (config(**{"current-context": "nope"}), "it has no context 'nope'"),
    "a maybe for insecure": (
        cluster(insecure_skip_tls_verify="false"),
        "insecure-skip-tls-verify is not true or false",
    ),
    "a plugin that fails": (plugin("echo log in again >&2; exit 3"), "/bin/sh ended with status 3; log in again"),
    "a plugin that prints garbage": (plugin("echo hello"), "did not print an ExecCredential"),
}
ADDRESSES = {
    "ftp://h": "invalid API server URL 'ftp://h': write it as https://HOST:PORT",
    "https://no.such.host.invalid": "cannot reach the API server https://no.such.host.invalid: ",
    NO_SERVER: f"cannot reach the API server {NO_SERVER}: Connection refused; check that it runs, and the address in ",
    "https://localhost:1": "cannot reach the API server https://localhost:1: Connection refused; check that it runs, ",
}
AT_CONNECTING = {
    "a proxy of another kind": (
        cluster(proxy_url="ftp://u:geheim@x"),
        "the proxy 'x' cannot be used: write it as http://HOST:PORT",
    ),
}


def write(path: Path, content: object) -> Path:
    path.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
    return path


def several(kinds: Mapping[str, Any], size: int = 6) -> list[dict[str, Any]]:
    """In small groups: this many candidates run at the same time."""
    names = list(kinds)
    return [{name: kinds[name] for name in names[at : at + size]} for at in range(0, len(names), size)]


@pytest.mark.parametrize("kinds", several(KUBECONFIGS), ids=lambda kinds: ", ".join(kinds)[:60])
def test_an_unusable_kubeconfig_is_reported_in_one_line_at_once(
    processes: Processes, tmp_path: Path, trials: Trials, kinds: dict[str, tuple[object, str]]
) -> None:
    started = {}
    for name, (content, _) in kinds.items():
        path = write(tmp_path / name.replace(" ", "-"), content)
        started[name] = path, run(processes, f"--kubeconfig={path}", name=name.replace(" ", "-"))
    for name, (path, process) in started.items():
        said = verdict(process)
        assert said.startswith(f"cannot use the kubeconfig {path}: "), name
        assert kinds[name][1] in said, name
        assert "secret-token" not in said
    trials.count(len(kinds), "kubeconfigs that cannot be used")


@pytest.mark.parametrize("kinds", several(AT_CONNECTING), ids=lambda kinds: ", ".join(kinds)[:60])
def test_unusable_certificates_and_proxies_are_reported(
    processes: Processes, tmp_path: Path, trials: Trials, kinds: dict[str, tuple[object, str]]
) -> None:
    files = {name: write(tmp_path / name.replace(" ", "-"), content) for name, (content, _) in kinds.items()}
    started = {name: run(processes, f"--kubeconfig={path}") for name, path in files.items()}
    for name, process in started.items():
        said = verdict(process)
        assert said.startswith(kinds[name][1]), name
        assert "geheim" not in said
    trials.count(len(kinds), "kubeconfigs that cannot be used")


@pytest.mark.parametrize("kinds", several(ADDRESSES), ids=lambda kinds: ", ".join(kinds)[:60])
def test_an_invalid_address_and_an_unreachable_one_give_different_errors(
    processes: Processes, tmp_path: Path, kinds: dict[str, str]
) -> None:
    started: list[tuple[Process, str, str]] = []
    for number, (address, sentence) in enumerate(kinds.items()):
        path = write(tmp_path / f"{number}", config(cluster={"server": address}))
        started.append((run(processes, f"--kubeconfig={path}"), sentence, f"the kubeconfig {path} (context x)"))
        started.append((run(processes, "--server", address), sentence, "--server"))
    for process, sentence, source in started:
        said = verdict(process)
        assert said.startswith(sentence)
        if "cannot reach" in said:
            assert said.endswith(f", and the address in {source}"), said


def test_invalid_parts_of_a_kubeconfig_are_reported(processes: Processes, tmp_path: Path) -> None:
    path = write(tmp_path / "config", config())
    chosen = ["--context=x", "--cluster=x", "--user=x"]
    said = verdict(run(processes, f"--kubeconfig={path}", *chosen))
    assert said.endswith(f"the address in the kubeconfig {path} (context x, cluster x, user x)")


def test_an_unreachable_server_behind_a_proxy_names_the_proxy(processes: Processes, tmp_path: Path) -> None:
    entry = cluster(server="https://192.0.2.1", proxy_url="http://u:geheim@127.0.0.1:1")
    said = verdict(run(processes, f"--kubeconfig={write(tmp_path / 'config', entry)}"))
    reached = "cannot reach the API server https://192.0.2.1 through the proxy 127.0.0.1:1: Connection refused"
    assert said.startswith(reached)


def test_unreadable_kubeconfigs_are_reported(processes: Processes, tmp_path: Path) -> None:
    good = write(tmp_path / "good", config())
    nowhere, here = str(tmp_path / "none"), str(tmp_path)
    absent = "it does not exist, or is empty"
    missing = "it does not exist"
    cases: list[tuple[list[str], dict[str, str], str]] = [
        ([f"--kubeconfig={nowhere}"], {}, f"cannot use the kubeconfig {nowhere}: {missing}"),
        ([f"--kubeconfig={here}"], {}, f"cannot use the kubeconfig {here}: {here}: Is a directory"),
        ([], {"KUBECONFIG": nowhere}, f"cannot use the kubeconfig {nowhere}: {absent}"),
        ([], {"KUBECONFIG": f"{nowhere}:{nowhere}2"}, f"cannot use the kubeconfig {nowhere}:{nowhere}2: {absent}"),
        (["--context=x"], {}, "cannot use the kubeconfig /nowhere/.kube/config: it has no context 'x'"),
        ([f"--kubeconfig={good}", "--context=q"], {}, f"cannot use the kubeconfig {good}: "),
        ([f"--kubeconfig={good}", "--cluster=q"], {}, f"cannot use the kubeconfig {good}: "),
        ([f"--kubeconfig={good}", "--user=q"], {}, f"cannot use the kubeconfig {good}: it has no user 'q'"),
        ([], {}, f"{NO_CLUSTER}, run it in a Pod with a service account, or use --lock file on one machine"),
        ([], {"KUBERNETES_SERVICE_HOST": "x y"}, NO_CLUSTER),
    ]
    started = [(run(processes, *options, env=env), sentence) for options, env, sentence in cases]
    for process, sentence in started:
        assert verdict(process).startswith(sentence)


def test_a_candidate_that_waits_for_ever_also_reports_the_error_at_once(processes: Processes) -> None:
    """Without a cluster waiting cannot help, with --wait or without."""
    for options in ([], ["--wait=1h"], ["--on-loss=wait"]):
        argv = [*KLEADER, "run", "--name=t", *options, "--", "true"]
        process = processes.start(argv, env={**SURROUNDINGS, "HOME": "/nowhere"})
        assert verdict(process).startswith(NO_CLUSTER)


def test_a_plugin_that_hangs_ends_with_the_wait(processes: Processes, tmp_path: Path) -> None:
    path = write(tmp_path / "hangs", plugin("sleep 600"))
    process = processes.start(
        [*KLEADER, "run", "--name=t", "--wait=2s", f"--kubeconfig={path}", "--", "true"], env=SURROUNDINGS
    )
    assert process.wait() == FAILED
    assert "no credentials for the API server were found in the time given by --wait" in process.err


def test_the_kubeconfig_reader_does_not_outlive_the_elector(processes: Processes, tmp_path: Path) -> None:
    """The supervisor would adopt it, and take it for a process of the command."""
    readers = tmp_path / "readers"
    path = write(tmp_path / "hangs", plugin(f"echo $PPID >>{readers}; exec sleep 600"))
    processes.start([*KLEADER, "run", "--name=t", f"--kubeconfig={path}", "--", "true"], env=SURROUNDINGS)
    wait_until(lambda: readers.exists() and readers.read_text().endswith("\n"), "a reader")
    reader = int(readers.read_text())
    os.kill(psutil.Process(reader).ppid(), signal.SIGKILL)
    wait_gone(reader)


def test_other_output_of_a_plugin_is_not_in_the_commands_output(processes: Processes, tmp_path: Path) -> None:
    """Its standard error goes to the user; standard output belongs to the command."""
    path = write(tmp_path / "talks", plugin(f"echo please log in >&2; echo '{credential(token='t')}'"))
    process = run(processes, f"--kubeconfig={path}")
    assert process.wait() == FAILED
    assert process.out == ""
    assert f"cannot reach the API server {NO_SERVER}: Connection refused" in process.err
    assert "Traceback" not in process.err


@pytest.mark.parametrize("value", ["http://[x", "ftp://x", "http://x:99999", ":::"])
def test_an_unusable_proxy_in_the_environment_is_reported(processes: Processes, tmp_path: Path, value: str) -> None:
    path = write(tmp_path / "config", config(cluster={"server": "https://192.0.2.1"}))
    said = verdict(run(processes, f"--kubeconfig={path}", env={"HTTPS_PROXY": value, "NO_PROXY": "[,//,*x,1.2.3.4/99"}))
    assert said.startswith(f"the proxy {value!r} cannot be used: write it as http://HOST:PORT")


# --- the lock file


def test_an_unusable_lock_file_is_refused_in_one_line(processes: Processes, tmp_path: Path) -> None:
    (tmp_path / "directory").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "foreign").write_text("precious")
    (tmp_path / "binary").write_bytes(bytes(range(256)))
    os.mkfifo(tmp_path / "fifo")
    there = " in a directory that you can write to"
    cases = {
        "missing/lock": f"No such file or directory: give --lock file:PATH{there}",
        "directory": f"Is a directory: give --lock file:PATH{there}",
        "link": f": give --lock file:PATH{there}",
        "fifo": "is not a regular file: give another --lock file:PATH",
        "foreign": "has content that kleader did not write: give another --lock file:PATH",
        "binary": "has content that kleader did not write: give another --lock file:PATH",
        "x" * 300: f"File name too long: give --lock file:PATH{there}",
    }
    started = {name: run(processes, f"--lock=file:{tmp_path}/{name}") for name in cases}
    for name, process in started.items():
        said = verdict(process)
        assert cases[name] in said
        assert name in said
    assert (tmp_path / "foreign").read_text() == "precious"
    assert not (tmp_path / "elsewhere").exists()


def test_a_wait_shorter_than_the_start_of_a_process_still_takes_a_free_lock(
    processes: Processes, tmp_path: Path, trials: Trials
) -> None:
    for number in range(10):
        argv = [*KLEADER, "run", f"--lock=file:{tmp_path}/{number % 2}", "--wait=1ms", "--", "true"]
        process = processes.start(argv)
        assert process.wait() == 0, process.err
    trials.count(10, "waits of 1 ms for a free lock file")


# --- the command


def test_a_command_that_cannot_be_executed_is_refused_before_the_lock_is_touched(
    processes: Processes, tmp_path: Path
) -> None:
    plain = write(tmp_path / "plain", b"#!/bin/sh\n")
    lock = tmp_path / "lock"
    cases = {
        "no-such-command": (NOT_FOUND, "cannot execute no-such-command: not found in PATH"),
        "/no/such/command": (NOT_FOUND, "cannot execute /no/such/command: no such file"),
        str(plain): (NOT_EXECUTABLE, f"cannot execute {plain}: permission denied: chmod +x it"),
        str(tmp_path): (NOT_EXECUTABLE, f"cannot execute {tmp_path}: it is a directory"),
    }
    started = {
        command: processes.start([*KLEADER, "run", f"--lock=file:{lock}", "--name=t", "--", command])
        for command in cases
    }
    for command, process in started.items():
        status, sentence = cases[command]
        assert verdict(process, status).startswith(sentence)
    assert not lock.exists()


# --- the surroundings


def test_too_few_descriptors_are_refused_before_the_lock_is_touched(processes: Processes, tmp_path: Path) -> None:
    """With 16 the command could not start and its processes could not be listed, so the lock was kept for ever."""
    argv = [*KLEADER, "run", f"--lock=file:{tmp_path}/lock", "--", "true"]
    process = processes.start(["sh", "-c", 'ulimit -n 16; exec "$@"', "sh", *argv])
    assert process.wait() == FAILED
    assert process.err == (
        "kleader: error: 16 open files are too few for kleader and its command: raise ulimit -n to 64\n"
    )
    assert not (tmp_path / "lock").exists()


def test_output_that_cannot_be_written_gives_no_traceback(processes: Processes) -> None:
    with open("/dev/full", "wb") as full:  # noqa: PTH123 - a device
        process = processes.start([*KLEADER, "--help"], env={"PYTHONUNBUFFERED": None}, stdout=full)
        assert verdict(process) == "No space left on device"


def test_a_deleted_working_directory_is_reported_if_it_matters(processes: Processes, tmp_path: Path) -> None:
    def start(lock: str) -> Process:
        words = " ".join([*KLEADER, "run", f"--lock=file:{lock}", "--name=t", "--", "/bin/echo", "ran"])
        script = f'mkdir "$0" && cd "$0" && rmdir "$0" && exec {words}'
        root = str(tmp_path.parents[0])
        return processes.start(["sh", "-c", script, f"{tmp_path}/gone"], env={"PYTHONPATH": os.getcwd(), "PWD": root})  # noqa: PTH109

    process = start("relative")
    assert process.wait() == 2
    assert "'relative' is relative to a directory that was deleted: give an absolute path" in process.err
    process = start(f"{tmp_path}/lock")
    assert process.wait() == 0
    assert process.out == "ran\n"


def test_a_command_of_the_kernels_maximal_length_gives_no_traceback(processes: Processes, tmp_path: Path) -> None:
    """A command that is too long for another exec gives one line; one that fits runs."""
    argument = "x" * (1 << 16)
    for number in (1, 28):
        process = processes.start(
            [*KLEADER, "run", f"--lock=file:{tmp_path}/lock", "--name=t", "-q", "--", "true", *[argument] * number]
        )
        status = process.wait()
        assert "Traceback" not in process.err
        assert status == 0 or process.err.endswith("Argument list too long\n"), process.err


def test_an_interrupt_that_is_ignored_stays_ignored(processes: Processes, tmp_path: Path) -> None:
    """A shell without job control ignores INT in background jobs; nohup ignores HUP."""
    words = " ".join([*KLEADER, "run", f"--lock=file:{tmp_path}/lock", "-q", "--", "cat", "/proc/self/status"])
    process = processes.start(["sh", "-c", f"trap '' INT; exec {words}"])
    assert process.wait() == 0, process.err
    ignored = next(line.split()[1] for line in process.out.splitlines() if line.startswith("SigIgn"))
    assert int(ignored, 16) & 2


def test_help_is_quick_because_it_imports_little(processes: Processes) -> None:
    code = "import sys; from kleader.cli.commands import cli; print(*sys.modules)"
    process = processes.start([sys.executable, "-c", code])
    assert process.wait() == 0, process.err
    loaded = {name.split(".")[0] for name in process.out.split()}
    assert "click" in loaded
    assert not loaded & {"asyncio", "h11", "http", "kubernetes", "psutil", "ssl", "urllib3", "yaml"}
    assert "kleader.cli.run" not in process.out.split()
