"""What reaches an API server and a plugin."""

from __future__ import annotations

import json
import os
import pty
import subprocess
from typing import TYPE_CHECKING

import pytest

from tests.process.conftest import KLEADER
from tests.process.test_bad_input import SURROUNDINGS, plugin, write
from tests.support.json_server import Asked, json_server
from tests.support.kubeconfig import config

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.processes import Processes

pytestmark = pytest.mark.slow

NOT_ACQUIRED, FAILED = 124, 125
HELD = {
    "apiVersion": "coordination.k8s.io/v1",
    "kind": "Lease",
    "metadata": {"name": "t", "namespace": "default", "uid": "u", "resourceVersion": "5"},
    "spec": {"holderIdentity": "other", "leaseDurationSeconds": 15, "renewTime": "2026-01-01T00:00:00.000000Z"},
}
CREDENTIALS: list[dict[str, object]] = [{"token": "secret"}, {"username": "u", "password": "secret"}]


@pytest.fixture
def plain_server() -> Iterator[tuple[str, list[Asked]]]:
    """The address of an API server without TLS, whose lock another candidate holds, and the requests that it got."""
    with json_server(lambda _asked, _port: HELD) as (port, seen):
        yield f"http://127.0.0.1:{port}", seen


@pytest.mark.slow
def test_no_token_and_no_password_reaches_an_api_server_without_tls(
    processes: Processes, tmp_path: Path, plain_server: tuple[str, list[Asked]]
) -> None:
    """Whether a kubeconfig or --server has the address; which is told once, and not where there is nothing to send."""
    address, seen = plain_server
    started = []
    for number, user in enumerate([*CREDENTIALS, {}]):
        inside = write(tmp_path / f"inside-{number}", config({"server": address}, user))
        beside = write(tmp_path / f"beside-{number}", config(None, user))
        for options in ([f"--kubeconfig={inside}"], [f"--kubeconfig={beside}", f"--server={address}"]):
            argv = [*KLEADER, "run", "--name=t", "--no-wait", *options, "--", "true"]
            started.append((bool(user), processes.start(argv, env=SURROUNDINGS)))
    for withheld, process in started:
        assert process.wait() == NOT_ACQUIRED, process.err
        assert process.err.count("without TLS the API server is sent no credentials") == withheld
    assert len(seen) >= len(started)
    assert not [asked for asked in seen if "Authorization" in asked.headers]


def test_exec_plugin_on_a_terminal_may_not_ask_there(tmp_path: Path) -> None:
    """Its standard input is /dev/null, also where kleader's is a terminal."""
    told = tmp_path / "told"
    script = f'echo "$KUBERNETES_EXEC_INFO" >{told}; readlink /proc/self/fd/0 >>{told}; echo log in again >&2; exit 3'
    path = write(tmp_path / "config", plugin(script))
    ours, theirs = pty.openpty()
    argv = [*KLEADER, "status", "t", f"--kubeconfig={path}"]
    done = subprocess.Popen(argv, stdin=theirs, stdout=theirs, stderr=theirs, env=os.environ)
    os.close(theirs)
    said = b""
    while piece := _read(ours):
        said += piece
    os.close(ours)
    assert done.wait() == FAILED
    lines = said.decode().splitlines()
    assert lines[0] == "log in again"
    assert lines[1:] == [
        f"kleader: error: cannot use the kubeconfig {path}: its exec plugin /bin/sh ended with status 3"
    ]
    information, stdin = told.read_text().splitlines()
    assert json.loads(information)["spec"] == {"interactive": False}
    assert stdin == os.devnull


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 4096)
    except OSError:  # nobody has the other end open
        return b""
