"""The wheel and the source distribution of `make dist`, as pip installs them with what they depend on."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tools import install

if TYPE_CHECKING:
    from pathlib import Path

DIST = install.SOURCE / "dist"


@pytest.mark.parametrize("file", ["-py3-none-any.whl", ".tar.gz"])
def test_pip_installs_a_kleader_that_runs(file: str, tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-m", "venv", tmp_path], check=True)
    pip = [str(tmp_path / "bin" / "python"), "-m", "pip", "--quiet", "--disable-pip-version-check", "install"]
    subprocess.run([*pip, str(DIST / f"kleader-{install.version()}{file}")], check=True)
    run = ["run", f"--lock=file:{tmp_path}/lock", "--name=t", "--", "sh", "-c", "exit 3"]
    for program in ("kleader", "kubectl-leader"):
        assert subprocess.run([tmp_path / "bin" / program, *run], check=False).returncode == 3
