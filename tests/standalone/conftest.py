"""The tree that `make standalone` packs, in roots that have no Python: what an image is to a container."""

from __future__ import annotations

import base64
import json
import os
import platform
import shutil
import tarfile
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest

from tests.cluster.conftest import namespace, plane  # noqa: F401 - a fixture is known where it is imported
from tests.support.processes import wait_until
from tools import install
from tools.standalone.build import ARCHITECTURES
from tools.standalone.debian import SOURCE, Apt, cache_home, unpack

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.support.plane import Plane
    from tests.support.processes import Process, Processes

# What each root has beside a busybox that is one static file.
ROOTS = {"scratch": {}, "musl": {"musl": "trixie"}, "glibc 2.31": {"libc6": "bullseye", "dash": "bullseye"}}
UID = 12345  # no root has a passwd
# A root is read-only, has no /tmp and no home; /run is what a container would have mounted.
ENTER = """
mount --bind "$0" "$0"
mount -t proc proc "$0/proc"
mount --bind "$1" "$0/run"
mount -o remount,bind,ro "$0"
uid=$2 root=$0; shift 2
exec chroot --userspec="$uid:$uid" "$root" "$@"
"""


class Root:
    """A root file system, with kleader in /opt/kleader."""

    def __init__(self, place: Path) -> None:
        self.place = place

    def argv(self, run: Path, *command: str | Path) -> list[str]:
        """What runs a command as PID 1 in this root, as a user without a name; ``run``: what is mounted at /run."""
        enter = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-ec", ENTER]
        return [*enter, str(self.place), str(run), str(UID), *map(str, command)]


@pytest.fixture(scope="session")
def archive() -> Path:
    return SOURCE / "dist" / f"kleader-{install.version()}-linux-{platform.machine()}.tar.gz"


@pytest.fixture(scope="session")
def tree(archive: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("tree")
    with tarfile.open(archive) as tar:
        tar.extractall(place)  # noqa: S202 - our own
    (found,) = place.iterdir()
    return found


@pytest.fixture(scope="session")
def roots(tree: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Root]:
    assert os.geteuid() == 0, "a root is entered by root"
    return {name: _root(tree, tmp_path_factory.mktemp("root"), parts) for name, parts in ROOTS.items()}


@pytest.fixture(scope="session")
def distroless(tree: Path, tmp_path_factory: pytest.TempPathFactory) -> Root:
    """A C library, and no shell."""
    return _root(tree, tmp_path_factory.mktemp("root"), {"libc6": "trixie", "base-files": "trixie"}, shell=False)


@pytest.fixture(params=list(ROOTS))
def root(roots: dict[str, Root], request: pytest.FixtureRequest) -> Root:
    return roots[request.param]


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """Where the processes of a root may write: its /run."""
    for directory in (tmp_path, tmp_path / "run"):
        directory.mkdir(exist_ok=True)
        directory.chmod(0o777)
    return tmp_path / "run"


class Kleader:
    """Starts the tree's kleader in a root."""

    def __init__(self, processes: Processes, run: Path) -> None:
        self._processes, self.run = processes, run

    def __call__(self, root: Root, *arguments: str, name: str | None = None, **env: str) -> Process:
        argv = root.argv(self.run, "/opt/kleader/bin/kleader", *arguments)
        clean = {**dict.fromkeys(os.environ), "PATH": os.environ["PATH"], **env}
        return self._processes.start(argv, name=name, env=clean)

    def command(self, process: Process) -> psutil.Process:
        """The kleader itself, which is PID 1 in its root, once it runs."""
        wait_until(lambda: _named(process, "kleader"), "kleader")
        return _named(process, "kleader")[0]


@pytest.fixture
def kleader(processes: Processes, run: Path) -> Kleader:
    return Kleader(processes, run)


def portable_kubeconfig(cluster: Plane, of: str, to: Path) -> None:
    """Write a kubeconfig for a namespace that names no other file."""
    config = json.loads(cluster.kubeconfig(cluster.new_user(), of).read_text())
    for entry in (*(each["cluster"] for each in config["clusters"]), *(each["user"] for each in config["users"])):
        for field in ("certificate-authority", "client-certificate", "client-key"):
            if field in entry:
                entry[f"{field}-data"] = base64.b64encode(Path(entry.pop(field)).read_bytes()).decode()
    to.write_text(json.dumps(config))
    to.chmod(0o644)


def _named(process: Process, name: str) -> list[psutil.Process]:
    try:
        children: Sequence[psutil.Process] = psutil.Process(process.pid).children()
        return [child for child in children if child.name() == name]
    except psutil.NoSuchProcess:
        return []


def _root(tree: Path, place: Path, parts: dict[str, str], *, shell: bool = True) -> Root:
    for package, suite in {**({"busybox-static": "trixie"} if shell else {}), **parts}.items():
        unpack(_part(package, suite), place)
    for directory in ("bin", "dev", "opt", "proc", "run"):
        (place / directory).mkdir(exist_ok=True)
    for busybox in place.glob("**/bin/busybox"):
        for applet in ("env", "sh", "sleep", "true"):
            if not (place / "bin" / applet).exists():
                (place / "bin" / applet).symlink_to("/" + str(busybox.relative_to(place)))
    os.mknod(place / "dev" / "null", 0o666 | 0o020000, os.makedev(1, 3))
    (place / "dev" / "null").chmod(0o666)
    shutil.copytree(tree, place / "opt" / "kleader", copy_function=os.link)
    place.chmod(0o755)
    return Root(place)


def _part(package: str, suite: str) -> Path:
    """A package of Debian, of any version."""
    file = cache_home() / f"{suite}-{package}.deb"
    if not file.exists():
        Apt(ARCHITECTURES[platform.machine()].debian, cache_home(), suite).download(package).rename(file)
    return file
