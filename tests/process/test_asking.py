"""`kleader resign` and `kleader transfer` without a cluster."""

from __future__ import annotations

import signal
import subprocess
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from kleader.cli.commands import cli
from tests.process.conftest import KLEADER

if TYPE_CHECKING:
    from pathlib import Path

    from tests.process.conftest import Start
    from tests.support.checker import Witness

pytestmark = pytest.mark.slow

COMMANDS = {"resign": ["resign"], "transfer": ["transfer", "--to=b"]}


def run(*args: str) -> subprocess.CompletedProcess[str]:
    argv = [*KLEADER, *args]
    return subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)


@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS)
def test_a_lock_file_takes_no_requests_and_the_error_names_the_process_to_end(
    candidate: Start, witness: Witness, lock: Path, command: str
) -> None:
    leader = candidate(witness.command())
    witness.wait_start()
    asked = run(*COMMANDS[command], "x", f"--lock=file:{lock}")
    assert asked.returncode == 1
    how = f"end it on this machine with kill -TERM {leader.pid}"
    assert asked.stderr == f"kleader: error: the leader of a lock file takes no requests: {how}\n"
    assert leader.running
    leader.signal(signal.SIGTERM)
    leader.wait()
    asked = run(*COMMANDS[command], "x", f"--lock=file:{lock}")
    assert asked.stderr == f"kleader: error: the lock file {lock} has no holder\n", "its pid is anybody's by now"


@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS)
def test_a_missing_lock_is_reported_in_one_line(tmp_path: Path, command: str) -> None:
    asked = run(*COMMANDS[command], "x", f"--lock=file:{tmp_path / 'none'}")
    assert (asked.returncode, asked.stderr.count("\n")) == (1, 1)
    assert asked.stderr.startswith("kleader: error: the lock file ")
    unreachable = run(*COMMANDS[command], "x", "--server=https://127.0.0.1:1", "--timeout=1s", "--request-timeout=1s")
    assert unreachable.returncode == 125
    assert unreachable.stderr.splitlines()[-1].startswith("kleader: error: the state of the lock is unknown after 1s: ")
    assert "Traceback" not in unreachable.stderr


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["resign"], "which lock? give its NAME"),
        (["resign", "x", "--now"], "--now needs --force"),
        (["resign", "x", "--yes"], "--yes needs --force"),
        (["resign", "x", "--force"], "--force asks for confirmation, and there is no terminal: give --yes"),
        (["transfer", "x", "--force"], "--force needs --to"),
        (["transfer", "x", "--to="], "cannot be an identity"),
        (["transfer", "--to=b"], "which lock? give its NAME"),
        (["transfer", "x", "--to= "], "cannot be an identity"),
        (["transfer", "x", "--to=leaderelection.k8s.io/unknown"], "cannot be an identity"),
        (["transfer", "x", "--to", "b" * 5000], "cannot be an identity"),
        (["transfer", "x", "--to=a\nb"], "'a\\nb' cannot be an identity"),
        (["transfer", "x", "--to=\x1b[2J"], "cannot be an identity"),
    ],
)
def test_invalid_options_exit_with_2(args: list[str], said: str) -> None:
    refused = CliRunner().invoke(cli, args, prog_name="kleader")
    assert refused.exit_code == 2
    assert said in refused.stderr
