"""`kleader status` and `kleader wait` on a lock file: they observe it without locking it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from tests.process.conftest import KLEADER
from tests.support.processes import PATIENCE, wait_until

if TYPE_CHECKING:
    from pathlib import Path

    from tests.process.conftest import Start
    from tests.support.checker import Witness
    from tests.support.processes import Processes

pytestmark = pytest.mark.slow

ABSENT, USAGE, NOT_YET = 1, 2, 124


def ask(*args: str, **env: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, **env}
    return subprocess.run(
        [*KLEADER, *args], capture_output=True, text=True, check=False, timeout=PATIENCE, env=environment
    )  # fmt: skip


def only(lock: Path) -> dict[str, Any]:
    """The one lock that status shows."""
    (found,) = json.loads(ask("status", f"--lock=file:{lock}", "-o", "json").stdout)["items"]
    assert found["path"] == str(lock)
    return dict(found)


def test_the_exit_status_has_the_answer_even_if_stdout_or_stderr_is_closed(
    candidate: Start, lock: Path, witness: Witness
) -> None:
    """As if it were /dev/null."""

    def closed(*args: str) -> tuple[int, str]:
        shell = ["sh", "-c", '"$@" >&-', "-", *KLEADER, *args]
        found = subprocess.run(shell, stderr=subprocess.PIPE, text=True, check=False)
        return found.returncode, found.stderr

    missing = f"kleader: error: there is no lock file {lock}\n"
    assert closed("status", f"--lock=file:{lock}") == (ABSENT, missing)
    candidate(witness.command())
    witness.wait_start()
    assert closed("status", f"--lock=file:{lock}") == (0, "")
    assert closed("wait", "--for=leader", f"--lock=file:{lock}", "-o", "json") == (0, "")
    shell = ["sh", "-c", '"$@" 2>&-', "-", *KLEADER, "status", "--no-such-option"]
    assert subprocess.run(shell, check=False).returncode == USAGE


def test_a_lock_file_is_held_while_its_leader_runs_and_free_afterwards(
    candidate: Start, lock: Path, witness: Witness
) -> None:
    missing = ask("status", f"--lock=file:{lock}")
    assert missing.returncode == ABSENT
    assert missing.stderr == f"kleader: error: there is no lock file {lock}\n"
    leader = candidate(witness.command(), name="me")
    witness.wait_start()
    found = only(lock)
    assert (found["state"], found["holder"], found["expiresInSeconds"]) == ("held", "me", None)
    rows = ask("status", f"--lock=file:{lock}").stdout.splitlines()
    assert rows[1].split()[:4] == ["the", "file", "held", "me"]
    waiting = subprocess.Popen([*KLEADER, "wait", "--for=free", f"--lock=file:{lock}"], stdout=subprocess.PIPE)
    assert ask("wait", "--for=leader", f"--lock=file:{lock}").returncode == 0
    assert ask("wait", "--for=me", f"--lock=file:{lock}").returncode == 0
    assert ask("wait", "--for=free", f"--lock=file:{lock}", "--timeout=1s").returncode == NOT_YET
    leader.popen.terminate()
    leader.wait()
    said, _ = waiting.communicate(timeout=PATIENCE)
    assert waiting.returncode == 0
    assert said.decode() == f"{lock} me has released the lock, after {said.decode().split()[-1]}\n"
    free = only(lock)
    assert (free["state"], free["holder"], free["lastHolder"]) == ("free", None, "me")
    shown = ask("status", f"--lock=file:{lock}").stdout.splitlines()
    assert shown[2:] == [f"free since {free['freeSince'][:-4]}Z; last leader me"]
    witness.check()


def test_watching_a_lock_file_does_not_keep_candidates_from_acquiring_it(candidate: Start, lock: Path) -> None:
    """A candidate that tries only once acquires the lock each time."""
    candidate(["true"]).wait()
    with subprocess.Popen([*KLEADER, "status", "--watch", f"--lock=file:{lock}"], stdout=subprocess.PIPE) as looking:
        assert looking.stdout
        assert b"free" in looking.stdout.readline()
        for _ in range(10):
            assert candidate(["true"], "--no-wait").wait() == 0
        looking.kill()


def test_the_lock_files_of_the_default_directory_are_shown_by_namespace(processes: Processes, tmp_path: Path) -> None:
    place = tmp_path / "kleader"
    place.mkdir()
    for name in ("default.a.lock", "default.b.lock", "jobs.c.lock", "other"):
        (place / name).touch()
    script = f"import sys; from kleader.locks import file_lock; file_lock.user_directory = lambda: {str(place)!r}; "
    script += "from kleader.cli.main import main; sys.argv[0] = 'kleader'; main()"

    def shown(*args: str) -> str:
        argv = [sys.executable, "-c", script, "status", "--lock=file", *args]
        process = processes.start(argv)
        assert process.wait() == 0, process.err
        return process.out

    def names(*args: str) -> list[str]:
        return [line.rpartition("/")[2] for line in shown("-o", "name", *args).split()]

    assert names() == ["default.a.lock", "default.b.lock"]
    assert names("-n", "jobs") == ["jobs.c.lock"]
    assert names("-A") == ["default.a.lock", "default.b.lock", "jobs.c.lock"]
    assert names("b") == names("b", "-A") == ["default.b.lock"]
    assert [line.split()[:2] for line in shown("-A").splitlines()[::3]] == [["NAMESPACE", "NAME"], ["jobs", "c"]]


def test_a_file_that_another_program_has_locked_is_shown_as_held(lock: Path) -> None:
    lock.write_text("rubbish")
    with subprocess.Popen(["flock", "--no-fork", str(lock), "sleep", "600"]) as other:
        wait_until(lambda: only(lock)["state"] == "held", "the lock is held")
        assert only(lock)["holder"] == "a process that has not said its name"
        other.kill()
    assert only(lock)["state"] == "free"
