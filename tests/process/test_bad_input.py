"""Whatever a kubeconfig, a lock file or the surroundings hold: one line with the mend, and never a traceback."""

from __future__ import annotations

import json
import os
import signal
import sys
from typing import TYPE_CHECKING, Any

import psutil
import pytest

from tests.process.conftest import KLEADER
from tests.support.processes import wait_gone, wait_until

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from tests.conftest import Trials
    from tests.support.processes import Process, Processes

FAILED, NOT_EXECUTABLE, NOT_FOUND = 125, 126, 127
NOBODY = "https://127.0.0.1:1"  # nothing listens on port 1
SURROUNDINGS: dict[str, str | None] = dict.fromkeys(
    ("KUBECONFIG", "KUBERNETES_SERVICE_HOST", "HTTPS_PROXY", "https_proxy", "POD_NAMESPACE", "NO_PROXY", "no_proxy"),
)
NO_CLUSTER = "no Kubernetes cluster is configured: give --kubeconfig or set KUBECONFIG"


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
    """Its only line, without what every line of the log begins with."""
    assert process.wait() == status, process.err
    assert "Traceback" not in process.err
    lines = process.err.splitlines()
    assert len(lines) == 1, process.err
    assert len(lines[0]) < 1000
    return lines[0].split(": ", 1)[1]


def config(cluster: object = None, user: object = None, **top: object) -> dict[str, object]:
    """A kubeconfig, but for what is given."""
    whole: dict[str, object] = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "x",
        "clusters": [{"name": "x", "cluster": {"server": NOBODY} if cluster is None else cluster}],
        "users": [{"name": "x", "user": {"token": "secret-token"} if user is None else user}],
        "contexts": [{"name": "x", "context": {"cluster": "x", "user": "x"}}],
        **top,
    }
    return {key: value for key, value in whole.items() if value is not None}


def cluster(**more: object) -> dict[str, object]:
    return config(cluster={"server": NOBODY, **{key.replace("_", "-"): value for key, value in more.items()}})


def context(**more: object) -> dict[str, object]:
    return config(contexts=[{"name": "x", "context": {"cluster": "x", "user": "x", **more}}])


def plugin(script: str) -> dict[str, object]:
    entry = {"command": "/bin/sh", "args": ["-c", script], "interactiveMode": "Never"}
    return config(user={"exec": {"apiVersion": "client.authentication.k8s.io/v1", **entry}})


def credential(**status: object) -> str:
    return json.dumps({"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": status})


