"""What `kleader check` says where no cluster is asked."""

from __future__ import annotations

import json
import os
import socket
from typing import TYPE_CHECKING

import pytest
import yaml
from click.testing import CliRunner, Result

from kleader import platform
from kleader.cli.finding import Finding
from kleader.cli.main import cli
from kleader.locks import file

if TYPE_CHECKING:
    from pathlib import Path


def invoke(*args: str, **env: str | None) -> Result:
    return CliRunner().invoke(cli, ["check", *args], env=env, prog_name="kleader")


def said(result: Result, check: str) -> str:
    """The one line about this, without what it begins with but for the level."""
    (line,) = [line for line in result.stdout.splitlines() if line[6:].startswith(f"{check}: ")]
    return line.replace(f"  {check}: ", " ", 1)


def test_a_lock_file_in_a_directory_of_ones_own_is_all_right_and_is_not_made(tmp_path: Path) -> None:
    result = invoke(f"--lock=file:{tmp_path}/x.lock")
    assert result.exit_code == 0
    assert {line[:4] for line in result.stdout.splitlines()} == {"ok  "}
    assert said(result, "lock").endswith("x.lock does not exist yet: the first candidate makes it")
    assert list(tmp_path.iterdir()) == []


def test_who_held_a_lock_file_last_is_told_and_it_stays_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "x.lock"
    fd = file.open_lock(str(path), make_directory=False)
    file.write(fd, {"identity": "somebody\x1b[2J"})
    os.close(fd)
    before = path.read_bytes()
    result = invoke(f"--lock=file:{path}")
    assert result.exit_code == 0
    assert "which somebody\\x1b[2J held last" in said(result, "lock")
    assert path.read_bytes() == before


def test_a_port_and_a_state_file_are_looked_at_and_left_as_they_are(tmp_path: Path) -> None:
    lock, state = f"--lock=file:{tmp_path}/x.lock", tmp_path / "state"
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        result = invoke(lock, f"--http=127.0.0.1:{port}", f"--state-file={state}")
    assert result.exit_code == 0
    assert said(result, "http").startswith(f"warn 127.0.0.1:{port}: Address already in use; choose another")
    assert said(result, "state file") == f"ok   {state}: can be written"
    result = invoke(lock, "--http=192.0.2.1:80", f"--state-file={tmp_path}/none/state")
    assert result.exit_code == 1
    assert said(result, "http") == "fail 192.0.2.1:80: Cannot assign requested address; choose another address or port"
    assert said(result, "state file").startswith("fail")
    assert said(invoke(lock, f"--http=127.0.0.1:{port}"), "http") == f"ok   127.0.0.1:{port} is free"
    assert list(tmp_path.iterdir()) == []


def test_a_directory_that_does_not_exist_fails(tmp_path: Path) -> None:
    result = invoke(f"--lock=file:{tmp_path}/none/x.lock")
    assert result.exit_code == 1
    assert said(result, "directory").startswith("fail")


def test_a_directory_that_is_not_writable_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda *_: False)  # root may write anywhere
    result = invoke(f"--lock=file:{tmp_path}/x.lock")
    assert result.exit_code == 1
    assert "is not writable; give --lock file:PATH" in said(result, "directory")


@pytest.mark.parametrize(("kind", "level"), [("nfs4", "fail"), ("fuse.sshfs", "fail"), ("ext4", "ok"), ("", "warn")])
def test_the_file_system_is_to_be_a_local_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, level: str
) -> None:
    monkeypatch.setattr(platform, "filesystem", lambda _: kind)
    result = invoke(f"--lock=file:{tmp_path}/x.lock")
    assert said(result, "file system").split()[0] == level
    assert result.exit_code == (level == "fail")


def test_a_file_that_is_somebody_elses_fails(tmp_path: Path) -> None:
    (tmp_path / "x.lock").write_text("precious")
    result = invoke(f"--lock=file:{tmp_path}/x.lock")
    assert result.exit_code == 1
    assert "holds something that kleader did not write" in said(result, "lock")


def test_without_a_place_for_a_lock_file_that_is_the_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    result = invoke("--lock=file", "--name=x", XDG_RUNTIME_DIR=None)
    assert result.exit_code == 1
    assert "XDG_RUNTIME_DIR is not set" in said(result, "directory")


def test_timings_that_cannot_be_safe_fail_with_the_sum_and_the_rest_is_looked_at(tmp_path: Path) -> None:
    result = invoke(f"--lock=file:{tmp_path}/x.lock", "--loss-grace=5s")
    assert result.exit_code == 1
    assert "10s + loss grace 5s + kill budget 500ms + skew 1.5s = 17s exceeds" in said(result, "timings")
    assert said(result, "directory").startswith("ok")


def test_what_run_reads_from_its_variables_is_what_is_looked_at(tmp_path: Path) -> None:
    result = invoke(KLEADER_RUN_LOCK=f"file:{tmp_path}/x.lock", KLEADER_RUN_LEASE_DURATION="30s")
    assert "10s + 3s + 500ms + 3s = 16.5s fits into the lease duration 30s" in said(result, "timings")


def test_what_run_would_remark_is_a_warning_and_no_failure(tmp_path: Path) -> None:
    result = invoke(f"--lock=file:{tmp_path}/x.lock", "--force")
    assert result.exit_code == 0
    assert said(result, "options").startswith("warn --force does nothing")


def test_a_run_without_an_election_is_warned_of() -> None:
    result = invoke("--leader-elect=false", "--name=x")
    assert (result.exit_code, said(result, "lock").split()[0]) == (0, "warn")


@pytest.mark.parametrize("form", ["json", "yaml"])
def test_programs_get_the_same_as_one_document(tmp_path: Path, form: str) -> None:
    lines = invoke(f"--lock=file:{tmp_path}/none/x.lock").stdout.splitlines()
    result = invoke(f"--lock=file:{tmp_path}/none/x.lock", "-o", form)
    report = json.loads(result.stdout) if form == "json" else yaml.safe_load(result.stdout)
    assert result.exit_code == 1
    assert (report["kind"], report["ok"]) == ("CheckReport", False)
    assert [Finding(**each).line for each in report["findings"]] == lines


@pytest.mark.parametrize(
    ("args", "sentence"),
    [
        ([], "give the lock's --name, or the command that names it"),
        (["--", "python", "x.py"], "give --name"),
        (["--name=x", "--lock=flock"], "is not a lock"),
        (["--name=x", "y"], "write -- before the command"),
    ],
)
def test_what_cannot_be_meant_is_usage(args: list[str], sentence: str) -> None:
    result = invoke(*args)
    assert (result.exit_code, result.stdout) == (2, "")
    assert sentence in result.stderr


def test_no_cluster_at_all_is_one_failure_that_names_the_ways_out(tmp_path: Path) -> None:
    result = invoke("--", "./worker", HOME=str(tmp_path), KUBECONFIG=None, KUBERNETES_SERVICE_HOST=None)
    assert result.exit_code == 1
    assert said(result, "API").startswith("fail no Kubernetes cluster is configured: give --kubeconfig")
    assert result.stdout.splitlines()[-1].startswith("fail  API: ")
