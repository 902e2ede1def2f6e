"""`kubectl leader …`, by the real kubectl."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.support.api import lease
from tests.support.controlplane import KUBECTL, binaries

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.support.plane import Plane

PROGRAM = """#!{python}
import sys
sys.path.insert(0, {here!r})
from kleader.cli.main import {function}
{function}()
"""
NO_FILES = ":4"


@pytest.fixture
def kubectl(plane: Plane, namespace: str, tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Kubectl with a PATH on which the plugin is installed, and two locks in its namespace."""
    programs = tmp_path / "programs"
    programs.mkdir()
    for name, function in (("kubectl-leader", "kubectl_leader"), ("kubectl_complete-leader", "kubectl_complete")):
        program = programs / name
        program.write_text(PROGRAM.format(python=sys.executable, here=os.getcwd(), function=function))  # noqa: PTH109
        program.chmod(0o755)
    for name in ("one", "two"):
        plane.api.create(lease(namespace, name, f"who-leads-{name}"))
    env = os.environ | {
        "PATH": f"{programs}:{os.environ['PATH']}",
        "KUBECONFIG": str(plane.kubeconfig(namespace=namespace)),
        "HOME": str(tmp_path),
    }

    def run(*args: str) -> subprocess.CompletedProcess[str]:
        argv = [str(binaries(KUBECTL) / KUBECTL), *args]
        return subprocess.run(argv, env=env, capture_output=True, text=True, check=False)

    return run


def test_kubectl_plugin_runs_kleader(kubectl: Callable[..., subprocess.CompletedProcess[str]]) -> None:
    assert "kubectl-leader" in kubectl("plugin", "list").stdout
    done = kubectl("leader", "status", "one", "-o", "json")
    assert (done.returncode, "who-leads-one" in done.stdout, "who-leads-two" in done.stdout) == (0, True, False)
    assert kubectl("leader", "status", "three").returncode == 1
    wrong = kubectl("leader", "run", "--lock=none", "--", "true")
    assert wrong.returncode == 2
    assert "Usage: kubectl leader run [OPTIONS] -- COMMAND" in wrong.stderr


@pytest.mark.parametrize(
    ("typed", "offered", "directive"),
    [
        (["sta"], ["status"], NO_FILES),
        (["status", ""], ["one", "two"], NO_FILES),
        (["status", "--namespace", "de"], ["default"], NO_FILES),
        (["status", "-o", "y"], ["yaml"], NO_FILES),
        (["run", "--lock=le"], ["lease", "leader-for-life"], NO_FILES),
        (["run", "--lease-d"], ["--lease-duration"], NO_FILES),
        (["run", ""], ["--"], NO_FILES),
        (["run", "--kubeconfig", ""], [], ":0"),
        (["run", "--", "./"], [], ":0"),
        (["status", "--kubeconfig=/nowhere", ""], [], NO_FILES),
        (["nothing", ""], [], NO_FILES),
    ],
    ids=" ".join,
)
def test_kubectl_completes_the_plugins_arguments(
    kubectl: Callable[..., subprocess.CompletedProcess[str]], typed: list[str], offered: list[str], directive: str
) -> None:
    """With all that begins so among what is offered; the shell takes the rest away."""
    done = kubectl("__complete", "leader", *typed)
    *lines, last = done.stdout.splitlines()
    said = [line.partition("\t")[0] for line in lines]
    assert last == directive, done
    start = typed[-1].rpartition("=")[2]
    assert [each for each in said if each.startswith(start)] == offered or (not offered and not said)
    assert "Error" not in done.stderr


def test_kubectl_completes_the_command_from_path(kubectl: Callable[..., subprocess.CompletedProcess[str]]) -> None:
    assert "echo" in kubectl("__complete", "leader", "run", "--", "ech").stdout.splitlines()
