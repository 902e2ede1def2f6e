"""Processes of an earlier term are known by their environment."""

from __future__ import annotations

import os
import subprocess
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kleader.procs.process_tracker import has_survivors
from tests.support.processes import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

MARKER = "KLEADER_TERM_"
HERE = f"{os.getpid()}-"  # other tests run beside these, and every process of the machine is looked at
LOCK = {"KLEADER_LOCK": "leader-for-life", "KLEADER_NAME": f"{HERE}of test_process_tracker"}
OTHERS = {"KLEADER_LOCK": "file"}


@contextmanager
def process(*terms: str, **variables: str) -> Iterator[subprocess.Popen[bytes]]:
    """One that was started in these terms, and whose environment can be read: exec closes Popen's pipe before that."""
    environment = variables | {MARKER + HERE + term: "1" for term in terms}
    with subprocess.Popen(["/bin/sleep", "600"], env=environment) as running:
        try:
            wait_until(Path(f"/proc/{running.pid}/environ").read_bytes, "its environment")
            yield running
        finally:
            running.kill()


@pytest.mark.parametrize(
    ("terms", "variables", "found"),
    [
        (("test-old",), LOCK, True),
        (("test-own",), LOCK, False),
        (("test-old",), OTHERS, False),
        (("test-dead",), LOCK, True),
        (("test-dead", "test-nested"), OTHERS, True),
    ],
    ids=["an unknown term's", "an own term's", "another lock's", "a dead term's", "a kleader's within a dead term"],
)
def test_processes_of_earlier_terms_are_found_and_killed_if_their_kleader_is_dead(
    terms: tuple[str, ...], variables: dict[str, str], *, found: bool
) -> None:
    with process(*terms, **variables) as running:
        assert has_survivors(LOCK, MARKER, {HERE + "test-own"}, HERE + "test-dead") is found
        if "test-dead" in terms:
            assert running.wait(60) == -9
        else:
            assert running.poll() is None
