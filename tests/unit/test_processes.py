"""What the tests believe of processes."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import pytest

from tests.support.processes import alive, wait_gone, wait_until

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.processes import Processes


def test_a_process_and_its_descendants_are_alive_until_they_end(processes: Processes, tmp_path: Path) -> None:
    left = tmp_path / "left"
    process = processes.start(["sh", "-c", f"setsid sleep 600 & echo $! >{left}; sleep 600"])
    wait_until(lambda: left.exists() and left.read_text().endswith("\n"), "what it leaves")
    orphan = int(left.read_text())
    assert alive(os.getpid())
    assert alive(process.pid)
    assert alive(orphan)
    process.kill()
    assert not alive(process.pid)
    assert alive(orphan), "it comes to this process"
    os.kill(orphan, 9)
    wait_gone(orphan)


@pytest.mark.skipif(sys.platform != "linux", reason="orphans come to this process on Linux alone")
def test_a_process_whose_pid_was_reused_is_dead() -> None:
    assert os.getppid() == 0 or not alive(os.getppid())
