"""`make install` below a prefix of any name, or a DESTDIR, and `make uninstall`.

An upgrade and a removal leave each kleader that runs its own version.
"""

from __future__ import annotations

import marshal
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import click
import pytest

from tests.process.conftest import file_elector_of, words
from tests.process.test_elector import elector_of
from tests.support.processes import descendants, wait_gone, wait_until
from tools import install as installer
from tools.uninstall import uninstall

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support.checker import Witness
    from tests.support.processes import Process, Processes

    Install = Callable[[str], Path]

pytestmark = [pytest.mark.slow, pytest.mark.source]

ROOT = Path(__file__).parents[2]
PACKAGES = Path(click.__file__).parents[1]


@pytest.fixture
def prefix(tmp_path: Path) -> Path:
    return tmp_path / "it's a prefix"


@pytest.fixture
def install(prefix: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Installs this tree as some version of kleader, with the packages of this Python in the place of an index's."""

    def fetch(tree: Path, wheelhouse: str) -> None:
        tree.mkdir()
        for package in PACKAGES.iterdir():
            (tree / package.name).symlink_to(package)

    def install(version: str) -> Path:
        source = tmp_path / f"source of {version}"
        shutil.copytree(ROOT / "kleader", source / "kleader", ignore=shutil.ignore_patterns("__pycache__"))
        for file in ("tools/install.py", "tools/slim.py", ".requirements/run.txt", "man/kleader.1"):
            (source / file).parent.mkdir(exist_ok=True)
            shutil.copy(ROOT / file, source / file)
        init = source / "kleader" / "__init__.py"
        init.write_text(re.sub(r'(?m)^__version__ = ".*"$', f'__version__ = "{version}"', init.read_text()))
        monkeypatch.setattr(installer, "SOURCE", source)
        monkeypatch.setattr(installer, "fetch", fetch)
        return installer.install(prefix)

    return install


def test_leader_keeps_its_version_through_an_upgrade_and_so_does_its_replacement_elector(
    install: Install, prefix: Path, processes: Processes, witness: Witness, lock: Path
) -> None:
    old = install("1.0")
    leader = processes.start(
        [prefix / "bin/kleader", "run", f"--lock=file:{lock}", "--name=t", "--", *witness.command()]
    )
    witness.wait_start()
    new = install("2.0")
    shown = subprocess.run([prefix / "bin/kleader", "--version"], capture_output=True, text=True, check=True).stdout
    assert shown.split()[-1] == "2.0"
    os.kill(first := file_elector_of(leader), signal.SIGKILL)
    wait_until(lambda: file_elector_of(leader) != first, "another elector")
    assert str(old / "kleader/launch.py") in words(file_elector_of(leader))
    assert old != new
    leader.signal(signal.SIGTERM)
    assert leader.wait() == 0
    witness.check(terms=1)


def electors_of(candidate: Process) -> list[int]:
    return [pid for pid in descendants(candidate.pid) if "elect" in words(pid)]


def test_a_waiting_candidates_replacement_elector_has_its_own_version_after_an_upgrade(
    install: Install, prefix: Path, processes: Processes
) -> None:
    old = install("1.0")
    candidate = processes.start([prefix / "bin/kleader", "run", "--name=t", "-s", "https://127.0.0.1:1", "--", "true"])
    first = elector_of(candidate)
    install("2.0")
    os.kill(first, signal.SIGKILL)
    wait_gone(first)
    wait_until(lambda: electors_of(candidate), "another elector")
    assert str(old / "kleader/launch.py") in words(electors_of(candidate)[0])
    candidate.signal(signal.SIGTERM)
    assert candidate.wait() == 128 + signal.SIGTERM


def test_upgrades_and_downgrades_fail_no_kleader_that_starts_meanwhile(
    install: Install, prefix: Path, lock: Path
) -> None:
    """Each of them finds one whole version, the link being switched at once."""
    install("1.0")
    over, failed, runs = threading.Event(), list[str](), list[int]()

    def run() -> None:
        while not over.is_set():
            argv = [str(prefix / "bin/kleader"), "run", f"--lock=file:{lock}", "--name=t", "--", "true"]
            found = subprocess.run(argv, capture_output=True, text=True, check=False)
            runs.append(found.returncode)
            if found.returncode:
                failed.append(found.stderr)

    running = threading.Thread(target=run)
    running.start()
    try:
        for version in ("2.0", "3.0"):
            install(version)
        wait_until(lambda: runs, "a run")
        link = prefix / "lib/kleader"
        trees = [tree.name for tree in link.parent.glob("kleader-*")]
        for number in range(300):
            installer._link(link, trees[number % 3])
        before = len(runs)
        wait_until(lambda: len(runs) > before + 1, "a last run")
    finally:
        over.set()
        running.join()
    assert not failed
    assert len(trees) == 3


def test_installing_an_installed_version_writes_nothing(install: Install, prefix: Path, tmp_path: Path) -> None:
    tree = install("1.0")
    before = {path: path.lstat().st_mtime_ns for path in tree.rglob("*")}
    shutil.rmtree(tmp_path / "source of 1.0")
    assert install("1.0") == tree
    assert {path: path.lstat().st_mtime_ns for path in tree.rglob("*")} == before
    assert not list(prefix.rglob(".kleader-*"))


def files(below: Path) -> set[str]:
    return {str(path.relative_to(below)) for path in below.rglob("*") if path.is_symlink() or not path.is_dir()}


def test_uninstall_removes_every_version_and_no_file_of_another_program(install: Install, prefix: Path) -> None:
    others = {"bin/other", "lib/kleader-tools/a", "lib/kleader-2.0-doc/a", "share/man/man1/kleader-other.1"}
    for other in others:
        (prefix / other).parent.mkdir(parents=True, exist_ok=True)
        (prefix / other).touch()
    install("1.0")
    install("2.0")
    assert uninstall(prefix) == {}
    assert files(prefix) == others


def test_uninstall_leaves_the_version_that_runs_until_it_has_ended(
    install: Install, prefix: Path, processes: Processes, witness: Witness, lock: Path
) -> None:
    """No kleader can be started meanwhile, and the one that runs still replaces its elector."""
    old = install("1.0")
    leader = processes.start(
        [prefix / "bin/kleader", "run", f"--lock=file:{lock}", "--name=t", "--", *witness.command()]
    )
    witness.wait_start()
    install("2.0")
    left = uninstall(prefix)
    assert {tree: str(leader.pid) in pids for tree, pids in left.items()} == {old: True}
    assert {name for name in files(prefix) if not name.startswith(f"lib/{old.name}/")} == set()
    os.kill(first := file_elector_of(leader), signal.SIGKILL)
    wait_until(lambda: file_elector_of(leader) != first, "another elector")
    leader.signal(signal.SIGTERM)
    assert leader.wait() == 0
    witness.check(terms=1)
    assert uninstall(prefix) == {}
    assert files(prefix) == set()


def make(target: str, **places: str) -> subprocess.CompletedProcess[str]:
    """A target that fetches nothing, or `make install` that ends before it does."""
    argv = ["make", "--silent", "-C", str(ROOT), target, *(f"{key}={value}" for key, value in places.items())]
    env = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))}
    return subprocess.run(argv, capture_output=True, text=True, check=False, env=env)


