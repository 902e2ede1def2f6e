"""The wheel and the source distribution of `make dist`, as each installer puts them beside what they depend on."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tools import install
from tools.standalone.debian import cache_home

if TYPE_CHECKING:
    from pathlib import Path

DIST = install.SOURCE / "dist"
UV = cache_home() / "uv" / "bin"
WHEEL = "-py3-none-any.whl"
PROGRAMS = ("kleader", "kubectl-leader")


@pytest.mark.parametrize(
    ("installer", "file"), [("pip", WHEEL), ("pip", ".tar.gz"), ("pipx", WHEEL), ("uv tool", ".tar.gz")]
)
def test_an_installer_installs_a_kleader_that_runs(installer: str, file: str, tmp_path: Path) -> None:
    distribution = str(DIST / f"kleader-{install.version()}{file}")
    programs = tmp_path / "bin"
    match installer:
        case "pip":
            subprocess.run([sys.executable, "-m", "venv", tmp_path], check=True)
            installs = [str(programs / "python"), "-m", "pip", "--disable-pip-version-check", "install", distribution]
        case "pipx":
            assert shutil.which("pipx"), "apt-get install pipx"
            installs = ["pipx", "install", distribution]
        case _:
            installs = [str(UV / "uv"), "--no-config", "tool", "install", distribution]
    homes = {"PIPX_HOME": f"{tmp_path}/pipx", "UV_TOOL_DIR": f"{tmp_path}/uv", "UV_PYTHON_DOWNLOADS": "never"}
    places = {"PIPX_BIN_DIR": str(programs), "UV_TOOL_BIN_DIR": str(programs)}
    subprocess.run(installs, check=True, env={**os.environ, **homes, **places})
    for program in PROGRAMS:
        assert_runs([str(programs / program)], tmp_path)


def test_uvx_runs_the_wheel(tmp_path: Path) -> None:
    wheel = str(DIST / f"kleader-{install.version()}{WHEEL}")
    for program in PROGRAMS:
        assert_runs([str(UV / "uvx"), "--no-config", "--from", wheel, program], tmp_path)


def assert_runs(kleader: list[str], place: Path) -> None:
    run = ["run", f"--lock=file:{place}/lock", "--name=t", "--", "sh", "-c", "exit 3"]
    assert subprocess.run([*kleader, *run], check=False).returncode == 3
