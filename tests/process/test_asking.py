"""`kleader resign` and `kleader transfer` where there is no cluster to ask."""

from __future__ import annotations

import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from tests.process.conftest import Start
    from tests.support.checker import Witness

COMMANDS = {"resign": ["resign"], "transfer": ["transfer", "--to=b"]}


def run(*args: str) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-m", "kleader", *args]
    return subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=50)


@pytest.mark.parametrize("command", COMMANDS)
def test_a_lock_file_carries_no_requests_and_the_line_names_whom_to_end(
    candidate: Start, witness: Witness, lock: Path, command: str
) -> None:
    leader = candidate(witness.command())
    witness.wait_start()
    asked = run(*COMMANDS[command], "x", f"--lock=file:{lock}")
    assert asked.returncode == 1
    how = f"end it with kill -TERM {leader.pid}"
    assert (
        asked.stderr == f"kleader: error: no requests are left in a lock file: its leader is on this machine, {how}\n"
    )
    assert leader.running
    leader.signal(signal.SIGTERM)
    leader.wait()
    asked = run(*COMMANDS[command], "x", f"--lock=file:{lock}")
    assert asked.stderr == f"kleader: error: nobody holds the lock file {lock}\n", "its pid is anybody's by now"


@pytest.mark.parametrize("command", COMMANDS)
def test_what_is_not_there_is_told_in_one_line(tmp_path: Path, command: str) -> None:
    asked = run(*COMMANDS[command], "x", f"--lock=file:{tmp_path / 'none'}")
    assert (asked.returncode, asked.stderr.count("\n")) == (1, 1)
    assert asked.stderr.startswith("kleader: error: nobody holds the lock file ")
    unreachable = run(*COMMANDS[command], "x", "--server=https://127.0.0.1:1", "--timeout=1s", "--request-timeout=1s")
    assert unreachable.returncode == 125
    assert unreachable.stderr.splitlines()[-1].startswith("kleader: error: nobody can tell after 1s: ")
    assert "Traceback" not in unreachable.stderr


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["resign"], "which lock? give its NAME"),
        (["resign", "x", "--now"], "--now goes with --force"),
        (["resign", "x", "--yes"], "--yes goes with --force"),
        (["resign", "x", "--force"], "--force wants to be confirmed: give --yes"),
        (["transfer", "x"], "Missing option '--to'"),
        (["transfer", "--to=b"], "which lock? give its NAME"),
        (["transfer", "x", "--to= "], "is nobody's identity"),
        (["transfer", "x", "--to=leaderelection.k8s.io/unknown"], "is nobody's identity"),
        (["transfer", "x", "--to", "b" * 5000], "is nobody's identity"),
        (["transfer", "x", "--to=a\nb"], "'a\\nb' is nobody's identity"),
        (["transfer", "x", "--to=\x1b[2J"], "is nobody's identity"),
    ],
)
def test_what_cannot_be_meant_is_refused_with_2(args: list[str], said: str) -> None:
    refused = run(*args)
    assert refused.returncode == 2
    assert said in refused.stderr
