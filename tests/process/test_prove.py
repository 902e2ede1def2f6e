"""What `make prove` runs finds what it looks for, and nothing where there is nothing."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import kleader

HERE = Path(kleader.__file__).parent
CHAOS = [sys.executable, "-m", "tests.prove", "--kind=file", "--no-simulation", "--fault=supervisor killed", "--first"]


def chaos(*options: str) -> subprocess.CompletedProcess[str]:
    """Some of it, on file locks."""
    return subprocess.run(
        [*CHAOS, *options], cwd=HERE.parent, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


@pytest.mark.slow
def test_an_elector_that_closes_the_file_lock_before_the_tree_is_dead_is_found(tmp_path: Path) -> None:
    """Within seconds, with the seed and the story."""
    copy = shutil.copytree(HERE, tmp_path / "kleader", ignore=shutil.ignore_patterns("__pycache__"))
    elector = copy / "elector" / "file_elector.py"
    source = elector.read_text()
    assert source.count("if self._tracker.has_command:") == 1
    elector.write_text(source.replace("if self._tracker.has_command:", "if False:"))
    found = chaos("--minutes=2", "--seed=7", f"--kleader={tmp_path}")
    assert found.returncode == 1, found.stdout
    assert "OVERLAP: seed 7, 0-file, supervisor killed:" in found.stdout
    assert re.search(r"was alive beside pid \d+ .*: (for at least|the flock)", found.stdout)


@pytest.mark.slow
def test_chaos_finds_no_problem_in_unbroken_code() -> None:
    done = chaos("--trials=3", "--minutes=1.5")
    assert done.returncode == 0, done.stdout
    assert re.search(r"^supervisor killed +[1-9]\d* +\d+ +0 ", done.stdout, re.MULTILINE), done.stdout
