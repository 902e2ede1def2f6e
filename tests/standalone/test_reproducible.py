"""What is released is of the same bytes wherever it is built."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

from tools.standalone.debian import SOURCE, digest

NOBODY = 65534
AS_NOBODY = [
    "setpriv",
    f"--reuid={NOBODY}",
    f"--regid={NOBODY}",
    "--clear-groups",
    "sh",
    "-c",
    'umask 077; exec "$@"',
    "-",
]
TOMORROW = ["faketime", "-f", "+1d"]


@pytest.mark.timeout(3600)  # it fetches all parts anew
def test_a_build_has_the_same_bytes_for_any_directory_user_umask_and_clock() -> None:
    """The wheel, the source distribution, the archive and the image."""
    assert shutil.which("faketime"), "apt-get install faketime"
    with tempfile.TemporaryDirectory() as elsewhere:
        copy_source(Path(elsewhere, "source"))
        subprocess.run(["chown", "-R", f"{NOBODY}:{NOBODY}", elsewhere], check=True)
        make = ["make", "-C", f"{elsewhere}/source", "dist", "image", "PYTHON=/usr/bin/python3"]
        home = {"HOME": elsewhere, "XDG_CACHE_HOME": f"{elsewhere}/cache", "TZ": "Asia/Kathmandu", "LC_ALL": "C.UTF-8"}
        env = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
        subprocess.run([*AS_NOBODY, *TOMORROW, *make], env=env | home, check=True)
        built = {file.name: digest(file) for file in Path(elsewhere, "source", "dist").iterdir()}
    assert len(built) == 4
    assert built == {name: digest(SOURCE / "dist" / name) for name in built}


def copy_source(to: Path) -> None:
    """All that git knows of, as it is now."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=SOURCE, capture_output=True, check=True, text=True).stdout
    for name in listed.rstrip("\0").split("\0"):
        (to / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(SOURCE / name, to / name)
