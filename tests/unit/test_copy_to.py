"""`kleader copy-to` of a tree, and of a kleader that is none."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from kleader.cli.commands import cli

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What tells a standalone tree."""
    tree = tmp_path / "tree"
    for file in ("bin/python3", "lib/loader/kleader", "share/sbom"):
        (tree / file).parent.mkdir(parents=True)
        (tree / file).write_text(file)
    (tree / "bin/python3").chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(tree / "bin" / "python3"))
    return tree


def copy(to: Path) -> int:
    return CliRunner().invoke(cli, ["copy-to", str(to)]).exit_code


def files(below: Path) -> dict[str, tuple[str, int]]:
    found = (path for path in below.rglob("*") if path.is_file())
    return {str(path.relative_to(below)): (path.read_text(), path.stat().st_mode) for path in found}


def test_the_whole_tree_is_copied(tree: Path, tmp_path: Path) -> None:
    assert copy(tmp_path / "copy") == 0
    assert files(tmp_path / "copy") == files(tree)


def test_the_target_volume_keeps_its_mode(tree: Path, tmp_path: Path) -> None:
    """It is root's, and the init container is not root."""
    (tmp_path / "copy").mkdir()
    (tmp_path / "copy").chmod(0o777)
    assert copy(tmp_path / "copy") == 0
    assert (tmp_path / "copy").stat().st_mode & 0o777 == 0o777
    assert files(tmp_path / "copy") == files(tree)


def test_a_running_program_keeps_its_file_when_it_is_copied_again(tree: Path, tmp_path: Path) -> None:
    assert copy(tmp_path / "copy") == 0
    with (tmp_path / "copy" / "bin" / "python3").open() as running:
        (tree / "bin" / "python3").write_text("newer")
        assert copy(tmp_path / "copy") == 0
        assert running.read() == "bin/python3"
    assert files(tmp_path / "copy") == files(tree)


def test_a_failed_copy_is_reported_in_one_line(tree: Path, tmp_path: Path) -> None:
    """A volume that is full or read-only fails in the same place."""
    (tmp_path / "lib").write_text("a file in the place of a directory")
    result = CliRunner().invoke(cli, ["copy-to", str(tmp_path)])
    assert result.exit_code == 125
    assert result.stderr == f"kleader: error: cannot copy kleader to {tmp_path}: File exists\n"


def test_an_installation_is_not_copied(tmp_path: Path) -> None:
    """It would not find its Python."""
    result = CliRunner().invoke(cli, ["copy-to", str(tmp_path / "copy")])
    assert (result.exit_code, (tmp_path / "copy").exists()) == (125, False)
    assert "standalone" in result.output
