"""The standalone tree, in images that have no Python."""

from __future__ import annotations

import json
import platform
import re
import shutil
import signal
import subprocess
import tarfile
from typing import IO, TYPE_CHECKING

import psutil
import pytest

from tests.standalone.conftest import ROOTS, portable_kubeconfig
from tests.support.processes import wait_until
from tools.install import PROGRAMS

if TYPE_CHECKING:
    from pathlib import Path

    from tests.standalone.conftest import Kleader, Root
    from tests.support.plane import Plane
    from tests.support.processes import Process

LIMIT = 25_000_000  # bytes, packed
LOCK = "--lock=file:/run/the.lock"


@pytest.mark.parametrize(
    ("status", "command"),
    [
        (0, ["true"]),
        (3, ["sh", "-c", "exit 3"]),
        (126, ["/opt/kleader/lib/kleader/kleader/launch.py"]),
        (127, ["no-such-command"]),
        (143, ["sh", "-c", "kill -TERM $$"]),
    ],
)
def test_the_status_of_the_command_is_the_containers(
    kleader: Kleader, root: Root, status: int, command: list[str]
) -> None:
    assert kleader(root, "run", LOCK, "--", *command).wait() == status


@pytest.mark.parametrize(
    ("status", "code"), [(0, ""), (3, "raise SystemExit(3)"), (143, "import os; os.kill(os.getpid(), 15)")]
)
def test_an_image_needs_no_shell(kleader: Kleader, distroless: Root, status: int, code: str) -> None:
    """The command is the tree's own Python: such an image has no other program."""
    assert not list(distroless.place.glob("**/bin/sh"))
    ended = kleader(distroless, "run", LOCK, "--", "/opt/kleader/bin/python3", "-c", code)
    assert ended.wait() == status, ended.err


def test_a_failure_to_start_is_125(kleader: Kleader, root: Root) -> None:
    failed = kleader(root, "run", "--lock=file:/no/such/directory", "--", "true")
    assert failed.wait() == 125, failed.err


def test_term_reaches_the_command_and_the_lock_is_free(kleader: Kleader, root: Root) -> None:
    container = kleader(
        root, "run", LOCK, "--", "sh", "-c", "trap 'exit 9' TERM; echo started; while :; do sleep 0.1; done"
    )
    wait_until(lambda: "started" in container.out, "the command")
    kleader.command(container).terminate()
    assert container.wait() == 9
    assert kleader(root, "run", LOCK, "--no-wait", "--", "true").wait() == 0


def test_the_launcher_keeps_sigterm_and_sigint_pending_as_pid_1(tree: Path, tmp_path: Path) -> None:
    """PID 1 loses a signal that it does not handle; a Pod that is deleted before Python runs would go on and lead."""
    launcher, loader = tmp_path / "bin" / "kleader", tmp_path / "lib" / "loader" / "kleader"
    loader.parent.mkdir(parents=True)
    loader.write_text("#!/bin/sh\nexec grep SigBlk /proc/self/status\n")
    loader.chmod(0o755)
    launcher.parent.mkdir()
    shutil.copy(tree / "bin" / "kleader", launcher)
    argv = ["unshare", "--mount", "--pid", "--fork", "--mount-proc", str(launcher)]
    blocked = subprocess.run(argv, check=True, capture_output=True, text=True).stdout.split()[1]
    assert int(blocked, 16) == sum(1 << number - 1 for number in (signal.SIGTERM, signal.SIGINT))


def test_the_tree_s_scripts_are_no_programs(tree: Path) -> None:
    """bin/NAME gives them to the tree's Python; by a #! line another Python would run them."""
    scripts = list((tree / "lib" / "kleader" / "bin").iterdir())
    assert {script.name for script in scripts} == set(PROGRAMS)
    assert not any(script.stat().st_mode & 0o111 or script.read_text().startswith("#!") for script in scripts)


def test_the_command_has_the_environment_of_the_image(kleader: Kleader, root: Root) -> None:
    """The tree adds no LD_* and no PYTHON*, and takes none away; those of the image mean nothing to it."""
    given = {
        "LD_LIBRARY_PATH": "/no/such",
        "LD_PRELOAD": f"/lib/ld-musl-{platform.machine()}.so.1",
        "PATH": "/bin:/usr/sbin",
        "PYTHONHOME": "/no/such",
        "PYTHONPATH": "/no/such",
    }
    container = kleader(root, "run", LOCK, "--", "env", **given)
    assert container.wait() == 0, container.err
    seen = dict(line.split("=", 1) for line in container.out.splitlines())
    assert {name: value for name, value in seen.items() if not name.startswith("KLEADER_")} == {
        **given,
        "PWD": seen["PWD"],
    }


def test_a_copy_of_itself_runs_in_another_image(kleader: Kleader, roots: dict[str, Root]) -> None:
    assert kleader(roots["scratch"], "copy-to", "/run/kleader").wait() == 0
    argv = roots["musl"].argv(kleader.run, "/run/kleader/bin/kleader", "run", LOCK, "--", "sh", "-c", "exit 3")
    assert subprocess.run(argv, check=False).returncode == 3


