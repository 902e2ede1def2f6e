"""What `kleader check` reports without a cluster."""

from __future__ import annotations

import json
import os
import socket
from typing import TYPE_CHECKING

import pytest
import yaml
from click.testing import CliRunner, Result

from kleader import system
from kleader.cli.check_result import CheckResult
from kleader.cli.commands import cli
from kleader.locks import file_lock

if TYPE_CHECKING:
    from pathlib import Path


def invoke(*args: str, **env: str | None) -> Result:
    return CliRunner().invoke(cli, ["check", *args], env=env, prog_name="kleader")


def said(result: Result, check: str) -> str:
    """The one line of this check: its level and its message."""
    (line,) = [line for line in result.stdout.splitlines() if line[6:].startswith(f"{check}: ")]
    return line.replace(f"  {check}: ", " ", 1)


def test_a_lock_file_in_a_private_directory_is_ok_and_is_not_created(tmp_path: Path) -> None:
    result = invoke(f"--lock=file:{tmp_path}/x.lock")
    assert result.exit_code == 0
    assert {line[:4] for line in result.stdout.splitlines()} == {"ok  "}
    assert said(result, "lock").endswith("x.lock does not exist yet: the first candidate creates it")
    assert list(tmp_path.iterdir()) == []


def test_the_last_holder_of_a_lock_file_is_reported_and_the_file_is_unchanged(tmp_path: Path) -> None:
    path = tmp_path / "x.lock"
    fd = file_lock.open_lock(str(path))
    file_lock.write_record(fd, {"holderIdentity": "somebody\x1b[2J"})
    os.close(fd)
    before = path.read_bytes()
    result = invoke(f"--lock=file:{path}")
    assert result.exit_code == 0
    assert "last held by somebody\\x1b[2J" in said(result, "lock")
    assert path.read_bytes() == before


def test_a_port_and_a_state_file_are_checked_and_left_unchanged(tmp_path: Path) -> None:
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
def test_the_file_system_must_be_local(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, level: str) -> None:
    monkeypatch.setattr(system, "filesystem", lambda _: kind)
    result = invoke(f"--lock=file:{tmp_path}/x.lock")
    assert said(result, "file system").split()[0] == level
    assert result.exit_code == (level == "fail")


def test_a_lock_file_of_another_user_fails(tmp_path: Path) -> None:
    (tmp_path / "x.lock").write_text("precious")
    result = invoke(f"--lock=file:{tmp_path}/x.lock")
    assert result.exit_code == 1
    assert "has content that kleader did not write" in said(result, "lock")


def test_a_writable_lock_file_in_a_directory_that_is_not_writable_is_ok(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "x.lock").touch(0o600)
    monkeypatch.setattr(os, "access", lambda *_: False)
    assert invoke(f"--lock=file:{tmp_path}/x.lock").exit_code == 0


def test_a_lock_file_that_other_users_can_open_gives_a_warning(tmp_path: Path) -> None:
    (tmp_path / "x.lock").touch()
    (tmp_path / "x.lock").chmod(0o644)
    result = invoke(f"--lock=file:{tmp_path}/x.lock")
    assert result.exit_code == 0
    assert said(result, "readers").startswith("warn every user who can open")


def test_a_missing_home_directory_for_the_lock_file_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 4711)
    result = invoke("--lock=file", "--name=x")
    assert result.exit_code == 1
    assert said(result, "directory").endswith(
        "user 4711 has no home directory to keep the lock file in: give --lock file:PATH"
    )


def test_the_default_lock_file_is_reported_to_exclude_only_one_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_lock, "user_directory", lambda: f"{tmp_path}/state/kleader")
    result = invoke("--lock=file", "--name=x")
    assert result.exit_code == 0
    assert f"only candidates of user {os.geteuid()} exclude each other" in said(result, "users")
    assert list(tmp_path.iterdir()) == []


def test_a_default_directory_that_others_can_write_to_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = tmp_path / "kleader"
    monkeypatch.setattr(file_lock, "user_directory", lambda: str(place))
    place.mkdir()
    place.chmod(0o777)
    result = invoke("--lock=file", "--name=x")
    assert result.exit_code == 1
    assert "is not safe for lock files" in said(result, "directory")


def test_unsafe_timings_fail_with_the_sum() -> None:
    result = invoke("--name=x", "--loss-grace=5s")
    assert result.exit_code == 1
    assert "10s + loss grace 5s + kill budget 500ms + skew 1.5s = 17s exceeds" in said(result, "timings")


def test_check_reads_the_variables_of_run(tmp_path: Path) -> None:
    result = invoke(KLEADER_RUN_LOCK=f"file:{tmp_path}/x.lock", KLEADER_RUN_LEASE_DURATION="30s")
    assert "10s + 3s + 500ms + 3s = 16.5s fits into the lease duration 30s" in said(result, "timings")


def test_a_warning_of_run_is_a_warning_of_check(tmp_path: Path) -> None:
    result = invoke(f"--lock=file:{tmp_path}/x.lock", "--force")
    assert result.exit_code == 0
    assert said(result, "options").startswith("warn --force does nothing")


def test_a_run_without_an_election_gives_a_warning() -> None:
    result = invoke("--leader-elect=false", "--name=x")
    assert (result.exit_code, said(result, "lock").split()[0]) == (0, "warn")


@pytest.mark.parametrize("form", ["json", "yaml"])
def test_programs_get_the_same_report_as_one_document(tmp_path: Path, form: str) -> None:
    lines = invoke(f"--lock=file:{tmp_path}/none/x.lock").stdout.splitlines()
    result = invoke(f"--lock=file:{tmp_path}/none/x.lock", "-o", form)
    report = json.loads(result.stdout) if form == "json" else yaml.safe_load(result.stdout)
    assert result.exit_code == 1
    assert (report["kind"], report["ok"]) == ("CheckReport", False)
    assert [CheckResult(**each).line for each in report["findings"]] == lines


@pytest.mark.parametrize(
    ("args", "sentence"),
    [
        ([], "which lock? give --name, or the command after which it is named"),
        (["--", "python", "x.py"], "give --name"),
        (["--name=x", "--lock=flock"], "is not a lock"),
        (["--name=x", "y"], "write -- before the command"),
    ],
)
def test_invalid_options_are_usage_errors(args: list[str], sentence: str) -> None:
    result = invoke(*args)
    assert (result.exit_code, result.stdout) == (2, "")
    assert sentence in result.stderr


def test_without_a_cluster_one_failure_names_the_remedies(tmp_path: Path) -> None:
    result = invoke("--", "./worker", HOME=str(tmp_path), KUBECONFIG=None, KUBERNETES_SERVICE_HOST=None)
    assert result.exit_code == 1
    assert said(result, "API").startswith("fail no Kubernetes cluster is configured: give --kubeconfig")
    assert result.stdout.splitlines()[-1].startswith("fail  API: ")
