"""The tests of tests/process, with the standalone kleader, in the oldest Debian that its mirrors have.

The image has no Python, and a C library that is older than the tree's: pytest and the commands that the tests start run
by the tree's Python too. What looks at this source tree (the marker ``source``) is left out.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest

from tests.standalone.test_reproducible import copy_source
from tools.standalone.build import ARCHITECTURES, MINOR
from tools.standalone.debian import SOURCE, Apt, cache_home, fetch, locked, unpack

if TYPE_CHECKING:
    from pathlib import Path

SUITE = "bullseye"  # Debian 11; 10 is on no mirror any more
TOOLS = (
    *("bash", "coreutils", "dash", "findutils", "grep", "hostname", "libc-bin", "login", "mount", "procps", "psmisc"),
    *("sed", "util-linux", "zsh"),
)
FILES = {
    "etc/passwd": "root:x:0:0:root:/root:/bin/sh\n",
    "etc/group": "root:x:0:\n",
    "etc/hosts": "127.0.0.1 localhost\n",
}
# This Debian's unshare starts every program with SIGINT ignored, which kleader respects.
IGNORES_INT = "tests/process/test_life.py::test_a_signal_ends_a_waiting_candidate[as PID 1-INT]"
DIRECTORIES = ("dev", "etc", "home", "mnt", "old", "opt", "proc", "root", "run", "srv", "sys", "tmp", "var/tmp")
# pivot_root, not chroot: in a chroot no user namespace can be made.
ENTER = """
mount --bind "$0" "$0"
cd "$0"
mount -t proc proc proc
mount -t sysfs -o ro sysfs sys
mount --rbind /sys/fs/cgroup sys/fs/cgroup
mount --rbind /dev dev
mount -t tmpfs tmpfs tmp
mount -t tmpfs tmpfs run
pivot_root . old
umount -l old
cd /source
exec "$@"
"""
ENVIRONMENT = {
    "HOME": "/root",
    "KLEADER_TEST_STANDALONE": "/opt/kleader/bin/kleader",
    "LANG": "C.UTF-8",
    "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
    "PYTHONPATH": "/source:/opt/kleader/lib/kleader:/opt/packages:/opt/stdlib",
}


@pytest.mark.timeout(7200)
def test_the_process_suite_passes_with_the_standalone_kleader_in_debian_11(tree: Path, tmp_path: Path) -> None:
    root = tmp_path / "root"
    debian(root)
    copy_source(root / "source")
    shutil.rmtree(root / "source" / "kleader")  # the tree's is tested
    shutil.copytree(tree, root / "opt" / "kleader", copy_function=os.link)
    packages(root / "opt")
    assert not list(root.glob("usr/bin/python*"))
    suite = ["tests/process", "-m", "not source", f"--deselect={IGNORES_INT}"]
    workers = ["--numprocesses=4", "--maxschedchunk=1", "--max-worker-restart=0"]
    pytest_ = ["/opt/kleader/bin/python3", "-m", "pytest", "-p", "no:cacheprovider", *suite, *workers]
    argv = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-ec", ENTER, str(root), *pytest_]
    done = subprocess.run(argv, env=ENVIRONMENT, stdout=subprocess.PIPE, text=True, check=False)
    print(done.stdout)  # noqa: T201 - pytest shows it where this fails
    passed = re.search(r"(?m)^=+ ([0-9]+) passed in ", done.stdout)
    assert passed, "not every test ran and passed"
    assert int(passed[1]) > 400


def debian(root: Path) -> None:
    """Make an image of the packages that the suite's tests use."""
    for package in Apt(ARCHITECTURES[platform.machine()].debian, cache_home(), SUITE).download_all(*TOOLS):
        unpack(package, root)
    for directory in DIRECTORIES:
        (root / directory).mkdir(parents=True, exist_ok=True)
    for file, text in FILES.items():
        (root / file).write_text(text)


def packages(place: Path) -> None:
    """Put pytest and what it needs of the standard library, which the tree leaves out, into a directory."""
    uv = [str(cache_home() / "uv" / "bin" / "uv"), "--quiet", "--no-config", "pip", "install", "--no-deps"]
    hashed = ["--require-hashes", "--only-binary", ":all:", "--python-version", MINOR]
    linux = ["--python-platform", f"{platform.machine()}-manylinux_2_28", "--target", str(place / "packages")]
    cache = {"UV_CACHE_DIR": str(cache_home() / "uv-cache"), "UV_PYTHON_DOWNLOADS": "never"}
    requirements = ["-r", str(SOURCE / ".requirements" / "dev.txt")]
    subprocess.run([*uv, *hashed, *linux, *requirements], check=True, env={**os.environ, **cache})
    (library,) = (
        each for each in locked(ARCHITECTURES[platform.machine()].debian) if each.name == f"libpython{MINOR}-stdlib"
    )
    unpack(fetch(library, cache_home()), place / "unpacked")
    shutil.rmtree(place / "unpacked" / "usr" / "lib" / f"python{MINOR}" / "lib-dynload")
    (place / "unpacked" / "usr" / "lib" / f"python{MINOR}").rename(place / "stdlib")