def test_install_data_has_the_pages_and_completions_of_an_installation_and_nothing_else(
    install: Install, prefix: Path, tmp_path: Path
) -> None:
    found = make("install-data", DESTDIR=f"{tmp_path}/a package's", PREFIX="/usr", PYTHON=sys.executable)
    assert found.returncode == 0, found.stderr
    tree = install("1.0")
    packaged = files(tmp_path / "a package's" / "usr")
    pages = {f"share/man/man{page.suffix[1:]}/{page.name}" for page in (ROOT / "man").iterdir()}
    assert packaged == pages | set(installer.COMPLETIONS.values())
    assert files(tree / "share") == files(prefix / "share")
    assert {f"share/{name}" for name in files(tree / "share")} <= packaged


def test_a_prefix_that_is_not_absolute_is_refused_in_one_line() -> None:
    found = make("install", PREFIX="a b")
    assert found.returncode != 0
    assert [line for line in found.stderr.splitlines() if not line.startswith("make: ")] == [
        "error: PREFIX must be an absolute path: a b"
    ]


def test_destdir_contains_the_tree_that_will_be_below_the_prefix(
    install: Install, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Links are relative, and a traceback names the files where they will be."""
    shutil.rmtree(install("1.0"))
    staged = tmp_path / "staged it"
    tree = installer.install(staged / "usr", str(staged))
    (tmp_path / "moved").mkdir()
    moved = (staged / "usr").rename(tmp_path / "moved" / "usr")
    assert subprocess.run([moved / "bin/kubectl-leader", "--version"], check=True, capture_output=True).stdout
    (compiled,) = (moved / "lib" / tree.name / "kleader" / "__pycache__").glob("launch.*.pyc")
    assert marshal.loads(compiled.read_bytes()[16:]).co_filename == f"/usr/lib/{tree.name}/kleader/launch.py"  # noqa: S302