def test_the_image_starts_its_kleader_from_scratch(kleader: Kleader, archive: Path, roots: dict[str, Root]) -> None:
    """The OCI layout is of one layer, and what its configuration names is in it; the layer is mounted at /run here."""
    with tarfile.open(str(archive).replace(".tar.gz", ".oci.tar")) as image:

        def blob(descriptor: dict[str, str]) -> IO[bytes]:
            found = image.extractfile(f"blobs/{descriptor['digest'].replace(':', '/')}")
            assert found
            return found

        index = image.extractfile("index.json")
        assert index
        manifest = json.load(blob(json.load(index)["manifests"][0]))
        (layer,) = manifest["layers"]
        (program,) = json.load(blob(manifest["config"]))["config"]["Entrypoint"]
        with tarfile.open(fileobj=blob(layer)) as tree:
            tree.extractall(kleader.run)  # noqa: S202 - our own
    argv = roots["scratch"].argv(kleader.run, f"/run{program}", "run", LOCK, "--", "sh", "-c", "exit 3")
    assert subprocess.run(argv, check=False).returncode == 3


def test_ps_shows_each_process_as_kleader(kleader: Kleader, roots: dict[str, Root]) -> None:
    container = kleader(roots["scratch"], "run", LOCK, "--http=127.0.0.1:0", "--", "sleep", "1000")
    container.wait_log("command_started")
    everything = psutil.Process(container.pid).children(recursive=True)
    assert {each.name() for each in everything} == {"kleader", "sleep"}
    assert psutil.Process(container.pid).children() == [kleader.command(container)]  # no second process wraps it


def test_every_library_comes_from_the_tree(tree: Path) -> None:
    loader = tree / "lib" / "loader"
    for file in (loader / "python3", *tree.rglob("*.so*")):
        argv: list[str | Path] = [loader / "kleader", "--inhibit-cache", "--library-path", tree / "lib", "--list", file]
        listed = subprocess.run(argv, capture_output=True, text=True, check=True).stdout.splitlines()
        found = [line.split("=>")[-1].split()[0] for line in listed if " (" in line and "linux-vdso" not in line]
        assert all(each.startswith(str(tree)) for each in found), f"{file}: {found}"


def test_the_tree_finds_a_token_of_an_oidc_provider(tree: Path) -> None:
    """The one use of the package kubernetes, without the models that it would bring."""
    program = (
        "import sys; sys.path.insert(0, sys.argv[1]); from kleader.kube.credential_plugins import ask_oidc;"
        "print(ask_oidc({'id-token': sys.argv[2]}))"
    )
    token = "e30.eyJleHAiOjk5OTk5OTk5OTl9.x"  # {"exp": 9999999999}: it needs no refresh
    argv: list[str | Path] = [tree / "bin" / "python3", "-IS", "-c", program, tree / "lib" / "kleader", token]
    answer = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert answer.stdout.strip() == str({"authorization": f"Bearer {token}"}), answer.stderr


def test_the_archive_is_small_and_lists_its_contents(archive: Path, tree: Path) -> None:
    assert archive.stat().st_size <= LIMIT
    parts = {part["name"]: part for part in json.loads((tree / "share" / "sbom.spdx.json").read_text())["packages"]}
    assert {"kleader", "libc6", "musl", "python3.13-minimal", "kubernetes", "click", "psutil"} <= parts.keys()
    licences = {name: part["licenseDeclared"] for name, part in parts.items() if "pkg:deb/" not in str(part)}
    identifier = re.compile(r"(?!NOASSERTION)[A-Z][\w.-]+( (AND|OR) [\w.-]+)*")
    assert all(map(identifier.fullmatch, licences.values())), licences
    assert (tree / "share" / "man" / "man1" / "kleader-run.1").exists()
    for licence in ("kleader", "libc6", "gcc-14-base", "musl", "common-licenses/LGPL-2.1"):
        assert (tree / "share" / "licences" / licence).exists(), licence


def test_three_images_hand_over_and_survive_a_crash(
    kleader: Kleader, roots: dict[str, Root], plane: Plane, namespace: str
) -> None:
    """On the real API server: the leader ends, the next is killed, and each time another leads."""
    portable_kubeconfig(plane, namespace, kleader.run / "kubeconfig")
    command = 'echo "$KLEADER_IDENTITY $KLEADER_FENCING_TOKEN" >> /run/leaders; exec sleep 1000'
    timings = ("--lease-duration=5s", "--renew-deadline=3s", "--retry-period=1s")

    def start(name: str) -> Process:
        options = (f"--identity={name.replace(' ', '-')}", "--name=x", "--kubeconfig=/run/kubeconfig", *timings)
        return kleader(roots[name], "run", *options, "--", "sh", "-c", command, name=name.replace(" ", "-"))

    def leaders() -> list[str]:
        file = kleader.run / "leaders"
        return [line.split()[0] for line in file.read_text().splitlines()] if file.exists() else []

    candidates = {name.replace(" ", "-"): start(name) for name in ROOTS}
    wait_until(lambda: len(leaders()) == 1, "the first leader")
    first = candidates.pop(leaders()[0])
    kleader.command(first).terminate()
    assert first.wait() == 143
    wait_until(lambda: len(leaders()) == 2, "the next leader")
    kleader.command(candidates.pop(leaders()[1])).kill()
    wait_until(lambda: len(leaders()) == 3, "the last leader")
    assert sorted(leaders()) == sorted(name.replace(" ", "-") for name in ROOTS)
    tokens = [int(line.split()[1]) for line in (kleader.run / "leaders").read_text().splitlines()]
    assert tokens == sorted(set(tokens))
