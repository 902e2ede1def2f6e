"""Every command line of the README works as it is, and the Role of kleader-run(1) is enough."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml  # type: ignore[import-untyped,unused-ignore]

from tests.support.api import lease, lease_path
from tests.support.controlplane import KUBECTL, binaries

if TYPE_CHECKING:
    from tests.support.controlplane import ControlPlane
    from tests.support.plane import Plane
    from tests.support.processes import Processes

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text("utf-8")
RULES = re.findall(r"^rules:\n(?:[- ] .*\n)+", (ROOT / "man/kleader-run.1").read_text("utf-8"), re.MULTILINE)
BLOCKS = re.findall(r"```(?:ini)?\n(.*?)```", README, re.DOTALL)
BEFORE = r"\$ |(?:[0-9*]+ ){4}[0-9*] +|ExecStart=/usr/local/bin/"  # a prompt, cron's columns, systemd's key
LINES = [line for block in BLOCKS for line in re.findall(rf"^(?:{BEFORE})?(kleader [a-z-]+ .+)$", block, re.MULTILINE)]
SAYS = dict(re.findall(r"^\$ (kleader .+)\n([^$`].*)$", README, re.MULTILINE))
PROGRAM = """#!{python}
import sys
sys.path.insert(0, {here!r})
from kleader.cli.main import main
main()
"""
RUN_OF_ITS_OWN = 'mount -t tmpfs none /run && exec "$@"'


@pytest.fixture
def kubectl() -> Path:
    """Where it is."""
    return binaries(KUBECTL) / KUBECTL


@pytest.fixture
def surroundings(plane: Plane, kubectl: Path, tmp_path: Path) -> dict[str, str]:
    """A directory with all that the README's lines run, and an environment to run them there."""
    stub = "#!/bin/sh\necho ran"
    programs = dict.fromkeys(("programs/celery", "nightly-report", "nightly", "feed", "maintenance"), stub)
    programs["programs/kleader"] = PROGRAM.format(python=sys.executable, here=os.getcwd())  # noqa: PTH109
    (tmp_path / "programs").mkdir()
    for name, text in programs.items():
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    (tmp_path / "programs/kubectl").symlink_to(kubectl)
    for name in ("jobs", "operators"):
        plane.api.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    given = {"KUBECONFIG": str(plane.kubeconfig()), "HOME": str(tmp_path), "XDG_RUNTIME_DIR": str(tmp_path)}
    return {**os.environ, **given, "PATH": f"{tmp_path}/programs:{os.environ['PATH']}"}


@pytest.mark.parametrize("line", LINES)
def test_a_command_line_does_what_it_is_there_for(line: str, surroundings: dict[str, str], tmp_path: Path) -> None:
    """Each is given to a shell as it is, and the command runs, or the manifest is applied."""
    private = ["unshare", "--mount", "sh", "-c", RUN_OF_ITS_OWN, "sh"] if os.geteuid() == 0 else []
    argv = [*private, "sh", "-c", line]
    done = subprocess.run(argv, cwd=tmp_path, env=surroundings, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    if "kubectl apply" in line:
        assert re.search("deployment.apps/(worker|beat) created", done.stdout)
    else:
        wanted = re.sub("[0-9]+", "[0-9]+", re.escape(SAYS.get(line, "ran")))
        assert re.fullmatch(f"{wanted}\n", done.stdout), done.stdout


def test_the_role_is_enough_to_wait_lead_and_release(
    own_plane: ControlPlane, namespace: str, processes: Processes
) -> None:
    """It watches (it does not fall back to polling), takes over, creates where there is none, and releases."""
    user = own_plane.new_bare_user()
    own_plane.grant(user, namespace, yaml.safe_load(RULES[0])["rules"])
    own_plane.api.create(lease(namespace, "worker", "somebody", duration=3600))
    config = own_plane.kubeconfig(user, namespace)
    argv = [sys.executable, "-m", "kleader", "run", "--name=worker", f"--kubeconfig={config}", "--", "echo", "ran"]
    process = processes.start(argv)
    process.wait_log("leader_observed", r"is somebody\b")
    own_plane.api.merge(lease_path(namespace, "worker"), {"spec": {"holderIdentity": ""}})
    assert process.wait() == 0, process.err
    own_plane.api.delete(lease_path(namespace, "worker"))
    again = processes.start(argv)
    assert again.wait() == 0, again.err
    for each in (process, again):
        assert each.out == "ran\n"
        assert each.logged("released")
        assert "polling" not in each.err
