"""What `kleader completion` prints of kubeconfigs, and which scripts there are."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner, Result

from kleader.cli.completion import IN_KUBECONFIG, SHELLS
from kleader.cli.main import cli

if TYPE_CHECKING:
    from pathlib import Path

BROKEN = ["", "[]", "contexts: 7", "contexts: [7]", "contexts: [{}]", "\t", "{", "contexts: [{name: x}, 7]", "\x00"]


def invoke(*args: str, **env: str | None) -> Result:
    return CliRunner().invoke(cli, ["completion", *args], env=env, prog_name="kleader")


def written(path: Path, *names: str) -> str:
    path.write_text(json.dumps({kind: [{"name": f"{name}-{kind}"} for name in names] for kind in IN_KUBECONFIG}))
    return str(path)


@pytest.mark.parametrize("kind", IN_KUBECONFIG)
def test_the_names_of_all_kubeconfigs_are_printed_once_each(tmp_path: Path, kind: str) -> None:
    paths = [written(tmp_path / "a", "one", "two"), str(tmp_path / "missing"), written(tmp_path / "b", "two", "three")]
    result = invoke(kind, KUBECONFIG=":".join(paths))
    assert (result.exit_code, result.output.split()) == (0, [f"{name}-{kind}" for name in ("one", "two", "three")])
    assert invoke(kind, f"--kubeconfig={paths[2]}", KUBECONFIG=paths[0]).output.split()[0] == f"two-{kind}"


@pytest.mark.parametrize("content", BROKEN)
def test_a_broken_kubeconfig_has_no_names(tmp_path: Path, content: str) -> None:
    (tmp_path / "config").write_text(content)
    result = invoke("contexts", KUBECONFIG=str(tmp_path / "config"))
    assert (result.exit_code, result.output) == (0, "")


def test_a_name_that_would_be_two_lines_is_left_out(tmp_path: Path) -> None:
    result = invoke("contexts", KUBECONFIG=written(tmp_path / "config", "one\nrm", "two\x1b[2J", "three"))
    assert result.output == "three-contexts\n"


@pytest.mark.parametrize("shell", SHELLS)
def test_a_script_is_the_same_wherever_it_is_made_and_has_no_gap(shell: str) -> None:
    """No cluster and no variable is asked for it."""
    result = invoke(shell, KUBECONFIG="/none", KLEADER_RUN_LOCK="file")
    assert (result.exit_code, result.output) == (0, invoke(shell, KUBECONFIG=None).output)
    assert not re.search("@[A-Z]+@", result.output)


def test_another_shell_is_usage() -> None:
    result = invoke("tcsh")
    assert result.exit_code == 2
    assert "'tcsh' is not one of" in result.output