TYPES = "something in it is not of the type that belongs there, compare kubectl config view"
KUBECONFIGS: dict[str, tuple[object, str]] = {
    "empty": (b"", "file is empty"),
    "null": (b"null", "file is empty"),
    "binary": (b"\x00\xff\xfe", "it, or what it refers to, is not text"),
    "text": (b"hello", TYPES),
    "a list": ([], TYPES),
    "no YAML": (b"a: [", "while parsing"),
    "a Python object": (b"!!python/object/apply:os.system [id]", "could not determine a constructor"),
    "an object": ({}, "Expected key current-context"),
    "no current context": (config(**{"current-context": None}), "Expected key current-context"),
    "an unknown context": (config(**{"current-context": "nope"}), "Expected object with name nope"),
    "a number for a context": (config(**{"current-context": 5}), "Expected object with name 5"),
    "no contexts": (config(contexts=None), "Expected object with name x"),
    "contexts as text": (config(contexts="x"), "Expected all values in"),
    "a null context": (config(contexts=[None]), TYPES),
    "a context of text": (config(contexts=[{"name": "x", "context": "y"}]), TYPES),
    "a context without a cluster": (config(contexts=[{"name": "x", "context": {}}]), "Expected key cluster"),
    "a missing cluster": (context(cluster="q"), "Expected object with name q"),
    "a missing user": (context(user="q"), "it has no user 'q'"),
    "no users": (config(users=None), "it has no user 'x'"),
    "no clusters": (config(clusters=None), "Expected object with name x"),
    "users as a number": (config(users=5), TYPES),
    "a cluster of text": (config(cluster="hi"), TYPES),
    "a user of text": (config(user="u"), TYPES),
    "a namespace that is a number": (context(namespace=5), "namespace is not a string"),
    "a server that is a number": (cluster(server=5), TYPES),
    "a proxy that is a number": (cluster(proxy_url=5), "proxy-url is not a string"),
    "a server name that is a number": (cluster(tls_server_name=5), "tls-server-name is not a string"),
    "an authority that is no base64": (
        cluster(certificate_authority_data="%%%"),
        "certificate-authority-data is not base64",
    ),
    "an authority that is binary": (cluster(certificate_authority_data="//79/A=="), "is not text"),
    "an authority that is a number": (cluster(certificate_authority_data=5), TYPES),
    "a missing authority": (cluster(certificate_authority="/no/ca"), "File does not exist: /no/ca"),
    "a certificate that is no base64": (
        config(user={"client-certificate-data": "%", "client-key-data": "%"}),
        "client-certificate-data is not base64",
    ),
    "a missing certificate": (
        config(user={"client-certificate": "/no/c", "client-key": "/no/k"}),
        "File does not exist",
    ),
    "a missing token file": (config(user={"tokenFile": "/no/token"}), "/no/token: No such file or directory"),
    "a directory as token file": (config(user={"tokenFile": "/etc"}), "/etc: Is a directory"),
    "a token of two lines": (config(user={"token": "a\nb"}), "the token cannot be sent: only printable ASCII"),
    "a token that is a snowman": (
        config(user={"token": "\N{SNOWMAN}"}),
        "the token cannot be sent: only printable ASCII",
    ),
    "impersonation of a number": (config(user={"token": "t", "as": 5}), "as is not a string"),
    "impersonation of two lines": (config(user={"token": "t", "as": "a\nb"}), "as and as-groups cannot be sent"),
    "groups as text": (config(user={"token": "t", "as": "a", "as-groups": "g"}), "as-groups is not a list of strings"),
    "a plugin that is missing": (
        config(user={"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "/no/plugin"}}),
        "No such file or directory: '/no/plugin'",
    ),
    "a plugin that fails": (plugin("echo log in again >&2; exit 3"), "exec: process returned 3. log in again"),
    "a plugin that says nothing": (plugin("true"), "exec: failed to decode process output"),
    "a plugin that prints garbage": (plugin("echo hello"), "exec: failed to decode process output"),
    "a plugin that prints too much": (plugin(f"echo hello; echo '{credential(token='t')}'"), "exec: failed to decode"),
    "a plugin that prints a list": (plugin("echo []"), "exec: malformed response"),
    "a plugin without a status": (plugin(f"echo '{credential()}'"), "exec: missing token or clientCertificateData"),
    "a plugin without a command": (config(user={"exec": {}}), "exec: malformed request"),
    "an exec of text": (config(user={"exec": "x"}), "exec: malformed request"),
    "a provider without its token": (
        config(user={"auth-provider": {"name": "oidc", "config": {"client-secret": "secret-token"}}}),
        "Expected key id-token",
    ),
    "a maybe for insecure": (
        cluster(insecure_skip_tls_verify="false"),
        "insecure-skip-tls-verify is neither true nor false",
    ),
    "an auth provider": (config(user={"auth-provider": {"name": "gcp"}}), TYPES),
}
ADDRESSES = {
    "": "the API server's address '' is none: write it as https://HOST:PORT",
    "::::": "the API server's address '::::' is none",
    "https://[::1": "the API server's address 'https://[::1' is none",
    "https://h:999999": "the API server's address 'https://h:999999' is none",
    "https://h:x": "the API server's address 'https://h:x' is none",
    "ftp://h": "the API server's address 'ftp://h' is none",
    "https://": "the API server's address 'https://' is none",
    "https://a..b": "the API server's address 'https://a..b' is none",
    f"https://{'x' * 70}.org": f"the API server's address 'https://{'x' * 70}.org' is none",
    "https://no.such.host.invalid": "cannot reach the API server https://no.such.host.invalid: ",
    NOBODY: f"cannot reach the API server {NOBODY}: Connection refused; check that it runs, and the address in ",
    "https://localhost:1": "cannot reach the API server https://localhost:1: Connection refused; check that it runs, ",
}
PEM = "aGFsbG8="  # of nothing
AT_CONNECTING = {
    "an authority that is no certificate": (cluster(certificate_authority_data=PEM), "the certificate-authority for"),
    "a certificate that is none": (
        config(user={"client-certificate-data": PEM, "client-key-data": PEM}),
        f"the client certificate and key for {NOBODY} cannot be used: ",
    ),
    "a proxy of another kind": (
        cluster(proxy_url="socks5://u:geheim@x"),
        "the proxy 'x' cannot be used: write it as http://HOST:PORT",
    ),
    "a proxy that is nonsense": (cluster(proxy_url="http://[x"), "the proxy 'http://[x' cannot be used"),
}


def write(path: Path, content: object) -> Path:
    path.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
    return path


def several(kinds: Mapping[str, Any], size: int = 6) -> list[dict[str, Any]]:
    """In handfuls: that many candidates run at once."""
    names = list(kinds)
    return [{name: kinds[name] for name in names[at : at + size]} for at in range(0, len(names), size)]


@pytest.mark.parametrize("kinds", several(KUBECONFIGS), ids=lambda kinds: ", ".join(kinds)[:60])
def test_a_kubeconfig_that_cannot_be_used_is_told_in_a_line_at_once(
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
def test_certificates_and_proxies_that_cannot_be_used_are_named(
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
def test_an_address_that_is_none_and_one_where_nobody_is_are_told_apart(
    processes: Processes, tmp_path: Path, kinds: dict[str, str]
) -> None:
    started: list[tuple[Process, str, str]] = []
    for number, (address, sentence) in enumerate(kinds.items()):
        if not address.endswith(("[::1", "//")):  # the library says the same of these in other words
            path = write(tmp_path / f"{number}", config(cluster={"server": address}))
            started.append((run(processes, f"--kubeconfig={path}"), sentence, f"the kubeconfig {path} (context x)"))
        if address:
            started.append((run(processes, "--server", address), sentence, "--server"))
    for process, sentence, source in started:
        said = verdict(process)
        assert said.startswith(sentence)
        if "cannot reach" in said:
            assert said.endswith(f", and the address in {source}"), said


def test_the_parts_of_a_kubeconfig_that_are_used_are_named(processes: Processes, tmp_path: Path) -> None:
    path = write(tmp_path / "config", config())
    chosen = ["--context=x", "--cluster=x", "--user=x"]
    said = verdict(run(processes, f"--kubeconfig={path}", *chosen))
    assert said.endswith(f"the address in the kubeconfig {path} (context x, cluster x, user x)")


def test_a_proxy_on_the_way_is_named_where_nobody_is_reached(processes: Processes, tmp_path: Path) -> None:
    entry = cluster(server="https://192.0.2.1", proxy_url="http://u:geheim@127.0.0.1:1")
    said = verdict(run(processes, f"--kubeconfig={write(tmp_path / 'config', entry)}"))
    reached = "cannot reach the API server https://192.0.2.1 through the proxy 127.0.0.1:1: Connection refused"
    assert said.startswith(reached)


def test_kubeconfigs_that_cannot_be_read_are_named(processes: Processes, tmp_path: Path) -> None:
    good = write(tmp_path / "good", config())
    nowhere, here = str(tmp_path / "none"), str(tmp_path)
    absent = "it is empty, or does not exist"
    cases: list[tuple[list[str], dict[str, str], str]] = [
        ([f"--kubeconfig={nowhere}"], {}, f"cannot use the kubeconfig {nowhere}: {absent}"),
        ([f"--kubeconfig={here}"], {}, f"cannot use the kubeconfig {here}: {here}: Is a directory"),
        ([], {"KUBECONFIG": nowhere}, f"cannot use the kubeconfig {nowhere}: {absent}"),
        ([], {"KUBECONFIG": f"{nowhere}:{nowhere}2"}, f"cannot use the kubeconfig {nowhere}:{nowhere}2: {absent}"),
        (["--context=x"], {}, f"cannot use the kubeconfig /nowhere/.kube/config: {absent}"),
        ([f"--kubeconfig={good}", "--context=q"], {}, f"cannot use the kubeconfig {good}: "),
        ([f"--kubeconfig={good}", "--cluster=q"], {}, f"cannot use the kubeconfig {good}: "),
        ([f"--kubeconfig={good}", "--user=q"], {}, f"cannot use the kubeconfig {good}: it has no user 'q'"),
        ([], {}, f"{NO_CLUSTER}, run it in a Pod with a service account, or use --lock file on one machine"),
        ([], {"KUBERNETES_SERVICE_HOST": "x y"}, NO_CLUSTER),
    ]
    started = [(run(processes, *options, env=env), sentence) for options, env, sentence in cases]
    for process, sentence in started:
        assert verdict(process).startswith(sentence)


def test_a_candidate_that_would_wait_for_ever_is_told_at_once_too(processes: Processes) -> None:
    """Waiting cannot help where there is no cluster: neither without --wait nor with one."""
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


def test_who_reads_a_kubeconfig_does_not_outlive_the_elector(processes: Processes, tmp_path: Path) -> None:
    """It would come to the supervisor, and count as the command's."""
    readers = tmp_path / "readers"
    path = write(tmp_path / "hangs", plugin(f"echo $PPID >>{readers}; exec sleep 600"))
    processes.start([*KLEADER, "run", "--name=t", f"--kubeconfig={path}", "--", "true"], env=SURROUNDINGS)
    wait_until(lambda: readers.exists() and readers.read_text().endswith("\n"), "a reader")
    reader = int(readers.read_text())
    os.kill(psutil.Process(reader).ppid(), signal.SIGKILL)
    wait_gone(reader)


def test_what_a_plugin_prints_beside_its_answer_is_no_part_of_the_commands_output(
    processes: Processes, tmp_path: Path
) -> None:
    """Its stderr is the user's; standard output is the command's alone."""
    path = write(tmp_path / "talks", plugin(f"echo please log in >&2; echo '{credential(token='t')}'"))
    process = run(processes, f"--kubeconfig={path}")
    assert process.wait() == FAILED
    assert process.out == ""
    assert f"cannot reach the API server {NOBODY}: Connection refused" in process.err
    assert "Traceback" not in process.err


@pytest.mark.parametrize("value", ["http://[x", "socks5://x", "http://x:99999", ":::"])
def test_a_proxy_in_the_environment_that_cannot_be_used_is_named(
    processes: Processes, tmp_path: Path, value: str
) -> None:
    path = write(tmp_path / "config", config(cluster={"server": "https://192.0.2.1"}))
    said = verdict(run(processes, f"--kubeconfig={path}", env={"HTTPS_PROXY": value, "NO_PROXY": "[,//,*x,1.2.3.4/99"}))
    assert said.startswith(f"the proxy {value!r} cannot be used: write it as http://HOST:PORT")


# --- the lock file


def test_a_lock_file_that_cannot_serve_is_refused_in_a_line(processes: Processes, tmp_path: Path) -> None:
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
        "foreign": "holds something that kleader did not write: give another --lock file:PATH",
        "binary": "holds something that kleader did not write: give another --lock file:PATH",
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


def test_a_command_that_cannot_be_run_is_found_out_before_the_lock_is_touched(
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
        assert verdict(process, status).startswith(f"error: {sentence}")
    assert not lock.exists()


# --- the surroundings


def test_output_that_cannot_be_written_gives_no_traceback(processes: Processes) -> None:
    with open("/dev/full", "wb") as full:  # noqa: PTH123 - a device
        process = processes.start([*KLEADER, "--help"], stdout=full)
        assert verdict(process) == "error: No space left on device"


def test_a_working_directory_that_is_gone_is_named_where_it_matters(processes: Processes, tmp_path: Path) -> None:
    def start(lock: str) -> Process:
        words = " ".join([*KLEADER, "run", f"--lock=file:{lock}", "--name=t", "--", "/bin/echo", "ran"])
        script = f'mkdir "$0" && cd "$0" && rmdir "$0" && exec {words}'
        root = str(tmp_path.parents[0])
        return processes.start(["sh", "-c", script, f"{tmp_path}/gone"], env={"PYTHONPATH": os.getcwd(), "PWD": root})  # noqa: PTH109

    process = start("relative")
    assert process.wait() == 2
    assert "'relative' is relative to a directory that is gone: write it from /" in process.err
    process = start(f"{tmp_path}/lock")
    assert process.wait() == 0
    assert process.out == "ran\n"


def test_a_command_as_long_as_the_kernel_takes_gives_no_traceback(processes: Processes, tmp_path: Path) -> None:
    """Too long for another exec is a line; what still fits runs."""
    argument = "x" * (1 << 16)
    for number in (1, 28):
        process = processes.start(
            [*KLEADER, "run", f"--lock=file:{tmp_path}/lock", "--name=t", "-q", "--", "true", *[argument] * number]
        )
        status = process.wait()
        assert "Traceback" not in process.err
        assert status == 0 or process.err.endswith("Argument list too long\n"), process.err


def test_an_interrupt_that_is_ignored_stays_ignored(processes: Processes, tmp_path: Path) -> None:
    """A shell starts background jobs without job control so, and nohup does with HUP."""
    words = " ".join([*KLEADER, "run", f"--lock=file:{tmp_path}/lock", "-q", "--", "cat", "/proc/self/status"])
    process = processes.start(["sh", "-c", f"trap '' INT; exec {words}"])
    assert process.wait() == 0, process.err
    ignored = next(line.split()[1] for line in process.out.splitlines() if line.startswith("SigIgn"))
    assert int(ignored, 16) & 2


def test_help_is_quick_because_it_imports_little(processes: Processes) -> None:
    code = "import sys; from kleader.cli.main import cli; print(*sys.modules)"
    process = processes.start([sys.executable, "-c", code])
    assert process.wait() == 0, process.err
    loaded = {name.split(".")[0] for name in process.out.split()}
    assert "click" in loaded
    assert not loaded & {"asyncio", "h11", "http", "kubernetes", "psutil", "ssl", "urllib3", "yaml"}
    assert "kleader.cli.run" not in process.out.split()
